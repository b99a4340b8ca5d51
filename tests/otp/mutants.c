/* SPDX-License-Identifier: MIT
 *
 * The core of supervision trees with one wrong belief put in (its number is the first argument; 0: none), behind the same
 * simulator: mutants N --simulate FILE --otp. `make check-otp` must tell each from the real supervisor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int seeded;
#define SEEDED(bug) (seeded == (bug))
#include "daemon/supervise/tree.c"
#include "daemon/supervise/tree_build.c"
#include "daemon/supervise/tree_child.c"
#include "daemon/supervise/tree_decide.c"
#include "daemon/supervise/tree_group.c"
#include "daemon/supervise/tree_inbox.c"
#include "daemon/supervise/tree_read.c"
#include "daemon/supervise/tree_request.c"

#include "daemon/simulate/simulate.h"

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	seeded = atoi(argv[1]);
	argv[1] = argv[0];
	return simulate_main(argc - 1, argv + 1);
}

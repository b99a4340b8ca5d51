/* SPDX-License-Identifier: MIT
 *
 * `sandboxd --simulate`: what a tree of groups would do, from the same core that does it, in virtual time with virtual
 * processes. Reads scenarios, writes results (docs/SUPERVISION.md has both formats); touches nothing else. Runs in
 * control's program, before and without any daemon. */
#ifndef SANDBOXD_SIMULATE_H
#define SANDBOXD_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/simulate/scenario.h"
#include "proto/buf.h"
#include "proto/err.h"

struct simulate_options {
	bool otp;     /* OTP's rules to the letter: all differences off */
	bool explain; /* a sentence for each decision */
	const char *file;
};

/* One line in, one line (with its newline) appended to `to`. -1: err; what was appended is cut off again. */
int simulate_line(const char *line, size_t size, const struct simulate_options *o, struct buf *to, struct err *e);
/* The same of a scenario that was read. */
int simulate_run(struct scenario *s, const struct simulate_options *o, struct buf *to, struct err *e);
/* argv as sandboxd hands it over: --simulate FILE [--otp] [--explain]. Exit status: 0, 1 cannot read or write, 2 usage or a bad scenario. */
int simulate_main(int argc, char **argv);

#endif

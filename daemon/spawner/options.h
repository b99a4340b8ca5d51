/* SPDX-License-Identifier: MIT
 *
 * The command line of sandboxd and the configuration file behind it. Runs in the spawner. */
#ifndef SANDBOXD_OPTIONS_H
#define SANDBOXD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/config.h"
#include "proto/err.h"
#include "proto/fault.h"

struct options {
	const char *socket, *state_dir, *runtime_dir, *config; /* borrowed from argv; NULL: not given */
	const char *weaken, *landlock_abi;                     /* for tests */
	const char *simulate; /* the file, "-": standard input */
	bool otp, explain;    /* with simulate */
	const char *take_over, *can_take_over; /* upgrade.h; for the daemon's own use */
	bool help, version, check_config, debug;
	struct fault faults[LIMIT_FAULTS];
	size_t n_faults;
	uint64_t weaken_bits;                                  /* parsed */
	int abi;                                               /* -1: the kernel's */
};

extern const char options_help[];

/* ERR_BAD_PARAM, ERR_UNKNOWN_PARAM: usage. */
int options_parse(struct options *o, int argc, char **argv, struct err *e);
/* Defaults, then the file, then the command line; checked. */
int options_config(const struct options *o, struct config *c, struct err *e);

#endif

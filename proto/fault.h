/* SPDX-License-Identifier: MIT
 *
 * Faults that an administrator plants to see what becomes of them: `sandboxd --fault POINT=error[:ERRNO]|crash|hang|kill|trace[:N]`. The points
 * are rows of fault_points.def. Off unless asked for: then a point costs the test of one static flag.
 *
 * What is planted, and how often each fault's point has been passed, lies in one page of shared memory: a memfd that the spawner makes,
 * each control gets as CONTROL_FD_FAULTS and each host with BEGIN. So "the N-th time" counts over all processes of the
 * daemon and over their restarts, and a fault happens once. Runs in spawner, control and hosts. */
#ifndef SANDBOXD_FAULT_H
#define SANDBOXD_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"
#include "proto/limits.h"

enum fault_point {
#define X(name, text, process, may_fail) FAULT_##name,
#include "proto/fault_points.def"
#undef X
	FAULT__N
};

enum fault_kind {
	FAULT_ERROR, /* the step fails with this errno */
	FAULT_CRASH, /* SIGABRT */
	FAULT_HANG,  /* the thread stops there for good */
	FAULT_KILL,  /* SIGKILL */
	FAULT_TRACE  /* nothing but a line in the log, each time from the N-th on: to find the N of another */
};

struct fault {
	uint32_t point, kind;
	int32_t sys_errno;
	uint32_t at;     /* the N-th time that the point is passed, from 1 */
	uint32_t passed; /* so often by now; changed atomically */
};

struct fault_page {
	uint32_t magic, n;
	struct fault faults[LIMIT_FAULTS];
};

/* "object.write=error:ENOSPC:2". -1 with err: an unknown point, a kind that it hasn't, a number out of range. */
int fault_parse(const char *text, struct fault *ret, struct err *e);
/* The memfd with these faults, sealed against a change of size; -1 with err. The spawner's; it uses it itself from now on. */
int fault_plant(const struct fault *faults, size_t n, struct err *e);
/* Uses a page that another process has made. Its contents are checked: it may have lain in a host's memory. The descriptor stays the caller's. */
int fault_use(int fd, struct err *e);

extern bool fault_on;
bool fault_pass(enum fault_point point);

/* true: the step is to fail, with errno set. Anything else that is planted happens inside. */
#define FAULT(point) (__builtin_expect(fault_on, 0) && fault_pass(FAULT_##point))

const char *fault_point_text(enum fault_point point);

#endif

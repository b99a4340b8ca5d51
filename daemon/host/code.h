/* SPDX-License-Identifier: MIT
 *
 * One loaded version: object, descriptor, instance. It knows which step it is in, for errors, and tells the
 * death note, for crashes. Runs in sandbox-host and in its copies. */
#ifndef SANDBOXD_HOST_CODE_H
#define SANDBOXD_HOST_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/module/instance.h"
#include "daemon/host/module/object.h"
#include "daemon/host/prepare.h"
#include "proto/err.h"

struct code {
	uint64_t serial; /* 0: nothing is loaded */
	struct object *object;
	struct module_desc *desc;
	struct module_instance *instance;
	const char *step; /* "open", "descriptor", "make", "init", "restore", "check", ... */
	int64_t load_us, restore_us, check_us;
};

/* open, descriptor, make. On failure everything but `step` is undone. */
int code_load(struct code *c, uint64_t serial, const char *path, struct err *e);
int code_replaces(struct code *c, const struct code *old, struct err *e); /* 0: it is another version of the same module */
int code_init(struct code *c, const char *config, size_t size, struct err *e);
/* From a blob in memory: fields, migrate, check. */
int code_restore(struct code *c, const void *blob, uint64_t size, bool backwards, struct state_report *report,
	struct err *e);
/* From a sealed memfd, read or through a private read-only mapping; anything else is refused. prepared: where that mapping may be
 * already; NULL ok. */
int code_restore_fd(struct code *c, int state_fd, const struct prepare *prepared, bool backwards, struct state_report *report,
	struct err *e);
/* Into an open object: "load_us", "module", and with a report "restore_us", "check_us", "report". */
void code_times_json(const struct code *c, const struct state_report *report, struct json_out *o);
/* For instance_host.running: which hook of a restore runs. */
void code_hook(const char *hook);
/* unmake, dlclose. cause: why the object stays mapped; "": it went. Nothing loaded: a no-op. */
void code_unload(struct code *c, char cause[OBJECT_CAUSE_BYTES]);
/* The same for a process that ends, but the object stays mapped: threads may run its code until then. */
void code_leave(struct code *c);

#endif

/* SPDX-License-Identifier: MIT
 *
 * A shared object in this process: the only room of dlfcn.h. Opening runs the object's constructors and
 * closing its destructors, so both can crash, hang or never return. Runs in sandbox-host. */
#ifndef SANDBOXD_HOST_OBJECT_H
#define SANDBOXD_HOST_OBJECT_H

#include "proto/err.h"

#define OBJECT_CAUSE_BYTES 160

struct object;
struct sbx_module;

/* ERR_BAD_IMAGE (the loader refused it), ERR_BAD_MODULE (no descriptor of its own), ERR_WRONG_STATE (already
 * loaded). */
int object_open(const char *path, struct object **ret, struct err *e);
const struct sbx_module *object_descriptor(const struct object *o); /* inside the object; untrusted */
/* cause: why the object is still mapped; "" when it is gone. o NULL: "". */
void object_close(struct object *o, char cause[OBJECT_CAUSE_BYTES]);

/* Loads and drops a small library of libc's own: the loader's pages are this process's own from then on. */
void object_warm_up(void);

#endif

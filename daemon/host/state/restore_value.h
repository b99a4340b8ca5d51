/* SPDX-License-Identifier: MIT
 *
 * What restore.c and restore_value.c share: one saved value into one place in memory. In sandbox-host. */
#ifndef SANDBOXD_HOST_RESTORE_VALUE_H
#define SANDBOXD_HOST_RESTORE_VALUE_H

#include "daemon/host/state/path.h"
#include "daemon/host/state/state.h"

struct restoring {
	struct plan *plan;
	struct arena *arena;
	struct state_report *report;
	struct err *e;
	bool rounded;           /* a value of the field at hand was rounded */
};

/* The short way for what a million values are: one that is as saved (`kind` before and now) and plain. false: nothing was read or
 * done; the long way will do it, or say why it can't. Not for structs and CHARS: always false. */
bool restore_quickly(struct restoring *r, unsigned kind, uint8_t *at, struct cbor_reader *in);
/* A number or bool whose head was read: converted, checked, stored as `kind`. */
int restore_number(struct restoring *r, unsigned kind, void *at, const struct cbor_head *h, const struct path *path);
/* Text or bytes (or null) of a field of kind old_kind into CHARS (room bytes), STR or BYTES; frees what was there. */
int restore_content(struct restoring *r, unsigned old_kind, unsigned kind, void *at, uint64_t room, struct cbor_reader *in,
	const struct path *path);
/* Checks SBX_RANGE. */
int restore_check_range(struct restoring *r, const struct schema_field *f, const void *at, const struct path *path);
/* ERR_LIMIT_EXCEEDED about the path. Returns -1. */
int restore_no_memory(struct restoring *r, const struct path *path, uint64_t bytes);

#endif

/* SPDX-License-Identifier: MIT
 *
 * State to blob and back. A blob is CBOR: [magic, state version, schema, data], or [magic, state version, schema, timers, own,
 * data] where a module has one of these; it can be read without the module. A struct is an array in its schema's order, an absent
 * optional field is `undefined`, a NULL text null, numbers in arrays are typed arrays, maps are maps in the order of insertion.
 * timers: {name: [milliseconds left, period or 0]}. own: the map that `save` wrote, or null. The blob may come from a compromised process: nothing in it is believed. Pure; in sandbox-host. */
#ifndef SANDBOXD_HOST_STATE_H
#define SANDBOXD_HOST_STATE_H

#include "daemon/host/codec/cbor.h"
#include "daemon/host/module/arena.h"
#include "daemon/host/state/report.h"
#include "daemon/host/state/schema.h"

enum { STATE_MAGIC = 0x53425331, STATE_MEMBERS = 4, STATE_MEMBERS_EXTRA = 6 };

/* ---- saving ----
 * self: the state (NULL: none). What it points to must be living memory of the arena. ERR_STATE_MISMATCH with the path;
 * ERR_LIMIT_EXCEEDED beyond LIMIT_STATE_BYTES. Whether it fitted is the writer's to ask. */
int state_save(const struct schema *s, const void *self, const struct arena *a, struct cbor_writer *w, struct err *e);
/* What stands before the data, up to the schema; extra: timers and own follow it, then the data. */
void state_save_head(const struct schema *s, uint32_t version, bool extra, struct cbor_writer *w);
/* One item of an array field alone, at `at`. */
int state_save_item(const struct schema *s, const struct schema_field *f, const void *at, const struct arena *a,
	struct cbor_writer *w, struct err *e);

/* ---- a blob, opened ---- */

struct state_blob {
	uint32_t version;
	struct schema *schema;
	const uint8_t *data;    /* in the blob, to its end. Not looked at yet: that is state_restore's */
	uint64_t data_bytes;
	const uint8_t *timers, *own; /* well-formed CBOR; NULL: none */
	uint64_t timers_bytes, own_bytes;
};

int state_blob_open(const void *blob, uint64_t n, struct state_blob *ret, struct err *e); /* ERR_STATE_MISMATCH */
void state_blob_close(struct state_blob *b);

/* ---- the plan: what becomes of each field, decided once per pair of structs ---- */

#define PLAN_DROPPED UINT32_MAX

struct plan_op {
	uint32_t field;         /* of the new struct; PLAN_DROPPED */
	uint32_t sub;           /* plan for the structs in it */
	bool lossy_told;        /* state_restore's own */
	bool is_plain;          /* one value of the same kind, always there, any will do: the short way, which needs only these: */
	uint8_t kind;
	uint32_t offset;
};
struct plan_pair {
	uint32_t old_struct, new_struct;
	struct plan_op *ops;    /* one per field of the old struct */
};
struct plan {
	const struct schema *from, *to;
	uint32_t n_pairs;
	struct plan_pair *pairs; /* [0]: the state itself */
	bool backwards;
};

/* ERR_STATE_MISMATCH: a field can't be carried over; or, backwards, would be reset. report: NULL ok. */
int plan_make(const struct schema *from, const struct schema *to, bool backwards, struct state_report *report,
	struct plan **ret, struct err *e);
void plan_free(struct plan *p); /* NULL ok */

/* ---- restoring ----
 * self: zeroed memory with its defaults (and what `make` did). ERR_STATE_MISMATCH with path and value; ERR_LIMIT_EXCEEDED. */
int state_restore(struct plan *p, const struct state_blob *b, void *self, struct arena *a, struct state_report *report,
	struct err *e);

#endif

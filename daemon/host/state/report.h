/* SPDX-License-Identifier: MIT
 *
 * What became of each field when state crossed from one schema to another, in the words of docs/MODULES.md.
 * Bounded: what doesn't fit is counted. Pure; runs in sandbox-host. */
#ifndef SANDBOXD_HOST_REPORT_H
#define SANDBOXD_HOST_REPORT_H

#include <stdint.h>

#include "proto/json_out.h"

enum state_word {
	STATE_CARRIED,   /* same name, same kind */
	STATE_ADDED,     /* not in the old state: default, or absent where optional */
	STATE_DROPPED,   /* not in the new schema */
	STATE_RENAMED,   /* found under another name (SBX_WAS) */
	STATE_WIDENED,   /* kind with more room: nothing can be lost */
	STATE_NARROWED,  /* kind with less room: every value was checked and fitted */
	STATE_CONVERTED, /* another kind of number, or text and bytes: every value was checked */
	STATE_LOSSY,     /* a value was rounded */
	STATE_WORD__N
};

#define STATE_REPORT_ENTRIES 128
#define STATE_REPORT_PATH    160

struct state_report {
	uint32_t from_version, to_version;
	uint64_t counts[STATE_WORD__N];          /* of fields, also those that didn't fit below */
	uint32_t n_entries, n_left_out;
	struct {
		enum state_word word;
		char path[STATE_REPORT_PATH];    /* "items[].qty"; cut at the front when longer */
		char from[64], to[64];           /* old and new name or kind; "": nothing to say */
	} entries[STATE_REPORT_ENTRIES];
};

void state_report_clear(struct state_report *r);
/* r, from, to: NULL ok. */
void state_report_add(struct state_report *r, enum state_word word, const char *path, const char *from, const char *to);
const char *state_word_text(enum state_word word);  /* "carried" */
/* {"from_version", "to_version", "carried": ["a", ...], "added": [...], "dropped": [...],
 * "renamed": [{"field", "from", "to"}], ... , "left_out": n}. Words that didn't occur are left out. */
void state_report_json(const struct state_report *r, struct json_out *o, const char *key);

#endif

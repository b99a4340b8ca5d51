/* SPDX-License-Identifier: MIT
 *
 * The history of one sandbox's module: which objects it has run, and which runs now. A version is a number that points to an
 * object; an object that is in the history already keeps its number when it comes back. Pure data, control process. */
#ifndef SANDBOXD_VERSIONS_H
#define SANDBOXD_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/err.h"
#include "proto/json_out.h"
#include "proto/json_scan.h"
#include "proto/limits.h"
#include "proto/names.h"

struct version {
	uint32_t number;              /* 1, 2, 3 ...; 0: an empty slot, or a candidate not yet committed */
	uint32_t state_version;
	uint64_t bytes;
	int64_t loaded_at_ms;         /* wall clock of the last time it became current */
	int64_t first_loaded_at_ms;   /* 0: a history that was kept before this was counted */
	uint32_t loads;               /* how often it became current */
	uint32_t faults;              /* ends of its processes by a fault of the code; may be behind on disk by those since the last change, and so: */
	struct version_figures {
		uint64_t calls, failures;     /* calls answered while it was current; those of them that were answered by an error */
		uint64_t uptime_ms;           /* while it was current and a process served */
		uint32_t crashes;             /* abnormal ends of its processes, by whatever */
		uint32_t rollbacks;           /* how many of the loads were rollbacks to it */
		uint32_t refused;             /* reloads to it that failed */
		uint64_t pause_us, state_bytes; /* of the last reload to it; 0: none yet */
	} figures;
	uid_t author;
	bool from_source;
	bool quarantined;             /* it faulted on probation: refused unless forced */
	char quarantined_why[64];     /* "signal SIGSEGV" */
	char sha256[SHA256_HEX_BYTES + 1];
	char source_name[LIMIT_ID_BYTES + 1];
};

struct versions {
	struct version items[LIMIT_VERSIONS]; /* oldest number first, no gaps */
	size_t n;
	uint32_t last_number;         /* never used again, also when pruned */
	uint32_t reloads, failed_reloads, rollbacks, returns; /* of all: that took, that failed in a step, that went back, that probation took back */
	uint32_t current;             /* number; 0: none yet */
	uint32_t previous;            /* the one that was current before; 0: none, pruned, or quarantined */
	uint32_t keep;                /* how many are kept at most, 2 to LIMIT_VERSIONS; 0: that many. Not saved: it is the spec's */
	bool on_probation;            /* the current one. Not saved: it ends with control */
};

const struct version *versions_find(const struct versions *v, uint32_t number);            /* NULL */
const struct version *versions_find_object(const struct versions *v, const char *sha256);   /* NULL */
const struct version *versions_current(const struct versions *v);                           /* NULL before the first */
/* The candidate becomes current: an object already in the history keeps its number, else it gets the next one, and
 * the oldest but for the one that was current makes room. One that was quarantined isn't any more. Returns its number. */
uint32_t versions_commit(struct versions *v, const struct version *candidate, int64_t wall_ms);
/* The current version has faulted on probation: it is quarantined, and `to` (in the history) is current again. */
void versions_return(struct versions *v, uint32_t to, const char *why, int64_t wall_ms);
void versions_fault(struct versions *v); /* counts one of the current version */
/* Adds to the current version's figures. */
void versions_account(struct versions *v, const struct version_figures *more);
/* A reload to the current version took; or one to `number` (0: to what isn't in the history) failed in a step. */
void versions_note_reload(struct versions *v, bool is_rollback, uint64_t pause_us, uint64_t state_bytes);
void versions_note_failed(struct versions *v, uint32_t number);
/* The current one says which state version it has; a row that was written before it could say so lacks it. */
void versions_note_state_version(struct versions *v, uint32_t state_version);
const char *versions_status(const struct versions *v, const struct version *item);          /* "current", "probation" (current, and not proven), "good" (ran before), "quarantined", "superseded" */

void version_json(const struct version *item, const char *status, struct json_out *o, const char *key); /* an object */
void versions_json(const struct versions *v, struct json_out *o, const char *key);          /* an array, newest first */
void version_members_json(const struct version *item, const char *status, struct json_out *o); /* into an open object */
void version_figures_json(const struct version *item, struct json_out *o);                  /* likewise */
/* What versions_save wrote, checked: -1 with err when it doesn't fit together. */
void versions_save(const struct versions *v, struct json_out *o, const char *key);
int versions_load(struct versions *v, struct json_span saved, struct err *e);
void version_save(const struct version *item, struct json_out *o, const char *key);
int version_load(struct version *item, struct json_span saved, struct err *e);

#endif

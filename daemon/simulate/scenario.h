/* SPDX-License-Identifier: MIT
 *
 * One scenario of `sandboxd --simulate`: a tree, how its processes behave, and what happens to it (docs/SUPERVISION.md).
 * From one line of hostile JSON; all memory is the scenario's own. Control's program, in a process without a daemon. */
#ifndef SANDBOXD_SCENARIO_H
#define SANDBOXD_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/supervise/tree.h"
#include "proto/err.h"

#define SCENARIO_NEVER (-1)
#define SCENARIO_UNSET (-2)

/* What all children of one id share. */
struct scenario_name {
	struct scenario_name *next;
	char id[LIMIT_ID_BYTES + 1];
	bool in_root;
	int64_t fail, ignore;       /* next starts that do */
	int64_t start_ms, stop_ms;  /* SCENARIO_UNSET: as the child says */
	struct tree_ref newest;     /* the process that was made last */
};

struct scenario_child {
	struct scenario_name *name;
	int64_t start_ms, stop_ms; /* stop_ms: SCENARIO_NEVER too */
};

enum scenario_do { SCENARIO_EXIT, SCENARIO_SET, SCENARIO_STOP_ROOT, SCENARIO_REQUEST };
enum scenario_key { SCENARIO_FAIL, SCENARIO_IGNORE, SCENARIO_START_MS, SCENARIO_STOP_MS, SCENARIO_KEY__N };

struct scenario_event {
	int64_t t_ms;
	enum scenario_do what;
	struct scenario_name *name; /* EXIT, SET: of the child; REQUEST: of the group */
	enum tree_exit exit;
	enum scenario_key key;
	int64_t value;
	enum tree_ask ask;
	int64_t number;
	const char *child;
	const struct tree_spec *spec;
};

#define SCENARIO_BUCKETS 1024

struct scenario {
	int64_t id, phase_ms, end_ms;
	struct tree_spec root;
	struct scenario_event *events;
	size_t n_events;
	struct scenario_name *names[SCENARIO_BUCKETS];
	struct scenario_block *blocks;
};

/* -1 with a code of errors.def, the path of the value in the text. scenario_fini in any case. */
int scenario_parse(struct scenario *s, const char *line, size_t size, struct err *e);
void scenario_fini(struct scenario *s);

#endif

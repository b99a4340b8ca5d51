/* SPDX-License-Identifier: MIT
 *
 * The table of sandboxctl's verbs. A row says which method a verb calls and how its operands become that method's parameters;
 * options, help and completion are derived from the row and from the method table (option.h), so that they can't drift. */
#ifndef SANDBOXD_VERB_H
#define SANDBOXD_VERB_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/methods.h"

#define VERB_OPERANDS  3
#define VERB_OWN       3
#define VERB_NO_METHOD (-1)

struct ctl;

/* An option that the method table doesn't have, or another spelling of one that it has. */
struct verb_option {
	const char *name;       /* without "--"; NULL: only a letter for `param`'s own option */
	char letter;            /* 0: none */
	const char *param;      /* the parameter that it gives; NULL: the verb itself reads it */
	const char *help;       /* of one without a parameter */
	const char *value;      /* likewise: the word for its value, with | between choices; NULL: a flag */
};

struct verb {
	const char *name;
	int method;             /* an enum method_id, or VERB_NO_METHOD */
	int (*run)(struct ctl *s); /* returns the exit status */
	const char *operands;   /* as usage shows them */
	const char *operand_params[VERB_OPERANDS]; /* the parameter that each operand gives; NULL: the verb reads it */
	size_t min_operands, max_operands;
	const char *rest_param; /* operands behind the last of operand_params are members of this object; NULL: none */
	bool own_params;        /* it makes its requests itself: their parameters are no options */
	bool takes_code;        /* an operand FILE gives object, or source and source_name */
	const char *help;       /* one sentence, where it isn't the method's */
	const char *notes;      /* what the method's own help doesn't say; NULL: nothing */
	const char *example;
	struct verb_option own[VERB_OWN]; /* ends with neither name nor letter */
};

extern const struct verb verbs[];
extern const size_t n_verbs;

const struct verb *verb_find(const char *name, const char **ret_nearest); /* NULL: unknown; nearest may be NULL */
const struct method *verb_method(const struct verb *v);                   /* NULL: it calls none */
const char *verb_help(const struct verb *v);                              /* one sentence */

/* One function per verb; each in the client/cmd_*.c that has its name. */
int cmd_create_run(struct ctl *s);
int cmd_reload_run(struct ctl *s);
int cmd_rollback_run(struct ctl *s);
int cmd_destroy_run(struct ctl *s);
int cmd_start_run(struct ctl *s);
int cmd_stop_run(struct ctl *s);
int cmd_restart_run(struct ctl *s);
int cmd_freeze_run(struct ctl *s);
int cmd_thaw_run(struct ctl *s);
int cmd_reset_run(struct ctl *s);
int cmd_update_run(struct ctl *s);
int cmd_explain_run(struct ctl *s);
int cmd_profile_list_run(struct ctl *s);
int cmd_profile_show_run(struct ctl *s);
int cmd_profile_validate_run(struct ctl *s);
int cmd_profile_diff_run(struct ctl *s);
int cmd_group_run(struct ctl *s);
int cmd_group_list_run(struct ctl *s);
int cmd_group_info_run(struct ctl *s);
int cmd_group_destroy_run(struct ctl *s);
int cmd_tree_run(struct ctl *s);
int cmd_list_run(struct ctl *s);
int cmd_info_run(struct ctl *s);
int cmd_security_run(struct ctl *s);
int cmd_usage_run(struct ctl *s);
int cmd_call_run(struct ctl *s);
int cmd_cast_run(struct ctl *s);
int cmd_wait_run(struct ctl *s);
int cmd_new_run(struct ctl *s);
int cmd_versions_run(struct ctl *s);
int cmd_state_get_run(struct ctl *s);
int cmd_state_set_run(struct ctl *s);
int cmd_checkpoint_run(struct ctl *s);
int cmd_state_check_run(struct ctl *s);
int cmd_state_diff_run(struct ctl *s);
int cmd_schema_run(struct ctl *s);
int cmd_schema_diff_run(struct ctl *s);
int cmd_history_run(struct ctl *s);
int cmd_commit_run(struct ctl *s);
int cmd_logs_run(struct ctl *s);
int cmd_events_run(struct ctl *s);
int cmd_ping_run(struct ctl *s);
int cmd_doctor_run(struct ctl *s);
int cmd_print_run(struct ctl *s);
int cmd_daemon_info_run(struct ctl *s);
int cmd_shutdown_run(struct ctl *s);
int cmd_upgrade_run(struct ctl *s);
int cmd_help_run(struct ctl *s);

#endif

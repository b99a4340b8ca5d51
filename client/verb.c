/* SPDX-License-Identifier: MIT
 *
 * The rows of the verb table: the one place to look at for what sandboxctl can do. */
#include "client/verb.h"

#include <string.h>

#include "proto/names.h"

const struct verb verbs[] = {
	{ .name = "create", .method = METHOD_SANDBOX_CREATE, .run = cmd_create_run, .operands = "ID FILE",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 2, .takes_code = true,
		.notes = "FILE is a shared object (.so) or a C source (.c), read here with your rights and sent to the daemon.\n"
			 "--object SHA256 stands for FILE where the daemon has the object already.",
		.example = "sandboxctl create web counter.c --restart transient --limit max_memory=64M --label team=a" },
	{ .name = "destroy", .method = METHOD_SANDBOX_DESTROY, .run = cmd_destroy_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl destroy web" },
	{ .name = "start", .method = METHOD_SANDBOX_START, .run = cmd_start_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl start web --state fresh" },
	{ .name = "stop", .method = METHOD_SANDBOX_STOP, .run = cmd_stop_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl stop web" },
	{ .name = "restart", .method = METHOD_SANDBOX_RESTART, .run = cmd_restart_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl restart web" },
	{ .name = "list", .method = METHOD_SANDBOX_LIST, .run = cmd_list_run, .operands = "",
		.notes = "All pages are read, or with --limit one of them. --quiet prints only the ids, one a line.",
		.example = "sandboxctl list --json" },
	{ .name = "info", .method = METHOD_SANDBOX_INFO, .run = cmd_info_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl info web",
		.own = { { .name = "functions", .help = "print only the names of the module's functions, one a line" } } },
	{ .name = "call", .method = METHOD_SANDBOX_CALL, .run = cmd_call_run,
		.operands = "ID FUNCTION [NAME=VALUE | NAME:=JSON]...", .operand_params = { "id", "function" },
		.min_operands = 2, .max_operands = 2, .rest_param = "args",
		.notes = "NAME=VALUE sends a number, true, false or null where VALUE is one by JSON's grammar, else a string\n"
			 "(integers beyond 2^53 too, as decimal strings). NAME:=JSON sends JSON as it is: n:='\"5\"' is a string.\n"
			 "The result is printed as one line of JSON; with --json it is {result, version}.",
		.example = "sandboxctl call web add by=5 name=x obj:='{\"a\":1}'" },
	{ .name = "reload", .method = METHOD_SANDBOX_RELOAD, .run = cmd_reload_run, .operands = "ID FILE",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 2, .takes_code = true,
		.notes = "FILE is a shared object (.so) or a C source (.c), as in create; --object SHA256 may stand for it.",
		.example = "sandboxctl reload web counter_v2.c" },
	{ .name = "rollback", .method = METHOD_SANDBOX_ROLLBACK, .run = cmd_rollback_run, .operands = "ID [VERSION]",
		.operand_params = { "id", "version" }, .min_operands = 1, .max_operands = 2,
		.example = "sandboxctl rollback web 1" },
	{ .name = "versions", .method = METHOD_VERSION_LIST, .run = cmd_versions_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl versions web" },
	{ .name = "logs", .method = METHOD_LOG_READ, .run = cmd_logs_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.notes = "--quiet prints the texts alone, without time and stream.", .example = "sandboxctl logs web -n 20",
		.own = { { .letter = 'n', .param = "lines" } } },
	{ .name = "events", .method = METHOD_EVENT_READ, .run = cmd_events_run, .operands = "",
		.notes = "All pages are read, or with -n one of that size.", .example = "sandboxctl events --sandbox web -n 50",
		.own = { { .letter = 'n', .param = "limit" }, { .name = "since", .param = "since_seq" } } },
	{ .name = "ping", .method = METHOD_DAEMON_PING, .run = cmd_ping_run, .operands = "", .example = "sandboxctl ping" },
	{ .name = "shutdown", .method = METHOD_DAEMON_SHUTDOWN, .run = cmd_shutdown_run, .operands = "",
		.example = "sandboxctl shutdown" },
	{ .name = "daemon-info", .method = METHOD_DAEMON_INFO, .run = cmd_daemon_info_run, .operands = "",
		.example = "sandboxctl daemon-info --json" },
	{ .name = "help", .method = VERB_NO_METHOD, .run = cmd_help_run, .operands = "[VERB]", .max_operands = 1,
		.example = "sandboxctl help create",
		.own = { { .name = "names", .help = "print only names, for completion: of the verbs, or of VERB's options" } } },
};

const size_t n_verbs = sizeof(verbs) / sizeof(verbs[0]);

const struct verb *verb_find(const char *name, const char **ret_nearest)
{
	const char *names[sizeof(verbs) / sizeof(verbs[0])];
	int near;

	for (size_t i = 0; i < n_verbs; i++) {
		names[i] = verbs[i].name;
		if (strcmp(names[i], name) == 0)
			return &verbs[i];
	}
	near = name_nearest(name, names, n_verbs);
	if (ret_nearest)
		*ret_nearest = near >= 0 ? names[near] : NULL;
	return NULL;
}

const struct method *verb_method(const struct verb *v)
{
	return v->method == VERB_NO_METHOD ? NULL : &methods[v->method];
}

const char *verb_help(const struct verb *v)
{
	return v->method == VERB_NO_METHOD ? "Show all verbs, or how one is used." : methods[v->method].help;
}

/* SPDX-License-Identifier: MIT
 *
 * The rows of the verb table: the one place to look at for what sandboxctl can do. */
#include "client/verb.h"

#include <string.h>

#include "proto/names.h"

const struct verb verbs[] = {
	{ .name = "create", .method = METHOD_SANDBOX_CREATE, .run = cmd_create_run, .operands = "ID FILE",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 2, .takes_code = true,
		.notes = "FILE is a shared object (.so) or a C source (.c), or a folder with just one of them, read here with your rights and sent to\n"
			 "the daemon; - is standard\n"
			 "input, where an ELF file is an object and everything else a C source, and --name its name in the compiler's messages.\n"
			 "--object SHA256 stands for FILE where the daemon has the object already.",
		.own = { { .name = "name", .param = "source_name" }, { .name = "shutdown", .param = "shutdown_ms" } },
		.example = "sandboxctl create web counter.c --restart transient --limit max_memory=64M --label team=a" },
	{ .name = "destroy", .method = METHOD_SANDBOX_DESTROY, .run = cmd_destroy_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.notes = "With --keep-history its versions and history are shown as before, until a sandbox of this id is destroyed again. Of the objects\n"
			 "only the hashes stay.",
		.example = "sandboxctl destroy web --keep-history" },
	{ .name = "start", .method = METHOD_SANDBOX_START, .run = cmd_start_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl start web --state fresh" },
	{ .name = "stop", .method = METHOD_SANDBOX_STOP, .run = cmd_stop_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl stop web" },
	{ .name = "restart", .method = METHOD_SANDBOX_RESTART, .run = cmd_restart_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl restart web" },
	{ .name = "freeze", .method = METHOD_SANDBOX_FREEZE, .run = cmd_freeze_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.notes = "Memory, descriptors and connections stay; deadlines of calls go on. stop, restart and destroy thaw it first.",
		.example = "sandboxctl freeze web" },
	{ .name = "thaw", .method = METHOD_SANDBOX_THAW, .run = cmd_thaw_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl thaw web" },
	{ .name = "reset", .method = METHOD_SANDBOX_RESET, .run = cmd_reset_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl reset web && sandboxctl start web" },
	{ .name = "update", .method = METHOD_SANDBOX_UPDATE, .run = cmd_update_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.notes = "A line for each change: the member, its value before and now, and whether its process has it already or comes by it with the next start.\n"
			 "--limit NAME=SIZE changes one limit, --label NAME=TEXT (as often as needed) gives all its labels.",
		.own = { { .name = "now", .help = "restart it, with its state, if something waits for the next start" } },
		.example = "sandboxctl update web --limit max_memory=256M --max-execution-ms 60000" },
	{ .name = "explain", .method = METHOD_SANDBOX_EXPLAIN, .run = cmd_explain_run, .operands = "ID | GROUP",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.notes = "A line is a time and a sentence; the last one says what it is now and what comes next. Of a group the\n"
			 "newest 16 since the daemon's control process began are kept; `sandboxctl events --type group.` has all of them.",
		.example = "sandboxctl explain web" },
	{ .name = "group-create", .method = METHOD_GROUP_CREATE, .run = cmd_group_run, .operands = "GROUP",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.notes = "It may be written `group create`, and so all that follow.",
		.example = "sandboxctl group create shop --strategy rest_for_one && sandboxctl create db db.c --group shop" },
	{ .name = "group-list", .method = METHOD_GROUP_LIST, .run = cmd_group_list_run, .operands = "",
		.notes = "--quiet prints only the ids.",
		.example = "sandboxctl group list" },
	{ .name = "group-info", .method = METHOD_GROUP_INFO, .run = cmd_group_info_run, .operands = "GROUP",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.example = "sandboxctl group info shop" },
	{ .name = "group-destroy", .method = METHOD_GROUP_DESTROY, .run = cmd_group_destroy_run, .operands = "GROUP",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.example = "sandboxctl group destroy shop" },
	{ .name = "group-add", .method = METHOD_GROUP_ADD, .run = cmd_group_run, .operands = "GROUP SANDBOX",
		.operand_params = { "id", "sandbox" }, .min_operands = 2, .max_operands = 2,
		.example = "sandboxctl group add shop web" },
	{ .name = "group-remove", .method = METHOD_GROUP_REMOVE, .run = cmd_group_run, .operands = "GROUP SANDBOX",
		.operand_params = { "id", "sandbox" }, .min_operands = 2, .max_operands = 2,
		.example = "sandboxctl group remove shop web" },
	{ .name = "group-start", .method = METHOD_GROUP_START, .run = cmd_group_run, .operands = "GROUP",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.example = "sandboxctl group start shop" },
	{ .name = "group-stop", .method = METHOD_GROUP_STOP, .run = cmd_group_run, .operands = "GROUP",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.example = "sandboxctl group stop shop" },
	{ .name = "group-restart", .method = METHOD_GROUP_RESTART, .run = cmd_group_run, .operands = "GROUP",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.example = "sandboxctl group restart shop" },
	{ .name = "group-reset", .method = METHOD_GROUP_RESET, .run = cmd_group_run, .operands = "GROUP",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.example = "sandboxctl group reset shop && sandboxctl group start shop" },
	{ .name = "tree", .method = METHOD_GROUP_TREE, .run = cmd_tree_run, .operands = "[GROUP]",
		.operand_params = { "id" }, .min_operands = 0, .max_operands = 1,
		.notes = "Each group with what is in it, in start order; then the sandboxes that are in none.",
		.example = "sandboxctl tree" },
	{ .name = "list", .method = METHOD_SANDBOX_LIST, .run = cmd_list_run, .operands = "",
		.notes = "All pages are read, or with --limit one of them. --quiet prints only the ids, one a line.",
		.example = "sandboxctl list --status failed --label team=a --name 'web-*'" },
	{ .name = "info", .method = METHOD_SANDBOX_INFO, .run = cmd_info_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl info web",
		.own = { { .name = "functions", .help = "print only the names of the module's functions, one a line" },
			{ .name = "check", .help = "exit with status 4 unless it is running; with --quiet nothing is printed" } } },
	{ .name = "usage", .method = METHOD_SANDBOX_USAGE, .run = cmd_usage_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl usage web",
		.notes = "Processor time is given in percent of one processor since anybody last asked, or since the process started. Memory of files is\n"
			 "what others may share; it isn't counted against the limit." },
	{ .name = "security", .method = METHOD_SANDBOX_SECURITY, .run = cmd_security_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl security web",
		.notes = "Where GOT is none, WHY says what keeps the protection away; with --strict no sandbox starts without one. EXPOSURE is what its lack\n"
			 "adds to the sum above: 0 when all protections stand, 10 when none does." },
	{ .name = "call", .method = METHOD_SANDBOX_CALL, .run = cmd_call_run,
		.operands = "ID FUNCTION [NAME=VALUE | NAME:=JSON]...", .operand_params = { "id", "function" },
		.min_operands = 2, .max_operands = 2, .rest_param = "args",
		.notes = "NAME=VALUE sends a number, true, false or null where VALUE is one by JSON's grammar, else a string\n"
			 "(integers beyond 2^53 too, as decimal strings). NAME:=JSON sends JSON as it is: n:='\"5\"' is a string.\n"
			 "The result is printed as one line of JSON; with --json it is {result, version}.",
		.example = "sandboxctl call web add by=5 name=x obj:='{\"a\":1}'" },
	{ .name = "cast", .method = METHOD_SANDBOX_CAST, .run = cmd_cast_run,
		.operands = "ID FUNCTION [NAME=VALUE | NAME:=JSON]...", .operand_params = { "id", "function" },
		.min_operands = 2, .max_operands = 2, .rest_param = "args",
		.notes = "Arguments are given as in call. What the function replies is dropped; `sandboxctl events --sandbox ID` shows a failure.",
		.example = "sandboxctl cast web increment by=5" },
	{ .name = "wait", .method = METHOD_SANDBOX_WAIT, .run = cmd_wait_run, .operands = "ID --for STATE",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.notes = "With --timeout MS the daemon itself ends the waiting. The exit status is 5 when the time is over, 3 when there is no\n"
			 "such sandbox or it was destroyed meanwhile.",
		.example = "sandboxctl wait web --for running --timeout 5000" },
	{ .name = "new", .method = VERB_NO_METHOD, .run = cmd_new_run, .operands = "NAME", .min_operands = 1, .max_operands = 1,
		.help = "Write a folder with a new module: source, Makefile, README.",
		.notes = "NAME is a C identifier that begins with a letter; a folder of this name must not exist. Asks no daemon.",
		.example = "sandboxctl new greeter && sandboxctl create greeter greeter/greeter.c",
		.own = { { .name = "lang", .help = "the language of the source (c)", .value = "c" } } },
	{ .name = "reload", .method = METHOD_SANDBOX_RELOAD, .run = cmd_reload_run, .operands = "ID FILE",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 2, .takes_code = true,
		.notes = "FILE is a shared object (.so), a C source (.c), or - for standard input, as in create; --object SHA256 may stand\n"
			 "for it.",
		.own = { { .name = "name", .param = "source_name" } },
		.example = "sandboxctl reload web counter_v2.c" },
	{ .name = "rollback", .method = METHOD_SANDBOX_ROLLBACK, .run = cmd_rollback_run, .operands = "ID [VERSION]",
		.operand_params = { "id", "version" }, .min_operands = 1, .max_operands = 2,
		.notes = "With --state saved the version begins with the state that was saved when it was left, if that is kept (history): what\n"
			 "was acknowledged since then is given up, and the answer says how much.",
		.own = { { .name = "to", .param = "version" } },
		.example = "sandboxctl rollback web --to 1 --state saved" },
	{ .name = "state-get", .method = METHOD_STATE_GET, .run = cmd_state_get_run, .operands = "ID [VERSION]",
		.operand_params = { "id", "version" }, .min_operands = 1, .max_operands = 2,
		.notes = "It may be written `state get`, and so all that follow. One line of JSON: fields by name, bytes as {\"$bytes\": base64},\n"
			 "integers beyond 2^53 as strings. With --json also timers, what the module's save wrote, and versions.",
		.example = "sandboxctl state get web > before.json" },
	{ .name = "checkpoint", .method = METHOD_STATE_CHECKPOINT, .run = cmd_checkpoint_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.notes = "Calls wait while it is saved. What a restart after a crash begins with is said by --restart-state of create; the next\n"
			 "stop, restart or checkpoint takes its place. --quiet prints only its number.",
		.example = "sandboxctl checkpoint web" },
	{ .name = "state-set", .method = METHOD_STATE_SET, .run = cmd_state_set_run, .operands = "ID [NAME=VALUE | NAME:=JSON]...",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .rest_param = "state",
		.notes = "Values are given as in call. Fields that aren't named stay as they are. It is a reload of the code that runs: calls wait for\n"
			 "milliseconds, a value that doesn't fit or that the module's check refuses changes nothing, and rollback ID --to N --state\n"
			 "saved, with N the version that runs, undoes it.",
		.example = "sandboxctl state set web count=7 owner=ann" },
	{ .name = "state-diff", .method = METHOD_STATE_GET, .run = cmd_state_diff_run, .operands = "A B", .min_operands = 2, .max_operands = 2,
		.own_params = true, .help = "Show where two states differ.",
		.notes = "Each is ID (the present state), ID@VERSION (what that version was left with), or a FILE of state get: a name with / or\n"
			 ".json at its end, or -. + only B has it, - only A, ~ both, and not the same. With --json {differences: [{path, left, right}]}.",
		.example = "sandboxctl state diff before.json web" },
	{ .name = "state-check", .method = METHOD_STATE_CHECK, .run = cmd_state_check_run, .operands = "ID [FILE]",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 2, .takes_code = true,
		.notes = "Exit status 1 when the bytes differ. With FILE (or --object) it is reload --check: would that code take the present state?",
		.own = { { .name = "name", .param = "source_name" } },
		.example = "sandboxctl state check web && sandboxctl state check web web_v2.c" },
	{ .name = "schema", .method = METHOD_SCHEMA_GET, .run = cmd_schema_run, .operands = "ID [VERSION]",
		.operand_params = { "id", "version" }, .min_operands = 1, .max_operands = 2,
		.notes = "A line per field: name: kind (? optional), = default, range, earlier names; then the structs that it names.",
		.example = "sandboxctl schema web" },
	{ .name = "schema-diff", .method = METHOD_SCHEMA_GET, .run = cmd_schema_diff_run, .operands = "A B", .min_operands = 2, .max_operands = 2,
		.own_params = true, .help = "Show where two schemas differ.",
		.notes = "Each is ID, ID@VERSION, or a FILE of schema --json, as in state diff. For code that isn't loaded yet: reload --check.\n"
			 "It may be written `schema diff`.",
		.example = "sandboxctl schema diff web@1 web" },
	{ .name = "versions", .method = METHOD_VERSION_LIST, .run = cmd_versions_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl versions web" },
	{ .name = "history", .method = METHOD_VERSION_HISTORY, .run = cmd_history_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.notes = "CALLS and FAILURES are answers, and those of them that were errors; CRASHES abnormal ends of its processes, FAULTS those by\n"
			 "its own code; REFUSED failed reloads to it. SAVED is when the state was saved that rollback --state saved brings back.",
		.example = "sandboxctl history web" },
	{ .name = "commit", .method = METHOD_VERSION_COMMIT, .run = cmd_commit_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1, .example = "sandboxctl commit web" },
	{ .name = "logs", .method = METHOD_LOG_READ, .run = cmd_logs_run, .operands = "ID",
		.operand_params = { "id" }, .min_operands = 1, .max_operands = 1,
		.notes = "--since takes a time: 10m, 16:05, 2026-11-30 16:05, or ms since 1970; or the number of a line.\n"
			 "With -f the newest 10 lines (-n) come first; it goes on over restarts of the daemon's control process, and\n"
			 "ends with status 0 at SIGINT, when its output is closed, and when the sandbox is destroyed.\n"
			 "--quiet prints the texts alone, without time and stream.", .example = "sandboxctl logs web -f -n 20",
		.own = { { .letter = 'n', .param = "lines" }, { .letter = 'f', .param = "follow" }, { .name = "since", .param = "since_ms" } } },
	{ .name = "events", .method = METHOD_EVENT_READ, .run = cmd_events_run, .operands = "",
		.notes = "All pages are read, or with -n the newest so many; with -n and --since the first so many since then.\n"
			 "--since takes the number of an event, or a time: 10m, 16:05, 2026-11-30 16:05, or ms since 1970.\n"
			 "With -f the newest 10 (-n), or all --since, come first; it goes on over restarts of the daemon, and ends with\n"
			 "status 0 at SIGINT and when its output is closed.", .example = "sandboxctl events -f --sandbox web --type reload.",
		.own = { { .letter = 'n', .param = "limit" }, { .letter = 'f', .param = "follow" }, { .name = "since", .param = "since_seq" } } },
	{ .name = "audit", .method = METHOD_AUDIT_READ, .run = cmd_events_run, .operands = "",
		.notes = "Types: denied.right denied.owner denied.limit denied.call denied.object denied.strict denied.reload, and changed where\n"
			 "the audit level is full. -n, -f, --since and the end are as those of events.",
		.example = "sandboxctl audit --since 1h --type denied.",
		.own = { { .letter = 'n', .param = "limit" }, { .letter = 'f', .param = "follow" }, { .name = "since", .param = "since_seq" } } },
	{ .name = "profile-list", .method = METHOD_PROFILE_LIST, .run = cmd_profile_list_run, .operands = "",
		.notes = "It may be written `profile list`, and so all that follow. OPERATIONS is how many are allowed.",
		.example = "sandboxctl profile list" },
	{ .name = "profile-show", .method = METHOD_PROFILE_SHOW, .run = cmd_profile_show_run, .operands = "PROFILE",
		.operand_params = { "profile" }, .min_operands = 1, .max_operands = 1,
		.notes = "CALLS is how many system calls the operation is to the kernel, LANDLOCK the rights that it needs there. A use of what isn't\n"
			 "allowed gets REFUSED WITH.",
		.example = "sandboxctl profile show high" },
	{ .name = "profile-validate", .method = METHOD_PROFILE_VALIDATE, .run = cmd_profile_validate_run, .operands = "FILE",
		.min_operands = 1, .max_operands = 1, .own_params = true,
		.notes = "FILE is what is to lie in profiles.d; - is standard input. The name is that of the file without .profile. What sandboxd itself\n"
			 "will read, and who may own it: sandboxd --check-config.",
		.example = "sandboxctl profile validate /etc/sandboxd/profiles.d/fetcher.profile",
		.own = { { .name = "name", .help = "the name that the profile is to have, where it isn't the file's", .value = "NAME" } } },
	{ .name = "profile-diff", .method = METHOD_PROFILE_DIFF, .run = cmd_profile_diff_run, .operands = "A B",
		.operand_params = { "a", "b" }, .min_operands = 2, .max_operands = 2, .notes = "Exit status 1 when they differ.",
		.example = "sandboxctl profile diff medium fetcher" },
	{ .name = "ping", .method = METHOD_DAEMON_PING, .run = cmd_ping_run, .operands = "", .example = "sandboxctl ping" },
	{ .name = "shutdown", .method = METHOD_DAEMON_SHUTDOWN, .run = cmd_shutdown_run, .operands = "",
		.example = "sandboxctl shutdown" },
	{ .name = "upgrade", .method = METHOD_DAEMON_UPGRADE, .run = cmd_upgrade_run, .operands = "",
		.notes = "Waits until the new program serves. Status 1: it can't take over, and the message says why; the old one serves on.\n"
			 "systemctl reload sandboxd does the same.", .example = "sandboxctl upgrade" },
	{ .name = "daemon-info", .method = METHOD_DAEMON_INFO, .run = cmd_daemon_info_run, .operands = "",
		.example = "sandboxctl daemon-info --json" },
	{ .name = "doctor", .method = METHOD_DAEMON_DOCTOR, .run = cmd_doctor_run, .operands = "",
		.notes = "A line of FILE is a profile that must work (medium), a profile and a protection that it must have (medium own root), or\n"
			 "the sandboxes that must fit (sandboxes 200); # begins a remark. What isn't met is named, and the exit status is 1.",
		.example = "sandboxctl doctor --require /etc/sandboxd/required",
		.own = { { .name = "require", .help = "end with status 1 unless all that the lines of this file say is there; - is standard input",
			.value = "FILE" } } },
	{ .name = "outcome", .method = METHOD_REQUEST_OUTCOME, .run = cmd_print_run, .operands = "KEY",
		.operand_params = { "request_key" }, .min_operands = 1, .max_operands = 1,
		.notes = "KEY is the request_key that was sent with the request. Prints its state as JSON: unknown, running, or done with the\n"
			 "result or the error.",
		.example = "sandboxctl outcome deploy-2041" },
	{ .name = "discover", .method = METHOD_RPC_DISCOVER, .run = cmd_print_run, .operands = "",
		.notes = "Prints an OpenRPC document.", .example = "sandboxctl discover > openrpc.json" },
	{ .name = "help", .method = VERB_NO_METHOD, .run = cmd_help_run, .operands = "[VERB]", .max_operands = 1,
		.help = "Show all verbs, or how one is used.",
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
	return v->help ? v->help : methods[v->method].help;
}

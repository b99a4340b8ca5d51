/* SPDX-License-Identifier: MIT
 *
 * The rows of the method table. A parameter group that several methods share is a macro, so that it can't drift apart. */
#include "proto/methods.h"

#include <assert.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/names.h"

#define P(name, kind, required, min, max, choices, help) { name, kind, required, min, max, choices, help }
#define P_THE_ID P("id", PARAM_ID, true, 0, 0, NULL, "the sandbox")
#define P_GROUP P("id", PARAM_ID, true, 0, 0, NULL, "the group")
#define P_CODE                                                                                               \
	P("object", PARAM_SHA256, false, 0, 0, NULL, "SHA-256 of a shared object uploaded or stored"),       \
		P("source", PARAM_SHA256, false, 0, 0, NULL, "SHA-256 of an uploaded C source, instead of object"), \
		P("source_name", PARAM_SOURCE_NAME, false, 0, 0, NULL, "its file name, as the compiler's messages show it (module.c)"), \
		P("compile_timeout_ms", PARAM_INTEGER, false, 100, 600000, NULL, "time limit of the compile job (30000)")

#define P_THE_KEY                                                                                            \
	P("request_key", PARAM_TEXT, false, 1, LIMIT_REQUEST_KEY_BYTES, NULL,                                \
		"a name of the client's choice: the same request with it is done once, and request.outcome tells what it came to")

/* of a stream of events or records */
#define P_STREAM \
	P("since_seq", PARAM_TEXT, false, 0, 64, NULL, "only later ones: a seq or the `next` of the page before"), \
		P("since_ms", PARAM_INTEGER, false, 0, 9007199254740991, NULL, "only those since then, in ms since 1970"), \
		P("sandbox", PARAM_ID, false, 0, 0, NULL, "only those of one sandbox"), \
		P("type", PARAM_TEXT, false, 0, 64, NULL, "only those of this type; one that ends with a dot (reload.) stands for all that begin so"), \
		P("limit", PARAM_INTEGER, false, 0, 1000, NULL, "how many at most (100)"), \
		P("newest", PARAM_BOOL, false, 0, 0, NULL, "the newest instead of the first ones (false)"), \
		P("follow", PARAM_BOOL, false, 0, 0, NULL, "send what comes next as notifications (false)")

#define PROFILE_RESULT "{profile, base, built_in, fingerprint, network, audit_level, max_module_size, administrators_only, dynamic_code, forbidden, unlisted," \
	" read_paths, write_paths, namespaces, landlock: {files, network, scopes}, operations: [{operation, allowed, refused_with, calls (how many), landlock, help}]}"
#define STATUSES "initializing|compiling|starting|running|reloading|frozen|stopping|stopped|backoff|failed"
#define TIMEOUT_MAX_MS 86400000

const struct method methods[METHOD__N] = {
	[METHOD_DAEMON_PING] = { "daemon.ping", RIGHT_ANY, "Answer, to show that the daemon serves.", "{pong, version}", { { 0 } } },
	[METHOD_DAEMON_INFO] = { "daemon.info", RIGHT_ANY, "Show the daemon's version, processes, uptime, counts, the caller's rights, and what it owns of what it may: {used, limit}, null for no limit; to administrators what each owner has.",
		"{version, protocol, pid, control_pid, epoch, upgrades, host_build, hosts_of_older_build, uptime_ms, rootless, sandboxes, registry: {problems, writes_pending, objects}, uid, right,"
		" owned: {sandboxes, memory, store_bytes, jobs}, owners, owners_left_off}", { { 0 } } },
	[METHOD_DAEMON_DOCTOR] = { "daemon.doctor", RIGHT_OPERATOR,
		"Examine what this machine can enforce, by making and ending a process of each profile; what is lost, and how to get it.",
		"{version, rootless, kernel, architecture, landlock_abi, cgroup, profiles: [{profile, works, birth_us, error, step, missing, security}],"
		" remedies: [{protection, lost, get}], capacity: {sandboxes, limited_by, open_files, max_sandboxes, present, get}}", { { 0 } } },
	[METHOD_DAEMON_SHUTDOWN] = { "daemon.shutdown", RIGHT_ADMIN, "Stop all sandboxes in order and end the daemon.", "{stopping}", { { 0 } } },
	[METHOD_DAEMON_UPGRADE] = { "daemon.upgrade", RIGHT_ADMIN,
		"Replace the running program by the one that is installed now: sandboxes run on, connections are closed once it is clear that it can; else upgrade_refused, and nothing is touched.",
		"{upgrading, upgrades: so many before this one}", { { 0 } } },
	[METHOD_OBJECT_PUT] = { "object.put", RIGHT_OPERATOR,
		"Upload an object or a source in chunks; it lives as long as the connection, and longer once used.",
		"{upload, received, sha256 (with last)}",
		{ P("upload", PARAM_ID, true, 0, 0, NULL, "a name of the client's choice for this upload"),
			P("offset", PARAM_INTEGER, true, 0, LIMIT_OBJECT_BYTES, NULL, "bytes sent before; chunks come in order"),
			P("data", PARAM_BASE64, true, 0, LIMIT_UPLOAD_CHUNK_BYTES, NULL, "the chunk"),
			P("last", PARAM_BOOL, false, 0, 0, NULL, "this chunk ends the upload (false)") } },
	[METHOD_SANDBOX_CREATE] = { "sandbox.create", RIGHT_OPERATOR,
		"Create a sandbox from an object or a C source and start it; on any failure nothing is left. already_exists shows, as `sandbox`, the one that is there to who may see it.",
		"as sandbox.info, and compiler: {warnings} when compiled",
		{ P_THE_ID, P_CODE, P("config", PARAM_OBJECT, false, 0, 0, NULL, "JSON object for the module's init ({})"),
			P("restart", PARAM_CHOICE, false, 0, 0, "permanent|transient|temporary", "when to restart after an end (permanent)"),
			P("intensity", PARAM_INTEGER, false, 0, 100, NULL, "restarts allowed within period_ms (5)"),
			P("period_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "the window of intensity; it stands still while the sandbox starts or stops (60000)"),
			P("start_timeout_ms", PARAM_INTEGER, false, 10, TIMEOUT_MAX_MS, NULL, "from start to ready (10000)"),
			P("shutdown_ms", PARAM_INTEGER, false, 0, TIMEOUT_MAX_MS, NULL, "from the request to stop until SIGKILL (5000)"),
			P("heartbeat_ms", PARAM_INTEGER, false, 0, TIMEOUT_MAX_MS, NULL, "a host not heard of for so long is killed; 0: nobody watches (0)"),
			P("max_execution_ms", PARAM_INTEGER, false, 0, TIMEOUT_MAX_MS, NULL,
				"how long a call may run; then it gets the attention signal, and a second later its process is killed; 0: without end (300000)"),
			P("restart_state", PARAM_CHOICE, false, 0, 0, "fresh|checkpoint", "what a restart after a crash begins with: nothing, or the newest state kept (fresh)"),
			P("checkpoint", PARAM_CHOICE, false, 0, 0, "none|call",
				"call: save the declared state before each reply, so that a process that is killed takes nothing along that was acknowledged (none)"),
			P("checkpoint_every_ms", PARAM_INTEGER, false, LIMIT_CHECKPOINT_LEAST_MS, TIMEOUT_MAX_MS, NULL,
				"save the state so often while it runs, if it may have changed; restart_state is checkpoint then, unless it is given (never)"),
			P("max_queue", PARAM_INTEGER, false, 1, 65536, NULL, "calls that may wait (1024)"),
			P("profile", PARAM_TEXT, false, 1, LIMIT_ID_BYTES, NULL, "security profile: high, medium, low, or one of the administrator's (medium)"),
			P("audit_level", PARAM_CHOICE, false, 0, 0, "full|basic|none",
				"what is recorded in the audit trail; below the profile's for administrators only (the profile's)"),
			P("address_space", PARAM_CHOICE, false, 0, 0, "shared|fresh",
				"fresh: each of its processes begins with an exec, with a layout and a stack canary that no other has (shared)"),
			P("strict", PARAM_BOOL, false, 0, 0, NULL, "refuse to start unless every protection asked for is enforced (false)"),
			P("persist", PARAM_BOOL, false, 0, 0, NULL, "come back after a restart of the machine; false: no disk is touched (true)"),
			P("group", PARAM_ID, false, 0, 0, NULL, "the group that it is put into; its own restart budget is off then (none)"),
			P("significant", PARAM_BOOL, false, 0, 0, NULL, "its end counts for the group's auto_shutdown (false)"),
			P("probation_ms", PARAM_INTEGER, false, 0, TIMEOUT_MAX_MS, NULL,
				"how long a fault of a new version brings the one before back; 0: never (30000)"),
			P("keep_versions", PARAM_INTEGER, false, 2, LIMIT_VERSIONS, NULL, "versions kept in the history (10)"),
			P("limits", PARAM_OBJECT, false, 0, 0, NULL,
				"{max_memory, max_file_size (bytes), max_processes, max_open_files, max_cpu_percentage (of one processor)}"),
			P("labels", PARAM_OBJECT, false, 0, 0, NULL, "{name: text}, at most 32"),
			P_THE_KEY } },
	[METHOD_SANDBOX_DESTROY] = { "sandbox.destroy", RIGHT_OPERATOR, "Stop a sandbox and remove all that belongs to it.",
		"{id, destroyed}", { P_THE_ID,
			P("keep_history", PARAM_BOOL, false, 0, 0, NULL,
				"its history of versions stays for version.list and version.history, until its id is destroyed again; its objects don't (false)"),
			P_THE_KEY } },
	[METHOD_SANDBOX_START] = { "sandbox.start", RIGHT_OPERATOR, "Start a stopped or failed sandbox.", "as sandbox.info",
		{ P_THE_ID, P("state", PARAM_CHOICE, false, 0, 0, "keep|fresh", "begin with the state of the last orderly stop, or anew (keep)"),
			P_THE_KEY } },
	[METHOD_SANDBOX_STOP] = { "sandbox.stop", RIGHT_OPERATOR, "Save the state and stop a sandbox; after shutdown_ms it is killed.",
		"as sandbox.info",
		{ P_THE_ID, P("state", PARAM_CHOICE, false, 0, 0, "keep|fresh", "keep the state for the next start, or drop it (keep)"),
			P_THE_KEY } },
	[METHOD_SANDBOX_RESTART] = { "sandbox.restart", RIGHT_OPERATOR, "Stop and start a sandbox in a new process; it is counted in restart_count, and in no budget.", "as sandbox.info",
		{ P_THE_ID, P("state", PARAM_CHOICE, false, 0, 0, "keep|fresh", "carry the state over, or begin anew (keep)"),
			P_THE_KEY } },
	[METHOD_SANDBOX_FREEZE] = { "sandbox.freeze", RIGHT_OPERATOR, "Stop every process of a running sandbox where it is; calls wait until it is thawed.",
		"as sandbox.info", { P_THE_ID, P_THE_KEY } },
	[METHOD_SANDBOX_THAW] = { "sandbox.thaw", RIGHT_OPERATOR, "Let a frozen sandbox go on.", "as sandbox.info", { P_THE_ID, P_THE_KEY } },
	[METHOD_SANDBOX_RESET] = { "sandbox.reset", RIGHT_OPERATOR,
		"Make the restart budget and the back-off as new; a failed sandbox is stopped then.", "as sandbox.info", { P_THE_ID, P_THE_KEY } },
	[METHOD_SANDBOX_UPDATE] = { "sandbox.update", RIGHT_OPERATOR,
		"Change what was asked for of a sandbox, all of it or nothing; the answer says of each changed member whether it is in force (live) or comes with the next"
		" start (next_start), and why.",
		"{id, changes: [{member, effect: live | next_start, from, to, why}], pending: [member]}",
		{ P_THE_ID, P("limits", PARAM_OBJECT, false, 0, 0, NULL,
				"members as in sandbox.create; those not named stay. Below what is used now only with force"),
			P("labels", PARAM_OBJECT, false, 0, 0, NULL, "all its labels from now on"),
			P("config", PARAM_OBJECT, false, 0, 0, NULL, "for the module's next init"),
			P("profile", PARAM_TEXT, false, 1, LIMIT_ID_BYTES, NULL, "security profile, from the next start on"),
			P("strict", PARAM_BOOL, false, 0, 0, NULL, "as in sandbox.create, from the next start on"),
			P("address_space", PARAM_CHOICE, false, 0, 0, "shared|fresh", "as in sandbox.create, from the next start on"),
			P("restart", PARAM_CHOICE, false, 0, 0, "permanent|transient|temporary", "when to restart after an end; not of one in a group"),
			P("intensity", PARAM_INTEGER, false, 0, 100, NULL, "restarts allowed within period_ms"),
			P("period_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "the window of intensity"),
			P("start_timeout_ms", PARAM_INTEGER, false, 10, TIMEOUT_MAX_MS, NULL, "from start to ready"),
			P("shutdown_ms", PARAM_INTEGER, false, 0, TIMEOUT_MAX_MS, NULL, "from the request to stop until SIGKILL"),
			P("max_execution_ms", PARAM_INTEGER, false, 0, TIMEOUT_MAX_MS, NULL, "how long a call may run, also the one that runs; 0: without end"),
			P("restart_state", PARAM_CHOICE, false, 0, 0, "fresh|checkpoint", "what a restart after a crash begins with"),
			P("max_queue", PARAM_INTEGER, false, 1, 65536, NULL, "calls that may wait; those that do stay"),
			P("probation_ms", PARAM_INTEGER, false, 0, TIMEOUT_MAX_MS, NULL, "of the next new version; 0: none"),
			P("force", PARAM_BOOL, false, 0, 0, NULL, "take limits also below what is used now: it may be killed for them (false)"),
			P_THE_KEY } },
	[METHOD_SANDBOX_EXPLAIN] = { "sandbox.explain", RIGHT_OPERATOR,
		"Tell in sentences what was decided about a sandbox, or by a group, lately, by which rule and with which numbers; oldest first.",
		"{id, status, status_reason, next, decisions: [{at, kind, text, generation, version, ...}], forgotten}",
		{ P("id", PARAM_ID, true, 0, 0, NULL, "the sandbox, or the group") } },
	[METHOD_SANDBOX_LIST] = { "sandbox.list", RIGHT_ANY, "List the caller's sandboxes, oldest first; administrators see all. Filters hold together. A page may be short, or empty, and have a `next`.",
		"{sandboxes: [{id, status, status_reason, module, version, pid, owner, restart_count, created_at, group, profile, labels}], next}",
		{ P("after", PARAM_ID, false, 0, 0, NULL, "continue behind this id: the `next` of the page before"),
			P("limit", PARAM_INTEGER, false, 1, LIMIT_LIST_PAGE, NULL, "rows in a page (500)"),
			P("status", PARAM_CHOICE, false, 0, 0, STATUSES, "only those in this state"),
			P("label", PARAM_TEXT, false, 1, LIMIT_ID_BYTES + 1 + LIMIT_LABEL_BYTES, NULL, "only those with this label: its name, or name=text"),
			P("group", PARAM_ID, false, 0, 0, NULL, "only those that are in this group itself"),
			P("profile", PARAM_TEXT, false, 1, LIMIT_ID_BYTES, NULL, "only those of this security profile"),
			P("name", PARAM_TEXT, false, 1, LIMIT_PATTERN_BYTES, NULL, "only those whose id matches: * any text, ? a character, [a-z] one of these, [!a-z] none") } },
	[METHOD_SANDBOX_INFO] = { "sandbox.info", RIGHT_OPERATOR, "Show all that is known of a sandbox.",
		"{id, status, pid, generation, owner, module, version, versions, functions, policy, limits, created_at, updated_at, budget and budget_of (whose), last_exit, security, ...}",
		{ P_THE_ID } },
	[METHOD_SANDBOX_USAGE] = { "sandbox.usage", RIGHT_OPERATOR,
		"Show what a sandbox's processes use now: memory, processor time since it was last asked, processes, threads, open files, calls.",
		"{id, pid, generation, uptime_ms, memory: {anon, file, shared, peak, limit}, processes, max_processes, threads,"
		" cpu: {time_us, percent, over_ms}, open_files, max_open_files, queue, percent: {memory, processes, open_files, queue} (of the limits), complete, by}",
		{ P_THE_ID } },
	[METHOD_SANDBOX_SECURITY] = { "sandbox.security", RIGHT_OPERATOR,
		"Show which protections stand around a sandbox's process: its own report, made before anything of the module ran.",
		"{id, profile, profile_fingerprint, audit_level, strict, generation, missing: [protection], exposure (0 to 10), rating, security: [{protection, asked, got, by, why}]}",
		{ P_THE_ID } },
	[METHOD_SANDBOX_CALL] = { "sandbox.call", RIGHT_OPERATOR, "Call a function of the module; calls of one connection begin in order.",
		"{result, version}",
		{ P_THE_ID, P("function", PARAM_FUNCTION, true, 0, 0, NULL, "the function"),
			P("args", PARAM_OBJECT, false, 0, 0, NULL, "its arguments by name ({})"),
			P("timeout_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "ends the waiting, not the call (30000)"),
			P_THE_KEY } },
	[METHOD_SANDBOX_CAST] = { "sandbox.cast", RIGHT_OPERATOR,
		"Call a function of the module without its result: answered when the function begins; a failure becomes the event call.failed.",
		"{taken, version}",
		{ P_THE_ID, P("function", PARAM_FUNCTION, true, 0, 0, NULL, "the function"),
			P("args", PARAM_OBJECT, false, 0, 0, NULL, "its arguments by name ({})"),
			P("timeout_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "how long it may take until the function begins (30000)") } },
	[METHOD_SANDBOX_WAIT] = { "sandbox.wait", RIGHT_OPERATOR,
		"Wait until a sandbox is in a state; one that doesn't exist is gone.", "{id, status, waited_ms}",
		{ P_THE_ID,
			P("for", PARAM_CHOICE, true, 0, 0,
				STATUSES "|gone",
				"the state; gone: destroyed, or never there"),
			P("timeout_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "how long to wait (30000)") } },
	[METHOD_SANDBOX_RELOAD] = { "sandbox.reload", RIGHT_OPERATOR,
		"Replace the running code by another version, with its state, as a transaction.",
		"{outcome: reloaded | no_change | checked, from, to, rung, rung_reason, steps_us, pause_us, held_us, state_bytes, report, calls_queued, calls_running, pinned,"
		" probation_ms}",
		{ P_THE_ID, P_CODE, P("check", PARAM_BOOL, false, 0, 0, NULL, "rehearse it and say what would become of the state; nothing is changed (false)"),
			P("mode", PARAM_CHOICE, false, 0, 0, "auto|in_place|replace",
				"in the process that runs, or in a second one that takes over; auto: replace under profile high and where in_place can't be (auto)"),
			P("force", PARAM_BOOL, false, 0, 0, NULL, "take it also if it is quarantined (false)"),
			P("quiesce_timeout_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "how long a running call may hold the reload up (5000)"),
			P("rehearse_timeout_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "time limit of the rehearsal, and of the load (10000)"),
			P_THE_KEY } },
	[METHOD_SANDBOX_ROLLBACK] = { "sandbox.rollback", RIGHT_OPERATOR, "Reload an older version, with the present state, or with the one that it was left with.",
		"as sandbox.reload, and state_from, saved_at, acknowledged_since (with state saved)",
		{ P_THE_ID, P("version", PARAM_INTEGER, false, 1, INT32_MAX, NULL, "which (the one that ran before the current one)"),
			P("state", PARAM_CHOICE, false, 0, 0, "current|saved",
				"carry the present state over, or take the one that was saved when that version was left, and give up what came since (current)"),
			P("mode", PARAM_CHOICE, false, 0, 0, "auto|in_place|replace",
				"as in sandbox.reload (auto)"),
			P("force", PARAM_BOOL, false, 0, 0, NULL, "take it also if it is quarantined (false)"),
			P("quiesce_timeout_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "as in sandbox.reload (5000)"),
			P("rehearse_timeout_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "as in sandbox.reload (10000)"),
			P_THE_KEY } },
	[METHOD_GROUP_CREATE] = { "group.create", RIGHT_OPERATOR, "Create a group, empty, and start it: a supervision tree, or a part of one.",
		"as group.info",
		{ P_GROUP, P("parent", PARAM_ID, false, 0, 0, NULL, "the group that it is in (none)"),
			P("strategy", PARAM_CHOICE, false, 0, 0, "one_for_one|one_for_all|rest_for_one", "whom the end of a member touches (one_for_one)"),
			P("intensity", PARAM_INTEGER, false, 0, 100, NULL, "restarts of members allowed within period_ms; one more, and the group gives up (5)"),
			P("period_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "the window of intensity (60000)"),
			P("auto_shutdown", PARAM_CHOICE, false, 0, 0, "never|any_significant|all_significant", "end the group when significant members have ended (never)"),
			P("restart", PARAM_CHOICE, false, 0, 0, "permanent|transient|temporary", "when its parent restarts it (permanent)"),
			P("significant", PARAM_BOOL, false, 0, 0, NULL, "its end counts for its parent's auto_shutdown (false)"), P_THE_KEY } },
	[METHOD_GROUP_LIST] = { "group.list", RIGHT_OPERATOR, "List the caller's groups, oldest first; administrators see all.", "{groups: [as group.info]}", { { 0 } } },
	[METHOD_GROUP_INFO] = { "group.info", RIGHT_OPERATOR, "Show a group, its restart budget and its members in start order.",
		"{id, status, status_reason, owner, parent, strategy, auto_shutdown, restart, significant, wanted, budget, restart_count, created_at, members}", { P_GROUP } },
	[METHOD_GROUP_DESTROY] = { "group.destroy", RIGHT_OPERATOR, "Remove a group that has no members.", "{id, destroyed}", { P_GROUP, P_THE_KEY } },
	[METHOD_GROUP_ADD] = { "group.add", RIGHT_OPERATOR, "Put a sandbox that is on its own into a group, at the end of the start order; one that runs runs on.",
		"as sandbox.info",
		{ P_GROUP, P("sandbox", PARAM_ID, true, 0, 0, NULL, "the sandbox"),
			P("significant", PARAM_BOOL, false, 0, 0, NULL, "its end counts for auto_shutdown (false)"), P_THE_KEY } },
	[METHOD_GROUP_REMOVE] = { "group.remove", RIGHT_OPERATOR, "Take a sandbox out of its group: it is stopped, and started again on its own with its state.",
		"as sandbox.info", { P_GROUP, P("sandbox", PARAM_ID, true, 0, 0, NULL, "the sandbox"), P_THE_KEY } },
	[METHOD_GROUP_START] = { "group.start", RIGHT_OPERATOR, "Start a group that is down or failed: its members in order.", "as group.info", { P_GROUP, P_THE_KEY } },
	[METHOD_GROUP_STOP] = { "group.stop", RIGHT_OPERATOR, "Stop a group: its members in reverse order; their states are kept.", "as group.info", { P_GROUP, P_THE_KEY } },
	[METHOD_GROUP_RESTART] = { "group.restart", RIGHT_OPERATOR, "Stop a group and start it again.", "as group.info", { P_GROUP, P_THE_KEY } },
	[METHOD_GROUP_RESET] = { "group.reset", RIGHT_OPERATOR, "Make the restart budgets of a whole tree as new; one that is failed is down then.", "as group.info", { P_GROUP, P_THE_KEY } },
	[METHOD_GROUP_TREE] = { "group.tree", RIGHT_OPERATOR, "Show groups with all that is in them, and the sandboxes that are in none.",
		"{groups: [as group.info, members likewise], sandboxes: [as in sandbox.list, and budget]}",
		{ P("id", PARAM_ID, false, 0, 0, NULL, "only this group (all)") } },
	[METHOD_PROFILE_LIST] = { "profile.list", RIGHT_OPERATOR, "List the security profiles: those that are built in, and the administrator's.",
		"{profiles: [{profile, base, built_in, fingerprint, network, audit_level, max_module_size, administrators_only, dynamic_code, operations (how many)}]}",
		{ { 0 } } },
	[METHOD_PROFILE_SHOW] = { "profile.show", RIGHT_OPERATOR, "Show a security profile: its settings, and of each operation whether it is allowed, and what it is to the kernel.",
		PROFILE_RESULT, { P("profile", PARAM_ID, true, 0, 0, NULL, "the profile") } },
	[METHOD_PROFILE_VALIDATE] = { "profile.validate", RIGHT_OPERATOR,
		"Read the text of a profile as the daemon would at its start, and show what it comes to; nothing is changed. A bad one is bad_param or the like, with the line.",
		PROFILE_RESULT,
		{ P("text", PARAM_TEXT, true, 0, LIMIT_PROFILE_BYTES, NULL, "the text of the file"),
			P("name", PARAM_ID, false, 0, 0, NULL, "the name that it is to have (profile)") } },
	[METHOD_PROFILE_DIFF] = { "profile.diff", RIGHT_OPERATOR, "Show where two security profiles differ.",
		"{a, b, same, operations: [{operation, a, b}] (allowed or not), settings: [{setting, a, b}]}",
		{ P("a", PARAM_ID, true, 0, 0, NULL, "a profile"), P("b", PARAM_ID, true, 0, 0, NULL, "another one") } },
	[METHOD_REQUEST_OUTCOME] = { "request.outcome", RIGHT_OPERATOR,
		"Tell what the caller's request with a key came to, also after its connection or the control process has ended.",
		"{state: unknown | running | done, method, id, result | error (when done)}",
		{ P("request_key", PARAM_TEXT, true, 1, LIMIT_REQUEST_KEY_BYTES, NULL, "the key that was sent with it") } },
	[METHOD_RPC_DISCOVER] = { "rpc.discover", RIGHT_ANY, "Describe all methods, their parameters, results and errors.",
		"an OpenRPC 1.3 document", { { 0 } } },
	[METHOD_STATE_GET] = { "state.get", RIGHT_OPERATOR, "Show the state of a running sandbox as JSON, by the names of its fields; calls go on.",
		"{id, version, state_version, state_bytes, state, timers: {name: [ms left, period or 0]} | null, own: what the module's save wrote | null}",
		{ P_THE_ID, P("version", PARAM_INTEGER, false, 1, INT32_MAX, NULL, "the state that this version was left with (the present one)") } },
	[METHOD_STATE_SET] = { "state.set", RIGHT_OPERATOR,
		"Give fields of a running sandbox's state other values, as a transaction: checked against the schema and by the module, else nothing is changed.",
		"as sandbox.reload, with outcome set",
		{ P_THE_ID, P("state", PARAM_OBJECT, true, 0, 0, NULL, "{field: value} as state.get shows them; what isn't named stays, null makes an optional field absent"),
			P("quiesce_timeout_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "as in sandbox.reload (5000)"),
			P("rehearse_timeout_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "as in sandbox.reload (10000)") } },
	[METHOD_STATE_CHECKPOINT] = { "state.checkpoint", RIGHT_OPERATOR,
		"Save the state of a running sandbox, which serves on: it is what a restart after a crash begins with where restart_state is checkpoint, and the"
		" newest on disk where it persists.",
		"{id, version, checkpoint (its number), saved_at, state_bytes, sha256, pause_us, held_us, acknowledged (calls, since control began)}",
		{ P_THE_ID, P("quiesce_timeout_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "how long a running call may hold it up (5000)") } },
	[METHOD_STATE_CHECK] = { "state.check", RIGHT_OPERATOR,
		"Prove that the state survives: saved, restored into a new instance of the same code and saved again it must be the same bytes. With code: would that take the"
		" present state? As sandbox.reload with check.",
		"{id, version, state_bytes, same, state_bytes_again, differs_at, report}; with code as sandbox.reload",
		{ P_THE_ID, P_CODE, P("rehearse_timeout_ms", PARAM_INTEGER, false, 1, TIMEOUT_MAX_MS, NULL, "as in sandbox.reload (10000)") } },
	[METHOD_SCHEMA_GET] = { "schema.get", RIGHT_OPERATOR, "Show what a version's state is made of: fields with kinds, defaults, ranges, earlier names.",
		"{id, version, state_version, state: [{name, kind, optional, default, range, was}], structs: [{name, fields}]}",
		{ P_THE_ID, P("version", PARAM_INTEGER, false, 1, INT32_MAX, NULL,
			"an older version, from the state that it was left with: kinds and earlier names (the current one)") } },
	[METHOD_VERSION_LIST] = { "version.list", RIGHT_OPERATOR, "List the versions kept of a sandbox's module, newest first; of one that was destroyed with keep_history too, then with destroyed_at.",
		"{id, module, destroyed_at, current, versions: [{version, status, origin, sha256, bytes, state_version, loaded_at, first_loaded_at, loads, faults, quarantined, author,"
		" source_name}]}", { P_THE_ID } },
	[METHOD_VERSION_HISTORY] = { "version.history", RIGHT_OPERATOR,
		"Show what each version kept has done: calls, failures, crashes, uptime, its last reload; and the state that it was left with, if that is kept."
		" Of a sandbox that was destroyed with keep_history too, then with destroyed_at.",
		"{id, module, destroyed_at, current, total_versions, reloads, failed_reloads, rollbacks, returns, versions: [as in version.list, and calls, failures, uptime_ms, crashes,"
		" rollbacks, refused, pause_us, state_bytes, saved: {at, state_bytes, acknowledged_since} | null]}", { P_THE_ID } },
	[METHOD_VERSION_COMMIT] = { "version.commit", RIGHT_OPERATOR, "End the probation of the version that runs: it is as any other from now on.",
		"{id, version, was_on_probation}", { P_THE_ID } },
	[METHOD_LOG_READ] = { "log.read", RIGHT_OPERATOR, "Read the newest lines that a sandbox wrote, and with follow those to come.",
		"{lines: [{at, stream, level, text, partial}], dropped_bytes, next, subscription (with follow)}",
		{ P_THE_ID, P("lines", PARAM_INTEGER, false, 0, 10000, NULL, "how many at most (100)"),
			P("since_ms", PARAM_INTEGER, false, 0, 9007199254740991, NULL, "only those since then, in ms since 1970"),
			P("since_seq", PARAM_TEXT, false, 0, 64, NULL, "only those behind this one: a `next`, or the seq of a line followed"),
			P("follow", PARAM_BOOL, false, 0, 0, NULL, "send what comes next as notifications (false)") } },
	[METHOD_EVENT_READ] = { "event.read", RIGHT_ANY,
		"Read the events of the caller's sandboxes and groups in order, and with follow those to come; administrators see all.",
		"{events: [{seq, at, type, sandbox, ...}], next, gap, subscription (with follow)}",
		{ P_STREAM } },
	[METHOD_AUDIT_READ] = { "audit.read", RIGHT_OPERATOR,
		"Read what was refused to the caller's sandboxes, and under full audit who changed them; administrators read all.",
		"{events: [{seq, at, type, sandbox, uid, version, ...}], next, gap, subscription (with follow)}", { P_STREAM } },
	[METHOD_STREAM_END] = { "stream.end", RIGHT_ANY, "End a subscription of this connection.", "{subscription, ended}",
		{ P("subscription", PARAM_INTEGER, true, 1, INT32_MAX, NULL, "its number, as event.read or log.read gave it") } },
};

size_t method_n_params(const struct method *m)
{
	size_t n = 0;

	while (n < METHOD_MAX_PARAMS && m->params[n].name)
		n++;
	return n;
}

enum method_id method_id_of(const struct method *m)
{
	return (enum method_id)(m - methods);
}

const struct method *method_find(const char *name, size_t size, const char **ret_nearest)
{
	const char *names[METHOD__N];
	char text[64];
	int near;

	for (size_t i = 0; i < METHOD__N; i++) {
		names[i] = methods[i].name;
		if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0)
			return &methods[i];
	}
	if (!ret_nearest)
		return NULL;
	*ret_nearest = NULL;
	if (size >= sizeof text)
		return NULL;
	memcpy(text, name, size);
	text[size] = '\0';
	near = name_nearest(text, names, METHOD__N);
	if (near >= 0)
		*ret_nearest = names[near];
	return NULL;
}

const char *param_kind_text(enum param_kind kind)
{
	switch (kind) {
	case PARAM_ID:
		return "id";
	case PARAM_TEXT:
		return "text";
	case PARAM_INTEGER:
		return "integer";
	case PARAM_BOOL:
		return "boolean";
	case PARAM_CHOICE:
		return "choice";
	case PARAM_OBJECT:
		return "object";
	case PARAM_ANY:
		return "any JSON value";
	case PARAM_SHA256:
		return "sha256";
	case PARAM_SOURCE_NAME:
		return "file name that ends in .c";
	case PARAM_FUNCTION:
		return "function name";
	case PARAM_BASE64:
		return "base64";
	}
	return "?";
}

bool method_has_param(const struct method *m, const char *name)
{
	for (size_t i = 0; i < METHOD_MAX_PARAMS && m->params[i].name; i++)
		if (strcmp(m->params[i].name, name) == 0)
			return true;
	return false;
}

bool method_is_change(const struct method *m)
{
	return m != &methods[METHOD_SANDBOX_CALL] && m != &methods[METHOD_SANDBOX_CAST] && method_has_param(m, "request_key");
}

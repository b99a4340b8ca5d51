/* SPDX-License-Identifier: MIT
 *
 * Two tables: steps, and protections. In this version the spawner has set what exists (uid, groups,
 * capabilities, session, limits) before exec; the walls (namespaces, Landlock, filters, cgroups) aren't
 * built, and the report says so. */
#include "daemon/host/confine.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/json_out.h"
#include "proto/json_scan.h"

static const char *const profile_names[] = {
	[PROFILE_HIGH] = "high",
	[PROFILE_MEDIUM] = "medium",
	[PROFILE_LOW] = "low",
};
_Static_assert(sizeof profile_names / sizeof *profile_names == PROFILE__N, "name every profile");

/* ---- what was asked ---- */

static int parse_limit(struct host_limits *l, struct json_span key, struct json_span value, struct err *e)
{
	uint64_t v;

	if (!json_u64(value, &v))
		return err_set(e, ERR_BAD_PARAM, "HOST_BEGIN: a limit isn't a whole number");
	if (json_string_is(key, "max_memory_bytes"))
		l->max_memory_bytes = v;
	else if (json_string_is(key, "max_file_size_bytes"))
		l->max_file_size_bytes = v;
	else if (json_string_is(key, "max_stack_bytes"))
		l->max_stack_bytes = v;
	else if (json_string_is(key, "max_processes") && v <= UINT32_MAX)
		l->max_processes = (uint32_t)v;
	else if (json_string_is(key, "max_open_files") && v <= UINT32_MAX)
		l->max_open_files = (uint32_t)v;
	else
		return err_set(e, ERR_BAD_PARAM, "HOST_BEGIN: unknown limit, or out of range: %.*s",
			(int)key.size, key.at);
	return 0;
}

static int parse_member(struct confine *c, struct json_span key, struct json_span value, struct err *e)
{
	if (json_string_is(key, "profile")) {
		for (int i = 0; i < PROFILE__N; i++)
			if (json_string_is(value, profile_names[i])) {
				c->profile = (enum profile)i;
				return 0;
			}
		return err_set(e, ERR_BAD_PARAM, "HOST_BEGIN: unknown profile");
	}
	if (json_string_is(key, "limits") && json_type(value) == '{') {
		struct json_iter it = json_iter_begin(value);
		struct json_span name, limit;

		while (json_iter_next(&it, &name, &limit))
			if (parse_limit(&c->limits, name, limit, e) < 0)
				return -1;
		return 0;
	}
	return err_set(
		e, ERR_BAD_PARAM, "HOST_BEGIN: unknown key or wrong type: %.*s", (int)key.size, key.at);
}

int confine_parse(struct confine *c, const char *json, size_t size, int channel_fd, struct err *e)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t peer_size = sizeof peer;
	struct json_span key, value, whole;
	struct json_iter it;

	*c = (struct confine){ .profile = PROFILE__N };
	if (json_check(json, size, e) < 0)
		return err_prefix(e, "HOST_BEGIN");
	whole = (struct json_span){ json, size };
	if (json_type(whole) != '{')
		return err_set(e, ERR_BAD_PARAM, "HOST_BEGIN: the body isn't an object");
	for (it = json_iter_begin(whole); json_iter_next(&it, &key, &value);)
		if (parse_member(c, key, value, e) < 0)
			return -1;
	if (c->profile == PROFILE__N)
		return err_set(e, ERR_BAD_PARAM, "HOST_BEGIN: the profile is missing");
	if (getsockopt(channel_fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) < 0)
		return err_sys(e, ERR_INTERNAL, "cannot see who made the channel");
	c->spawner_uid = peer.uid;
	return 0;
}

/* ---- steps ---- */

static int step_not_dumpable(const struct confine *c)
{
	(void)c;
	return prctl(PR_SET_DUMPABLE, 0); /* exec had set it again */
}

static int step_no_new_privileges(const struct confine *c)
{
	(void)c;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static const struct step {
	const char *name;
	int (*run)(const struct confine *c);
} steps[] = {
	{ "make the process non-dumpable", step_not_dumpable },
	{ "refuse new privileges", step_no_new_privileges },
};

int confine_apply(const struct confine *c, struct err *e)
{
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		if (steps[i].run(c) < 0)
			return err_sys(e, ERR_START_FAILED, "confinement: cannot %s", steps[i].name);
	return 0;
}

/* ---- facts ---- */

struct fact {
	char asked[48], got[48], why[128]; /* got "": none */
};

static void fact_yes(struct fact *f, bool yes, const char *why_not)
{
	(void)snprintf(f->got, sizeof f->got, "%s", yes ? f->asked : "");
	(void)snprintf(f->why, sizeof f->why, "%s", yes ? "" : why_not);
}

static bool has_own_uid(const struct confine *c)
{
	return getuid() != 0 && getuid() == geteuid() && getuid() != c->spawner_uid;
}

static void fact_own_uid(const struct confine *c, struct fact *f)
{
	fact_yes(f, has_own_uid(c),
		getuid() == 0 ? "it runs as root" : "it shares the uid of the daemon, which isn't root");
}

static void fact_groups(const struct confine *c, struct fact *f)
{
	(void)c;
	fact_yes(f, getgroups(0, NULL) == 0, "an ordinary user's daemon can't drop groups");
}

static void fact_capabilities(const struct confine *c, struct fact *f)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2] = { { 0 } };
	bool read = syscall(SYS_capget, &head, sets) == 0;

	(void)c;
	fact_yes(f,
		read && !(sets[0].effective | sets[0].permitted | sets[0].inheritable | sets[1].effective |
				sets[1].permitted | sets[1].inheritable),
		read ? "some are left" : "they can't be read");
}

static void fact_no_new_privileges(const struct confine *c, struct fact *f)
{
	(void)c;
	fact_yes(f, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "not set");
}

static void fact_not_dumpable(const struct confine *c, struct fact *f)
{
	(void)c;
	fact_yes(f, prctl(PR_GET_DUMPABLE) == 0, "not set");
}

static void fact_session(const struct confine *c, struct fact *f)
{
	(void)c;
	fact_yes(f, getsid(0) == getpid(), "it shares a session");
}

static void fact_parent_death(const struct confine *c, struct fact *f)
{
	int number = 0;

	(void)c;
	fact_yes(f, prctl(PR_GET_PDEATHSIG, &number) == 0 && number == SIGKILL,
		"no signal is set for the parent's death");
}

static void fact_limit(struct fact *f, int resource, uint64_t asked)
{
	struct rlimit limit;

	(void)snprintf(f->asked, sizeof f->asked, "%" PRIu64, asked);
	if (getrlimit((__rlimit_resource_t)resource, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		(void)snprintf(f->why, sizeof f->why, "no limit is set");
	else if (limit.rlim_cur > asked)
		(void)snprintf(
			f->why, sizeof f->why, "the limit in force is %" PRIu64, (uint64_t)limit.rlim_cur);
	else
		(void)snprintf(f->got, sizeof f->got, "%" PRIu64, (uint64_t)limit.rlim_cur);
	if (limit.rlim_max > limit.rlim_cur && f->got[0])
		(void)snprintf(
			f->why, sizeof f->why, "the module can raise it itself: the hard limit is higher");
}

static void fact_core(const struct confine *c, struct fact *f)
{
	(void)c;
	fact_limit(f, RLIMIT_CORE, 0);
}

static void fact_memory(const struct confine *c, struct fact *f)
{
	fact_limit(f, RLIMIT_DATA,
		c->limits.max_memory_bytes ? c->limits.max_memory_bytes : DEFAULT_MAX_MEMORY_BYTES);
}

static void fact_file_size(const struct confine *c, struct fact *f)
{
	fact_limit(f, RLIMIT_FSIZE,
		c->limits.max_file_size_bytes ? c->limits.max_file_size_bytes : DEFAULT_MAX_FILE_SIZE_BYTES);
}

static void fact_stack(const struct confine *c, struct fact *f)
{
	fact_limit(f, RLIMIT_STACK,
		c->limits.max_stack_bytes ? c->limits.max_stack_bytes : DEFAULT_MAX_STACK_BYTES);
}

static void fact_open_files(const struct confine *c, struct fact *f)
{
	fact_limit(f, RLIMIT_NOFILE,
		c->limits.max_open_files ? c->limits.max_open_files : DEFAULT_MAX_OPEN_FILES);
}

static void fact_processes(const struct confine *c, struct fact *f)
{
	fact_limit(
		f, RLIMIT_NPROC, c->limits.max_processes ? c->limits.max_processes : DEFAULT_MAX_PROCESSES);
	if (has_own_uid(c))
		return;
	f->got[0] = '\0';
	(void)snprintf(f->why, sizeof f->why, "it is counted per uid, and the uid isn't the sandbox's own");
}

/* ---- the table ---- */

#define NOT_BUILT "not built in this version"

/* clang-format off */
static const struct protection {
	const char *name;
	const char *asked[PROFILE__N]; /* NULL: not asked for; limits put their number */
	const char *by;
	void (*look)(const struct confine *c, struct fact *f); /* NULL: nothing there to look at */
} protections[] = {
	{ "own uid", { "own uid", "own uid", "own uid" }, "setresuid", fact_own_uid },
	{ "groups", { "none left", "none left", "none left" }, "setgroups", fact_groups },
	{ "capabilities", { "none left", "none left", "none left" }, "capset", fact_capabilities },
	{ "no new privileges", { "yes", "yes", "yes" }, "PR_SET_NO_NEW_PRIVS", fact_no_new_privileges },
	{ "not dumpable", { "yes", "yes", "yes" }, "PR_SET_DUMPABLE", fact_not_dumpable },
	{ "own session", { "yes", "yes", "yes" }, "setsid", fact_session },
	{ "ends with its spawner", { "yes", "yes", "yes" }, "PR_SET_PDEATHSIG", fact_parent_death },
	{ "core file bytes", { "", "", "" }, "RLIMIT_CORE", fact_core },
	{ "memory bytes", { "", "", "" }, "RLIMIT_DATA", fact_memory },
	{ "file size bytes", { "", "", "" }, "RLIMIT_FSIZE", fact_file_size },
	{ "stack bytes", { "", "", "" }, "RLIMIT_STACK", fact_stack },
	{ "open files", { "", "", "" }, "RLIMIT_NOFILE", fact_open_files },
	{ "processes", { "", "", "" }, "RLIMIT_NPROC", fact_processes },
	{ "pid namespace", { "own", "own", NULL }, "CLONE_NEWPID", NULL },
	{ "mount namespace", { "own", "own", NULL }, "CLONE_NEWNS", NULL },
	{ "ipc namespace", { "own", "own", NULL }, "CLONE_NEWIPC", NULL },
	{ "uts namespace", { "own", "own", NULL }, "CLONE_NEWUTS", NULL },
	{ "cgroup namespace", { "own", NULL, NULL }, "CLONE_NEWCGROUP", NULL },
	{ "network", { "no access", "no access", NULL }, "CLONE_NEWNET, seccomp", NULL },
	{ "files", { "object and libraries", "object and libraries", NULL }, "Landlock", NULL },
	{ "system calls", { "allow list", "larger allow list", "deny list" }, "seccomp", NULL },
	{ "new code", { "refused", "refused", NULL }, "PR_SET_MDWE, seccomp", NULL },
	{ "memory of the whole tree", { "limited", "limited", "limited" }, "cgroup memory.max", NULL },
	{ "processes of the whole tree", { "limited", "limited", "limited" }, "cgroup pids.max", NULL },
	{ "cpu share", { "limited", "limited", "limited" }, "cgroup cpu.max", NULL },
	{ "end of the whole tree", { "yes", "yes", "yes" }, "pid namespace, cgroup.kill", NULL },
};
/* clang-format on */

void confine_report(const struct confine *c, struct buf *to)
{
	struct json_out o = json_out_to(to);

	json_out_array(&o, NULL);
	for (size_t i = 0; i < sizeof protections / sizeof *protections; i++) {
		const struct protection *p = &protections[i];
		const char *asked = p->asked[c->profile];
		struct fact f = { "", "", "" };

		if (!asked) {
			(void)snprintf(f.why, sizeof f.why, "the profile doesn't ask for it");
		} else {
			(void)snprintf(f.asked, sizeof f.asked, "%s", asked);
			if (p->look)
				p->look(c, &f);
			else
				(void)snprintf(f.why, sizeof f.why, NOT_BUILT);
		}
		json_out_object(&o, NULL);
		json_out_text(&o, "protection", p->name);
		json_out_text(&o, "asked", asked ? f.asked : "none");
		json_out_text(&o, "got", f.got[0] ? f.got : "none");
		json_out_text(&o, "by", p->by);
		json_out_text(&o, "why", f.why);
		json_out_object_end(&o);
	}
	json_out_array_end(&o);
}

/* SPDX-License-Identifier: MIT
 *
 * The report: one row per protection, from facts where the process can see one, else from what its zygote and its birth
 * have noted (walls.h): a step that failed is a loss, one that didn't stands. */
#include "daemon/host/confine.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/host/zygote/walls.h"
#include "proto/json_out.h"
#include "proto/json_scan.h"

#ifndef PR_GET_MDWE
#define PR_GET_MDWE 66
#endif

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
	else if (json_string_is(key, "max_cpu_percentage") && v <= UINT32_MAX)
		l->max_cpu_percentage = (uint32_t)v;
	else
		return err_set(e, ERR_BAD_PARAM, "HOST_BEGIN: unknown limit, or out of range: %.*s",
			(int)key.size, key.at);
	return 0;
}

static int parse_member(struct confine *c, struct json_span key, struct json_span value, struct err *e)
{
	if (json_string_is(key, "profile")) {
		char name[LIMIT_ID_BYTES + 1];
		int64_t n = json_string(value, name, sizeof name);

		c->profile = n < 0 ? PROFILE_NONE : profile_from_name(name, (size_t)n);
		return c->profile == PROFILE_NONE ? err_set(e, ERR_BAD_PARAM, "HOST_BEGIN: unknown profile") : 0;
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

	*c = (struct confine){ .profile = PROFILE_NONE };
	if (json_check(json, size, e) < 0)
		return err_prefix(e, "HOST_BEGIN");
	whole = (struct json_span){ json, size };
	if (json_type(whole) != '{')
		return err_set(e, ERR_BAD_PARAM, "HOST_BEGIN: the body isn't an object");
	for (it = json_iter_begin(whole); json_iter_next(&it, &key, &value);)
		if (parse_member(c, key, value, e) < 0)
			return -1;
	if (c->profile == PROFILE_NONE)
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
	char asked[48], got[96], why[200]; /* got "": none */
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
	if (has_own_uid(c) || (walls.stand && walls_want(PROTECTION_USER_NAMESPACE))) /* it counts per user namespace too */
		return;
	f->got[0] = '\0';
	(void)snprintf(f->why, sizeof f->why, "it is counted per uid, and the uid isn't the sandbox's own");
}

static void fact_pid_namespace(const struct confine *c, struct fact *f)
{
	(void)c;
	fact_yes(f, getpid() == 1, "it is not the first process of one");
}

static void fact_own_root(const struct confine *c, struct fact *f)
{
	struct stat st;

	(void)c;
	fact_yes(f, walls.root_device != 0 && stat("/", &st) == 0 && st.st_dev == walls.root_device, "its root is the machine's");
}

static void fact_scratch(const struct confine *c, struct fact *f)
{
	(void)c;
	(void)snprintf(f->asked, sizeof f->asked, "%" PRIu64, walls.scratch_bytes ? walls.scratch_bytes : (uint64_t)DEFAULT_SCRATCH_BYTES);
	if (walls.scratch_bytes > 0)
		(void)snprintf(f->got, sizeof f->got, "%" PRIu64, walls.scratch_bytes);
	else
		(void)snprintf(f->why, sizeof f->why, "there is none");
}

static void fact_network(const struct confine *c, struct fact *f)
{
	(void)c;
	fact_yes(f, walls_want(PROTECTION_SYSTEM_CALLS), "no filter refuses it");
}

static void fact_files(const struct confine *c, struct fact *f)
{
	(void)c;
	(void)snprintf(f->got, sizeof f->got, "%s", walls.stand ? walls_landlock.got : "");
	(void)snprintf(f->why, sizeof f->why, "%s", walls.stand ? walls_landlock.lacks : "this process was not made by a zygote");
}

static void fact_new_code(const struct confine *c, struct fact *f)
{
	bool mdwe = prctl(PR_GET_MDWE, 0, 0, 0, 0) > 0;

	(void)c;
	fact_yes(f, mdwe || walls_want(PROTECTION_SYSTEM_CALLS), "neither PR_SET_MDWE nor a filter refuses it");
	if (!mdwe && f->got[0])
		(void)snprintf(f->why, sizeof f->why, "by the filter alone: this kernel has no PR_SET_MDWE (Linux 6.3)");
}

static void fact_tree_end(const struct confine *c, struct fact *f)
{
	(void)c;
	fact_yes(f, getpid() == 1 || walls.own_cgroup, "no pid namespace and no cgroup: what it leaves behind is looked for when it ends, and killed one by one");
}

/* The spawner's word: a host sees neither the limits of its cgroup nor, with a namespace of them, where it is. */
static void fact_cgroup(struct fact *f, enum protection p, uint64_t limit)
{
	(void)snprintf(f->asked, sizeof f->asked, "%" PRIu64, limit);
	if (walls.own_cgroup && !(walls.not_by_cgroup & PROTECTION_BIT(p)))
		(void)snprintf(f->got, sizeof f->got, "%" PRIu64, limit);
	else
		(void)snprintf(f->why, sizeof f->why, "%s", walls.no_cgroup[0] ? walls.no_cgroup : "it has no cgroup of its own");
}

static void fact_tree_memory(const struct confine *c, struct fact *f)
{
	fact_cgroup(f, PROTECTION_TREE_MEMORY, c->limits.max_memory_bytes ? c->limits.max_memory_bytes : DEFAULT_MAX_MEMORY_BYTES);
}

static void fact_tree_processes(const struct confine *c, struct fact *f)
{
	fact_cgroup(f, PROTECTION_TREE_PROCESSES, c->limits.max_processes ? c->limits.max_processes : DEFAULT_MAX_PROCESSES);
}

static void fact_tree_cpu(const struct confine *c, struct fact *f)
{
	fact_cgroup(f, PROTECTION_TREE_CPU, c->limits.max_cpu_percentage ? c->limits.max_cpu_percentage : DEFAULT_MAX_CPU_PERCENTAGE);
}

/* ---- the table ---- */

/* What stands in the column "asked", where the profile asks. NULL in `look`: what birth noted; NULL in `asked`: not built. */
static const struct protection_row {
	const char *asked;
	void (*look)(const struct confine *c, struct fact *f);
} rows[PROTECTION__N] = {
	[PROTECTION_OWN_UID] = { "own uid", fact_own_uid },
	[PROTECTION_GROUPS] = { "none left", fact_groups },
	[PROTECTION_CAPABILITIES] = { "none left", fact_capabilities },
	[PROTECTION_NO_NEW_PRIVILEGES] = { "yes", fact_no_new_privileges },
	[PROTECTION_NOT_DUMPABLE] = { "yes", fact_not_dumpable },
	[PROTECTION_OWN_SESSION] = { "yes", fact_session },
	[PROTECTION_PARENT_DEATH] = { "yes", fact_parent_death },
	[PROTECTION_LIMIT_CORE] = { "", fact_core },
	[PROTECTION_LIMIT_MEMORY] = { "", fact_memory },
	[PROTECTION_LIMIT_FILE_SIZE] = { "", fact_file_size },
	[PROTECTION_LIMIT_STACK] = { "", fact_stack },
	[PROTECTION_LIMIT_OPEN_FILES] = { "", fact_open_files },
	[PROTECTION_LIMIT_PROCESSES] = { "", fact_processes },
	[PROTECTION_USER_NAMESPACE] = { "own", NULL },
	[PROTECTION_PID_NAMESPACE] = { "own", fact_pid_namespace },
	[PROTECTION_MOUNT_NAMESPACE] = { "own", NULL },
	[PROTECTION_IPC_NAMESPACE] = { "own", NULL },
	[PROTECTION_UTS_NAMESPACE] = { "own", NULL },
	[PROTECTION_CGROUP_NAMESPACE] = { "own", NULL },
	[PROTECTION_NETWORK] = { "no access", fact_network },
	[PROTECTION_OWN_ROOT] = { "objects and libraries, read-only", fact_own_root },
	[PROTECTION_SCRATCH] = { "", fact_scratch },
	[PROTECTION_FILES] = { "objects, libraries, scratch", fact_files },
	[PROTECTION_SYSTEM_CALLS] = { "filtered", NULL },
	[PROTECTION_NEW_CODE] = { "refused", fact_new_code },
	[PROTECTION_TREE_MEMORY] = { "", fact_tree_memory },
	[PROTECTION_TREE_PROCESSES] = { "", fact_tree_processes },
	[PROTECTION_TREE_CPU] = { "", fact_tree_cpu },
	[PROTECTION_TREE_END] = { "yes", fact_tree_end },
};

uint64_t confine_asked(enum profile profile, bool rootless)
{
	const struct policy *p = profile_policy(profile);
	const struct {
		enum protection protection;
		bool asked;
	} optional[] = {
		{ PROTECTION_USER_NAMESPACE, rootless && p->namespaces != 0 },
		{ PROTECTION_PID_NAMESPACE, p->namespaces & CLONE_NEWPID },
		{ PROTECTION_MOUNT_NAMESPACE, p->namespaces & CLONE_NEWNS },
		{ PROTECTION_IPC_NAMESPACE, p->namespaces & CLONE_NEWIPC },
		{ PROTECTION_UTS_NAMESPACE, p->namespaces & CLONE_NEWUTS },
		{ PROTECTION_CGROUP_NAMESPACE, p->namespaces & CLONE_NEWCGROUP },
		{ PROTECTION_NETWORK, p->landlock_net != 0 && !policy_has_network(p) },
		{ PROTECTION_OWN_ROOT, p->namespaces & CLONE_NEWNS },
		{ PROTECTION_SCRATCH, p->scratch && (p->namespaces & CLONE_NEWNS) },
		{ PROTECTION_FILES, p->landlock_fs != 0 },
		{ PROTECTION_NEW_CODE, p->refuse_new_code },
	};
	uint64_t asked = PROTECTION_BIT(PROTECTION__N) - 1;

	for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
		if (!optional[i].asked)
			asked &= ~PROTECTION_BIT(optional[i].protection);
	return asked;
}

/* What to do about it, where the errno doesn't tell an ordinary user. */
static const char *hint(enum protection p)
{
	if (p < PROTECTION_USER_NAMESPACE || p > PROTECTION_CGROUP_NAMESPACE || !(walls.lost & PROTECTION_BIT(PROTECTION_OWN_UID)))
		return "";
	if (walls.why[p] == ENOSPC)
		return ": raise user.max_user_namespaces (sysctl)";
	if (walls.why[p] == EPERM)
		return ": user namespaces are refused (kernel.apparmor_restrict_unprivileged_userns, or a container's seccomp profile)";
	return "";
}

/* Which of the two: a process with or without a zygote. Without one nothing was tried. */
static void row_fill(const struct confine *c, enum protection p, struct fact *f)
{
	(void)snprintf(f->asked, sizeof f->asked, "%s%s", rows[p].asked,
		p == PROTECTION_FILES && profile_policy(c->profile)->paths[0] ? ", granted paths" : "");
	if (walls.left_out & PROTECTION_BIT(p))
		(void)snprintf(f->why, sizeof f->why, "left out by --weaken");
	else if (walls.stand && (walls.lost & PROTECTION_BIT(p)))
		(void)snprintf(f->why, sizeof f->why, "%s: %s%s", protection_by(p),
			walls.why[p] ? strerror(walls.why[p]) : "it needs another protection that can't be had", hint(p));
	else if (rows[p].look)
		rows[p].look(c, f);
	else
		fact_yes(f, walls.stand, "this process was not made by a zygote");
	if (rows[p].asked[0] == '\0' && f->asked[0] == '\0') /* a limit that wasn't looked at */
		(void)snprintf(f->asked, sizeof f->asked, "limited");
}

void confine_report(const struct confine *c, struct buf *to)
{
	struct json_out o = json_out_to(to);
	uint64_t asked = walls.stand ? walls.asked | walls.left_out : confine_asked(c->profile, false);

	json_out_array(&o, NULL);
	for (int i = 0; i < PROTECTION__N; i++) {
		struct fact f = { "", "", "" };
		bool wanted = asked & PROTECTION_BIT(i);

		if (wanted)
			row_fill(c, (enum protection)i, &f);
		else
			(void)snprintf(f.why, sizeof f.why, "the profile doesn't ask for it");
		json_out_object(&o, NULL);
		json_out_text(&o, "protection", protection_name((enum protection)i));
		json_out_text(&o, "asked", wanted ? f.asked : "none");
		json_out_text(&o, "got", f.got[0] ? f.got : "none");
		json_out_text(&o, "by", protection_by((enum protection)i));
		json_out_text(&o, "why", f.why);
		json_out_object_end(&o);
	}
	json_out_array_end(&o);
}

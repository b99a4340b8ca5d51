/* SPDX-License-Identifier: MIT
 *
 * Every process of a sandbox: it is frozen by SIGSTOP to all of them, thawed by SIGCONT; what a host leaves behind gets SIGKILL. They are found as the host's descendants, and as those that
 * were left to this process (it is the reaper of orphans) and run as the sandbox's user, or, rootless, carry the host's mark (proto/host_mark.h). A process that
 * has a SIGSTOP coming begins no fork any more, but one that it is in comes to its end: so it is over when a round finds nobody new, and all had
 * stood before it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/spawner/pid_set.h"
#include "daemon/spawner/spawner.h"
#include "daemon/spawner/validate.h"
#include "proto/clock.h"
#include "proto/host_mark.h"
#include "proto/log.h"

#define STAND_MS      250 /* for all to stand: 1 ms, and the patience for a loaded machine; then it is said that they can't all be stopped */
#define KILL_MS       250 /* for all to get a SIGKILL: what forks faster than it is found is left to the sweep of its user */
#define CONT_MS       1000 /* for all to go on: four times what they had to be stopped in */

struct walk {
	struct spawner *sp;
	const struct entry *entry;
	struct pid_set have; /* the signal; the host first */
	int64_t until_ms;
	int signal;
	bool missed; /* in this round: one was listed and has ended since, perhaps with a child that isn't listed yet */
	bool failed; /* no memory, too many, or too late */
};

/* The next number of a text that the kernel wrote; false: there is none. *at moves on behind it. */
static bool number_next(char **at, pid_t *ret)
{
	char *end;
	long n = strtol(*at, &end, 10);

	if (end == *at || n < 0 || n > INT_MAX)
		return false;
	*at = end;
	*ret = (pid_t)n;
	return true;
}

/* State, parent and session of a process; false: there is none. */
static bool stat_read(pid_t pid, char *ret_state, pid_t *ret_parent, pid_t *ret_session)
{
	char path[40], text[512], *at;
	autoclose int fd = -1;
	pid_t group;
	ssize_t n;

	(void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd == -1 ? 0 : read(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = '\0';
	at = strrchr(text, ')');
	if (!at || at[1] != ' ' || at[2] == '\0')
		return false;
	*ret_state = at[2];
	at += 3;
	return number_next(&at, ret_parent) && number_next(&at, &group) && number_next(&at, ret_session);
}

static bool is_of_user(pid_t pid, uid_t uid)
{
	char path[40], text[1024], *at;
	autoclose int fd = -1;
	char *end;
	ssize_t n;

	(void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd == -1 ? 0 : read(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, "\nUid:");
	return at && strtoul(at + 5, &end, 10) == uid && end != at + 5;
}

/* Rootless: the mark of a host that has ended: nobody else will end it. (A host in its birth, which isn't in the table yet, has its own.) */
static bool is_stray(struct spawner *sp, pid_t pid)
{
	pid_t host = host_mark_of(pid);

	return host != 0 && host != pid && !table_find_pid(&sp->table, host);
}

/* Is it, an orphan, of this sandbox? What is killed may also be what an earlier host left. */
static bool is_orphan_of(const struct walk *w, pid_t pid)
{
	pid_t parent, session, host;
	char state;

	if (pid == w->sp->control.pid || table_find_pid(&w->sp->table, pid) || job_find_pid(w->sp, pid))
		return false;
	if (w->sp->is_root)
		return is_of_user(pid, w->entry->uid);
	host = host_mark_of(pid);
	if (host != 0)
		return host == w->entry->pid || (w->signal == SIGKILL && is_stray(w->sp, pid));
	return stat_read(pid, &state, &parent, &session) && session == w->entry->pid; /* no mark could be set */
}

/* Signals one process, once. Its number may have come to be somebody else's since it was read: by the descriptor, only the process that is
 * looked at afterwards is reached. */
static void reach(struct walk *w, pid_t pid, pid_t parent)
{
	autoclose int fd = -1;
	pid_t its_parent, session;
	char state;

	if (w->failed || pid_set_has(&w->have, pid))
		return;
	if (clock_monotonic_ms() > w->until_ms) {
		w->failed = true;
		return;
	}
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd == -1 || !stat_read(pid, &state, &its_parent, &session) || (pid != w->entry->pid && its_parent != parent)) {
		w->missed = true; /* ended, or moved: a later round finds it, or its child, where it is */
		return;
	}
	if (parent == getpid() && pid != w->entry->pid && !is_orphan_of(w, pid))
		return;
	if (syscall(SYS_pidfd_send_signal, fd, w->signal, NULL, 0) == 0 && !pid_set_add(&w->have, pid))
		w->failed = true;
}

static void thread_children_reach(struct walk *w, pid_t parent, const char *thread)
{
	bool is_self = parent == getpid();
	char path[80], *word = NULL, *at;
	size_t room = 0;
	pid_t pid;
	FILE *f;

	(void)snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)parent, thread);
	f = fopen(path, "re");
	if (!f)
		return;
	while (getdelim(&word, &room, ' ', f) > 0) {
		at = word;
		if (number_next(&at, &pid) && pid > 0 && !w->failed && !pid_set_has(&w->have, pid) && (!is_self || is_orphan_of(w, pid)))
			reach(w, pid, parent);
	}
	free(word);
	(void)fclose(f);
}

/* A process lists its children by the thread that made them. */
static void children_reach(struct walk *w, pid_t parent)
{
	struct dirent *entry;
	char path[40];
	DIR *dir;

	(void)snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			thread_children_reach(w, parent, entry->d_name);
	if (dir)
		(void)closedir(dir);
}

/* One round: all that descends from those reached so far, and the orphans. */
static void round_walk(struct walk *w)
{
	w->missed = false;
	reach(w, w->entry->pid, getpid());
	for (size_t i = 0; i < w->have.n && !w->failed; i++)
		children_reach(w, w->have.pids[i]);
	children_reach(w, getpid());
}

/* Has the signal taken effect on all that have it? Whoever waits for a device makes nobody meanwhile. */
static bool all_stand(const struct walk *w)
{
	pid_t parent, session;
	char state;

	for (size_t i = 0; i < w->have.n; i++)
		if (stat_read(w->have.pids[i], &state, &parent, &session) && (state == 'R' || state == 'S'))
			return false;
	return true;
}

static void walk_on(struct spawner *sp, struct entry *entry)
{
	struct walk w = { .sp = sp, .entry = entry, .signal = SIGCONT, .until_ms = clock_monotonic_ms() + CONT_MS };
	size_t before;

	do {
		before = w.have.n;
		round_walk(&w);
	} while ((w.have.n != before || w.missed) && !w.failed);
	if (w.failed)
		log_warning("sandbox=%s not all of its processes could be told to go on", entry->sandbox);
	pid_set_fini(&w.have);
}

/* It holds the spawner up for STAND_MS at most. */
static int walk_stop(struct spawner *sp, struct entry *entry)
{
	struct walk w = { .sp = sp, .entry = entry, .signal = SIGSTOP, .until_ms = clock_monotonic_ms() + STAND_MS };
	bool stood, done = false;
	size_t before;

	do {
		stood = w.have.n > 0 && all_stand(&w);
		before = w.have.n;
		round_walk(&w);
		done = stood && w.have.n == before && !w.missed && !w.failed;
		if (!done && !stood && before > 0)
			(void)poll(NULL, 0, 1);
	} while (!done && !w.failed && clock_monotonic_ms() < w.until_ms);
	log_debug("sandbox=%s %zu processes were stopped", entry->sandbox, w.have.n);
	pid_set_fini(&w.have);
	return done ? 0 : -1;
}

bool entry_has_leaf(const struct spawner *sp, const struct entry *entry)
{
	return cgroups_there(&sp->cgroups) && entry->leaf[0];
}

int entry_freeze(struct spawner *sp, struct entry *entry, struct err *e)
{
	if (entry_has_leaf(sp, entry) && cgroup_freeze(&sp->cgroups, entry->leaf, true) == 0) {
		entry->frozen = entry->frozen_by_cgroup = true;
		return 0;
	}
	entry->frozen = true;
	if (walk_stop(sp, entry) == 0)
		return 0;
	walk_on(sp, entry);
	entry->frozen = false;
	return REFUSE(e, EAGAIN, "the processes of '%.60s' can't all be stopped", entry->sandbox);
}

void entry_thaw(struct spawner *sp, struct entry *entry)
{
	if (entry->frozen_by_cgroup)
		(void)cgroup_freeze(&sp->cgroups, entry->leaf, false);
	else
		walk_on(sp, entry);
	entry->frozen = entry->frozen_by_cgroup = false;
}

void entry_kill(struct spawner *sp, struct entry *entry)
{
	if (entry_has_leaf(sp, entry))
		(void)cgroup_kill(&sp->cgroups, entry->leaf);
	(void)kill(-entry->pid, SIGKILL); /* the group, if it has come to be one */
	(void)kill(entry->pid, SIGKILL);
}

void entry_leaf_end(struct spawner *sp, struct entry *entry)
{
	struct cgroup_events events;

	if (!entry->leaf[0])
		return;
	cgroup_events_read(&sp->cgroups, entry->leaf, &events);
	entry->oom = events.oom;
	entry->frozen_by_cgroup = false;
	cgroup_end(&sp->cgroups, entry->leaf, clock_monotonic_ms());
	entry->leaf[0] = '\0';
}

void entry_orphans_kill(struct spawner *sp, const struct entry *entry)
{
	struct walk w = { .sp = sp, .entry = entry, .signal = SIGKILL, .until_ms = clock_monotonic_ms() + KILL_MS };
	size_t before;

	do {
		before = w.have.n;
		children_reach(&w, getpid());
		for (size_t i = 0; i < w.have.n && !w.failed; i++)
			children_reach(&w, w.have.pids[i]);
	} while (w.have.n != before && !w.failed);
	if (w.have.n > 0)
		log_debug("sandbox=%s %zu processes that it left behind are killed", entry->sandbox, w.have.n);
	pid_set_fini(&w.have);
}

bool orphan_is_stray(struct spawner *sp, pid_t pid)
{
	return !sp->is_root && is_stray(sp, pid);
}

void orphans_stray_kill(struct spawner *sp)
{
	static const struct entry nobody = { .sandbox = "-", .pid = INT_MIN };

	entry_orphans_kill(sp, &nobody);
}

bool freeze_covers(struct spawner *sp, pid_t pid, uid_t uid)
{
	struct entry *entry = table_find_pid(&sp->table, pid);
	pid_t parent, session, host;
	char state;

	if (entry)
		return entry->frozen;
	host = sp->is_root ? 0 : host_mark_of(pid);
	for (uint64_t cursor = 0; (entry = table_from(&sp->table, cursor)); cursor = entry->slot + 1ull) {
		if (!entry->frozen || entry->pid <= 0)
			continue;
		if (sp->is_root ? entry->uid == uid : host != 0 ? host == entry->pid :
							stat_read(pid, &state, &parent, &session) && session == entry->pid)
			return true;
	}
	return false;
}

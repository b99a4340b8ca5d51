/* SPDX-License-Identifier: MIT */
#include "daemon/sandbox/usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/limits.h"

#define STATUS_BYTES   4096
#define CHILDREN_BYTES 16384

struct walk {
	const char *proc;
	struct usage *sum;
	pid_t pids[LIMIT_USAGE_PROCESSES];
	size_t n;
};

static bool text_read(const char *proc, pid_t pid, const char *name, char *to, size_t room)
{
	char path[128];
	autoclose int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof path, "%s/%d/%s", proc, (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd == -1 ? -1 : read(fd, to, room - 1);
	to[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* "RssAnon:     112 kB" */
static uint64_t status_number(const char *text, const char *label)
{
	const char *at = strstr(text, label);

	return at ? strtoull(at + strlen(label), NULL, 10) : 0;
}

static uint64_t ticks_us(uint64_t ticks)
{
	static long per_second;

	if (per_second <= 0)
		per_second = sysconf(_SC_CLK_TCK);
	return ticks * 1000000u / (uint64_t)(per_second > 0 ? per_second : 100);
}

/* utime, stime, cutime, cstime: fields 14 to 17. The name in field 2 may hold anything, so they are counted from its end. */
static uint64_t stat_cpu_us(const char *text)
{
	const char *at = strrchr(text, ')');
	unsigned long long own_user, own_system, user, system;

	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu", &own_user, &own_system, &user, &system) != 4)
		return 0;
	return ticks_us(own_user + own_system + user + system);
}

/* Since Linux 6.2 the size of the folder is the number of its entries; asking for it needs no right to look inside. */
static int64_t open_files(const char *proc, pid_t pid)
{
	char path[128];
	struct stat st;

	(void)snprintf(path, sizeof path, "%s/%d/fd", proc, (int)pid);
	return stat(path, &st) == 0 && st.st_size > 0 ? (int64_t)st.st_size : -1;
}

/* false: it has ended */
static bool process_add(struct walk *w, pid_t pid, uint64_t *ret_uid)
{
	char status[STATUS_BYTES], stat_text[STATUS_BYTES];
	struct usage *u = w->sum;
	int64_t files;

	if (!text_read(w->proc, pid, "status", status, sizeof status) || !text_read(w->proc, pid, "stat", stat_text, sizeof stat_text))
		return false;
	u->processes++;
	u->threads += (uint32_t)status_number(status, "\nThreads:");
	u->anon_bytes += status_number(status, "\nRssAnon:") * 1024;
	u->file_bytes += status_number(status, "\nRssFile:") * 1024;
	u->shared_bytes += status_number(status, "\nRssShmem:") * 1024;
	u->cpu_us += stat_cpu_us(stat_text);
	files = open_files(w->proc, pid);
	if (files == -1)
		u->open_files = -1;
	else if (u->open_files != -1)
		u->open_files += files;
	if (files > u->most_open_files)
		u->most_open_files = files;
	if (u->processes == 1)
		u->peak_bytes = status_number(status, "\nVmHWM:") * 1024;
	if (ret_uid)
		*ret_uid = status_number(status, "\nUid:");
	return true;
}

static bool is_of(const struct walk *w, pid_t pid, uint64_t uid)
{
	char status[STATUS_BYTES];

	return text_read(w->proc, pid, "status", status, sizeof status) && status_number(status, "\nUid:") == uid;
}

/* only: UINT64_MAX: all of them */
static void children_of_thread(struct walk *w, pid_t pid, const char *thread, uint64_t only)
{
	char text[CHILDREN_BYTES], name[64], *at = text, *end;

	(void)snprintf(name, sizeof name, "task/%.20s/children", thread);
	(void)text_read(w->proc, pid, name, text, sizeof text);
	for (;; at = end) {
		long child = strtol(at, &end, 10);

		if (end == at || child <= 0)
			return;
		if (*end != ' ' || w->n == LIMIT_USAGE_PROCESSES) { /* cut in the number, or one too many */
			w->sum->is_partial = true;
			return;
		}
		if (only == UINT64_MAX || ((pid_t)child != w->pids[0] && is_of(w, (pid_t)child, only)))
			w->pids[w->n++] = (pid_t)child;
	}
}

static void children_of(struct walk *w, pid_t pid, uint64_t only)
{
	char path[128];
	struct dirent *entry;
	size_t threads = 0;
	DIR *dir;

	(void)snprintf(path, sizeof path, "%s/%d/task", w->proc, (int)pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		if (++threads > LIMIT_USAGE_PROCESSES) {
			w->sum->is_partial = true;
			break;
		}
		children_of_thread(w, pid, entry->d_name, only);
	}
	if (dir)
		(void)closedir(dir);
}

bool usage_read_one(const char *proc, pid_t pid, struct usage *ret)
{
	struct walk w = { .proc = proc, .sum = ret };

	*ret = (struct usage){ 0 };
	return process_add(&w, pid, NULL);
}

bool usage_read(const char *proc, pid_t pid, pid_t orphans_of, struct usage *ret)
{
	struct walk w = { .proc = proc, .sum = ret, .pids = { pid }, .n = 1 };
	uint64_t uid = 0;

	*ret = (struct usage){ 0 };
	if (!process_add(&w, pid, &uid))
		return false;
	children_of(&w, pid, UINT64_MAX);
	if (orphans_of > 0)
		children_of(&w, orphans_of, uid);
	for (size_t i = 1; i < w.n; i++)
		if (process_add(&w, w.pids[i], NULL))
			children_of(&w, w.pids[i], UINT64_MAX);
	return true;
}

/* Fields 10 (minflt), 12 (majflt), 14, 15 (utime, stime), 20 (threads), 24 (resident pages). */
bool usage_read_host(const char *proc, pid_t pid, struct usage_host *ret)
{
	char text[STATUS_BYTES], *at;
	unsigned long long minor, major, user, system, threads, pages;

	if (!text_read(proc, pid, "stat", text, sizeof text))
		return false;
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu %*u %llu %llu %*d %*d %*d %*d %llu %*d %*u %*u %llu", &minor, &major, &user,
			    &system, &threads, &pages) != 6)
		return false;
	*ret = (struct usage_host){ minor + major, user + system, threads, pages };
	return true;
}

static bool leaf_read(const char *dir, const char *leaf, const char *name, char *to, size_t room)
{
	char path[2 * LIMIT_PATH_BYTES];
	autoclose int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof path, "%s/%s/%s", dir, leaf, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd == -1 ? -1 : read(fd, to, room - 1);
	to[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* "anon 4096", at the beginning of a line. */
static uint64_t stat_number(const char *text, const char *name)
{
	size_t size = strlen(name);

	for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
		if (strncmp(at, name, size) == 0 && at[size] == ' ')
			return strtoull(at + size, NULL, 10);
	return 0;
}

bool usage_read_cgroup(const char *dir, const char *leaf, struct usage *ret)
{
	char text[STATUS_BYTES];

	if (!leaf_read(dir, leaf, "memory.stat", text, sizeof text))
		return false;
	ret->anon_bytes = stat_number(text, "anon");
	ret->shared_bytes = stat_number(text, "shmem");
	ret->file_bytes = stat_number(text, "file");
	ret->file_bytes -= ret->file_bytes < ret->shared_bytes ? ret->file_bytes : ret->shared_bytes; /* the kernel counts shared memory as files too */
	if (leaf_read(dir, leaf, "memory.peak", text, sizeof text))
		ret->peak_bytes = strtoull(text, NULL, 10);
	if (leaf_read(dir, leaf, "pids.current", text, sizeof text))
		ret->processes = (uint32_t)strtoul(text, NULL, 10); /* threads are tasks too; the limit counts them */
	if (leaf_read(dir, leaf, "cpu.stat", text, sizeof text))
		ret->cpu_us = stat_number(text, "usage_usec");
	ret->cpu_periods = stat_number(text, "nr_periods");
	ret->cpu_throttled = stat_number(text, "nr_throttled");
	if (leaf_read(dir, leaf, "pids.events", text, sizeof text))
		ret->pids_refused = stat_number(text, "max");
	ret->is_partial = false;
	return true;
}

double usage_percent(uint64_t cpu_us_before, int64_t at_us_before, uint64_t cpu_us, int64_t at_us)
{
	if (at_us <= at_us_before)
		return -1;
	if (cpu_us <= cpu_us_before) /* a process has gone that nobody waited for */
		return 0;
	return 100.0 * (double)(cpu_us - cpu_us_before) / (double)(at_us - at_us_before);
}

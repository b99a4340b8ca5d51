/* SPDX-License-Identifier: MIT */
#include "daemon/spawner/cgroups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/log.h"

#define OWN_LEAF        "daemon"
#define CPU_PERIOD_US   100000
#define RETRY_FIRST_MS  20     /* a killed tree is gone in a few */
#define RETRY_MOST_MS   10000
#define FILE_BYTES      8192   /* mountinfo of a container has some hundred lines; only the first cgroup2 is looked for */
#define MOUNTINFO_BYTES (1u << 20)

struct cgroup_left {
	struct cgroup_left *next;
	char leaf[CGROUP_LEAF_BYTES];
};

/* ---- files ---- */

/* 0, or -1 with errno. What a file of the kernel takes, it takes in one write. */
static int file_write(int dir_fd, const char *leaf, const char *name, const char *text)
{
	char path[CGROUP_LEAF_BYTES + 64];
	autoclose int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof path, "%s/%s", leaf, name);
	fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd == -1)
		return -1;
	do
		n = write(fd, text, strlen(text));
	while (n == -1 && errno == EINTR);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

static ssize_t file_read(int dir_fd, const char *leaf, const char *name, char *to, size_t room)
{
	char path[CGROUP_LEAF_BYTES + 64];
	autoclose int fd = -1;
	ssize_t n;

	to[0] = '\0';
	(void)snprintf(path, sizeof path, "%s/%s", leaf, name);
	fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	n = fd == -1 ? -1 : read(fd, to, room - 1);
	to[n > 0 ? n : 0] = '\0';
	return n;
}

static bool has_word(const char *text, const char *word)
{
	size_t size = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += size)
		if ((at == text || at[-1] == ' ') && strchr(" \n", at[size]))
			return true;
	return false;
}

/* "name number" in a file of such lines. */
static uint64_t counter(const char *text, const char *name)
{
	size_t size = strlen(name);

	for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		if (strncmp(at, name, size) == 0 && at[size] == ' ')
			return strtoull(at + size + 1, NULL, 10);
	return 0;
}

void cgroup_leaf_name(char to[CGROUP_LEAF_BYTES], const char *name, uint64_t number)
{
	(void)snprintf(to, CGROUP_LEAF_BYTES, "%.63s@%" PRIu64, name, number);
}

/* ---- where ---- */

/* Field 4 (root) and 5 (mount point) of the first mount of type cgroup2. Octal escapes stand for spaces: a path with one isn't ours. */
static int mount_find(const char *mountinfo, char root[LIMIT_PATH_BYTES + 1], char point[LIMIT_PATH_BYTES + 1])
{
	for (const char *line = mountinfo; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *end = strchr(line, '\n'), *type = strstr(line, " - cgroup2 ");

		if (!type || (end && type > end))
			continue;
		if (sscanf(line, "%*d %*d %*s %255s %255s", root, point) == 2 && !strchr(root, '\\') && !strchr(point, '\\'))
			return 0;
	}
	return -1;
}

int cgroups_find(const char *own, const char *mountinfo, char path[LIMIT_PATH_BYTES + 1])
{
	char root[LIMIT_PATH_BYTES + 1], point[LIMIT_PATH_BYTES + 1];
	const char *at = strncmp(own, "0::", 3) == 0 ? own : strstr(own, "\n0::");
	size_t size, below;

	if (!at || mount_find(mountinfo, root, point) == -1)
		return -1;
	at += *at == '\n' ? 4 : 3;
	size = strcspn(at, "\n");
	below = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (at[0] != '/' || strncmp(at, root, below) != 0 || (below > 0 && at[below] != '/' && below != size))
		return -1; /* the mount shows another part of the tree */
	at += below;
	size -= below;
	if (size == 1) /* "/" */
		size = 0;
	if (strlen(point) + size > LIMIT_PATH_BYTES || memmem(at, size, "/..", 3))
		return -1;
	(void)memcpy(path, point, strlen(point));
	(void)memcpy(path + strlen(point), at, size);
	path[strlen(point) + size] = '\0';
	return 0;
}

/* systemd marks what it has given away; so may an administrator (setfattr -n user.delegate -v 1). */
static bool is_delegated(int dir_fd)
{
	char value[4];

	return (fgetxattr(dir_fd, "trusted.delegate", value, sizeof value) == 1 && value[0] == '1') ||
		(fgetxattr(dir_fd, "user.delegate", value, sizeof value) == 1 && value[0] == '1');
}

/* ---- start and end ---- */

static void none(struct cgroups *g, const char *why)
{
	fd_close(&g->dir_fd);
	g->has = 0;
	g->path[0] = '\0';
	(void)snprintf(g->why, sizeof g->why, "%s", why);
}

static uint64_t hand_on(int dir_fd)
{
	static const struct {
		const char *name;
		enum protection gives;
	} wanted[] = { { "memory", PROTECTION_TREE_MEMORY }, { "pids", PROTECTION_TREE_PROCESSES }, { "cpu", PROTECTION_TREE_CPU } };
	char controllers[FILE_BYTES], text[16];
	uint64_t has = 0;

	(void)file_read(dir_fd, ".", "cgroup.controllers", controllers, sizeof controllers);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		(void)snprintf(text, sizeof text, "+%s", wanted[i].name);
		if (has_word(controllers, wanted[i].name) && file_write(dir_fd, ".", "cgroup.subtree_control", text) == 0)
			has |= PROTECTION_BIT(wanted[i].gives);
	}
	return has;
}

/* "web@12": a leaf of ours. */
static bool is_leaf(const char *name)
{
	const char *at = strchr(name, '@');
	char *end;

	if (!at || at == name || at - name > LIMIT_ID_BYTES || at[1] < '0' || at[1] > '9')
		return false;
	errno = 0;
	(void)strtoull(at + 1, &end, 10);
	return *end == '\0' && errno == 0;
}

void cgroups_sweep(struct cgroups *g, bool (*is_held)(void *ctx, const char *leaf), void *ctx)
{
	int fd = g->dir_fd == -1 ? -1 : openat(g->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (is_leaf(entry->d_name) && !(is_held && is_held(ctx, entry->d_name)))
			cgroup_end(g, entry->d_name, clock_monotonic_ms());
	if (dir)
		(void)closedir(dir);
	else if (fd != -1)
		fd_close(&fd);
}

void cgroups_open_at(struct cgroups *g, int dir_fd, const char *path)
{
	char pid[16];

	g->dir_fd = dir_fd;
	(void)snprintf(g->path, sizeof g->path, "%s", path);
	(void)snprintf(pid, sizeof pid, "%d", (int)getpid());
	if ((mkdirat(dir_fd, OWN_LEAF, 0755) == -1 && errno != EEXIST) || file_write(dir_fd, OWN_LEAF, "cgroup.procs", pid) == -1) {
		log_warning("cgroups: cannot make and enter %s/" OWN_LEAF ": %s", path, strerror(errno));
		none(g, "the delegated folder can't be used");
		return;
	}
	g->has = hand_on(dir_fd);
	if (g->has == 0) {
		none(g, "the delegated cgroup has no controller memory, pids or cpu");
		return;
	}
	cgroups_sweep(g, NULL, NULL); /* what an earlier daemon has left */
	log_info("cgroups: one for each sandbox below %s", path);
}

void cgroups_take_over(struct cgroups *g, int dir_fd, uint64_t has, const char *path, const char *why)
{
	g->dir_fd = dir_fd;
	g->has = has;
	(void)snprintf(g->path, sizeof g->path, "%s", path);
	(void)snprintf(g->why, sizeof g->why, "%s", why);
}

void cgroups_open(struct cgroups *g)
{
	char own[FILE_BYTES], path[LIMIT_PATH_BYTES + 1];
	char *mounts = malloc(MOUNTINFO_BYTES);
	int proc_fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC), dir_fd = -1;
	bool found = mounts && proc_fd != -1 && file_read(proc_fd, ".", "cgroup", own, sizeof own) > 0 &&
		file_read(proc_fd, ".", "mountinfo", mounts, MOUNTINFO_BYTES) > 0 && cgroups_find(own, mounts, path) == 0;

	free(mounts);
	if (proc_fd != -1)
		fd_close(&proc_fd);
	if (!found) {
		none(g, "no cgroup v2 is mounted here");
		return;
	}
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir_fd == -1 || !is_delegated(dir_fd)) {
		if (dir_fd != -1)
			fd_close(&dir_fd);
		none(g, "no cgroup is delegated (systemd: Delegate=yes)");
		return;
	}
	cgroups_open_at(g, dir_fd, path);
}

void cgroups_close(struct cgroups *g)
{
	if (g->dir_fd == -1)
		return;
	cgroups_retry(g, clock_monotonic_ms());
	while (g->left) {
		struct cgroup_left *l = g->left;

		g->left = l->next;
		free(l);
	}
	fd_close(&g->dir_fd);
}

/* ---- one sandbox ---- */

static int limits_write(struct cgroups *g, const char *leaf, const struct cgroup_limits *l)
{
	char text[64];

	if (g->has & PROTECTION_BIT(PROTECTION_TREE_MEMORY)) {
		(void)snprintf(text, sizeof text, "%" PRIu64, l->memory_bytes);
		if (file_write(g->dir_fd, leaf, "memory.max", text) == -1 || file_write(g->dir_fd, leaf, "memory.oom.group", "1") == -1)
			return -1;
		(void)file_write(g->dir_fd, leaf, "memory.swap.max", "0"); /* there is no such file where there is no swap */
	}
	if (g->has & PROTECTION_BIT(PROTECTION_TREE_PROCESSES)) {
		(void)snprintf(text, sizeof text, "%" PRIu32, l->processes);
		if (file_write(g->dir_fd, leaf, "pids.max", text) == -1)
			return -1;
	}
	if (g->has & PROTECTION_BIT(PROTECTION_TREE_CPU)) {
		(void)snprintf(text, sizeof text, "%llu %d", (unsigned long long)l->cpu_percent * (CPU_PERIOD_US / 100), CPU_PERIOD_US);
		if (file_write(g->dir_fd, leaf, "cpu.max", text) == -1)
			return -1;
	}
	return 0;
}

/* It is gone, and one of its name is somebody else's. */
static void left_forget(struct cgroups *g, const char *leaf)
{
	for (struct cgroup_left **at = &g->left, *l; (l = *at); at = &l->next)
		if (strcmp(l->leaf, leaf) == 0) {
			*at = l->next;
			free(l);
			return;
		}
}

int cgroup_make(struct cgroups *g, const char *leaf, const struct cgroup_limits *limits)
{
	int fd = -1, saved;

	if (g->dir_fd == -1) {
		errno = ENOENT;
		return -1;
	}
	/* One of that name is an earlier daemon's: whoever lives in it must not share it. */
	if (mkdirat(g->dir_fd, leaf, 0755) == -1 &&
		(errno != EEXIST || unlinkat(g->dir_fd, leaf, AT_REMOVEDIR) == -1 || mkdirat(g->dir_fd, leaf, 0755) == -1))
		return -1;
	left_forget(g, leaf);
	/* Whatever the umask is: control reads there what is used. */
	if (fchmodat(g->dir_fd, leaf, 0755, 0) == -1)
		return -1;
	if (limits_write(g, leaf, limits) == 0)
		fd = openat(g->dir_fd, leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd == -1) {
		saved = errno;
		(void)unlinkat(g->dir_fd, leaf, AT_REMOVEDIR);
		errno = saved;
	}
	return fd;
}

int cgroup_limit(struct cgroups *g, const char *leaf, const struct cgroup_limits *limits)
{
	return limits_write(g, leaf, limits);
}

int cgroup_kill(struct cgroups *g, const char *leaf)
{
	return file_write(g->dir_fd, leaf, "cgroup.kill", "1");
}

static bool is_frozen(struct cgroups *g, const char *leaf)
{
	char text[256];

	return file_read(g->dir_fd, leaf, "cgroup.events", text, sizeof text) > 0 && counter(text, "frozen") == 1;
}

int cgroup_freeze(struct cgroups *g, const char *leaf, bool frozen)
{
	int64_t until_ms = clock_monotonic_ms() + CGROUP_FREEZE_MS;

	if (file_write(g->dir_fd, leaf, "cgroup.freeze", frozen ? "1" : "0") == -1)
		return -1;
	while (frozen && !is_frozen(g, leaf)) {
		if (clock_monotonic_ms() >= until_ms) {
			(void)file_write(g->dir_fd, leaf, "cgroup.freeze", "0");
			errno = ETIMEDOUT;
			return -1;
		}
		(void)poll(NULL, 0, 1);
	}
	return 0;
}

void cgroup_events_read(struct cgroups *g, const char *leaf, struct cgroup_events *ret)
{
	char text[512];

	*ret = (struct cgroup_events){ 0 };
	if (g->dir_fd == -1)
		return;
	if (file_read(g->dir_fd, leaf, "memory.events", text, sizeof text) > 0)
		ret->oom = counter(text, "oom_kill") > 0;
	if (file_read(g->dir_fd, leaf, "pids.events", text, sizeof text) > 0)
		ret->processes = counter(text, "max") > 0;
}

/* ---- the end ---- */

static bool leaf_remove(struct cgroups *g, const char *leaf)
{
	if (unlinkat(g->dir_fd, leaf, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return true;
	(void)file_write(g->dir_fd, leaf, "cgroup.kill", "1");
	return unlinkat(g->dir_fd, leaf, AT_REMOVEDIR) == 0;
}

static void retry_later(struct cgroups *g, int64_t now_ms)
{
	int64_t after_ms = (int64_t)RETRY_FIRST_MS << (g->retries < 9 ? g->retries : 9);

	g->retry_at_ms = now_ms + (after_ms < RETRY_MOST_MS ? after_ms : RETRY_MOST_MS);
}

void cgroup_end(struct cgroups *g, const char *leaf, int64_t now_ms)
{
	struct cgroup_left *l;

	if (g->dir_fd == -1 || !leaf[0] || leaf_remove(g, leaf))
		return;
	l = calloc(1, sizeof *l);
	if (!l) {
		log_warning("cgroups: %s stays, for want of memory", leaf);
		return;
	}
	(void)snprintf(l->leaf, sizeof l->leaf, "%s", leaf);
	l->next = g->left;
	g->left = l;
	if (g->retry_at_ms == INT64_MAX)
		retry_later(g, now_ms);
}

void cgroups_retry(struct cgroups *g, int64_t now_ms)
{
	struct cgroup_left **at = &g->left;

	while (*at) {
		struct cgroup_left *l = *at;

		if (leaf_remove(g, l->leaf)) {
			*at = l->next;
			free(l);
		} else {
			at = &l->next;
		}
	}
	g->retry_at_ms = INT64_MAX;
	g->retries = g->left ? g->retries + 1 : 0;
	if (g->left)
		retry_later(g, now_ms);
}

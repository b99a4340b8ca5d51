/* SPDX-License-Identifier: MIT
 *
 * A spare's folder is called .spare-N, which no sandbox can be. What it mounts is the folder, not its name: renamed, it is the sandbox's. */
#include "daemon/spawner/spares.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/spawner/folders.h"
#include "daemon/spawner/spawner.h"
#include "daemon/spawner/validate.h"
#include "daemon/spawner/zygotes_inside.h"
#include "proto/clock.h"
#include "proto/log.h"

#define FOLDER_ROOM 32
#define SPARE_LEAF  "+spare" /* and its number; no sandbox has such a name */

static const struct spare nothing = { .uid = (uid_t)-1, .fds = { -1, -1, -1 }, .listener_fd = -1 };

static void folder_name(const struct spare *s, char to[FOLDER_ROOM])
{
	(void)snprintf(to, FOLDER_ROOM, ".spare-%llu", (unsigned long long)(s->tag & ~SPARE_TAG));
}

static void descriptors_close(struct spare *s)
{
	for (size_t i = 0; i < 3; i++)
		fd_close(&s->fds[i]);
	fd_close(&s->listener_fd);
}

/* Without a process, and without use. Nothing of a module has run under its uid: there is nobody to be swept. */
static void place_free(struct spawner *sp, struct spare *s)
{
	struct err ignored = ERR_INIT;
	char folder[FOLDER_ROOM];

	folder_name(s, folder);
	if (folder_remove_at(sp->objects_fd, folder, &ignored) == -1)
		log_warning("the folder of a spare host stays: %s", ignored.text);
	if (sp->is_root && s->uid != (uid_t)-1)
		uids_give(&sp->uids, s->uid);
	cgroup_end(&sp->cgroups, s->leaf, clock_monotonic_ms());
	descriptors_close(s);
	*s = nothing;
}

/* Its channel is at its end, and so is it. */
static void end(struct spare *s)
{
	descriptors_close(s);
	s->state = SPARE_GONE;
}

void spares_init(struct spares *s, uint32_t target)
{
	memset(s, 0, sizeof *s);
	pool_init(&s->pool, target);
	for (size_t i = 0; i < SPARE_PLACES; i++)
		s->of[i] = nothing;
}

/* ---- use ---- */

static bool has_ended(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

struct spare *spare_find(struct spawner *sp, enum profile profile, const struct host_limits *limits)
{
	struct zygote *z = &sp->zygotes.of[profile];

	for (size_t i = 0; i < SPARE_PLACES && z->spares.pool.waiting > 0; i++) {
		struct spare *s = &z->spares.of[i];

		if (s->state != SPARE_WAITING || memcmp(&s->limits, limits, sizeof *limits) != 0)
			continue;
		if (!has_ended(s->pid))
			return s;
		pool_lost(&z->spares.pool, true, clock_monotonic_ms());
		end(s);
	}
	return NULL;
}

int objects_move(struct spawner *sp, const char *from, const char *to, struct err *e)
{
	autoclose int from_fd = openat(sp->objects_fd, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autoclose int to_fd = openat(sp->objects_fd, to, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *d;
	DIR *dir;
	int result = 0;

	if (from_fd == -1 || to_fd == -1 || !(dir = fdopendir(from_fd)))
		return err_sys(e, ERR_IO, "cannot open an objects folder");
	from_fd = -1;
	while ((d = readdir(dir))) {
		size_t n = strlen(d->d_name);

		if (n > 7 && strcmp(d->d_name + n - 7, ".object") == 0 &&
			renameat(dirfd(dir), d->d_name, to_fd, d->d_name) == -1 && result == 0)
			result = err_sys(e, ERR_IO, "cannot move an object");
	}
	(void)closedir(dir);
	return result;
}

/* Things of a sandbox may lie in its folder, or may have been seen by it: it is no spare any more. */
static void spoil(struct spawner *sp, struct spare *s, enum profile profile)
{
	pool_lost(&sp->zygotes.of[profile].spares.pool, true, clock_monotonic_ms());
	(void)kill(s->pid, SIGKILL);
	end(s);
}

int spare_folder_give(struct spawner *sp, struct spare *s, enum profile profile, const char *sandbox, bool is_new, struct err *e)
{
	char folder[FOLDER_ROOM];

	folder_name(s, folder);
	if (is_new) {
		if (folder_remove_at(sp->objects_fd, sandbox, e) == -1)
			return -1;
		return renameat2(sp->objects_fd, folder, sp->objects_fd, sandbox, RENAME_NOREPLACE) == 0 ?
			0 : err_sys(e, ERR_IO, "cannot rename an objects folder");
	}
	if (renameat2(sp->objects_fd, folder, sp->objects_fd, sandbox, RENAME_EXCHANGE) == -1)
		return err_sys(e, ERR_IO, "cannot rename an objects folder");
	if (objects_move(sp, folder, sandbox, e) == -1) {
		struct err ignored = ERR_INIT;

		spoil(sp, s, profile);
		if (renameat2(sp->objects_fd, folder, sp->objects_fd, sandbox, RENAME_EXCHANGE) == 0)
			(void)objects_move(sp, folder, sandbox, &ignored);
		return -1;
	}
	return folder_remove_at(sp->objects_fd, folder, e) == -1 ? (log_warning("an old objects folder stays: %s", e->text), 0) : 0;
}

void spare_start(struct spawner *sp, struct spare *s, struct entry *entry, enum profile profile)
{
	struct pool *pool = &sp->zygotes.of[profile].spares.pool;
	int64_t now_ms = clock_monotonic_ms();

	entry->profile = profile;
	entry->limits = s->limits;
	entry->host_build = sp->programs.host_build;
	for (size_t i = 0; i < 3; i++)
		entry->fds[ENTRY_CHANNEL + i] = fd_take(&s->fds[i]);
	entry_started(&sp->table, entry, ++sp->generations, now_ms);
	(void)snprintf(entry->leaf, sizeof entry->leaf, "%s", s->leaf);
	entry_has_pid(&sp->table, entry, s->pid);
	entry_born(entry);
	entry_has_own_pids(entry, s->own_pids);
	entry_birth_sent(entry); /* STARTED says it */
	if (s->listener_fd != -1)
		denials_watch(sp, entry, fd_take(&s->listener_fd));
	*s = nothing;
	(void)pool_take(pool);
	pool_started(pool, now_ms);
}

/* ---- making ---- */

static struct spare *place(struct spares *all)
{
	for (size_t i = 0; i < SPARE_PLACES; i++)
		if (all->of[i].state == SPARE_NONE)
			return &all->of[i];
	return NULL;
}

static int spare_make(struct spawner *sp, struct zygote *z, struct spare *s, struct err *e)
{
	const struct host_limits usual = { 0 };
	char folder[FOLDER_ROOM];
	int its[3] = { -1, -1, -1 }, result;
	struct clone_request r = { .flags = ZYGOTE_F_SPARE, .limits = &s->limits, .folder = folder, .leaf = s->leaf, .its = its };
	const char *step;

	if (!fd_room_beside(LIMIT_RESERVED_FDS))
		return err_set(e, ERR_LIMIT_EXCEEDED, "no descriptors are left for it");
	if (validate_limits(&usual, &sp->config, &s->limits, e) == -1)
		return -1;
	r.tag = s->tag = SPARE_TAG | ((uint64_t)z->profile << 48) | ++z->spares.last_number;
	folder_name(s, folder);
	cgroup_leaf_name(s->leaf, SPARE_LEAF, s->tag & ~SPARE_TAG);
	result = spawner_take_uid(sp, &s->uid, e);
	if (result == 0)
		result = objects_folder_make(sp, folder, s->uid, e);
	if (result == 0)
		result = host_ends_make(s->fds, its, e);
	r.uid = s->uid;
	if (result == 0 && clone_ask(sp, z, &r, &step) == -1)
		result = err_sys(e, ERR_UNAVAILABLE, "cannot ask for it");
	for (size_t i = 0; i < 3; i++)
		fd_close(&its[i]);
	if (result == 0)
		s->state = SPARE_COMING;
	else
		place_free(sp, s);
	return result;
}

void spares_timer(struct spawner *sp, struct zygote *z, int64_t now_ms)
{
	struct pool *pool = &z->spares.pool;

	for (uint32_t n = z->has_root ? pool_ask(pool, now_ms) : 0; n > 0; n--) {
		struct spare *s = place(&z->spares);
		struct err e = ERR_INIT;

		if (s && spare_make(sp, z, s, &e) == 0) {
			if (!zygote_asked(sp, z))
				return; /* the next zygote makes the rest */
			continue;
		}
		log_debug("no spare host of profile %s: %s", profile_policy(z->profile)->name, s ? e.text : "those that have ended aren't reaped");
		pool_lost(pool, false, now_ms);
	}
}

static struct spare *find_tag(struct zygote *z, uint64_t tag)
{
	for (size_t i = 0; i < SPARE_PLACES; i++)
		if (z->spares.of[i].state != SPARE_NONE && z->spares.of[i].tag == tag)
			return &z->spares.of[i];
	return NULL;
}

static void lost(struct spawner *sp, struct zygote *z, struct spare *s)
{
	if (s->state != SPARE_GONE)
		pool_lost(&z->spares.pool, s->state == SPARE_WAITING, clock_monotonic_ms());
	place_free(sp, s);
}

/* False: it has ended already. */
static bool pid_known(struct spawner *sp, struct zygote *z, struct spare *s, pid_t pid)
{
	int status;

	if (s->pid != 0)
		return true;
	s->pid = pid;
	if (pid > 0 && !zygotes_early_take(sp, pid, &status))
		return true;
	lost(sp, z, s);
	return false;
}

void spare_cloned(struct spawner *sp, struct zygote *z, const struct zygote_message *m)
{
	struct spare *s = find_tag(z, m->tag);

	if (s)
		(void)pid_known(sp, z, s, m->pid);
}

/* One that failed exits, and a start that meets the same step tells it. */
void spare_born(struct spawner *sp, struct zygote *z, const struct zygote_message *m, pid_t pid, int *listener_fd)
{
	struct spare *s = find_tag(z, m->tag);

	if (!s || pid <= 0 || !pid_known(sp, z, s, pid) || m->status != 0 || s->state != SPARE_COMING)
		return;
	s->state = SPARE_WAITING;
	s->own_pids = z->has_pids;
	if (listener_fd)
		s->listener_fd = fd_take(listener_fd);
	pool_came(&z->spares.pool);
}

/* ---- ends ---- */

bool spare_reaped(struct spawner *sp, pid_t pid)
{
	for (int i = 0; i < PROFILE_NONE; i++) {
		struct zygote *z = &sp->zygotes.of[i];

		for (size_t k = 0; k < SPARE_PLACES; k++)
			if (z->spares.of[k].state != SPARE_NONE && z->spares.of[k].pid == pid) {
				lost(sp, z, &z->spares.of[k]);
				return true;
			}
	}
	return false;
}

bool spares_none(const struct spares *all)
{
	for (size_t i = 0; i < SPARE_PLACES; i++)
		if (all->of[i].state != SPARE_NONE)
			return false;
	return true;
}

bool spares_coming(const struct zygote *z)
{
	for (size_t i = 0; i < SPARE_PLACES; i++)
		if (z->spares.of[i].state != SPARE_NONE && z->spares.of[i].pid == 0)
			return true;
	return false;
}

void spares_drop(struct spawner *sp, struct zygote *z)
{
	(void)sp;
	for (size_t i = 0; i < SPARE_PLACES; i++)
		if (z->spares.of[i].state != SPARE_NONE)
			end(&z->spares.of[i]);
	pool_emptied(&z->spares.pool, clock_monotonic_ms());
}

void spares_link_ended(struct spawner *sp, struct zygote *z)
{
	spares_drop(sp, z);
	for (size_t i = 0; i < SPARE_PLACES; i++)
		if (z->spares.of[i].state != SPARE_NONE && z->spares.of[i].pid == 0)
			place_free(sp, &z->spares.of[i]);
}

void spares_kill(struct spawner *sp, struct zygote *z)
{
	spares_drop(sp, z);
	for (size_t i = 0; i < SPARE_PLACES; i++)
		if (z->spares.of[i].pid > 0)
			(void)kill(z->spares.of[i].pid, SIGKILL);
}

/* SPDX-License-Identifier: MIT
 *
 * Between the spawner's state and the records of handover.h: what goes in when the old program ends, what comes out when the new one begins. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>

#include "daemon/spawner/handover.h"
#include "daemon/spawner/instance.h"
#include "daemon/spawner/spawner.h"
#include "daemon/spawner/upgrade.h"
#include "proto/clock.h"
#include "proto/log.h"

/* ---- in ---- */

static void fds_put(const struct spawner *sp, int32_t fds[HANDOVER_FD__N])
{
	fds[HANDOVER_RUNTIME] = sp->runtime_fd;
	fds[HANDOVER_LOCK] = sp->lock_fd;
	fds[HANDOVER_STATE] = sp->state_fd;
	fds[HANDOVER_OBJECTS] = sp->objects_fd;
	fds[HANDOVER_JOBS] = sp->jobs_fd;
	fds[HANDOVER_OUTCOMES] = sp->outcomes_fd;
	fds[HANDOVER_LISTEN] = sp->listener.fd;
	fds[HANDOVER_FAULTS] = sp->faults_fd;
	fds[HANDOVER_SLICES] = sp->slices.fd;
	fds[HANDOVER_NOTIFY] = sp->notify.fd;
	fds[HANDOVER_CGROUP] = sp->cgroups.dir_fd;
}

static uint64_t spare_number(const struct spawner *sp)
{
	uint64_t most = 0;

	for (int i = 0; i < ZYGOTES; i++)
		if (sp->zygotes.of[i].spares.last_number > most)
			most = sp->zygotes.of[i].spares.last_number;
	return most;
}

static void head_put(const struct spawner *sp, struct handover_head *h)
{
	h->build = build_own();
	fds_put(sp, h->fds);
	h->is_root = sp->is_root;
	h->control_uid = sp->control_uid;
	h->objects_mounted = sp->objects_mounted;
	h->epoch = sp->control.epoch;
	h->upgrades = sp->upgrade.done;
	h->uid_first = sp->slices.first;
	h->slices = sp->slices.n;
	h->slices_next = sp->slices.next;
	h->uids_room = sp->uids.room;
	h->stop_asked = sp->stop_asked;
	h->stop_by_ms = sp->stop_by_ms;
	h->stop_asked_ms = sp->stop_asked_ms;
	h->incarnation = sp->control.incarnation;
	h->generations = sp->generations;
	h->spare_number = spare_number(sp);
	h->listen_device = sp->listener.device;
	h->listen_inode = sp->listener.inode;
	h->cgroups_has = sp->cgroups.has;
	h->denials_dropped = sp->denials.dropped + sp->denials.n; /* those that no control has heard of are told as dropped */
	h->watchdog_ms = sp->notify.watchdog_ms;
	(void)snprintf(h->runtime_dir, sizeof h->runtime_dir, "%s", sp->config.runtime_dir);
	(void)snprintf(h->state_dir, sizeof h->state_dir, "%s", sp->config.state_dir);
	(void)snprintf(h->socket_path, sizeof h->socket_path, "%s", sp->config.socket_path);
	(void)snprintf(h->cgroup_dir, sizeof h->cgroup_dir, "%s", sp->cgroups.path);
	(void)snprintf(h->cgroup_why, sizeof h->cgroup_why, "%s", sp->cgroups.why);
}

static void entry_put(const struct entry *entry, struct handover_entry *to)
{
	(void)snprintf(to->sandbox, sizeof to->sandbox, "%s", entry->sandbox);
	(void)snprintf(to->leaf, sizeof to->leaf, "%s", entry->leaf);
	(void)snprintf(to->step, sizeof to->step, "%s", entry->step);
	(void)snprintf(to->text, sizeof to->text, "%s", entry->text);
	to->uid = entry->uid;
	for (size_t i = 0; i < ENTRY_FD__N; i++)
		to->fds[i] = entry->fds[i];
	to->fds[ENTRY_FD__N] = entry->listener_fd;
	to->pid = entry->pid;
	to->status = entry->status;
	to->flags = (entry->exited ? HANDOVER_EXITED : 0u) | (entry->frozen ? HANDOVER_FROZEN : 0u) | (entry->frozen_by_cgroup ? HANDOVER_BY_CGROUP : 0u) |
		(entry->loose ? HANDOVER_LOOSE : 0u) | (entry->own_pids ? HANDOVER_OWN_PIDS : 0u) | (entry->oom ? HANDOVER_OOM : 0u) |
		(entry_is_second(entry) ? HANDOVER_SECOND : 0u);
	to->n_denials = entry->n_denials;
	if (profile_policy(entry->profile))
		(void)snprintf(to->profile, sizeof to->profile, "%s", profile_policy(entry->profile)->name);
	to->host_build = entry->host_build;
	to->limits = entry->limits;
	to->generation = entry->generation;
	to->dropped_bytes = entry->dropped_bytes;
	to->started_ms = entry->started_ms;
	to->ended_ms = entry->ended_ms;
}

static uint32_t sweeps_put(const struct sweeps *s, uint32_t *to)
{
	uint32_t n = 0;

	for (size_t i = 0; i < SWEEPS_AT_ONCE; i++)
		if (s->at_work[i].pid != 0)
			to[n++] = s->at_work[i].uid; /* once more: its end would be told to the old program */
	for (size_t i = 0; i < s->n_waiting; i++)
		to[n++] = s->waiting[i];
	return n;
}

void *upgrade_pack(const struct spawner *sp, size_t *ret_size, struct err *e)
{
	static struct handover_head head;
	struct handover_entry *entries = calloc(sp->table.n + 1ul, sizeof *entries);
	uint32_t *uids = calloc(sp->uids.n_free + 1ul, sizeof *uids);
	uint32_t *sweeps = calloc(SWEEPS_AT_ONCE + sp->sweeps.n_waiting, sizeof *sweeps);
	const struct handover h = { &head, entries, uids, sweeps };
	void *bytes = NULL;

	memset(&head, 0, sizeof head);
	if (entries && uids && sweeps) {
		head_put(sp, &head);
		for (struct entry *entry = table_from(&sp->table, 0); entry; entry = table_from(&sp->table, entry->slot + 1ull))
			entry_put(entry, &entries[head.n_entries++]);
		for (uint32_t i = 0; i < sp->uids.n_free; i++)
			uids[head.n_uids++] = sp->uids.ring[(sp->uids.head + i) % sp->uids.room];
		head.n_sweeps = sweeps_put(&sp->sweeps, sweeps);
		bytes = handover_pack(&h, ret_size);
	}
	free(entries);
	free(uids);
	free(sweeps);
	if (!bytes)
		err_set(e, ERR_UPGRADE_REFUSED, "no memory for the table of %u sandboxes", sp->table.n);
	return bytes;
}

/* ---- out ---- */

int upgrade_config_check(const struct config *c, const struct handover *h, struct err *e)
{
	const struct {
		const char *key, *own, *running;
	} rows[] = { { "runtime_dir", c->runtime_dir, h->head->runtime_dir }, { "state_dir", c->state_dir, h->head->state_dir },
		{ "socket", c->socket_path, h->head->socket_path } };
	bool is_root = geteuid() == 0;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(rows[i].own, rows[i].running) != 0)
			return err_set(e, ERR_UPGRADE_REFUSED, "%s is %.150s now, and the daemon runs with %.150s: that needs a stop and a start", rows[i].key,
				rows[i].own, rows[i].running);
	if (is_root != (h->head->is_root == 1))
		return err_set(e, ERR_UPGRADE_REFUSED, "the daemon runs as another user");
	if (is_root && (c->uid_first != h->head->uid_first || c->uid_count / LIMIT_UIDS_PER_SLICE != h->head->slices))
		return err_set(e, ERR_UPGRADE_REFUSED, "uid_first or uid_count have changed: that needs a stop and a start");
	if (c->max_sandboxes < h->head->n_entries)
		return err_set(e, ERR_UPGRADE_REFUSED, "max_sandboxes is %u now, and %u are held", c->max_sandboxes, h->head->n_entries);
	return 0;
}

static void head_take(struct spawner *sp, const struct handover_head *h)
{
	sp->runtime_fd = h->fds[HANDOVER_RUNTIME];
	sp->lock_fd = h->fds[HANDOVER_LOCK];
	sp->state_fd = h->fds[HANDOVER_STATE];
	sp->objects_fd = h->fds[HANDOVER_OBJECTS];
	sp->jobs_fd = h->fds[HANDOVER_JOBS];
	sp->outcomes_fd = h->fds[HANDOVER_OUTCOMES];
	sp->slices = (struct slices){ h->fds[HANDOVER_SLICES], h->uid_first, h->slices, h->slices_next };
	sp->notify = (struct notify){ h->fds[HANDOVER_NOTIFY], h->watchdog_ms };
	sp->control_uid = h->control_uid;
	sp->objects_mounted = h->objects_mounted;
	sp->control.epoch = h->epoch;
	sp->control.incarnation = h->incarnation;
	sp->control.ever_ready = true;
	sp->upgrade.done = h->upgrades + 1;
	sp->upgrade.untold = true;
	sp->stop_asked = h->stop_asked;
	sp->stop_by_ms = h->stop_by_ms;
	sp->stop_asked_ms = h->stop_asked_ms;
	sp->generations = h->generations;
	for (int i = 0; i < ZYGOTES; i++)
		sp->zygotes.of[i].spares.last_number = h->spare_number;
	sp->denials.dropped = h->denials_dropped;
}

/* Nobody else's is given to a host, or swept, whatever the program before had in its table. */
static bool uid_is_ours(const struct handover_head *h, uint32_t uid)
{
	return uid >= h->uid_first && uid - h->uid_first < h->slices * LIMIT_UIDS_PER_SLICE;
}

static int uids_take_over(struct spawner *sp, const struct handover *h, struct err *e)
{
	uint32_t room = h->head->uids_room;

	if (!sp->is_root)
		return 0;
	if (uids_add(&sp->uids, 0, room, e) == -1)
		return -1;
	sp->uids.head = 0;
	sp->uids.n_free = 0;
	for (uint32_t i = 0; i < h->head->n_uids; i++)
		if (uid_is_ours(h->head, h->uids[i]))
			uids_give(&sp->uids, h->uids[i]);
	return 0;
}

/* What a forbidden call gets is in its profile; without that the kernel refuses it, with ENOSYS. */
static void listener_take(struct spawner *sp, struct entry *entry, int fd)
{
	if (profile_policy(entry->profile)) {
		denials_watch(sp, entry, fd);
		return;
	}
	log_warning("sandbox=%s runs under a profile that has gone: its forbidden calls get ENOSYS and are not named", entry->sandbox);
	(void)close(fd);
}

/* Its life goes through the steps that it has gone through. */
static int entry_take(struct spawner *sp, const struct handover_entry *from, struct err *e)
{
	struct entry *entry = table_add(&sp->table, from->sandbox, e);

	if (!entry)
		return -1;
	for (size_t i = 0; i < ENTRY_FD__N; i++)
		entry->fds[i] = from->fds[i];
	if (from->flags & HANDOVER_SECOND)
		entry_folder_set(entry, true);
	entry->uid = from->uid;
	entry->profile = profile_from_name(from->profile, strlen(from->profile));
	entry->limits = from->limits;
	entry->host_build = from->host_build;
	entry->generation = from->generation;
	if (from->pid > 0 || (from->flags & HANDOVER_EXITED))
		entry_started(&sp->table, entry, from->generation, from->started_ms);
	entry_has_own_pids(entry, (from->flags & HANDOVER_OWN_PIDS) != 0);
	if (from->pid > 0) {
		entry_has_pid(&sp->table, entry, from->pid);
		entry_birth_sent(entry); /* it stands in the table, which the next control reads */
		entry_born(entry);
	} else if (from->flags & HANDOVER_EXITED) {
		entry_exited(&sp->table, entry, from->status, from->ended_ms);
	}
	entry->loose = (from->flags & HANDOVER_LOOSE) != 0;
	entry->frozen = (from->flags & HANDOVER_FROZEN) != 0;
	entry->frozen_by_cgroup = (from->flags & HANDOVER_BY_CGROUP) != 0;
	entry->oom = (from->flags & HANDOVER_OOM) != 0;
	entry->status = from->status;
	entry->started_ms = from->started_ms;
	entry->ended_ms = from->ended_ms;
	entry->dropped_bytes = from->dropped_bytes;
	(void)snprintf(entry->leaf, sizeof entry->leaf, "%s", from->leaf);
	(void)snprintf(entry->step, sizeof entry->step, "%s", from->step);
	(void)snprintf(entry->text, sizeof entry->text, "%s", from->text);
	if (from->fds[ENTRY_FD__N] != -1)
		listener_take(sp, entry, from->fds[ENTRY_FD__N]);
	entry->n_denials = from->n_denials;
	return 0;
}

static bool leaf_is_held(void *ctx, const char *leaf)
{
	const struct table *t = ctx;

	for (struct entry *entry = table_from(t, 0); entry; entry = table_from(t, entry->slot + 1ull))
		if (strcmp(entry->leaf, leaf) == 0)
			return true;
	return false;
}

int upgrade_take_over(struct spawner *sp, const struct config *c, const struct handover *h, struct err *e)
{
	int64_t now_ms = clock_monotonic_ms();

	if (handover_descriptors(h, e) == -1 || upgrade_config_check(c, h, e) == -1)
		return -1;
	head_take(sp, h->head);
	if (instance_take_over(sp, e) == -1 || uids_take_over(sp, h, e) == -1 || table_init(&sp->table, c->max_sandboxes, e) == -1)
		return -1;
	for (uint32_t i = 0; i < h->head->n_entries; i++)
		if (entry_take(sp, &h->entries[i], e) == -1)
			return -1;
	if (listener_take_over(&sp->listener, c, h->head->fds[HANDOVER_LISTEN], h->head->listen_device, h->head->listen_inode, e) == -1)
		return -1;
	cgroups_take_over(&sp->cgroups, h->head->fds[HANDOVER_CGROUP], h->head->cgroups_has, h->head->cgroup_dir, h->head->cgroup_why);
	cgroups_sweep(&sp->cgroups, leaf_is_held, &sp->table);
	for (uint32_t i = 0; i < h->head->n_sweeps; i++)
		if (uid_is_ours(h->head, h->sweeps[i]))
			sweeps_add(&sp->sweeps, h->sweeps[i], now_ms);
	return 0;
}

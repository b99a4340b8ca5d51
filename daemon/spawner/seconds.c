/* SPDX-License-Identifier: MIT
 *
 * A sandbox's second process: made beside the one that lives, as any host is, with a user and an objects folder of its own; promoted, or dropped.
 * Where one process has replaced another they have changed places: the one before is the second then, until it has ended. What is dropped is
 * killed, and stays in the table of processes alone until it is reaped. */
#include <errno.h>
#include <signal.h>

#include "daemon/spawner/folders.h"
#include "daemon/spawner/spawner.h"
#include "daemon/spawner/validate.h"
#include "daemon/spawner/zygotes_inside.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/log.h"

static void folder_remove(struct spawner *sp, const struct entry *entry)
{
	struct err e = ERR_INIT;

	if (folder_remove_at(sp->objects_fd, entry->folder, &e) == -1)
		log_warning("sandbox=%s: an objects folder stays: %s", entry->sandbox, e.text);
}

/* Its folder, as a spare's or anew, and its user. */
static int place_make(struct spawner *sp, struct entry *other, enum profile profile, struct spare **spare, struct err *e)
{
	struct err ignored = ERR_INIT;

	if (*spare && spare_folder_give(sp, *spare, profile, other->folder, true, &ignored) == -1)
		*spare = NULL;
	if (*spare) {
		other->uid = (*spare)->uid;
		return 0;
	}
	if (spawner_take_uid(sp, &other->uid, e) == -1)
		return -1;
	return objects_folder_make(sp, other->folder, other->uid, e);
}

struct entry *second_start(struct spawner *sp, struct entry *entry, enum profile profile, bool is_fresh, const struct host_limits *limits,
	struct err *e)
{
	struct entry *other;
	struct spare *spare;

	if (!entry_lives(entry) || entry->starting || entry->frozen) {
		(void)REFUSE(e, ESRCH, "'%s' has no process that serves, which a candidate could follow", entry->sandbox);
		return NULL;
	}
	if (entry->other && entry->other->is_candidate) {
		(void)REFUSE(e, EBUSY, "'%s' has a candidate", entry->sandbox);
		return NULL;
	}
	if (!fd_room_beside(LIMIT_RESERVED_FDS / 2)) {
		(void)REFUSE(e, EMFILE, "no descriptors are left: raise the limit");
		return NULL;
	}
	if (FAULT(SPAWNER_CANDIDATE)) {
		err_sys(e, ERR_UNAVAILABLE, "cannot start a second process for '%s'", entry->sandbox);
		return NULL;
	}
	if (entry->other)
		second_drop(sp, entry); /* the one that was replaced before is still on its way out */
	other = entry_other_add(entry, e);
	if (!other)
		return NULL;
	spare = fault_on || is_fresh ? NULL : spare_find(sp, profile, limits);
	if (place_make(sp, other, profile, &spare, e) == 0) {
		if (spare)
			spare_start(sp, spare, other, profile);
		else if (birth_start(sp, other, profile, is_fresh, limits, e) == -1)
			goto failed;
		return other;
	}
failed:
	second_drop(sp, entry);
	return NULL;
}

struct entry *second_promote(struct spawner *sp, struct entry *entry, uint64_t generation, int *fds, size_t n_fds, struct err *e)
{
	struct entry *next = entry->other;

	if (!next || !next->is_candidate || next->generation != generation) {
		(void)REFUSE(e, ESRCH, "'%s' has no such candidate", entry->sandbox);
		return NULL;
	}
	if (!entry_lives(next) || next->starting || next->kill_wanted) {
		(void)REFUSE(e, ESRCH, "the candidate of '%s' %s", entry->sandbox, next->exited ? "has ended" : "isn't born");
		return NULL;
	}
	if (validate_keep(SPAWNER_KEEP_SPEC, fds[0], e) == -1 || (n_fds > 1 && validate_keep(SPAWNER_KEEP_MIRROR, fds[1], e) == -1))
		return NULL;
	if (FAULT(SPAWNER_PROMOTE)) {
		err_sys(e, ERR_UNAVAILABLE, "cannot promote the candidate of '%s'", entry->sandbox);
		return NULL;
	}
	if (objects_move(sp, entry->folder, next->folder, e) == -1) {
		struct err ignored = ERR_INIT;

		(void)objects_move(sp, next->folder, entry->folder, &ignored);
		return NULL;
	}
	next = entry_promote(&sp->table, entry, fd_take(&fds[0]), n_fds > 1 ? fd_take(&fds[1]) : -1);
	folder_remove(sp, entry); /* what it loaded is mapped; nothing is placed there any more */
	log_debug("sandbox=%s generation %llu follows %llu", next->sandbox, (unsigned long long)next->generation,
		(unsigned long long)entry->generation);
	return next;
}

void second_drop(struct spawner *sp, struct entry *entry)
{
	struct entry *other = entry->other;

	if (other->is_candidate)
		folder_remove(sp, other);
	if (other->pid > 0)
		entry_kill(sp, other);
	else if (other->starting)
		other->kill_wanted = true;
	entry_other_drop(&sp->table, entry);
}

void seconds_drop_all(struct spawner *sp)
{
	struct entry *entry;

	for (uint64_t cursor = 0; (entry = table_from(&sp->table, cursor)); cursor = entry->slot + 1ull)
		if (entry->other)
			second_drop(sp, entry);
}

void seconds_free(struct spawner *sp)
{
	struct entry *entry;

	while ((entry = table_gone(&sp->table))) {
		if (entry->uid != (uid_t)-1)
			(entry->loose ? reap_sweep : reap_uid_free)(sp, entry->uid);
		entry_free(entry);
	}
}

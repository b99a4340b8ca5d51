/* SPDX-License-Identifier: MIT
 *
 * What control asks for: one handler per op. A handler fills the reply and may keep descriptors by fd_take; all others are
 * closed behind it. An err that it returns becomes an ERROR reply. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/spawner/folders.h"
#include "daemon/spawner/spawner.h"
#include "daemon/spawner/validate.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/host_wire.h"
#include "proto/log.h"

/* What a handler works with. reply.op == 0 after success: nothing is sent (now). */
struct request {
	const struct spawner_message *m;
	int *fds;
	size_t n_fds;
	struct spawner_message reply;
	int reply_fds[FD_MESSAGE_MAX];
	size_t n_reply_fds;
	uint32_t error_flags; /* of an ERROR */
};

static struct entry *entry_wanted(struct spawner *sp, const struct request *r, struct err *e)
{
	struct entry *entry = table_find(&sp->table, r->m->sandbox);

	if (!entry)
		(void)REFUSE(e, ENOENT, "no sandbox '%s' is held", r->m->sandbox);
	return entry;
}

static int on_ready(struct spawner *sp, struct request *r, struct err *e)
{
	struct control *c = &sp->control;

	(void)r;
	(void)e;
	if (!c->ever_ready)
		log_info("serving on %s", sp->config.socket_path);
	else if (!c->ready)
		log_info("control %d took over after %lld ms", (int)c->pid,
			(long long)(clock_monotonic_ms() - c->started_ms));
	c->ready = true;
	c->ever_ready = true;
	sp->upgrade.untold = false;
	liveness_serves(&sp->liveness, clock_monotonic_ms());
	notify_send(&sp->notify, "READY=1\nWATCHDOG=1\nSTATUS=serving on %s\n", sp->config.socket_path);
	return 0;
}

static int on_alive(struct spawner *sp, struct request *r, struct err *e)
{
	(void)r;
	(void)e;
	if (liveness_answered(&sp->liveness, clock_monotonic_ms()))
		notify_send(&sp->notify, "WATCHDOG=1\nSTATUS=serving, %u processes of sandboxes\n", sp->table.n_living);
	return 0;
}

static int on_table(struct spawner *sp, struct request *r, struct err *e)
{
	struct entry *entry = table_from(&sp->table, r->m->value);

	(void)e;
	if (!entry) {
		r->reply.op = SPAWNER_TABLE_END;
		return 0;
	}
	r->reply.op = SPAWNER_ENTRY;
	r->reply.value = entry->slot + 1ull;
	entry_describe(entry, &r->reply);
	r->n_reply_fds = entry_borrow_fds(entry, &r->reply, r->reply_fds);
	return 0;
}

/* objects/<sandbox>: written by control, read by this sandbox's host alone. */
int objects_folder_make(struct spawner *sp, const char *sandbox, uid_t uid, struct err *e)
{
	struct stat st;

	if (folder_remove_at(sp->objects_fd, sandbox, e) == -1)
		return -1;
	if (mkdirat(sp->objects_fd, sandbox, 0700) == -1)
		return err_sys(e, ERR_IO, "cannot make the objects folder");
	if (!sp->is_root)
		return 0;
	/* The mode last: a change of owner clears the setgid bit. The parent is ours alone: no link can be in the way. */
	if (fchownat(sp->objects_fd, sandbox, sp->control_uid, uid, AT_SYMLINK_NOFOLLOW) == -1 ||
		fchmodat(sp->objects_fd, sandbox, 02750, 0) == -1 || fstatat(sp->objects_fd, sandbox, &st, AT_SYMLINK_NOFOLLOW) == -1) {
		err_sys(e, ERR_IO, "cannot hand over the objects folder");
		(void)unlinkat(sp->objects_fd, sandbox, AT_REMOVEDIR);
		return -1;
	}
	if (!(st.st_mode & S_ISGID)) { /* without the capability the kernel drops the bit and says nothing */
		(void)unlinkat(sp->objects_fd, sandbox, AT_REMOVEDIR);
		return REFUSE(e, EPERM, "the objects folder can't be setgid: sandboxd lacks CAP_FSETID");
	}
	return 0;
}

/* spare, NULL: none, and profile is unused: whose process it will have. Where that can't be, it is set to NULL. */
static int hold(struct spawner *sp, struct request *r, enum profile profile, struct spare **spare, struct err *e)
{
	struct err ignored = ERR_INIT;
	struct entry *entry;
	uid_t uid;

	if (table_find(&sp->table, r->m->sandbox))
		return REFUSE(e, EEXIST, "the sandbox '%s' is held already", r->m->sandbox);
	if (validate_keep(SPAWNER_KEEP_SPEC, r->fds[0], e) == -1)
		return -1;
	if (!fd_room_beside(LIMIT_RESERVED_FDS / 2)) /* what is left is for starting those again that are there */
		return REFUSE(e, EMFILE, "no descriptors are left: raise the limit");
	if (FAULT(SPAWNER_HOLD))
		return err_sys(e, ERR_UNAVAILABLE, "cannot hold the sandbox '%s'", r->m->sandbox);
	entry = table_add(&sp->table, r->m->sandbox, e);
	if (!entry) {
		e->sys_errno = ENOSPC;
		return -1;
	}
	if (*spare && spare_folder_give(sp, *spare, profile, entry->sandbox, true, &ignored) == -1)
		*spare = NULL;
	if (*spare) {
		uid = (*spare)->uid;
	} else if (spawner_take_uid(sp, &uid, e) == -1) {
		table_remove(&sp->table, entry);
		return -1;
	}
	entry->uid = uid;
	if (!*spare && objects_folder_make(sp, entry->sandbox, uid, e) == -1) {
		if (sp->is_root)
			uids_give(&sp->uids, uid);
		table_remove(&sp->table, entry);
		return -1;
	}
	entry->fds[ENTRY_SPEC] = fd_take(&r->fds[0]);
	r->reply.uid = uid;
	return 0;
}

static int on_hold(struct spawner *sp, struct request *r, struct err *e)
{
	struct spare *none = NULL;

	r->reply.op = SPAWNER_OK;
	return hold(sp, r, PROFILE_NONE, &none, e);
}

static int keep(struct entry *entry, enum spawner_keep kind, struct request *r, struct err *e)
{
	int *place = NULL;

	if (validate_keep((uint16_t)kind, r->n_fds ? r->fds[0] : -1, e) == -1)
		return -1;
	if (FAULT(SPAWNER_KEEP))
		return err_sys(e, ERR_UNAVAILABLE, "cannot keep what belongs to '%s'", entry->sandbox);
	switch (kind) {
	case SPAWNER_KEEP_SPEC:
		place = &entry->fds[ENTRY_SPEC];
		break;
	case SPAWNER_KEEP_STATE:
		place = &entry->fds[ENTRY_STATE];
		break;
	case SPAWNER_KEEP_RING:
		place = &entry->fds[ENTRY_RING];
		break;
	case SPAWNER_KEEP_CHECKPOINT:
	case SPAWNER_KEEP_MIRROR:
		place = &entry->fds[ENTRY_CHECKPOINT];
		break;
	}
	assert(place); /* validate_keep knows the same kinds */
	fd_close(place);
	if (r->n_fds)
		*place = fd_take(&r->fds[0]);
	return 0;
}

static int on_keep(struct spawner *sp, struct request *r, struct err *e)
{
	struct entry *entry = entry_wanted(sp, r, e);

	r->reply.op = SPAWNER_OK;
	return entry ? keep(entry, (enum spawner_keep)r->m->kind, r, e) : -1;
}

static int on_forget(struct spawner *sp, struct request *r, struct err *e)
{
	struct entry *entry = entry_wanted(sp, r, e);
	struct err ignored = ERR_INIT;

	if (!entry)
		return -1;
	if (entry_lives(entry))
		return REFUSE(e, EBUSY, "the host of '%s' lives", entry->sandbox);
	if (FAULT(SPAWNER_FORGET))
		return err_sys(e, ERR_UNAVAILABLE, "cannot forget the sandbox '%s'", entry->sandbox);
	if (entry->other)
		second_drop(sp, entry);
	if (folder_remove_at(sp->objects_fd, entry->folder, &ignored) == -1)
		log_warning("sandbox=%s: its objects folder stays: %s", entry->sandbox, ignored.text);
	if (entry->loose)
		reap_sweep(sp, entry->uid);
	else
		reap_uid_free(sp, entry->uid);
	table_remove(&sp->table, entry);
	r->reply.op = SPAWNER_OK;
	return 0;
}

static void reply_started(struct request *r, const struct entry *entry)
{
	r->reply.op = SPAWNER_STARTED;
	entry_describe(entry, &r->reply);
	r->reply_fds[0] = entry->fds[ENTRY_CHANNEL];
	r->reply_fds[1] = entry->fds[ENTRY_STDOUT];
	r->reply_fds[2] = entry->fds[ENTRY_STDERR];
	r->n_reply_fds = 3;
	r->reply.flags = SPAWNER_F_CHANNEL | SPAWNER_F_STDOUT | SPAWNER_F_STDERR | (r->reply.flags & SPAWNER_F_SECOND);
}

static int start_check(const struct spawner *sp, const struct request *r, enum profile *ret_profile, struct host_limits *ret_limits, struct err *e)
{
	*ret_profile = profile_from_name(r->m->name, strlen(r->m->name));
	if (sp->ending)
		return REFUSE(e, ESHUTDOWN, "sandboxd ends");
	if (*ret_profile == PROFILE_NONE)
		return REFUSE(e, EINVAL, "no profile is called '%s'", r->m->name);
	if (r->m->flags & ~(SPAWNER_F_HOLD | SPAWNER_F_FRESH | SPAWNER_F_CANDIDATE))
		return REFUSE(e, EINVAL, "START with the unknown flags 0x%x", r->m->flags);
	if ((r->m->flags & SPAWNER_F_CANDIDATE) && ((r->m->flags & SPAWNER_F_HOLD) || r->n_fds > 0))
		return REFUSE(e, EINVAL, "a candidate is no new sandbox, and has no spec of its own");
	return validate_limits(&r->m->limits, &sp->config, ret_limits, e);
}

/* A sandbox that is held starts again: another process, and with a spare one another uid. */
static int again(struct spawner *sp, struct request *r, struct entry *entry, enum profile profile, struct spare **spare, struct err *e)
{
	struct err ignored = ERR_INIT;

	if (r->n_fds > 0 && keep(entry, SPAWNER_KEEP_SPEC, r, e) == -1)
		return -1;
	entry_acknowledged(&sp->table, entry); /* whoever starts again has seen the exit, or will see the new generation */
	if (*spare && spare_folder_give(sp, *spare, profile, entry->folder, false, &ignored) == -1)
		*spare = NULL;
	if (!*spare || (*spare)->uid == entry->uid)
		return 0;
	(entry->loose ? reap_sweep : reap_uid_free)(sp, entry->uid);
	entry->loose = false;
	entry->uid = (*spare)->uid;
	return 0;
}

/* Beside the process that lives. */
static int start_candidate(struct spawner *sp, struct request *r, struct err *e)
{
	struct entry *entry = entry_wanted(sp, r, e);
	struct host_limits limits;
	enum profile profile;

	if (!entry || start_check(sp, r, &profile, &limits, e) == -1)
		return -1;
	entry = second_start(sp, entry, profile, r->m->flags & SPAWNER_F_FRESH, &limits, e);
	if (!entry)
		return -1;
	reply_started(r, entry);
	return 0;
}

static int on_promote(struct spawner *sp, struct request *r, struct err *e)
{
	struct entry *entry = entry_wanted(sp, r, e);

	if (!entry || !second_promote(sp, entry, r->m->generation, r->fds, r->n_fds, e))
		return -1;
	r->reply.op = SPAWNER_OK;
	return 0;
}

static int on_discard(struct spawner *sp, struct request *r, struct err *e)
{
	struct entry *entry = entry_wanted(sp, r, e), *other = entry ? entry->other : NULL;

	if (!entry)
		return -1;
	if (!other || !other->is_candidate || (r->m->generation != 0 && other->generation != r->m->generation))
		return REFUSE(e, ESRCH, "'%s' has no such candidate", entry->sandbox);
	second_drop(sp, entry);
	r->reply.op = SPAWNER_OK;
	return 0;
}

static int on_start(struct spawner *sp, struct request *r, struct err *e)
{
	bool is_new = r->m->flags & SPAWNER_F_HOLD, is_fresh = r->m->flags & SPAWNER_F_FRESH;
	struct spare *spare;
	struct host_limits limits;
	enum profile profile;
	struct entry *entry = is_new ? NULL : entry_wanted(sp, r, e);

	if (r->m->flags & SPAWNER_F_CANDIDATE)
		return start_candidate(sp, r, e);
	r->error_flags = is_new ? SPAWNER_F_HOLD : 0;
	if (!is_new && !entry)
		return -1;
	if (is_new && r->n_fds != 1)
		return REFUSE(e, EINVAL, "a sandbox that is to be held comes with its spec");
	if (start_check(sp, r, &profile, &limits, e) == -1)
		return -1;
	if (entry && entry_lives(entry))
		return REFUSE(e, EBUSY, "a host of '%s' lives", entry->sandbox);
	spare = fault_on || is_fresh ? NULL : spare_find(sp, profile, &limits); /* what is planted is met by each start */
	if ((is_new ? hold(sp, r, profile, &spare, e) : again(sp, r, entry, profile, &spare, e)) == -1)
		return -1;
	r->error_flags = 0;
	entry = entry_wanted(sp, r, e);
	assert(entry);
	if (spare)
		spare_start(sp, spare, entry, profile);
	else if (FAULT(SPAWNER_START))
		return err_sys(e, ERR_UNAVAILABLE, "cannot start a host for '%s'", entry->sandbox);
	else if (birth_start(sp, entry, profile, is_fresh, &limits, e) == -1)
		return -1;
	reply_started(r, entry);
	return 0;
}

/* The pid is a child of ours that we have not reaped: it can't be anybody else's by now. */
static int on_signal(struct spawner *sp, struct request *r, struct err *e)
{
	struct entry *entry = entry_wanted(sp, r, e);

	if (!entry)
		return -1;
	entry = entry_of_generation(entry, r->m->generation);
	if (!entry || !entry_lives(entry))
		return REFUSE(e, ESRCH, "generation %llu of '%s' is gone", (unsigned long long)r->m->generation, r->m->sandbox);
	if (entry->pid == 0) { /* not born: an attention has nothing to interrupt */
		entry->kill_wanted = entry->kill_wanted || r->m->kind == SPAWNER_SIGNAL_KILL;
		r->reply.op = SPAWNER_OK;
		return 0;
	}
	switch ((enum spawner_signal)r->m->kind) {
	case SPAWNER_SIGNAL_KILL:
		entry_kill(sp, entry);
		break;
	case SPAWNER_SIGNAL_ATTENTION:
		(void)kill(entry->pid, HOST_ATTENTION_SIGNAL);
		break;
	case SPAWNER_SIGNAL_TIME:
		(void)sigqueue(entry->pid, HOST_ATTENTION_SIGNAL, (union sigval){ .sival_int = HOST_ATTENTION_TIME });
		break;
	case SPAWNER_SIGNAL_FREEZE:
		if (entry_freeze(sp, entry, e) == -1)
			return -1;
		r->reply.flags = entry->frozen_by_cgroup ? SPAWNER_F_CGROUP : 0;
		break;
	case SPAWNER_SIGNAL_THAW:
		entry_thaw(sp, entry);
		break;
	}
	r->reply.op = SPAWNER_OK;
	return 0;
}

/* The spec goes with them: a control that is killed now is followed by one that knows what its process has. */
static int on_limit(struct spawner *sp, struct request *r, struct err *e)
{
	struct entry *entry = entry_wanted(sp, r, e);
	struct host_limits limits;

	if (!entry || validate_limits(&r->m->limits, &sp->config, &limits, e) == -1)
		return -1;
	if (!entry_lives(entry) || entry->generation != r->m->generation)
		return REFUSE(e, ESRCH, "generation %llu of '%s' is gone", (unsigned long long)r->m->generation, entry->sandbox);
	if (entry->pid == 0)
		return REFUSE(e, EAGAIN, "the process of '%s' is being made", entry->sandbox);
	if (validate_keep(SPAWNER_KEEP_SPEC, r->fds[0], e) == -1 || entry_limit(sp, entry, &limits, &r->reply, e) == -1)
		return -1;
	fd_close(&entry->fds[ENTRY_SPEC]);
	entry->fds[ENTRY_SPEC] = fd_take(&r->fds[0]);
	r->reply.op = SPAWNER_OK;
	return 0;
}

static int on_ack_exit(struct spawner *sp, struct request *r, struct err *e)
{
	struct entry *entry = entry_wanted(sp, r, e);

	if (!entry)
		return -1;
	if (entry->exited && entry->generation == r->m->generation)
		entry_acknowledged(&sp->table, entry);
	else if (entry->other && entry->other->exited && entry->other->generation == r->m->generation)
		second_drop(sp, entry);
	return 0;
}

static int on_job(struct spawner *sp, struct request *r, struct err *e)
{
	if (sp->ending)
		return REFUSE(e, ESHUTDOWN, "sandboxd ends");
	return job_start(sp, r->m, r->fds[0], e);
}

static int on_job_kill(struct spawner *sp, struct request *r, struct err *e)
{
	(void)e;
	job_kill(sp, r->m->value);
	return 0;
}

static int on_finished(struct spawner *sp, struct request *r, struct err *e)
{
	(void)r;
	(void)e;
	if (!sp->ending) {
		log_info("stopped");
		spawner_end(sp, EXIT_DONE);
	}
	return 0;
}

/* The spawner must know: else a control that dies now would be followed by one that knows nothing of it. */
static int on_stop(struct spawner *sp, struct request *r, struct err *e)
{
	(void)r;
	(void)e;
	spawner_stop_asked(sp, "a client's request", clock_monotonic_ms());
	return 0;
}

static int on_upgrade(struct spawner *sp, struct request *r, struct err *e)
{
	(void)r;
	(void)e;
	upgrade_asked(sp, "a client's request", clock_monotonic_ms());
	return 0;
}

static int on_stopping(struct spawner *sp, struct request *r, struct err *e)
{
	(void)e;
	spawner_patience(sp, r->m->value);
	return 0;
}

static int (*const handlers[SPAWNER_REQUEST__N])(struct spawner *, struct request *, struct err *) = {
	[SPAWNER_READY] = on_ready,
	[SPAWNER_TABLE] = on_table,
	[SPAWNER_HOLD] = on_hold,
	[SPAWNER_KEEP] = on_keep,
	[SPAWNER_FORGET] = on_forget,
	[SPAWNER_START] = on_start,
	[SPAWNER_SIGNAL] = on_signal,
	[SPAWNER_ACK_EXIT] = on_ack_exit,
	[SPAWNER_JOB] = on_job,
	[SPAWNER_JOB_KILL] = on_job_kill,
	[SPAWNER_FINISHED] = on_finished,
	[SPAWNER_STOP] = on_stop,
	[SPAWNER_STOPPING] = on_stopping,
	[SPAWNER_ALIVE] = on_alive,
	[SPAWNER_UPGRADE] = on_upgrade,
	[SPAWNER_PROMOTE] = on_promote,
	[SPAWNER_DISCARD] = on_discard,
	[SPAWNER_LIMIT] = on_limit,
};

static void refuse(struct request *r, const struct err *e)
{
	memset(&r->reply, 0, sizeof r->reply);
	r->reply.op = SPAWNER_ERROR;
	r->reply.status = e->sys_errno > 0 ? e->sys_errno : EIO;
	text_clean(r->reply.text, sizeof r->reply.text, e->text, strlen(e->text));
	r->reply.flags = r->error_flags;
	r->n_reply_fds = 0;
}

void request_handle(struct spawner *sp, const struct spawner_message *m, int *fds, size_t n_fds)
{
	struct request r = { .m = m, .fds = fds, .n_fds = n_fds };
	struct err e = ERR_INIT;
	int result = validate_request(m, n_fds, &e);

	if (result == 0)
		result = handlers[m->op](sp, &r, &e);
	if (result == -1 && m->tag != 0 && validate_op_replies(m->op))
		refuse(&r, &e);
	else if (result == -1)
		log_warning("control: %s is ignored: %s", validate_op_name(m->op), e.text);
	for (size_t i = 0; i < n_fds; i++)
		fd_close(&fds[i]);
	if (r.reply.op == 0 || m->tag == 0) /* nobody waits for it */
		return;
	r.reply.version = SPAWNER_WIRE_VERSION;
	r.reply.tag = m->tag;
	control_reply(sp, &r.reply, r.reply_fds, r.n_reply_fds);
}

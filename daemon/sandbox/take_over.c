/* SPDX-License-Identifier: MIT
 *
 * A new control process finds what an earlier one left: each entry of the spawner's table becomes a sandbox again. Hosts are asked what
 * they are doing; what was not committed is undone, what was committed is completed (txn_take_over, life_adopt decide). Clients are
 * let in when all hosts have answered, or after a moment: one that is busy in a call answers when it is done. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/shared_text.h"
#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/log.h"

#define WAIT_FOR_HOSTS_MS 500

/* One take-over per process. */
static struct {
	struct control *control;
	void (*ready)(struct control *c);
	uv_timer_t timer;
	unsigned waiting;        /* hosts that have not said what they are doing */
	bool late;               /* and were given up */
	bool restored;           /* the spawner holds what the registry has */
	bool done;
	char (*refused)[LIMIT_ID_BYTES + 1]; /* until the table is read */
	size_t n_refused;
} over;

static void over_check(void)
{
	if (over.done || !over.restored || (over.waiting > 0 && !over.late))
		return;
	over.done = true;
	uv_close((uv_handle_t *)&over.timer, NULL);
	over.ready(over.control);
}

static void over_restored(void)
{
	over.restored = true;
	over_check();
}

/* ---- one entry ---- */

struct entry {
	const struct spawner_message *m;
	int spec, state, ring, channel, out, error, checkpoint;
};

static bool entry_read(struct entry *en, const struct spawner_message *m, int *fds, size_t n_fds)
{
	const uint32_t bits[] = { SPAWNER_F_SPEC, SPAWNER_F_STATE, SPAWNER_F_RING, SPAWNER_F_CHANNEL, SPAWNER_F_STDOUT, SPAWNER_F_STDERR, SPAWNER_F_CHECKPOINT };
	int *const to[] = { &en->spec, &en->state, &en->ring, &en->channel, &en->out, &en->error, &en->checkpoint };
	size_t n = 0;

	*en = (struct entry){ m, -1, -1, -1, -1, -1, -1, -1 };
	for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
		if ((m->flags & bits[i]) && n < n_fds)
			*to[i] = fd_take(&fds[n++]);
	return en->spec >= 0;
}

static void entry_close(struct entry *en)
{
	fd_close(&en->spec);
	fd_close(&en->state);
	fd_close(&en->ring);
	fd_close(&en->channel);
	fd_close(&en->out);
	fd_close(&en->error);
	fd_close(&en->checkpoint);
}

/* Its end may be told while the rest of the table is still read. Without memory for it, the entry stays until the next take-over. */
static void refused_note(const char *sandbox)
{
	char(*more)[LIMIT_ID_BYTES + 1] = realloc(over.refused, (over.n_refused + 1) * sizeof *more);

	if (!more)
		return;
	over.refused = more;
	(void)snprintf(more[over.n_refused++], sizeof *more, "%s", sandbox);
}

bool take_over_refused(const char *sandbox)
{
	for (size_t i = 0; i < over.n_refused; i++)
		if (strcmp(over.refused[i], sandbox) == 0)
			return true;
	return false;
}

/* Nothing can be made of it: its process is ended, and the spawner forgets it when it has gone (main.c's notice). */
static void entry_refuse(struct control *c, const struct spawner_message *m, const char *why)
{
	struct spawner_message s;

	log_error("sandbox=%.*s is ended: %s", LIMIT_ID_BYTES, m->sandbox, why);
	if (m->flags & SPAWNER_F_EXITED) {
		spawner_message_init(&s, SPAWNER_ACK_EXIT, m->sandbox);
		s.generation = m->generation;
		spawner_send(c->spawner, &s, NULL, 0);
	} else {
		spawner_message_init(&s, SPAWNER_SIGNAL, m->sandbox);
		s.kind = SPAWNER_SIGNAL_KILL;
		s.generation = m->generation;
		spawner_send(c->spawner, &s, NULL, 0);
	}
	/* Refused while it has a process: then the notice of its end does it. */
	spawner_message_init(&s, SPAWNER_FORGET, m->sandbox);
	spawner_send(c->spawner, &s, NULL, 0);
	refused_note(m->sandbox);
}

/* What lies in its folder: a control that died while it placed an object had counted no serial in the spec. None may be used twice;
 * and nothing lies there but what a start may still need, since objects are unlinked once loaded. */
static void clean_folder(struct sandbox *sb, bool has_process)
{
	char path[LIMIT_PATH_BYTES + 1];
	struct dirent *entry;
	DIR *dir;

	sandbox_folder(sb, path);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		char *end;
		uint64_t serial = strtoull(entry->d_name, &end, 10);

		if (end == entry->d_name || strcmp(end, ".so") != 0)
			continue;
		if (serial > sb->last_serial)
			sb->last_serial = serial;
		if (sb->life.state != LIFE_STARTING || !has_process)
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		(void)closedir(dir);
}

static struct sandbox *entry_sandbox(struct control *c, struct entry *en, struct err *e)
{
	size_t size = 0;
	char *json = fd_read_all(en->spec, LIMIT_SPEC_BYTES, &size, e);
	struct spec none = { 0 };
	struct sandbox *sb = json ? sandbox_new(c, &none, e) : NULL;

	if (sb && (spec_load(sb, json, size, e) < 0 || strcmp(sb->spec.id, en->m->sandbox) != 0 || registry_get(c->registry, sb->spec.id))) {
		if (e->code == ERR_OK)
			err_set(e, ERR_IO, "its kept spec is of another sandbox");
		sandbox_discard(sb);
		sb = NULL;
	}
	free(json);
	if (!sb)
		return NULL;
	registry_add(c->registry, sb);
	sb->second_folder = en->m->flags & SPAWNER_F_SECOND;
	durable_taken_over(sb);
	if (restore_row(sb->spec.id))
		durable_row_found(sb, restore_row(sb->spec.id));
	sandbox_log_free(sb->log);
	sb->log = sandbox_log_new(fd_take(&en->ring));
	sb->ring_kept = sandbox_log_ring_fd(sb->log);
	if (en->m->dropped_bytes > 0)
		sandbox_log_dropped(sb->log, en->m->dropped_bytes);
	clean_folder(sb, en->channel >= 0 && !(en->m->flags & SPAWNER_F_EXITED));
	sb->state_fd = fd_take(&en->state);
	if (sb->state_fd >= 0)
		sb->state_bytes = (uint64_t)lseek(sb->state_fd, 0, SEEK_END);
	checkpoint_found(sb, &en->checkpoint);
	return sb;
}

static void adopt(struct sandbox *sb, enum life_found found, enum life_exit exit, int64_t started_ms)
{
	struct life_finding f = { .found = found, .exit = exit, .has_state = sb->state_fd >= 0 || sb->disk.kept_there,
		.has_checkpoint = checkpoint_is_there(sb), .mirrored = sb->checkpoint.mirror_fd >= 0, .has_older = durable_has_older(sb), .started_ms = started_ms, .frozen = sb->host && sb->host->frozen, .random = arc4random() };

	sandbox_adopt(sb, &f);
	if (sb->control->table_read) /* else durable_found follows, when all rows are read */
		durable_adopted(sb);
}

/* The spec tells of this end already, and of the start that was to follow it, which the spawner has not heard of: to take it for the end
 * of that start would count it twice. */
static bool exit_is_told(const struct sandbox *sb, const struct spawner_message *m)
{
	return sb->last_exit.happened && sb->last_exit.generation == m->generation &&
		(sb->life.state == LIFE_STARTING || sb->life.state == LIFE_BACKOFF);
}

static void entry_exited(struct sandbox *sb, const struct spawner_message *m)
{
	struct spawner_message ack;
	bool stopping = sb->life.state == LIFE_STOPPING, told = exit_is_told(sb, m);
	struct host *h = sb->host;
	unsigned held = 0;

	if (h) {
		h->asked = stopping;
		held = host_link_drain(&h->link);
	}
	if (!told)
		exit_record(sb, m, held);
	calls_crashed(&sb->calls, sb->spec.id, sb->last_exit.reason);
	if (h) {
		sb->host = NULL;
		host_abandon(h);
	}
	spawner_message_init(&ack, SPAWNER_ACK_EXIT, sb->spec.id);
	ack.generation = m->generation;
	spawner_send(sb->control->spawner, &ack, NULL, 0);
	adopt(sb, told ? LIFE_FOUND_NONE : LIFE_FOUND_EXITED, sb->last_exit.exit, m->started_ms);
}

/* Calls with keys: their answers are still to come from the host, or from its end. */
static void calls_found(struct sandbox *sb)
{
	struct rpc_request *r;
	const char *function;
	struct err e = ERR_INIT;
	uint64_t number;

	while ((r = rpc_key_adopt(sb->control, sb->spec.id, &number, &function)))
		if (calls_adopt(&sb->calls, r, number, function, &e) < 0)
			(void)rpc_error(r, &e, NULL);
}

static void entry_adopt(struct control *c, struct entry *en)
{
	struct err e = ERR_INIT;
	struct sandbox *sb = entry_sandbox(c, en, &e);
	const struct spawner_message *m = en->m;

	if (!sb) {
		entry_refuse(c, m, e.text);
		return;
	}
	if (sb->was_gone) /* it has no process any more; take_over goes on with its end */
		return;
	if (sb->booting && en->channel < 0 && !(m->flags & SPAWNER_F_EXITED))
		return; /* restore_rows begins its life */
	sb->booting = false;
	if (en->channel >= 0 && en->out >= 0 && en->error >= 0) {
		sb->host = host_new(sb, m->generation, fd_take(&en->channel), fd_take(&en->out), fd_take(&en->error), &e);
		if (sb->host) {
			host_link_read_output(&sb->host->link);
			sb->host->pid = m->pid;
			host_process_set(sb->host, m);
			sb->host->started_ms = m->started_ms;
			sb->host->started_at_ms = clock_wall_ms() - (clock_monotonic_ms() - m->started_ms);
			sb->host->serial = sb->serial;
			sb->host->reported = true; /* what it says of its walls now may be the module's words */
			sb->host->found = true;
			sb->host->frozen = (m->flags & SPAWNER_F_FROZEN) != 0;
			sb->frozen_by_cgroup = (m->flags & SPAWNER_F_CGROUP) != 0;
			sb->host->old_casts = LIMIT_CALLS_IN_HOST;
		}
	}
	calls_found(sb);
	if (m->flags & SPAWNER_F_EXITED) {
		entry_exited(sb, m);
	} else if (sb->host) {
		(void)host_link_send(&sb->host->link, HOST_QUERY, 0, 0, NULL, 0, -1);
		if (sb->host->frozen) { /* answers when it is thawed */
			sb->host->adopted = true;
			sb->host->ready = sb->life.state != LIFE_STARTING;
			adopt(sb, LIFE_FOUND_SILENT, LIFE_EXIT_ERROR, sb->host->started_ms);
		} else {
			over.waiting++;
		}
	} else {
		calls_crashed(&sb->calls, sb->spec.id, "it has no process");
		adopt(sb, LIFE_FOUND_NONE, LIFE_EXIT_ERROR, 0);
	}
}

/* ---- what the hosts say ---- */

/* It is being stopped, and what it saved for its next start is with the spawner: that is all that is left of it. */
static bool has_saved(const struct sandbox *sb)
{
	return sb->life.state == LIFE_STOPPING && sb->life.kept;
}

static void undo(struct sandbox *sb, enum host_phase phase)
{
	char path[LIMIT_PATH_BYTES + 1];

	events_add(sb->control->events, "reload.undone", sb->spec.id, sb->spec.owner, NULL, NULL);
	if (sb->has_candidate) {
		sandbox_path(sb, sb->candidate_serial, path);
		(void)unlink(path);
	}
	sb->has_candidate = false;
	if (has_saved(sb)) {
		sandbox_keep_spec(sb);
		durable_versions(sb);
		return;
	}
	(void)host_link_send(&sb->host->link, HOST_ABORT, 0, 0, NULL, 0, -1);
	sb->host->undoing = phase == HOST_PHASE_LOADED;
	sandbox_drop_state(sb);
	sandbox_keep_spec(sb);
	durable_versions(sb);
	if (!sb->host->undoing)
		sandbox_fact(sb, LIFE_RELOAD_END, LIFE_EXIT_NORMAL);
}

static void completed(struct sandbox *sb)
{
	struct json_out *o;

	sandbox_placed_drop(sb);
	durable_write(sb);
	o = events_begin(sb->control->events, "reload.completed", sb->spec.id, sb->spec.owner);
	json_out_u64(o, "version", sb->versions.current);
	events_end(sb->control->events);
}

static void complete(struct sandbox *sb)
{
	sb->serial = sb->host->serial = sb->candidate_serial;
	(void)versions_commit(&sb->versions, &sb->candidate, clock_wall_ms());
	sb->has_candidate = false;
	sb->module = shared_text_free(sb->module); /* the earlier version's; `info` knows it again after the next start or reload */
	completed(sb);
}

/* The first STATUS of a host that was taken over. */
static void resolve(struct sandbox *sb, const struct host_message *status, bool adopted)
{
	enum host_phase phase = status->value[1] >= 0 && status->value[1] <= HOST_PHASE_LOADED ? (enum host_phase)status->value[1] :
										     HOST_PHASE_EMPTY;
	struct txn_found f = { .alive = true, .phase = phase, .host_serial = (uint64_t)status->value[0],
		.host_candidate = status->number, .current_serial = sb->serial,
		.recorded_serial = sb->has_candidate ? sb->candidate_serial : 0, .has_state = sb->state_fd >= 0 };
	enum txn_take_over what;
	enum life_found found;
	char path[LIMIT_PATH_BYTES + 1];

	if (adopted && txn_active(&sb->txn)) { /* the answer to our first question, behind a save that has begun since: nothing is cut */
		sb->host->ready = phase != HOST_PHASE_EMPTY;
		return;
	}
	/* A start that control had begun: the serial that it loads became known with READY, which nobody read. */
	if (sb->life.state == LIFE_STARTING && phase == HOST_PHASE_SERVING && f.host_serial == sb->last_serial)
		f.current_serial = sb->serial = sb->host->serial = f.host_serial;
	/* Its READY may never have been read. One that has loaded nothing is ended: what was placed for it is not loaded any more. */
	sandbox_path(sb, phase != HOST_PHASE_EMPTY ? sb->serial : sb->last_serial, path);
	(void)unlink(path);
	what = phase == HOST_PHASE_EMPTY ? TXN_TAKE_NOTHING : txn_take_over(&f);
	/* One that is killed isn't said to serve, or a sealed state would be dropped that the next process has to begin from. */
	found = phase == HOST_PHASE_EMPTY                                ? LIFE_FOUND_NOT_STARTED :
		phase == HOST_PHASE_SERVING && what != TXN_TAKE_KILL ? LIFE_FOUND_SERVING :
									   LIFE_FOUND_IN_RELOAD;
	sb->host->ready = phase != HOST_PHASE_EMPTY;
	sb->account.since_ms = sb->host->ready ? clock_monotonic_ms() : 0;
	if (what == TXN_TAKE_COMPLETE)
		complete(sb);
	else if (sb->promoted && phase == HOST_PHASE_SERVING) /* its process and its spec came with one message: nothing is left to do but to tell */
		completed(sb);
	sb->promoted = false;
	if (!adopted)
		adopt(sb, found, LIFE_EXIT_ERROR, sb->host->started_ms);
	else if (sb->life.state == LIFE_STARTING)
		sandbox_fact(sb, phase == HOST_PHASE_EMPTY ? LIFE_FOUND_EMPTY : LIFE_READY, LIFE_EXIT_NORMAL);
	if (!sb->host)
		return;
	if (what == TXN_TAKE_UNDO) {
		undo(sb, phase);
	} else if (what == TXN_TAKE_COMPLETE) {
		if (phase != HOST_PHASE_SERVING)
			(void)host_link_send(&sb->host->link, HOST_ABORT, 0, 0, NULL, 0, -1);
		if (!has_saved(sb))
			sandbox_drop_state(sb);
		sandbox_keep_spec(sb);
		sandbox_fact(sb, LIFE_RELOAD_END, LIFE_EXIT_NORMAL);
	} else if (what == TXN_TAKE_KILL) {
		sandbox_kill_host(sb, "protocol violation: what it says of its versions can't be true");
	} else if (adopted) {
		sandbox_fact(sb, LIFE_RELOAD_END, LIFE_EXIT_NORMAL);
	}
	sandbox_pump(sb);
}

void sandbox_found(struct sandbox *sb, const struct host_message *status)
{
	bool adopted = over.late || (sb->host && sb->host->adopted);

	if (!sb->host || !sb->host->found)
		return;
	sb->host->found = false;
	calls_received(&sb->calls, status->sequence);
	resolve(sb, status, adopted);
	if (adopted)
		return;
	over.waiting--;
	over_check();
}

bool sandbox_found_exited(struct sandbox *sb, bool found, bool adopted, int64_t started_ms)
{
	if (!found || over.late || adopted)
		return false;
	adopt(sb, LIFE_FOUND_EXITED, sb->last_exit.exit, started_ms);
	over.waiting--;
	over_check();
	return true;
}

bool sandbox_found_aborted(struct sandbox *sb)
{
	if (!sb->host || !sb->host->undoing)
		return false;
	sb->host->undoing = false;
	sandbox_fact(sb, LIFE_RELOAD_END, LIFE_EXIT_NORMAL);
	return true;
}

/* Time is up: those that are silent are busy in a call (or hang); they are taken as running. */
static void over_timer_cb(uv_timer_t *timer)
{
	(void)timer;
	for (struct sandbox *sb = registry_first(over.control->registry), *next; sb; sb = next) {
		next = registry_next(sb);
		if (sb->host && sb->host->found && !sb->host->adopted) {
			sb->host->adopted = true;
			sb->host->ready = sb->life.state != LIFE_STARTING;
			adopt(sb, LIFE_FOUND_SILENT, LIFE_EXIT_ERROR, sb->host->started_ms);
		}
	}
	over.late = true;
	over_check();
}

/* What an earlier control had begun to remove. */
static void finish_removals(struct control *c)
{
	for (struct sandbox *sb = registry_first(c->registry), *next; sb; sb = next) {
		next = registry_next(sb);
		if (sb->was_gone)
			sandbox_gone(sb);
	}
}

int take_over(struct control *c, struct database_found *found, void (*ready)(struct control *c), struct err *e)
{
	struct spawner_message ask, m;
	uint64_t cursor = 0;
	unsigned n = 0;

	over.control = c;
	over.ready = ready;
	restore_begin(c, found);
	uv_timer_init(c->loop, &over.timer);
	for (;;) {
		int fds[FD_MESSAGE_MAX];
		size_t n_fds = 0;
		struct entry en;

		spawner_message_init(&ask, SPAWNER_TABLE, NULL);
		ask.value = cursor;
		if (spawner_ask(c->spawner, &ask, &m, fds, &n_fds, e) < 0)
			return -1;
		if (m.op != SPAWNER_ENTRY)
			break;
		m.sandbox[LIMIT_ID_BYTES] = '\0';
		cursor = m.value;
		if (entry_read(&en, &m, fds, n_fds))
			entry_adopt(c, &en);
		else
			entry_refuse(c, &m, "the spawner keeps no spec of it");
		entry_close(&en);
		while (n_fds > 0)
			fd_close(&fds[--n_fds]);
		n++;
	}
	c->table_read = true;
	free(over.refused);
	over.refused = NULL;
	over.n_refused = 0;
	if (n > 0) {
		struct json_out *o = events_begin(c->events, "daemon.taken_over", NULL, 0);

		json_out_u64(o, "sandboxes", n);
		events_end(c->events);
		log_info("took over %u sandboxes", n);
	}
	uv_timer_start(&over.timer, over_timer_cb, over.waiting > 0 ? WAIT_FOR_HOSTS_MS : 0, 0);
	durable_writing(c, true);
	restore_rows(over_restored);
	finish_removals(c);
	return 0;
}

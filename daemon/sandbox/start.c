/* SPDX-License-Identifier: MIT
 *
 * From "start it" to a process that has been told what to load: the object is placed under a serial never used before, while the
 * spawner makes the process. What comes back is talk.c's business. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/sandbox/sandbox.h"
#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "daemon/store/objects.h"
#include "daemon/store/states.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/fd.h"
#include "proto/log.h"

/* ---- placing an object ---- */

struct place {
	struct storage_job job;
	struct sandbox *sandbox;
	struct blob *object;             /* a reference, or NULL: read it from the store */
	char sha256[SHA256_HEX_BYTES + 1];
	char path[LIMIT_PATH_BYTES + 1];
	char here[LIMIT_PATH_BYTES + 1];   /* the folder that it is placed in */
	char folder[LIMIT_PATH_BYTES + 1]; /* the same, of volatile objects; "": they lie in the state folder */
	uint64_t serial;
	bool keeps;                      /* for a start: the file is kept for the next one */
	bool is_kept;
	bool put;
	bool is_first;                   /* of a sandbox that touches no disk: put and placed are the same file */
	int state_dir_fd;
	char state_sha256[SHA256_HEX_BYTES + 1]; /* a kept state that must come from the disk first; "": none */
	uint64_t state_bytes;
	int state_fd;
	bool state_is_gone;              /* it can't be read, now or later */
	struct err state_err;
	void (*placed)(struct sandbox *sb, uint64_t serial, const struct err *e);
};

static void place_work(struct storage_job *job)
{
	struct place *p = (struct place *)job;
	struct blob *read = NULL;

	if (p->state_sha256[0] &&
		states_get(p->state_dir_fd, p->state_sha256, p->state_bytes, &p->state_fd, &p->state_is_gone, &p->state_err) < 0) {
		p->state_fd = -1;
		if (!p->state_is_gone) { /* it is there: nothing begins without it */
			job->status = err_prefix(&p->state_err, "its kept state");
			job->err = p->state_err;
			return;
		}
	}
	if (p->is_first)
		job->status = objects_place_volatile(p->folder, p->object, p->path, &job->err);
	else if (p->put && p->object)
		job->status = p->folder[0] ? objects_put_volatile(p->folder, p->object, &job->err) :
					     objects_put(p->state_dir_fd, p->object, &job->err);
	else if (!p->object)
		job->status = p->folder[0] ? objects_get_volatile(p->folder, p->sha256, &read, &job->err) :
					     objects_get(p->state_dir_fd, p->sha256, &read, &job->err);
	if (job->status < 0)
		;
	else if (p->path[0] && !p->is_first && objects_place(p->object ? p->object : read, p->path, &job->err) < 0)
		job->status = -1;
	blob_unref(read);
	p->is_kept = p->keeps && job->status == 0 && objects_keep_placed(p->here, p->path) == 0;
}

/* A kept state came from the disk: the spawner keeps it from now on. One that can't be read: the start begins anew, and says so. */
static void state_read(struct sandbox *sb, struct place *p)
{
	struct spawner_message m;

	if (!sb->disk.kept_there)
		return; /* dropped meanwhile */
	if (p->state_fd < 0 && !p->state_is_gone)
		return; /* the start fails; the next one tries again */
	if (p->state_fd < 0) {
		events_add(sb->control->events, "sandbox.state_lost", sb->spec.id, sb->spec.owner, "why", p->state_err.text);
		log_error("sandbox=%s begins anew: %s", sb->spec.id, p->state_err.text);
		(void)snprintf(sb->state_from, sizeof sb->state_from, "fresh");
		durable_state_gone(sb);
		return;
	}
	sb->disk.kept_there = false;
	sb->disk.kept_is_row = true;
	sb->checkpoint.kept = (struct checkpoint_mark){ 0 };
	fd_close(&sb->state_fd);
	sb->state_fd = fd_take(&p->state_fd);
	sb->state_bytes = p->state_bytes;
	spawner_message_init(&m, SPAWNER_KEEP, sb->spec.id);
	m.kind = SPAWNER_KEEP_STATE;
	spawner_send(sb->control->spawner, &m, &sb->state_fd, 1);
	sandbox_keep_spec(sb);
}

static void place_done(struct storage_job *job)
{
	struct place *p = (struct place *)job;
	struct sandbox *sb = p->sandbox;

	blob_unref(p->object);
	if (p->keeps && p->serial == sb->keeping_serial)
		(void)snprintf(sb->placed_sha256, sizeof sb->placed_sha256, "%s", p->is_kept ? p->sha256 : "");
	if (p->state_sha256[0])
		state_read(sb, p);
	p->placed(sb, p->serial, job->status == 0 ? NULL : &job->err);
	fd_close(&p->state_fd);
	free(p);
	sb->placing--;
	if (sb->forget_due)
		sandbox_forget(sb);
	sandbox_release(sb);
}

/* FOR_NEXT: where a candidate's process finds it. */
enum place_what { PLACE_ONLY, PLACE_AND_PUT_FOR_NEXT, PLACE_AND_PUT, PLACE_FOR_START, PLACE_FIRST };

static void place_submit(struct sandbox *sb, struct blob *object, const char *sha256, uint64_t serial, enum place_what what, bool with_state,
	void (*placed)(struct sandbox *, uint64_t, const struct err *))
{
	struct place *p = calloc(1, sizeof *p);
	struct err e = ERR_INIT;

	if (!p) {
		err_set(&e, ERR_INTERNAL, "no memory to place an object");
		placed(sb, serial, &e);
		return;
	}
	p->job = (struct storage_job){ .work = place_work, .done = place_done, .err = ERR_INIT };
	p->sandbox = sb;
	p->object = object ? blob_ref(object) : NULL;
	(void)snprintf(p->sha256, sizeof p->sha256, "%s", sha256);
	p->serial = serial;
	p->put = what == PLACE_AND_PUT || what == PLACE_AND_PUT_FOR_NEXT;
	p->is_first = what == PLACE_FIRST;
	p->keeps = what >= PLACE_FOR_START;
	if (p->keeps) { /* from here on it is the one or the other */
		sb->placed_sha256[0] = '\0';
		sb->keeping_serial = serial;
	}
	sandbox_folder(sb, p->here);
	p->state_dir_fd = storage_dir_fd(sb->control->storage);
	p->placed = placed;
	p->state_fd = -1;
	p->state_err = (struct err)ERR_INIT;
	if (!sb->spec.persist)
		sandbox_folder(sb, p->folder);
	if (with_state && sb->disk.kept_there) {
		(void)snprintf(p->state_sha256, sizeof p->state_sha256, "%s", sb->disk.state_sha256);
		p->state_bytes = sb->disk.state_bytes;
	}
	if (serial != 0)
		(what == PLACE_AND_PUT_FOR_NEXT ? sandbox_next_path : sandbox_path)(sb, serial, p->path);
	sb->placing++;
	sandbox_hold(sb);
	storage_submit(sb->control->storage, &p->job);
}

void sandbox_place(struct sandbox *sb, struct blob *object, const char *sha256, uint64_t serial, bool put, bool for_next,
	void (*placed)(struct sandbox *, uint64_t, const struct err *))
{
	place_submit(sb, object, sha256, serial, for_next ? PLACE_AND_PUT_FOR_NEXT : put ? PLACE_AND_PUT : PLACE_ONLY, false, placed);
}

/* Object and row of a create become durable while the process starts; all must be there before it is ready. */
static void object_put(struct sandbox *sb, const struct err *e)
{
	sb->put_pending = false;
	sb->create_object = blob_unref(sb->create_object);
	if (e) {
		sb->put_failed = true;
		*sandbox_error(sb, SANDBOX_ERROR_START) = *e;
		(void)snprintf(sb->failure_step, sizeof sb->failure_step, "store");
	}
	sandbox_ready(sb);
}

void sandbox_put_object(struct sandbox *sb)
{
	sb->put_pending = true;
	durable_create(sb, object_put);
}

/* ---- the process ---- */

static void host_closed(struct host_link *l)
{
	struct host *h = (struct host *)l; /* begins with its link */

	free(h->death);
	free(h);
}

struct host *host_new(struct sandbox *sb, uint64_t generation, int channel_fd, int stdout_fd, int stderr_fd, struct err *e)
{
	struct host *h = calloc(1, sizeof *h);

	if (!h) {
		close(channel_fd);
		close(stdout_fd);
		close(stderr_fd);
		err_set(e, ERR_INTERNAL, "no memory for another host");
		return NULL;
	}
	if (host_link_open(&h->link, sb->control->loop, generation, channel_fd, stdout_fd, stderr_fd, &sandbox_host_owner, h, e) < 0) {
		free(h);
		return NULL;
	}
	h->sandbox = sb;
	h->started_ms = clock_monotonic_ms();
	h->started_at_ms = clock_wall_ms();
	return h;
}

void host_disown(struct host *h)
{
	if (!h->sandbox)
		return;
	h->sandbox->control->older_hosts -= h->is_older;
	h->is_older = false;
	h->sandbox = NULL;
}

void host_abandon(struct host *h)
{
	host_disown(h);
	host_link_close(&h->link, host_closed);
}

static void begin_failed(struct sandbox *sb, const struct err *e, const char *step)
{
	*sandbox_error(sb, SANDBOX_ERROR_START) = *e;
	(void)snprintf(sb->failure_step, sizeof sb->failure_step, "%s", step);
	sandbox_fact(sb, LIFE_BEGIN_FAILED, LIFE_EXIT_NORMAL);
}

void host_send_begin(struct host *h)
{
	const struct sandbox *sb = h->sandbox;
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	json_out_object(&o, NULL);
	json_out_text(&o, "profile", sb->spec.profile);
	json_out_object(&o, "limits");
	json_out_u64(&o, "max_memory_bytes", sb->spec.limits.max_memory_bytes);
	json_out_u64(&o, "max_file_size_bytes", sb->spec.limits.max_file_size_bytes);
	json_out_u64(&o, "max_processes", sb->spec.limits.max_processes);
	json_out_u64(&o, "max_open_files", sb->spec.limits.max_open_files);
	json_out_u64(&o, "max_cpu_percentage", sb->spec.limits.max_cpu_percentage);
	json_out_object_end(&o);
	json_out_object_end(&o);
	(void)host_link_send(&h->link, HOST_BEGIN, 0, sb->spec.heartbeat_ms, b.data, b.size, sb->control->begin.has_faults ? CONTROL_FD_FAULTS : -1);
	buf_fini(&b);
}

void host_send_start(struct host *h, uint64_t serial, bool backwards, const char *patch, int state_fd)
{
	const struct sandbox *sb = h->sandbox;
	char name[LIMIT_ID_BYTES + 1];
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	sandbox_object_name(serial, name);
	json_out_object(&o, NULL);
	json_out_text(&o, "path", name);
	json_out_raw(&o, "config", sb->spec.config, strlen(sb->spec.config));
	if (backwards)
		json_out_bool(&o, "backwards", true);
	if (patch)
		json_out_raw(&o, "patch", patch, strlen(patch));
	json_out_object_end(&o);
	(void)host_link_send(&h->link, HOST_START, serial, 0, b.data, b.size, state_fd);
	buf_fini(&b);
}

/* The process is there, and there is nothing for it to load. */
static void place_failed(struct sandbox *sb)
{
	if (!sb->host)
		return;
	*sandbox_error(sb, SANDBOX_ERROR_START) = *sandbox_error_told(sb, SANDBOX_ERROR_PLACE);
	(void)snprintf(sb->failure_step, sizeof sb->failure_step, "place");
	sandbox_kill_host(sb, "its object could not be placed");
	sandbox_fact(sb, LIFE_HOST_FAILED, LIFE_EXIT_NORMAL);
}

/* The second message: what to load. It waits for the object, and under `strict` for the report, since constructors run in dlopen. */
void sandbox_tell_host(struct sandbox *sb)
{
	struct host *h = sb->host;
	struct err e = ERR_INIT;

	if (!h || h->told || sb->placed_serial != h->serial || (sb->spec.strict && !h->reported))
		return;
	if (checkpoint_mirror(sb, &e) < 0) {
		*sandbox_error(sb, SANDBOX_ERROR_PLACE) = e;
		place_failed(sb);
		return;
	}
	h->told = true;
	host_send_start(h, h->serial, false, NULL, sb->life.from == LIFE_FROM_FRESH ? -1 : sb->state_fd);
}

/* It was placed while the process was being made. */
static void start_placed(struct sandbox *sb, uint64_t serial, const struct err *error)
{
	if (serial != sb->last_serial || (!sb->start_pending && (!sb->host || sb->host->serial != serial))) {
		char path[LIMIT_PATH_BYTES + 1];

		sandbox_path(sb, serial, path); /* the start has ended meanwhile */
		(void)unlink(path);
		return;
	}
	if (error) {
		*sandbox_error(sb, SANDBOX_ERROR_PLACE) = *error;
		place_failed(sb);
		return;
	}
	sb->placed_serial = serial;
	sandbox_tell_host(sb);
	if (sb->create_object && !sb->spec.persist)
		sb->create_object = blob_unref(sb->create_object);
	else if (sb->create_object && !sb->put_pending)
		sandbox_put_object(sb);
}

/* What the process before was given is given to this one too: no other thread is needed for that. */
static bool place_again(const struct sandbox *sb, const struct version *v)
{
	char folder[LIMIT_PATH_BYTES + 1], path[LIMIT_PATH_BYTES + 1];

	if (fault_on || (sb->place_state && sb->disk.kept_there) || strcmp(sb->placed_sha256, v->sha256) != 0)
		return false;
	sandbox_folder(sb, folder);
	sandbox_path(sb, sb->last_serial, path);
	return objects_place_again(folder, path) == 0;
}

void sandbox_placed_drop(struct sandbox *sb)
{
	const struct version *v = sandbox_running_version(sb);
	char folder[LIMIT_PATH_BYTES + 1];

	if (v && strcmp(sb->placed_sha256, v->sha256) == 0)
		return;
	sb->placed_sha256[0] = '\0';
	sandbox_folder(sb, folder);
	objects_drop_placed(folder);
}

/* Now that its folder is there, which comes with the process. Where nothing goes to the disk, what the next processes of a new sandbox will
 * load is put there by the same job. */
static void place_now(struct sandbox *sb)
{
	const struct version *v = sandbox_running_version(sb);

	sb->place_due = false;
	if (sb->forgetting)
		return; /* its folder goes, or is another's */
	if (v && place_again(sb, v)) {
		sb->placed_serial = sb->last_serial;
		return;
	}
	place_submit(sb, v ? NULL : sb->create_object, v ? v->sha256 : sb->candidate.sha256, sb->last_serial,
		!v && !sb->spec.persist ? PLACE_FIRST : PLACE_FOR_START, sb->place_state, start_placed);
}

/* Its request is answered when nothing is left (sandbox_gone). */
void sandbox_create_failed(struct sandbox *sb, const struct err *e)
{
	struct rpc_request *r = sb->request;

	sb->request = NULL;
	if (r) {
		sb->gone_request = r;
		*sandbox_error(sb, SANDBOX_ERROR_GONE) = *e;
	}
	events_add(sb->control->events, "sandbox.create_failed", sb->spec.id, sb->spec.owner, "why", e->text);
	sandbox_fact(sb, LIFE_BEGIN_FAILED, LIFE_EXIT_NORMAL);
}

/* Its leaf is the name of a folder, and nothing else: what isn't is none. */
void host_process_set(struct host *h, const struct spawner_message *m)
{
	struct control *c = h->sandbox->control;
	size_t size = strnlen(m->text, sizeof m->text);

	c->older_hosts -= h->is_older;
	h->build = m->host_build;
	h->is_older = m->host_build != c->begin.host_build;
	c->older_hosts += h->is_older;
	h->leaf[0] = '\0';
	if (c->begin.cgroup_dir[0] && size < sizeof h->leaf && memchr(m->text, '@', size) && !memchr(m->text, '/', size) &&
		m->text[0] != '.')
		(void)snprintf(h->leaf, sizeof h->leaf, "%.*s", (int)size, m->text);
}

static void started(void *ctx, const struct spawner_message *m, int *fds, size_t n_fds)
{
	struct sandbox *sb = ctx;
	struct err e = ERR_INIT;
	char text[sizeof m->text];

	sb->start_pending = false;
	if (m->op != SPAWNER_STARTED || n_fds < 3) {
		text_clean(text, sizeof text, m->text, strnlen(m->text, sizeof m->text));
		if (m->op == SPAWNER_ERROR && (m->flags & SPAWNER_F_HOLD)) {
			sb->hold_due = true;
			err_set(&e, m->status == EMFILE ? ERR_LIMIT_EXCEEDED : ERR_UNAVAILABLE, "the spawner can't hold another sandbox: %s", text);
			if (!sb->forgetting)
				sandbox_create_failed(sb, &e);
		} else {
			err_set(&e, ERR_UNAVAILABLE, "the spawner can't make a process: %s", text);
			begin_failed(sb, &e, "spawn");
		}
	} else if (!(sb->host = host_new(sb, m->generation, fd_take(&fds[0]), fd_take(&fds[1]), fd_take(&fds[2]), &e))) {
		begin_failed(sb, &e, "spawn");
	} else {
		sb->host->pid = m->pid;
		host_process_set(sb->host, m);
		sb->host->serial = sb->last_serial;
		place_now(sb);
		sandbox_log_begin(sb->log);
		sandbox_fact(sb, LIFE_BORN, LIFE_EXIT_NORMAL);
		if (sb->host) {
			host_send_begin(sb->host);
			if (sandbox_error_told(sb, SANDBOX_ERROR_PLACE)->code != ERR_OK)
				place_failed(sb);
			else
				sandbox_tell_host(sb);
		}
		if (sb->host)
			host_link_read_output(&sb->host->link); /* while the host is at work already */
	}
	sandbox_release(sb);
}

void sandbox_born(struct sandbox *sb, const struct spawner_message *m)
{
	if (sb->next && sb->next->link.generation == m->generation)
		candidate_born(sb, m);
	if (!sb->host || sb->host->link.generation != m->generation)
		return;
	sb->host->pid = m->pid;
	host_process_set(sb->host, m);
	if (sb->host->ready_waits)
		sandbox_ready(sb);
	if (sb->host)
		sb->host->ready_waits = false;
}

void sandbox_denied(struct sandbox *sb, const struct spawner_message *m)
{
	struct host *h = sb->next && sb->next->link.generation == m->generation ? sb->next : sb->host;
	char call[sizeof m->name], operation[sizeof m->text];
	struct json_out *o;

	text_clean(call, sizeof call, m->name, strnlen(m->name, sizeof m->name));
	text_clean(operation, sizeof operation, m->text, strnlen(m->text, sizeof m->text));
	o = events_begin(sb->control->events, "sandbox.denied", sb->spec.id, sb->spec.owner);
	json_out_u64(o, "generation", m->generation);
	json_out_text(o, "call", call);
	json_out_u64(o, "number", m->value);
	json_out_text(o, "operation", operation);
	json_out_text(o, "answer", m->flags & SPAWNER_F_KILLED ? "killed" : strerrorname_np(m->status));
	if (m->flags & SPAWNER_F_LAST)
		json_out_bool(o, "last", true);
	if (m->dropped_bytes > 0)
		json_out_u64(o, "dropped", m->dropped_bytes);
	events_end(sb->control->events);
	audit_call(sb, m->generation, call, operation, m->flags & SPAWNER_F_KILLED ? "killed" : strerrorname_np(m->status), m->dropped_bytes);
	if ((m->flags & SPAWNER_F_KILLED) && h && h->link.generation == m->generation)
		(void)snprintf(h->denied, sizeof h->denied, "%.40s, which profile %s forbids", call, sb->spec.profile);
}

/* Object and process are made at the same time: the one by the storage thread, the other by the spawner and a zygote. The spawner first says
 * that it has begun: before, there may be another folder. */
static void start_now(struct sandbox *sb, enum life_from from)
{
	struct spawner_message m;
	struct err e = ERR_INIT;
	autoclose int spec_fd = -1;

	if (spec_check_profile(&sb->spec, &e) < 0) { /* never under another one */
		log_error("sandbox=%s can't start: %s", sb->spec.id, e.text);
		begin_failed(sb, &e, "profile");
		return;
	}
	if (sb->state_fd < 0 && !sb->disk.kept_there)
		from = LIFE_FROM_FRESH; /* it was there, and could not be read */
	(void)snprintf(sb->state_from, sizeof sb->state_from, "%s", checkpoint_from_text(sb, from));
	if (sb->last_exit.happened && sb->life.pending == LIFE_NO_REQUEST)
		checkpoint_begins(sb, from);
	sb->put_failed = false;
	sb->failure_step[0] = '\0';
	sandbox_error_none(sb, SANDBOX_ERROR_PLACE);
	sb->last_serial++;
	sb->next_start = 0;
	(void)FAULT(START_SEND);
	spawner_message_init(&m, SPAWNER_START, sb->spec.id);
	m.limits = sb->spec.limits;
	m.flags = (sb->hold_due ? SPAWNER_F_HOLD : 0) | (sb->spec.fresh_space ? SPAWNER_F_FRESH : 0);
	(void)snprintf(m.name, sizeof m.name, "%s", sb->spec.profile);
	spec_fd = spec_memfd(sb, SPEC_PLAIN, &e); /* a successor that finds the process must know what it was made for */
	sandbox_hold(sb);
	if (spec_fd < 0 || spawner_request(sb->control->spawner, &m, &spec_fd, 1, started, sb, &e) == 0) {
		begin_failed(sb, &e, "spawn");
		sandbox_release(sb);
		return;
	}
	sb->start_pending = sb->place_due = true;
	sb->hold_due = false;
	sb->place_state = from != LIFE_FROM_FRESH;
}

/* ---- one that came back from the registry when the spawner could not take it ---- */

static void held(void *ctx, const struct spawner_message *m, int *fds, size_t n_fds)
{
	struct sandbox *sb = ctx;
	struct err e = ERR_INIT;
	char text[sizeof m->text];

	(void)fds, (void)n_fds;
	if (m->op == SPAWNER_OK) {
		sb->not_held = false;
		start_now(sb, sb->life.from);
	} else {
		text_clean(text, sizeof text, m->text, strnlen(m->text, sizeof m->text));
		err_set(&e, ERR_UNAVAILABLE, "the spawner can't take it: %s", text);
		begin_failed(sb, &e, "spawn");
	}
	sandbox_release(sb);
}

/* The start follows when it is held: its folder for objects is made then. */
static void hold_again(struct sandbox *sb)
{
	struct err e = ERR_INIT;
	autoclose int fd = spec_memfd(sb, SPEC_PLAIN, &e);
	struct spawner_message m;

	spawner_message_init(&m, SPAWNER_HOLD, sb->spec.id);
	sandbox_hold(sb);
	if (fd >= 0 && spawner_request(sb->control->spawner, &m, &fd, 1, held, sb, &e) != 0)
		return;
	begin_failed(sb, &e, "spawn");
	sandbox_release(sb);
}

void sandbox_start(struct sandbox *sb, enum life_from from)
{
	if (sb->not_held)
		hold_again(sb);
	else
		start_now(sb, from);
}

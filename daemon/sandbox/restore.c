/* SPDX-License-Identifier: MIT
 *
 * The registry's rows become sandboxes again. After a restart of the machine that is all of them; after one of control those that the
 * spawner doesn't hold yet, since the earlier control ended while it did this. A row that can't be read is put aside and reported; the
 * others come back. They start a few at a time, so that a thousand of them don't all miss their start timeout. */
#include <stdlib.h>
#include <string.h>

#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/store/storage.h"
#include "proto/fd.h"
#include "proto/log.h"

#define HOLDS_IN_FLIGHT  64
#define STARTS_PER_STEP  32
#define STEP_MS          50

/* One restoration per process. */
static struct {
	struct control *control;
	struct database_found found;
	const struct database_row **by_id; /* sorted; NULL: no memory, then they are walked */
	size_t next;
	unsigned in_flight, n_restored, n_wanted;
	void (*done)(void);
	bool holding;
} boot;

/* ---- a row that can't be read ---- */

struct aside_job {
	struct storage_job job;
	struct control *control;
	char id[LIMIT_ID_BYTES + 1], why[256], name[128];
};

static void aside_work(struct storage_job *job)
{
	struct aside_job *a = (struct aside_job *)job;

	job->status = database_put_aside(storage_database(a->control->storage), a->id, a->why, a->name, &job->err);
}

static void aside_done(struct storage_job *job)
{
	struct aside_job *a = (struct aside_job *)job;
	char text[512];

	if (job->status == 0)
		(void)snprintf(text, sizeof text, "registry: the row of '%s' can't be read (%.150s) and has been put aside as %s", a->id, a->why,
			a->name);
	else
		(void)snprintf(text, sizeof text, "registry: the row of '%s' can't be read (%.150s): %.80s", a->id, a->why, job->err.text);
	durable_problem(a->control, text);
	free(a);
}

static void put_aside(struct control *c, const char *id, const char *why)
{
	struct aside_job *a = calloc(1, sizeof *a);

	if (!a)
		return;
	a->job = (struct storage_job){ .work = aside_work, .barrier = true, .done = aside_done, .err = ERR_INIT };
	a->control = c;
	(void)snprintf(a->id, sizeof a->id, "%s", id);
	(void)snprintf(a->why, sizeof a->why, "%.255s", why);
	storage_submit(c->storage, &a->job);
}

/* ---- one row ---- */

static struct sandbox *row_sandbox(struct control *c, const struct database_row *row)
{
	struct spec none = { 0 };
	struct err e = ERR_INIT;
	struct sandbox *sb = sandbox_new(c, &none, &e);

	if (!sb)
		return NULL;
	if (spec_load(sb, row->spec, row->spec_size, &e) == 0 && strcmp(sb->spec.id, row->id) != 0)
		err_set(&e, ERR_IO, "its text is of another sandbox");
	if (e.code == ERR_OK) {
		sb->has_candidate = false;
		sb->was_gone = sb->booting = sb->keep_history = false;
		sb->spec.persist = true;
		sb->spec.created_at_ms = row->created_at_ms;
		sb->disk.has_row = true;
		sb->disk.wanted = row->wanted;
		(void)snprintf(sb->disk.state_sha256, sizeof sb->disk.state_sha256, "%s", row->state_sha256);
		sb->disk.state_bytes = row->state_bytes;
		sb->disk.kept_is_row = true;
		return sb;
	}
	sandbox_discard(sb);
	boot.found.may_collect = false; /* nobody knows what it refers to */
	if (spec_is_newer(row->spec, row->spec_size)) {
		char text[512];

		(void)snprintf(text, sizeof text, "registry: the row of '%s' was written by a newer sandboxd: it stays, and the sandbox is not started", row->id);
		durable_problem(c, text);
	} else {
		put_aside(c, row->id, e.text);
	}
	return NULL;
}

static void holds_go_on(void);

static void row_boot(struct sandbox *sb)
{
	bool wanted = sb->disk.wanted && !sb->spec.group[0]; /* else its group starts it, in its turn */

	sandbox_boot(sb, wanted, wanted ? boot.n_wanted++ / STARTS_PER_STEP * STEP_MS : 0);
}

/* Each start tries it again; until one can, its starts fail as its policy has it. */
static void row_not_held(struct sandbox *sb, const char *why)
{
	log_error("sandbox=%s can't be held yet: %s", sb->spec.id, why);
	sb->not_held = true;
	row_boot(sb);
}

static void row_held(void *ctx, const struct spawner_message *m, int *fds, size_t n_fds)
{
	struct sandbox *sb = ctx;

	(void)fds;
	(void)n_fds;
	boot.in_flight--;
	if (m->op == SPAWNER_OK) {
		row_boot(sb);
	} else {
		char why[sizeof m->text];

		text_clean(why, sizeof why, m->text, strnlen(m->text, sizeof m->text));
		row_not_held(sb, why);
	}
	sandbox_release(sb);
	holds_go_on();
}

static void row_restore(struct control *c, const struct database_row *row)
{
	struct sandbox *sb = row_sandbox(c, row);
	struct spawner_message m;
	struct err e = ERR_INIT;
	int fd;

	if (!sb)
		return;
	registry_add(c->registry, sb);
	durable_versions(sb);
	durable_states_found(sb);
	boot.n_restored++;
	sb->booting = true; /* so says what is held: a control that is followed before it has begun leaves it all to its successor */
	fd = spec_memfd(sb, SPEC_PLAIN, &e);
	spawner_message_init(&m, SPAWNER_HOLD, sb->spec.id);
	sandbox_hold(sb);
	boot.in_flight++;
	if (fd < 0 || spawner_request(c->spawner, &m, &fd, 1, row_held, sb, &e) == 0) {
		boot.in_flight--;
		row_not_held(sb, e.text);
		sandbox_release(sb);
	}
	fd_close(&fd);
}

/* ---- all ---- */

static void restored(void)
{
	struct control *c = boot.control;
	void (*done)(void);

	if (boot.n_restored > 0) {
		struct json_out *o = events_begin(c->events, "daemon.restored", NULL, 0);

		json_out_u64(o, "sandboxes", boot.n_restored);
		json_out_u64(o, "wanted", boot.n_wanted);
		events_end(c->events);
		log_info("restored %u sandboxes, %u of them are started", boot.n_restored, boot.n_wanted);
	}
	registry_sort(c->registry);
	if (boot.found.may_collect)
		durable_collect(c);
	database_found_fini(&boot.found);
	free(boot.by_id);
	boot.by_id = NULL;
	boot.next = 0;
	done = boot.done;
	boot.done = NULL;
	done();
}

static void holds_go_on(void)
{
	if (boot.holding)
		return; /* from inside */
	boot.holding = true;
	while (boot.next < boot.found.n && boot.in_flight < HOLDS_IN_FLIGHT) {
		const struct database_row *row = &boot.found.rows[boot.next++];

		if (!registry_get(boot.control->registry, row->id))
			row_restore(boot.control, row);
	}
	boot.holding = false;
	if (boot.next == boot.found.n && boot.in_flight == 0 && boot.done)
		restored();
}

static int by_id(const void *a, const void *b)
{
	return strcmp((*(const struct database_row *const *)a)->id, (*(const struct database_row *const *)b)->id);
}

void restore_begin(struct control *c, struct database_found *found)
{
	boot.control = c;
	boot.found = *found;
	*found = (struct database_found){ 0 };
	if (boot.found.n == 0)
		return;
	boot.by_id = calloc(boot.found.n, sizeof *boot.by_id);
	if (!boot.by_id)
		return;
	for (size_t i = 0; i < boot.found.n; i++)
		boot.by_id[i] = &boot.found.rows[i];
	qsort(boot.by_id, boot.found.n, sizeof *boot.by_id, by_id);
}

const struct database_row *restore_row(const char *id)
{
	struct database_row key = { 0 };
	const struct database_row *at = &key, **found;

	(void)snprintf(key.id, sizeof key.id, "%s", id);
	if (boot.by_id) {
		found = bsearch(&at, boot.by_id, boot.found.n, sizeof *boot.by_id, by_id);
		return found ? *found : NULL;
	}
	for (size_t i = 0; i < boot.found.n; i++)
		if (strcmp(boot.found.rows[i].id, id) == 0)
			return &boot.found.rows[i];
	return NULL;
}

void restore_rows(void (*done)(void))
{
	boot.done = done;
	for (struct sandbox *sb = registry_first(boot.control->registry); sb; sb = registry_next(sb)) {
		if (sb->booting)
			row_boot(sb); /* an earlier control had it held, and no more */
		else
			durable_found(sb, restore_row(sb->spec.id));
	}
	holds_go_on();
}

/* SPDX-License-Identifier: MIT
 *
 * What was asked for is changed, all of it or nothing. One table says what can be, and whether a process that runs has it at once. The spec is
 * changed when all was checked; limits go to the spawner together with that spec, so that there is no moment at which a successor of this
 * process finds the one without the other; should it refuse them, all is as it was. What a process can't be given while it runs waits for the next
 * one, and is shown as `pending` until then. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/usage.h"
#include "proto/fd.h"
#include "proto/log.h"

enum member {
	MEMBER_LIMITS, /* SPEC_LIMIT__N of them; where each is, spec.c knows */
	MEMBER_LABELS = MEMBER_LIMITS + SPEC_LIMIT__N,
	MEMBER_CONFIG,
	MEMBER_PROFILE,
	MEMBER_STRICT,
	MEMBER_ADDRESS_SPACE,
	MEMBER_RESTART,
	MEMBER_RESTART_STATE,
	MEMBER_INTENSITY,
	MEMBER_PERIOD,
	MEMBER_START_TIMEOUT,
	MEMBER_SHUTDOWN,
	MEMBER_MAX_EXECUTION,
	MEMBER_MAX_QUEUE,
	MEMBER_PROBATION,
	MEMBER__N
};
_Static_assert(MEMBER__N <= 32, "a bit each");
_Static_assert(1u << SPEC_LIMIT_MEMORY == SPAWNER_LIMIT_MEMORY && 1u << SPEC_LIMIT_FILE_SIZE == SPAWNER_LIMIT_FILE_SIZE &&
	1u << SPEC_LIMIT_PROCESSES == SPAWNER_LIMIT_PROCESSES && 1u << SPEC_LIMIT_OPEN_FILES == SPAWNER_LIMIT_OPEN_FILES &&
	1u << SPEC_LIMIT_CPU == SPAWNER_LIMIT_CPU, "the spawner's bits are those of the first members");

#define BIT(member)  (1u << (member))
#define LIMITS_MASK  (BIT(MEMBER_LABELS) - 1u)

/* Of the members behind the limits. why: of those that wait for a start. */
static const struct member_row {
	const char *name;
	size_t number;    /* offset of its uint32_t in struct spec; 0: it is none */
	bool is_long;     /* its value isn't repeated in answers and events */
	const char *why;
} rows[MEMBER__N] = {
	[MEMBER_LABELS] = { "labels", 0, true, NULL },
	[MEMBER_CONFIG] = { "config", 0, true, "the module's init is given it, which runs when a process starts" },
	[MEMBER_PROFILE] = { "profile", 0, false, "the walls around a process are built before it begins" },
	[MEMBER_STRICT] = { "strict", 0, false, "it is looked at when a process starts" },
	[MEMBER_ADDRESS_SPACE] = { "address_space", 0, false, "the layout of a process stays" },
	[MEMBER_RESTART] = { "restart", 0, false, NULL },
	[MEMBER_RESTART_STATE] = { "restart_state", 0, false, NULL },
	[MEMBER_INTENSITY] = { "intensity", offsetof(struct spec, policy.budget.intensity), false, NULL },
	[MEMBER_PERIOD] = { "period_ms", offsetof(struct spec, policy.budget.period_ms), false, NULL },
	[MEMBER_START_TIMEOUT] = { "start_timeout_ms", offsetof(struct spec, policy.start_timeout_ms), false, NULL },
	[MEMBER_SHUTDOWN] = { "shutdown_ms", offsetof(struct spec, policy.shutdown_ms), false, NULL },
	[MEMBER_MAX_EXECUTION] = { "max_execution_ms", offsetof(struct spec, max_execution_ms), false, NULL },
	[MEMBER_MAX_QUEUE] = { "max_queue", offsetof(struct spec, max_queue), false, NULL },
	[MEMBER_PROBATION] = { "probation_ms", offsetof(struct spec, probation_ms), false, NULL },
};

struct update {
	struct rpc_request *request;
	struct spec before;
	uint32_t changed, waits;  /* members; those of them that no process has yet */
	int status;               /* why a limit waits: an errno of the spawner's */
	bool had_process;
};

static const char *member_name(int i)
{
	return i < SPEC_LIMIT__N ? spec_limit_name((enum spec_limit)i) : rows[i].name;
}

static void member_json(const struct spec *s, int i, struct json_out *o, const char *key)
{
	if (i < SPEC_LIMIT__N)
		json_out_u64(o, key, spec_limit(&s->limits, (enum spec_limit)i));
	else if (rows[i].number)
		json_out_u64(o, key, *(const uint32_t *)(const void *)((const char *)s + rows[i].number));
	else if (i == MEMBER_STRICT)
		json_out_bool(o, key, s->strict);
	else if (i == MEMBER_LABELS || i == MEMBER_CONFIG)
		json_out_raw(o, key, i == MEMBER_LABELS ? s->labels : s->config, strlen(i == MEMBER_LABELS ? s->labels : s->config));
	else if (i == MEMBER_RESTART)
		json_out_text(o, key, life_restart_text(s->policy.restart));
	else if (i == MEMBER_RESTART_STATE)
		json_out_text(o, key, s->policy.from_checkpoint ? "checkpoint" : "fresh");
	else
		json_out_text(o, key, i == MEMBER_PROFILE ? s->profile : s->fresh_space ? "fresh" : "shared");
}

static uint32_t changes(const struct spec *a, const struct spec *b)
{
	uint32_t changed = 0;

	for (int i = 0; i < MEMBER__N; i++) {
		struct buf x = BUF_INIT, y = BUF_INIT;
		struct json_out to_x = json_out_to(&x), to_y = json_out_to(&y);

		member_json(a, i, &to_x, NULL);
		member_json(b, i, &to_y, NULL);
		if (x.failed || y.failed || x.size != y.size || memcmp(x.data, y.data, x.size) != 0)
			changed |= BIT(i);
		buf_fini(&x);
		buf_fini(&y);
	}
	return changed;
}

/* ---- what is to be ---- */

/* Owns what isn't the same text in both. */
static void spec_other_fini(struct spec *s, const struct spec *other)
{
	if (s->config != other->config)
		free(s->config);
	if (s->labels != other->labels)
		free(s->labels);
}

static int texts_read(struct spec *s, const struct rpc_request *r, struct err *e)
{
	struct json_span labels = rpc_param(r, "labels"), config = rpc_param(r, "config");
	const char *profile = rpc_text(r, "profile"), *text;

	if (config.at && config.size > LIMIT_SPEC_BYTES / 2)
		return err_set(e, ERR_BAD_PARAM, "config has %zu bytes, more than %u", config.size, LIMIT_SPEC_BYTES / 2);
	if (labels.at && spec_labels_check(labels, e) < 0)
		return -1;
	if (profile && spec_profile_set(s, profile, r, e) < 0)
		return -1;
	if ((text = rpc_text(r, "address_space")))
		s->fresh_space = strcmp(text, "fresh") == 0;
	if ((text = rpc_text(r, "restart")))
		s->policy.restart = spec_restart(text);
	if ((text = rpc_text(r, "restart_state")))
		s->policy.from_checkpoint = strcmp(text, "checkpoint") == 0;
	if (text && s->checkpoint_call && !s->policy.from_checkpoint) {
		err_set(e, ERR_BAD_PARAM, "sandbox %s was created with checkpoint call, which saves what restart_state fresh never begins with: leave it as it is", s->id);
		return err_about(e, "restart_state", -1);
	}
	if (labels.at)
		s->labels = strndup(labels.at, labels.size);
	if (config.at)
		s->config = strndup(config.at, config.size);
	return s->labels && s->config ? 0 : err_set(e, ERR_INTERNAL, "no memory for the change");
}

/* *s: the present one, and then the one that is asked for. -1: refused; s may own texts already. */
static int spec_change(struct spec *s, const struct control *c, const struct rpc_request *r, struct err *e)
{
	struct json_span limits = rpc_param(r, "limits");

	for (int i = 0; i < MEMBER__N; i++)
		if (rows[i].number && rpc_param(r, rows[i].name).at)
			*(uint32_t *)(void *)((char *)s + rows[i].number) = (uint32_t)rpc_integer(r, rows[i].name, 0);
	s->strict = rpc_bool(r, "strict", s->strict);
	if (limits.at && spec_limits_read(&s->limits, &c->begin, limits, e) < 0)
		return -1;
	if (texts_read(s, r, e) < 0)
		return -1;
	if (s->group[0] && rpc_text(r, "restart"))
		return err_set(e, ERR_WRONG_STATE, "sandbox %s is in group %s, which has read its restart type: take it out, change it, and add it again", s->id, s->group);
	return 0;
}

/* What its processes have now already would be taken from them, or they killed for it. */
static int use_check(const struct sandbox *sb, const struct spec *to, uint32_t changed, struct err *e)
{
	const struct {
		enum spec_limit which;
		const char *what;
	} looks[] = { { SPEC_LIMIT_MEMORY, "bytes of memory" }, { SPEC_LIMIT_PROCESSES, "processes and threads" }, { SPEC_LIMIT_OPEN_FILES, "open files" } };
	struct usage u;
	bool by_cgroup;

	if (!(changed & LIMITS_MASK) || !sandbox_usage_now(sb, &u, &by_cgroup))
		return 0;
	for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
		const uint64_t used[] = { u.anon_bytes + u.shared_bytes, u.processes > u.threads ? u.processes : u.threads, u.open_files > 0 ? (uint64_t)u.open_files : 0 };
		uint64_t limit = spec_limit(&to->limits, looks[i].which);

		if ((changed & BIT(looks[i].which)) && limit < used[i] && limit < spec_limit(&sb->spec.limits, looks[i].which)) {
			err_set(e, ERR_WRONG_STATE, "sandbox %s has %llu %s now, more than limits.%s is to be (%llu): lower its use first, or ask with force", sb->spec.id,
				(unsigned long long)used[i], looks[i].what, spec_limit_name(looks[i].which), (unsigned long long)limit);
			return err_about(e, spec_limit_name(looks[i].which), -1);
		}
	}
	return 0;
}

static int total_check(const struct sandbox *sb, const struct spec *to, const struct rpc_request *r, struct err *e)
{
	uint64_t was = spec_limit(&sb->spec.limits, SPEC_LIMIT_MEMORY), is = spec_limit(&to->limits, SPEC_LIMIT_MEMORY);
	const struct owner_share more = { { [OWNER_MEMORY] = is > was ? is - was : 0 } };

	if (more.of[OWNER_MEMORY] == 0 || sb->owned.counted.of[OWNER_MEMORY] == 0) /* one that is down counts when it is started */
		return 0;
	return owned_check(sb->control, sb->spec.owner, &more, r, e);
}

/* Its spec can be kept: nothing is being begun or ended that has an order of its own for that. */
static int state_check(const struct sandbox *sb, struct err *e)
{
	bool rests = sb->life.state == LIFE_RUNNING || sb->life.state == LIFE_FROZEN || sb->life.state == LIFE_STOPPED ||
		sb->life.state == LIFE_FAILED || sb->life.state == LIFE_BACKOFF;

	if (sb->update)
		return err_set(e, ERR_BUSY, "another update of sandbox %s is at work", sb->spec.id);
	if (sb->reload.active) /* its spec, with the candidate, is on its way; and an undo would bring back what the reload didn't know */
		return err_set(e, ERR_BUSY, "a reload of sandbox %s is at work: it can be changed when that was answered", sb->spec.id);
	if (!rests || sb->life.creating || sb->booting || sb->start_pending || txn_active(&sb->txn))
		return err_set(e, ERR_WRONG_STATE, "sandbox %s is %s: it can be changed when that is done", sb->spec.id, sandbox_status_text(sb));
	return 0;
}

/* ---- what was changed is told ---- */

static void why_json(const struct update *u, int i, struct json_out *o)
{
	const char *why = rows[i].why;
	char text[96];

	if (!u->had_process || u->status == ESRCH)
		why = "it has no process";
	else if (i == SPEC_LIMIT_CPU)
		why = "only a cgroup enforces it, and its process has none";
	else if (i < SPEC_LIMIT__N && u->status == EPERM)
		why = "its process has a lower hard limit, and to raise that takes CAP_SYS_RESOURCE, which sandboxd lacks";
	else if (i < SPEC_LIMIT__N) {
		(void)snprintf(text, sizeof text, "its process can't be given it: %.60s", strerror(u->status));
		why = text;
	}
	json_out_text(o, "why", why);
}

static void changes_json(const struct sandbox *sb, const struct update *u, struct json_out *o)
{
	json_out_array(o, "changes");
	for (int i = 0; i < MEMBER__N; i++) {
		if (!(u->changed & BIT(i)))
			continue;
		json_out_object(o, NULL);
		json_out_text(o, "member", member_name(i));
		json_out_text(o, "effect", u->waits & BIT(i) ? "next_start" : "live");
		if (!rows[i].is_long) {
			member_json(&u->before, i, o, "from");
			member_json(&sb->spec, i, o, "to");
		}
		if (u->waits & BIT(i))
			why_json(u, i, o);
		json_out_object_end(o);
	}
	json_out_array_end(o);
}

static void members_json(uint32_t members, struct json_out *o, const char *key)
{
	json_out_array(o, key);
	for (int i = 0; i < MEMBER__N; i++)
		if (members & BIT(i))
			json_out_text(o, NULL, member_name(i));
	json_out_array_end(o);
}

void pending_json(const struct sandbox *sb, struct json_out *o, const char *key)
{
	members_json(sb->next_start, o, key);
}

/* It has what a process is made with; its state crossed, so its init, which is given the config, did not run. */
static uint32_t waits_replaced(const struct sandbox *sb)
{
	return sb->next_start & BIT(MEMBER_CONFIG);
}

void pending_save(const struct sandbox *sb, bool is_replaced, struct json_out *o)
{
	uint32_t waits = is_replaced ? waits_replaced(sb) : sb->next_start;

	if (waits)
		members_json(waits, o, "pending");
}

void pending_replaced(struct sandbox *sb)
{
	sb->next_start = waits_replaced(sb);
}

void pending_load(struct sandbox *sb, struct json_span saved)
{
	struct json_span names = json_get(saved, "pending"), key, name;

	sb->next_start = 0;
	if (json_type(names) != '[')
		return;
	for (struct json_iter it = json_iter_begin(names); json_iter_next(&it, &key, &name);)
		for (int i = 0; i < MEMBER__N; i++)
			sb->next_start |= json_string_is(name, member_name(i)) ? BIT(i) : 0;
}

static void tell(struct sandbox *sb, struct update *u)
{
	struct json_out o, *event = u->changed ? events_begin(sb->control->events, "sandbox.updated", sb->spec.id, sb->spec.owner) : NULL;
	struct buf b = BUF_INIT;

	if (event) {
		json_out_u64(event, "by", rpc_uid(u->request));
		changes_json(sb, u, event);
		events_end(sb->control->events);
	}
	o = json_out_to(&b);
	json_out_object(&o, NULL);
	json_out_text(&o, "id", sb->spec.id);
	changes_json(sb, u, &o);
	pending_json(sb, &o, "pending");
	json_out_object_end(&o);
	durable_answer_raw(sb, u->request, buf_text(&b), b.size);
	buf_fini(&b);
}

/* ---- carried out ---- */

static void update_free(struct sandbox *sb)
{
	free(sb->update);
	sb->update = NULL;
}

/* What isn't the process's own is in force with the spec, or here. */
static void update_done(struct sandbox *sb)
{
	struct update *u = sb->update;

	u->had_process = sb->host != NULL;
	for (int i = SPEC_LIMIT__N; i < MEMBER__N; i++)
		u->waits |= rows[i].why ? u->changed & BIT(i) : 0;
	sb->next_start = sb->host ? (sb->next_start & ~u->changed) | u->waits : 0;
	if (u->changed & BIT(MEMBER_MAX_QUEUE))
		sb->calls.max_waiting = sb->spec.max_queue;
	if (u->changed & BIT(MEMBER_MAX_EXECUTION))
		overdue_changed(sb);
	if (u->changed) {
		updated_now(sb);
		sandbox_keep_spec(sb);
		durable_write(sb);
	}
	tell(sb, u);
	spec_other_fini(&u->before, &sb->spec);
	update_free(sb);
}

/* A group may have taken it meanwhile: that stays. */
static void update_undo(struct sandbox *sb, const struct err *e)
{
	struct update *u = sb->update;
	struct spec was = u->before;

	memcpy(was.group, sb->spec.group, sizeof was.group);
	was.significant = sb->spec.significant;
	was.joined_at_ms = sb->spec.joined_at_ms;
	was.policy.save_ms = sb->spec.policy.save_ms;
	spec_other_fini(&sb->spec, &was);
	sb->spec = was;
	owned_update(sb);
	sandbox_keep_spec(sb);
	(void)rpc_error(u->request, e, NULL);
	update_free(sb);
}

static void limits_set(void *ctx, const struct spawner_message *m, int *fds, size_t n_fds)
{
	struct sandbox *sb = ctx;
	struct update *u = sb->update;
	struct err e = ERR_INIT;
	char text[sizeof m->text];

	(void)fds, (void)n_fds;
	if (m->op == SPAWNER_OK)
		u->waits |= (uint32_t)m->value & u->changed & LIMITS_MASK;
	if (sb->forgetting) {
		err_set(&e, ERR_NOT_FOUND, "sandbox %s was destroyed", sb->spec.id);
		(void)rpc_error(u->request, &e, NULL);
		spec_other_fini(&u->before, &sb->spec);
		update_free(sb);
	} else if (m->op == SPAWNER_OK || m->status == ESRCH) { /* ended meanwhile: the next one is made with them */
		u->waits |= m->op == SPAWNER_OK ? 0 : u->changed & LIMITS_MASK;
		u->status = m->status;
		update_done(sb);
	} else {
		text_clean(text, sizeof text, m->text, strnlen(m->text, sizeof m->text));
		err_set(&e, m->status == EPERM ? ERR_DENIED : ERR_UNAVAILABLE, "sandbox %s: %s", sb->spec.id, text);
		update_undo(sb, &e);
	}
	sandbox_release(sb);
}

/* 1: the spawner was asked; 0: there is no process to ask for; -1: err. */
static int limits_ask(struct sandbox *sb, struct err *e)
{
	autoclose int fd = spec_memfd(sb, SPEC_PLAIN, e); /* also where nobody is asked: what doesn't fit is refused */
	struct spawner_message m;

	if (fd < 0)
		return -1;
	if (!(sb->update->changed & LIMITS_MASK) || !sb->host || sb->host->pid <= 0)
		return 0;
	spawner_message_init(&m, SPAWNER_LIMIT, sb->spec.id);
	m.generation = sb->host->link.generation;
	m.limits = sb->spec.limits;
	sandbox_hold(sb);
	if (spawner_request(sb->control->spawner, &m, &fd, 1, limits_set, sb, e) != 0)
		return 1;
	sandbox_release(sb);
	return -1;
}

const struct rpc_done *sandbox_update(struct sandbox *sb, struct rpc_request *r)
{
	struct spec to = sb->spec;
	struct update *u = NULL;
	struct err e = ERR_INIT;
	const struct rpc_done *taken;
	uint32_t changed = 0;
	int asked;

	checkpoint_cancel(sb);
	if (state_check(sb, &e) == 0 && spec_change(&to, sb->control, r, &e) == 0) {
		changed = changes(&sb->spec, &to);
		if (total_check(sb, &to, r, &e) == 0 && (rpc_bool(r, "force", false) || use_check(sb, &to, changed, &e) == 0))
			u = calloc(1, sizeof *u);
		if (!u && e.code == ERR_OK)
			err_set(&e, ERR_INTERNAL, "no memory for the change");
	}
	if (!u) {
		spec_other_fini(&to, &sb->spec);
		return rpc_error(r, &e, NULL);
	}
	*u = (struct update){ .request = r, .before = sb->spec, .changed = changed };
	sb->update = u;
	sb->spec = to;
	owned_update(sb); /* before it is answered: updates of others are checked against it */
	taken = rpc_pending(r);
	asked = limits_ask(sb, &e);
	if (asked == -1)
		update_undo(sb, &e);
	else if (asked == 0) {
		u->waits |= changed & LIMITS_MASK;
		update_done(sb);
	}
	return taken;
}

/* SPDX-License-Identifier: MIT
 *
 * Carries out what daemon/reload/probation.c decides: holds the state of the commit, and starts the version before from it. Nothing of
 * it outlives control: a successor finds a version that is current, and no state to go back to. */
#include <fcntl.h>
#include <string.h>

#include "daemon/sandbox/sandbox.h"
#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/log.h"

static void probation_run(struct sandbox *sb, const struct probation_event *ev);

static void probation_timer_cb(uv_timer_t *timer)
{
	probation_run(sandbox_of(timer->data), &(struct probation_event){ .type = PROBATION_EV_TIMER });
}

static void do_passed(struct sandbox *sb, const struct probation_actions *a)
{
	struct json_out *o = events_begin(sb->control->events, "version.proven", sb->spec.id, sb->spec.owner);

	json_out_u64(o, "version", a->version);
	json_out_text(o, "by", probation_why_text(a->why));
	events_end(sb->control->events);
}

/* The process is gone, and what the state that was held had not seen yet is what clients lose: they are told how much. */
static void do_return(struct sandbox *sb, const struct probation_actions *a)
{
	struct spawner_message m;
	uint64_t since = sb->calls.done - sb->trial.calls_done;
	struct json_out *o;

	sandbox_account(sb);
	versions_return(&sb->versions, a->to, sb->last_exit.reason, clock_wall_ms());
	fd_close(&sb->state_fd);
	sb->state_fd = fd_take(&sb->trial.state_fd);
	sb->state_bytes = sb->trial.state_bytes;
	sb->disk.kept_is_row = false; /* the state of the commit is neither the row's nor a checkpoint */
	sb->checkpoint.kept = (struct checkpoint_mark){ 0 };
	spawner_message_init(&m, SPAWNER_KEEP, sb->spec.id);
	m.kind = SPAWNER_KEEP_STATE;
	spawner_send(sb->control->spawner, &m, &sb->state_fd, 1);
	sandbox_keep_spec(sb);
	durable_write(sb);
	o = events_begin(sb->control->events, "version.returned", sb->spec.id, sb->spec.owner);
	json_out_u64(o, "from", a->version);
	json_out_u64(o, "to", a->to);
	json_out_text(o, "why", sb->last_exit.reason);
	json_out_text(o, "state_from", "commit");
	json_out_u64(o, "acknowledged_since", since);
	events_end(sb->control->events);
	log_warning("sandbox=%s version %u is quarantined (%s): back to version %u, %llu acknowledged calls since its state was saved", sb->spec.id,
		a->version, sb->last_exit.reason, a->to, (unsigned long long)since);
}

static void probation_run(struct sandbox *sb, const struct probation_event *ev)
{
	struct probation_actions a;

	if (!probation_step(&sb->trial.probation, ev, &a))
		return;
	if (a.set & PROBATION_DO_CLEAR_TIMER)
		uv_timer_stop(&sb->trial.timer);
	if (a.set & PROBATION_DO_DROP_STATE)
		fd_close(&sb->trial.state_fd);
	if (a.set & PROBATION_DO_HOLD_STATE) {
		sb->trial.state_fd = fcntl(sb->state_fd, F_DUPFD_CLOEXEC, 3);
		sb->trial.state_bytes = sb->state_bytes;
		sb->trial.calls_done = sb->calls.done;
	}
	if (a.set & PROBATION_DO_SET_TIMER) {
		sb->trial.until_ms = clock_monotonic_ms() + a.timer_ms;
		uv_timer_start(&sb->trial.timer, probation_timer_cb, a.timer_ms, 0);
	}
	sb->versions.on_probation = probation_active(&sb->trial.probation);
	if (a.set & PROBATION_DO_RETURN)
		do_return(sb, &a);
	if (a.set & PROBATION_DO_PASSED)
		do_passed(sb, &a);
	if ((a.set & PROBATION_DO_HOLD_STATE) && sb->trial.state_fd < 0) {
		log_error("sandbox=%s version %u isn't on probation: no descriptor for its state", sb->spec.id, sb->versions.current);
		probation_run(sb, &(struct probation_event){ .type = PROBATION_EV_LOST });
	}
}

void sandbox_probation_begin(struct sandbox *sb, uint32_t before, uint32_t ms, bool backwards)
{
	probation_run(sb, &(struct probation_event){ .type = PROBATION_EV_COMMITTED, .version = sb->versions.current, .before = before, .ms = ms,
		.backwards = backwards });
}

void sandbox_probation_end(struct sandbox *sb, enum probation_event_type why)
{
	probation_run(sb, &(struct probation_event){ .type = why });
}

bool sandbox_probation_exited(struct sandbox *sb)
{
	bool active = probation_active(&sb->trial.probation);

	if (!probation_is_fault(sb->last_exit.wait_status))
		return false;
	versions_fault(&sb->versions);
	if (!active || (sb->life.state != LIFE_RUNNING && sb->life.state != LIFE_RELOADING))
		return false;
	/* To the life it is a reload whose process has died after its state was sealed: started again, and not counted. */
	if (sb->life.state == LIFE_RUNNING && !sandbox_request(sb, LIFE_RELOAD_BEGIN, false, NULL))
		return false;
	probation_run(sb, &(struct probation_event){ .type = PROBATION_EV_FAULT });
	sandbox_fact(sb, LIFE_RELOAD_DIED_SEALED, sb->last_exit.exit);
	return true;
}

void sandbox_probation_json(const struct sandbox *sb, struct json_out *o, const char *key)
{
	const struct trial *t = &sb->trial;
	int64_t now = clock_monotonic_ms();

	if (!probation_active(&t->probation)) {
		json_out_null(o, key);
		return;
	}
	json_out_object(o, key);
	json_out_u64(o, "version", t->probation.version);
	json_out_u64(o, "back_to", t->probation.before);
	json_out_i64(o, "ends_in_ms", t->until_ms > now ? t->until_ms - now : 0);
	json_out_u64(o, "acknowledged_since", sb->calls.done - t->calls_done);
	json_out_object_end(o);
}

const struct rpc_done *sandbox_version_commit(struct sandbox *sb, struct rpc_request *r)
{
	bool was = probation_active(&sb->trial.probation);
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	const struct rpc_done *done;

	sandbox_probation_end(sb, PROBATION_EV_CONFIRM);
	json_out_object(&o, NULL);
	json_out_text(&o, "id", sb->spec.id);
	json_out_u64(&o, "version", sb->versions.current);
	json_out_bool(&o, "was_on_probation", was);
	json_out_object_end(&o);
	done = rpc_result_raw(r, buf_text(&b), b.size);
	buf_fini(&b);
	return done;
}

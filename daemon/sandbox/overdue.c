/* SPDX-License-Identifier: MIT
 *
 * The longest that a call may run: max_execution_ms. Replies come in the order in which calls were sent, so the oldest that was sent is the one that
 * runs, since it was sent or since the one before it was answered. When its time is over its process gets the attention signal, and the function
 * may end; LIMIT_ATTENTION_MS later it is killed, whatever it does: nothing of this is in the host's hands. A host that was taken over and
 * hasn't said what it does is in a call of an earlier control, whose time begins anew. The time in which it is frozen doesn't count. */
#include "daemon/sandbox/sandbox.h"
#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "proto/clock.h"
#include "proto/log.h"

#define LOOK_AGAIN_MS 5
#define OLD_CALL      1 /* of an earlier control; numbers of calls have an epoch in their high half */

static uint64_t running_call(const struct sandbox *sb)
{
	const struct host *h = sb->host;

	if (sb->spec.max_execution_ms == 0 || !h || !h->ready || h->killed || h->kill_text[0] || h->asked || sb->gone)
		return 0;
	if (h->found)
		return OLD_CALL;
	return sb->calls.running.first ? sb->calls.running.first->number : 0;
}

static bool counts_now(const struct sandbox *sb)
{
	return sb->life.state == LIFE_RUNNING || sb->life.state == LIFE_RELOADING;
}

static const char *function_of(const struct sandbox *sb)
{
	const struct call *c = sb->host->found ? NULL : sb->calls.running.first;

	if (!c)
		return "a call";
	return c->is_cast ? c->cast_function : c->function ? c->function : "a call";
}

static void overdue_timer_cb(uv_timer_t *timer);

static void arm(struct sandbox *sb, int64_t ms)
{
	uv_timer_start(&sb->overdue.timer, overdue_timer_cb, ms > 0 ? (uint64_t)ms : 1, 0);
}

static void ask_to_end(struct sandbox *sb, int64_t ran_ms)
{
	struct json_out *o = events_begin(sb->control->events, "call.overdue", sb->spec.id, sb->spec.owner);
	struct spawner_message m;

	json_out_text(o, "function", function_of(sb));
	json_out_i64(o, "ran_ms", ran_ms);
	json_out_u64(o, "max_execution_ms", sb->spec.max_execution_ms);
	events_end(sb->control->events);
	spawner_message_init(&m, SPAWNER_SIGNAL, sb->spec.id);
	m.kind = SPAWNER_SIGNAL_TIME;
	m.generation = sb->host->link.generation;
	spawner_send(sb->control->spawner, &m, NULL, 0);
}

static void overdue_timer_cb(uv_timer_t *timer)
{
	struct sandbox *sb = sandbox_of(timer->data);
	int64_t now_ms = clock_monotonic_ms(), ran_ms = now_ms - sb->overdue.since_ms;
	int64_t left_ms = (int64_t)sb->spec.max_execution_ms - ran_ms;
	char text[96];

	if (sb->overdue.number == 0 || running_call(sb) != sb->overdue.number || !counts_now(sb))
		return; /* overdue_update arms it again */
	if (left_ms > 0) { /* armed for an earlier call */
		arm(sb, left_ms);
		return;
	}
	switch (sb->overdue.stage) {
	case OVERDUE_NOT: /* it may be this loop that is late: what the host has sent is read first */
		sb->overdue.stage = OVERDUE_LATE;
		arm(sb, LOOK_AGAIN_MS);
		return;
	case OVERDUE_LATE:
		sb->overdue.stage = OVERDUE_TOLD;
		sb->overdue.told_ms = now_ms;
		ask_to_end(sb, ran_ms);
		arm(sb, LIMIT_ATTENTION_MS);
		return;
	case OVERDUE_TOLD:
		if (now_ms - sb->overdue.told_ms < LIMIT_ATTENTION_MS) {
			arm(sb, LIMIT_ATTENTION_MS - (now_ms - sb->overdue.told_ms));
			return;
		}
		break;
	}
	(void)snprintf(text, sizeof text, "%.40s ran for %lld ms (max_execution_ms %u)", function_of(sb), (long long)ran_ms, sb->spec.max_execution_ms);
	(void)snprintf(sb->host->kill_reason, sizeof sb->host->kill_reason, "time");
	sandbox_kill_host(sb, text);
}

void overdue_init(struct sandbox *sb)
{
	uv_timer_init(sb->control->loop, &sb->overdue.timer);
	sb->overdue.timer.data = sb;
}

/* Called for each call that is sent and each reply: nearly always the timer runs already, for an earlier one. */
void overdue_update(struct sandbox *sb)
{
	uint64_t number = running_call(sb);

	if (number != sb->overdue.number) {
		sb->overdue.number = number;
		sb->overdue.stage = OVERDUE_NOT;
		sb->overdue.stood_ms = 0;
		if (number != 0)
			sb->overdue.since_ms = clock_monotonic_ms();
	}
	if (number == 0)
		return;
	if (!counts_now(sb)) { /* frozen; a stop has its own deadline */
		if (sb->overdue.stood_ms == 0)
			sb->overdue.stood_ms = clock_monotonic_ms();
		return;
	}
	if (sb->overdue.stood_ms != 0) {
		int64_t stood_ms = clock_monotonic_ms() - sb->overdue.stood_ms;

		sb->overdue.since_ms += stood_ms;
		sb->overdue.told_ms += stood_ms;
		sb->overdue.stood_ms = 0;
	}
	if (!uv_is_active((uv_handle_t *)&sb->overdue.timer))
		arm(sb, sb->overdue.since_ms + (int64_t)sb->spec.max_execution_ms - clock_monotonic_ms());
}

void overdue_changed(struct sandbox *sb)
{
	uv_timer_stop(&sb->overdue.timer);
	sb->overdue.stage = OVERDUE_NOT;
	overdue_update(sb);
}

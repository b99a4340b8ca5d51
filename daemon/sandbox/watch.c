/* SPDX-License-Identifier: MIT
 *
 * The heartbeat's watchdog. An idle host answers a ping from its loop; one whose module runs a function is heard when the function counts its
 * beat up or a call ends. One that is asked, and not heard of for heartbeat_ms, is killed. It is looked at only while the sandbox is running:
 * starts, stops and the steps of a reload have deadlines of their own, and a frozen one can't answer. */
#include "daemon/sandbox/sandbox.h"
#include "proto/clock.h"

#define LOOK_MIN_MS 5

static bool is_watched(const struct sandbox *sb)
{
	return sb->spec.heartbeat_ms > 0 && sb->life.state == LIFE_RUNNING && sb->host && sb->host->ready && !sb->host->found &&
		!sb->host->killed && !sb->host->kill_text[0] && !sb->gone;
}

static void watch_timer_cb(uv_timer_t *timer);

static void arm(struct sandbox *sb, uint64_t ms)
{
	uv_timer_start(&sb->watch.timer, watch_timer_cb, ms < LOOK_MIN_MS ? LOOK_MIN_MS : ms, 0);
}

static void ping(struct sandbox *sb, int64_t now_ms)
{
	sb->watch.asked = true;
	sb->watch.late = false;
	sb->watch.since_ms = now_ms;
	(void)host_link_send(&sb->host->link, HOST_PING, ++sb->watch.number, 0, NULL, 0, -1);
	arm(sb, sb->spec.heartbeat_ms);
}

static void watch_timer_cb(uv_timer_t *timer)
{
	struct sandbox *sb = sandbox_of(timer->data);
	int64_t now_ms = clock_monotonic_ms(), left_ms;
	char text[96];

	if (!is_watched(sb)) {
		sb->watch.asked = false;
		return;
	}
	if (!sb->watch.asked) {
		ping(sb, now_ms);
		return;
	}
	left_ms = sb->watch.since_ms + sb->spec.heartbeat_ms - now_ms;
	if (left_ms > 0) {
		sb->watch.late = false;
		arm(sb, (uint64_t)left_ms);
	} else if (!sb->watch.late) { /* it may be this loop that is late: what the host has sent is read first */
		sb->watch.late = true;
		arm(sb, LOOK_MIN_MS);
	} else {
		(void)snprintf(text, sizeof text, "no heartbeat for %lld ms (heartbeat_ms %u)", (long long)(now_ms - sb->watch.since_ms),
			sb->spec.heartbeat_ms);
		(void)snprintf(sb->host->kill_reason, sizeof sb->host->kill_reason, "heartbeat");
		sandbox_kill_host(sb, text);
	}
}

void watch_init(struct sandbox *sb)
{
	uv_timer_init(sb->control->loop, &sb->watch.timer);
	sb->watch.timer.data = sb;
}

void watch_update(struct sandbox *sb)
{
	if (!is_watched(sb) || uv_is_active((uv_handle_t *)&sb->watch.timer))
		return;
	sb->watch.asked = false;
	arm(sb, sb->spec.heartbeat_ms / 2);
}

void watch_thawed(struct sandbox *sb)
{
	uv_timer_stop(&sb->watch.timer);
	watch_update(sb);
}

void watch_heard(struct sandbox *sb, uint64_t answers)
{
	if (!sb->watch.asked)
		return;
	sb->watch.since_ms = clock_monotonic_ms();
	if (answers == 0 || answers != sb->watch.number)
		return;
	sb->watch.asked = false;
	if (is_watched(sb))
		arm(sb, sb->spec.heartbeat_ms / 2);
}

/* SPDX-License-Identifier: MIT
 *
 * Most looks are one small file, /proc/PID/stat of the host: page faults, processor time, threads and resident pages move with all that a
 * process can do, a fork included. Only then its whole tree is read. A tick does what fits into LIMIT_SAMPLE_US; the rest is next. */
#include "daemon/sandbox/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/observe/events.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/usage.h"
#include "proto/clock.h"
#include "proto/protection.h"

struct sampler {
	struct sample_wheel wheel;
	uv_timer_t timer;
	int64_t tick_ms;        /* monotonic: of wheel.now */
};

#define MIB(bytes) ((unsigned long long)((bytes) >> 20))

/* ---- what is told ---- */

static const char *const of_text[SAMPLE_OF__N] = { [SAMPLE_MEMORY] = "max_memory", [SAMPLE_PROCESSES] = "max_processes",
	[SAMPLE_OPEN_FILES] = "max_open_files", [SAMPLE_QUEUE] = "max_queue", [SAMPLE_CPU] = "max_cpu_percentage" };

static void tell(struct sandbox *sb, enum sample_of of, uint64_t used, uint64_t limit, enum sample_tell what)
{
	struct json_out *o;

	if (what == SAMPLE_TELL_NOTHING)
		return;
	o = events_begin(sb->control->events, what == SAMPLE_TELL_WARNING ? "sandbox.limit_warning" : "sandbox.limit_exceeded", sb->spec.id, sb->spec.owner);
	json_out_text(o, "limit", of_text[of]);
	json_out_u64(o, "used", used);
	json_out_u64(o, "max", limit);
	json_out_u64(o, "percent", sample_percent(used, limit));
	if (what == SAMPLE_TELL_EXCEEDED)
		json_out_bool(o, "killed", false);
	events_end(sb->control->events);
}

static void cross(struct sandbox *sb, enum sample_of of, uint64_t used, uint64_t limit)
{
	tell(sb, of, used, limit, sample_cross(&sb->sample.told, of, sample_percent(used, limit)));
}

void sample_queue(struct sandbox *sb)
{
	uint64_t waiting = sb->calls.waiting.n, max = sb->calls.max_waiting;

	if (waiting * 100 >= max * SAMPLE_REARM_PERCENT || (sb->sample.told.warned & (1u << SAMPLE_QUEUE)))
		cross(sb, SAMPLE_QUEUE, waiting, max);
}

/* ---- too much ---- */

/* Copies of the host that control has asked for have its memory once more. They end soon, but its owner can have the next one made at once. */
static bool has_copies(const struct sandbox *sb)
{
	return sb->life.state != LIFE_RUNNING || sb->reload.active || txn_active(&sb->txn) || sb->look.request;
}

/* Its processes share what a fork has not copied yet: each is allowed LIMIT_PROCESS_OWN_BYTES of that, beyond it all counts. */
static uint64_t allowed_bytes(uint64_t limit, uint32_t processes)
{
	return limit + LIMIT_HOST_OWN_BYTES + (processes > 1 ? (uint64_t)(processes - 1) * LIMIT_PROCESS_OWN_BYTES : 0);
}

static void kill_for(struct sandbox *sb, const char *reason, const char *text)
{
	(void)snprintf(sb->host->kill_reason, sizeof sb->host->kill_reason, "%s", reason);
	sandbox_kill_host(sb, text);
}

/* What the kernel doesn't hold it to. Twice in a row: what is being given back just now isn't its. */
static void excess(struct sandbox *sb, const struct usage *u)
{
	uint64_t memory = spec_limit(&sb->spec.limits, SPEC_LIMIT_MEMORY), used = u->anon_bytes + u->shared_bytes;
	uint32_t tasks = u->threads > u->processes ? u->threads : u->processes;
	uint64_t max_tasks = spec_limit(&sb->spec.limits, SPEC_LIMIT_PROCESSES);
	bool copies = has_copies(sb), confirmed = sb->sample.over;
	bool too_much = used > allowed_bytes(copies ? memory * RELOAD_STATE_COPIES : memory, u->processes);
	bool too_many = !sb->sample.tasks_counted && tasks > max_tasks + (copies ? RELOAD_PROCESSES : 0);
	char text[96];

	if (sb->host->killed || sb->host->kill_text[0] || sb->control->begin.lets_exceed)
		return;
	sb->sample.over = too_much || too_many;
	if (!sb->sample.over || !confirmed)
		return;
	if (too_much)
		(void)snprintf(text, sizeof text, "its processes together had %llu MiB, more than max_memory (%llu MiB)", MIB(used), MIB(memory));
	else
		(void)snprintf(text, sizeof text, "it had %u processes and threads, more than max_processes (%llu)", tasks, (unsigned long long)max_tasks);
	kill_for(sb, too_much ? "oom" : "pids", text);
}

/* The resource limit counts per user: is it the sandbox's own? As its process has said before it ran anything. */
static bool tasks_are_counted(const struct sandbox *sb)
{
	struct json_span report = { sb->security, sb->security ? strlen(sb->security) : 0 }, key, row;

	for (struct json_iter it = json_iter_begin(report); report.at && json_iter_next(&it, &key, &row);)
		if (json_string_is(json_get(row, "protection"), protection_name(PROTECTION_LIMIT_PROCESSES)))
			return !json_string_is(json_get(row, "got"), "none");
	return true;
}

/* ---- a look ---- */

/* What the kernel counted in its cgroup since the last look. */
static void cgroup_told(struct sandbox *sb, const struct usage *u)
{
	struct sample *s = &sb->sample;
	uint64_t max_tasks = spec_limit(&sb->spec.limits, SPEC_LIMIT_PROCESSES), share = spec_limit(&sb->spec.limits, SPEC_LIMIT_CPU);
	uint64_t periods = u->cpu_periods - s->periods, throttled = u->cpu_throttled - s->throttled;

	if (u->pids_refused > s->pids_refused)
		tell(sb, SAMPLE_PROCESSES, max_tasks, max_tasks, sample_cross(&s->told, SAMPLE_PROCESSES, SAMPLE_FULL_PERCENT));
	if (u->cpu_periods > s->periods)
		tell(sb, SAMPLE_CPU, share, share, sample_cross(&s->told, SAMPLE_CPU, throttled * 2 > periods ? SAMPLE_FULL_PERCENT : 0));
	s->pids_refused = u->pids_refused;
	s->periods = u->cpu_periods;
	s->throttled = u->cpu_throttled;
}

static bool look_whole(struct sandbox *sb, bool *was_busy)
{
	const struct host_limits *l = &sb->spec.limits;
	struct usage u;
	bool by_cgroup;

	if (!usage_read("/proc", sb->host->pid, 0, &u)) /* orphans under low aren't looked for: that would read all that the spawner has */
		return false;
	by_cgroup = sb->host->leaf[0] && usage_read_cgroup(sb->control->begin.cgroup_dir, sb->host->leaf, &u);
	sb->sample.tasks = u.threads > u.processes ? u.threads : u.processes;
	*was_busy = *was_busy || u.cpu_us != sb->sample.cpu_us || u.anon_bytes + u.shared_bytes != sb->sample.bytes;
	sb->sample.cpu_us = u.cpu_us;
	sb->sample.bytes = u.anon_bytes + u.shared_bytes;
	if (by_cgroup)
		cgroup_told(sb, &u);
	else
		excess(sb, &u);
	/* That all of it is used is told when it is killed: only then it wanted more. */
	if (sample_percent(u.anon_bytes + u.shared_bytes, spec_limit(l, SPEC_LIMIT_MEMORY)) < SAMPLE_FULL_PERCENT)
		cross(sb, SAMPLE_MEMORY, u.anon_bytes + u.shared_bytes, spec_limit(l, SPEC_LIMIT_MEMORY));
	cross(sb, SAMPLE_PROCESSES, sb->sample.tasks, spec_limit(l, SPEC_LIMIT_PROCESSES));
	if (u.most_open_files > 0)
		cross(sb, SAMPLE_OPEN_FILES, (uint64_t)u.most_open_files, spec_limit(l, SPEC_LIMIT_OPEN_FILES));
	return true;
}

static void look(struct sandbox *sb)
{
	struct sample *s = &sb->sample;
	uint32_t before_ms = s->interval_ms;
	struct usage_host now;
	bool was_busy;

	s->interval_ms = SAMPLE_RARE_MS; /* of one that has just ended, or can't be read: whoever waits for it takes it out */
	if (!usage_read_host("/proc", sb->host->pid, &now))
		return;
	was_busy = now.faults != s->host.faults || now.cpu != s->host.cpu || now.threads != s->host.threads || now.pages != s->host.pages;
	s->host.faults = now.faults;
	s->host.cpu = now.cpu;
	s->host.threads = now.threads;
	s->host.pages = now.pages;
	if ((was_busy || s->tasks != 1 || s->over) && !look_whole(sb, &was_busy))
		return;
	s->interval_ms = s->over ? SAMPLE_TICK_MS : sample_next_ms(before_ms, was_busy);
}

/* ---- when ---- */

static void timer_cb(uv_timer_t *timer);

static void arm(struct sampler *s)
{
	int64_t due_ms;

	if (s->wheel.n == 0) {
		uv_timer_stop(&s->timer);
		return;
	}
	due_ms = s->tick_ms + (int64_t)sample_idle_ticks(&s->wheel) * SAMPLE_TICK_MS - clock_monotonic_ms();
	uv_timer_start(&s->timer, timer_cb, due_ms > 1 ? (uint64_t)due_ms : 1, 0);
}

/* What is due stands at the times of ticks, however late this is called. */
static void put(struct sampler *s, struct sandbox *sb)
{
	if (s->wheel.n == 0)
		s->tick_ms = clock_monotonic_ms();
	sample_put(&s->wheel, &sb->sample.item, sb->sample.interval_ms);
}

static void timer_cb(uv_timer_t *timer)
{
	struct sampler *s = timer->data;
	int64_t now_ms = clock_monotonic_ms(), began_us = clock_monotonic_us();
	struct sample_item *item;

	while (s->tick_ms + SAMPLE_TICK_MS <= now_ms) {
		sample_advance(&s->wheel);
		s->tick_ms += SAMPLE_TICK_MS;
	}
	while (clock_monotonic_us() - began_us < LIMIT_SAMPLE_US && (item = sample_take(&s->wheel))) {
		struct sandbox *sb = (struct sandbox *)(void *)((char *)item - offsetof(struct sandbox, sample));

		if (!sb->host || sb->host->pid <= 0)
			continue;
		look(sb);
		put(s, sb);
	}
	arm(s);
}

void sample_update(struct sandbox *sb)
{
	struct sampler *s = sb->control->sampler;
	const struct host *h = sb->host;

	if (!s)
		return;
	if (!h || h->pid <= 0 || !h->ready || sb->gone) {
		sample_remove(&s->wheel, &sb->sample.item);
		return;
	}
	if (sb->sample.generation == h->link.generation)
		return;
	sb->sample = (struct sample){ .item = sb->sample.item, .generation = h->link.generation, .interval_ms = SAMPLE_SOON_MS,
		.told = { sb->sample.told.warned & (1u << SAMPLE_QUEUE), sb->sample.told.exceeded & (1u << SAMPLE_QUEUE) },
		.tasks_counted = tasks_are_counted(sb) };
	put(s, sb);
	arm(s);
}

void sample_poke(struct sandbox *sb)
{
	struct sampler *s = sb->control->sampler;

	if (!s || sb->sample.interval_ms <= SAMPLE_SOON_MS || !sample_waits(&sb->sample.item))
		return;
	sb->sample.interval_ms = SAMPLE_SOON_MS;
	put(s, sb);
	arm(s);
}

void sample_forget(struct sandbox *sb)
{
	if (sb->control->sampler)
		sample_remove(&sb->control->sampler->wheel, &sb->sample.item);
}

struct sampler *sampler_new(struct control *c)
{
	struct sampler *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	uv_timer_init(c->loop, &s->timer);
	uv_unref((uv_handle_t *)&s->timer); /* it keeps nobody from ending */
	s->timer.data = s;
	return s;
}

struct sampler *sampler_free(struct sampler *s)
{
	free(s);
	return NULL;
}

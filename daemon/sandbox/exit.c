/* SPDX-License-Identifier: MIT
 *
 * A host process has ended: its last words are read, its end is classified and told once, with the whole story; then the transaction at
 * work, or the life, decides what follows. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "daemon/sandbox/sandbox.h"
#include "daemon/control/shutdown.h"
#include "daemon/control/spawner_link.h"
#include "daemon/observe/events.h"
#include "proto/clock.h"
#include "proto/log.h"

static const char *signal_text(int number)
{
	const char *text = sigabbrev_np(number);

	return text ? text : "?";
}

/* A pid 1 can't end by a signal of its own: it says so in its note, and exits with 128 + signal. That is its word, so it can only make
 * an exit of its own look like that signal. */
static int status_of(const struct host *h, int status)
{
	if (h && h->death && h->death->signal > 0 && h->death->signal < 65 && WIFEXITED(status) &&
		WEXITSTATUS(status) == 128 + h->death->signal)
		return h->death->signal;
	return status;
}

/* "signal SIGSEGV", "exit status 3", or what we did to it. */
static void reason_of(struct last_exit *x, const struct host *h, const struct spawner_message *m, enum life_kill killed)
{
	int status = x->wait_status;

	if (m->name[0]) {
		char step[LIMIT_ID_BYTES + 1];

		text_clean(step, sizeof step, m->name, strnlen(m->name, sizeof m->name));
		(void)snprintf(x->reason, sizeof x->reason, "set-up step '%.40s' failed", step);
		text_clean(x->text, sizeof x->text, m->text, strnlen(m->text, sizeof m->text));
	} else if ((m->flags & SPAWNER_F_OOM) && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
		(void)snprintf(x->reason, sizeof x->reason, "oom");
		(void)snprintf(x->text, sizeof x->text, "its processes together went beyond max_memory");
	} else if (h && h->denied[0]) {
		(void)snprintf(x->reason, sizeof x->reason, "forbidden system call");
		(void)snprintf(x->text, sizeof x->text, "%s", h->denied);
	} else if (h && h->kill_text[0]) {
		(void)snprintf(x->reason, sizeof x->reason, "%s", h->kill_reason[0] ? h->kill_reason : "killed");
		(void)snprintf(x->text, sizeof x->text, "%s", h->kill_text);
	} else if (h && h->killed) {
		(void)snprintf(x->reason, sizeof x->reason, "%s", life_kill_text(killed));
	} else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) {
		(void)snprintf(x->reason, sizeof x->reason, "file_size");
		(void)snprintf(x->text, sizeof x->text, "it wrote beyond max_file_size");
	} else if (WIFSIGNALED(status)) {
		(void)snprintf(x->reason, sizeof x->reason, "signal SIG%s", signal_text(WTERMSIG(status)));
	} else if (WEXITSTATUS(status) == 0) {
		(void)snprintf(x->reason, sizeof x->reason, "%s", h && h->asked ? "stopped" : "ended by itself");
	} else {
		(void)snprintf(x->reason, sizeof x->reason, "exit status %d", WEXITSTATUS(status));
	}
}

/* The death note in words; every field is the host's and may be anything. */
static void death_text(struct last_exit *x, const struct host_death *d)
{
	char function[LIMIT_FUNCTION_BYTES + 1], object[LIMIT_ID_BYTES + 1], symbol[LIMIT_FUNCTION_BYTES + 1], text[96];
	int n;

	text_clean(function, sizeof function, d->function, strnlen(d->function, sizeof d->function));
	text_clean(object, sizeof object, d->object, strnlen(d->object, sizeof d->object));
	text_clean(symbol, sizeof symbol, d->symbol, strnlen(d->symbol, sizeof d->symbol));
	text_clean(text, sizeof text, d->text, strnlen(d->text, sizeof d->text));
	if (d->signal == 0) {
		(void)snprintf(x->text, sizeof x->text, "%s", text);
		return;
	}
	if (d->signal == SIGSEGV || d->signal == SIGBUS || d->signal == SIGILL || d->signal == SIGFPE)
		n = snprintf(x->text, sizeof x->text, "SIG%s at address 0x%llx", signal_text(d->signal), (unsigned long long)d->address);
	else
		n = snprintf(x->text, sizeof x->text, "SIG%s", signal_text(d->signal));
	if (n > 0 && function[0] && (size_t)n < sizeof x->text)
		n += snprintf(x->text + n, sizeof x->text - (size_t)n, " in function %s", function);
	if (n > 0 && object[0] && (size_t)n < sizeof x->text)
		n += snprintf(x->text + n, sizeof x->text - (size_t)n, " (%s+0x%llx", object, (unsigned long long)d->pc_offset);
	if (n > 0 && object[0] && (size_t)n < sizeof x->text)
		n += symbol[0] ? snprintf(x->text + n, sizeof x->text - (size_t)n, ", %s+0x%llx)", symbol,
					 (unsigned long long)d->symbol_offset) :
				 snprintf(x->text + n, sizeof x->text - (size_t)n, ")");
	if (n > 0 && text[0] && (size_t)n < sizeof x->text)
		(void)snprintf(x->text + n, sizeof x->text - (size_t)n, ": %s", text);
}

const char *exit_limit(const struct last_exit *x)
{
	static const struct {
		const char *reason, *limit;
	} limits[] = { { "oom", "max_memory" }, { "pids", "max_processes" }, { "time", "max_execution_ms" }, { "file_size", "max_file_size" } };

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		if (strcmp(x->reason, limits[i].reason) == 0)
			return limits[i].limit;
	return NULL;
}

void exit_describe(struct last_exit *x, const struct host *h, const struct spawner_message *m, enum life_kill killed)
{
	x->wait_status = status_of(h, m->status);
	x->exit = life_exit_class(x->wait_status, h && h->asked, h && h->killed);
	if (h && h->kill_text[0])
		x->exit = LIFE_EXIT_ERROR;
	reason_of(x, h, m, killed);
	if (h && h->death)
		death_text(x, h->death);
}

/* It ended by a limit: so that is told too. */
static void limit_event(const struct sandbox *sb)
{
	const char *limit = exit_limit(&sb->last_exit);
	struct json_out *o = limit ? events_begin(sb->control->events, "sandbox.limit_exceeded", sb->spec.id, sb->spec.owner) : NULL;

	if (!o)
		return;
	json_out_text(o, "limit", limit);
	json_out_text(o, "text", sb->last_exit.text);
	json_out_u64(o, "generation", sb->last_exit.generation);
	json_out_bool(o, "killed", true);
	events_end(sb->control->events);
}

static void exit_event(const struct sandbox *sb)
{
	const struct last_exit *x = &sb->last_exit;
	struct json_out *o = events_begin(sb->control->events, "sandbox.exited", sb->spec.id, sb->spec.owner);

	json_out_text(o, "class", life_exit_text(x->exit));
	json_out_text(o, "reason", x->reason);
	json_out_text(o, "text", x->text);
	json_out_i64(o, "uptime_ms", x->uptime_ms);
	json_out_u64(o, "version", x->version);
	json_out_u64(o, "generation", x->generation);
	events_end(sb->control->events);
}

void exit_record(struct sandbox *sb, const struct spawner_message *m, unsigned held)
{
	struct host *h = sb->host;
	struct last_exit *x = &sb->last_exit;

	*x = (struct last_exit){ .happened = true, .at_ms = clock_wall_ms(), .uptime_ms = m->ended_ms - m->started_ms,
		.version = sb->versions.current, .generation = m->generation,
		.calls_done = h ? h->calls_done : sb->calls.done };
	exit_describe(x, h, m, sb->life.killed);
	sandbox_account_exit(sb);
	if (m->name[0])
		text_clean(sb->failure_step, sizeof sb->failure_step, m->name, strnlen(m->name, sizeof m->name));
	sandbox_log_flush(sb->log, x->at_ms);
	sandbox_log_last_words(sb->log, x->words, sizeof x->words);
	if (!life_exit_is_clean(x->exit))
		sandbox_log_say(sb->log, x->at_ms, "process %d ended after %lld ms: %s%s%s", h ? h->pid : m->pid, (long long)x->uptime_ms, x->reason,
			x->text[0] ? ": " : "", x->text);
	if (held)
		sandbox_log_say(sb->log, x->at_ms, "process %d has ended, and another one that it left behind holds its %s: what that writes isn't read any more",
			h ? h->pid : m->pid, held == HOST_LINK_STDOUT ? "stdout" : held == HOST_LINK_STDERR ? "stderr" : "stdout and stderr");
	sandbox_keep_ring(sb);
	exit_event(sb);
	limit_event(sb);
	audit_exit(sb);
	log_info("sandbox=%s pid=%d ended after %lld ms: %s%s%s", sb->spec.id, h ? h->pid : m->pid, (long long)x->uptime_ms, x->reason,
		x->text[0] ? ": " : "", x->text);
}

void sandbox_exited(struct sandbox *sb, const struct spawner_message *m)
{
	struct control *c = sb->control;
	struct spawner_message ack;
	struct host *h = sb->host;
	char text[sizeof sb->last_exit.reason + sizeof sb->last_exit.text + 4];
	bool found, adopted;
	unsigned held;

	spawner_message_init(&ack, SPAWNER_ACK_EXIT, sb->spec.id);
	ack.generation = m->generation;
	if (!h || h->link.generation != m->generation)
		candidate_exited(sb, m);
	if (!h || h->link.generation != m->generation) {
		spawner_send(c->spawner, &ack, NULL, 0);
		return;
	}
	sandbox_hold(sb);
	h->exited = true;
	found = h->found;
	adopted = h->adopted;
	held = host_link_drain(&h->link);
	exit_record(sb, m, held);
	sb->host = NULL;
	sb->calls_held = sb->calls_held && txn_active(&sb->txn); /* a save before a stop held them for this process only */
	host_abandon(h);
	(void)snprintf(text, sizeof text, "%s%s%s", sb->last_exit.reason, sb->last_exit.text[0] ? ": " : "", sb->last_exit.text);
	calls_crashed(&sb->calls, sb->spec.id, text);
	look_ended(sb, text);
	if (sandbox_found_exited(sb, found, adopted, m->started_ms))
		(void)0; /* told as what a take-over found */
	else if (txn_active(&sb->txn))
		sandbox_txn_event(sb, TXN_EV_HOST_DIED, 0); /* tells the life when it is finished */
	else if (!sandbox_probation_exited(sb))
		sandbox_fact(sb, LIFE_EXITED, sb->last_exit.exit);
	/* The spec that the spawner keeps tells of it now, so the status itself may be forgotten. */
	if (!sb->forgetting)
		spawner_send(c->spawner, &ack, NULL, 0);
	sandbox_release(sb);
	shutdown_step(c);
}

void last_exit_json(const struct sandbox *sb, struct json_out *o, const char *key)
{
	const struct last_exit *x = &sb->last_exit;

	if (!x->happened) {
		json_out_null(o, key);
		return;
	}
	json_out_object(o, key);
	json_out_text(o, "reason", x->reason);
	json_out_text(o, "class", life_exit_text(x->exit));
	if (WIFSIGNALED(x->wait_status))
		json_out_i64(o, "signal", WTERMSIG(x->wait_status));
	else
		json_out_i64(o, "code", WEXITSTATUS(x->wait_status));
	json_out_i64(o, "at", x->at_ms);
	json_out_i64(o, "uptime_ms", x->uptime_ms);
	json_out_u64(o, "version", x->version);
	json_out_u64(o, "generation", x->generation);
	json_out_text(o, "text", x->text);
	json_out_text(o, "words", x->words);
	begun_from_json(&x->next, o);
	json_out_object_end(o);
}

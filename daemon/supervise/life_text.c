/* SPDX-License-Identifier: MIT
 *
 * What users read of a life: names of states, reasons, exits; the class of an exit; the default policy.
 * Control process; pure. */
#include <sys/wait.h>

#include "daemon/supervise/life.h"
#include "proto/limits.h"

#define TEXT_OF(table, value)                                                                                \
	((unsigned)(value) < sizeof(table) / sizeof((table)[0]) ? (table)[value] : "unknown")
#define NAMED(table, n) _Static_assert(sizeof(table) / sizeof((table)[0]) == (n), "name every one")

static const char *const state_texts[] = { [LIFE_INITIALIZING] = "initializing",
	[LIFE_COMPILING] = "compiling",
	[LIFE_STARTING] = "starting",
	[LIFE_RUNNING] = "running",
	[LIFE_RELOADING] = "reloading",
	[LIFE_FROZEN] = "frozen",
	[LIFE_STOPPING] = "stopping",
	[LIFE_STOPPED] = "stopped",
	[LIFE_BACKOFF] = "backoff",
	[LIFE_FAILED] = "failed" };
static const char *const restart_texts[] = {
	[LIFE_PERMANENT] = "permanent", [LIFE_TRANSIENT] = "transient", [LIFE_TEMPORARY] = "temporary"
};
static const char *const exit_texts[] = { [LIFE_EXIT_NORMAL] = "normal",
	[LIFE_EXIT_SHUTDOWN] = "shutdown",
	[LIFE_EXIT_ERROR] = "error",
	[LIFE_EXIT_KILLED] = "killed" };
static const char *const reason_texts[] = { [LIFE_REASON_NONE] = "none",
	[LIFE_REASON_BEGIN_FAILED] = "begin_failed",
	[LIFE_REASON_HOST_FAILED] = "host_failed",
	[LIFE_REASON_EXITED_EARLY] = "exited_early",
	[LIFE_REASON_START_TIMEOUT] = "start_timeout",
	[LIFE_REASON_CRASHED] = "crashed",
	[LIFE_REASON_GAVE_UP] = "gave_up",
	[LIFE_REASON_CANCELLED] = "cancelled",
	[LIFE_REASON_SAVE_FAILED] = "save_failed" };
static const char *const kill_texts[] = { [LIFE_KILL_NONE] = "none",
	[LIFE_KILL_START_TIMEOUT] = "start_timeout",
	[LIFE_KILL_SHUTDOWN_DEADLINE] = "shutdown_deadline",
	[LIFE_KILL_CANCELLED] = "cancelled",
	[LIFE_KILL_DESTROY] = "destroy",
	[LIFE_KILL_HURRY] = "hurry",
	[LIFE_KILL_TAKE_OVER] = "take_over" };
static const char *const request_texts[] = { [LIFE_NO_REQUEST] = "none",
	[LIFE_REQUEST_CREATE] = "create",
	[LIFE_REQUEST_START] = "start",
	[LIFE_REQUEST_STOP] = "stop",
	[LIFE_REQUEST_RESTART] = "restart",
	[LIFE_REQUEST_DESTROY] = "destroy" };
static const char *const event_texts[] = { [LIFE_CREATE_START] = "create_start",
	[LIFE_START] = "start",
	[LIFE_STOP] = "stop",
	[LIFE_RESTART] = "restart",
	[LIFE_DESTROY] = "destroy",
	[LIFE_RESET] = "reset",
	[LIFE_FREEZE] = "freeze",
	[LIFE_THAW] = "thaw",
	[LIFE_RELOAD_BEGIN] = "reload_begin",
	[LIFE_HURRY] = "hurry",
	[LIFE_COMPILE_BEGIN] = "compile_begin",
	[LIFE_COMPILE_END] = "compile_end",
	[LIFE_BORN] = "born",
	[LIFE_BEGIN_FAILED] = "begin_failed",
	[LIFE_READY] = "ready",
	[LIFE_HOST_FAILED] = "host_failed",
	[LIFE_FOUND_EMPTY] = "found_empty",
	[LIFE_EXITED] = "exited",
	[LIFE_SAVE_DONE] = "save_done",
	[LIFE_SAVE_FAILED] = "save_failed",
	[LIFE_RELOAD_END] = "reload_end",
	[LIFE_RELOAD_DIED_SEALED] = "reload_died_sealed",
	[LIFE_CHECKPOINTED] = "checkpointed",
	[LIFE_TIMER] = "timer" };

NAMED(state_texts, LIFE__N);
NAMED(restart_texts, LIFE_RESTART__N);
NAMED(exit_texts, LIFE_EXIT__N);
NAMED(reason_texts, LIFE_REASON__N);
NAMED(kill_texts, LIFE_KILL__N);
NAMED(request_texts, LIFE_REQUEST__N);
NAMED(event_texts, LIFE_EVENT__N);

struct life_policy life_policy_default(void)
{
	return (struct life_policy){ .restart = LIFE_PERMANENT,
		.budget = { .intensity = DEFAULT_RESTART_INTENSITY,
			.period_ms = DEFAULT_RESTART_PERIOD_MS,
			.backoff_first_ms = DEFAULT_BACKOFF_FIRST_MS,
			.backoff_max_ms = DEFAULT_BACKOFF_MAX_MS,
			.window_stands = true },
		.start_timeout_ms = DEFAULT_START_TIMEOUT_MS,
		.save_ms = DEFAULT_QUIESCE_TIMEOUT_MS + DEFAULT_REHEARSE_TIMEOUT_MS,
		.shutdown_ms = DEFAULT_SHUTDOWN_MS };
}

enum life_exit life_exit_class(int wait_status, bool asked, bool killed)
{
	if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
		return asked ? LIFE_EXIT_SHUTDOWN : LIFE_EXIT_NORMAL;
	if (killed && WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL)
		return LIFE_EXIT_KILLED;
	return LIFE_EXIT_ERROR;
}

bool life_exit_is_clean(enum life_exit e)
{
	return e == LIFE_EXIT_NORMAL || e == LIFE_EXIT_SHUTDOWN;
}

bool life_takes_calls(const struct life *l)
{
	switch (l->state) {
	case LIFE_INITIALIZING:
	case LIFE_COMPILING:
	case LIFE_STARTING:
	case LIFE_RUNNING:
	case LIFE_RELOADING:
	case LIFE_FROZEN:
	case LIFE_BACKOFF:
		return !l->gone;
	case LIFE_STOPPING:
		return l->after_start && !l->after_gone;
	case LIFE_STOPPED:
	case LIFE_FAILED:
	case LIFE__N:
		break;
	}
	return false;
}

const char *life_state_text(enum life_state s)
{
	return TEXT_OF(state_texts, s);
}

const char *life_restart_text(enum life_restart r)
{
	return TEXT_OF(restart_texts, r);
}

const char *life_exit_text(enum life_exit e)
{
	return TEXT_OF(exit_texts, e);
}

const char *life_reason_text(enum life_reason r)
{
	return TEXT_OF(reason_texts, r);
}

const char *life_kill_text(enum life_kill k)
{
	return TEXT_OF(kill_texts, k);
}

const char *life_request_text(enum life_request r)
{
	return TEXT_OF(request_texts, r);
}

const char *life_event_text(enum life_event_type t)
{
	return TEXT_OF(event_texts, t);
}

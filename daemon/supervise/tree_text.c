/* SPDX-License-Identifier: MIT
 *
 * The names of what a tree says, and one sentence for each decision. Control process; pure. */
#include <stdio.h>

#include "daemon/supervise/tree.h"

#define TEXT_OF(name, type, last, ...)                                                                       \
	const char *name(type value)                                                                         \
	{                                                                                                    \
		static const char *const texts[] = { __VA_ARGS__ };                                          \
		_Static_assert(sizeof texts / sizeof *texts == last, "one text each");                       \
		return (unsigned)value < last ? texts[value] : "unknown";                                    \
	}

TEXT_OF(tree_state_text, enum tree_state, TREE_STATE__N, "undefined", "running", "restarting", "starting", "stopping", "backoff", "failed")
TEXT_OF(tree_restart_text, enum tree_restart, TREE_RESTART__N, "permanent", "transient", "temporary")
TEXT_OF(tree_strategy_text, enum tree_strategy, TREE_STRATEGY__N, "one_for_one", "one_for_all", "rest_for_one")
TEXT_OF(tree_auto_text, enum tree_auto, TREE_AUTO__N, "never", "any_significant", "all_significant")
TEXT_OF(tree_exit_text, enum tree_exit, TREE_EXIT__N, "normal", "shutdown", "shutdown_why", "error", "killed")
TEXT_OF(tree_ask_text, enum tree_ask, TREE_ASK__N, "start_child", "terminate_child", "restart_child", "delete_child", "which", "count")
TEXT_OF(tree_root_text, enum tree_root, TREE_ROOT__N, "down", "starting", "up", "ending", "failed")
TEXT_OF(tree_reply_text, enum tree_reply, TREE_REPLY__N, "ok", "ok_ignored", "running", "restarting", "already_started", "already_present",
	"not_found", "bad_combination", "start_failed", "down", "which", "count", "busy", "limit", "bad_spec", "no_memory")
TEXT_OF(tree_what_text, enum tree_what, TREE_WHAT__N, "start", "cancel", "stop", "kill", "reply", "release", "timer", "up", "down", "started",
	"start_failed", "ignored", "exited", "asked_dead", "stopped", "stop_error", "counted", "gave_up", "retry", "backoff", "retry_void",
	"removed", "ending")
TEXT_OF(tree_why_text, enum tree_why, TREE_WHY__N, "", "its group starts", "a permanent child is always restarted",
	"a transient child is restarted after an abnormal end", "a transient child that ended cleanly is not restarted",
	"a temporary child is never restarted", "its start had failed and is tried again", "the strategy takes it along",
	"the strategy takes along what was down, too", "it was asked for", "a sibling's start failed, so the group's does",
	"the order came from above", "a significant child ended", "the last significant child ended", "too many restarts within the period",
	"its group ends", "its shutdown time is over", "its shutdown is brutal_kill", "hurry was asked for",
	"its group has to end before it is ready", "its start failed")

bool tree_exit_is_clean(enum tree_exit e)
{
	return e == TREE_EXIT_NORMAL || e == TREE_EXIT_SHUTDOWN || e == TREE_EXIT_SHUTDOWN_WHY;
}

size_t tree_action_text(const struct tree_action *a, char *to, size_t room)
{
	char numbers[96] = "";
	const char *why = tree_why_text(a->why);
	int n;

	switch (a->what) {
	case TREE_NOTE_COUNTED:
	case TREE_NOTE_GAVE_UP:
		(void)snprintf(numbers, sizeof numbers, " (%u of %u restarts within %u ms)", a->used, a->allowed, a->period_ms);
		break;
	case TREE_NOTE_RETRY:
	case TREE_NOTE_BACKOFF:
		(void)snprintf(numbers, sizeof numbers, " (after %u ms)", a->delay_ms);
		break;
	case TREE_NOTE_EXITED:
	case TREE_NOTE_STOP_ERROR:
	case TREE_DO_DOWN:
		(void)snprintf(numbers, sizeof numbers, " (%s)", tree_exit_text(a->exit));
		break;
	case TREE_DO_REPLY:
		(void)snprintf(numbers, sizeof numbers, " (%s: %s)", tree_ask_text(a->ask), tree_reply_text(a->reply));
		break;
	case TREE_DO_TIMER:
		(void)snprintf(numbers, sizeof numbers, " (at %lld ms)", (long long)a->at_ms);
		break;
	case TREE_DO_START:
	case TREE_DO_CANCEL:
	case TREE_DO_ASK:
	case TREE_DO_KILL:
	case TREE_DO_RELEASE:
	case TREE_DO_UP:
	case TREE_NOTE_STARTED:
	case TREE_NOTE_START_FAILED:
	case TREE_NOTE_IGNORED:
	case TREE_NOTE_ASKED_DEAD:
	case TREE_NOTE_STOPPED:
	case TREE_NOTE_RETRY_VOID:
	case TREE_NOTE_REMOVED:
	case TREE_NOTE_ENDING:
	case TREE_WHAT__N:
		break;
	}
	n = snprintf(to, room, "%s%s%s%s%s%s", tree_what_text(a->what), a->id[0] ? " " : "", a->id, numbers, why[0] ? ": " : "", why);
	return n < 0 || room == 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

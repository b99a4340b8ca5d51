/* SPDX-License-Identifier: MIT
 *
 * How a reload is carried out: in the process that runs, or by a second one that follows it. What was asked for is done or refused; else
 * profile high is replaced, since a process that may be compromised shouldn't receive the fix, and so is a process that can't take another object. */
#include <stdio.h>
#include <string.h>

#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/usage.h"

const char *rung_text(enum rung rung)
{
	return rung == RUNG_REPLACE ? "replace" : "in_place";
}

static void choose(struct reload *rl, enum rung rung, const char *reason)
{
	rl->rung = rung;
	(void)snprintf(rl->rung_reason, sizeof rl->rung_reason, "%s", reason);
}

/* In place, old code, new code and what is saved are there at once. */
static bool has_room(const struct sandbox *sb, uint64_t state_bytes)
{
	uint64_t most = sb->spec.limits.max_memory_bytes ? sb->spec.limits.max_memory_bytes : DEFAULT_MAX_MEMORY_BYTES;

	return state_bytes <= most / RELOAD_STATE_COPIES;
}

#define NEEDS_ROOM "memory: needs 3 x state"
_Static_assert(RELOAD_STATE_COPIES == 3, "said in NEEDS_ROOM");

/* Why the process can't take another object; false: it can. Its state isn't larger than what it has beyond what a host needs. */
static bool cannot_in_place(const struct sandbox *sb, const struct usage *u, char why[96])
{
	uint64_t most = u->anon_bytes > LIMIT_HOST_OWN_BYTES ? u->anon_bytes - LIMIT_HOST_OWN_BYTES : 0;

	if (sb->host->n_pinned >= LIMIT_PINNED_OBJECTS)
		(void)snprintf(why, 96, "pinned: %.80s", sb->host->pinned_why);
	else if (!has_room(sb, most))
		(void)snprintf(why, 96, "%s", NEEDS_ROOM);
	else
		return false;
	return true;
}

/* The state of a module can't be saved while a thread of its own may change it, in no process: neither rung is for it. */
static int check_threads(const struct usage *u, struct err *e)
{
	if (u->threads <= 1)
		return 0;
	return err_set(e, ERR_BUSY, "threads: %u: its state can't be saved while they may change it, neither in place nor for a second process; "
		"the module has to end them first", u->threads);
}

int rung_choose(struct sandbox *sb, struct err *e)
{
	struct reload *rl = &sb->reload;
	const char *mode = rl->request && !rl->patch && rpc_method(rl->request) != &methods[METHOD_STATE_CHECK] ? rpc_text(rl->request, "mode") : NULL;
	char why[sizeof rl->rung_reason];
	struct usage u;

	rl->rung_asked = mode && strcmp(mode, "auto") != 0;
	choose(rl, RUNG_IN_PLACE, "default");
	if (!sb->host || !usage_read_one("/proc", sb->host->pid, &u))
		return 0; /* it has just ended: the transaction says so */
	if (rl->rung_asked)
		choose(rl, strcmp(mode, "replace") == 0 ? RUNG_REPLACE : RUNG_IN_PLACE, "asked");
	else if (rl->patch)
		return check_threads(&u, e); /* the same code goes on: there is no fix to be kept from it */
	else if (cannot_in_place(sb, &u, why))
		choose(rl, RUNG_REPLACE, why);
	else if (strcmp(sb->spec.profile, "high") == 0)
		choose(rl, RUNG_REPLACE, "profile high");
	if (rl->rung == RUNG_IN_PLACE && sb->host->n_pinned >= LIMIT_PINNED_OBJECTS)
		return err_set(e, ERR_LIMIT_EXCEEDED, "pinned: %s: %u objects can't be unloaded from its process, which takes no more; ask for mode replace",
			sb->host->pinned_why, sb->host->n_pinned);
	return check_threads(&u, e);
}

bool rung_needs_room(struct sandbox *sb, uint64_t state_bytes)
{
	if (sb->reload.rung == RUNG_REPLACE || sb->reload.rung_asked || sb->reload.patch || has_room(sb, state_bytes))
		return false;
	choose(&sb->reload, RUNG_REPLACE, NEEDS_ROOM);
	return true;
}

/* SPDX-License-Identifier: MIT
 *
 * Six events and two states: a version is on probation, or none is. */
#include "daemon/reload/probation.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

#ifndef SEEDED
#define SEEDED(bug) 0 /* tests build this file with bugs put in, to see that they are found */
#endif

bool probation_active(const struct probation *p)
{
	return p->version != 0;
}

static void pass(struct probation *p, enum probation_event_type why, struct probation_actions *out)
{
	out->set |= (why == PROBATION_EV_TIMER ? 0 : PROBATION_DO_CLEAR_TIMER) | PROBATION_DO_PASSED;
	if (!SEEDED(1) || why != PROBATION_EV_CONFIRM)
		out->set |= PROBATION_DO_DROP_STATE;
	out->version = p->version;
	out->why = why;
	if (!SEEDED(2) || why != PROBATION_EV_STOPPED)
		*p = (struct probation){ 0 };
}

/* A second reload within the time: the version that runs has served long enough to be left for another one, and its state is the
 * newest; it is where a fault of the next leads back to. */
static bool on_committed(struct probation *p, const struct probation_event *ev, struct probation_actions *out)
{
	bool begins = ev->ms > 0 && ev->before != 0 && ev->before != ev->version && (!ev->backwards || SEEDED(3));

	if (probation_active(p))
		pass(p, PROBATION_EV_COMMITTED, out);
	else if (!begins)
		return false;
	if (!begins)
		return true;
	p->version = ev->version;
	p->before = SEEDED(4) ? ev->version : ev->before;
	out->set |= PROBATION_DO_HOLD_STATE | PROBATION_DO_SET_TIMER;
	out->timer_ms = ev->ms;
	return true;
}

static void go_back(struct probation *p, struct probation_actions *out)
{
	out->set |= PROBATION_DO_CLEAR_TIMER | PROBATION_DO_RETURN;
	if (SEEDED(5))
		out->set |= PROBATION_DO_DROP_STATE;
	out->version = p->version;
	out->to = p->before;
	if (!SEEDED(6))
		*p = (struct probation){ 0 };
}

bool probation_step(struct probation *p, const struct probation_event *ev, struct probation_actions *out)
{
	memset(out, 0, sizeof *out);
	if (ev->type == PROBATION_EV_COMMITTED)
		return on_committed(p, ev, out);
	if (!probation_active(p))
		return false;
	if (ev->type == PROBATION_EV_FAULT || (SEEDED(7) && ev->type == PROBATION_EV_LOST))
		go_back(p, out);
	else
		pass(p, ev->type, out);
	return true;
}

bool probation_is_fault(int wait_status)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP, SIGXCPU };

	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
		if ((WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == faults[i]) ||
			(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 128 + faults[i]))
			return true;
	return false;
}

static const char *const why_texts[] = { [PROBATION_EV_COMMITTED] = "another reload", [PROBATION_EV_FAULT] = "fault",
	[PROBATION_EV_TIMER] = "time", [PROBATION_EV_CONFIRM] = "commit", [PROBATION_EV_STOPPED] = "stop",
	[PROBATION_EV_LOST] = "its state is lost" };
_Static_assert(sizeof why_texts / sizeof why_texts[0] == PROBATION_EVENT__N, "name every one");

const char *probation_why_text(enum probation_event_type why)
{
	return (unsigned)why < PROBATION_EVENT__N ? why_texts[why] : "unknown";
}

/* SPDX-License-Identifier: MIT */
#include "daemon/spawner/pid_set.h"

#include <stdlib.h>

#define FIRST_ROOM 64u

/* Numbers that follow each other go to places that don't. room * 2 is a power of two. */
static size_t slot_of(const struct pid_set *s, pid_t pid)
{
	size_t mask = 2 * s->room - 1, i = ((uint32_t)pid * 2654435761u) & mask;

	while (s->slots[i] != 0 && s->pids[s->slots[i] - 1] != pid)
		i = (i + 1) & mask;
	return i;
}

bool pid_set_has(const struct pid_set *s, pid_t pid)
{
	return s->n > 0 && s->slots[slot_of(s, pid)] != 0;
}

static bool grow(struct pid_set *s)
{
	size_t room = s->room ? 2 * s->room : FIRST_ROOM;
	uint32_t *slots = room > PID_SET_MAX ? NULL : calloc(2 * room, sizeof *slots);
	pid_t *pids = slots ? realloc(s->pids, room * sizeof *pids) : NULL;

	if (!pids) {
		free(slots);
		return false;
	}
	free(s->slots);
	s->pids = pids;
	s->slots = slots;
	s->room = room;
	for (size_t i = 0; i < s->n; i++)
		s->slots[slot_of(s, s->pids[i])] = (uint32_t)i + 1;
	return true;
}

bool pid_set_add(struct pid_set *s, pid_t pid)
{
	size_t at;

	if (s->n == s->room && !grow(s))
		return false;
	at = slot_of(s, pid);
	s->pids[s->n++] = pid;
	s->slots[at] = (uint32_t)s->n;
	return true;
}

void pid_set_fini(struct pid_set *s)
{
	free(s->pids);
	free(s->slots);
	*s = (struct pid_set)PID_SET_INIT;
}

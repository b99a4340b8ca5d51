/* SPDX-License-Identifier: MIT
 *
 * A hash by content; each text counts those who have it. */
#include "daemon/sandbox/shared_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct shared {
	UT_hash_handle hh;
	size_t count;
	char text[];
};

static struct shared *all;

const char *shared_text(const char *at, size_t size)
{
	struct shared *s = NULL;

	HASH_FIND(hh, all, at, size, s);
	if (!s) {
		s = malloc(sizeof *s + size + 1);
		if (!s)
			return NULL;
		s->count = 0;
		memcpy(s->text, at, size);
		s->text[size] = '\0';
		HASH_ADD_KEYPTR(hh, all, s->text, size, s);
	}
	s->count++;
	return s->text;
}

const char *shared_text_free(const char *text)
{
	struct shared *s = NULL;

	if (!text)
		return NULL;
	s = (struct shared *)(void *)((char *)(uintptr_t)text - offsetof(struct shared, text)); /* shared_text gave it out of this */
	assert(s->count > 0);
	if (--s->count == 0) {
		HASH_DEL(all, s);
		free(s);
	}
	return NULL;
}

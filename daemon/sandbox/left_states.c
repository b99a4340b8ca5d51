/* SPDX-License-Identifier: MIT
 *
 * A walk over at most LIMIT_LEFT_STATES items. */
#include "daemon/sandbox/left_states.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/fd.h"

#define COPY_MOST (64u << 10) /* above it a page of the memfd costs nothing, below a mapping costs more than a copy */

static void item_free(struct left_state *s)
{
	if (s->is_mapped)
		(void)munmap(s->data, s->bytes);
	else
		free(s->data);
	s->data = NULL;
}

static void remove_at(struct left_states *l, size_t i)
{
	item_free(&l->items[i]);
	memmove(&l->items[i], &l->items[i + 1], (l->n - i - 1) * sizeof l->items[0]);
	l->n--;
}

static bool item_fill(struct left_state *s, int memfd)
{
	s->is_mapped = s->bytes > COPY_MOST;
	if (s->is_mapped) {
		s->data = mmap(NULL, s->bytes, PROT_READ, MAP_SHARED, memfd, 0);
		return s->data != MAP_FAILED;
	}
	s->data = malloc(s->bytes);
	if (s->data && pread(memfd, s->data, s->bytes, 0) == (ssize_t)s->bytes)
		return true;
	free(s->data);
	return false;
}

void left_states_drop(struct left_states *l, uint32_t version)
{
	for (size_t i = l->n; i-- > 0;)
		if (l->items[i].version == version)
			remove_at(l, i);
}

static uint64_t sum(const struct left_states *l)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < l->n; i++)
		bytes += l->items[i].bytes;
	return bytes;
}

bool left_states_add(struct left_states *l, const struct left_state *what, int memfd)
{
	struct left_state item = *what;

	left_states_drop(l, what->version); /* it is out of date, whatever becomes of the new one */
	if (memfd < 0 || what->version == 0 || what->bytes == 0 || what->bytes > LIMIT_LEFT_STATES_BYTES)
		return false;
	item.fd = -1;
	if (!item_fill(&item, memfd))
		return false;
	while (l->n == LIMIT_LEFT_STATES || (l->n > 0 && sum(l) + item.bytes > LIMIT_LEFT_STATES_BYTES))
		remove_at(l, 0);
	l->items[l->n++] = item;
	return true;
}

const struct left_state *left_states_find(const struct left_states *l, uint32_t version)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->items[i].version == version)
			return &l->items[i];
	return NULL;
}

int left_states_get(const struct left_states *l, uint32_t version, struct left_state *ret, struct err *e)
{
	const struct left_state *s = left_states_find(l, version);

	if (!s)
		return err_set(e, ERR_STATE_NOT_FOUND, "no state is kept that this version was left with");
	*ret = *s;
	ret->data = NULL;
	ret->fd = fd_memfd("state", s->data, s->bytes, true);
	return ret->fd < 0 ? err_sys(e, ERR_IO, "cannot make a memfd of %llu bytes for the saved state", (unsigned long long)s->bytes) : 0;
}

void left_states_fini(struct left_states *l)
{
	while (l->n > 0)
		remove_at(l, l->n - 1);
}

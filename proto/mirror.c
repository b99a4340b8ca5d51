/* SPDX-License-Identifier: MIT
 *
 * The order of the stores is all there is to it: sequence 0, bytes, length and sum, sequence. The sum tells a half that was torn in spite of it (by its
 * module, or a process that it left behind) from a whole one; it needn't withstand anybody. */
#include "proto/mirror.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fd.h"

#define SEQUENCE_MOST (1ull << 53) /* more than a host can publish in its life */

struct half {
	uint64_t sequence; /* 0: not whole */
	uint64_t bytes;
	uint64_t sum;
	uint64_t spare[5]; /* a cache line each */
};
_Static_assert(2 * sizeof(struct half) <= MIRROR_HEAD_BYTES, "both heads fit");

static uint64_t half_offset(unsigned i)
{
	return MIRROR_HEAD_BYTES + (uint64_t)i * LIMIT_MIRROR_STATE_BYTES;
}

/* Four lanes, so that a word doesn't wait for the one before it. */
static uint64_t sum_of(const uint8_t *p, uint64_t n)
{
	const uint64_t k = 0x9e3779b97f4a7c15u;
	uint64_t lanes[4] = { n, n ^ k, n + k, ~n }, tail[4] = { 0 };

	for (; n >= sizeof tail; p += sizeof tail, n -= sizeof tail) {
		uint64_t words[4];

		memcpy(words, p, sizeof words);
		for (int i = 0; i < 4; i++) {
			lanes[i] = (lanes[i] ^ words[i]) * k;
			lanes[i] ^= lanes[i] >> 29;
		}
	}
	memcpy(tail, p, n);
	for (int i = 0; i < 4; i++)
		lanes[0] = (lanes[0] ^ tail[i] ^ lanes[i] * (uint64_t)(2 * i + 1)) * k;
	return lanes[0] ^ lanes[0] >> 31;
}

/* ---- control ---- */

int mirror_make(struct err *e)
{
	autoclose int fd = fd_memfd("mirror", NULL, 0, false);

	if (fd < 0 || ftruncate(fd, (off_t)MIRROR_BYTES) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return err_sys(e, ERR_IO, "cannot make the memfd of %llu bytes that a state is saved into before each reply", (unsigned long long)MIRROR_BYTES);
	return fd_take(&fd);
}

/* A copy of the half's bytes, if they are what its head says; NULL. Somebody may write to it still. */
static void *half_copy(int fd, unsigned i, const struct half *head)
{
	uint8_t *copy;

	if (head->sequence == 0 || head->sequence >= SEQUENCE_MOST || head->bytes == 0 || head->bytes > LIMIT_MIRROR_STATE_BYTES)
		return NULL;
	copy = malloc(head->bytes);
	if (copy && pread(fd, copy, head->bytes, (off_t)half_offset(i)) == (ssize_t)head->bytes && sum_of(copy, head->bytes) == head->sum)
		return copy;
	free(copy);
	return NULL;
}

int mirror_newest(int fd, uint64_t *ret_bytes, uint64_t *ret_sequence, struct err *e)
{
	struct half heads[2];
	struct stat st;
	unsigned newest;
	void *copy = NULL;
	int memfd = -1;

	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != MIRROR_BYTES || pread(fd, heads, sizeof heads, 0) != (ssize_t)sizeof heads)
		return err_sys(e, ERR_IO, "cannot read what its state was saved into");
	newest = heads[1].sequence > heads[0].sequence;
	for (unsigned n = 0; n < 2 && !copy; n++) {
		unsigned i = n == 0 ? newest : 1 - newest;

		copy = half_copy(fd, i, &heads[i]);
		*ret_bytes = heads[i].bytes;
		*ret_sequence = heads[i].sequence;
	}
	if (!copy)
		return err_set(e, ERR_STATE_NOT_FOUND, "neither half of what its state was saved into is whole");
	memfd = fd_memfd("state", copy, *ret_bytes, true);
	free(copy);
	return memfd < 0 ? err_sys(e, ERR_IO, "cannot make a memfd of %llu bytes for the state", (unsigned long long)*ret_bytes) : memfd;
}

/* ---- host ---- */

int mirror_open(struct mirror *m, int fd, struct err *e)
{
	struct stat st;
	void *map;

	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != MIRROR_BYTES)
		return err_set(e, ERR_INTERNAL, "a mirror has %llu bytes", (unsigned long long)MIRROR_BYTES);
	map = mmap(NULL, MIRROR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return err_sys(e, ERR_LIMIT_EXCEEDED, "cannot map the memory that the state is saved into before each reply");
	(void)madvise(map, MIRROR_BYTES, MADV_DONTFORK); /* no copy, and no child of the module's, is meant to write there */
	*m = (struct mirror){ .map = map };
	return 0;
}

static struct half *head_of(const struct mirror *m, uint64_t sequence)
{
	return (struct half *)(void *)m->map + sequence % 2;
}

void *mirror_begin(struct mirror *m)
{
	uint64_t next = m->sequence + 1;

	__atomic_store_n(&head_of(m, next)->sequence, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE); /* before the bytes */
	return m->map + half_offset((unsigned)(next % 2));
}

void mirror_publish(struct mirror *m, uint64_t bytes)
{
	struct half *head = head_of(m, m->sequence + 1);

	head->bytes = bytes;
	head->sum = sum_of(m->map + half_offset((unsigned)((m->sequence + 1) % 2)), bytes);
	__atomic_store_n(&head->sequence, ++m->sequence, __ATOMIC_RELEASE);
}

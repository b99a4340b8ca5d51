/* SPDX-License-Identifier: MIT
 *
 * A log ring of any bytes, handed over by the spawner: it is taken, replaced or refused, and works on as a log. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/observe/log_ring.h"
#include "proto/fd.h"

#define PIPES_AT (LIMIT_LOG_RING_BYTES - LOG_PIPES * LIMIT_LOG_LINE_BYTES)

/* A ring whose header is the input's, or a good one with the input written into it here and there. */
static int make_ring(struct fuzz_in *in, uint8_t how)
{
	static unsigned char bytes[LIMIT_LOG_RING_BYTES];
	struct log_ring r;
	struct err e = ERR_INIT;
	int fd;

	log_ring_init(&r);
	FUZZ_MUST(log_ring_make(&r, &e) == 0);
	for (int i = how & 7; i > 0; i--) {
		struct log_record record = { .wall_ms = i, .size = fuzz_u8(in), .stream = (unsigned)i % 3, .level = 3,
			.partial = (unsigned)i % LOG_PARTIAL__N, .flags = (unsigned)i % 4 };

		memset(bytes, 'a' + i, sizeof bytes);
		log_ring_add(&r, &record, (const char *)bytes);
	}
	for (int i = 0; how & 0x40 && i < 30; i++) { /* full, and around its end */
		struct log_record record = { .wall_ms = i, .size = i % 3 ? LIMIT_LOG_LINE_BYTES : 77, .stream = 1, .level = 6 };

		log_ring_add(&r, &record, (const char *)bytes);
	}
	memcpy(bytes, r.map, sizeof bytes);
	log_ring_fini(&r);
	while (in->left > 0) {
		uint8_t where = fuzz_u8(in);
		size_t at = where < 160 ? where % LOG_RING_HEADER : where < 240 ? LOG_RING_HEADER + fuzz_u16(in) % 2048 : PIPES_AT + fuzz_u16(in) % 4096;

		fuzz_take(in, bytes + at, 8);
	}
	fd = fd_memfd("ring", bytes, how & 0x10 ? sizeof bytes - 8 : sizeof bytes, false);
	FUZZ_MUST(fd >= 0);
	if (!(how & 0x20))
		FUZZ_MUST(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	return fd;
}

static void read_all(struct log_ring *r)
{
	static struct log_line line;
	uint64_t at = r->start, before = at;

	while (log_ring_next(r, &at, &line)) {
		FUZZ_MUST(at > before && at <= r->end && line.record.size <= LIMIT_LOG_LINE_BYTES);
		FUZZ_MUST(line.record.stream < LOG_STREAM__N && line.record.partial < LOG_PARTIAL__N);
		before = at;
	}
}

static void use(int fd_take)
{
	struct sandbox_log *l = sandbox_log_new(fd_take);
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	char words[LIMIT_LAST_WORDS_BYTES];
	int is_new = 0;

	FUZZ_MUST(l != NULL);
	sandbox_log_begin(l);
	sandbox_log_feed(l, LOG_STREAM_STDERR, "<3>more\nand", 11, 7, &is_new);
	sandbox_log_say(l, 8, "said %d", 1);
	sandbox_log_feed(l, LOG_STREAM_STDOUT, "part", 4, 7, &is_new);
	sandbox_log_feed(l, LOG_STREAM_STDOUT, "ial\nnext", 8, 7, &is_new);
	json_out_object(&o, NULL);
	sandbox_log_json(l, 100, &o);
	json_out_object_end(&o);
	FUZZ_MUST(!b.failed);
	fuzz_is_json(b.data, b.size);
	sandbox_log_last_words(l, words, sizeof words);
	FUZZ_MUST(strnlen(words, sizeof words) < sizeof words);
	sandbox_log_flush(l, 9);
	buf_fini(&b);
	sandbox_log_free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	uint8_t how = fuzz_u8(&in);
	struct err e = ERR_INIT;
	int fd = make_ring(&in, how);
	struct log_ring r;

	log_ring_init(&r);
	if (log_ring_adopt(&r, fcntl(fd, F_DUPFD_CLOEXEC, 3), &e) != 0)
		fuzz_refused(&e);
	else
		read_all(&r);
	log_ring_fini(&r);
	use(fd);
	return 0;
}

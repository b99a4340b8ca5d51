/* SPDX-License-Identifier: MIT
 *
 * Logs: cutting into lines, accounting to the byte, rings that come back from the spawner whole or damaged. */
#include "tests/support/check_main.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/observe/log_ring.h"
#include "proto/fd.h"

#define NOW 1700000000000ll
#define MOST_LINES 100000u

static int feed_n(struct sandbox_log *l, enum log_stream stream, const char *data, size_t n)
{
	int is_new = -1;

	sandbox_log_feed(l, stream, data, n, NOW, &is_new);
	ck_assert_int_ge(is_new, 0);
	return is_new;
}

static int feed(struct sandbox_log *l, enum log_stream stream, const char *text)
{
	return feed_n(l, stream, text, strlen(text));
}

static char *json_lines(const struct sandbox_log *l, unsigned lines)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	struct err e = ERR_INIT;
	char *text;

	json_out_object(&o, NULL);
	sandbox_log_json(l, lines, &o);
	json_out_object_end(&o);
	text = buf_take(&b, NULL);
	ck_assert_ptr_nonnull(text);
	ck_assert_msg(json_check(text, strlen(text), &e) == 0, "%s", e.text);
	return text;
}

static char *json_of(const struct sandbox_log *l)
{
	return json_lines(l, MOST_LINES);
}

static void expect_json(const struct sandbox_log *l, const char *want)
{
	char *got = json_of(l);

	ck_assert_str_eq(got, want);
	free(got);
}

/* ---- a reader of its own, from the JSON: what is kept, and its shape ---- */

struct kept {
	uint64_t dropped, text_bytes;
	unsigned lines, whole, first, middle, last, unfinished;
	size_t longest;
};

static struct kept kept_of(const struct sandbox_log *l)
{
	struct kept k = { 0 };
	char *json = json_of(l), *text = malloc(1 << 16);
	struct json_span all = { json, strlen(json) }, line, key;
	struct json_iter it = json_iter_begin(json_get(all, "lines"));

	ck_assert(json_u64(json_get(all, "dropped_bytes"), &k.dropped));
	while (json_iter_next(&it, &key, &line)) {
		struct json_span partial = json_get(line, "partial");
		int64_t n = json_string(json_get(line, "text"), text, 1 << 16);

		ck_assert_int_ge(n, 0);
		k.lines++;
		k.text_bytes += (uint64_t)n;
		k.longest = (size_t)n > k.longest ? (size_t)n : k.longest;
		k.whole += !partial.at;
		k.first += json_string_is(partial, "first");
		k.middle += json_string_is(partial, "middle");
		k.last += json_string_is(partial, "last");
		k.unfinished += json_string_is(partial, "unfinished");
	}
	free(text);
	free(json);
	return k;
}

/* From the ring itself: raw bytes of all that is there. */
static uint64_t raw_kept(const struct sandbox_log *l)
{
	struct log_ring r;
	struct log_line line;
	struct err e = ERR_INIT;
	uint64_t at, n = 0;

	if (sandbox_log_ring_fd(l) == -1)
		return 0;
	log_ring_init(&r);
	ck_assert_msg(log_ring_adopt(&r, dup(sandbox_log_ring_fd(l)), &e) == 0, "%s", e.text);
	for (at = r.start; log_ring_next(&r, &at, &line);)
		n += log_record_raw(&line.record);
	ck_assert_uint_eq(at, r.end);
	for (unsigned i = 0; i < LOG_PIPES; i++)
		n += r.open[i].size;
	log_ring_fini(&r);
	return n;
}

static void fill_line(char *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (char)('a' + i % 26);
}

START_TEST(lines_come_out_as_they_went_in)
{
	struct sandbox_log *l = sandbox_log_new(-1);

	ck_assert_int_eq(sandbox_log_ring_fd(l), -1);
	expect_json(l, "{\"lines\":[],\"dropped_bytes\":0}");
	ck_assert_int_eq(feed(l, LOG_STREAM_STDOUT, ""), 0);
	ck_assert_int_eq(sandbox_log_ring_fd(l), -1);
	ck_assert_int_eq(feed(l, LOG_STREAM_STDOUT, "one\ntw"), 1);
	ck_assert_int_ge(sandbox_log_ring_fd(l), 0);
	ck_assert_int_eq(feed(l, LOG_STREAM_STDOUT, "o\n\n"), 0);
	expect_json(l, "{\"lines\":["
		"{\"at\":1700000000000,\"stream\":\"stdout\",\"level\":\"info\",\"text\":\"one\"},"
		"{\"at\":1700000000000,\"stream\":\"stdout\",\"level\":\"info\",\"text\":\"two\"},"
		"{\"at\":1700000000000,\"stream\":\"stdout\",\"level\":\"info\",\"text\":\"\"}],\"dropped_bytes\":0}");
	ck_assert_ptr_null(sandbox_log_free(l));
	ck_assert_ptr_null(sandbox_log_free(NULL));
}
END_TEST

START_TEST(the_newest_lines_are_given)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	char *json;

	feed(l, LOG_STREAM_STDOUT, "1\n2\n3\n4");
	json = json_lines(l, 2);
	ck_assert_ptr_null(strstr(json, "\"2\""));
	ck_assert_ptr_nonnull(strstr(json, "\"3\""));
	ck_assert_ptr_nonnull(strstr(json, "\"text\":\"4\",\"partial\":\"unfinished\""));
	free(json);
	json = json_lines(l, 0);
	ck_assert_str_eq(json, "{\"lines\":[],\"dropped_bytes\":0}");
	free(json);
	sandbox_log_free(l);
}
END_TEST

static const size_t lengths[] = { 1, 4095, 4096, 4097, 8192, 8193, 20000 };
static const size_t chunks[] = { 1, 7, 4096, 4097, 65536 };

/* Every length, read in pieces of every size, between two other lines. */
START_TEST(long_lines_are_split_and_say_so)
{
	for (size_t c = 0; c < sizeof(chunks) / sizeof(chunks[0]); c++) {
		size_t n = lengths[_i], pieces = (n + 4095) / 4096, at = 0, size = n + 9;
		struct sandbox_log *l = sandbox_log_new(-1);
		char *data = malloc(size);
		struct kept k;

		memcpy(data, "one\n", 4);
		fill_line(data + 4, n);
		memcpy(data + 4 + n, "\nend\n", 5);
		for (; at < size; at += chunks[c] < size - at ? chunks[c] : size - at)
			feed_n(l, LOG_STREAM_STDOUT, data + at, chunks[c] < size - at ? chunks[c] : size - at);
		k = kept_of(l);
		ck_assert_uint_eq(k.lines, pieces + 2);
		ck_assert_uint_eq(k.whole, pieces == 1 ? 3 : 2);
		ck_assert_uint_eq(k.first, pieces > 1);
		ck_assert_uint_eq(k.middle, pieces > 2 ? pieces - 2 : 0);
		ck_assert_uint_eq(k.last, pieces > 1);
		ck_assert_uint_eq(k.text_bytes, n + 6);
		ck_assert_uint_le(k.longest, 4096);
		ck_assert_uint_eq(k.dropped, 0);
		ck_assert_uint_eq(raw_kept(l), size);
		sandbox_log_free(l);
		free(data);
	}
}
END_TEST

static const size_t huge[] = { 65536, 1000000 };

START_TEST(lines_longer_than_the_ring_leave_their_end)
{
	size_t n = huge[_i];
	struct sandbox_log *l = sandbox_log_new(-1);
	char *data = malloc(n + 1);
	struct kept k;

	fill_line(data, n);
	data[n] = '\n';
	for (size_t at = 0; at < n + 1; at += 10000)
		feed_n(l, LOG_STREAM_STDERR, data + at, n + 1 - at < 10000 ? n + 1 - at : 10000);
	k = kept_of(l);
	ck_assert_uint_gt(k.lines, 10);
	ck_assert_uint_eq(k.first, 0); /* it was pushed out */
	ck_assert_uint_eq(k.last, 1);
	ck_assert_uint_eq(k.middle, k.lines - 1);
	ck_assert_uint_eq(k.text_bytes + 1 + k.dropped, n + 1);
	ck_assert_uint_eq(raw_kept(l) + k.dropped, n + 1);
	sandbox_log_free(l);
	free(data);
}
END_TEST

START_TEST(pieces_end_between_characters)
{
	static const char *const characters[] = { "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };

	for (size_t k = 0; k < 3; k++) {
		for (size_t shift = 0; shift < 4; shift++) {
			struct sandbox_log *l = sandbox_log_new(-1);
			char *json;

			feed_n(l, LOG_STREAM_STDOUT, "abcd", shift);
			for (unsigned i = 0; i < 3000; i++)
				feed(l, LOG_STREAM_STDOUT, characters[k]);
			sandbox_log_flush(l, NOW);
			json = json_of(l);
			ck_assert_ptr_null(strchr(json, '?'));
			ck_assert_ptr_nonnull(strstr(json, "\"partial\":\"last\""));
			ck_assert_uint_eq(kept_of(l).text_bytes, 3000 * strlen(characters[k]) + shift);
			free(json);
			sandbox_log_free(l);
		}
	}
}
END_TEST

START_TEST(streams_are_never_mixed)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	char *json;

	for (unsigned i = 0; i < 600; i++) {
		feed_n(l, LOG_STREAM_STDOUT, "oooooooooo", 10);
		if (i % 3 == 0)
			feed_n(l, LOG_STREAM_STDERR, "EEEEEEEE\nEE", 11);
		if (i == 300)
			sandbox_log_say(l, NOW, "between %d", i);
	}
	sandbox_log_flush(l, NOW);
	json = json_of(l);
	ck_assert_ptr_null(strstr(json, "oE"));
	ck_assert_ptr_null(strstr(json, "Eo"));
	ck_assert_ptr_nonnull(strstr(json, "\"stream\":\"daemon\",\"level\":\"notice\",\"text\":\"between 300\""));
	ck_assert_uint_eq(kept_of(l).text_bytes, 600 * 10 + 200 * 10 + strlen("between 300"));
	ck_assert_uint_eq(raw_kept(l), 600 * 10 + 200 * 11);
	free(json);
	sandbox_log_free(l);
}
END_TEST

START_TEST(the_last_line_without_newline_ends_at_flush)
{
	struct sandbox_log *l = sandbox_log_new(-1);

	feed(l, LOG_STREAM_STDERR, "<3>fa");
	ck_assert_uint_eq(kept_of(l).unfinished, 1);
	feed(l, LOG_STREAM_STDERR, "tal");
	sandbox_log_flush(l, NOW + 5);
	sandbox_log_flush(l, NOW + 6);
	feed(l, LOG_STREAM_STDERR, "next\n");
	expect_json(l, "{\"lines\":["
		"{\"at\":1700000000005,\"stream\":\"stderr\",\"level\":\"error\",\"text\":\"fatal\"},"
		"{\"at\":1700000000000,\"stream\":\"stderr\",\"level\":\"info\",\"text\":\"next\"}],\"dropped_bytes\":0}");
	ck_assert_uint_eq(raw_kept(l), 8 + 5);
	sandbox_log_free(l);
}
END_TEST

static const struct {
	enum log_stream stream;
	const char *line, *level, *text;
} prefixes[] = {
	{ LOG_STREAM_STDERR, "<0>x\n", "emergency", "x" },
	{ LOG_STREAM_STDERR, "<4>x\n", "warning", "x" },
	{ LOG_STREAM_STDERR, "<7>\n", "debug", "" },
	{ LOG_STREAM_STDERR, "<7><3>\n", "debug", "<3>" },
	{ LOG_STREAM_STDERR, "<8>x\n", "info", "<8>x" },
	{ LOG_STREAM_STDERR, "<3x\n", "info", "<3x" },
	{ LOG_STREAM_STDERR, "<3\n", "info", "<3" },
	{ LOG_STREAM_STDERR, " <3>x\n", "info", " <3>x" },
	{ LOG_STREAM_STDOUT, "<3>x\n", "info", "<3>x" },
};

START_TEST(prefixes_are_levels_on_stderr)
{
	for (int at_once = 0; at_once < 2; at_once++) {
		struct sandbox_log *l = sandbox_log_new(-1);
		char want[200];

		if (at_once)
			feed(l, prefixes[_i].stream, prefixes[_i].line);
		for (const char *c = prefixes[_i].line; *c && !at_once; c++)
			feed_n(l, prefixes[_i].stream, c, 1);
		(void)snprintf(want, sizeof(want),
			"{\"lines\":[{\"at\":1700000000000,\"stream\":\"%s\",\"level\":\"%s\",\"text\":\"%s\"}],\"dropped_bytes\":0}",
			prefixes[_i].stream == LOG_STREAM_STDERR ? "stderr" : "stdout", prefixes[_i].level, prefixes[_i].text);
		expect_json(l, want);
		ck_assert_uint_eq(raw_kept(l), strlen(prefixes[_i].line));
		sandbox_log_free(l);
	}
}
END_TEST

START_TEST(all_pieces_of_a_line_have_its_level)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	char *data = malloc(10000), *json, *at;
	unsigned errors = 0;

	memset(data, 'x', 10000);
	memcpy(data, "<3>", 3);
	feed_n(l, LOG_STREAM_STDERR, data, 10000);
	feed(l, LOG_STREAM_STDERR, "\n<3>\nplain\n");
	json = json_of(l);
	for (at = json; (at = strstr(at, "\"error\"")); at++)
		errors++;
	ck_assert_uint_eq(errors, 4);
	ck_assert_ptr_nonnull(strstr(json, "\"level\":\"info\",\"text\":\"plain\""));
	ck_assert_uint_eq(raw_kept(l), 10000 + 1 + 4 + 6);
	free(json);
	free(data);
	sandbox_log_free(l);
}
END_TEST

START_TEST(any_bytes_make_good_json)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	unsigned seed = 12345;
	uint64_t fed = 0;

	for (unsigned round = 0; round < 300; round++) {
		char bytes[700];
		size_t n = 1 + (seed >> 8) % sizeof(bytes);

		for (size_t i = 0; i < n; i++) {
			seed = seed * 1103515245 + 12345;
			bytes[i] = (char)(seed >> 16);
		}
		feed_n(l, round % 3 ? LOG_STREAM_STDOUT : LOG_STREAM_STDERR, bytes, n);
		fed += n;
		free(json_of(l));
		ck_assert_uint_eq(raw_kept(l) + kept_of(l).dropped, fed);
	}
	sandbox_log_free(l);
}
END_TEST

/* A simple and slow second opinion: the same bytes, fed so that no short cut is ever taken. */
static void feed_slowly(struct sandbox_log *l, enum log_stream stream, const char *data, size_t n)
{
	for (size_t at = 0; at < n; at += 1000)
		feed_n(l, stream, data + at, n - at < 1000 ? n - at : 1000);
}

static const char *const flood_patterns[] = { "\n", "y\n", "<3>y\n", "<3>\n", "a line of some length\n", "<1>abcd\nx\n\n",
	"no newline at all ", "\xe2\x82\xac" };

START_TEST(a_flood_is_accounted_to_the_byte)
{
	const char *pattern = flood_patterns[_i];
	size_t n = 200000, p = strlen(pattern);
	struct sandbox_log *quick = sandbox_log_new(-1), *slow = sandbox_log_new(-1);
	char *data = malloc(n), *a, *b;
	uint64_t fed = 0;

	for (size_t i = 0; i < n; i++)
		data[i] = pattern[i % p];
	for (unsigned round = 0; round < 5; round++) {
		feed(quick, LOG_STREAM_STDERR, "begun");
		feed(slow, LOG_STREAM_STDERR, "begun");
		feed_n(quick, LOG_STREAM_STDERR, data, n - round);
		feed_slowly(slow, LOG_STREAM_STDERR, data, n - round);
		fed += 5 + n - round;
		ck_assert_uint_eq(raw_kept(quick) + kept_of(quick).dropped, fed);
		ck_assert_uint_gt(kept_of(quick).dropped, 0);
		a = json_of(quick);
		b = json_of(slow);
		ck_assert_str_eq(a, b);
		free(a);
		free(b);
	}
	sandbox_log_free(quick);
	sandbox_log_free(slow);
	free(data);
}
END_TEST

START_TEST(what_was_lost_is_counted_and_ends_lines)
{
	struct sandbox_log *l = sandbox_log_new(-1);

	sandbox_log_dropped(l, 10);
	ck_assert_int_eq(sandbox_log_ring_fd(l), -1);
	feed(l, LOG_STREAM_STDOUT, "half");
	sandbox_log_dropped(l, 0);
	ck_assert_uint_eq(kept_of(l).unfinished, 1);
	sandbox_log_dropped(l, 1000);
	feed(l, LOG_STREAM_STDOUT, "other half\n");
	expect_json(l, "{\"lines\":["
		"{\"at\":1700000000000,\"stream\":\"stdout\",\"level\":\"info\",\"text\":\"half\"},"
		"{\"at\":1700000000000,\"stream\":\"stdout\",\"level\":\"info\",\"text\":\"other half\"}],\"dropped_bytes\":1010}");
	sandbox_log_free(l);
}
END_TEST

START_TEST(a_ring_outlives_its_control)
{
	struct sandbox_log *before = sandbox_log_new(-1), *after;
	char *was, *is;

	sandbox_log_dropped(before, 7);
	for (unsigned i = 0; i < 3000; i++) {
		char line[64];

		(void)snprintf(line, sizeof(line), "<4>line number %u\n", i);
		ck_assert_int_eq(feed(before, LOG_STREAM_STDERR, line), i == 0);
	}
	feed(before, LOG_STREAM_STDOUT, "not yet ");
	feed(before, LOG_STREAM_STDERR, "<2>neither ");
	was = json_of(before);
	after = sandbox_log_new(dup(sandbox_log_ring_fd(before)));
	sandbox_log_free(before);
	is = json_of(after);
	ck_assert_str_eq(was, is);
	free(is);
	ck_assert_int_eq(feed(after, LOG_STREAM_STDOUT, "done\n"), 0); /* not new: the spawner has it */
	feed(after, LOG_STREAM_STDERR, "done\n");
	is = json_of(after);
	ck_assert_ptr_nonnull(strstr(is, "\"level\":\"info\",\"text\":\"not yet done\"}"));
	ck_assert_ptr_nonnull(strstr(is, "\"level\":\"critical\",\"text\":\"neither done\"}"));
	free(was);
	free(is);
	sandbox_log_free(after);
}
END_TEST

static void expect_replaced(int fd)
{
	struct sandbox_log *l = sandbox_log_new(fd);
	char *json = json_of(l);

	ck_assert_msg(strstr(json, "\"stream\":\"daemon\"") && strstr(json, "damaged"), "%s", json);
	free(json);
	ck_assert_int_ge(sandbox_log_ring_fd(l), 0);
	ck_assert_int_eq(feed(l, LOG_STREAM_STDOUT, "x\n"), 1); /* the spawner must get the new one */
	ck_assert_int_eq(feed(l, LOG_STREAM_STDOUT, "x\n"), 0);
	sandbox_log_free(l);
}

START_TEST(what_is_no_ring_is_replaced)
{
	static char zeros[LIMIT_LOG_RING_BYTES];
	int fd = fd_memfd("test", zeros, sizeof(zeros), false);
	int pipes[2];

	expect_replaced(fd); /* not sealed: could shrink under us */
	expect_replaced(fd_memfd("test", zeros, sizeof(zeros), true)); /* sealed against writing too */
	fd = fd_memfd("test", zeros, sizeof(zeros), false);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	expect_replaced(fd); /* zeros */
	fd = fd_memfd("test", zeros, sizeof(zeros) - 1, false);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	expect_replaced(fd); /* one byte less */
	ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
	expect_replaced(pipes[0]);
	close(pipes[1]);
	expect_replaced(999); /* not open */
}
END_TEST

static int ring_with_everything(void)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	char line[64];
	int fd;

	for (unsigned i = 0; i < 3200; i++) {
		(void)snprintf(line, sizeof(line), "<%u>%*u\n", i % 8, (int)(i % 23) + 1, i);
		feed(l, i % 2 ? LOG_STREAM_STDOUT : LOG_STREAM_STDERR, line);
	}
	for (unsigned i = 0; i < 12; i++) {
		char data[4096];

		memset(data, 'x', sizeof(data));
		feed_n(l, LOG_STREAM_STDERR, data, sizeof(data));
	}
	feed(l, LOG_STREAM_STDOUT, "unfinished");
	fd = dup(sandbox_log_ring_fd(l));
	sandbox_log_free(l);
	return fd;
}

/* Every byte, two ways each: taken over or replaced, then used until all old records have been pushed out. */
START_TEST(a_ring_with_any_byte_damaged_never_hurts)
{
	static char flood[LIMIT_LOG_RING_BYTES];
	unsigned replaced = 0, kept = 0;
	int fd = ring_with_everything();
	unsigned char *ring = mmap(NULL, LIMIT_LOG_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	unsigned char *copy = malloc(LIMIT_LOG_RING_BYTES);

	ck_assert_ptr_ne(ring, MAP_FAILED);
	memset(flood, 'f', sizeof(flood));
	memcpy(copy, ring, LIMIT_LOG_RING_BYTES);
	for (size_t i = 0; i < LIMIT_LOG_RING_BYTES; i++) {
		struct sandbox_log *l;
		char words[LIMIT_LAST_WORDS_BYTES];
		unsigned is_new;

		ring[i] ^= i % 2 ? 0xff : (unsigned char)(1u << (i / 2 % 8));
		l = sandbox_log_new(dup(fd));
		ck_assert_ptr_nonnull(l);
		sandbox_log_last_words(l, words, sizeof(words));
		if (i % 64 == 0)
			free(json_of(l));
		is_new = (unsigned)feed(l, LOG_STREAM_STDERR, "rest\n");
		if (i % 64 == 0 || i < LOG_RING_HEADER) {
			feed_n(l, LOG_STREAM_STDERR, flood, sizeof(flood));
			free(json_of(l));
			memcpy(ring, copy, LIMIT_LOG_RING_BYTES);
		}
		replaced += is_new;
		kept += !is_new;
		sandbox_log_free(l);
		if (!is_new)
			memcpy(ring, copy, LIMIT_LOG_RING_BYTES);
		else
			ring[i] = copy[i];
	}
	ck_assert_uint_gt(replaced, 100); /* both happened */
	ck_assert_uint_gt(kept, 50000);   /* most bytes are text */
	munmap(ring, LIMIT_LOG_RING_BYTES);
	free(copy);
	close(fd);
}
END_TEST

/* Nobody else writes there; if it happens all the same, lines may be lost, but neither bounds nor the accounting of memory. */
START_TEST(bytes_overwritten_while_in_use_never_hurt)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	unsigned char *ring;
	unsigned seed = 1;

	feed(l, LOG_STREAM_STDOUT, "first\n");
	ring = mmap(NULL, LIMIT_LOG_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, sandbox_log_ring_fd(l), 0);
	ck_assert_ptr_ne(ring, MAP_FAILED);
	for (unsigned i = 0; i < 20000; i++) {
		char words[64];

		seed = seed * 1103515245 + 12345;
		ring[(seed >> 8) % LIMIT_LOG_RING_BYTES] = (unsigned char)(seed >> 3);
		feed(l, i % 2 ? LOG_STREAM_STDOUT : LOG_STREAM_STDERR, "some text that fills the ring again and again\nrest");
		if (i % 100 == 0) {
			sandbox_log_last_words(l, words, sizeof(words));
			free(json_of(l));
		}
	}
	munmap(ring, LIMIT_LOG_RING_BYTES);
	sandbox_log_free(l);
}
END_TEST

static void expect_words(const struct sandbox_log *l, size_t room, const char *want)
{
	char *to = malloc(room); /* exactly: the sanitizer sees a byte too many */

	memset(to, 'z', room);
	sandbox_log_last_words(l, to, room);
	ck_assert_str_eq(to, want);
	free(to);
}

START_TEST(last_words_are_whole_lines_where_they_fit)
{
	struct sandbox_log *l = sandbox_log_new(-1);

	expect_words(l, 10, "");
	feed(l, LOG_STREAM_STDOUT, "first\n\nsecond\n");
	sandbox_log_say(l, NOW, "not a word");
	feed(l, LOG_STREAM_STDERR, "<3>third\x1b[1m");
	expect_words(l, 512, "first | second | third?[1m");
	expect_words(l, 27, "first | second | third?[1m");
	expect_words(l, 26, "second | third?[1m");
	expect_words(l, 18, "third?[1m");
	expect_words(l, 10, "third?[1m");
	expect_words(l, 9, "hird?[1m");
	expect_words(l, 1, "");
	sandbox_log_flush(l, NOW);
	sandbox_log_begin(l); /* the next process has said nothing yet */
	expect_words(l, 512, "");
	feed(l, LOG_STREAM_STDERR, "\xe2\x82\xac\xe2\x82\xac\n");
	expect_words(l, 512, "\xe2\x82\xac\xe2\x82\xac");
	expect_words(l, 6, "\xe2\x82\xac");
	expect_words(l, 3, "");
	sandbox_log_free(l);
}
END_TEST

START_TEST(pieces_of_one_line_are_one_word)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	char *data = malloc(6001), *words = malloc(8000);

	memset(data, 'x', 6000);
	data[6000] = '\0';
	feed(l, LOG_STREAM_STDOUT, data);
	sandbox_log_last_words(l, words, 8000);
	ck_assert_str_eq(words, data);
	feed(l, LOG_STREAM_STDOUT, "\n");
	sandbox_log_last_words(l, words, 8000);
	ck_assert_str_eq(words, data);
	sandbox_log_last_words(l, words, 100);
	ck_assert_uint_eq(strlen(words), 99);
	free(data);
	free(words);
	sandbox_log_free(l);
}
END_TEST

/* Without a descriptor for a ring everything is counted; with the first chance there is a ring. */
START_TEST(without_a_ring_all_is_dropped_and_counted)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	struct rlimit before, none;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert_int_eq(feed(l, LOG_STREAM_STDOUT, "lost\n"), 0);
	sandbox_log_say(l, NOW, "lost too");
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	expect_json(l, "{\"lines\":[],\"dropped_bytes\":5}");
	ck_assert_int_eq(feed(l, LOG_STREAM_STDOUT, "kept\n"), 1);
	ck_assert_uint_eq(kept_of(l).lines, 1);
	ck_assert_uint_eq(kept_of(l).dropped, 5);
	sandbox_log_free(l);
}
END_TEST

#define COUNT(rows) ((int)(sizeof(rows) / sizeof((rows)[0])))

CHECK_MAIN("logs",
	tcase_add_test(tc, lines_come_out_as_they_went_in);
	tcase_add_test(tc, the_newest_lines_are_given);
	tcase_add_loop_test(tc, long_lines_are_split_and_say_so, 0, COUNT(lengths));
	tcase_add_loop_test(tc, lines_longer_than_the_ring_leave_their_end, 0, COUNT(huge));
	tcase_add_test(tc, pieces_end_between_characters);
	tcase_add_test(tc, streams_are_never_mixed);
	tcase_add_test(tc, the_last_line_without_newline_ends_at_flush);
	tcase_add_loop_test(tc, prefixes_are_levels_on_stderr, 0, COUNT(prefixes));
	tcase_add_test(tc, all_pieces_of_a_line_have_its_level);
	tcase_add_test(tc, any_bytes_make_good_json);
	tcase_add_loop_test(tc, a_flood_is_accounted_to_the_byte, 0, COUNT(flood_patterns));
	tcase_add_test(tc, what_was_lost_is_counted_and_ends_lines);
	tcase_add_test(tc, a_ring_outlives_its_control);
	tcase_add_test(tc, what_is_no_ring_is_replaced);
	tcase_add_test(tc, a_ring_with_any_byte_damaged_never_hurts);
	tcase_add_test(tc, bytes_overwritten_while_in_use_never_hurt);
	tcase_add_test(tc, last_words_are_whole_lines_where_they_fit);
	tcase_add_test(tc, pieces_of_one_line_are_one_word);
	tcase_add_test(tc, without_a_ring_all_is_dropped_and_counted))

/* SPDX-License-Identifier: MIT
 *
 * Events on disk: files and their rotation, age, torn ends, damage, reading both ways; and the whole of events.h with a storage
 * thread: what survives a killed process, gaps that are gaps, and those that aren't. */
#include "tests/support/check_main.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/observe/events.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/limits.h"

static char folder[64];
static int state_fd;

static void make_folder(void)
{
	(void)snprintf(folder, sizeof(folder), "/tmp/test_event_filesXXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	state_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(state_fd, 0);
}

static void remove_folder(void)
{
	char command[128];

	fd_close(&state_fd);
	(void)snprintf(command, sizeof(command), "rm -rf %s", folder);
	ck_assert_int_eq(system(command), 0);
}

/* ---- files alone ---- */

static char *line_of(struct seq s, const char *type, const char *more)
{
	static char line[LIMIT_EVENT_BYTES];
	int n = snprintf(line, sizeof(line), "{\"seq\":\"%llu-%llu\",\"at\":%llu,\"type\":\"%s\",\"sandbox\":\"web\",\"owner\":7%s}\n",
		(unsigned long long)s.major, (unsigned long long)s.n, (unsigned long long)(1000 * s.major + s.n), type, more);

	ck_assert_int_lt(n, (int)sizeof(line));
	return line;
}

static int append(struct event_files *f, struct seq s, const char *more, int64_t now)
{
	const char *line = line_of(s, s.n % 2 ? "odd.x" : "even", more);
	struct err e = ERR_INIT;
	int r = event_files_append(f, line, strlen(line), s, s, now, &e);

	ck_assert_msg(r == 0 || e.code == ERR_IO, "%s", e.text);
	return r;
}

static struct event_files *open_files(struct event_files_found *found)
{
	struct event_files *f = NULL;
	struct err e = ERR_INIT;

	ck_assert_msg(event_files_open(state_fd, "events", &f, found, &e) == 0, "%s", e.text);
	return f;
}

static unsigned count_files(const char *ending)
{
	char command[160], text[32] = "";
	FILE *p;

	(void)snprintf(command, sizeof(command), "ls %s/events | grep -c '%s$'", folder, ending);
	p = popen(command, "r");
	ck_assert_ptr_nonnull(p);
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), p));
	(void)pclose(p);
	return (unsigned)atoi(text);
}

static unsigned count_items(const struct buf *items)
{
	unsigned n = 0;

	for (size_t i = 0; i + 6 < items->size; i++)
		n += memcmp(items->data + i, "{\"seq\"", 6) == 0;
	return n;
}

/* All behind `at` (0-0: from the oldest), in as many steps as it takes. */
static struct event_files_read read_all(struct event_files *f, struct seq at, unsigned limit, bool is_back, const char *type)
{
	struct event_files_read r = { .filter = { .is_admin = true }, .at = at, .is_begin = at.major == 0, .is_back = is_back,
		.until = { UINT64_MAX, UINT64_MAX }, .left = limit, .more = true };

	(void)snprintf(r.filter.type, sizeof(r.filter.type), "%s", type);
	while (r.more)
		event_files_read(f, &r);
	ck_assert(!r.to.failed);
	return r;
}

static void expect(struct event_files *f, struct seq at, unsigned limit, bool is_back, const char *type, unsigned n, bool gap)
{
	struct event_files_read r = read_all(f, at, limit, is_back, type);

	ck_assert_uint_eq(count_items(&r.to), n);
	ck_assert_int_eq(r.gap, gap);
	buf_fini(&r.to);
}

static const char *padding(size_t n)
{
	static char text[LIMIT_EVENT_BYTES];

	(void)snprintf(text, sizeof(text), ",\"x\":\"%0*d\"", (int)n, 0);
	return text;
}

START_TEST(files_rotate_and_the_oldest_go)
{
	struct event_files_found found = { 0 };
	struct event_files *f;
	unsigned n = 20u * LIMIT_EVENT_SEGMENT_BYTES / 7000;
	struct event_files_read r;

	make_folder();
	f = open_files(&found);
	ck_assert_uint_eq(found.last.n, 0);
	for (unsigned i = 1; i <= n; i++)
		ck_assert_int_eq(append(f, (struct seq){ 5, i }, padding(6900), 1000), 0);
	ck_assert_uint_le(count_files("events"), LIMIT_EVENT_FILES_BYTES / LIMIT_EVENT_SEGMENT_BYTES + 1);
	ck_assert_uint_ge(count_files("events"), LIMIT_EVENT_FILES_BYTES / LIMIT_EVENT_SEGMENT_BYTES - 1);
	r = read_all(f, (struct seq){ 5, n - 10 }, 1000, false, "");
	ck_assert_uint_eq(count_items(&r.to), 10);
	ck_assert(!r.gap && r.at.n == n);
	buf_fini(&r.to);
	r = read_all(f, (struct seq){ 5, 1 }, 5, false, ""); /* gone */
	ck_assert_uint_eq(count_items(&r.to), 5);
	ck_assert(r.gap);
	buf_fini(&r.to);
	event_files_free(f);
	f = open_files(&found);
	ck_assert_uint_eq(found.last.n, n);
	ck_assert_uint_eq(found.cut_bytes, 0);
	expect(f, (struct seq){ 5, n }, 9, false, "", 0, false);
	event_files_free(f);
	remove_folder();
}
END_TEST

START_TEST(old_files_go)
{
	struct event_files_found found = { 0 };
	struct event_files *f;
	int64_t now = clock_wall_ms();
	char path[128];

	make_folder();
	f = open_files(&found);
	for (unsigned i = 1; i <= 500; i++)
		ck_assert_int_eq(append(f, (struct seq){ 5, i }, padding(6900), now), 0);
	ck_assert_uint_eq(count_files("events"), 4);
	event_files_free(f);
	(void)snprintf(path, sizeof(path), "%s/events/5-1.events", folder);
	ck_assert_int_eq(utimensat(AT_FDCWD, path, (struct timespec[2]){ { .tv_sec = 1000 }, { .tv_sec = 1000 } }, 0), 0);
	f = open_files(&found);
	ck_assert_uint_eq(count_files("events"), 3);
	expect(f, (struct seq){ 0, 0 }, 1, false, "", 1, false);
	expect(f, (struct seq){ 5, 1 }, 1, false, "", 1, true);
	event_files_free(f);
	remove_folder();
}
END_TEST

static void spoil(const char *name, long at, const char *bytes)
{
	char path[128];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/events/%s", folder, name);
	file = fopen(path, at < 0 ? "a" : "r+");
	ck_assert_ptr_nonnull(file);
	if (at >= 0)
		ck_assert_int_eq(fseek(file, at, SEEK_SET), 0);
	ck_assert_int_ge(fputs(bytes, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static const struct {
	const char *tail;
} torn[] = { { "{\"seq\":\"5-4\",\"at\":1" }, { "{" }, { "garbage\n" }, { "{\"seq\":\"5-4\",\"at\":1}\n" },
	{ "{\"seq\":\"5-4\",\"at\":1,\"type\":\"t\",\"sandbox\":null}" } };

START_TEST(a_torn_end_is_cut_off)
{
	struct event_files_found found = { 0 };
	struct event_files *f;

	make_folder();
	f = open_files(&found);
	for (unsigned i = 1; i <= 3; i++)
		ck_assert_int_eq(append(f, (struct seq){ 5, i }, "", 1000), 0);
	event_files_free(f);
	spoil("5-1.events", -1, torn[_i].tail);
	f = open_files(&found);
	ck_assert_uint_eq(found.last.n, 3);
	ck_assert_uint_eq(found.cut_bytes, strlen(torn[_i].tail));
	ck_assert_uint_eq(found.n_damaged, 0);
	ck_assert_int_eq(append(f, (struct seq){ 6, 1 }, "", 1000), 0);
	expect(f, (struct seq){ 5, 1 }, 9, false, "", 3, false);
	event_files_free(f);
	f = open_files(&found);
	ck_assert_uint_eq(found.last.major, 6);
	event_files_free(f);
	remove_folder();
}
END_TEST

START_TEST(damaged_files_are_put_aside)
{
	struct event_files_found found = { 0 };
	struct event_files *f;

	make_folder();
	f = open_files(&found);
	for (unsigned i = 1; i <= 500; i++)
		ck_assert_int_eq(append(f, (struct seq){ 5, i }, padding(6900), clock_wall_ms()), 0);
	event_files_free(f);
	ck_assert_uint_eq(count_files("events"), 4);
	spoil("5-1.events", 20000, "\x01\xff not json");
	f = open_files(&found); /* only the newest is checked now */
	ck_assert_uint_eq(found.n_damaged, 0);
	expect(f, (struct seq){ 5, 1 }, 1000, false, "", 150, true);
	ck_assert_uint_eq(count_files("damaged"), 1);
	event_files_free(f);
	f = open_files(&found);
	expect(f, (struct seq){ 0, 0 }, 10, false, "", 10, false);
	event_files_free(f);
	for (unsigned i = 2; i <= 500; i++) { /* the newest, in its middle */
		char name[128];

		(void)snprintf(name, sizeof(name), "%s/events/5-%u.events", folder, i);
		if (access(name, F_OK) == 0 && i > 400)
			spoil(strrchr(name, '/') + 1, 100, "\n\n\n");
	}
	f = open_files(&found);
	ck_assert_uint_eq(found.n_damaged, 1);
	ck_assert_uint_eq(count_files("damaged"), 2);
	ck_assert_uint_lt(found.last.n, 500);
	ck_assert_uint_gt(found.last.n, 200);
	event_files_free(f);
	remove_folder();
}
END_TEST

START_TEST(reading_both_ways_over_incarnations)
{
	struct event_files_found found = { 0 };
	struct event_files *f;
	struct event_files_read r;

	make_folder();
	f = open_files(&found);
	for (unsigned major = 5; major < 8; major++)
		for (unsigned i = 1; i <= 100; i++)
			ck_assert_int_eq(append(f, (struct seq){ major, i }, padding(6000), clock_wall_ms()), 0);
	ck_assert_uint_ge(count_files("events"), 2);
	expect(f, (struct seq){ 0, 0 }, 1000, false, "even", 150, false);
	expect(f, (struct seq){ 5, 98 }, 10, false, "", 10, false);
	expect(f, (struct seq){ 5, 100 }, 10, false, "", 10, false);
	expect(f, (struct seq){ 5, 120 }, 10, false, "", 10, false); /* nothing is missing behind it */
	expect(f, (struct seq){ 4, 7 }, 10, false, "", 10, true);
	expect(f, (struct seq){ 5, 0 }, 10, false, "", 10, false);
	expect(f, (struct seq){ 7, 100 }, 10, false, "", 0, false);
	expect(f, (struct seq){ 0, 0 }, 1000, false, "odd.", 150, false);
	expect(f, (struct seq){ 0, 0 }, 1000, false, "odd", 0, false);
	r = read_all(f, (struct seq){ 0, 0 }, 120, true, "even");
	ck_assert_uint_eq(count_items(&r.to), 120);
	ck_assert_int_eq(memcmp(r.to.data, "{\"seq\":\"5-62\"", 13), 0);
	buf_fini(&r.to);
	r = read_all(f, (struct seq){ 0, 0 }, 1000, true, "odd.");
	ck_assert_uint_eq(count_items(&r.to), 150);
	ck_assert_int_eq(memcmp(r.to.data, "{\"seq\":\"5-1\"", 12), 0);
	buf_fini(&r.to);
	event_files_free(f);
	remove_folder();
}
END_TEST

/* ---- with a storage thread ---- */

static uv_loop_t loop;
static struct storage *storage;
static bool is_stopped, is_answered;

static void stopped(void *ctx)
{
	(void)ctx;
	is_stopped = true;
}

static struct events *begin(uint64_t incarnation)
{
	struct events *ev = events_new(incarnation);
	struct err e = ERR_INIT;

	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_msg(storage_start(&loop, folder, &storage, &e) == 0, "%s", e.text);
	ck_assert_msg(events_open(ev, storage_dir_fd(storage), "events", storage, &e) == 0, "%s", e.text);
	return ev;
}

/* orderly: or as a kill does, without a last word. */
static void end(struct events *ev, bool orderly)
{
	if (orderly)
		events_close(ev);
	is_stopped = false;
	storage_stop(storage, stopped, NULL);
	while (!is_stopped)
		uv_run(&loop, UV_RUN_ONCE);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	events_free(ev);
}

static struct events_read page;

static void take_page(struct events_read *rd)
{
	ck_assert_ptr_eq(rd, &page);
	is_answered = true;
}

static void expect_page(struct events *ev, const char *since, unsigned limit, unsigned n, const char *next, bool gap)
{
	char seq[SEQ_ROOM];
	struct err e = ERR_INIT;

	page = (struct events_read){ .filter = { .is_admin = true }, .limit = limit, .done = take_page, .is_newest = since && *since == 'n' };
	is_answered = false;
	ck_assert_int_eq(events_read_begin(ev, &page, page.is_newest ? NULL : since, &e), 0);
	while (!is_answered)
		uv_run(&loop, UV_RUN_ONCE);
	seq_write(seq, page.next);
	ck_assert_msg(count_items(&page.items) == n && strcmp(seq, next) == 0 && page.gap == gap, "%u events, next %s, gap %d",
		count_items(&page.items), seq, page.gap);
	buf_fini(&page.items);
}

static void add(struct events *ev, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		events_add(ev, "x", "web", 1, NULL, NULL);
}

START_TEST(events_go_on_over_restarts)
{
	struct events *ev;

	make_folder();
	ev = begin(5);
	add(ev, 10);
	expect_page(ev, NULL, 99, 10, "5-10", false);
	end(ev, true);
	ev = begin(6);
	expect_page(ev, NULL, 99, 10, "6-0", false);
	add(ev, 3);
	expect_page(ev, "5-8", 99, 5, "6-3", false);
	expect_page(ev, "5-10", 99, 3, "6-3", false);
	expect_page(ev, "5-8", 1, 1, "5-9", false);
	expect_page(ev, "5-9", 2, 2, "6-1", false);
	expect_page(ev, "4-8", 99, 13, "6-3", true);
	expect_page(ev, "6-3", 99, 0, "6-3", false);
	expect_page(ev, "newest", 5, 5, "6-3", false);
	expect_page(ev, "newest", 99, 13, "6-3", false);
	end(ev, true);
	ev = begin(2); /* the clock went back */
	add(ev, 1);
	expect_page(ev, "5-10", 99, 4, "7-1", false);
	end(ev, true);
	remove_folder();
}
END_TEST

START_TEST(what_was_pending_at_a_kill_is_there)
{
	struct events *ev;

	make_folder();
	ev = begin(5);
	add(ev, 1);   /* is on its way */
	add(ev, 500); /* gather meanwhile, and are never handed over: as if the process had been killed here */
	end(ev, false);
	ev = begin(6);
	add(ev, 1);
	expect_page(ev, "5-0", 1000, 502, "6-1", false);
	expect_page(ev, "5-501", 1000, 1, "6-1", false);
	end(ev, true);
	remove_folder();
}
END_TEST

/* More than the mapped file has room for: the number of those that are lost is told. */
START_TEST(what_is_lost_at_a_kill_is_counted)
{
	struct json_span last;
	struct events *ev;
	uint64_t lost = 0;
	struct err e = ERR_INIT;
	struct json_iter it;
	struct json_span key, value;
	struct buf b = BUF_INIT;

	make_folder();
	ev = begin(5);
	add(ev, 1);
	for (unsigned i = 0; i < 200; i++)
		events_add(ev, "big", "web", 1, "text", padding(4000));
	end(ev, false);
	ev = begin(6);
	page = (struct events_read){ .filter = { .is_admin = true, .type = "daemon.events_lost" }, .limit = 9, .done = take_page };
	is_answered = false;
	ck_assert_int_eq(events_read_begin(ev, &page, "5-0", &e), 0);
	while (!is_answered)
		uv_run(&loop, UV_RUN_ONCE);
	ck_assert(page.gap);
	buf_add_char(&b, '[');
	buf_add(&b, page.items.data, page.items.size);
	buf_add_char(&b, ']');
	it = json_iter_begin((struct json_span){ b.data, b.size });
	ck_assert(json_iter_next(&it, &key, &value));
	last = json_get(value, "seq");
	ck_assert(json_string_is(last, "5-201"));
	ck_assert(json_u64(json_get(value, "lost"), &lost));
	ck_assert_uint_gt(lost, 100);
	ck_assert_uint_lt(lost, 160);
	buf_fini(&b);
	buf_fini(&page.items);
	expect_page(ev, "5-201", 1000, 0, "6-0", false);
	expect_page(ev, NULL, 1000, (unsigned)(201 - lost + 1), "6-0", true);
	end(ev, true);
	remove_folder();
}
END_TEST

/* Far more than the ring has: old ones come from the files, page by page, without a gap. */
START_TEST(old_events_come_from_the_files)
{
	struct events *ev;
	char since[SEQ_ROOM] = "5-1";
	unsigned n = 1;
	struct err e = ERR_INIT;

	make_folder();
	ev = begin(5);
	add(ev, 3 * LIMIT_EVENTS);
	do {
		page = (struct events_read){ .filter = { .is_admin = true }, .limit = 1000, .done = take_page };
		is_answered = false;
		ck_assert_int_eq(events_read_begin(ev, &page, since, &e), 0);
		while (!is_answered)
			uv_run(&loop, UV_RUN_ONCE);
		ck_assert(!page.gap);
		n += count_items(&page.items);
		is_answered = page.items.size > 0;
		seq_write(since, page.next);
		buf_fini(&page.items);
	} while (is_answered);
	ck_assert_uint_eq(n, 3 * LIMIT_EVENTS);
	expect_page(ev, "newest", 1000, 1000, since, false);
	end(ev, true);
	remove_folder();
}
END_TEST

CHECK_MAIN("event_files",
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, files_rotate_and_the_oldest_go);
	tcase_add_test(tc, old_files_go);
	tcase_add_loop_test(tc, a_torn_end_is_cut_off, 0, (int)(sizeof(torn) / sizeof(torn[0])));
	tcase_add_test(tc, damaged_files_are_put_aside);
	tcase_add_test(tc, reading_both_ways_over_incarnations);
	tcase_add_test(tc, events_go_on_over_restarts);
	tcase_add_test(tc, what_was_pending_at_a_kill_is_there);
	tcase_add_test(tc, what_is_lost_at_a_kill_is_counted);
	tcase_add_test(tc, old_events_come_from_the_files))

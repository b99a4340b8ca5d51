/* SPDX-License-Identifier: MIT
 *
 * A log on disk: rotation, restarts, files that vanish, a full disk, readers that are overtaken; every byte accounted for. */
#include "tests/support/check_main.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/observe/log_ring.h"
#include "daemon/observe/log_writer.h"
#include "proto/fd.h"

#define NOW 1700000000000ll

static char folder[64];
static uv_loop_t loop;
static struct log_store store;
static bool is_done;

static void begin(void)
{
	struct err e = ERR_INIT;

	if (!folder[0]) {
		(void)snprintf(folder, sizeof(folder), "/tmp/test_log_filesXXXXXX");
		ck_assert_ptr_nonnull(mkdtemp(folder));
	}
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	store = (struct log_store){ 0 };
	ck_assert_msg(storage_start(&loop, folder, &store.storage, &e) == 0, "%s", e.text);
}

static void stopped(void *ctx)
{
	(void)ctx;
	is_done = true;
}

static void end(bool and_remove)
{
	char command[128];

	is_done = false;
	storage_stop(store.storage, stopped, NULL);
	while (!is_done)
		uv_run(&loop, UV_RUN_ONCE);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	ck_assert_uint_eq(store.waiting, 0);
	(void)snprintf(command, sizeof(command), "rm -rf %s", folder);
	if (and_remove)
		ck_assert_int_eq(system(command), 0);
}

static void job_done(struct storage_job *job)
{
	(void)job;
	is_done = true;
}

static void job_work(struct storage_job *job)
{
	job->status = 0;
}

/* All jobs up to now, and those that they lead to. */
static void settle(void)
{
	struct storage_job job = { .work = job_work, .done = job_done };

	for (unsigned i = 0; i < 3; i++) {
		is_done = false;
		storage_submit(store.storage, &job);
		while (!is_done)
			uv_run(&loop, UV_RUN_ONCE);
	}
}

static void feed(struct sandbox_log *l, const char *data, size_t n)
{
	int is_new;

	sandbox_log_feed(l, LOG_STREAM_STDOUT, data, n, NOW, &is_new);
}

static uint64_t fed;

static void feed_numbers(struct sandbox_log *l, unsigned from, unsigned n)
{
	char line[128];

	for (unsigned i = from; i < from + n; i++) {
		int size = snprintf(line, sizeof(line), "number %u .......................................................\n", i);

		feed(l, line, (size_t)size);
		fed += (uint64_t)size;
	}
}

static struct log_older older;

static void older_done(struct log_older *o)
{
	ck_assert_ptr_eq(o, &older);
	is_done = true;
}

/* All lines, from the files and the ring, as log.read has them. */
static struct buf read_all(struct sandbox_log *l, struct log_writer *w, unsigned lines)
{
	struct log_query q = { .lines = lines };
	struct buf ring = BUF_INIT, all = BUF_INIT;
	struct json_out o = json_out_to(&ring);
	unsigned n = sandbox_log_lines(l, &q, &o);
	struct seq until = sandbox_log_first(l);
	struct err e = ERR_INIT;

	older = (struct log_older){ .done = older_done, .read = { .until = until.major ? until : log_writer_found(w), .lines = lines - n } };
	is_done = false;
	log_writer_older(w, &older);
	while (!is_done)
		uv_run(&loop, UV_RUN_ONCE);
	buf_add_char(&all, '[');
	buf_add(&all, older.read.to.data, older.read.to.size);
	if (older.read.to.size > 0 && ring.size > 0)
		buf_add_char(&all, ',');
	buf_add(&all, ring.data, ring.size);
	buf_add_char(&all, ']');
	buf_fini(&older.read.to);
	buf_fini(&ring);
	ck_assert_msg(!all.failed && json_check(all.data, all.size, &e) == 0, "%s", e.text);
	return all;
}

struct seen {
	unsigned n, first, last, holes;
	uint64_t bytes;
};

static struct seen look(struct sandbox_log *l, struct log_writer *w)
{
	struct buf all = read_all(l, w, 100000);
	struct json_iter it = json_iter_begin((struct json_span){ all.data, all.size });
	struct json_span key, line;
	struct seen s = { 0 };
	char text[8192];

	while (json_iter_next(&it, &key, &line)) {
		int64_t size = json_string(json_get(line, "text"), text, sizeof(text));
		unsigned number;

		if (size < 0) /* not ck_assert: it writes to a file each time */
			ck_abort();
		s.bytes += (uint64_t)size + (json_get(line, "partial").at && !json_string_is(json_get(line, "partial"), "last") ? 0 : 1);
		if (sscanf(text, "number %u", &number) != 1)
			continue;
		s.first = s.n == 0 ? number : s.first;
		s.holes += s.n > 0 && number != s.last + 1;
		s.last = number;
		s.n++;
	}
	buf_fini(&all);
	return s;
}

static unsigned count_files(const char *sandbox)
{
	char command[160], text[32] = "0";
	FILE *p;

	(void)snprintf(command, sizeof(command), "ls %s/logs/%s 2>/dev/null | wc -l", folder, sandbox);
	p = popen(command, "r");
	ck_assert_ptr_nonnull(p);
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), p));
	(void)pclose(p);
	return (unsigned)atoi(text);
}

START_TEST(twenty_rotations_lose_nothing)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	struct log_writer *w;
	struct seen s;
	unsigned n = 0;

	begin();
	w = log_writer_new(&store, l, "web", true);
	settle();
	for (unsigned i = 0; i < 220; i++) {
		feed_numbers(l, n, 600);
		n += 600;
		settle();
		if (i % 40 != 39)
			continue;
		s = look(l, w);
		ck_assert_uint_eq(s.holes, 0);
		ck_assert_uint_eq(s.last, n - 1);
		ck_assert_uint_eq(s.bytes + sandbox_log_lost(l), fed);
		ck_assert_uint_gt(s.n, 5000);
	}
	ck_assert_uint_eq(count_files("web"), LIMIT_LOG_FILES);
	log_writer_end(w, true);
	sandbox_log_free(l);
	settle();
	ck_assert_uint_eq(count_files("web"), 0);
	end(true);
}
END_TEST

START_TEST(short_logs_lose_nothing)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	struct log_writer *w;
	struct seen s;

	begin();
	w = log_writer_new(&store, l, "web", true);
	feed_numbers(l, 0, 3000); /* more than the ring has, before the files are open: the first are lost, and counted */
	settle();
	s = look(l, w);
	ck_assert_uint_eq(s.holes, 0);
	ck_assert_uint_eq(s.bytes + sandbox_log_lost(l), fed);
	ck_assert_uint_gt(sandbox_log_lost(l), 0);
	feed_numbers(l, 3000, 3000);
	settle();
	s = look(l, w);
	ck_assert_uint_eq(s.holes, 0);
	ck_assert_uint_eq(s.last, 5999);
	ck_assert_uint_eq(s.bytes + sandbox_log_lost(l), fed);
	log_writer_end(w, false);
	sandbox_log_free(l);
	end(true);
}
END_TEST

/* The ring lives on, as the spawner keeps it; the next writer goes on behind the last line in the files. */
START_TEST(a_restart_of_control_goes_on)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	struct log_writer *w;
	struct seen s;
	int fd;

	begin();
	w = log_writer_new(&store, l, "web", true);
	settle();
	feed_numbers(l, 0, 4000);
	settle();
	log_reader_detach((struct log_reader *)(void *)w); /* what follows isn't written: control is dead */
	feed_numbers(l, 4000, 300);
	fd = dup(sandbox_log_ring_fd(l));
	log_writer_end(w, false);
	sandbox_log_free(l);
	end(false);
	begin();
	l = sandbox_log_new(fd);
	w = log_writer_new(&store, l, "web", false);
	feed_numbers(l, 4300, 100);
	settle();
	s = look(l, w);
	ck_assert_uint_eq(s.holes, 0);
	ck_assert_uint_eq(s.first, 0);
	ck_assert_uint_eq(s.last, 4399);
	ck_assert_uint_eq(sandbox_log_lost(l), 0);
	feed_numbers(l, 4400, 4000);
	settle();
	s = look(l, w);
	ck_assert_uint_eq(s.holes, 0);
	ck_assert_uint_eq(s.n, 8400);
	ck_assert_uint_eq(sandbox_log_lost(l), 0);
	log_writer_end(w, false);
	sandbox_log_free(l);
	end(true);
}
END_TEST

/* A restart of the machine: the ring is gone, the files are there. */
START_TEST(a_restart_of_the_machine_keeps_the_files)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	struct log_writer *w;
	struct seen s;
	FILE *f;
	char path[128];

	begin();
	w = log_writer_new(&store, l, "web", true);
	settle();
	feed_numbers(l, 0, 100);
	settle();
	log_writer_end(w, false);
	sandbox_log_free(l);
	end(false);
	(void)snprintf(path, sizeof(path), "%s/logs/web/1.log", folder);
	f = fopen(path, "a");
	ck_assert_ptr_nonnull(f);
	(void)fputs("{\"seq\":\"99-9\",\"raw\":3,\"n\":3,\"at\":1,\"te", f); /* torn */
	(void)fclose(f);
	begin();
	l = sandbox_log_new(-1);
	w = log_writer_new(&store, l, "web", false);
	settle();
	s = look(l, w);
	ck_assert_uint_eq(s.n, 100);
	feed_numbers(l, 100, 100);
	settle();
	s = look(l, w);
	ck_assert_uint_eq(s.n, 200);
	ck_assert_uint_eq(s.holes, 0);
	log_writer_end(w, false);
	sandbox_log_free(l);
	end(true);
}
END_TEST

START_TEST(deleted_files_are_made_again)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	struct log_writer *w;
	char command[160];
	struct seen s;

	begin();
	w = log_writer_new(&store, l, "web", true);
	settle();
	for (unsigned i = 0; i < 4; i++) {
		(void)snprintf(command, sizeof(command), i % 2 ? "rm -r %s/logs" : "mkdir -p %s/logs/web; rm -f %s/logs/web/*", folder, folder);
		ck_assert_int_eq(system(command), 0);
		feed_numbers(l, i * 2000, 2000);
		settle();
		ck_assert_uint_ge(count_files("web"), 1);
		s = look(l, w);
		ck_assert_uint_eq(s.last, i * 2000 + 1999);
		ck_assert_uint_ge(s.n, 2000);
	}
	log_writer_end(w, false);
	sandbox_log_free(l);
	end(true);
}
END_TEST

/* As logrotate does it, with nobody telling us to open it again; another file stands in its place the second time. */
START_TEST(moved_files_are_left_and_nothing_is_missing)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	struct log_writer *w;
	char command[400];
	struct seen s;

	begin();
	fed = 0;
	w = log_writer_new(&store, l, "web", true);
	settle();
	for (unsigned i = 0; i < 5; i++) {
		feed_numbers(l, i * 500, 500);
		settle();
		(void)snprintf(command, sizeof(command), "cd %s/logs/web && n=$(ls *.log | sort -n | tail -1) && mv $n ../../moved-%u && case %u in "
			"1|4) echo mine >$n; echo mine >$((${n%%.log} + 1)).log ;; esac", folder, i, i);
		ck_assert_int_eq(system(command), 0);
		s = look(l, w); /* what isn't in the ring is dropped: it isn't here any more */
		ck_assert_uint_eq(s.bytes + sandbox_log_lost(l), fed);
		ck_assert_uint_eq(s.last, i * 500 + 499);
	}
	feed_numbers(l, 2500, 100);
	settle();
	s = look(l, w);
	ck_assert_uint_eq(s.bytes + sandbox_log_lost(l), fed);
	ck_assert_uint_eq(s.last, 2599);
	(void)snprintf(command, sizeof(command), "cd %s && test $(cat moved-* logs/web/*.log | grep -o 'number [0-9]*' | sort -u | wc -l) = 2600 && "
		"test $(cat moved-* logs/web/*.log | grep -c 'number [0-9]*') = 2600 && test $(cat logs/web/*.log | grep -c mine) -ge 1", folder);
	ck_assert_int_eq(system(command), 0);
	log_writer_end(w, false);
	sandbox_log_free(l);
	end(true);
}
END_TEST

/* RLIMIT_FSIZE in the storage thread's process stands for a full disk: write fails with EFBIG. */
START_TEST(a_full_disk_is_counted_and_passes)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	struct rlimit before, full = { 200000, 200000 };
	struct log_writer *w;
	struct seen s;

	(void)signal(SIGXFSZ, SIG_IGN);
	begin();
	w = log_writer_new(&store, l, "web", true);
	settle();
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	full.rlim_max = before.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &full), 0);
	for (unsigned i = 0; i < 20; i++) {
		feed_numbers(l, i * 300, 300);
		settle();
		s = look(l, w);
		ck_assert_uint_eq(s.bytes + sandbox_log_lost(l), fed);
	}
	ck_assert_uint_gt(sandbox_log_lost(l), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
	for (unsigned i = 20; i < 60; i++) {
		feed_numbers(l, i * 300, 300);
		settle();
		s = look(l, w);
		ck_assert_uint_eq(s.bytes + sandbox_log_lost(l), fed);
	}
	ck_assert_uint_eq(s.last, 60 * 300 - 1);
	log_writer_end(w, false);
	sandbox_log_free(l);
	end(true);
}
END_TEST

/* ---- readers ---- */

struct reader {
	struct log_reader reader;
	unsigned room, lines;
	uint64_t taken, lost;
	bool is_gone;
};

static struct reader *reader_of(struct log_reader *r)
{
	return (struct reader *)(void *)r;
}

static bool wants(struct log_reader *r)
{
	return reader_of(r)->room > 0;
}

static void take(struct log_reader *r, const struct log_record *record, const char *text, struct seq seq, uint64_t raw)
{
	(void)record;
	(void)text;
	ck_assert_uint_gt(seq.n, 0);
	reader_of(r)->room--;
	reader_of(r)->lines++;
	reader_of(r)->taken += raw;
}

static void lost(struct log_reader *r, uint64_t bytes)
{
	reader_of(r)->lost += bytes;
}

static void gone(struct log_reader *r)
{
	reader_of(r)->is_gone = true;
}

static const struct log_reader_type type = { wants, take, lost, NULL, gone };

START_TEST(readers_get_all_or_know_what_they_miss)
{
	struct sandbox_log *l = sandbox_log_new(-1);
	struct reader fast = { .room = UINT32_MAX }, slow = { 0 }, late = { .room = UINT32_MAX };
	char *flood = malloc(1 << 20);
	uint64_t before;

	memset(flood, 'x', 1 << 20);
	for (unsigned i = 99; i < 1 << 20; i += 100)
		flood[i] = '\n';
	fed = 0;
	log_reader_attach_last(&fast.reader, &type, l);
	log_reader_attach_last(&slow.reader, &type, l);
	feed(l, flood, 1 << 20);
	feed(l, "\n", 1);
	ck_assert_uint_eq(fast.taken, (1 << 20) + 1);
	ck_assert_uint_eq(fast.lost, 0);
	ck_assert_uint_eq(slow.taken, 0);
	slow.room = 10;
	log_reader_pump(&slow.reader);
	ck_assert_uint_eq(slow.lines, 10);
	sandbox_log_dropped(l, 77);
	slow.room = UINT32_MAX;
	log_reader_pump(&slow.reader);
	ck_assert_uint_eq(slow.taken + slow.lost, (1 << 20) + 1 + 77);
	ck_assert_uint_eq(fast.lost, 77);
	log_reader_attach_last(&late.reader, &type, l);
	before = slow.taken + slow.lost;
	fast.room = slow.room = late.room = 0; /* nobody wants any: the short way through a flood */
	for (unsigned i = 0; i < 10; i++)
		feed(l, flood, 1 << 20);
	late.room = slow.room = UINT32_MAX;
	log_reader_pump(&late.reader);
	log_reader_pump(&slow.reader);
	feed(l, "\n", 1);
	ck_assert_uint_eq(late.taken + late.lost, (10 << 20) + 1);
	ck_assert_uint_eq(slow.taken + slow.lost - before, (10 << 20) + 1);
	log_reader_detach(&late.reader);
	sandbox_log_free(l);
	ck_assert(fast.is_gone && slow.is_gone && !late.is_gone);
	free(flood);
}
END_TEST

CHECK_MAIN("log_files",
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, twenty_rotations_lose_nothing);
	tcase_add_test(tc, short_logs_lose_nothing);
	tcase_add_test(tc, a_restart_of_control_goes_on);
	tcase_add_test(tc, a_restart_of_the_machine_keeps_the_files);
	tcase_add_test(tc, deleted_files_are_made_again);
	tcase_add_test(tc, moved_files_are_left_and_nothing_is_missing);
	tcase_add_test(tc, a_full_disk_is_counted_and_passes);
	tcase_add_test(tc, readers_get_all_or_know_what_they_miss))

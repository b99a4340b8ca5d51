/* SPDX-License-Identifier: MIT
 *
 * The storage thread: order, on which thread what runs, and its end with jobs waiting. */
#include "tests/support/check_main.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/store/storage.h"

#define MANY 200

struct test_job {
	struct storage_job job; /* first: a job is found by a cast */
	int number, was_worked, was_done;
	struct storage *resubmit;
};

static char dir[64];
static uv_loop_t loop;
static pthread_t loop_thread;
static struct storage *storage;
static int worked, done, stopped;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void begin(void)
{
	struct err e = ERR_INIT;

	(void)snprintf(dir, sizeof(dir), "%s/storage-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	loop_thread = pthread_self();
	ck_assert_msg(storage_start(&loop, dir, &storage, &e) == 0, "%s", e.text);
}

static void on_stopped(void *ctx)
{
	ck_assert_ptr_eq(ctx, dir);
	ck_assert(pthread_equal(pthread_self(), loop_thread));
	stopped++;
}

static void end(void)
{
	ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0); /* returns only when every handle is closed */
	ck_assert_int_eq(stopped, 1);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}

static void work(struct storage_job *job)
{
	struct test_job *t = (struct test_job *)job;

	ck_assert(!pthread_equal(pthread_self(), loop_thread));
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	t->was_worked = ++worked;
	if (t->number % 10 == 3)
		job->status = err_set(&job->err, ERR_IO, "number %d fails", t->number);
}

static void on_done(struct storage_job *job)
{
	struct test_job *t = (struct test_job *)job;

	ck_assert(pthread_equal(pthread_self(), loop_thread));
	ck_assert_int_eq(t->was_done, 0);
	t->was_done = ++done;
	if (t->resubmit) {
		struct storage *s = t->resubmit;

		t->resubmit = NULL;
		t->was_done = 0;
		storage_submit(s, job);
	} else if (done == MANY) {
		storage_stop(storage, on_stopped, dir);
	}
}

static void submit(struct test_job *t, int number)
{
	*t = (struct test_job){ .job = { .work = work, .done = on_done }, .number = number };
	storage_submit(storage, &t->job);
}

START_TEST(jobs_run_in_order_and_are_told_on_the_loop)
{
	static struct test_job jobs[MANY];

	begin();
	for (int i = 0; i < MANY; i++)
		submit(&jobs[i], i);
	ck_assert_int_eq(done, 0); /* nothing is told inside of submit */
	end();
	for (int i = 0; i < MANY; i++) {
		ck_assert_int_eq(jobs[i].was_worked, i + 1);
		ck_assert_int_eq(jobs[i].was_done, i + 1);
		ck_assert_int_eq(jobs[i].job.status, i % 10 == 3 ? -1 : 0);
		ck_assert_int_eq(jobs[i].job.err.code, i % 10 == 3 ? ERR_IO : ERR_OK);
	}
}
END_TEST

/* One that is lazy doesn't wake the thread, runs in its turn all the same, and isn't forgotten when nobody else comes; one that is skipped never
 * gets there. */
START_TEST(lazy_and_skipped_jobs)
{
	static struct test_job jobs[MANY];

	begin();
	for (int i = 0; i < MANY; i++) {
		bool is_skipped = i % 7 == 6;

		jobs[i] = (struct test_job){ .job = { .work = is_skipped ? NULL : work, .done = on_done }, .number = 0 };
		(is_skipped ? storage_skip : i % 2 ? storage_submit : storage_submit_lazily)(storage, &jobs[i].job);
		ck_assert_int_eq(done, 0);
	}
	end();
	for (int i = 0, before = 0; i < MANY; i++) {
		ck_assert_int_gt(jobs[i].was_done, 0);
		ck_assert_int_eq(jobs[i].was_worked > 0, i % 7 != 6);
		if (i % 7 != 6) {
			ck_assert_int_eq(jobs[i].was_worked, before + 1);
			before = jobs[i].was_worked;
		}
	}
}
END_TEST

START_TEST(lazy_jobs_alone)
{
	static struct test_job jobs[MANY];

	begin();
	for (int i = 0; i < MANY; i++) {
		jobs[i] = (struct test_job){ .job = { .work = work, .done = on_done }, .number = 0 };
		storage_submit_lazily(storage, &jobs[i].job);
	}
	end();
	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(jobs[i].was_done, i + 1);
}
END_TEST

/* The gate holds the thread in the first job, so that the others are surely waiting when the stop comes. */
START_TEST(waiting_jobs_are_finished_at_the_stop_and_later_ones_refused)
{
	static struct test_job jobs[50], late[5];

	begin();
	pthread_mutex_lock(&gate);
	for (int i = 0; i < 50; i++)
		submit(&jobs[i], 0);
	storage_stop(storage, on_stopped, dir);
	for (int i = 0; i < 5; i++)
		submit(&late[i], 0);
	ck_assert_int_eq(done, 0);
	pthread_mutex_unlock(&gate);
	end();
	ck_assert_int_eq(done, 55);
	for (int i = 0; i < 50; i++) {
		ck_assert_int_eq(jobs[i].was_worked, i + 1);
		ck_assert_int_eq(jobs[i].job.status, 0);
	}
	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(late[i].was_worked, 0);
		ck_assert_int_ne(late[i].was_done, 0);
		ck_assert_int_eq(late[i].job.status, -1);
		ck_assert_int_eq(late[i].job.err.code, ERR_SHUTTING_DOWN);
	}
}
END_TEST

START_TEST(jobs_submitted_by_done_during_the_stop_are_told_too)
{
	static struct test_job jobs[20];

	begin();
	pthread_mutex_lock(&gate);
	for (int i = 0; i < 20; i++) {
		submit(&jobs[i], 0);
		jobs[i].resubmit = storage;
	}
	storage_stop(storage, on_stopped, dir);
	pthread_mutex_unlock(&gate);
	end();
	ck_assert_int_eq(done, 40);
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(jobs[i].job.err.code, ERR_SHUTTING_DOWN); /* the second time */
		ck_assert_int_ne(jobs[i].was_worked, 0);               /* the first time */
	}
}
END_TEST

START_TEST(it_stops_without_ever_having_worked)
{
	begin();
	storage_stop(storage, on_stopped, dir);
	end();
	ck_assert_int_eq(done, 0);
}
END_TEST

static sigset_t seen_mask;

static void look_at_mask(struct storage_job *job)
{
	struct stat st;

	(void)job;
	(void)pthread_sigmask(SIG_SETMASK, NULL, &seen_mask);
	job->status = fstat(storage_dir_fd(storage), &st) == 0 && S_ISDIR(st.st_mode) ? 0 : -1;
}

START_TEST(its_thread_takes_no_signals_and_ours_still_does)
{
	static struct test_job t = { .job = { .work = look_at_mask, .done = on_done } };
	sigset_t mine;

	begin();
	(void)pthread_sigmask(SIG_SETMASK, NULL, &mine);
	ck_assert_int_eq(sigismember(&mine, SIGTERM), 0);
	storage_submit(storage, &t.job);
	storage_stop(storage, on_stopped, dir);
	end();
	ck_assert_int_eq(t.job.status, 0);
	ck_assert_int_eq(sigismember(&seen_mask, SIGTERM), 1);
	ck_assert_int_eq(sigismember(&seen_mask, SIGINT), 1);
	ck_assert_int_eq(sigismember(&seen_mask, SIGXFSZ), 1);
}
END_TEST

START_TEST(a_missing_state_folder_is_an_error)
{
	struct storage *s = NULL;
	struct err e = ERR_INIT;

	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_int_eq(storage_start(&loop, "/nonexistent/folder", &s, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_ptr_nonnull(strstr(e.text, "/nonexistent/folder"));
	ck_assert_int_eq(storage_start(&loop, "/dev/null", &s, &e), -1);
	ck_assert_ptr_null(s);
	ck_assert_int_eq(uv_loop_close(&loop), 0); /* nothing was left in it */
}
END_TEST

CHECK_MAIN("storage",
	tcase_add_test(tc, jobs_run_in_order_and_are_told_on_the_loop);
	tcase_add_test(tc, lazy_and_skipped_jobs);
	tcase_add_test(tc, lazy_jobs_alone);
	tcase_add_test(tc, waiting_jobs_are_finished_at_the_stop_and_later_ones_refused);
	tcase_add_test(tc, jobs_submitted_by_done_during_the_stop_are_told_too);
	tcase_add_test(tc, it_stops_without_ever_having_worked);
	tcase_add_test(tc, its_thread_takes_no_signals_and_ours_still_does);
	tcase_add_test(tc, a_missing_state_folder_is_an_error))

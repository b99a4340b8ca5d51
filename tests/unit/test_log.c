/* SPDX-License-Identifier: MIT
 *
 * The log: one clean line per event, whatever goes into it, in the form that the reader of stderr wants.
 * Each test runs in a process of its own, so it may take over stderr. */
#include "proto/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proto/limits.h"
#include "tests/support/check_main.h"

static int reader = -1;

static void take_stderr(void)
{
	int p[2];

	ck_assert_int_eq(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);
	ck_assert_int_eq(dup2(p[1], STDERR_FILENO), STDERR_FILENO);
	close(p[1]);
	reader = p[0];
}

static const char *written(void)
{
	static char text[2 * LIMIT_LOG_LINE_BYTES];
	ssize_t n = read(reader, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

START_TEST(time_and_program)
{
	const char *line;
	struct tm t = { 0 };
	char tail[64];
	long ms, now = (long)time(NULL);
	int n = 0;

	unsetenv("JOURNAL_STREAM");
	take_stderr();
	log_init("prog\n", LOG_LEVEL_INFO);
	errno = EDOM;
	log_error("cannot %s", "do it");
	ck_assert_int_eq(errno, EDOM);
	line = written();
	ck_assert_int_eq(sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%3ldZ %n", &t.tm_year, &t.tm_mon, &t.tm_mday,
				 &t.tm_hour, &t.tm_min, &t.tm_sec, &ms, &n),
		7);
	t.tm_year -= 1900;
	t.tm_mon--;
	ck_assert_int_le(labs((long)timegm(&t) - now), 60);
	snprintf(tail, sizeof(tail), "prog?[%ld]: error: cannot do it\n", (long)getpid());
	ck_assert_str_eq(line + n, tail);
}
END_TEST

START_TEST(levels)
{
	take_stderr();
	log_init("p", LOG_LEVEL_WARNING);
	log_info("hidden");
	log_debug("hidden");
	ck_assert_str_eq(written(), "");
	log_warning("seen");
	ck_assert_ptr_nonnull(strstr(written(), "warning: seen\n"));
	log_init("p", LOG_LEVEL_DEBUG);
	log_debug("seen");
	ck_assert_ptr_nonnull(strstr(written(), "debug: seen\n"));
}
END_TEST

START_TEST(journal)
{
	struct stat st;
	char name[64];

	take_stderr();
	ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
	snprintf(name, sizeof(name), "%llu:%llu", (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", name, 1);
	log_init("p", LOG_LEVEL_INFO);
	log_error("a");
	ck_assert_str_eq(written(), "<3>a\n");
	log_info("b");
	ck_assert_str_eq(written(), "<6>b\n");
	setenv("JOURNAL_STREAM", "1:2", 1); /* stderr was redirected since */
	log_init("p", LOG_LEVEL_INFO);
	log_info("b");
	ck_assert_int_ne(written()[0], '<');
	setenv("JOURNAL_STREAM", "nonsense", 1);
	log_init("p", LOG_LEVEL_INFO);
	log_info("b");
	ck_assert_int_ne(written()[0], '<');
}
END_TEST

START_TEST(one_line_whatever_comes)
{
	static char longest[3 * LIMIT_LOG_LINE_BYTES];
	const char *line;

	take_stderr();
	log_init("p", LOG_LEVEL_INFO);
	log_info("a\nforged\x1b[2J\xff");
	line = written();
	ck_assert_ptr_nonnull(strstr(line, "a?forged?[2J?\n"));
	ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1);
	memset(longest, 'x', sizeof(longest) - 1);
	log_info("%s", longest);
	line = written();
	ck_assert_uint_le(strlen(line), LIMIT_LOG_LINE_BYTES);
	ck_assert_uint_gt(strlen(line), LIMIT_LOG_LINE_BYTES - 100);
	ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1);
}
END_TEST

CHECK_MAIN("log", tcase_add_test(tc, time_and_program); tcase_add_test(tc, levels);
	tcase_add_test(tc, journal); tcase_add_test(tc, one_line_whatever_comes))

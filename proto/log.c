/* SPDX-License-Identifier: MIT
 *
 * The daemon's log. One write(2) per line, so that lines of several processes don't mix; no heap, no locks
 * and no time zone (localtime and gmtime take a lock and may read files), so that it works in a freshly
 * forked child too. */
#include "proto/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/clock.h"
#include "proto/err.h"
#include "proto/limits.h"

static struct {
	char program[32];
	enum log_level most;
	bool journal;
} log_to = { "sandboxd", LOG_LEVEL_INFO, false };

/* Is stderr the stream that JOURNAL_STREAM ("device:inode") names? It may have been redirected since. */
static bool stderr_is_journal(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;
	char *end;

	if (!text || fstat(STDERR_FILENO, &st) == -1)
		return false;
	device = strtoull(text, &end, 10);
	if (end == text || *end != ':')
		return false;
	text = end + 1;
	inode = strtoull(text, &end, 10);
	return end != text && *end == '\0' && device == st.st_dev && inode == st.st_ino;
}

void log_init(const char *program, enum log_level most)
{
	text_clean(log_to.program, sizeof(log_to.program), program, strlen(program));
	log_to.most = most;
	log_to.journal = stderr_is_journal();
}

static const char *level_text(enum log_level level)
{
	switch (level) {
	case LOG_LEVEL_ERROR:
		return "error: ";
	case LOG_LEVEL_WARNING:
		return "warning: ";
	case LOG_LEVEL_INFO:
		return "";
	case LOG_LEVEL_DEBUG:
		return "debug: ";
	}
	return "";
}

/* Days since 1970 to a date of the Gregorian calendar; a year is counted from March, so that leap days come
 * last. */
static void date_of(int64_t days, int *year, int *month, int *day)
{
	int64_t since = days + 719468; /* days since 0000-03-01 */
	int64_t era = since / 146097, in_era = since % 146097;
	int64_t y = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
	int64_t in_year = in_era - (365 * y + y / 4 - y / 100);
	int64_t m = (5 * in_year + 2) / 153; /* 0: March */

	*day = (int)(in_year - (153 * m + 2) / 5 + 1);
	*month = (int)(m < 10 ? m + 3 : m - 9);
	*year = (int)(era * 400 + y + (*month <= 2));
}

static size_t put_head(char *to, size_t room, enum log_level level)
{
	int64_t now = clock_wall_ms(), s = now / 1000;
	int year, month, day;

	if (log_to.journal)
		return (size_t)snprintf(to, room, "<%d>", (int)level);
	date_of(s / 86400, &year, &month, &day);
	return (size_t)snprintf(to, room, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ %s[%ld]: %s", year, month, day,
		(int)(s / 3600 % 24), (int)(s / 60 % 60), (int)(s % 60), (int)(now % 1000), log_to.program,
		(long)getpid(), level_text(level));
}

void log_line(enum log_level level, const char *format, ...)
{
	char raw[LIMIT_LOG_LINE_BYTES], line[LIMIT_LOG_LINE_BYTES];
	int kept = errno;
	size_t size;
	va_list args;

	if (level > log_to.most)
		return;
	va_start(args, format);
	if (vsnprintf(raw, sizeof(raw), format, args) < 0)
		raw[0] = '\0';
	va_end(args);
	size = put_head(line, sizeof(line), level);
	text_clean(line + size, sizeof(line) - size, raw, strlen(raw)); /* its NUL's place is the newline's */
	size += strlen(line + size);
	line[size++] = '\n';
	while (write(STDERR_FILENO, line, size) == -1 && errno == EINTR)
		;
	errno = kept;
}

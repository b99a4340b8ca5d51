/* SPDX-License-Identifier: MIT */
#include "client/since.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

#include "client/args.h"

bool since_is_seq(const char *text)
{
	size_t first = strspn(text, "0123456789"), second;

	if (first == 0 || text[first] != '-')
		return false;
	second = strspn(text + first + 1, "0123456789");
	return second > 0 && text[first + 1 + second] == '\0';
}

/* "10m" */
static bool before_now(const char *text, int64_t now_ms, int64_t *ret)
{
	static const struct {
		char unit;
		int64_t ms;
	} units[] = { { 's', 1000 }, { 'm', 60000 }, { 'h', 3600000 }, { 'd', 86400000 } };
	size_t n = strspn(text, "0123456789");
	int64_t value = 0;

	if (n == 0 || n > 9 || text[n] == '\0' || text[n + 1] != '\0')
		return false;
	for (size_t i = 0; i < n; i++)
		value = value * 10 + (text[i] - '0');
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (text[n] == units[i].unit) {
			*ret = now_ms > value * units[i].ms ? now_ms - value * units[i].ms : 0;
			return true;
		}
	return false;
}

static bool on_the_clock(const char *text, int64_t now_ms, int64_t *ret)
{
	static const char *const formats[] = { "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M",
		"%Y-%m-%d", "%H:%M:%S", "%H:%M" };
	time_t now = (time_t)(now_ms / 1000), then;

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct tm tm = { 0 };
		const char *end;

		if (formats[i][1] == 'H' && !localtime_r(&now, &tm))
			return false;
		tm.tm_sec = 0;
		tm.tm_isdst = -1;
		end = strptime(text, formats[i], &tm);
		if (!end || *end)
			continue;
		then = mktime(&tm);
		if (then == (time_t)-1)
			return false;
		*ret = (int64_t)then * 1000;
		return true;
	}
	return false;
}

int since_ms(const char *text, int64_t now_ms, int64_t *ret, struct err *e)
{
	if ((args_integer(text, ret) && *ret >= 0) || before_now(text, now_ms, ret) || on_the_clock(text, now_ms, ret))
		return 0;
	(void)err_set(e, ERR_BAD_PARAM,
		"--since '%.80s' is neither a number (INCARNATION-N) nor a time (10m, 16:05, 2026-11-30 16:05)", text);
	return err_about(e, "since", -1);
}

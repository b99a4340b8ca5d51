/* SPDX-License-Identifier: MIT
 *
 * Builds the text of a path from its end, so that no length need be known. */
#include "daemon/host/state/path.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *path_text(const struct path *p, char to[STATE_REPORT_PATH])
{
	char text[STATE_REPORT_PATH], part[96], key[64];
	size_t at = sizeof text - 1, n;

	text[at] = '\0';
	for (; p != NULL; p = p->up) {
		if (p->key != NULL) {
			text_clean(key, sizeof key, p->key, (size_t)p->key_bytes);
			n = (size_t)snprintf(part, sizeof part, "[%s]", key);
		} else if (p->name == NULL && p->index == PATH_ANY)
			n = (size_t)snprintf(part, sizeof part, "[]");
		else if (p->name == NULL)
			n = (size_t)snprintf(part, sizeof part, "[%llu]", (unsigned long long)p->index);
		else
			n = (size_t)snprintf(part, sizeof part, "%s%.80s", p->up != NULL ? "." : "", p->name);
		if (n > at)
			break;
		at -= n;
		memcpy(text + at, part, n);
	}
	memcpy(to, text + at, sizeof text - at);
	return to;
}

int path_fail(const struct path *p, struct err *e, const char *format, ...)
{
	char where[STATE_REPORT_PATH], why[320];
	va_list ap;

	va_start(ap, format);
	vsnprintf(why, sizeof why, format, ap);
	va_end(ap);
	path_text(p, where);
	err_set(e, ERR_STATE_MISMATCH, "%s%s%s", where, where[0] != '\0' ? ": " : "", why);
	return err_about(e, where, -1);
}

/* SPDX-License-Identifier: MIT
 *
 * docs/PROTOCOL.md and docs/CONFIGURATION.md against the tables they describe. With SANDBOXD_WRITE_DOCS=1 the methods and errors of
 * the first are written anew instead of compared; what is written below the table of a method stays. Runs in the top folder of the tree. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "proto/config.h"
#include "proto/err.h"
#include "proto/methods.h"
#include "tests/support/check_main.h"

#define PROTOCOL      "docs/PROTOCOL.md"
#define CONFIGURATION "docs/CONFIGURATION.md"

static char *document(const char *path)
{
	FILE *f = fopen(path, "r");
	static char text[1 << 20];
	size_t n;

	ck_assert_msg(f, "%s is missing (tests run in the top folder)", path);
	n = fread(text, 1, sizeof text - 1, f);
	(void)fclose(f);
	text[n] = '\0';
	return text;
}

/* ---- what the tables say ---- */

static void write_kind(struct buf *b, const struct method_param *p)
{
	switch (p->kind) {
	case PARAM_TEXT:
		if (p->min > 0)
			buf_printf(b, "text, %" PRId64 " to %" PRId64 " bytes", p->min, p->max);
		else
			buf_printf(b, "text, at most %" PRId64 " bytes", p->max);
		return;
	case PARAM_INTEGER:
		buf_printf(b, "integer, %" PRId64 " to %" PRId64, p->min, p->max);
		return;
	case PARAM_CHOICE:
		buf_add_text(b, "one of `");
		for (const char *at = p->choices; *at; at++)
			if (*at == '|')
				buf_add_text(b, "`, `");
			else
				buf_add_char(b, *at);
		buf_add_char(b, '`');
		return;
	case PARAM_BASE64:
		buf_printf(b, "base64, at most %" PRId64 " bytes", p->max);
		return;
	case PARAM_ID:
	case PARAM_BOOL:
	case PARAM_OBJECT:
	case PARAM_ANY:
	case PARAM_SHA256:
	case PARAM_SOURCE_NAME:
	case PARAM_FUNCTION:
		buf_add_text(b, param_kind_text(p->kind));
		return;
	}
}

/* What somebody wrote below the table of a method: from there to the next heading of `page`, which has size bytes. */
static void write_prose(struct buf *b, const char *page, size_t size, const char *name)
{
	const char *at, *end;
	char heading[80];

	(void)snprintf(heading, sizeof heading, "\n### `%s`\n", name);
	at = memmem(page, size, heading, strlen(heading));
	if (!at)
		return;
	at += strlen(heading);
	end = memmem(at, (size_t)(page + size - at), "\n### ", 5);
	end = end ? end : page + size - 1;
	for (bool in_head = true; in_head && at < end;) { /* a blank line, the sentence, a blank line, the table */
		const char *newline = memchr(at, '\n', (size_t)(end - at)), *line_end = newline ? newline : end;

		in_head = *at == '\n' || *at == '|' || memmem(at, (size_t)(line_end - at), " Right: ", 8);
		if (in_head)
			at = newline ? newline + 1 : end;
	}
	if (at < end) {
		buf_add_char(b, '\n');
		buf_add(b, at, (size_t)(end - at));
		if (end[-1] != '\n')
			buf_add_char(b, '\n');
	}
}

static void write_methods(struct buf *b, const char *page, size_t size)
{
	static const char *const rights[] = { [RIGHT_ANY] = "any client", [RIGHT_OPERATOR] = "operator", [RIGHT_ADMIN] = "administrator" };

	for (size_t i = 0; i < METHOD__N; i++) {
		const struct method *m = &methods[i];

		ck_assert_msg(m->name && m->help && m->result, "row %zu of the method table is empty", i);
		buf_printf(b, "\n### `%s`\n\n%s Right: %s. Result: `%s`.\n", m->name, m->help, rights[m->right], m->result);
		if (method_n_params(m) > 0)
			buf_add_text(b, "\n| parameter | kind | | meaning |\n|---|---|---|---|\n");
		for (size_t j = 0; j < method_n_params(m); j++) {
			buf_printf(b, "| `%s` | ", m->params[j].name);
			write_kind(b, &m->params[j]);
			buf_printf(b, " | %s | %s |\n", m->params[j].required ? "required" : "", m->params[j].help);
		}
		write_prose(b, page, size, m->name);
	}
	buf_add_char(b, '\n');
}

static void write_errors(struct buf *b)
{
	for (int code = 1; code < ERR__N; code++)
		buf_printf(b, "| `%s` | %d | %d | %s |\n", err_code_text((enum err_code)code), (int)err_code_number((enum err_code)code),
			err_code_exit((enum err_code)code), err_code_hint((enum err_code)code));
}

/* ---- what the page says ---- */

/* The part of the page behind `begin`, up to `end` (NULL: the end of the page). */
static void part(const char *page, const char *begin, const char *end, const char **ret_at, size_t *ret_size)
{
	const char *at = strstr(page, begin), *stop;

	ck_assert_msg(at, PROTOCOL " has no '%s'", begin);
	at += strlen(begin);
	stop = end ? strstr(at, end) : at + strlen(at);
	ck_assert_msg(stop, PROTOCOL " has no '%s' behind '%s'", end, begin);
	*ret_at = at;
	*ret_size = (size_t)(stop - at);
}

static void same(const char *what, const char *at, size_t size, struct buf *wanted)
{
	const char *w = buf_text(wanted), *end = at + size;

	for (int line = 1; *w || at < end; line++) {
		size_t n = strcspn(w, "\n"), m = 0;

		while (at + m < end && at[m] != '\n')
			m++;
		ck_assert_msg(n == m && memcmp(w, at, n) == 0,
			PROTOCOL ", %s, line %d differs from the table (SANDBOXD_WRITE_DOCS=1 writes it anew):\n  page:  %.*s\n  table: %.*s", what,
			line, (int)m, at, (int)n, w);
		w += n + (w[n] != '\0');
		at += m + (at + m < end);
	}
}

static const char methods_begin[] = "\n## Methods\n", methods_end[] = "## Errors\n",
		  errors_begin[] = "| `data.code` | number | exit | what to do |\n|---|---|---|---|\n";

START_TEST(methods_and_errors)
{
	const char *page = document(PROTOCOL), *m, *x;
	struct buf methods_text = BUF_INIT, errors_text = BUF_INIT;
	size_t m_size, x_size;

	part(page, methods_begin, methods_end, &m, &m_size);
	part(page, errors_begin, NULL, &x, &x_size);
	write_methods(&methods_text, m, m_size);
	write_errors(&errors_text);
	if (getenv("SANDBOXD_WRITE_DOCS")) {
		FILE *f = fopen(PROTOCOL, "w");

		ck_assert_ptr_nonnull(f);
		(void)fprintf(f, "%.*s%s%.*s%s", (int)(m - page), page, buf_text(&methods_text), (int)(x - (m + m_size)), m + m_size,
			buf_text(&errors_text));
		ck_assert_int_eq(fclose(f), 0);
	} else {
		same("methods", m, m_size, &methods_text);
		same("errors", x, x_size, &errors_text);
	}
	buf_fini(&methods_text);
	buf_fini(&errors_text);
}
END_TEST

/* Each key has its row, and each row of the table of keys is one. */
START_TEST(configuration_keys)
{
	const char *names[128], *page = document(CONFIGURATION);
	size_t n = config_keys(names, 128), n_rows = 0;
	char row[64];

	ck_assert_uint_lt(n, 128);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(row, sizeof row, "\n| `%s` |", names[i]);
		ck_assert_msg(strstr(page, row), CONFIGURATION " doesn't explain the key %s", names[i]);
	}
	for (const char *at = page; (at = strstr(at, "\n| `")); at++)
		n_rows++;
	ck_assert_uint_eq(n_rows, n);
}
END_TEST

CHECK_MAIN("documents", tcase_add_test(tc, methods_and_errors); tcase_add_test(tc, configuration_keys));

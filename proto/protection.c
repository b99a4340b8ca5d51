/* SPDX-License-Identifier: MIT
 *
 * Names and sets of protections. */
#include "proto/protection.h"

#include <string.h>

#include "proto/names.h"

static const struct {
	const char *name, *by;
} rows[] = {
#define X(name, text, by, from, without) [PROTECTION_##name] = { text, by },
#include "proto/protection.def"
#undef X
};
_Static_assert(sizeof rows / sizeof *rows == PROTECTION__N, "a row for each protection");

const char *protection_name(enum protection p)
{
	return (unsigned)p < PROTECTION__N ? rows[p].name : "";
}

const char *protection_by(enum protection p)
{
	return (unsigned)p < PROTECTION__N ? rows[p].by : "";
}

static int word_parse(const char *word, size_t size, uint64_t *bits, struct err *e)
{
	const char *names[PROTECTION__N];
	char text[48] = "";
	int near;

	for (size_t i = 0; i < size && i + 1 < sizeof text; i++)
		text[i] = word[i] == '-' ? ' ' : word[i];
	for (int i = 0; i < PROTECTION__N; i++) {
		names[i] = rows[i].name;
		if (strcmp(text, rows[i].name) == 0) {
			*bits |= PROTECTION_BIT(i);
			return 0;
		}
	}
	near = name_nearest(text, names, PROTECTION__N);
	if (near >= 0)
		return err_set(e, ERR_BAD_PARAM, "no protection is called '%s'; is '%s' meant?", text, names[near]);
	return err_set(e, ERR_BAD_PARAM, "no protection is called '%s': `sandboxctl info` shows the names", text);
}

int protection_set_parse(const char *text, uint64_t *ret_bits, struct err *e)
{
	uint64_t bits = 0;

	for (;;) {
		size_t size = strcspn(text, ",");

		if (word_parse(text, size, &bits, e) < 0)
			return -1;
		if (text[size] == '\0')
			break;
		text += size + 1;
	}
	*ret_bits = bits;
	return 0;
}

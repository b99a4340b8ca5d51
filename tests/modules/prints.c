/* SPDX-License-Identifier: MIT
 *
 * A module that prints: whole lines, floods, lines without an end, on stdout and stderr. */
#include <stdio.h>

#include "sandbox_module.h"

struct prints { int64_t lines; };
SBX_STATE(prints, struct prints, SBX_FIELD(lines));

static FILE *stream(struct sbx *x)
{
	return strcmp(sbx_arg_str(x, "to"), "stderr") == 0 ? stderr : stdout;
}

static int line(struct sbx *x, void *self)
{
	struct prints *p = self;

	fprintf(stream(x), "%s\n", sbx_arg_str(x, "text"));
	return sbx_put_i64(x, "lines", ++p->lines);
}

/* No newline, no flush of its own. */
static int partial(struct sbx *x, void *self)
{
	(void)self;
	fprintf(stream(x), "%s", sbx_arg_str(x, "text"));
	return 0;
}

static int flood(struct sbx *x, void *self)
{
	struct prints *p = self;
	int64_t n = sbx_arg_i64(x, "lines");

	for (int64_t i = 0; i < n; i++)
		fprintf(stream(x), "flood line %lld ....................................................................\n", (long long)i);
	p->lines += n;
	return sbx_put_i64(x, "lines", p->lines);
}

/* One endless line. */
static int river(struct sbx *x, void *self)
{
	FILE *to = stream(x);

	(void)self;
	for (int64_t n = sbx_arg_i64(x, "bytes"); n > 0; n--)
		fputc('~', to);
	return 0;
}

SBX_MODULE(prints, 1, SBX_USES(prints), SBX_FN(line, "text: str, to: str = \"stdout\""), SBX_FN(partial, "text: str, to: str = \"stdout\""),
	SBX_FN(flood, "lines: i64, to: str = \"stdout\""), SBX_FN(river, "bytes: i64, to: str = \"stdout\""));

/* SPDX-License-Identifier: MIT
 *
 * The parameters of every method. The first byte chooses the method, then each parameter is given a value: a good one of its
 * kind, one at its edge, one of another kind, or bytes of the input's own. */
#include "tests/fuzz/front.h"

#include <inttypes.h>

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char *const values[] = {
	"null", "true", "false", "0", "1", "-1", "1.5", "\"\"", "\"7\"", "\"a\"", "{}", "[]", "{\"a\":1}", "\"" SHA "\"", "\"x.c\"",
	"\"low\"", "\"a b\"", "\"\\u0061\"", "\"../x\"", "\"AAAA\"", "\"AAA=\"", "9007199254740992", "\"9223372036854775807\"",
	"\"-9223372036854775808\"", "[{\"a\":[1,2]}]",
};
#define N_VALUES (sizeof values / sizeof values[0])

static void put_edge(struct buf *b, const struct method_param *p, uint8_t which)
{
	const int64_t edges[] = { p->min, p->max, p->min - (p->min > INT64_MIN), p->max + (p->max < INT64_MAX) };

	buf_printf(b, which & 0x10 ? "\"%" PRId64 "\"" : "%" PRId64, edges[which % 4]);
}

static void put_good(struct buf *b, const struct method_param *p)
{
	switch (p->kind) {
	case PARAM_ID:
	case PARAM_FUNCTION:
	case PARAM_TEXT:
		buf_add_text(b, "\"abc\"");
		return;
	case PARAM_INTEGER:
		buf_printf(b, "%" PRId64, p->min);
		return;
	case PARAM_BOOL:
		buf_add_text(b, "true");
		return;
	case PARAM_CHOICE:
		buf_printf(b, "\"%.*s\"", (int)strcspn(p->choices, "|"), p->choices);
		return;
	case PARAM_OBJECT:
	case PARAM_ANY:
		buf_add_text(b, "{\"k\":[1]}");
		return;
	case PARAM_SHA256:
		buf_add_text(b, "\"" SHA "\"");
		return;
	case PARAM_SOURCE_NAME:
		buf_add_text(b, "\"m.c\"");
		return;
	case PARAM_BASE64:
		buf_add_text(b, "\"AAECAw==\"");
		return;
	}
}

static void put_value(struct buf *b, const struct method_param *p, struct fuzz_in *in)
{
	uint8_t how = fuzz_u8(in);
	size_t n;

	switch (how % 6) {
	case 0:
		buf_add_text(b, values[how / 6 % N_VALUES]);
		return;
	case 1:
		put_edge(b, p, how);
		return;
	case 2: /* a text of the input's bytes, also bad ones */
		n = fuzz_u8(in) % 80;
		n = n < in->left ? n : in->left;
		buf_add_char(b, '"');
		buf_add(b, in->at, n);
		buf_add_char(b, '"');
		in->at += n;
		in->left -= n;
		return;
	case 3: /* a text of a length */
		buf_add_char(b, '"');
		for (n = fuzz_u16(in) % 5000; n > 0; n--)
			buf_add_char(b, 'a');
		buf_add_char(b, '"');
		return;
	default:
		put_good(b, p);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	const struct method *m = &methods[fuzz_u8(&in) % METHOD__N];
	uint8_t how = fuzz_u8(&in);
	uint32_t given = fuzz_u32(&in);
	struct buf b = BUF_INIT;
	bool comma = false;

	buf_printf(&b, "{\"jsonrpc\":\"2.0\"%s,\"method\":\"%s\",\"params\":{", how & 1 ? "" : ",\"id\":\"q\"", m->name);
	for (size_t i = 0; i < method_n_params(m); i++) {
		if (!m->params[i].required == !(given >> i & 1)) /* required ones are there unless the bit says no */
			continue;
		buf_printf(&b, "%s\"%s\":", comma ? "," : "", m->params[i].name);
		put_value(&b, &m->params[i], &in);
		comma = true;
	}
	if (how & 2)
		buf_printf(&b, "%s\"%.*s\":1", comma ? "," : "", how >> 4, "intensityx");
	buf_add_text(&b, "}}");
	FUZZ_MUST(!b.failed);
	front_line(b.data, b.size, how & 4 ? RIGHTS_OPERATOR : RIGHTS_ADMIN, how & 8);
	buf_fini(&b);
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * rpc.discover: an OpenRPC document that agrees with the tables, whose references lead somewhere. tests/clients holds the wire against it. */
#include "daemon/front/discover.h"

#include <string.h>

#include "proto/json_scan.h"
#include "proto/methods.h"
#include "tests/support/check_main.h"

static struct buf text;

static struct json_span document(void)
{
	struct err e = ERR_INIT;

	buf_clear(&text);
	discover_write(&text);
	ck_assert(!text.failed);
	ck_assert_msg(json_check(text.data, text.size, &e) == 0, "%s at %lld", e.text, (long long)e.offset);
	ck_assert_ptr_null(memchr(text.data, '\n', text.size));
	return (struct json_span){ text.data, text.size };
}

static struct json_span at(struct json_span array, size_t index)
{
	struct json_span key, value;

	for (struct json_iter it = json_iter_begin(array); json_iter_next(&it, &key, &value); index--)
		if (index == 0)
			return value;
	return (struct json_span){ 0 };
}

static size_t count(struct json_span container)
{
	struct json_span key, value;
	size_t n = 0;

	for (struct json_iter it = json_iter_begin(container); json_iter_next(&it, &key, &value);)
		n++;
	return n;
}

START_TEST(its_frame)
{
	struct json_span d = document(), info = json_get(d, "info");

	ck_assert(json_string_is(json_get(d, "openrpc"), "1.3.2"));
	ck_assert(json_string_is(json_get(info, "title"), "sandboxd"));
	ck_assert(json_type(json_get(info, "version")) == '"');
	ck_assert_uint_eq(count(json_get(d, "methods")), METHOD__N);
	ck_assert_uint_eq(count(json_get(json_get(d, "components"), "errors")), ERR__N - 1);
}
END_TEST

START_TEST(each_method)
{
	struct json_span d = document(), all = json_get(d, "methods");

	for (size_t i = 0; i < METHOD__N; i++) {
		const struct method *m = &methods[i];
		struct json_span got = at(all, i), params = json_get(got, "params");

		ck_assert_msg(json_string_is(json_get(got, "name"), m->name), "%s", m->name);
		ck_assert(json_string_is(json_get(got, "summary"), m->help));
		ck_assert(json_string_is(json_get(got, "paramStructure"), "by-name"));
		ck_assert_uint_eq(count(params), method_n_params(m));
		/* every method says what its result has: a row of its own in the table of results */
		ck_assert_msg(json_get(json_get(json_get(got, "result"), "schema"), "properties").at ||
				json_get(json_get(json_get(got, "result"), "schema"), "$ref").at,
			"%s has no schema of its result", m->name);
		for (size_t j = 0; j < method_n_params(m); j++) {
			struct json_span p = at(params, j);
			bool required = !m->params[j].required;

			ck_assert(json_string_is(json_get(p, "name"), m->params[j].name));
			ck_assert(json_bool(json_get(p, "required"), &required));
			ck_assert_int_eq(required, m->params[j].required);
			ck_assert(json_type(json_get(p, "schema")) == '{');
		}
	}
}
END_TEST

/* Every "$ref" names something below components. */
START_TEST(references_lead_somewhere)
{
	struct json_span components = json_get(document(), "components");
	size_t n = 0;

	for (const char *found = buf_text(&text); (found = strstr(found, "\"$ref\":\"#/components/")); n++) {
		char kind[16], name[64];
		const char *slash;
		size_t size;

		found += strlen("\"$ref\":\"#/components/");
		slash = strchr(found, '/');
		size = strcspn(slash + 1, "\"");
		ck_assert((size_t)(slash - found) < sizeof kind && size < sizeof name);
		memcpy(kind, found, (size_t)(slash - found));
		kind[slash - found] = '\0';
		memcpy(name, slash + 1, size);
		name[size] = '\0';
		ck_assert_msg(json_type(json_get(json_get(components, kind), name)) == '{', "%s/%s", kind, name);
	}
	ck_assert_uint_gt(n, 100);
}
END_TEST

/* The parts of the short texts, as they come out. */
START_TEST(schemas_of_results)
{
	struct json_span d = document(), schemas = json_get(json_get(d, "components"), "schemas");
	struct json_span box = json_get(schemas, "sandbox"), members = json_get(box, "properties");

	ck_assert(json_string_is(json_get(json_get(members, "id"), "type"), "string"));
	ck_assert(json_string_is(json_get(at(json_get(json_get(members, "pid"), "anyOf"), 0), "type"), "null"));
	ck_assert(json_string_is(json_get(at(json_get(json_get(members, "pid"), "anyOf"), 1), "type"), "integer"));
	ck_assert(json_string_is(json_get(json_get(json_get(members, "versions"), "items"), "$ref"), "#/components/schemas/version"));
	ck_assert(json_string_is(at(json_get(box, "required"), 0), "id"));
	ck_assert_uint_eq(count(json_get(box, "required")) + 1, count(members)); /* compiler alone may be missing */
	ck_assert(json_type(json_get(members, "compiler")) == '{');
}
END_TEST

START_TEST(bounds_of_parameters)
{
	struct json_span d = document(), call, params, timeout;
	uint64_t n = 0;

	call = at(json_get(d, "methods"), METHOD_SANDBOX_CALL);
	params = json_get(call, "params");
	timeout = at(json_get(json_get(at(params, 3), "schema"), "anyOf"), 0);
	ck_assert(json_string_is(json_get(at(params, 3), "name"), "timeout_ms"));
	ck_assert(json_u64(json_get(timeout, "maximum"), &n));
	ck_assert_uint_eq(n, 86400000);
	ck_assert(json_u64(json_get(timeout, "minimum"), &n));
	ck_assert_uint_eq(n, 1);
	/* a bound is always a number, also of a parameter that takes 64 bits */
	ck_assert_ptr_null(strstr(buf_text(&text), "\"maximum\":\""));
	ck_assert_ptr_null(strstr(buf_text(&text), "\"minimum\":\""));
	buf_fini(&text);
}
END_TEST

CHECK_MAIN("discover", tcase_add_test(tc, its_frame); tcase_add_test(tc, each_method); tcase_add_test(tc, references_lead_somewhere);
	tcase_add_test(tc, schemas_of_results); tcase_add_test(tc, bounds_of_parameters));

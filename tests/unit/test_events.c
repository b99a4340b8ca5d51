/* SPDX-License-Identifier: MIT
 *
 * The event stream: numbers, gaps, who sees what, pages, events that are too large. */
#include "tests/support/check_main.h"

#include <stdio.h>
#include <string.h>

#include "daemon/observe/events.h"
#include "proto/limits.h"

struct query {
	const char *since_seq, *sandbox, *type;
	bool is_admin, is_newest;
	uid_t uid;
	unsigned limit;
	int64_t since_ms;
};
#define ADMIN { .is_admin = true, .limit = 100000 }

static struct buf answer;

static void take_answer(struct events_read *rd)
{
	struct json_out o = json_out_to(&answer);

	json_out_object(&o, NULL);
	events_read_json(rd, &o);
	json_out_object_end(&o);
	buf_fini(&rd->items);
}

static int ask_err(struct events *ev, struct query q, struct err *e)
{
	static struct events_read rd;

	buf_fini(&answer);
	rd = (struct events_read){ .filter = { .is_admin = q.is_admin, .uid = q.uid, .since_ms = q.since_ms }, .limit = q.limit,
		.is_newest = q.is_newest, .done = take_answer };
	(void)snprintf(rd.filter.sandbox, sizeof(rd.filter.sandbox), "%s", q.sandbox ? q.sandbox : "");
	(void)snprintf(rd.filter.type, sizeof(rd.filter.type), "%s", q.type ? q.type : "");
	return events_read_begin(ev, &rd, q.since_seq, e);
}

/* The reply, checked to be one line of JSON; lives until the next call. */
static struct json_span ask(struct events *ev, struct query q)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(ask_err(ev, q, &e), 0);
	ck_assert(answer.size > 0 && !answer.failed);
	ck_assert_msg(json_check(answer.data, answer.size, &e) == 0, "%s", e.text);
	return (struct json_span){ answer.data, answer.size };
}

static unsigned count_of(struct json_span reply)
{
	struct json_iter it = json_iter_begin(json_get(reply, "events"));
	struct json_span key, value;
	unsigned n = 0;

	while (json_iter_next(&it, &key, &value))
		n++;
	return n;
}

static struct json_span nth(struct json_span reply, unsigned n)
{
	struct json_iter it = json_iter_begin(json_get(reply, "events"));
	struct json_span key, value = { 0 };

	for (unsigned i = 0; i <= n; i++)
		ck_assert(json_iter_next(&it, &key, &value));
	return value;
}

static void expect(struct json_span reply, unsigned count, const char *next, bool gap)
{
	bool is;

	ck_assert_msg(count_of(reply) == count && json_string_is(json_get(reply, "next"), next), "%u events, %.*s",
		count_of(reply), (int)json_get(reply, "next").size, json_get(reply, "next").at);
	ck_assert(json_bool(json_get(reply, "gap"), &is));
	ck_assert_int_eq(is, gap);
}

START_TEST(events_are_numbered_in_order)
{
	struct events *ev = events_new(77);
	struct json_span reply;
	struct json_out *o;
	int64_t at;

	expect(ask(ev, (struct query)ADMIN), 0, "77-0", false);
	events_add(ev, "started", "web", 1000, NULL, NULL);
	events_add(ev, "died", "web", 1000, "reason", "a \"quoted\"\nreason");
	o = events_begin(ev, "daemon_ready", NULL, 0);
	json_out_u64(o, "sandboxes", 3);
	events_end(ev);
	reply = ask(ev, (struct query)ADMIN);
	expect(reply, 3, "77-3", false);
	ck_assert(json_string_is(json_get(nth(reply, 0), "seq"), "77-1"));
	ck_assert(json_string_is(json_get(nth(reply, 0), "type"), "started"));
	ck_assert(json_string_is(json_get(nth(reply, 0), "sandbox"), "web"));
	ck_assert(json_i64(json_get(nth(reply, 0), "owner"), &at) && at == 1000);
	ck_assert(json_i64(json_get(nth(reply, 0), "at"), &at) && at > 1600000000000ll);
	ck_assert(json_string_is(json_get(nth(reply, 1), "reason"), "a \"quoted\"\nreason"));
	ck_assert(json_string_is(json_get(nth(reply, 2), "seq"), "77-3"));
	ck_assert_int_eq(json_type(json_get(nth(reply, 2), "sandbox")), '0');
	ck_assert_int_eq(json_type(json_get(nth(reply, 2), "owner")), '0');
	ck_assert(json_i64(json_get(nth(reply, 2), "sandboxes"), &at) && at == 3);
	ck_assert_ptr_null(events_free(ev));
	ck_assert_ptr_null(events_free(NULL));
}
END_TEST

START_TEST(reading_goes_on_where_it_stopped)
{
	struct events *ev = events_new(5);

	for (unsigned i = 0; i < 10; i++)
		events_add(ev, "x", "web", 1, NULL, NULL);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 4 }), 4, "5-4", false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 4, .since_seq = "5-4" }), 4, "5-8", false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 4, .since_seq = "5-8" }), 2, "5-10", false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 4, .since_seq = "5-10" }), 0, "5-10", false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 0, .since_seq = "5-8" }), 0, "5-8", false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9, .since_seq = "5-0" }), 9, "5-9", false);
	events_free(ev);
}
END_TEST

START_TEST(a_wrapped_ring_says_gap)
{
	struct events *ev = events_new(5);
	char seq[40];

	for (unsigned i = 0; i < LIMIT_EVENTS + 10; i++)
		events_add(ev, "x", "web", 1, NULL, NULL);
	(void)snprintf(seq, sizeof(seq), "5-%d", LIMIT_EVENTS + 10);
	expect(ask(ev, (struct query)ADMIN), LIMIT_EVENTS, seq, false); /* from the oldest: as asked */
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 100000, .since_seq = "5-9" }), LIMIT_EVENTS, seq, true);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 100000, .since_seq = "5-10" }), LIMIT_EVENTS, seq, false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 100000, .since_seq = "5-11" }), LIMIT_EVENTS - 1, seq, false);
	events_free(ev);
}
END_TEST

START_TEST(another_incarnation_says_gap)
{
	struct events *ev = events_new(5);

	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9, .since_seq = "4-17" }), 0, "5-0", true);
	events_add(ev, "x", "web", 1, NULL, NULL);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9, .since_seq = "4-17" }), 1, "5-1", true);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9, .since_seq = "6-0" }), 1, "5-1", true);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9, .since_seq = "5-2" }), 1, "5-1", true); /* not yet */
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9,
		.since_seq = "18446744073709551615-18446744073709551615" }), 1, "5-1", true);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9, .since_seq = "5-18446744073709551615" }), 1, "5-1", true);
	events_free(ev);
}
END_TEST

static const char *const bad_numbers[] = { "", "-", "5", "5-", "-1", "5-1-", "5-1 ", " 5-1", "+5-1", "5--1", "05-1", "5-01",
	"5-0x1", "a-b", "5-18446744073709551616", "18446744073709551616-1", "99999999999999999999999999-1", "5-1\n" };

START_TEST(a_bad_number_is_a_bad_parameter)
{
	struct events *ev = events_new(5);
	struct query q = { .is_admin = true, .limit = 9, .since_seq = bad_numbers[_i] };
	struct err e = ERR_INIT;

	events_add(ev, "x", "web", 1, NULL, NULL);
	ck_assert_int_eq(ask_err(ev, q, &e), -1);
	ck_assert_int_eq(e.code, ERR_BAD_PARAM);
	ck_assert_str_eq(e.name, "since_seq");
	ck_assert_uint_eq(answer.size, 0); /* `done` wasn't called */
	events_free(ev);
}
END_TEST

START_TEST(owners_see_their_own)
{
	struct events *ev = events_new(9);

	events_add(ev, "x", "web", 1000, NULL, NULL);
	events_add(ev, "x", "web", 1001, NULL, NULL); /* the id was free again, and someone else took it */
	events_add(ev, "x", "db", 1000, NULL, NULL);
	events_add(ev, "x", NULL, 1000, NULL, NULL);  /* the daemon's own, whatever uid it runs as */
	expect(ask(ev, (struct query){ .uid = 1000, .limit = 9 }), 2, "9-4", false);
	expect(ask(ev, (struct query){ .uid = 1001, .limit = 9 }), 1, "9-4", false);
	expect(ask(ev, (struct query){ .uid = 0, .limit = 9 }), 0, "9-4", false);
	expect(ask(ev, (struct query){ .uid = 1000, .limit = 9, .sandbox = "web" }), 1, "9-4", false);
	expect(ask(ev, (struct query){ .uid = 1000, .limit = 9, .sandbox = "nothing" }), 0, "9-4", false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9 }), 4, "9-4", false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9, .sandbox = "web" }), 2, "9-4", false);
	expect(ask(ev, (struct query){ .uid = 1000, .limit = 1 }), 1, "9-1", false);
	expect(ask(ev, (struct query){ .uid = 1000, .limit = 1, .since_seq = "9-1" }), 1, "9-3", false);
	events_free(ev);
}
END_TEST

START_TEST(what_does_not_fit_is_replaced)
{
	struct events *ev = events_new(1);
	char *huge = malloc(100001);
	struct json_span reply;
	struct json_out *o;
	bool is = false;

	memset(huge, 'x', 100000);
	huge[100000] = '\0';
	events_add(ev, "big", "web", 1, "text", huge);
	o = events_begin(ev, "many", "web", 1);
	json_out_array(o, "items");
	for (unsigned i = 0; i < 5000; i++)
		json_out_u64(o, NULL, i);
	json_out_array_end(o);
	json_out_text(o, "after", "text");
	events_end(ev);
	huge[7000] = '\0';
	events_add(ev, huge, "a-name-much-longer-than-any-id-may-be-a-name-much-longer-than-any-id-may-be", 1, "text", huge);
	reply = ask(ev, (struct query)ADMIN);
	expect(reply, 3, "1-3", false);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert(json_bool(json_get(nth(reply, i), "truncated"), &is) && is);
		ck_assert_ptr_null(json_get(nth(reply, i), "text").at);
		ck_assert_ptr_null(json_get(nth(reply, i), "items").at);
		ck_assert_ptr_nonnull(json_get(nth(reply, i), "seq").at);
	}
	ck_assert_int_eq((int)json_get(nth(reply, 2), "text").size, 7002);
	ck_assert_ptr_null(json_get(nth(reply, 2), "truncated").at);
	free(huge);
	events_free(ev);
}
END_TEST

/* 4096 of the largest events: the oldest go by size, a reader gets them in pages, and nothing is told twice or left out. */
START_TEST(large_events_come_in_pages_and_are_bounded)
{
	struct events *ev = events_new(3);
	char *text = malloc(8001), since[64];
	unsigned pages = 0, events = 0;
	struct json_span reply;

	memset(text, 'x', 8000);
	text[8000] = '\0';
	for (unsigned i = 0; i < LIMIT_EVENTS; i++)
		events_add(ev, "big", "web", 1, "text", text);
	reply = ask(ev, (struct query)ADMIN);
	do {
		ck_assert_uint_gt(count_of(reply), 0);
		ck_assert_uint_le(reply.size, LIMIT_EVENTS_PAGE_BYTES + 200);
		events += count_of(reply);
		pages++;
		ck_assert_int_gt((int)json_string(json_get(reply, "next"), since, sizeof(since)), 0);
		reply = ask(ev, (struct query){ .is_admin = true, .limit = 100000, .since_seq = since });
	} while (count_of(reply) > 0);
	expect(reply, 0, "3-4096", false);
	ck_assert_uint_ge(pages, 4);
	ck_assert_uint_le(events, LIMIT_EVENTS_BYTES / 8000);
	ck_assert_uint_gt(events, LIMIT_EVENTS_BYTES / 9000);
	free(text);
	buf_fini(&answer);
	events_free(ev);
}
END_TEST

START_TEST(filters)
{
	struct events *ev = events_new(9);

	events_add(ev, "reload.began", "web", 1, NULL, NULL);
	events_add(ev, "reload.ended", "web", 1, NULL, NULL);
	events_add(ev, "reload", "web", 1, NULL, NULL);
	events_add(ev, "reloads", "db", 1, NULL, NULL);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9, .type = "reload." }), 2, "9-4", false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9, .type = "reload" }), 1, "9-4", false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9, .type = "reload.e" }), 0, "9-4", false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9, .since_ms = INT64_MAX / 2 }), 0, "9-4", false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 9, .since_ms = 1 }), 4, "9-4", false);
	events_free(ev);
}
END_TEST

START_TEST(the_newest)
{
	struct events *ev = events_new(9);
	struct json_span reply;

	for (unsigned i = 0; i < 20; i++)
		events_add(ev, i % 2 ? "odd" : "even", "web", 1, NULL, NULL);
	reply = ask(ev, (struct query){ .is_admin = true, .limit = 3, .is_newest = true, .type = "even" });
	expect(reply, 3, "9-20", false);
	ck_assert(json_string_is(json_get(nth(reply, 0), "seq"), "9-15"));
	ck_assert(json_string_is(json_get(nth(reply, 2), "seq"), "9-19"));
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 0, .is_newest = true }), 0, "9-20", false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 0 }), 0, "9-20", false);
	expect(ask(ev, (struct query){ .is_admin = true, .limit = 99, .is_newest = true }), 20, "9-20", false);
	events_free(ev);
}
END_TEST

static unsigned n_heard;

static void hear(void *ctx, const struct event_head *head, const char *json, size_t size)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(json_check(json, size, &e), 0);
	ck_assert_str_eq(head->type, "x");
	ck_assert_str_eq(head->sandbox, "web");
	ck_assert_uint_eq(head->seq.n, ++n_heard);
	ck_assert_ptr_eq(ctx, &n_heard);
}

START_TEST(a_listener_hears_each)
{
	struct events *ev = events_new(9);

	events_listen(ev, hear, &n_heard);
	for (unsigned i = 0; i < 5; i++)
		events_add(ev, "x", "web", 1, NULL, NULL);
	ck_assert_uint_eq(n_heard, 5);
	events_free(ev);
}
END_TEST

CHECK_MAIN("events",
	tcase_add_test(tc, filters);
	tcase_add_test(tc, the_newest);
	tcase_add_test(tc, a_listener_hears_each);
	tcase_add_test(tc, events_are_numbered_in_order);
	tcase_add_test(tc, reading_goes_on_where_it_stopped);
	tcase_add_test(tc, a_wrapped_ring_says_gap);
	tcase_add_test(tc, another_incarnation_says_gap);
	tcase_add_loop_test(tc, a_bad_number_is_a_bad_parameter, 0, (int)(sizeof(bad_numbers) / sizeof(bad_numbers[0])));
	tcase_add_test(tc, owners_see_their_own);
	tcase_add_test(tc, what_does_not_fit_is_replaced);
	tcase_add_test(tc, large_events_come_in_pages_and_are_bounded))

/* SPDX-License-Identifier: MIT
 *
 * The history of versions: random lives of a sandbox beside what must hold after each step, save and load, and what an earlier program
 * has kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/reload/versions.h"
#include "tests/support/check_main.h"

#define STEPS 200000

static void name_object(struct version *v, unsigned object)
{
	memset(v, 0, sizeof *v);
	(void)snprintf(v->sha256, sizeof v->sha256, "%064x", object);
	v->bytes = object;
	v->state_version = 1;
}

/* As text, from save or from list. */
static char *text_of(const struct versions *v)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	char *text;

	json_out_object(&o, NULL);
	versions_save(v, &o, "versions");
	json_out_object_end(&o);
	ck_assert(!b.failed);
	text = strdup(buf_text(&b));
	buf_fini(&b);
	return text;
}

static void load(struct versions *v, const char *json)
{
	struct json_span top = { json, strlen(json) };
	struct err e = ERR_INIT;

	ck_assert_int_eq(json_check(json, strlen(json), NULL), 0);
	ck_assert_msg(versions_load(v, json_get(top, "versions"), &e) == 0, "%s", e.text);
}

static void holds(const struct versions *v, uint32_t keep)
{
	unsigned currents = 0;

	ck_assert_uint_le(v->n, keep);
	for (size_t i = 0; i < v->n; i++) {
		const struct version *item = &v->items[i];
		const char *status = versions_status(v, item);

		ck_assert(item->number >= 1 && item->number <= v->last_number);
		ck_assert(i == 0 || item->number > v->items[i - 1].number);
		currents += item->number == v->current;
		ck_assert_int_eq(item->number == v->current, strcmp(status, "current") == 0 || strcmp(status, "probation") == 0);
		ck_assert(!item->quarantined || item->number != v->current);
		ck_assert_int_eq(item->quarantined, strcmp(status, "quarantined") == 0);
		ck_assert(strcmp(status, "good") != 0 || item->number == v->previous);
	}
	ck_assert_uint_eq(currents, v->current != 0);
}

START_TEST(random_lives)
{
	struct versions v = { .keep = (uint32_t)_i };
	uint32_t keep = _i >= 2 && _i < LIMIT_VERSIONS ? (uint32_t)_i : LIMIT_VERSIONS;

	srandom((unsigned)_i + 1);
	for (int step = 0; step < STEPS / 10; step++) {
		uint32_t before = v.current, last = v.last_number, got;
		struct version candidate;

		switch (random() % 4) {
		case 0:
		case 1:
			name_object(&candidate, (unsigned)(random() % 14));
			got = versions_commit(&v, &candidate, step);
			ck_assert_uint_eq(got, v.current);
			ck_assert(v.last_number == last || (v.last_number == last + 1 && got == v.last_number)); /* never used twice */
			ck_assert_str_eq(versions_current(&v)->sha256, candidate.sha256);
			/* where a rollback, or a fault, leads back to is there */
			ck_assert(got == before || before == 0 || versions_find(&v, before));
			ck_assert(got == before || v.previous == before);
			v.on_probation = got != before && before != 0 && random() % 2;
			if (v.on_probation && random() % 2) {
				uint32_t bad = v.current;

				versions_fault(&v);
				versions_return(&v, before, "signal SIGSEGV", step);
				ck_assert_uint_eq(v.current, before);
				ck_assert(versions_find(&v, bad)->quarantined && versions_find(&v, bad)->faults > 0 && !v.on_probation);
				ck_assert_uint_eq(v.previous, 0);
			}
			break;
		case 2:
			versions_return(&v, v.last_number + 1, "nowhere", step); /* not in the history: nothing happens */
			versions_return(&v, v.current, "itself", step);
			ck_assert_uint_eq(v.current, before);
			break;
		default: {
			struct versions again = { .keep = v.keep };
			char *one = text_of(&v), *two;

			load(&again, one);
			two = text_of(&again);
			ck_assert_str_eq(one, two);
			ck_assert(!again.on_probation);
			free(one);
			free(two);
		}
		}
		holds(&v, keep);
	}
}
END_TEST

START_TEST(kept_by_an_earlier_program)
{
	char json[1024], sha[SHA256_HEX_BYTES + 1];
	struct versions v = { 0 };

	(void)snprintf(sha, sizeof sha, "%064x", 7);
	(void)snprintf(json, sizeof json,
		"{\"versions\":{\"last_number\":3,\"current\":3,\"previous\":0,\"items\":[{\"version\":3,\"sha256\":\"%s\",\"bytes\":5,"
		"\"state_version\":1,\"loaded_at\":9,\"loads\":2,\"author\":0,\"origin\":\"object\"}]}}",
		sha);
	load(&v, json);
	ck_assert_uint_eq(v.items[0].faults, 0);
	ck_assert_int_eq(v.items[0].first_loaded_at_ms, 0);
	ck_assert(!v.items[0].quarantined);
	ck_assert_str_eq(versions_status(&v, &v.items[0]), "current");
	v.on_probation = true;
	ck_assert_str_eq(versions_status(&v, &v.items[0]), "probation");
}
END_TEST

START_TEST(quarantine_ends_with_the_next_commit)
{
	struct versions v = { 0 };
	struct version a, b;

	name_object(&a, 1);
	name_object(&b, 2);
	(void)versions_commit(&v, &a, 10);
	(void)versions_commit(&v, &b, 20);
	versions_return(&v, 1, "signal SIGABRT", 30);
	ck_assert_str_eq(versions_find(&v, 2)->quarantined_why, "signal SIGABRT");
	ck_assert_int_eq(versions_find(&v, 1)->first_loaded_at_ms, 10);
	ck_assert_int_eq(versions_find(&v, 1)->loaded_at_ms, 30);
	ck_assert_uint_eq(versions_find(&v, 1)->loads, 2);
	(void)versions_commit(&v, &b, 40); /* forced */
	ck_assert(!versions_find(&v, 2)->quarantined);
	ck_assert_uint_eq(v.previous, 1);
}
END_TEST

START_TEST(figures)
{
	struct version_figures more = { .calls = 7, .failures = 2, .uptime_ms = 1500, .crashes = 1 };
	struct versions v = { 0 }, again = { 0 };
	struct version a, b;
	char *text, *text_again;

	versions_account(&v, &more); /* before the first: nobody's */
	name_object(&a, 1);
	name_object(&b, 2);
	(void)versions_commit(&v, &a, 10);
	versions_account(&v, &more);
	(void)versions_commit(&v, &b, 20);
	versions_note_reload(&v, false, 300, 40);
	versions_account(&v, &more);
	versions_account(&v, &more);
	versions_note_failed(&v, 1);
	versions_note_failed(&v, 0);
	(void)versions_commit(&v, &a, 30);
	versions_note_reload(&v, true, 500, 60);
	ck_assert_uint_eq(versions_find(&v, 1)->figures.calls, 7);
	ck_assert_uint_eq(versions_find(&v, 1)->figures.refused, 1);
	ck_assert_uint_eq(versions_find(&v, 1)->figures.rollbacks, 1);
	ck_assert_uint_eq(versions_find(&v, 1)->figures.pause_us, 500);
	ck_assert_uint_eq(versions_find(&v, 2)->figures.failures, 4);
	ck_assert_uint_eq(versions_find(&v, 2)->figures.uptime_ms, 3000);
	ck_assert_uint_eq(versions_find(&v, 2)->figures.state_bytes, 40);
	ck_assert_uint_eq(v.reloads, 2);
	ck_assert_uint_eq(v.failed_reloads, 2);
	ck_assert_uint_eq(v.rollbacks, 1);
	text = text_of(&v);
	load(&again, text);
	text_again = text_of(&again);
	ck_assert_str_eq(text, text_again);
	free(text);
	free(text_again);
}
END_TEST

CHECK_MAIN("versions", tcase_add_test(tc, figures); tcase_add_loop_test(tc, random_lives, 0, 12); tcase_add_test(tc, kept_by_an_earlier_program);
	   tcase_add_test(tc, quarantine_ends_with_the_next_commit);)

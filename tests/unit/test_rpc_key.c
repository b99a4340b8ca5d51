/* SPDX-License-Identifier: MIT
 *
 * Keyed requests without a loop: who runs, who waits, what is kept, what a successor makes of what it finds. The handlers keep
 * the requests; the tests answer them. */
#include "daemon/front/rpc_key.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/front/rpc_peer.h"
#include "proto/clock.h"
#include "tests/support/check_main.h"

static struct control control;
static struct rpc_user user;
static struct rpc_peer peer;
static struct rpc_request *kept[16];
static size_t n_kept;
static int memory = -1;
static enum rpc_key_fate fate;
static bool refuses;

static const struct rpc_done *handle(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;

	(void)c;
	if (refuses) {
		err_set(&e, ERR_NOT_FOUND, "not there");
		return rpc_error(r, &e, NULL);
	}
	ck_assert_uint_lt(n_kept, 16);
	kept[n_kept++] = r;
	return rpc_pending(r);
}

rpc_handler *const rpc_handlers[METHOD__N] = {
	[METHOD_SANDBOX_CALL] = handle, [METHOD_SANDBOX_STOP] = handle, [METHOD_SANDBOX_RELOAD] = handle,
	[METHOD_REQUEST_OUTCOME] = request_outcome,
};

static uint64_t before(struct control *c, const struct outcome *row)
{
	(void)c;
	return row->method == METHOD_SANDBOX_RELOAD ? 42 : 0;
}

static enum rpc_key_fate resolve(struct control *c, const struct outcome *row, struct buf *to)
{
	(void)c;
	ck_assert(row->method != METHOD_SANDBOX_RELOAD || row->before == 42);
	if (fate == RPC_KEY_RESULT)
		buf_add_text(to, "{\"found\":true}");
	if (fate == RPC_KEY_ERROR)
		buf_add_text(to, "{\"code\":-32042,\"message\":\"m\",\"data\":{\"code\":\"crashed\"}}");
	return fate;
}

static const struct rpc_key_owner owner = { before, resolve };

static void open_keys(void)
{
	struct err e = ERR_INIT;

	ck_assert_msg(rpc_keys_open(&control, dup(memory), &owner, &control.keys, &e) == 0, "%s", e.text);
}

static void begin(void)
{
	memory = memfd_create("outcomes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(memory, LIMIT_OUTCOMES_BYTES), 0);
	ck_assert_int_eq(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	control = (struct control){ .begin = { .daemon_uid = 990 } };
	user = (struct rpc_user){ .uid = 1000 };
	n_kept = 0;
	refuses = false;
	fate = RPC_KEY_UNDECIDED;
	rpc_peer_init(&peer, 7, &user, RIGHTS_OPERATOR, NULL);
	open_keys();
}

/* The next control: what this one had in its memory is lost; a killed process frees nothing (it is kept here, for a leak checker). */
static void killed(void)
{
	static void *left[64];
	static size_t n_left;

	ck_assert_uint_lt(n_left + n_kept, 64);
	left[n_left++] = control.keys;
	for (size_t i = 0; i < n_kept; i++)
		left[n_left++] = kept[i];
	ck_assert_ptr_nonnull(left[0]);
	buf_fini(&peer.out);
	rpc_peer_init(&peer, 8, &user, RIGHTS_OPERATOR, NULL);
	n_kept = 0;
	open_keys();
}

static void end(void)
{
	rpc_peer_fini(&peer);
	close(memory);
}

static const char *ask(const char *method, const char *params)
{
	char line[512];
	int n = snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s}}", method, params);

	buf_clear(&peer.out);
	rpc_line(&control, &peer, line, (size_t)n);
	return buf_text(&peer.out);
}

#define CALL(key) ask("sandbox.call", "\"id\":\"a\",\"function\":\"f\",\"request_key\":\"" key "\"")
#define OUTCOME(key) ask("request.outcome", "\"request_key\":\"" key "\"")

static void result(size_t i, const char *json)
{
	(void)rpc_result_raw(kept[i], json, strlen(json));
}

static void answer_error(size_t i, enum err_code code)
{
	struct err e = ERR_INIT;

	err_set(&e, code, "as the test wants");
	(void)rpc_error(kept[i], &e, NULL);
}

static size_t n_replies(const char *what)
{
	size_t n = 0;

	for (const char *at = buf_text(&peer.out); (at = strstr(at, what)); at++)
		n++;
	return n;
}

START_TEST(one_runs_and_all_get_its_answer)
{
	begin();
	(void)CALL("k");
	rpc_key_sent(kept[0], 5);
	(void)CALL("k");
	(void)CALL("k");
	ck_assert_uint_eq(n_kept, 1);
	ck_assert_ptr_nonnull(strstr(OUTCOME("k"), "\"state\":\"running\""));
	ck_assert_uint_eq(peer.in_flight, 3);
	buf_clear(&peer.out);
	result(0, "{\"n\":1}");
	ck_assert_uint_eq(n_replies("\"result\":{\"n\":1}"), 3);
	ck_assert_uint_eq(peer.in_flight, 0);
	ck_assert_ptr_nonnull(strstr(CALL("k"), "\"result\":{\"n\":1}"));
	ck_assert_uint_eq(n_kept, 1);
	end();
}
END_TEST

/* What wasn't begun after all: the next in line has its try, from the tick and not from inside the answer. */
START_TEST(the_next_one_tries)
{
	begin();
	(void)CALL("k");
	(void)CALL("k");
	(void)CALL("k");
	buf_clear(&peer.out);
	answer_error(0, ERR_BUSY); /* never sent: number 0 */
	ck_assert_uint_eq(n_replies("\"busy\""), 1);
	ck_assert_uint_eq(n_kept, 1);
	rpc_keys_tick(control.keys, clock_monotonic_ms());
	ck_assert_uint_eq(n_kept, 2); /* the second runs, the third waits for it */
	rpc_key_sent(kept[1], 6);
	buf_clear(&peer.out);
	result(1, "7");
	ck_assert_uint_eq(n_replies("\"result\":7"), 2);
	end();
}
END_TEST

START_TEST(refusals_leave_nothing)
{
	begin();
	refuses = true;
	ck_assert_ptr_nonnull(strstr(CALL("k"), "not_found"));
	ck_assert_ptr_nonnull(strstr(OUTCOME("k"), "\"state\":\"unknown\""));
	refuses = false;
	(void)ask("sandbox.stop", "\"id\":\"a\",\"request_key\":\"k\"");
	rpc_key_not_begun(kept[0]);
	answer_error(0, ERR_WRONG_STATE);
	ck_assert_ptr_nonnull(strstr(OUTCOME("k"), "\"state\":\"unknown\""));
	(void)ask("sandbox.stop", "\"id\":\"a\",\"request_key\":\"k\"");
	answer_error(1, ERR_WRONG_STATE); /* begun, and failed: that is what it came to */
	ck_assert_ptr_nonnull(strstr(OUTCOME("k"), "\"state\":\"done\""));
	ck_assert_ptr_nonnull(strstr(ask("sandbox.stop", "\"request_key\":\"k\",\"id\":\"a\""), "\"wrong_state\""));
	ck_assert_ptr_nonnull(strstr(ask("sandbox.stop", "\"request_key\":\"k\",\"id\":\"b\""), "\"bad_param\""));
	end();
}
END_TEST

START_TEST(waiting_ends_in_time)
{
	begin();
	(void)CALL("k");
	rpc_key_sent(kept[0], 5);
	(void)ask("sandbox.call", "\"id\":\"a\",\"function\":\"f\",\"request_key\":\"k\",\"timeout_ms\":1000");
	rpc_keys_tick(control.keys, clock_monotonic_ms() + 900);
	ck_assert_str_eq(buf_text(&peer.out), "");
	rpc_keys_tick(control.keys, clock_monotonic_ms() + 1100);
	ck_assert_uint_eq(n_replies("\"timeout\""), 1);
	ck_assert_ptr_nonnull(strstr(OUTCOME("k"), "\"state\":\"running\""));
	result(0, "1");
	end();
}
END_TEST

/* Answered before its time, and still counted for whoever asks. */
START_TEST(early_answers)
{
	struct err e = ERR_INIT;
	struct rpc_request *r;

	begin();
	(void)CALL("k");
	rpc_key_sent(kept[0], 5);
	err_set(&e, ERR_TIMEOUT, "too slow");
	r = rpc_error_early(kept[0], &e, NULL);
	ck_assert_ptr_eq(r, kept[0]);
	ck_assert(rpc_is_gone(r));
	ck_assert_uint_eq(n_replies("\"timeout\""), 1);
	ck_assert_uint_eq(peer.in_flight, 0);
	result(0, "8");
	ck_assert_ptr_nonnull(strstr(OUTCOME("k"), "\"result\":8"));
	(void)ask("sandbox.call", "\"id\":\"a\",\"function\":\"f\"");
	ck_assert_ptr_null(rpc_error_early(kept[1], &e, NULL)); /* without a key there is nothing more to say */
	end();
}
END_TEST

static void never_told(void *ctx, struct rpc_request *r)
{
	(void)ctx;
	(void)r;
	ck_abort_msg("one with a key goes on without its client");
}

START_TEST(a_client_that_goes)
{
	begin();
	(void)CALL("k");
	rpc_key_sent(kept[0], 5);
	rpc_on_gone(kept[0], never_told, NULL);
	(void)CALL("k");
	rpc_peer_fini(&peer);
	rpc_peer_init(&peer, 9, &user, RIGHTS_OPERATOR, NULL);
	result(0, "9");
	ck_assert_str_eq(buf_text(&peer.out), "");
	ck_assert_ptr_nonnull(strstr(OUTCOME("k"), "\"result\":9"));
	end();
}
END_TEST

START_TEST(a_successor_adopts_calls)
{
	struct rpc_request *r;
	const char *function;
	uint64_t number;

	begin();
	(void)CALL("sent");
	rpc_key_sent(kept[0], 5);
	(void)CALL("queued");
	(void)CALL("done");
	rpc_key_sent(kept[2], 6);
	result(2, "6");
	killed();
	ck_assert_ptr_nonnull(strstr(OUTCOME("queued"), "\"state\":\"unknown\""));
	ck_assert_ptr_nonnull(strstr(OUTCOME("done"), "\"result\":6"));
	ck_assert_ptr_null(rpc_key_adopt(&control, "another", &number, &function));
	r = rpc_key_adopt(&control, "a", &number, &function);
	ck_assert_ptr_nonnull(r);
	ck_assert_uint_eq(number, 5);
	ck_assert_str_eq(function, "f");
	ck_assert_ptr_null(rpc_key_adopt(&control, "a", &number, &function));
	(void)CALL("sent");
	ck_assert_uint_eq(n_kept, 0); /* it waits */
	(void)rpc_result_raw(r, "5", 1);
	ck_assert_uint_eq(n_replies("\"result\":5"), 1);
	end();
}
END_TEST

START_TEST(a_successor_decides)
{
	begin();
	(void)ask("sandbox.reload", "\"id\":\"a\",\"request_key\":\"r\",\"object\":\"0000000000000000000000000000000000000000000000000000000000000000\"");
	(void)ask("sandbox.stop", "\"id\":\"a\",\"request_key\":\"s\"");
	killed();
	rpc_keys_settle(control.keys);
	ck_assert_ptr_nonnull(strstr(OUTCOME("r"), "\"state\":\"running\""));
	(void)ask("sandbox.stop", "\"id\":\"a\",\"request_key\":\"s\""); /* waits for what another process began */
	ck_assert_uint_eq(n_kept, 0);
	fate = RPC_KEY_RESULT;
	buf_clear(&peer.out);
	rpc_keys_settle(control.keys);
	ck_assert_uint_eq(n_replies("{\"found\":true}"), 1);
	ck_assert_ptr_nonnull(strstr(OUTCOME("r"), "{\"found\":true}"));

	fate = RPC_KEY_UNDECIDED;
	(void)ask("sandbox.stop", "\"id\":\"c\",\"request_key\":\"u\"");
	killed();
	(void)ask("sandbox.stop", "\"id\":\"c\",\"request_key\":\"u\""); /* waits; nobody else asks, and nobody tells */
	rpc_keys_tick(control.keys, clock_monotonic_ms());
	ck_assert_uint_eq(n_kept, 0);
	fate = RPC_KEY_NOT_BEGUN;
	rpc_keys_tick(control.keys, clock_monotonic_ms());
	ck_assert_uint_eq(n_kept, 1); /* it runs itself */
	result(0, "7");

	(void)ask("sandbox.stop", "\"id\":\"b\",\"request_key\":\"t\"");
	killed();
	fate = RPC_KEY_NOT_BEGUN;
	(void)ask("sandbox.stop", "\"id\":\"b\",\"request_key\":\"t\""); /* so it may run now */
	ck_assert_uint_eq(n_kept, 1);
	killed();
	fate = RPC_KEY_ERROR;
	ck_assert_ptr_nonnull(strstr(OUTCOME("t"), "\"error\":{\"code\":-32042"));
	ck_assert_ptr_nonnull(strstr(ask("sandbox.stop", "\"id\":\"b\",\"request_key\":\"t\""), "\"error\":{\"code\":-32042"));
	end();
}
END_TEST

START_TEST(without_a_table)
{
	struct rpc_keys *keys;

	begin();
	keys = control.keys;
	control.keys = NULL;
	ck_assert_ptr_nonnull(strstr(CALL("k"), "\"unavailable\""));
	ck_assert_ptr_nonnull(strstr(OUTCOME("k"), "\"unknown\""));
	(void)ask("sandbox.call", "\"id\":\"a\",\"function\":\"f\"");
	ck_assert_uint_eq(n_kept, 1);
	result(0, "1");
	control.keys = keys;
	end();
}
END_TEST

CHECK_MAIN("rpc_key", tcase_add_test(tc, one_runs_and_all_get_its_answer); tcase_add_test(tc, the_next_one_tries);
	tcase_add_test(tc, refusals_leave_nothing); tcase_add_test(tc, waiting_ends_in_time); tcase_add_test(tc, early_answers);
	tcase_add_test(tc, a_client_that_goes); tcase_add_test(tc, a_successor_adopts_calls); tcase_add_test(tc, a_successor_decides);
	tcase_add_test(tc, without_a_table));

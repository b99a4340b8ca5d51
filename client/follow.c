/* SPDX-License-Identifier: MIT
 *
 * SIGINT ends the program with 0, wherever it is: what was shown has been flushed. */
#include "client/follow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/argjson.h"
#include "proto/clock.h"

#define AGAIN_MS    200
#define GIVE_UP_MS  60000
#define SAY_AFTER_MS 2000

static void interrupted(int number)
{
	(void)number;
	_exit(0);
}

void follow_seq(struct follow *f, struct json_span seq)
{
	if (json_string(seq, f->seq, sizeof(f->seq)) < 0)
		f->seq[0] = '\0';
}

/* ---- requests ---- */

static bool is_in(const char *const *names, struct json_span key)
{
	for (; *names; names++)
		if (json_string_is(key, *names))
			return true;
	return false;
}

/* What the options give, without some, and with others. */
static int write_params(struct follow *f, const char *seq, struct buf *to, struct err *e)
{
	struct json_out o = json_out_to(to);
	struct buf given = BUF_INIT;
	struct json_out g = json_out_to(&given);
	struct json_span key, value;
	struct json_iter it;
	int r;

	json_out_object(&g, NULL);
	r = argjson_write(&g, f->s->args, f->without[0], e);
	json_out_object_end(&g);
	json_out_object(&o, NULL);
	it = json_iter_begin((struct json_span){ buf_text(&given), given.size });
	while (r == 0 && json_iter_next(&it, &key, &value))
		if (!is_in(f->without, key)) {
			json_out_key_n(&o, key.at + 1, key.size - 2);
			json_out_raw(&o, NULL, value.at, value.size);
		}
	if (r == 0)
		r = f->members(f, seq, &o, e);
	json_out_object_end(&o);
	to->failed = to->failed || given.failed;
	buf_fini(&given);
	return r;
}

static int request(struct follow *f, const char *seq, struct rpcclient_reply *ret, struct err *e)
{
	struct buf params = BUF_INIT;
	int r = write_params(f, seq, &params, e);

	*ret = (struct rpcclient_reply){ 0 };
	if (r == 0)
		r = ctl_try(f->s, &params, ret, e);
	buf_fini(&params);
	return r;
}

int follow_request(struct follow *f, const char *seq, struct rpcclient_reply *ret)
{
	struct err e = ERR_INIT;
	int status;

	if (request(f, seq, ret, &e) == 0)
		return 0;
	status = ctl_fail(f->s, &e, ret->error);
	rpcclient_reply_fini(ret);
	return status;
}

/* ---- the connection ---- */

/* true: whoever reads our output has gone. */
static bool pause_between(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	return poll(&out, 1, AGAIN_MS) > 0 && (out.revents & (POLLERR | POLLNVAL));
}

static bool may_pass(const struct err *e)
{
	return e->code == ERR_UNREACHABLE || e->code == ERR_TIMEOUT || e->code == ERR_SHUTTING_DOWN;
}

/* Connects anew, behind the last one shown. -1: over, *ret_status says how. */
static int resume(struct follow *f, struct rpcclient_reply *ret, int *ret_status)
{
	int64_t begin = clock_monotonic_ms();
	bool said = false;
	struct err e = ERR_INIT;

	for (;;) {
		int64_t now = clock_monotonic_ms();

		rpcclient_fini(&f->s->rpc);
		rpcclient_init(&f->s->rpc);
		if (request(f, f->seq[0] ? f->seq : NULL, ret, &e) == 0)
			return 0;
		if (!may_pass(&e) || now - begin > GIVE_UP_MS) {
			*ret_status = ctl_fail(f->s, &e, ret->error);
			rpcclient_reply_fini(ret);
			return -1;
		}
		rpcclient_reply_fini(ret);
		if (!said && now - begin > SAY_AFTER_MS) {
			(void)fputs("sandboxctl: the connection is lost; trying again\n", stderr);
			said = true;
		}
		if (pause_between()) {
			*ret_status = 0;
			return -1;
		}
	}
}

/* Notifications until something ends them. 1: the connection is lost, 0: over. */
static int listen_on(struct follow *f)
{
	struct rpcclient_reply note;
	struct err e = ERR_INIT;
	int r;

	while (!f->is_over) {
		if (fflush(stdout) == EOF || ferror(stdout)) {
			clearerr(stdout);
			return 0;
		}
		r = rpcclient_next(&f->s->rpc, STDOUT_FILENO, &note, &e);
		if (r == 0)
			return 0;
		if (r == -1)
			return 1;
		f->note(f, note.result);
		rpcclient_reply_fini(&note);
	}
	return 0;
}

int follow_run(struct follow *f)
{
	struct sigaction a = { .sa_handler = interrupted };
	struct rpcclient_reply r;
	int status = follow_request(f, NULL, &r);

	if (status != 0)
		return status;
	(void)sigaction(SIGINT, &a, NULL);
	a.sa_handler = SIG_IGN;
	(void)sigaction(SIGPIPE, &a, NULL);
	for (;;) {
		f->page(f, r.result);
		rpcclient_reply_fini(&r);
		if (listen_on(f) == 0)
			return 0;
		if (resume(f, &r, &status) == -1)
			return status;
	}
}

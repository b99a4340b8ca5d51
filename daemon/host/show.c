/* SPDX-License-Identifier: MIT
 *
 * The handler of HOST_SHOW, and what its copy does. A check is the proof that a reload rests on: what is saved, restored into a new
 * instance of the same code and saved again must be the same bytes. */
#include "daemon/host/show.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/host/rehearse.h"
#include "daemon/host/serve.h"
#include "daemon/host/state/show.h"
#include "daemon/host/state/state.h"
#include "proto/fd.h"
#include "proto/seldom.h"

static int map_sealed(int fd, const void **ret, uint64_t *ret_size, struct err *e)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st) < 0 || st.st_size <= 0 || !fd_is_memfd_sealed(fd))
		return err_set(e, ERR_STATE_MISMATCH, "the state isn't a sealed memfd");
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return err_sys(e, ERR_LIMIT_EXCEEDED, "cannot map a state of %lld bytes", (long long)st.st_size);
	*ret = p;
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

/* Where the time left of timers stands: it goes on. Both have it at one place, or the bytes differ before it. */
static void find_timers(const void *blob, uint64_t size, uint64_t *ret_from, uint64_t *ret_to)
{
	struct state_blob b = { 0 };
	struct err ignored = ERR_INIT;

	*ret_from = *ret_to = 0;
	if (state_blob_open(blob, size, &b, &ignored) != 0)
		return;
	if (b.timers) {
		*ret_from = (uint64_t)(b.timers - (const uint8_t *)blob);
		*ret_to = *ret_from + b.timers_bytes;
	}
	state_blob_close(&b);
}

static int check(struct host *h, const void *blob, uint64_t size, struct json_out *o, struct err *e)
{
	static SELDOM_WRITTEN struct state_report report;
	struct code again = { .desc = h->now.desc };
	uint64_t size_again = 0, at = 0, from, to;
	const unsigned char *a = blob, *b;

	death_running("make");
	if (instance_new(again.desc, &again.instance, e) < 0 || code_restore(&again, blob, size, (struct json_span){ 0 }, false, &report, e) < 0)
		return -1;
	death_running("save again");
	b = rehearse_save(again.instance, &size_again, e);
	if (!b)
		return -1;
	find_timers(blob, size, &from, &to);
	while (at < size && at < size_again && (a[at] == b[at] || (at >= from && at < to)))
		at++;
	json_out_u64(o, "state_bytes", size);
	json_out_bool(o, "same", at == size && size == size_again);
	if (at < size || size != size_again) {
		json_out_u64(o, "state_bytes_again", size_again);
		json_out_u64(o, "differs_at", at);
	}
	state_report_json(&report, o, "report");
	return 0;
}

static int run(const struct show *s, struct json_out *o, struct err *e)
{
	const void *blob = NULL;
	uint64_t size = 0;

	death_running("save");
	if (s->state_fd < 0)
		blob = rehearse_save(s->host->now.instance, &size, e);
	else if (map_sealed(s->state_fd, &blob, &size, e) < 0)
		return -1;
	if (!blob)
		return -1;
	death_running("show");
	switch (s->what) {
	case SHOW_STATE:
		return state_show(blob, size, o, e);
	case SHOW_SCHEMA:
		return state_show_schema(blob, size, o, e);
	case SHOW_CHECK:
		return check(s->host, blob, size, o, e);
	case SHOW__N:
		break;
	}
	return -1;
}

void show_run(void *ctx, struct copy_answer *answer)
{
	struct json_out o = json_out_to(&answer->body);
	struct err e = ERR_INIT;
	int rc;

	json_out_object(&o, NULL);
	rc = run(ctx, &o, &e);
	json_out_object_end(&o);
	if (rc == 0 && answer->body.failed)
		rc = err_set(&e, ERR_REPLY_TOO_LARGE, "the answer exceeds %u bytes", LIMIT_BODY_BYTES);
	if (rc == 0 && json_check_within(answer->body.data, answer->body.size, LIMIT_REPLY_DEPTH, &e) != 0) /* the same key twice in what `save` wrote */
		rc = -1;
	if (rc == 0)
		return;
	answer->status = 1;
	buf_fini(&answer->body);
	buf_init(&answer->body, LIMIT_BODY_BYTES);
	host_error_body(&answer->body, &e, NULL);
}

static void answer_error(struct host *h, const struct err *e, const char *step)
{
	struct buf body = BUF_INIT;
	struct err copy = *e;

	if (copy.code == ERR_RELOAD_FAILED) /* no copy can be made, or it ended without a word */
		copy.code = ERR_WRONG_STATE;
	host_error_body(&body, &copy, step);
	host_post(h, HOST_SHOWN, h->showing_number, 1, 0, &body);
	buf_fini(&body);
}

void show_serve(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	struct show s = { .host = h, .what = (enum show_what)head->value[0], .state_fd = state_fd };
	struct err e = ERR_INIT;

	(void)body;
	if (head->value[0] < 0 || head->value[0] >= SHOW__N)
		death_end(HOST_EXIT_CONTRACT, "SHOW of what there isn't");
	copy_kill(&h->showing); /* a new control's; nobody waits for the one before */
	h->showing_number = head->number;
	if (copy_start(&h->showing, DEFAULT_REHEARSE_TIMEOUT_MS, show_run, &s, state_fd, &e) < 0)
		answer_error(h, &e, "copy");
}

void show_progress(struct host *h, int64_t now_us)
{
	char step[LIMIT_FUNCTION_BYTES + 1];
	struct copy_answer answer;
	struct err e = ERR_INIT;

	if (!copy_progress(&h->showing, now_us))
		return;
	if (copy_finish(&h->showing, &answer, step, &e) < 0)
		answer_error(h, &e, step);
	else
		host_post(h, HOST_SHOWN, h->showing_number, answer.status, 0, &answer.body);
	buf_fini(&answer.body);
}

/* SPDX-License-Identifier: MIT
 *
 * A rehearsal is the whole of a reload on a copy: save, load beside the old code, restore, migrate, check,
 * save again. Nothing is cleaned up on the way: the copy ends right after its answer, and the kernel cleans. */
#include "daemon/host/rehearse.h"

#include <sys/mman.h>

#include "daemon/host/mirror.h"
#include "proto/clock.h"
#include "proto/seldom.h"

static void answer_error(struct copy_answer *answer, const struct err *e, const char *step)
{
	answer->status = 1;
	buf_clear(&answer->body);
	host_error_body(&answer->body, e, step);
}

void *rehearse_save(struct module_instance *m, uint64_t *ret_size, struct err *e)
{
	struct err counting = ERR_INIT;
	uint64_t size = 0, again = 0;
	void *memory;

	if (instance_save(m, NULL, 0, &size, &counting) < 0 && counting.code != ERR_LIMIT_EXCEEDED) {
		*e = counting;
		return NULL;
	}
	if (size == 0 || size > LIMIT_STATE_BYTES) {
		err_set(e, ERR_LIMIT_EXCEEDED, "a state has 1 to %llu bytes, not %llu",
			(unsigned long long)LIMIT_STATE_BYTES, (unsigned long long)size);
		return NULL;
	}
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		err_sys(e, ERR_LIMIT_EXCEEDED, "no memory for a state of %llu bytes",
			(unsigned long long)size);
		return NULL;
	}
	if (instance_save(m, memory, size, &again, e) < 0)
		return NULL;
	if (again != size) {
		err_set(e, ERR_STATE_MISMATCH, "two saves of one state differ in size");
		return NULL;
	}
	*ret_size = size;
	return memory;
}

void rehearse_run(void *ctx, struct copy_answer *answer)
{
	static SELDOM_WRITTEN struct state_report report;
	const struct rehearse *r = ctx;
	struct json_out o = json_out_to(&answer->body);
	struct code candidate = { 0 };
	struct err e = ERR_INIT;
	uint64_t size = 0, size_after = 0;
	int64_t began;
	void *blob;

	death_running("save");
	blob = r->state_fd < 0 ? rehearse_save(r->host->now.instance, &size, &e) : NULL;
	if (!blob && r->state_fd < 0) {
		answer_error(answer, &e, "save");
		return;
	}
	if (code_load(&candidate, r->serial, r->path, &e) < 0 || code_replaces(&candidate, &r->host->now, &e) < 0 ||
		(blob ? code_restore(&candidate, blob, size, r->patch, r->backwards, &report, &e) :
			code_restore_fd(&candidate, r->state_fd, NULL, r->patch, r->backwards, &report, &e)) < 0) {
		answer_error(answer, &e, candidate.step);
		return;
	}
	death_running("save again");
	began = clock_monotonic_us();
	if (!rehearse_save(candidate.instance, &size_after, &e)) {
		answer_error(answer, &e, "save again");
		return;
	}
	if (mirror_accepts(r->host, candidate.instance, &e) < 0) {
		answer_error(answer, &e, "checkpoint");
		return;
	}
	if (!blob) { /* what the save of the present state will need, so far as it can be told */
		struct err ignored = ERR_INIT;

		(void)instance_save(r->host->now.instance, NULL, 0, &size, &ignored);
	}
	json_out_object(&o, NULL);
	json_out_u64(&o, "state_bytes", size > 0 ? size : size_after);
	json_out_i64(&o, "save_us", clock_monotonic_us() - began);
	code_times_json(&candidate, &report, &o);
	json_out_object_end(&o);
	if (answer->body.failed) {
		err_set(&e, ERR_BAD_MODULE, "the module's description exceeds %u bytes", LIMIT_BODY_BYTES);
		answer_error(answer, &e, "descriptor");
	}
}

struct saving {
	const struct save *s;
	struct err e;
	uint64_t size;
	int rc;
};

static void save_to_map(void *ctx)
{
	struct saving *v = ctx;

	v->rc = instance_save(v->s->host->now.instance, v->s->to, v->s->capacity, &v->size, &v->e);
}

static void answer_saved(const struct saving *v, struct copy_answer *answer)
{
	if (v->rc < 0)
		answer_error(answer, &v->e, "save");
	if (v->rc == 0 || (v->e.code == ERR_LIMIT_EXCEEDED && v->size > v->s->capacity))
		answer->value = (int64_t)v->size;
}

void save_run(void *ctx, struct copy_answer *answer)
{
	struct save *s = ctx;
	struct saving v = { .s = s, .e = ERR_INIT };

	death_running("save");
	s->to = mmap(NULL, s->capacity, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (s->to == MAP_FAILED) {
		err_sys(&v.e, ERR_LIMIT_EXCEEDED, "cannot map %llu bytes for the state",
			(unsigned long long)s->capacity);
		answer_error(answer, &v.e, "save");
		return;
	}
	save_to_map(&v);
	(void)munmap(s->to, s->capacity); /* else it couldn't be sealed */
	answer_saved(&v, answer);
}

bool save_here(struct save *s, struct copy_answer *answer)
{
	struct saving v = { .s = s, .e = ERR_INIT };
	bool whole;

	death_running("save");
	whole = death_guarded(save_to_map, &v);
	death_running("");
	(void)munmap(s->to, s->capacity);
	if (whole)
		answer_saved(&v, answer);
	return whole;
}

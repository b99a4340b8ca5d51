/* SPDX-License-Identifier: MIT
 *
 * Instances: the order of their lives. New: memory, defaults, make. Then either init (first start) or the saved fields,
 * migrate, check. Then calls and saves. At the end unmake, and the arena goes with all that it holds. */
#include "daemon/host/module/instance.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/host/codec/json_cbor.h"
#include "daemon/host/module/context.h"
#include "daemon/host/module/timers.h"
#include "daemon/host/state/state.h"

static int run_hook(struct module_instance *m, enum hook hook, struct err *e)
{
	struct context c;
	int r;

	if (m->desc->hooks[hook] == NULL)
		return 0;
	context_begin(&c, m, hook_text(hook), false);
	r = context_run(&c, m->desc->hooks[hook], e);
	context_end(&c);
	return r;
}

/* ---- birth and death ---- */

static struct arena *prepared; /* for the next instance; NULL: nothing was prepared */

bool instance_prepare(uint64_t bytes)
{
	struct err ignored = ERR_INIT;

	if (bytes == 0) {
		prepared = arena_free(prepared);
		return true;
	}
	if (prepared == NULL)
		prepared = arena_new(context_memory_bytes(), &ignored);
	return prepared != NULL && arena_populate(prepared, bytes);
}

static struct arena *take_arena(struct err *e)
{
	struct arena *a = prepared;

	prepared = NULL;
	if (a != NULL && arena_limit(a) != arena_limit_of(context_memory_bytes())) /* made before anybody said how large it may be */
		a = arena_free(a);
	return a != NULL ? a : arena_new(context_memory_bytes(), e);
}

static int make_self(struct module_instance *m, struct err *e)
{
	uint32_t size = m->desc->self_bytes > 0 ? m->desc->self_bytes : m->desc->schema->structs[0].size;

	m->timers = calloc(m->desc->n_timers + 1u, sizeof *m->timers);
	if (m->timers == NULL)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for an instance of %s", m->desc->name);
	if (size == 0)
		return 0;
	m->self = arena_alloc(m->arena, size);
	if (m->self == NULL)
		return err_set(e, ERR_LIMIT_EXCEEDED, "the state's %u bytes are more than the %llu that an instance may hold", size,
			(unsigned long long)arena_limit(m->arena));
	if (m->desc->self_bytes > 0)
		return 0;
	return schema_set_defaults(m->desc->schema, 0, m->self, m->arena, e);
}

int instance_new(const struct module_desc *d, struct module_instance **ret, struct err *e)
{
	struct module_instance *m = calloc(1, sizeof *m);
	int r = -1;

	if (m == NULL)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for an instance of %s", d->name);
	m->desc = d;
	m->arena = take_arena(e);
	if (m->arena != NULL)
		r = make_self(m, e);
	if (r == 0)
		r = run_hook(m, HOOK_MAKE, e);
	if (r != 0) {
		arena_free(m->arena);
		free(m->timers);
		free(m);
		return -1;
	}
	*ret = m;
	return 0;
}

void instance_free(struct module_instance *m)
{
	struct err ignored = ERR_INIT; /* nobody is left to whom a failing unmake would matter */

	if (m == NULL)
		return;
	(void)run_hook(m, HOOK_UNMAKE, &ignored);
	arena_free(m->arena);
	free(m->timers);
	free(m);
}

/* ---- init ---- */

static int run_init(struct module_instance *m, const struct buf *config, struct err *e)
{
	struct context c;
	int r;

	context_begin(&c, m, hook_text(HOOK_INIT), false);
	c.config = val_source_new(config->data, config->size, NULL);
	r = c.config != NULL ? context_run(&c, m->desc->hooks[HOOK_INIT], e) : err_set(e, ERR_LIMIT_EXCEEDED, "no memory for init");
	context_end(&c);
	return r;
}

int instance_init(struct module_instance *m, const char *config_json, size_t n, struct err *e)
{
	struct buf config;
	uint64_t size;
	int r;

	buf_init(&config, (size_t)LIMIT_BODY_BYTES * 4);
	r = json_to_cbor(n > 0 ? config_json : "{}", n > 0 ? n : 2, &config, e);
	if (r == 0 && (config.size == 0 || (uint8_t)config.data[0] >> 5 != CBOR_MAP))
		r = err_set(e, ERR_BAD_PARAM, "the configuration must be a JSON object");
	if (r == 0 && m->desc->hooks[HOOK_INIT] != NULL)
		r = run_init(m, &config, e);
	buf_fini(&config);
	/* State that couldn't be saved would only be found out when it is too late. */
	return r == 0 ? instance_save(m, NULL, 0, &size, e) : -1;
}

/* ---- calls ---- */

static int bad_reply(const char *function, struct err *e)
{
	bool too_deep = e != NULL && e->code == ERR_TOO_DEEP;

	err_prefix(e, "the reply of %s", function);
	if (e != NULL)
		e->code = ERR_MODULE_ERROR;
	return err_about(e, too_deep ? "too_deep" : "bad_reply", -1);
}

static int reply_to_json(const struct context *c, struct buf *ret_json, struct err *e)
{
	struct buf json;
	struct json_out o = json_out_to(&json);
	int r = 0;

	buf_init(&json, LIMIT_BODY_BYTES);
	if (!c->reply.failed && cbor_to_json(c->reply.data, c->reply.size, &o, NULL, e) != 0)
		r = bad_reply(c->name, e);
	else if (c->reply.failed || json.failed)
		r = err_set(e, ERR_REPLY_TOO_LARGE, "the reply of %s is larger than %u bytes", c->name, LIMIT_BODY_BYTES);
	else if (json_check_within(json.data, json.size, LIMIT_REPLY_DEPTH, e) != 0) /* the same key twice, too deep */
		r = bad_reply(c->name, e);
	if (r == 0) {
		buf_add(ret_json, json.data, json.size);
		if (ret_json->failed)
			r = err_set(e, ERR_REPLY_TOO_LARGE, "the reply of %s is too large", c->name);
	}
	buf_fini(&json);
	return r;
}

/* began (NULL: nobody) hears that the call is in order and begins; ret_json NULL: the reply is dropped. */
static int call_function(struct module_instance *m, const char *function, const char *args_json, size_t n, instance_began *began,
	void *ctx, struct buf *ret_json, struct err *e)
{
	const struct module_function *f = module_desc_function(m->desc, function, e);
	struct context c;
	struct buf args;
	int r;

	if (f == NULL)
		return -1;
	buf_init(&args, (size_t)LIMIT_BODY_BYTES * 4);
	r = signature_check(&f->signature, args_json, n, &args, e);
	if (r == 0) {
		if (began)
			began(ctx);
		context_begin(&c, m, f->name, true);
		c.args = val_source_new(args.data, args.size, NULL);
		r = c.args != NULL ? context_run(&c, f->fn, e) : err_set(e, ERR_LIMIT_EXCEEDED, "no memory for a call");
		if (r == 0 && ret_json)
			r = reply_to_json(&c, ret_json, e);
		context_end(&c);
	}
	buf_fini(&args);
	return r;
}

int instance_call(struct module_instance *m, const char *function, const char *args_json, size_t n, struct buf *ret_json, struct err *e)
{
	return call_function(m, function, args_json, n, NULL, NULL, ret_json, e);
}

int instance_cast(struct module_instance *m, const char *function, const char *args_json, size_t n, instance_began *began, void *ctx,
	struct err *e)
{
	return call_function(m, function, args_json, n, began, ctx, NULL, e);
}

/* ---- state ---- */

/* Own state goes straight into the blob. */
static int run_save(struct module_instance *m, struct cbor_writer *w, struct err *e)
{
	struct context c;
	int r;

	context_begin_save(&c, m, w);
	r = context_run(&c, m->desc->hooks[HOOK_SAVE], e);
	*w = c.w;
	context_end(&c);
	return r;
}

int instance_save(struct module_instance *m, void *to, uint64_t capacity, uint64_t *ret_size, struct err *e)
{
	struct cbor_writer w = to != NULL ? cbor_writer_room(to, capacity) : cbor_writer_count();
	bool own = m->desc->hooks[HOOK_SAVE] != NULL, timers = timers_any(m);

	state_save_head(m->desc->schema, m->desc->state_version, own || timers, &w);
	if (own || timers)
		timers_save(m, &w);
	if (own && run_save(m, &w, e) != 0)
		return -1;
	if (timers && !own)
		cbor_put_null(&w);
	if (state_save(m->desc->schema, m->self, m->arena, &w, e) != 0)
		return -1;
	*ret_size = w.size;
	if (to != NULL && !cbor_writer_fits(&w))
		return err_set(e, ERR_LIMIT_EXCEEDED, "the state needs %llu bytes, and there are %llu", (unsigned long long)w.size,
			(unsigned long long)capacity);
	return 0;
}

bool instance_save_is_ours(const struct module_instance *m)
{
	return m->desc->hooks[HOOK_SAVE] == NULL;
}

/* `restore` or `migrate`: both may read all of the old state. */
static int run_with_old(struct module_instance *m, enum hook hook, const struct state_blob *b, struct err *e)
{
	struct context c;
	int r;

	if (m->desc->hooks[hook] == NULL)
		return 0;
	context_begin(&c, m, hook_text(hook), false);
	c.old = val_source_new(b->data, b->data_bytes, b->schema);
	if (b->own != NULL)
		c.saved = val_source_new(b->own, b->own_bytes, NULL);
	c.old_version = b->version;
	r = c.old != NULL && (b->own == NULL || c.saved != NULL) ? context_run(&c, m->desc->hooks[hook], e)
		: err_set(e, ERR_LIMIT_EXCEEDED, "no memory to %s", hook_text(hook));
	context_end(&c);
	return r;
}

/* What became of the part that only the module can read. */
static int report_own(const struct module_desc *d, const struct state_blob *b, bool backwards, struct state_report *report, struct err *e)
{
	static const char path[] = "(own state)";
	bool reads = d->hooks[HOOK_RESTORE] != NULL;

	if (b->own != NULL)
		state_report_add(report, reads ? STATE_CARRIED : STATE_DROPPED, path, NULL, NULL);
	else if (reads && backwards)
		return err_set(e, ERR_STATE_MISMATCH, "%s: the newer state doesn't have it: a rollback would reset it", path);
	else if (reads)
		state_report_add(report, STATE_ADDED, path, NULL, NULL);
	return 0;
}

int instance_restore(struct module_instance *fresh, const void *blob, uint64_t size, unsigned flags, struct state_report *report,
	struct err *e)
{
	struct state_blob b = { 0 };
	struct plan *plan = NULL;
	int r;

	if (state_blob_open(blob, size, &b, e) != 0)
		return -1;
	if (report != NULL) {
		state_report_clear(report);
		report->from_version = b.version;
		report->to_version = fresh->desc->state_version;
	}
	r = plan_make(b.schema, fresh->desc->schema, (flags & RESTORE_BACKWARDS) != 0, report, &plan, e);
	if (r == 0)
		r = state_restore(plan, &b, fresh->self, fresh->arena, report, e);
	if (r == 0)
		r = report_own(fresh->desc, &b, (flags & RESTORE_BACKWARDS) != 0, report, e);
	if (r == 0)
		r = run_with_old(fresh, HOOK_RESTORE, &b, e);
	if (r == 0)
		r = timers_restore(fresh, b.timers, b.timers_bytes, e);
	if (r == 0 && b.version != fresh->desc->state_version)
		r = run_with_old(fresh, HOOK_MIGRATE, &b, e);
	if (r == 0)
		r = instance_check(fresh, e);
	plan_free(plan);
	state_blob_close(&b);
	return r;
}

int instance_check(struct module_instance *m, struct err *e)
{
	return run_hook(m, HOOK_CHECK, e);
}

int instance_stop(struct module_instance *m, struct err *e)
{
	return run_hook(m, HOOK_STOP, e);
}

/* ---- what others ask ---- */

const struct module_desc *instance_desc(const struct module_instance *m)
{
	return m->desc;
}

uint64_t instance_memory_bytes(const struct module_instance *m)
{
	return arena_used(m->arena);
}

uint64_t instance_extent_bytes(const struct module_instance *m)
{
	return arena_extent(m->arena);
}

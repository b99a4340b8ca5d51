/* SPDX-License-Identifier: MIT
 *
 * The context of a callback and the table of functions that it is given; memory, log and time. Values and replies are in
 * services_value.c and services_reply.c. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/host/module/context.h"
#include "proto/clock.h"

static struct instance_host host;
static const volatile uint32_t no_attention;
static volatile uint64_t own_beat;

void instance_set_host(const struct instance_host *given)
{
	host = *given;
}

uint64_t context_memory_bytes(void)
{
	return host.memory_bytes != 0 ? host.memory_bytes : DEFAULT_MAX_MEMORY_BYTES;
}

/* ---- the end of the process ---- */

static void write_last_word(const char *text)
{
	char line[LIMIT_LAST_WORDS_BYTES];
	int n = snprintf(line, sizeof line, "%s\n", text);
	ssize_t written = write(STDERR_FILENO, line, n < 0 ? 0 : (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);

	(void)written; /* nothing is left to be done about it */
}

void context_die(const struct context *c, const char *format, ...)
{
	char why[256], text[LIMIT_LAST_WORDS_BYTES - 1];
	va_list ap;

	va_start(ap, format);
	vsnprintf(why, sizeof why, format, ap);
	va_end(ap);
	snprintf(text, sizeof text, "module %s in %.63s: %s (it holds %llu of %llu bytes)", c->m->desc->name, c->name, why,
		(unsigned long long)arena_used(c->m->arena), (unsigned long long)arena_limit(c->m->arena));
	if (host.last_word != NULL)
		host.last_word(text);
	else
		write_last_word(text);
	abort();
}

/* ---- failing ---- */

static void fail_with(struct context *c, const char *code, const char *text, uint64_t n)
{
	if (c->failed)
		return;
	c->failed = true;
	text_clean(c->code, sizeof c->code, code, strnlen(code, sizeof c->code));
	text_clean(c->text, sizeof c->text, text, n);
}

void context_fail(struct context *c, const char *code, const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	fail_with(c, code, text, strlen(text));
}

static int service_fail(struct sbx *x, const char *code, const char *message, uint64_t n)
{
	fail_with((struct context *)x, code != NULL && *code != '\0' ? code : "failed", message != NULL ? message : "",
		message != NULL ? n : 0);
	return -1;
}

static int service_failed(const struct sbx *x)
{
	return ((const struct context *)x)->failed;
}

/* ---- memory ---- */

void *service_alloc(struct sbx *x, uint64_t n)
{
	struct context *c = (struct context *)x;
	void *p = arena_alloc(c->m->arena, n);

	if (p == NULL)
		context_die(c, "memory exhausted by a request for %llu bytes", (unsigned long long)n);
	return p;
}

void *service_resize(struct sbx *x, void *p, uint64_t n)
{
	struct context *c = (struct context *)x;

	if (p != NULL && !arena_owns(c->m->arena, p))
		context_die(c, "sbx_resize of memory that isn't from sbx_alloc, or was freed");
	p = arena_resize(c->m->arena, p, n);
	if (p == NULL)
		context_die(c, "memory exhausted by a request for %llu bytes", (unsigned long long)n);
	return p;
}

void service_release(struct sbx *x, void *p)
{
	struct context *c = (struct context *)x;

	if (p == NULL)
		return;
	if (arena_owns(c->m->arena, p))
		arena_release(c->m->arena, p);
	else
		context_fail(c, "not_owned", "memory is freed that isn't the host's (a string literal in a member? freed before?)");
}

void *service_grow(struct sbx *x, void *items, uint64_t n, uint32_t item_size, uint32_t counter_kind)
{
	struct context *c = (struct context *)x;
	uint64_t usable = items != NULL ? arena_usable(c->m->arena, items) : 0, room;

	if (items != NULL && usable == 0)
		context_die(c, "SBX_ADD to an array that isn't the host's memory, or was freed");
	if (n >= kind_most(counter_kind) || item_size == 0 || n > UINT64_MAX / 4 / item_size)
		context_die(c, "SBX_ADD: the counter can't say more than %llu", (unsigned long long)n);
	if (n > usable / item_size)
		context_die(c, "SBX_ADD: the counter says %llu, more than the array's memory holds", (unsigned long long)n);
	if (n == usable / item_size) {
		for (room = 4; room <= n; room *= 2)
			;
		items = arena_resize(c->m->arena, items, room * item_size);
		if (items == NULL)
			context_die(c, "memory exhausted by an array of %llu items", (unsigned long long)room);
	}
	memset((char *)items + n * item_size, 0, item_size);
	return items;
}

/* ---- log, time, versions ---- */

static void service_log(struct sbx *x, enum sbx_level level, const char *text, uint64_t n)
{
	(void)x;
	if (host.log == NULL || text == NULL)
		return;
	if (level > SBX_ERROR)
		level = SBX_ERROR;
	host.log(host.log_ctx, (int)level, text, (size_t)(n < LIMIT_LOG_TEXT_BYTES ? n : LIMIT_LOG_TEXT_BYTES));
}

static int64_t service_now_ms(struct sbx *x)
{
	(void)x;
	return clock_wall_ms();
}

static uint32_t service_version(struct sbx *x, int which)
{
	const struct context *c = (const struct context *)x;

	return which == 0 ? c->m->desc->state_version : c->old_version;
}

static struct sbx_val service_root(struct sbx *x, enum sbx_root root)
{
	const struct context *c = (const struct context *)x;

	switch (root) {
	case SBX_ARGS:
		return val_root(c->args);
	case SBX_OLD:
		return val_root(c->old);
	case SBX_CONFIG:
		return val_root(c->config);
	case SBX_SAVED:
		return val_root(c->saved);
	}
	return val_root(NULL);
}

/* Later services come by name; there are none yet. */
static const void *service_extension(struct sbx *x, const char *name)
{
	(void)x, (void)name;
	return NULL;
}

/* Objects of ABI 1.0 know the table up to here, for ever. */
_Static_assert(offsetof(struct sbx_host, map_find) == 248, "the functions of ABI 1.0 stay in their places");

static const struct sbx_host table = {
	.size = sizeof table, .major = SBX_ABI_MAJOR, .minor = SBX_ABI_MINOR,
	.alloc = service_alloc, .resize = service_resize, .release = service_release, .grow = service_grow,
	.root = service_root, .type = val_type, .length = val_length, .get = val_get, .next = val_next,
	.as_i64 = service_as_i64, .as_u64 = service_as_u64, .as_f64 = service_as_f64, .as_bool = service_as_bool,
	.as_text = service_as_text, .as_blob = service_as_blob,
	.put_i64 = service_put_i64, .put_u64 = service_put_u64, .put_f64 = service_put_f64, .put_bool = service_put_bool,
	.put_null = service_put_null, .put_text = service_put_text, .put_blob = service_put_blob, .put_val = service_put_val,
	.begin = service_open, .end = service_close,
	.fail_with = service_fail, .failed = service_failed, .log = service_log, .now_ms = service_now_ms, .version = service_version,
	.map_find = service_map_find, .map_put = service_map_put, .map_remove = service_map_remove, .map_count = service_map_count,
	.map_next = service_map_next, .timer = service_timer, .extension = service_extension,
};

/* ---- a callback's life ---- */

void context_begin(struct context *c, struct module_instance *m, const char *name, bool may_reply)
{
	memset(c, 0, sizeof *c);
	c->x.host = &table;
	c->x.attention = host.attention != NULL ? host.attention : &no_attention;
	c->x.beat = host.beat != NULL ? host.beat : &own_beat;
	c->m = m;
	c->name = name;
	c->may_reply = may_reply;
	buf_init(&c->reply, (size_t)LIMIT_BODY_BYTES * 4); /* a container's head is longer in CBOR than in JSON */
	c->w = cbor_writer_buf(&c->reply);
	if (may_reply) {
		c->levels[0].mark = cbor_put_open(&c->w, CBOR_MAP);
		c->levels[0].is_map = true;
		c->depth = 1;
	}
}

void context_begin_save(struct context *c, struct module_instance *m, struct cbor_writer *w)
{
	context_begin(c, m, hook_text(HOOK_SAVE), false);
	c->saves = true;
	c->w = *w;
	c->levels[0].mark = cbor_put_open(&c->w, CBOR_MAP);
	c->levels[0].is_map = true;
	c->depth = 1;
}

int context_run(struct context *c, sbx_fn *fn, struct err *e)
{
	int r;

	if (host.running != NULL && !c->may_reply)
		host.running(c->name);
	r = fn(&c->x, c->m->self);
	if (r != 0 && !c->failed)
		context_fail(c, "failed", "%s returned %d without a reason", c->name, r);
	if (!c->failed && c->depth > 1)
		context_fail(c, "bad_reply", "%u list or dict was left open", c->depth - 1);
	if (!c->failed && (c->saves || (c->may_reply && !c->reply.failed)))
		cbor_set_length(&c->w, c->levels[0].mark, c->levels[0].items);
	if (!c->failed)
		return 0;
	err_set(e, c->too_deep && c->saves ? ERR_TOO_DEEP : ERR_MODULE_ERROR, "%s", c->text);
	return err_about(e, c->code, -1);
}

void context_end(struct context *c)
{
	while (c->scratch != NULL) {
		struct scratch *next = c->scratch->next;

		arena_release(c->m->arena, c->scratch);
		c->scratch = next;
	}
	c->args = val_source_free(c->args);
	c->old = val_source_free(c->old);
	c->config = val_source_free(c->config);
	c->saved = val_source_free(c->saved);
	buf_fini(&c->reply);
}

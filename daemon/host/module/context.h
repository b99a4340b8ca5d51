/* SPDX-License-Identifier: MIT
 *
 * One callback of a module while it runs: what `struct sbx *` points to. Made on the stack by instance.c, used by the
 * functions of the host table (services.c, services_value.c). The module can write to it; it is in its process. */
#ifndef SANDBOXD_HOST_CONTEXT_H
#define SANDBOXD_HOST_CONTEXT_H

#include "daemon/host/state/value.h"
#include "daemon/host/module/arena.h"
#include "daemon/host/module/descriptor.h"
#include "proto/buf.h"
#include "proto/sandbox_module.h"

struct instance_timer {
	bool armed;
	int64_t due_us;         /* by the monotonic clock */
	int64_t every_ms;       /* 0: once */
};

struct module_instance {
	const struct module_desc *desc;
	struct arena *arena;
	void *self;             /* in the arena; NULL: the module has no state */
	struct instance_timer *timers; /* one for each of desc->timers */
};

struct context {
	struct sbx x;           /* first: struct sbx * and struct context * are one address */
	struct module_instance *m;
	const char *name;       /* of the function or hook, for messages */
	struct val_source *args, *old, *config, *saved;
	uint32_t old_version;
	/* the reply, or what `save` writes */
	bool may_reply;
	bool saves;             /* w is the blob's */
	struct buf reply;
	struct cbor_writer w;
	struct { uint64_t mark; uint32_t items; bool is_map; } levels[LIMIT_VALUE_DEPTH + 1];
	unsigned depth;         /* 1: only the reply itself is open */
	/* why it failed: the first reason stays */
	bool failed, too_deep;
	char code[64], text[512];
	/* texts handed out, in the arena, freed when the callback ends */
	struct scratch { struct scratch *next; } *scratch;
};

void context_begin(struct context *c, struct module_instance *m, const char *name, bool may_reply);
/* In place of context_begin, for `save`: it writes into the blob; c->w is the writer after it. */
void context_begin_save(struct context *c, struct module_instance *m, struct cbor_writer *w);
/* Runs fn and settles whether it failed: -1 with ERR_MODULE_ERROR (name = code, text = message). */
int context_run(struct context *c, sbx_fn *fn, struct err *e);
void context_end(struct context *c);

void context_fail(struct context *c, const char *code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The module's memory is exhausted or misused beyond repair: last word, abort. */
_Noreturn void context_die(const struct context *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

uint64_t context_memory_bytes(void); /* of one instance */

/* The parts of the host table. */
void *service_alloc(struct sbx *x, uint64_t n);
void *service_resize(struct sbx *x, void *p, uint64_t n);
void service_release(struct sbx *x, void *p);
void *service_grow(struct sbx *x, void *items, uint64_t n, uint32_t item_size, uint32_t counter_kind);

void *service_map_find(struct sbx *x, struct sbx_map *map, const char *key, uint64_t n);
void *service_map_put(struct sbx *x, struct sbx_map *map, const char *key, uint64_t n, uint64_t value_size);
int service_map_remove(struct sbx *x, struct sbx_map *map, const char *key, uint64_t n);
uint64_t service_map_count(struct sbx *x, const struct sbx_map *map);
void *service_map_next(struct sbx *x, struct sbx_map *map, uint64_t *at, const char **key, uint64_t *n);

int service_timer(struct sbx *x, const char *name, int64_t after_ms, int64_t every_ms);

int64_t service_as_i64(struct sbx *x, struct sbx_val v, const char *what);
uint64_t service_as_u64(struct sbx *x, struct sbx_val v, const char *what);
double service_as_f64(struct sbx *x, struct sbx_val v, const char *what);
bool service_as_bool(struct sbx *x, struct sbx_val v, const char *what);
const char *service_as_text(struct sbx *x, struct sbx_val v, const char *what, uint64_t *n);
const void *service_as_blob(struct sbx *x, struct sbx_val v, const char *what, uint64_t *n);

int service_put_i64(struct sbx *x, const char *key, int64_t v);
int service_put_u64(struct sbx *x, const char *key, uint64_t v);
int service_put_f64(struct sbx *x, const char *key, double v);
int service_put_bool(struct sbx *x, const char *key, bool v);
int service_put_null(struct sbx *x, const char *key);
int service_put_text(struct sbx *x, const char *key, const char *s, uint64_t n);
int service_put_blob(struct sbx *x, const char *key, const void *p, uint64_t n);
int service_put_val(struct sbx *x, const char *key, struct sbx_val v);
int service_open(struct sbx *x, const char *key, enum sbx_type list_or_dict);
int service_close(struct sbx *x);

#endif

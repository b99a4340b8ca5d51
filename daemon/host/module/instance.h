/* SPDX-License-Identifier: MIT
 *
 * A module as the host's main loop sees it: its normalised descriptor, and instances of it (state, memory, hooks).
 * Runs in sandbox-host only, on one thread. No I/O but the log function and the last word given by instance_set_host.
 * The module's code runs inside these functions: they can crash, hang or never return; that is the main loop's business
 * (signals, deadlines), as is dlopen. Everything else, from a bad descriptor to a hostile state blob, is an error value. */
#ifndef SANDBOXD_HOST_INSTANCE_H
#define SANDBOXD_HOST_INSTANCE_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/host/state/report.h"
#include "proto/buf.h"
#include "proto/err.h"
#include "proto/json_out.h"

struct sbx_module;      /* the module's own, in proto/sandbox_module.h */
struct module_desc;
struct module_instance;

/* ---- what the process gives to all instances: once, before the first instance ---- */

/* level: enum sbx_level. text: n bytes as the module wrote them, n <= LIMIT_LOG_TEXT_BYTES: clean them before printing. */
typedef void host_log_fn(void *ctx, int level, const char *text, size_t n);

struct instance_host {
	host_log_fn *log;                    /* NULL: dropped */
	void *log_ctx;
	void (*last_word)(const char *text); /* called just before abort() when memory is exhausted or corrupt; NULL: one write to descriptor 2 */
	const volatile uint32_t *attention;  /* the word that sbx_stop_asked reads; NULL: always 0 */
	volatile uint64_t *beat;             /* the word that sbx_stop_asked counts; NULL: one of our own */
	uint64_t memory_bytes;               /* of one instance; 0: DEFAULT_MAX_MEMORY_BYTES */
	void (*running)(const char *hook);   /* told just before each hook: "make", "init", "save", "restore", "migrate", "check", "stop", "unmake"; NULL ok */
};

void instance_set_host(const struct instance_host *host);  /* copied */

/* ---- the descriptor ---- */

/* Checks the descriptor and copies everything: afterwards only the functions' addresses lead into the object.
 * `e` is set to ERR_BAD_MODULE with the reason. The caller frees *ret with module_desc_free, after the last instance. */
int module_desc_read(const struct sbx_module *untrusted, struct module_desc **ret, struct err *e);
void module_desc_free(struct module_desc *d);              /* NULL ok */

const char *module_desc_name(const struct module_desc *d);
uint32_t module_desc_state_version(const struct module_desc *d);
/* Writes an object's members into `o`'s open object or array: {"name", "abi", "state_version", "state_bytes",
 * "functions": [{"name", "parameters": [{"name", "type", "optional", "default"}]}],
 * "state": [{"name", "kind", ...}], "structs": [{"name", "fields": [...]}]}. key: NULL inside an array or at the top. */
void module_desc_json(const struct module_desc *d, struct json_out *o, const char *key);

/* ---- instances ----
 * Errors: ERR_LIMIT_EXCEEDED when the state or a restore needs more memory than instance_host.memory_bytes;
 * ERR_MODULE_ERROR when a hook or function failed: name = the module's own code, text = its message. */

enum { RESTORE_BACKWARDS = 1 };  /* a rollback: a non-optional field that would be reset to its default refuses */

int instance_new(const struct module_desc *d, struct module_instance **ret, struct err *e);     /* memory, defaults, `make` */
/* `init`, at the first start only. config_json: an object, or n = 0 for none. */
int instance_init(struct module_instance *m, const char *config_json, size_t n, struct err *e);
/* Appends one JSON object to ret_json on success. args_json: an object, or n = 0 for none.
 * ERR_UNKNOWN_FUNCTION (nearest), ERR_BAD_ARGUMENT (name, nearest), ERR_MODULE_ERROR, ERR_REPLY_TOO_LARGE. */
int instance_call(struct module_instance *m, const char *function, const char *args_json, size_t n,
	struct buf *ret_json, struct err *e);
/* The same for a call whose caller wants no result: began(ctx) is called once name and arguments are found in order, before the
 * function runs; an error without it means that nothing ran. */
typedef void instance_began(void *ctx);
int instance_cast(struct module_instance *m, const char *function, const char *args_json, size_t n, instance_began *began, void *ctx,
	struct err *e);
/* Writes the blob to to[0..capacity). to NULL: only counts. *ret_size = bytes needed, also when they don't fit, which is
 * ERR_LIMIT_EXCEEDED. State that can't be saved (a wild counter, a string that isn't the host's memory) is ERR_STATE_MISMATCH. */
int instance_save(struct module_instance *m, void *to, uint64_t capacity, uint64_t *ret_size, struct err *e);
/* fresh: just made by instance_new; after an error only instance_free may follow. Fields, then `restore`, timers, then `migrate`
 * (only when the blob's state version is another), then `check`. The blob must stay as it is until the function returns.
 * ERR_STATE_MISMATCH: name = the field's path, text = why. report: NULL ok; filled as far as it went. */
int instance_restore(struct module_instance *fresh, const void *blob, uint64_t size, unsigned flags,
	struct state_report *report, struct err *e);
int instance_check(struct module_instance *m, struct err *e);
/* Timers, for the main loop: when the first is due (INT64_MAX: none is armed), and which it is. */
int64_t instance_timer_due_us(const struct module_instance *m);
const char *instance_timer_name(const struct module_instance *m);
/* Runs it if it is due; one that is late runs once. ERR_MODULE_ERROR when it failed: it is re-armed or not all the same. */
int instance_timer_run(struct module_instance *m, int64_t now_us, struct err *e);
int instance_stop(struct module_instance *m, struct err *e);   /* the `stop` hook: an orderly end is near */
void instance_free(struct module_instance *m);                 /* `unmake`, then all its memory goes at once; NULL ok */

/* Makes memory of `bytes` ready for the next instance, more with each call; 0: gives it back. false: no more can be had. */
bool instance_prepare(uint64_t bytes);
bool instance_save_is_ours(const struct module_instance *m);     /* a save runs no module code */

const struct module_desc *instance_desc(const struct module_instance *m);
uint64_t instance_memory_bytes(const struct module_instance *m); /* what its arena holds now */
uint64_t instance_extent_bytes(const struct module_instance *m); /* how far into its arena that reaches */

#endif

/* SPDX-License-Identifier: MIT
 *
 * The error value that every fallible function fills. No heap; copied by assignment. Runs in every process. */
#ifndef SANDBOXD_ERR_H
#define SANDBOXD_ERR_H

#include <stdint.h>

enum err_code {
#define X(name, text, number, exit_status, hint) ERR_##name,
#include "proto/errors.def"
#undef X
	ERR__N
};

struct err {
	enum err_code code;
	int sys_errno;      /* 0 where no system call failed */
	int64_t offset;     /* byte offset in the input that was refused; -1: none */
	char name[64];      /* the parameter, field, stage or step that it is about; "": none */
	char nearest[64];   /* the known name nearest to an unknown one; "": none */
	char text[512];     /* what was attempted, on what, why it failed; valid UTF-8, no control characters */
};

#define ERR_INIT { .code = ERR_OK, .offset = -1 }

/* All four are -1, so that `return err_set(...)` ends a function; they are macros so that compilers and analysers see that. `e` may be
 * NULL (then nothing is filled).
 * err_set(e, code, format, ...)
 * err_sys(e, code, format, ...)      appends ": " and the text of the current errno, and stores it
 * err_prefix(e, format, ...)         puts "what the caller was doing: " in front of the text
 * err_about(e, name, offset)         sets name (and offset, -1: none) of an error already set; copies with truncation, sanitises */
#define err_set(e, code, ...) (err_put_set((e), (code), __VA_ARGS__), err_failed())
#define err_sys(e, code, ...) (err_put_sys((e), (code), __VA_ARGS__), err_failed())
#define err_prefix(e, ...) (err_put_prefix((e), __VA_ARGS__), err_failed())
#define err_about(e, name, offset) (err_put_about((e), (name), (offset)), err_failed())

static inline int err_failed(void)
{
	return -1;
}
void err_put_set(struct err *e, enum err_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void err_put_sys(struct err *e, enum err_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void err_put_prefix(struct err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void err_put_about(struct err *e, const char *name, int64_t offset);

const char *err_code_text(enum err_code code);   /* "invalid_id" */
int err_code_number(enum err_code code);         /* the JSON-RPC number */
int err_code_exit(enum err_code code);           /* exit status of sandboxctl */
const char *err_code_hint(enum err_code code);   /* what to do */
enum err_code err_code_from_text(const char *text); /* ERR_INTERNAL for an unknown text */

/* Copies untrusted bytes into a terminated text: control characters and bytes that aren't UTF-8 become '?'. */
void text_clean(char *to, uint64_t to_bytes, const char *from, uint64_t from_bytes);

#endif

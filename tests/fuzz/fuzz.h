/* SPDX-License-Identifier: MIT
 *
 * What the fuzz targets share. A target is one program: LLVMFuzzerTestOneInput gets any bytes, hands them to one parser and
 * checks what must hold whatever they are. tests/fuzz/fuzz.py builds the seeds, runs the targets and counts lines. */
#ifndef SANDBOXD_FUZZ_H
#define SANDBOXD_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"
#include "proto/json_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that doesn't hold is a finding, like a crash. */
#define FUZZ_MUST(cond)                                                                                  \
	do {                                                                                             \
		if (!(cond)) {                                                                           \
			(void)fprintf(stderr, "%s:%d: doesn't hold: %s\n", __FILE__, __LINE__, #cond);   \
			abort();                                                                         \
		}                                                                                        \
	} while (0)

/* Input that is taken apart into numbers and the rest; beyond its end come zeros. */
struct fuzz_in {
	const uint8_t *at;
	size_t left;
};

static inline void fuzz_take(struct fuzz_in *in, void *to, size_t n)
{
	size_t have = n < in->left ? n : in->left;

	memset(to, 0, n);
	if (have > 0)
		memcpy(to, in->at, have);
	in->at += have;
	in->left -= have;
}

static inline uint8_t fuzz_u8(struct fuzz_in *in)
{
	uint8_t v;

	fuzz_take(in, &v, sizeof v);
	return v;
}

static inline uint16_t fuzz_u16(struct fuzz_in *in)
{
	uint16_t v;

	fuzz_take(in, &v, sizeof v);
	return v;
}

static inline uint32_t fuzz_u32(struct fuzz_in *in)
{
	uint32_t v;

	fuzz_take(in, &v, sizeof v);
	return v;
}

static inline uint64_t fuzz_u64(struct fuzz_in *in)
{
	uint64_t v;

	fuzz_take(in, &v, sizeof v);
	return v;
}

/* A copy of exactly these bytes, so that a read beyond them is seen. The caller frees. */
static inline char *fuzz_exact(const void *data, size_t size)
{
	char *p = malloc(size ? size : 1);

	FUZZ_MUST(p != NULL);
	if (size > 0)
		memcpy(p, data, size);
	return p;
}

/* The same with a NUL behind them. */
static inline char *fuzz_text(const void *data, size_t size)
{
	char *p = malloc(size + 1);

	FUZZ_MUST(p != NULL);
	if (size > 0)
		memcpy(p, data, size);
	p[size] = '\0';
	return p;
}

/* What was refused says so: a code, and a reason that anyone may be shown. */
static inline void fuzz_refused(const struct err *e)
{
	char clean[sizeof e->text];

	FUZZ_MUST(e->code > ERR_OK && e->code < ERR__N);
	FUZZ_MUST(e->text[0] != '\0' && strnlen(e->text, sizeof e->text) < sizeof e->text);
	FUZZ_MUST(strnlen(e->name, sizeof e->name) < sizeof e->name && strnlen(e->nearest, sizeof e->nearest) < sizeof e->nearest);
	text_clean(clean, sizeof clean, e->text, strlen(e->text));
	FUZZ_MUST(strcmp(clean, e->text) == 0);
}

/* What we write is one line of strict JSON. */
static inline void fuzz_is_json(const char *json, size_t size)
{
	struct err e = ERR_INIT;

	FUZZ_MUST(json_check(json, size, &e) == 0);
	FUZZ_MUST(memchr(json, '\n', size) == NULL);
}

#endif

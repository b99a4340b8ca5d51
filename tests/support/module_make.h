/* SPDX-License-Identifier: MIT
 *
 * Modules inside a test program: a descriptor of any name, since a program can have several. */
#ifndef SANDBOXD_MODULE_MAKE_H
#define SANDBOXD_MODULE_MAKE_H

#include <check.h>
#include <string.h>

#include "daemon/host/module/instance.h"
#include "proto/json_scan.h"
#include "proto/limits.h"
#include "proto/sandbox_module.h"

#define TEST_MODULE(var, version, ...)                                                                                 \
	static const struct sbx_item var##_items[] = { __VA_ARGS__, SBX_ITEM_(SBX_T_END, 0, NULL, NULL, NULL, NULL) }; \
	static const struct sbx_module var = { SBX_MAGIC, SBX_ABI_MAJOR, SBX_WANT_MINOR, sizeof(struct sbx_module),    \
		sizeof(struct sbx_item), sizeof var##_items / sizeof var##_items[0] - 1, version, #var, var##_items, "" }

#define ck_ok(call)                                                                                             \
	do {                                                                                                    \
		e = (struct err)ERR_INIT;                                                                       \
		ck_assert_msg((call) == 0, "%s: %s %s (%s)", #call, err_code_text(e.code), e.text, e.name);     \
	} while (0)
/* It fails with this code, and the text contains this. */
#define ck_fails(call, want, part)                                                                                       \
	do {                                                                                                             \
		e = (struct err)ERR_INIT;                                                                                \
		ck_assert_msg((call) != 0, "%s succeeded", #call);                                                       \
		ck_assert_msg(e.code == (want), "%s: %s %s (%s)", #call, err_code_text(e.code), e.text, e.name);         \
		ck_assert_msg(strstr(e.text, (part)) != NULL, "%s: \"%s\" has no \"%s\"", #call, e.text, (part));        \
	} while (0)

static inline struct module_desc *desc_of(const struct sbx_module *m)
{
	struct module_desc *d = NULL;
	struct err e;

	ck_ok(module_desc_read(m, &d, &e));
	return d;
}

static inline struct module_instance *instance_of(const struct module_desc *d)
{
	struct module_instance *m = NULL;
	struct err e;

	ck_ok(instance_new(d, &m, &e));
	return m;
}

/* The caller frees. */
static inline void *save_of(struct module_instance *m, uint64_t *ret_size)
{
	uint64_t size = 0, again = 0;
	struct err e;
	void *p;

	ck_ok(instance_save(m, NULL, 0, &size, &e));
	p = malloc(size);
	ck_assert_ptr_nonnull(p);
	ck_ok(instance_save(m, p, size, &again, &e));
	ck_assert_uint_eq(size, again);
	*ret_size = size;
	return p;
}

#endif

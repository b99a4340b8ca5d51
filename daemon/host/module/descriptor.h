/* SPDX-License-Identifier: MIT
 *
 * A module's descriptor, normalised: what module_desc_read (instance.h) makes. In sandbox-host. */
#ifndef SANDBOXD_HOST_DESCRIPTOR_H
#define SANDBOXD_HOST_DESCRIPTOR_H

#include "daemon/host/module/instance.h"
#include "daemon/host/module/signature.h"
#include "daemon/host/state/schema.h"
#include "proto/sandbox_module.h"

enum hook { HOOK_MAKE, HOOK_INIT, HOOK_SAVE, HOOK_RESTORE, HOOK_MIGRATE, HOOK_CHECK, HOOK_STOP, HOOK_UNMAKE, HOOK__N };

struct module_function {
	char name[LIMIT_FUNCTION_BYTES + 1];
	sbx_fn *fn;
	struct signature signature;
};

struct module_timer {
	char name[LIMIT_FUNCTION_BYTES + 1];
	sbx_fn *fn;
};

struct module_desc {
	char name[LIMIT_ID_BYTES + 1];
	uint16_t abi_minor;
	uint32_t state_version;
	struct schema *schema;
	uint32_t self_bytes;    /* of SBX_SELF; 0: the state is what the schema says */
	sbx_fn *hooks[HOOK__N];
	uint32_t n_functions;
	struct module_function *functions;
	uint32_t n_timers;
	struct module_timer *timers;
};

const char *hook_text(enum hook hook); /* "init" */
/* NULL with ERR_UNKNOWN_FUNCTION (name, nearest). */
const struct module_function *module_desc_function(const struct module_desc *d, const char *name, struct err *e);

#endif

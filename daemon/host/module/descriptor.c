/* SPDX-License-Identifier: MIT
 *
 * Reads a module's descriptor. It lies in hostile memory: each row is copied before it is looked at, every number bounded,
 * every text copied. Afterwards only the functions' addresses lead into the object. */
#include "daemon/host/module/descriptor.h"

#include <stdlib.h>
#include <string.h>

#include "proto/names.h"

static const char *const hooks[] = {
	[HOOK_MAKE] = "make", [HOOK_INIT] = "init", [HOOK_SAVE] = "save", [HOOK_RESTORE] = "restore", [HOOK_MIGRATE] = "migrate", [HOOK_CHECK] = "check", [HOOK_STOP] = "stop", [HOOK_UNMAKE] = "unmake",
};
_Static_assert(sizeof hooks / sizeof hooks[0] == HOOK__N, "each hook has its text");

struct reading {
	struct module_desc *d;
	uint32_t n_parameters;
	bool has_state;
	struct err *e;
};

const char *hook_text(enum hook hook)
{
	return hooks[hook];
}

void module_desc_free(struct module_desc *d)
{
	if (d == NULL)
		return;
	for (uint32_t i = 0; i < d->n_functions; i++)
		signature_fini(&d->functions[i].signature);
	free(d->functions);
	free(d->timers);
	schema_free(d->schema);
	free(d);
}

/* ---- rows ---- */

static int read_state(struct reading *r, const struct sbx_item *item)
{
	if (r->has_state || item->schema == NULL)
		return err_set(r->e, ERR_BAD_MODULE, "a module has one SBX_USES, with a table from SBX_STATE, or one SBX_SELF");
	r->has_state = true;
	schema_free(r->d->schema);
	r->d->schema = NULL;
	return schema_read(item->schema, &r->d->schema, r->e);
}

static int read_self(struct reading *r, const struct sbx_item *item)
{
	if (r->has_state || item->number == 0)
		return err_set(r->e, ERR_BAD_MODULE, "a module has one SBX_SELF of a size, or one SBX_USES");
	r->has_state = true;
	r->d->self_bytes = item->number;
	return 0;
}

static int read_signature(struct reading *r, struct module_function *f, const char *from)
{
	char text[LIMIT_SIGNATURE_BYTES + 1];
	size_t n = from != NULL ? strnlen(from, sizeof text) : 0;

	if (n == sizeof text)
		return err_set(r->e, ERR_BAD_MODULE, "its signature is longer than %d bytes", LIMIT_SIGNATURE_BYTES);
	if (n > 0)
		memcpy(text, from, n);
	text[n] = '\0';
	if (signature_read(text, &f->signature, r->e) != 0)
		return -1;
	r->n_parameters += f->signature.n;
	if (r->n_parameters > LIMIT_ALL_PARAMETERS)
		return err_set(r->e, ERR_BAD_MODULE, "the module has more than %d parameters in all", LIMIT_ALL_PARAMETERS);
	return 0;
}

static int read_function(struct reading *r, const struct sbx_item *item)
{
	struct module_function *f = &r->d->functions[r->d->n_functions];
	size_t n = item->name != NULL ? strnlen(item->name, sizeof f->name) : 0;

	if (n == 0 || n == sizeof f->name || !name_is_function(item->name, n))
		return err_set(r->e, ERR_BAD_MODULE, "a function has no name that is a C identifier of at most %d bytes",
			LIMIT_FUNCTION_BYTES);
	memset(f, 0, sizeof *f);
	memcpy(f->name, item->name, n);
	if (!name_is_function(f->name, n) || item->fn == NULL)
		return err_set(r->e, ERR_BAD_MODULE, "the function %.*s has no code", (int)n, f->name);
	for (uint32_t i = 0; i < r->d->n_functions; i++)
		if (strcmp(r->d->functions[i].name, f->name) == 0)
			return err_set(r->e, ERR_BAD_MODULE, "the function %s is declared twice", f->name);
	f->fn = item->fn;
	r->d->n_functions++;
	return read_signature(r, f, item->text) == 0 ? 0 : err_prefix(r->e, "function %s", f->name);
}

static int read_timer(struct reading *r, const struct sbx_item *item)
{
	struct module_timer *t = &r->d->timers[r->d->n_timers];
	size_t n = item->name != NULL ? strnlen(item->name, sizeof t->name) : 0;

	if (n == 0 || n == sizeof t->name)
		return err_set(r->e, ERR_BAD_MODULE, "a timer has no name that is a C identifier of at most %d bytes", LIMIT_FUNCTION_BYTES);
	memset(t, 0, sizeof *t);
	memcpy(t->name, item->name, n);
	if (!name_is_function(t->name, n) || item->fn == NULL)
		return err_set(r->e, ERR_BAD_MODULE, "a timer's name isn't a C identifier, or it has no code");
	for (uint32_t i = 0; i < r->d->n_timers; i++)
		if (strcmp(r->d->timers[i].name, t->name) == 0)
			return err_set(r->e, ERR_BAD_MODULE, "the timer %s is declared twice", t->name);
	t->fn = item->fn;
	r->d->n_timers++;
	return 0;
}

static int read_hook(struct reading *r, const struct sbx_item *item, enum hook hook)
{
	if (item->fn == NULL || r->d->hooks[hook] != NULL)
		return err_set(r->e, ERR_BAD_MODULE, "the hook %s is declared twice, or has no code", hooks[hook]);
	r->d->hooks[hook] = item->fn;
	return 0;
}

static int read_item(struct reading *r, const struct sbx_item *item)
{
	if (item->tag <= UINT8_MAX && (item->tag & SBX_MAY_IGNORE) != 0)
		return 0;
	switch ((enum sbx_tag)item->tag) {
	case SBX_T_STATE:
		return read_state(r, item);
	case SBX_T_SELF:
		return read_self(r, item);
	case SBX_T_TIMER:
		return read_timer(r, item);
	case SBX_T_SAVE:
		return read_hook(r, item, HOOK_SAVE);
	case SBX_T_RESTORE:
		return read_hook(r, item, HOOK_RESTORE);
	case SBX_T_FN:
		return read_function(r, item);
	case SBX_T_MAKE:
		return read_hook(r, item, HOOK_MAKE);
	case SBX_T_INIT:
		return read_hook(r, item, HOOK_INIT);
	case SBX_T_MIGRATE:
		return read_hook(r, item, HOOK_MIGRATE);
	case SBX_T_CHECK:
		return read_hook(r, item, HOOK_CHECK);
	case SBX_T_STOP:
		return read_hook(r, item, HOOK_STOP);
	case SBX_T_UNMAKE:
		return read_hook(r, item, HOOK_UNMAKE);
	case SBX_T_END:
		break;
	}
	return err_set(r->e, ERR_BAD_MODULE, "the module has an item with tag %u, which this host doesn't know", item->tag);
}

/* ---- the head ---- */

static int check_head(const struct sbx_module *m, struct err *e)
{
	if (m->magic != SBX_MAGIC)
		return err_set(e, ERR_BAD_MODULE, "its descriptor doesn't begin with the magic number: is it made by SBX_MODULE?");
	if (m->abi_major != SBX_ABI_MAJOR)
		return err_set(e, ERR_BAD_MODULE, "it is built for ABI %u, this host has %d.%d", m->abi_major, SBX_ABI_MAJOR, SBX_ABI_MINOR);
	if (m->abi_minor > SBX_ABI_MINOR)
		return err_set(e, ERR_BAD_MODULE, "it asks for ABI %u.%u, this host has %d.%d", m->abi_major, m->abi_minor, SBX_ABI_MAJOR,
			SBX_ABI_MINOR);
	if (m->size < sizeof *m || m->size > LIMIT_ROW_BYTES)
		return err_set(e, ERR_BAD_MODULE, "its descriptor has %u bytes, this host knows %zu", m->size, sizeof *m);
	if (m->item_size < sizeof(struct sbx_item) || m->item_size > LIMIT_ROW_BYTES || m->item_size % 8 != 0)
		return err_set(e, ERR_BAD_MODULE, "its items have %u bytes, this host knows %zu", m->item_size, sizeof(struct sbx_item));
	if (m->n_items > LIMIT_ITEMS)
		return err_set(e, ERR_BAD_MODULE, "it has %u items; at most %d are taken", m->n_items, LIMIT_ITEMS);
	if (m->n_items > 0 && m->items == NULL)
		return err_set(e, ERR_BAD_MODULE, "its items are missing");
	if (m->state_version == 0)
		return err_set(e, ERR_BAD_MODULE, "its state version is 0; versions begin with 1");
	return 0;
}

static int read_name(struct reading *r, const struct sbx_module *m)
{
	size_t n = m->name != NULL ? strnlen(m->name, sizeof r->d->name) : 0;

	if (n > 0 && n < sizeof r->d->name)
		memcpy(r->d->name, m->name, n);
	if (n == sizeof r->d->name || !name_is_id(r->d->name, n))
		return err_set(r->e, ERR_BAD_MODULE, "its name is missing, or isn't letters, digits and _ of at most %d bytes",
			LIMIT_ID_BYTES);
	return 0;
}

static int read_items(struct reading *r, const struct sbx_module *m)
{
	struct sbx_item item;

	r->d->functions = calloc(m->n_items + 1u, sizeof *r->d->functions);
	r->d->timers = calloc(m->n_items + 1u, sizeof *r->d->timers);
	if (r->d->functions == NULL || r->d->timers == NULL)
		return err_set(r->e, ERR_LIMIT_EXCEEDED, "no memory for a module's descriptor");
	for (uint32_t i = 0; i < m->n_items; i++) {
		memcpy(&item, (const char *)m->items + (size_t)i * m->item_size, sizeof item);
		if (read_item(r, &item) != 0)
			return -1;
	}
	if ((r->d->hooks[HOOK_SAVE] == NULL) != (r->d->hooks[HOOK_RESTORE] == NULL))
		return err_set(r->e, ERR_BAD_MODULE, "SBX_ON_SAVE and SBX_ON_RESTORE need each other");
	if (r->d->self_bytes > 0 && r->d->hooks[HOOK_SAVE] == NULL)
		return err_set(r->e, ERR_BAD_MODULE, "SBX_SELF needs SBX_ON_SAVE and SBX_ON_RESTORE: its state would be lost at a reload");
	return r->d->schema != NULL ? 0 : schema_read(NULL, &r->d->schema, r->e);
}

int module_desc_read(const struct sbx_module *untrusted, struct module_desc **ret, struct err *e)
{
	struct reading r = { .e = e };
	struct sbx_module m;

	if (untrusted == NULL)
		return err_set(e, ERR_BAD_MODULE, "there is no descriptor");
	memcpy(&m, untrusted, sizeof m);
	if (check_head(&m, e) != 0)
		return -1;
	r.d = calloc(1, sizeof *r.d);
	if (r.d == NULL)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory for a module's descriptor");
	r.d->abi_minor = m.abi_minor;
	r.d->state_version = m.state_version;
	if (read_name(&r, &m) != 0 || read_items(&r, &m) != 0) {
		module_desc_free(r.d);
		return -1;
	}
	*ret = r.d;
	return 0;
}

/* ---- what others ask ---- */

const char *module_desc_name(const struct module_desc *d)
{
	return d->name;
}

uint32_t module_desc_state_version(const struct module_desc *d)
{
	return d->state_version;
}

const struct module_function *module_desc_function(const struct module_desc *d, const char *name, struct err *e)
{
	const char *names[LIMIT_ITEMS];
	char clean[64];
	int nearest;

	for (uint32_t i = 0; i < d->n_functions; i++) {
		if (strcmp(d->functions[i].name, name) == 0)
			return &d->functions[i];
		names[i] = d->functions[i].name;
	}
	text_clean(clean, sizeof clean, name, strnlen(name, sizeof clean));
	nearest = name_nearest(clean, names, d->n_functions);
	err_set(e, ERR_UNKNOWN_FUNCTION, nearest >= 0 ? "module %s has no function %s; perhaps %s is meant" : "module %s has no function %s",
		d->name, clean, nearest >= 0 ? names[nearest] : "");
	err_about(e, clean, -1);
	if (e != NULL && nearest >= 0)
		text_clean(e->nearest, sizeof e->nearest, names[nearest], strlen(names[nearest]));
	return NULL;
}

void module_desc_json(const struct module_desc *d, struct json_out *o, const char *key)
{
	char abi[16];

	snprintf(abi, sizeof abi, "%d.%u", SBX_ABI_MAJOR, (unsigned)d->abi_minor);
	json_out_object(o, key);
	json_out_text(o, "name", d->name);
	json_out_text(o, "abi", abi);
	json_out_u64(o, "state_version", d->state_version);
	json_out_u64(o, "state_bytes", d->self_bytes > 0 ? d->self_bytes : d->schema->structs[0].size);
	json_out_bool(o, "own_save", d->hooks[HOOK_SAVE] != NULL);
	json_out_array(o, "functions");
	for (uint32_t i = 0; i < d->n_functions; i++) {
		json_out_object(o, NULL);
		json_out_text(o, "name", d->functions[i].name);
		signature_json(&d->functions[i].signature, o, "parameters");
		json_out_object_end(o);
	}
	json_out_array_end(o);
	json_out_array(o, "timers");
	for (uint32_t i = 0; i < d->n_timers; i++)
		json_out_text(o, NULL, d->timers[i].name);
	json_out_array_end(o);
	schema_json(d->schema, o);
	json_out_object_end(o);
}

/* SPDX-License-Identifier: MIT
 *
 * dlopen under a name never used before, the descriptor, dlclose, and the question whether the object really
 * went. Facts that tell why it may stay are read before dlclose: afterwards the tables may be unmapped. */
#include "daemon/host/module/object.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/ranges.h"
#include "proto/sandbox_module.h"

#define SMALL_LIBRARY "libutil.so.1" /* glibc's, empty since 2.34, in the folders that the template root has */

struct object {
	char *path;
	void *handle;
	const struct sbx_module *descriptor;
	char cause[OBJECT_CAUSE_BYTES]; /* of being pinned, should it turn out to be; "": none known */
};

struct lookup {
	const struct link_map *map;
	struct dynamic dynamic;
	int found;
};

static int find_map(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct lookup *l = ctx;

	(void)size;
	if (info->dlpi_addr != l->map->l_addr || strcmp(info->dlpi_name, l->map->l_name) != 0)
		return 0;
	dynamic_read(info, &l->dynamic);
	l->found = 1;
	return 1;
}

static void find_cause(struct object *o, const struct dynamic *d)
{
	if (d->no_delete) {
		(void)snprintf(o->cause, sizeof o->cause, "DF_1_NODELETE (linked with -z nodelete)");
		return;
	}
	for (size_t i = 0; i < d->n_symbols; i++) {
		const char *name = dynamic_name(d, i);

		if (ELF64_ST_BIND(d->symbols[i].st_info) == STB_GNU_UNIQUE) {
			char clean[64];

			text_clean(clean, sizeof clean, name, strlen(name));
			(void)snprintf(o->cause, sizeof o->cause,
				"STB_GNU_UNIQUE symbol %s (compile with -fno-gnu-unique)", clean);
			return;
		}
		if (strncmp(name, "__cxa_thread_atexit", 19) == 0)
			(void)snprintf(o->cause, sizeof o->cause, "thread-local destructors (%.40s)", name);
	}
}

static int find_descriptor(struct object *o, const char *path, struct err *e)
{
	struct link_map *map = NULL;
	struct lookup l = { 0 };
	uintptr_t at;

	if (dlinfo(o->handle, RTLD_DI_LINKMAP, &map) != 0)
		return err_set(e, ERR_BAD_IMAGE, "cannot inspect %s: %s", path, dlerror());
	l.map = map;
	(void)dl_iterate_phdr(find_map, &l);
	if (!l.found)
		return err_set(e, ERR_BAD_IMAGE, "cannot find the segments of %s", path);
	find_cause(o, &l.dynamic);
	o->descriptor = dlsym(o->handle, "sandbox_module");
	if (!o->descriptor)
		return err_set(e, ERR_BAD_MODULE,
			"the object has no symbol sandbox_module: SBX_MODULE(...) is missing");
	/* dlsym looks into the libraries that the object is linked with, too. */
	at = (uintptr_t)o->descriptor;
	if (at < l.dynamic.begin || at >= l.dynamic.end || l.dynamic.end - at < sizeof *o->descriptor)
		return err_set(e, ERR_BAD_MODULE, "the symbol sandbox_module doesn't lie inside the object");
	return 0;
}

/* How many objects were ever loaded. */
static int count_loads(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	*(unsigned long long *)ctx = info->dlpi_adds;
	return 1;
}

int object_open(const char *path, struct object **ret, struct err *e)
{
	char ignored[OBJECT_CAUSE_BYTES];
	unsigned long long before = 0, after = 0;
	struct object *o;

	o = calloc(1, sizeof *o);
	if (!o || !(o->path = strdup(path))) {
		free(o);
		return err_set(e, ERR_INTERNAL, "no memory to open an object");
	}
	(void)dl_iterate_phdr(count_loads, &before);
	o->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!o->handle) {
		err_set(e, ERR_BAD_IMAGE, "the loader refuses the object: %s", dlerror());
		object_close(o, ignored);
		return -1;
	}
	(void)dl_iterate_phdr(count_loads, &after);
	if (after == before) { /* known by its path or its inode; no code has run */
		err_set(e, ERR_WRONG_STATE, "%s is loaded already: its globals would not be fresh", path);
		(void)dlclose(o->handle);
		o->handle = NULL;
		object_close(o, ignored);
		return -1;
	}
	if (find_descriptor(o, path, e) < 0) {
		object_close(o, ignored);
		return -1;
	}
	ranges_refresh();
	*ret = o;
	return 0;
}

const struct sbx_module *object_descriptor(const struct object *o)
{
	return o->descriptor;
}

void object_close(struct object *o, char cause[OBJECT_CAUSE_BYTES])
{
	void *still;

	cause[0] = '\0';
	if (!o)
		return;
	if (o->handle) {
		(void)dlclose(o->handle);
		still = dlopen(o->path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
		if (still) {
			(void)dlclose(still);
			(void)snprintf(cause, OBJECT_CAUSE_BYTES, "%s",
				o->cause[0] ? o->cause : "something still refers to the object");
		}
		ranges_refresh();
	}
	free(o->path);
	free(o);
}

void object_warm_up(void)
{
	void *library = dlopen(SMALL_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return;
	(void)dlsym(library, "sandbox_module"); /* it has none */
	(void)dlerror();
	(void)dlclose(library);
}

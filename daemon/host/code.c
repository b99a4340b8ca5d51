/* SPDX-License-Identifier: MIT
 *
 * Loading, restoring and unloading one version, step by step. The name of the step is set before foreign code
 * can run. */
#include "daemon/host/code.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/host/death.h"
#include "daemon/host/state/patch.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/limits.h"
#include "proto/seldom.h"

static void code_step(struct code *c, const char *step)
{
	c->step = step;
	death_running(step);
}

/* ---- told by the instance before each hook ---- */

static struct code *stepping; /* the code whose hooks run now; NULL: nobody asks */
static int64_t check_began_us;

void code_hook(const char *hook)
{
	if (!stepping)
		return;
	code_step(stepping, hook);
	if (hook[0] == 'c' && hook[1] == 'h')
		check_began_us = clock_monotonic_us();
}

int code_load(struct code *c, uint64_t serial, const char *path, struct err *e)
{
	char ignored[OBJECT_CAUSE_BYTES];
	int64_t began = clock_monotonic_us();
	int rc;

	*c = (struct code){ .serial = serial };
	code_step(c, "open");
	rc = object_open(path, &c->object, e);
	if (rc == 0) {
		code_step(c, "descriptor");
		rc = module_desc_read(object_descriptor(c->object), &c->desc, e);
	}
	if (rc == 0) {
		code_step(c, "make");
		rc = instance_new(c->desc, &c->instance, e);
	}
	c->load_us = clock_monotonic_us() - began;
	if (rc < 0)
		code_unload(c, ignored);
	else
		death_running("");
	return rc;
}

int code_replaces(struct code *c, const struct code *old, struct err *e)
{
	const char *name = module_desc_name(c->desc), *old_name = module_desc_name(old->desc);

	code_step(c, "descriptor");
	if (strcmp(name, old_name) != 0)
		return err_set(e, ERR_BAD_MODULE, "it is module %s, and a version of %s is wanted", name, old_name);
	return 0;
}

int code_init(struct code *c, const char *config, size_t size, struct err *e)
{
	int rc;

	code_step(c, "init");
	rc = instance_init(c->instance, config, size, e);
	if (rc == 0)
		death_running("");
	return rc;
}

static int restore(struct code *c, const void *blob, uint64_t size, bool backwards, struct state_report *report, struct err *e)
{
	int64_t began = clock_monotonic_us(), ended;
	int rc;

	code_step(c, "restore");
	check_began_us = 0;
	stepping = c;
	rc = instance_restore(c->instance, blob, size, backwards ? RESTORE_BACKWARDS : 0, report, e);
	stepping = NULL;
	ended = clock_monotonic_us();
	c->check_us = check_began_us ? ended - check_began_us : 0;
	c->restore_us = ended - began - c->check_us;
	if (rc == 0)
		death_running("");
	return rc;
}

int code_restore(struct code *c, const void *blob, uint64_t size, struct json_span patch, bool backwards, struct state_report *report,
	struct err *e)
{
	struct buf changed;
	int rc;

	if (!patch.at)
		return restore(c, blob, size, backwards, report, e);
	code_step(c, "patch");
	buf_init(&changed, LIMIT_STATE_BYTES);
	rc = state_patch(blob, size, patch.at, patch.size, &changed, e);
	if (rc == 0)
		rc = restore(c, changed.data, changed.size, backwards, report, e);
	buf_fini(&changed);
	return rc;
}

#define READ_MOST (64u << 10) /* up to here reading is cheaper than mapping and unmapping */

static int restore_small(struct code *c, int state_fd, size_t size, struct json_span patch, bool backwards, struct state_report *report,
	struct err *e)
{
	static SELDOM_WRITTEN _Alignas(16) unsigned char blob[READ_MOST];

	if (pread(state_fd, blob, size, 0) != (ssize_t)size)
		return err_sys(e, ERR_IO, "cannot read a state of %zu bytes", size);
	return code_restore(c, blob, size, patch, backwards, report, e);
}

int code_restore_fd(struct code *c, int state_fd, const struct prepare *prepared, struct json_span patch, bool backwards,
	struct state_report *report, struct err *e)
{
	struct stat st;
	uint64_t size;
	const void *view;
	void *blob;
	int rc;

	code_step(c, "restore");
	if (fstat(state_fd, &st) < 0)
		return err_sys(e, ERR_IO, "cannot look at the state");
	if (!fd_is_memfd_sealed(state_fd))
		return err_set(e, ERR_STATE_MISMATCH, "the state isn't a sealed memfd");
	size = (uint64_t)st.st_size;
	if (size == 0 || size > LIMIT_STATE_BYTES)
		return err_set(e, ERR_STATE_MISMATCH, "a state has 1 to %llu bytes, not %llu",
			(unsigned long long)LIMIT_STATE_BYTES, (unsigned long long)size);
	if (size <= READ_MOST)
		return restore_small(c, state_fd, (size_t)size, patch, backwards, report, e);
	if (prepared && (view = prepare_view(prepared, state_fd, size)))
		return code_restore(c, view, size, patch, backwards, report, e);
	blob = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, state_fd, 0); /* all of it is read, once */
	if (blob == MAP_FAILED)
		return err_sys(
			e, ERR_LIMIT_EXCEEDED, "cannot map a state of %llu bytes", (unsigned long long)size);
	rc = code_restore(c, blob, size, patch, backwards, report, e);
	(void)munmap(blob, size);
	return rc;
}

void code_unload(struct code *c, char cause[OBJECT_CAUSE_BYTES])
{
	const char *step = c->step;

	cause[0] = '\0';
	if (c->instance) {
		death_running("unmake");
		instance_free(c->instance);
	}
	module_desc_free(c->desc);
	if (c->object) {
		death_running("close");
		object_close(c->object, cause);
	}
	death_running("");
	*c = (struct code){ .step = step };
}

void code_leave(struct code *c)
{
	char cause[OBJECT_CAUSE_BYTES];

	c->object = NULL;
	code_unload(c, cause);
}

void code_times_json(const struct code *c, const struct state_report *report, struct json_out *o)
{
	json_out_i64(o, "load_us", c->load_us);
	module_desc_json(c->desc, o, "module");
	if (!report)
		return;
	json_out_i64(o, "restore_us", c->restore_us);
	json_out_i64(o, "check_us", c->check_us);
	state_report_json(report, o, "report");
}

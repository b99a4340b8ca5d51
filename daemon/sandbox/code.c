/* SPDX-License-Identifier: MIT
 *
 * Two stages: a compile job (sources only), whose object is a file of another user's making and is read whole before it is
 * looked at; then a storage job that reads, hashes and checks. */
#include "daemon/sandbox/code.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/control/spawner_link.h"
#include "daemon/store/objects.h"
#include "proto/fd.h"

static void ingest_work(struct storage_job *job)
{
	struct code *k = (struct code *)job;
	int dir = storage_dir_fd(k->control->storage);

	if (k->object_fd >= 0) {
		size_t size = 0;
		char *data = fd_read_all(k->object_fd, LIMIT_OBJECT_BYTES, &size, &job->err);

		fd_close(&k->object_fd);
		if (!data || !(k->object = blob_new(data, size)))
			goto failed;
		blob_hash(k->object);
	} else if (!k->object && !(k->folder[0] && objects_get_volatile(k->folder, k->sha256, &k->object, NULL) == 0)) {
		if (!objects_has(dir, k->sha256)) {
			err_set(&job->err, ERR_OBJECT_NOT_FOUND, "no object with SHA-256 %s is uploaded or stored", k->sha256);
			goto failed;
		}
		if (objects_get(dir, k->sha256, &k->object, &job->err) < 0)
			goto failed;
	}
	if (!k->object || elf_check(k->object->data, k->object->size, &k->elf, &job->err) < 0)
		goto failed;
	return;
failed:
	if (job->err.code == ERR_OK)
		err_set(&job->err, ERR_INTERNAL, "no memory for the object");
	job->status = -1;
}

static void ingest_done(struct storage_job *job)
{
	struct code *k = (struct code *)job;

	if (job->status == 0)
		snprintf(k->sha256, sizeof k->sha256, "%s", k->object->sha256);
	k->done(k, job->status == 0 ? NULL : &job->err);
}

static void fail_done(struct storage_job *job)
{
	struct code *k = (struct code *)job;

	job->err.code = job->err.code == ERR_OK ? ERR_INTERNAL : job->err.code;
	k->done(k, &job->err);
}

static void nothing_work(struct storage_job *job)
{
	job->err = ((struct code *)job)->failure; /* the queue begins each job without one */
	job->status = -1;
}

/* Errors are told by the storage queue too, so that `done` never comes from inside code_begin. */
static void code_fail(struct code *k)
{
	k->failure = k->job.err;
	k->job.work = nothing_work;
	k->job.done = fail_done;
	storage_submit(k->control->storage, &k->job);
}

/* What was checked when it was uploaded needn't be for a create; a reload also tells what the check found. */
static void code_ingest(struct code *k)
{
	bool skips = k->object && k->object->is_checked && k->request && rpc_method(k->request) == &methods[METHOD_SANDBOX_CREATE];

	k->job.work = ingest_work;
	k->job.done = ingest_done;
	(skips ? storage_skip : storage_submit)(k->control->storage, &k->job);
}

/* The compiler's text: control characters but newline and tab become '?', as does what isn't UTF-8. */
static char *diagnostics_read(int fd)
{
	struct stat st;
	size_t size = 0;
	char *raw = NULL, *clean = NULL;

	if (fstat(fd, &st) < 0 || st.st_size <= 0)
		return NULL;
	raw = fd_read_all(fd, LIMIT_OBJECT_BYTES, &size, NULL);
	if (raw) {
		if (size > LIMIT_DIAGNOSTICS_BYTES)
			size = LIMIT_DIAGNOSTICS_BYTES;
		clean = malloc(size + 1);
	}
	if (clean) {
		for (char *p = raw, *q = clean, *end = raw + size; p <= end;) {
			char *stop = p;

			while (stop < end && *stop != '\n' && *stop != '\t')
				stop++;
			text_clean(q, (uint64_t)(stop - p) + 1, p, (uint64_t)(stop - p));
			q += strlen(q);
			if (stop < end)
				*q++ = *stop;
			*q = '\0';
			p = stop + 1;
		}
	}
	free(raw);
	return clean;
}

static void compile_done(void *ctx, const struct spawner_message *m, int *fds, size_t n_fds)
{
	struct code *k = ctx;
	struct err *e = &k->job.err;

	k->compiling = false;
	if (m->op == SPAWNER_ERROR) {
		char text[sizeof m->text];

		text_clean(text, sizeof text, m->text, strnlen(m->text, sizeof m->text));
		err_set(e, m->status == EAGAIN ? ERR_BUSY : ERR_UNAVAILABLE, "cannot start a compile job: %s", text);
		code_fail(k);
		return;
	}
	if (n_fds > 0)
		k->diagnostics = diagnostics_read(fds[0]);
	if (m->flags & SPAWNER_F_TIMED_OUT) {
		err_set(e, ERR_COMPILATION_TIMEOUT, "the compilation of %s did not end within its time limit", k->source_name);
	} else if (m->status != 0 || n_fds < 2) {
		if (WIFSIGNALED(m->status))
			err_set(e, ERR_COMPILATION_FAILED, "the compiler was ended by signal %d while compiling %s",
				WTERMSIG(m->status), k->source_name);
		else
			err_set(e, ERR_COMPILATION_FAILED, "the compiler refused %s (exit status %d)", k->source_name,
				WEXITSTATUS(m->status));
	} else {
		k->object_fd = fd_take(&fds[1]);
		code_ingest(k);
		return;
	}
	code_fail(k);
}

static void code_compile(struct code *k)
{
	autoclose int fd = fd_memfd("source", k->source->data, k->source->size, true);
	struct spawner_message m;

	if (fd < 0) {
		err_sys(&k->job.err, ERR_INTERNAL, "cannot make a memfd for the source");
		code_fail(k);
		return;
	}
	spawner_message_init(&m, SPAWNER_JOB, NULL);
	m.kind = SPAWNER_JOB_COMPILE_C;
	m.timeout_ms = (uint32_t)rpc_integer(k->request, "compile_timeout_ms", DEFAULT_COMPILE_TIMEOUT_MS);
	snprintf(m.name, sizeof m.name, "%s", k->source_name);
	k->job_tag = spawner_request(k->control->spawner, &m, &fd, 1, compile_done, k, &k->job.err);
	if (k->job_tag == 0) {
		code_fail(k);
		return;
	}
	k->compiling = true;
}

static void code_init(struct code *k, struct control *c, const struct rpc_request *r, const char *volatile_folder,
	void (*done)(struct code *, const struct err *), void *ctx)
{
	*k = (struct code){ .job = { .err = ERR_INIT }, .control = c, .request = r, .object_fd = -1, .done = done, .ctx = ctx };
	if (volatile_folder)
		(void)snprintf(k->folder, sizeof k->folder, "%s", volatile_folder);
}

void code_begin(struct code *k, struct control *c, const struct rpc_request *r, const char *volatile_folder,
	void (*done)(struct code *, const struct err *), void *ctx)
{
	const char *object = rpc_text(r, "object"), *source = rpc_text(r, "source"), *name = rpc_text(r, "source_name");
	struct err *e = &k->job.err;

	code_init(k, c, r, volatile_folder, done, ctx);
	if (!!object == !!source) {
		err_set(e, ERR_MISSING_PARAM, object ? "object and source exclude each other" : "neither object nor source is given");
		err_about(e, object ? "source" : "object", -1);
	} else if (object) {
		snprintf(k->sha256, sizeof k->sha256, "%s", object);
		k->object = rpc_upload(r, object);
		code_ingest(k);
		return;
	} else if (!(k->source = rpc_upload(r, source))) {
		err_set(e, ERR_OBJECT_NOT_FOUND, "no source with SHA-256 %s was uploaded on this connection", source);
	} else if (k->source->size > LIMIT_SOURCE_BYTES) {
		err_set(e, ERR_LIMIT_EXCEEDED, "the source has %zu bytes, more than %u", k->source->size, LIMIT_SOURCE_BYTES);
	} else {
		snprintf(k->source_name, sizeof k->source_name, "%s", name ? name : "module.c");
		code_compile(k);
		return;
	}
	code_fail(k);
}

void code_begin_stored(struct code *k, struct control *c, const char *sha256, const char *volatile_folder,
	void (*done)(struct code *, const struct err *), void *ctx)
{
	code_init(k, c, NULL, volatile_folder, done, ctx);
	(void)snprintf(k->sha256, sizeof k->sha256, "%s", sha256);
	code_ingest(k);
}

void code_cancel(struct code *k)
{
	struct spawner_message m;

	if (!k->compiling)
		return;
	spawner_message_init(&m, SPAWNER_JOB_KILL, NULL);
	m.value = k->job_tag;
	spawner_send(k->control->spawner, &m, NULL, 0);
}

void code_fini(struct code *k)
{
	k->source = blob_unref(k->source);
	k->object = blob_unref(k->object);
	fd_close(&k->object_fd);
	free(k->diagnostics);
	k->diagnostics = NULL;
}

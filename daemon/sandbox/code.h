/* SPDX-License-Identifier: MIT
 *
 * From what a client offers (an uploaded or stored object, or a C source) to a checked object: compile job, hash, ELF check.
 * One struct code per request; its end is told once. Loop thread; the work is done by the spawner's jobs and the storage thread. */
#ifndef SANDBOXD_CODE_H
#define SANDBOXD_CODE_H

#include <stdbool.h>

#include "daemon/control/control.h"
#include "daemon/front/rpc.h"
#include "daemon/store/blob.h"
#include "daemon/store/elf_check.h"
#include "daemon/store/storage.h"

struct code {
	struct storage_job job;
	struct control *control;
	const struct rpc_request *request; /* may go away only with the owner's consent: it waits for `done` */
	struct blob *source, *object;      /* references */
	struct elf_info elf;               /* of the object, but for a create */
	char sha256[SHA256_HEX_BYTES + 1]; /* of the object wanted */
	char source_name[LIMIT_ID_BYTES + 1]; /* "" for an object */
	char folder[LIMIT_PATH_BYTES + 1]; /* "": stored objects lie in the state folder only */
	char *diagnostics;                 /* of the compiler, cleaned UTF-8 with newlines; NULL: none */
	int object_fd;                     /* from a compile job, until it is read */
	uint64_t job_tag;
	bool compiling;
	struct err failure;                /* of what came before the storage job */
	void (*started_compile)(struct code *k); /* NULL ok */
	void (*done)(struct code *k, const struct err *e); /* e NULL: object is there and checked */
	void *ctx;
};

/* Starts; `done` is called later, exactly once (never from inside), and then the owner calls code_fini.
 * volatile_folder: where the objects of a sandbox that touches no disk lie; NULL: it isn't one. */
void code_begin(struct code *k, struct control *c, const struct rpc_request *r, const char *volatile_folder, void (*done)(struct code *, const struct err *), void *ctx);
/* The same for an object that the store holds already (a rollback). */
void code_begin_stored(struct code *k, struct control *c, const char *sha256, const char *volatile_folder, void (*done)(struct code *, const struct err *), void *ctx);
void code_cancel(struct code *k); /* its client has gone or its sandbox is destroyed: the job is killed; `done` still comes */
void code_fini(struct code *k);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Writes a sandbox's log to its files, in batches by storage jobs, and reads them back. What can't be written in time stays in the
 * ring as long as that has room, and is then counted as lost. Loop thread. */
#ifndef SANDBOXD_LOG_WRITER_H
#define SANDBOXD_LOG_WRITER_H

#include "daemon/observe/log_files.h"
#include "daemon/observe/log_readers.h"
#include "daemon/store/storage.h"

struct log_writer;

/* What the writers of all sandboxes share. */
struct log_store {
	struct storage *storage;
	size_t waiting; /* bytes of all batches */
};

/* is_fresh: a new sandbox: whatever is there under its name is another's, and goes. NULL: no memory. */
struct log_writer *log_writer_new(struct log_store *store, struct sandbox_log *l, const char *sandbox, bool is_fresh);
/* Writes what is there, and ends; remove: the files go. It frees itself when its jobs are done. NULL ok; returns NULL. */
struct log_writer *log_writer_end(struct log_writer *w, bool remove);

/* The newest line that an earlier control process wrote; 0-0: none, or not known yet. */
struct seq log_writer_found(const struct log_writer *w);

/* Older lines than the ring has. */
struct log_older {
	struct log_files_read read;                  /* since, until, since_ms, lines: the caller's */
	void (*done)(struct log_older *o);           /* later; read.to is the callee's to free */
	bool has_lost;                               /* files were gone: lost is what sandbox_log_lost says now */
	uint64_t lost;
	uint64_t ring, kept;                         /* the writer's own, like the next */
	struct log_files_gone gone;
	struct storage_job job;
	struct log_writer *writer;
};
void log_writer_older(struct log_writer *w, struct log_older *o); /* lives until done */

#endif

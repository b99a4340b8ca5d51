/* SPDX-License-Identifier: MIT
 *
 * A sandbox's log on disk: <state>/logs/<sandbox>/<n>.log, at most LIMIT_LOG_FILES of LIMIT_LOG_FILE_BYTES each, JSON lines:
 *   {"seq":"RING-POSITION","raw":bytes of the stream up to here,"n":bytes of this line,"at":...,"stream":...,"level":...,"text":...,"partial":...}
 * Whatever is read is checked; what can't be such a line is left out, a torn end is cut off before more is appended.
 * Blocks: belongs to storage jobs. Nothing is made before the first line. */
#ifndef SANDBOXD_LOG_FILES_H
#define SANDBOXD_LOG_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/observe/seq.h"
#include "proto/buf.h"
#include "proto/err.h"
#include "proto/limits.h"

struct log_files;

struct log_files_found {
	struct seq last;         /* the newest line; 0-0: none */
	uint64_t accounted;      /* its `raw` */
	uint64_t cut_bytes;      /* torn off */
};

struct log_files *log_files_new(int state_dir_fd, const char *sandbox); /* NULL: no memory */
struct log_files *log_files_free(struct log_files *f);
int log_files_open(struct log_files *f, struct log_files_found *found, struct err *e);
/* Whole lines; into a new file if the newest isn't where it was: moved, removed, or another one in its place. On failure *ret_bytes may still be > 0: so many of them, from the front, are there. */
int log_files_append(struct log_files *f, const char *lines, size_t size, size_t *ret_bytes, struct err *e);
/* What of the stream the files had that were found moved or removed since the last question; to 0: nothing. */
struct log_files_gone {
	uint64_t ring, from, to;
};
struct log_files_gone log_files_gone(struct log_files *f);
uint64_t log_files_kept(const struct log_files *f, uint64_t ring);      /* bytes of the stream that are there, of this ring */
int log_files_remove(int state_dir_fd, const char *sandbox, struct err *e); /* all; none is fine */
/* Removes the logs of all sandboxes that keep() doesn't know. Returns how many. */
int log_files_collect(int state_dir_fd, bool (*keep)(void *ctx, const char *sandbox), void *ctx);

struct log_files_read {
	struct seq since, until; /* behind since, up to and including until */
	int64_t since_ms;
	unsigned lines;          /* the newest so many */
	struct buf to;           /* with commas between them, without seq, raw and n */
	unsigned n;              /* how many they are */
};
void log_files_read(struct log_files *f, struct log_files_read *r);

/* The beginning of a line as above, which json_check has accepted or not; *ret_rest: where "at" begins. */
bool log_file_line(const char *line, size_t size, struct seq *ret_seq, uint64_t *ret_raw, uint64_t *ret_n, size_t *ret_rest);

#endif

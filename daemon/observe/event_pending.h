/* SPDX-License-Identifier: MIT
 *
 * Events that the storage thread hasn't written yet, in a small mapped file: <state>/events/pending. A control process that is
 * killed leaves them there for the next one, which also learns the number of the last event, kept or not. One writer. */
#ifndef SANDBOXD_EVENT_PENDING_H
#define SANDBOXD_EVENT_PENDING_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/observe/seq.h"
#include "proto/err.h"

struct event_pending;

/* dir_fd: the folder of events. Blocks. What an earlier process left is there until event_pending_begin. */
int event_pending_open(int dir_fd, struct event_pending **ret, struct err *e);
struct event_pending *event_pending_free(struct event_pending *p); /* NULL ok; the file stays */

/* What is there, whole lines as they were added, and the last event ever; checked by whoever reads it. */
const char *event_pending_text(const struct event_pending *p, size_t *ret_size, struct seq *ret_last);
void event_pending_begin(struct event_pending *p);                 /* forgets it */

void event_pending_add(struct event_pending *p, struct seq seq, const char *line, size_t size); /* without room only the number is kept */
void event_pending_written(struct event_pending *p);               /* all that was added is in the files now */

#endif

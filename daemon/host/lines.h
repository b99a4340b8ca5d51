/* SPDX-License-Identifier: MIT
 *
 * What a module logs: lines on stderr with sd-daemon's "<N>" in front, so that they survive in the pipe when
 * control or this process dies. Runs in sandbox-host. */
#ifndef SANDBOXD_HOST_LINES_H
#define SANDBOXD_HOST_LINES_H

#include <stddef.h>

/* A host_log_fn (module/instance.h): level is an enum sbx_level. One write() per line; never fails visibly. */
void lines_log(void *ctx, int level, const char *text, size_t n);

#endif

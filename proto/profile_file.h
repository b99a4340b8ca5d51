/* SPDX-License-Identifier: MIT
 *
 * A profile as a text: `key = value` lines in the form of sandboxd.conf (config_text.h), each a difference from a built-in profile.
 * The text is the administrator's, or a client's who asks whether it is good (profile.validate); opening the file, and who may own it, is
 * the spawner's business. Pure; runs in spawner and control. */
#ifndef SANDBOXD_PROFILE_FILE_H
#define SANDBOXD_PROFILE_FILE_H

#include <stddef.h>

#include "proto/err.h"
#include "proto/profile.h"

#define PROFILE_FILE_SUFFIX ".profile"

/* Who can look at the machine says of each path whether it may be granted; err without the path. NULL: nobody can (a client's text). */
struct profile_paths {
	int (*check)(void *ctx, const char *path, struct err *e);
	void *ctx;
};

/* An id that no built-in profile has, and not too long. */
int profile_name_check(const char *name, struct err *e);
/* The whole policy; it has passed policy_check. -1 with err: FILE:LINE, which key, what is wrong or contradicts what, and what to write
 * instead; name = key, offset = line. file is only for messages. */
int profile_parse(struct policy *ret, const char *name, const char *text, size_t size, const char *file, const struct profile_paths *paths,
	struct err *e);
size_t profile_keys(const char **ret_names, size_t room); /* how many keys there are; fills at most room names */

#endif

/* SPDX-License-Identifier: MIT
 *
 * Who may do what: a uid and its groups, as the kernel told them at accept, and the administrator's lists make a level; a method's
 * row asks for one. What belongs to whom is another question, answered by rpc_may_see. Pure; control process only. */
#ifndef SANDBOXD_RIGHTS_H
#define SANDBOXD_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proto/methods.h"
#include "proto/spawner_wire.h"

enum rights_level { RIGHTS_NONE, RIGHTS_OPERATOR, RIGHTS_ADMIN };

/* root, the daemon's own user and the configured administrators administrate. One group in a list suffices. */
enum rights_level rights_of(const struct control_begin *begin, uid_t uid, const gid_t *groups, size_t n_groups);
bool rights_allow(enum rights_level level, enum method_right needed);
const char *rights_text(enum rights_level level);          /* "none", "operator", "admin" */
const char *rights_needed_text(enum method_right needed);  /* "any", "operator", "admin" */

#endif

/* SPDX-License-Identifier: MIT
 *
 * The administrator's configuration: `key = value` lines, '#' comments. Root-owned (or the daemon's own user's when rootless),
 * not writable by group or others. Parsed by the spawner; the spawner hands control the few values that it needs
 * (struct control_begin in spawner_wire.h): control never supplies configuration. Unknown keys, doubled keys, bad values
 * are errors with file and line. */
#ifndef SANDBOXD_CONFIG_H
#define SANDBOXD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/err.h"
#include "proto/limits.h"

#define CONFIG_MAX_USERS 64

struct config {
	char socket_path[108];                     /* sun_path's size */
	char state_dir[LIMIT_PATH_BYTES + 1];
	char runtime_dir[LIMIT_PATH_BYTES + 1];
	mode_t socket_mode;                        /* socket_mode = 0600 */
	gid_t socket_group;                        /* socket_group = 100 or a name; (gid_t)-1: the daemon's */
	uid_t administrators[CONFIG_MAX_USERS];    /* administrators = 1000, ada; root and the daemon's own user always are */
	size_t n_administrators;
	uid_t operators[CONFIG_MAX_USERS];         /* operators = 1002, 1003 or * */
	size_t n_operators;
	bool everyone_operates;
	gid_t administrator_groups[CONFIG_MAX_USERS]; /* administrator_groups = 27, wheel: by any of a client's groups */
	size_t n_administrator_groups;
	gid_t operator_groups[CONFIG_MAX_USERS];
	size_t n_operator_groups;
	uid_t uid_first;                           /* uid_first = 1879048192: beyond what systemd-nspawn and subuid use */
	uint32_t uid_count;                        /* uid_count = 1048576 */
	uint32_t max_sandboxes;
	uint64_t max_memory_bytes;                 /* ceilings that the spawner checks each spawn against; 0: none */
	uint32_t max_processes, max_open_files;
	uint64_t max_file_size_bytes;
	uint32_t spare_hosts;                      /* of each profile in use: processes that wait for a sandbox; 0: none are made in advance */
	uint32_t max_jobs;
	uint32_t max_sandboxes_per_owner, max_jobs_per_owner; /* in total; 0: no limit. Administrators' requests are exempt */
	uint64_t max_memory_per_owner, max_store_bytes_per_owner;
	uint64_t compile_memory_bytes;
	uint32_t compile_timeout_ms;
	uint32_t shutdown_timeout_ms;              /* the daemon's own end */
	uint32_t zygote_hosts, zygote_age_ms;      /* a zygote is renewed after so many hosts, or when it is so old */
};

void config_defaults(struct config *c, uid_t uid);   /* the compiled-in defaults for root or for a user (XDG folders) */
/* Applies a text to *c. file is only for messages. -1 with err on the first bad line (name = key, offset = line). */
int config_parse(struct config *c, const char *text, size_t size, const char *file, struct err *e);
/* The same, with names allowed where a user or group is meant: looked up in these texts of the form of /etc/passwd and
 * /etc/group (NULL: none), by no other way: a name that needs NSS must be given as a number. */
struct config_names {
	const char *users, *groups;
	size_t users_size, groups_size;
};
int config_parse_named(struct config *c, const char *text, size_t size, const char *file, const struct config_names *names,
	struct err *e);
size_t config_keys(const char **ret_names, size_t room);  /* how many keys there are; fills at most room names */
/* The key of a folder or socket of the daemon's own that this plain absolute path is, lies in, or has in it; NULL: none. */
const char *config_meets(const struct config *c, const char *path);
int config_check(const struct config *c, struct err *e); /* values against each other: paths absolute, ranges sane */

#endif

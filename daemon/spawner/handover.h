/* SPDX-License-Identifier: MIT
 *
 * What a spawner leaves to the program that takes its place: one memfd of fixed-size records, with a checksum over all. Descriptors stand
 * in it by number; they stay open over the exec. Reading is pure and believes nothing: whatever is wrong with the bytes is an err. What the
 * descriptors are is looked at by the program that has them (handover_descriptors). */
#ifndef SANDBOXD_HANDOVER_H
#define SANDBOXD_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/spawner/cgroups.h"
#include "proto/build.h"
#include "proto/err.h"
#include "proto/limits.h"
#include "proto/spawner_wire.h"

#define HANDOVER_MAGIC   0x5265766f646e6148ull /* "HandoveR" */
#define HANDOVER_FORMAT  1u /* of these records. A later build may read older ones too */
#define HANDOVER_FIRST_FD 3 /* no descriptor below is handed over */

/* Single descriptors of the spawner, each in one place. */
enum handover_fd { HANDOVER_RUNTIME, HANDOVER_LOCK, HANDOVER_STATE, HANDOVER_OBJECTS, HANDOVER_JOBS, HANDOVER_OUTCOMES, HANDOVER_LISTEN,
	/* may be -1 */
	HANDOVER_FAULTS, HANDOVER_SLICES, HANDOVER_NOTIFY, HANDOVER_CGROUP, HANDOVER_FD__N };

struct handover_head {
	uint64_t magic;
	uint32_t format, head_size, entry_size;
	uint32_t n_entries, n_uids, n_sweeps; /* records behind the head, in this order: entries, free uids, uids to be swept */
	uint64_t checksum;                    /* of all bytes, with this field 0 */
	struct build build;                   /* of who wrote it */
	int32_t fds[HANDOVER_FD__N];
	uint32_t is_root, control_uid, objects_mounted;
	uint32_t epoch, upgrades;             /* controls, upgrades so far */
	uint32_t uid_first, slices, slices_next, uids_room;
	uint32_t stop_asked;
	uint64_t incarnation, generations, spare_number;
	uint64_t listen_device, listen_inode;
	uint64_t cgroups_has, denials_dropped;
	int64_t stop_by_ms, stop_asked_ms, watchdog_ms;
	char runtime_dir[LIMIT_PATH_BYTES + 1], state_dir[LIMIT_PATH_BYTES + 1], socket_path[108];
	char cgroup_dir[LIMIT_PATH_BYTES + 1], cgroup_why[LIMIT_ID_BYTES + 1];
};

#define HANDOVER_ENTRY_FDS 8 /* those of enum entry_fd, then its seccomp listener */

enum { HANDOVER_EXITED = 1, HANDOVER_FROZEN = 2, HANDOVER_BY_CGROUP = 4, HANDOVER_LOOSE = 8, HANDOVER_OWN_PIDS = 16, HANDOVER_OOM = 32,
	HANDOVER_SECOND = 64, /* its objects are in the sandbox's second folder */
	HANDOVER_FLAGS = 127 };

struct handover_entry {
	char sandbox[LIMIT_ID_BYTES + 1];
	uint32_t uid;
	int32_t fds[HANDOVER_ENTRY_FDS]; /* -1: none */
	int32_t pid;                     /* 0: no process lives */
	int32_t status;
	uint32_t flags, n_denials, host_build;
	char profile[LIMIT_PROFILE_NAME_BYTES + 1]; /* "": none; by name, since the administrator's files decide about the numbers */
	struct host_limits limits;
	uint64_t generation, dropped_bytes;
	int64_t started_ms, ended_ms;
	char leaf[CGROUP_LEAF_BYTES];
	char step[LIMIT_ID_BYTES + 1], text[96];
};

#define HANDOVER_UIDS_MAX  (LIMIT_SANDBOXES * 16u) /* of each sort: far more slices than a daemon can use */
#define HANDOVER_BYTES_MAX (sizeof(struct handover_head) + LIMIT_SANDBOXES * sizeof(struct handover_entry) + 8ull * HANDOVER_UIDS_MAX)

/* Pointers into bytes that the owner of the view has. */
struct handover {
	const struct handover_head *head;
	const struct handover_entry *entries;
	const uint32_t *uids, *sweeps;
};

/* Magic, format, sizes and checksum of the head are filled in. The caller's to free; NULL: no memory, or more than may be. */
void *handover_pack(const struct handover *h, size_t *ret_size);
/* A view of these bytes, which are aligned as malloc aligns. -1 with UPGRADE_REFUSED. */
int handover_read(const void *bytes, size_t size, struct handover *ret, struct err *e);

/* All descriptors that it names, sorted; the caller's to free. NULL: no memory. */
int *handover_fds(const struct handover *h, size_t *ret_n);
/* Is each of them open in this process, and of the kind that it should be? */
int handover_descriptors(const struct handover *h, struct err *e);

#endif

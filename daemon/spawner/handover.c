/* SPDX-License-Identifier: MIT */
#include "daemon/spawner/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/spawner/table.h"
#include "proto/fd.h"
#include "proto/names.h"
#include "proto/profile.h"

_Static_assert(HANDOVER_ENTRY_FDS == ENTRY_FD__N + 1, "an entry's descriptors and its listener");

#define REFUSED(e, ...) err_set((e), ERR_UPGRADE_REFUSED, __VA_ARGS__)
#define BROKEN(e, ...)  (err_set((e), ERR_UPGRADE_REFUSED, __VA_ARGS__), err_prefix((e), "the table that was handed over is damaged"))

static const uint64_t fnv_begin = 0xcbf29ce484222325ull, fnv_prime = 0x100000001b3ull;

static uint64_t fnv(uint64_t sum, const void *bytes, size_t size)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ p[i]) * fnv_prime;
	return sum;
}

static uint64_t checksum(const void *bytes, size_t size)
{
	const size_t at = offsetof(struct handover_head, checksum), behind = at + sizeof(uint64_t);
	const uint64_t zero = 0;
	uint64_t sum = fnv(fnv_begin, bytes, at);

	sum = fnv(sum, &zero, sizeof zero);
	return fnv(sum, (const uint8_t *)bytes + behind, size - behind);
}

/* ---- writing ---- */

void *handover_pack(const struct handover *h, size_t *ret_size)
{
	const struct handover_head *head = h->head;
	size_t entries = head->n_entries * sizeof(struct handover_entry), uids = head->n_uids * sizeof(uint32_t);
	size_t sweeps = head->n_sweeps * sizeof(uint32_t), size = sizeof *head + entries + uids + sweeps;
	struct handover_head *to;
	uint8_t *bytes;

	if (head->n_entries > LIMIT_SANDBOXES || head->n_uids > HANDOVER_UIDS_MAX || head->n_sweeps > HANDOVER_UIDS_MAX)
		return NULL;
	bytes = calloc(1, size);
	if (!bytes)
		return NULL;
	to = (struct handover_head *)bytes;
	*to = *head;
	to->magic = HANDOVER_MAGIC;
	to->format = HANDOVER_FORMAT;
	to->head_size = sizeof *head;
	to->entry_size = sizeof(struct handover_entry);
	if (entries)
		memcpy(bytes + sizeof *head, h->entries, entries);
	if (uids)
		memcpy(bytes + sizeof *head + entries, h->uids, uids);
	if (sweeps)
		memcpy(bytes + sizeof *head + entries + uids, h->sweeps, sweeps);
	to->checksum = checksum(bytes, size);
	*ret_size = size;
	return bytes;
}

/* ---- reading ---- */

static bool ends(const char *text, size_t room)
{
	return memchr(text, 0, room) != NULL;
}

static bool fd_fits(int32_t fd, bool may_lack)
{
	return fd >= HANDOVER_FIRST_FD || (may_lack && fd == -1);
}

static int head_check(const struct handover_head *h, size_t size, struct err *e)
{
	uint64_t wanted;

	if (size < sizeof *h || h->magic != HANDOVER_MAGIC)
		return REFUSED(e, "this is no table of a daemon");
	if (h->format != HANDOVER_FORMAT)
		return REFUSED(e, "the table that is handed over has format %u, and this build reads %u", h->format, HANDOVER_FORMAT);
	if (h->head_size != sizeof *h || h->entry_size != sizeof(struct handover_entry))
		return BROKEN(e, "its records have %u and %u bytes", h->head_size, h->entry_size);
	if (h->n_entries > LIMIT_SANDBOXES || h->n_uids > HANDOVER_UIDS_MAX || h->n_sweeps > HANDOVER_UIDS_MAX)
		return BROKEN(e, "it has %u entries, %u and %u user ids", h->n_entries, h->n_uids, h->n_sweeps);
	wanted = sizeof *h + (uint64_t)h->n_entries * sizeof(struct handover_entry) + 4ull * h->n_uids + 4ull * h->n_sweeps;
	if (size != wanted)
		return BROKEN(e, "it has %zu bytes instead of %llu", size, (unsigned long long)wanted);
	if (checksum(h, size) != h->checksum)
		return BROKEN(e, "its checksum differs");
	return 0;
}

static int head_values_check(const struct handover_head *h, struct err *e)
{
	if (!ends(h->runtime_dir, sizeof h->runtime_dir) || !ends(h->state_dir, sizeof h->state_dir) ||
		!ends(h->socket_path, sizeof h->socket_path) || !ends(h->cgroup_dir, sizeof h->cgroup_dir) ||
		!ends(h->cgroup_why, sizeof h->cgroup_why))
		return BROKEN(e, "a path has no end");
	for (int i = 0; i < HANDOVER_FD__N; i++)
		if (!fd_fits(h->fds[i], i >= HANDOVER_FAULTS))
			return BROKEN(e, "descriptor %d is %d", i, h->fds[i]);
	if (h->is_root > 1 || h->objects_mounted > 1 || (h->is_root == 1) != (h->fds[HANDOVER_SLICES] != -1))
		return BROKEN(e, "it doesn't say whose it is");
	if (h->epoch == UINT32_MAX || h->upgrades == UINT32_MAX || h->slices_next > h->slices || h->stop_asked > (1u << 30))
		return BROKEN(e, "a count is out of range");
	if (h->uids_room > HANDOVER_UIDS_MAX || (uint64_t)h->n_uids + h->n_sweeps > h->uids_room)
		return BROKEN(e, "%u user ids are free, and %u to be swept, of %u", h->n_uids, h->n_sweeps, h->uids_room);
	if (h->stop_asked_ms < 0 || h->stop_by_ms < 0 || h->watchdog_ms < 0)
		return BROKEN(e, "a time is before the machine's start");
	return 0;
}

static int entry_check(const struct handover_head *h, const struct handover_entry *entry, struct err *e)
{
	bool lives = entry->pid > 0;

	if (!ends(entry->sandbox, sizeof entry->sandbox) || !name_is_id(entry->sandbox, strlen(entry->sandbox)))
		return BROKEN(e, "an entry has no id");
	if (!ends(entry->leaf, sizeof entry->leaf) || !ends(entry->step, sizeof entry->step) || !ends(entry->text, sizeof entry->text))
		return BROKEN(e, "a text of '%s' has no end", entry->sandbox);
	for (size_t i = 0; i < HANDOVER_ENTRY_FDS; i++)
		if (!fd_fits(entry->fds[i], true))
			return BROKEN(e, "a descriptor of '%s' is %d", entry->sandbox, entry->fds[i]);
	if (entry->pid < 0 || !ends(entry->profile, sizeof entry->profile) || (entry->flags & ~(uint32_t)HANDOVER_FLAGS))
		return BROKEN(e, "'%s' has a process, a profile or flags that can't be", entry->sandbox);
	if (entry->generation > h->generations || (entry->generation == 0 && (lives || (entry->flags & HANDOVER_EXITED))))
		return BROKEN(e, "'%s' has a generation that was never given", entry->sandbox);
	if (lives && ((entry->flags & HANDOVER_EXITED) || entry->fds[ENTRY_CHANNEL] == -1))
		return BROKEN(e, "the process of '%s' lives, and has ended or lacks its channel", entry->sandbox);
	if (!lives && entry->fds[HANDOVER_ENTRY_FDS - 1] != -1)
		return BROKEN(e, "'%s' has a listener and no process", entry->sandbox);
	if (strchr(entry->leaf, '/'))
		return BROKEN(e, "the cgroup of '%s' is a path", entry->sandbox);
	return 0;
}

static int text_order(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int number_order(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

static int names_check(const struct handover *h, struct err *e)
{
	size_t n = h->head->n_entries;
	const char **names = calloc(n ? n : 1, sizeof *names);
	int *pids = calloc(n ? n : 1, sizeof *pids), result = 0;

	if (!names || !pids)
		result = REFUSED(e, "no memory for %zu names", n);
	for (size_t i = 0; i < n && result == 0; i++) {
		names[i] = h->entries[i].sandbox;
		pids[i] = h->entries[i].pid;
	}
	if (result == 0) {
		qsort(names, n, sizeof *names, text_order);
		qsort(pids, n, sizeof *pids, number_order);
	}
	for (size_t i = 1; i < n && result == 0; i++)
		if (strcmp(names[i - 1], names[i]) == 0 || (pids[i] != 0 && pids[i - 1] == pids[i]))
			result = BROKEN(e, "two entries are one sandbox, or have one process");
	free(names);
	free(pids);
	return result;
}

static int fds_check(const struct handover *h, struct err *e)
{
	size_t n;
	int *fds = handover_fds(h, &n), result = 0;

	if (!fds)
		return REFUSED(e, "no memory for the descriptors of a table");
	for (size_t i = 1; i < n && result == 0; i++)
		if (fds[i - 1] == fds[i])
			result = BROKEN(e, "descriptor %d stands in it twice", fds[i]);
	free(fds);
	return result;
}

int handover_read(const void *bytes, size_t size, struct handover *ret, struct err *e)
{
	const struct handover_head *h = bytes;

	if (head_check(h, size, e) == -1 || head_values_check(h, e) == -1)
		return -1;
	ret->head = h;
	ret->entries = (const struct handover_entry *)(h + 1);
	ret->uids = (const uint32_t *)(ret->entries + h->n_entries);
	ret->sweeps = ret->uids + h->n_uids;
	for (uint32_t i = 0; i < h->n_entries; i++)
		if (entry_check(h, &ret->entries[i], e) == -1)
			return -1;
	return names_check(ret, e) == -1 || fds_check(ret, e) == -1 ? -1 : 0;
}

/* ---- descriptors ---- */

int *handover_fds(const struct handover *h, size_t *ret_n)
{
	size_t n = 0;
	int *fds = calloc(HANDOVER_FD__N + (size_t)h->head->n_entries * HANDOVER_ENTRY_FDS, sizeof *fds);

	if (!fds)
		return NULL;
	for (size_t i = 0; i < HANDOVER_FD__N; i++)
		if (h->head->fds[i] != -1)
			fds[n++] = h->head->fds[i];
	for (uint32_t i = 0; i < h->head->n_entries; i++)
		for (size_t k = 0; k < HANDOVER_ENTRY_FDS; k++)
			if (h->entries[i].fds[k] != -1)
				fds[n++] = h->entries[i].fds[k];
	qsort(fds, n, sizeof *fds, number_order);
	*ret_n = n;
	return fds;
}

enum kind { A_FOLDER, A_FILE, A_MEMFD, A_LISTENER, A_SOCKET, A_PIPE, A_NAMELESS };

static bool is_kind(int fd, enum kind kind)
{
	int on = 0;
	socklen_t size = sizeof on;
	struct stat st;

	if (fstat(fd, &st) == -1)
		return false;
	switch (kind) {
	case A_FOLDER:
		return S_ISDIR(st.st_mode);
	case A_FILE:
		return S_ISREG(st.st_mode);
	case A_MEMFD:
		return S_ISREG(st.st_mode) && fcntl(fd, F_GET_SEALS) != -1;
	case A_LISTENER:
		return S_ISSOCK(st.st_mode) && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &size) == 0 && on == 1;
	case A_SOCKET:
		return S_ISSOCK(st.st_mode);
	case A_PIPE:
		return S_ISFIFO(st.st_mode);
	case A_NAMELESS: /* of the kernel's anonymous inodes */
		return (st.st_mode & S_IFMT) == 0;
	}
	return false;
}

int handover_descriptors(const struct handover *h, struct err *e)
{
	static const enum kind of_head[HANDOVER_FD__N] = { A_FOLDER, A_FILE, A_FOLDER, A_FOLDER, A_FOLDER, A_MEMFD, A_LISTENER, A_MEMFD, A_FILE, A_SOCKET,
		A_FOLDER };
	static const enum kind of_entry[HANDOVER_ENTRY_FDS] = { A_MEMFD, A_MEMFD, A_MEMFD, A_SOCKET, A_PIPE, A_PIPE, A_MEMFD, A_NAMELESS };

	for (size_t i = 0; i < HANDOVER_FD__N; i++)
		if (h->head->fds[i] != -1 && !is_kind(h->head->fds[i], of_head[i]))
			return BROKEN(e, "descriptor %d (place %zu) isn't what it should be", h->head->fds[i], i);
	for (uint32_t i = 0; i < h->head->n_entries; i++)
		for (size_t k = 0; k < HANDOVER_ENTRY_FDS; k++)
			if (h->entries[i].fds[k] != -1 && !is_kind(h->entries[i].fds[k], of_entry[k]))
				return BROKEN(e, "descriptor %d (place %zu of '%s') isn't what it should be", h->entries[i].fds[k], k,
					h->entries[i].sandbox);
	return 0;
}

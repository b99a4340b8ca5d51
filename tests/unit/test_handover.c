/* SPDX-License-Identifier: MIT
 *
 * The table that crosses an exec: what is packed is read again; each byte changed and each end cut is refused; whatever a wrong table says
 * under a right checksum is refused too. Which builds go together. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/spawner/handover.h"
#include "daemon/spawner/table.h"
#include "proto/fd.h"
#include "tests/support/check_main.h"

#define ENTRIES 5
#define UIDS    7
#define SWEEPS  2

static struct handover_head head;
static struct handover_entry entries[ENTRIES];
static uint32_t uids[UIDS], sweeps[SWEEPS];
static const struct handover whole = { &head, entries, uids, sweeps };

static void any_bytes(void *to, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((uint8_t *)to)[i] = (uint8_t)rand();
}

/* Good, with numbers of all sorts. */
static void fill(unsigned seed)
{
	int fd = HANDOVER_FIRST_FD;

	srand(seed);
	memset(&head, 0, sizeof head);
	memset(entries, 0, sizeof entries);
	head.n_entries = (uint32_t)rand() % (ENTRIES + 1);
	head.n_uids = (uint32_t)rand() % (UIDS + 1);
	head.n_sweeps = (uint32_t)rand() % (SWEEPS + 1);
	head.build = build_own();
	for (int i = 0; i < HANDOVER_FD__N; i++)
		head.fds[i] = i >= HANDOVER_FAULTS && i != HANDOVER_SLICES && rand() % 2 ? -1 : fd++;
	head.is_root = 1;
	head.uids_room = UIDS + SWEEPS;
	head.slices = 4096;
	head.slices_next = 2;
	head.generations = 1000;
	head.incarnation = (uint64_t)rand() << 20;
	(void)strcpy(head.runtime_dir, "/run/sandboxd");
	(void)strcpy(head.socket_path, "/run/sandboxd/sandboxd.sock");
	any_bytes(uids, sizeof uids);
	any_bytes(sweeps, sizeof sweeps);
	for (uint32_t i = 0; i < head.n_entries; i++) {
		struct handover_entry *entry = &entries[i];

		(void)snprintf(entry->sandbox, sizeof entry->sandbox, "sandbox-%u", i);
		entry->pid = rand() % 2 ? 100 + (int)i : 0;
		for (size_t k = 0; k < HANDOVER_ENTRY_FDS; k++)
			entry->fds[k] = rand() % 2 && (entry->pid || k != ENTRY_FD__N) ? fd++ : -1;
		if (entry->pid && entry->fds[ENTRY_CHANNEL] == -1)
			entry->fds[ENTRY_CHANNEL] = fd++;
		entry->generation = 1 + (uint64_t)rand() % 1000;
		entry->flags = (uint32_t)rand() % (HANDOVER_FLAGS + 1u) & ~(entry->pid ? HANDOVER_EXITED : 0u);
		(void)snprintf(entry->profile, sizeof entry->profile, "%s", profile_builtin((enum profile)(rand() % PROFILE__N))->name);
		entry->limits.max_memory_bytes = (uint64_t)rand();
		entry->started_ms = rand();
		(void)snprintf(entry->leaf, sizeof entry->leaf, "sandbox-%u@%u", i, i);
	}
}

static void *packed(size_t *ret_size)
{
	void *bytes = handover_pack(&whole, ret_size);

	ck_assert_ptr_nonnull(bytes);
	return bytes;
}

static int reads(const void *bytes, size_t size, struct handover *ret)
{
	struct err e = ERR_INIT;
	int result = handover_read(bytes, size, ret, &e);

	ck_assert_int_eq(result == 0, e.code == ERR_OK);
	ck_assert(result == 0 || e.code == ERR_UPGRADE_REFUSED);
	return result;
}

START_TEST(what_goes_in_comes_out)
{
	for (unsigned seed = 0; seed < 500; seed++) {
		struct handover h;
		size_t size, n;
		void *bytes;
		int *fds;

		fill(seed);
		bytes = packed(&size);
		ck_assert_int_eq(reads(bytes, size, &h), 0);
		ck_assert_uint_eq(h.head->n_entries, head.n_entries);
		ck_assert_mem_eq(h.head->fds, head.fds, sizeof head.fds);
		ck_assert_int_eq(memcmp(h.entries, entries, head.n_entries * sizeof *entries), 0);
		ck_assert_int_eq(memcmp(h.uids, uids, head.n_uids * sizeof *uids), 0);
		ck_assert_int_eq(memcmp(h.sweeps, sweeps, head.n_sweeps * sizeof *sweeps), 0);
		fds = handover_fds(&h, &n);
		for (size_t i = 0; i < n; i++) /* each once, sorted; they were given in a row */
			ck_assert_int_eq(fds[i], HANDOVER_FIRST_FD + (int)i);
		free(fds);
		free(bytes);
	}
}
END_TEST

START_TEST(each_byte_counts)
{
	struct handover h;
	uint8_t *bytes;
	size_t size;

	for (unsigned seed = 0; head.n_entries < 2; seed++)
		fill(seed);
	bytes = packed(&size);
	for (size_t i = 0; i < size; i++) {
		const uint8_t was = bytes[i];

		bytes[i] ^= (uint8_t)(1u << (i % 8));
		ck_assert_int_eq(reads(bytes, size, &h), -1);
		bytes[i] = (uint8_t)~was;
		ck_assert_int_eq(reads(bytes, size, &h), -1);
		bytes[i] = was;
	}
	ck_assert_int_eq(reads(bytes, size, &h), 0);
	free(bytes);
}
END_TEST

START_TEST(each_end_counts)
{
	struct handover h;
	uint8_t *bytes, *more;
	size_t size;

	fill(3);
	bytes = packed(&size);
	for (size_t n = 0; n < size; n++) {
		uint8_t *cut = malloc(n ? n : 1); /* of its own: a look beyond its end is seen by a sanitizer */

		ck_assert_ptr_nonnull(cut);
		memcpy(cut, bytes, n);
		ck_assert_int_eq(reads(cut, n, &h), -1);
		free(cut);
	}
	more = calloc(1, size + 8);
	ck_assert_ptr_nonnull(more);
	memcpy(more, bytes, size);
	ck_assert_int_eq(reads(more, size + 8, &h), -1);
	free(more);
	free(bytes);
}
END_TEST

/* Packed anew, so that the checksum is right: only what it says is wrong. */
static void refused_as(const char *words)
{
	struct err e = ERR_INIT;
	struct handover h;
	size_t size;
	void *bytes = packed(&size);

	ck_assert_int_eq(handover_read(bytes, size, &h, &e), -1);
	ck_assert_int_eq(e.code, ERR_UPGRADE_REFUSED);
	ck_assert_msg(strstr(e.text, words) != NULL, "'%s' lacks '%s'", e.text, words);
	free(bytes);
}

static void good(void)
{
	for (unsigned seed = 0; seed == 0 || head.n_entries < 3 || entries[0].pid == 0 || entries[1].pid != 0; seed++)
		fill(seed);
}

#define WRONG(change, words) \
	do {                 \
		good();      \
		change;      \
		refused_as(words); \
	} while (0)

START_TEST(what_can_not_be_is_refused)
{
	WRONG(memset(head.runtime_dir, 'x', sizeof head.runtime_dir), "a path has no end");
	WRONG(memset(head.state_dir, 'x', sizeof head.state_dir), "a path has no end");
	WRONG(memset(head.socket_path, 'x', sizeof head.socket_path), "a path has no end");
	WRONG(memset(head.cgroup_dir, 'x', sizeof head.cgroup_dir), "a path has no end");
	WRONG(memset(head.cgroup_why, 'x', sizeof head.cgroup_why), "a path has no end");
	WRONG(head.fds[HANDOVER_LISTEN] = -1, "descriptor");
	WRONG(head.fds[HANDOVER_LOCK] = 2, "descriptor");
	WRONG(head.fds[HANDOVER_NOTIFY] = -2, "descriptor");
	WRONG(head.fds[HANDOVER_LOCK] = head.fds[HANDOVER_STATE], "twice");
	WRONG(entries[0].fds[ENTRY_CHANNEL] = head.fds[HANDOVER_STATE], "twice");
	WRONG(head.is_root = 2, "whose");
	WRONG(head.is_root = 0, "whose");
	WRONG(head.objects_mounted = 2, "whose");
	WRONG(head.epoch = UINT32_MAX, "out of range");
	WRONG(head.upgrades = UINT32_MAX, "out of range");
	WRONG(head.slices_next = head.slices + 1, "out of range");
	WRONG(head.stop_asked = UINT32_MAX, "out of range");
	WRONG((head.n_uids = UIDS, head.uids_room = UIDS - 1), "user ids");
	WRONG(head.uids_room = HANDOVER_UIDS_MAX + 1, "user ids");
	WRONG(head.watchdog_ms = -1, "a time");
	WRONG(head.stop_by_ms = -1, "a time");
	WRONG(entries[1].sandbox[0] = '\0', "no id");
	WRONG((void)strcpy(entries[1].sandbox, "../x"), "no id");
	WRONG(memset(entries[1].sandbox, 'x', sizeof entries[1].sandbox), "no id");
	WRONG((void)strcpy(entries[1].sandbox, entries[0].sandbox), "one sandbox");
	WRONG((entries[1] = entries[0], (void)strcpy(entries[1].sandbox, "other")), "one process");
	WRONG(memset(entries[1].leaf, 'x', sizeof entries[1].leaf), "no end");
	WRONG(memset(entries[1].step, 'x', sizeof entries[1].step), "no end");
	WRONG(memset(entries[1].text, 'x', sizeof entries[1].text), "no end");
	WRONG((void)strcpy(entries[1].leaf, "../daemon"), "is a path");
	WRONG(entries[1].fds[0] = 1, "a descriptor of");
	WRONG(entries[0].pid = -1, "can't be");
	WRONG(memset(entries[0].profile, 'x', sizeof entries[0].profile), "can't be");
	WRONG(entries[0].flags |= HANDOVER_FLAGS + 1u, "can't be");
	WRONG(entries[0].generation = 0, "generation");
	WRONG(entries[0].generation = head.generations + 1, "generation");
	WRONG(entries[0].flags |= HANDOVER_EXITED, "has ended");
	WRONG(entries[0].fds[ENTRY_CHANNEL] = -1, "lacks its channel");
	WRONG(entries[1].fds[ENTRY_FD__N] = 4000, "a listener");
}
END_TEST

START_TEST(no_more_than_may_be)
{
	size_t size;

	good();
	head.n_entries = LIMIT_SANDBOXES + 1;
	ck_assert_ptr_null(handover_pack(&whole, &size));
	good();
	head.n_uids = HANDOVER_UIDS_MAX + 1;
	ck_assert_ptr_null(handover_pack(&whole, &size));
	good();
	head.n_sweeps = HANDOVER_UIDS_MAX + 1;
	ck_assert_ptr_null(handover_pack(&whole, &size));
}
END_TEST

/* One of each kind; then another kind in its place. */
START_TEST(descriptors_are_looked_at)
{
	struct err e = ERR_INIT;
	struct handover h = { .head = &head, .entries = entries };
	const struct sockaddr nameless = { .sa_family = AF_UNIX };
	int pair[2], ends[2], listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), memfd = fd_memfd("m", "x", 1, true);

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	ck_assert_int_eq(bind(listener, &nameless, sizeof nameless.sa_family), 0); /* any abstract name */
	ck_assert_int_eq(listen(listener, 1), 0);
	memset(&head, 0, sizeof head);
	memset(entries, 0, sizeof entries);
	{
		const int right[HANDOVER_FD__N] = { folder, file, folder, folder, folder, memfd, listener, memfd, file, pair[0], folder };
		const int of_entry[HANDOVER_ENTRY_FDS] = { memfd, memfd, memfd, pair[1], ends[0], ends[0], memfd, -1 };
		const int kinds[] = { folder, file, memfd, listener, pair[0], ends[0], 99999 };
		size_t n_refused = 0;

		memcpy(head.fds, right, sizeof right);
		head.n_entries = 1;
		memcpy(entries[0].fds, of_entry, sizeof of_entry);
		ck_assert_int_eq(handover_descriptors(&h, &e), 0);
		for (size_t i = 0; i < HANDOVER_FD__N; i++)
			for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
				head.fds[i] = kinds[k];
				n_refused += handover_descriptors(&h, &e) == -1;
				head.fds[i] = right[i];
			}
		ck_assert_uint_ge(n_refused, HANDOVER_FD__N * 4u);
		for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) { /* no file of any name is a listener of a filter */
			entries[0].fds[ENTRY_FD__N] = kinds[k];
			ck_assert_int_eq(handover_descriptors(&h, &e), -1);
		}
	}
	for (int fd = 0; fd < 2; fd++) {
		(void)close(pair[fd]);
		(void)close(ends[fd]);
	}
	(void)close(listener);
	(void)close(folder);
	(void)close(file);
	(void)close(memfd);
}
END_TEST

START_TEST(builds)
{
	const struct build own = build_own();
	char text[BUILD_TEXT_BYTES], other[BUILD_TEXT_BYTES + 8];
	struct build b;
	struct err e = ERR_INIT;

	build_text(&own, text);
	ck_assert_int_eq(build_parse(text, &b), 0);
	ck_assert_int_eq(build_is_same(&own, &b, "it", &e), 0);
	ck_assert_int_eq(build_follows(&own, &b, &e), 0);
	for (size_t n = 0; n < strlen(text); n++) { /* cut, and another byte */
		(void)snprintf(other, sizeof other, "%.*s", (int)n, text);
		ck_assert_int_eq(build_parse(other, &b), -1);
	}
	(void)snprintf(other, sizeof other, "%s ", text);
	ck_assert_int_eq(build_parse(other, &b), -1);
	for (int i = 0; i < 5; i++) {
		b = own;
		((uint32_t *)&b)[i]++;
		ck_assert_int_eq(build_is_same(&own, &b, "it", &e), -1);
		ck_assert_int_eq(e.code, ERR_UPGRADE_REFUSED);
	}
	b = own;
	b.host_wire++;
	ck_assert_int_eq(build_follows(&own, &b, &e), -1);
	b = own;
	b.kept--;
	ck_assert_int_eq(build_follows(&own, &b, &e), -1);
	b = own;
	b.registry++; /* the running one has written a newer registry than this one reads */
	ck_assert_int_eq(build_follows(&own, &b, &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "registries up to format"));
	b.registry = own.registry - 1;
	b.spawner_wire++; /* between programs of one build only */
	b.zygote_wire++;
	ck_assert_int_eq(build_follows(&own, &b, &e), 0);
}
END_TEST

CHECK_MAIN("handover", tcase_add_test(tc, what_goes_in_comes_out); tcase_add_test(tc, each_byte_counts); tcase_add_test(tc, each_end_counts);
	tcase_add_test(tc, what_can_not_be_is_refused); tcase_add_test(tc, no_more_than_may_be);
	tcase_add_test(tc, descriptors_are_looked_at); tcase_add_test(tc, builds))

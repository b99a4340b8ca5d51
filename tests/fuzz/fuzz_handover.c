/* SPDX-License-Identifier: MIT
 *
 * The table that an old program leaves to a new one: any bytes, or a good table with the input written over it here and there, with a
 * checksum that is right. What is taken holds all that the new program relies on. */
#include "tests/fuzz/fuzz.h"

#include "daemon/spawner/handover.h"
#include "daemon/spawner/table.h"
#include "proto/names.h"

#define ENTRIES 3

static struct handover_head head;
static struct handover_entry entries[ENTRIES];
static uint32_t uids[4];

static void good(uint8_t how)
{
	int fd = HANDOVER_FIRST_FD;

	memset(&head, 0, sizeof head);
	memset(entries, 0, sizeof entries);
	head.build = build_own();
	for (int i = 0; i < HANDOVER_FD__N; i++)
		head.fds[i] = fd++;
	head.is_root = 1;
	head.uids_room = 8;
	head.slices = 4;
	head.generations = 10;
	head.n_entries = how % (ENTRIES + 1);
	head.n_uids = how / 4 % 4;
	head.n_sweeps = how / 16 % 4;
	for (unsigned i = 0; i < ENTRIES; i++) {
		(void)snprintf(entries[i].sandbox, sizeof entries[i].sandbox, "s%u", i);
		(void)snprintf(entries[i].leaf, sizeof entries[i].leaf, "s%u@1", i);
		for (size_t k = 0; k < HANDOVER_ENTRY_FDS; k++)
			entries[i].fds[k] = i == 2 && k == ENTRY_FD__N ? -1 : fd++;
		entries[i].pid = i == 2 ? 0 : 100 + (int)i;
		entries[i].generation = i + 1;
	}
}

/* Some bytes of the input at a place that it names: in the head, or in an entry. */
static void change(struct fuzz_in *in)
{
	while (in->left > 3) {
		uint8_t what = fuzz_u8(in);
		size_t n = 1u << (what / 4 % 4);

		if (what % 4 == 0)
			fuzz_take(in, (uint8_t *)&head + fuzz_u16(in) % (sizeof head - 8), n);
		else if (what % 4 == 1)
			memset(&entries[what / 16 % ENTRIES].sandbox[0] + fuzz_u16(in) % (sizeof entries[0] - 128), fuzz_u8(in), 128);
		else if (what % 4 == 2)
			memset((uint8_t *)&head + offsetof(struct handover_head, runtime_dir) + fuzz_u16(in) % 600, 'x', 260);
		else
			fuzz_take(in, (uint8_t *)&entries[what / 16 % ENTRIES] + fuzz_u16(in) % (sizeof entries[0] - 8), n);
	}
}

static void taken(const struct handover *h)
{
	size_t n;
	int *fds = handover_fds(h, &n);

	FUZZ_MUST(fds != NULL);
	for (size_t i = 0; i < n; i++)
		FUZZ_MUST(fds[i] >= HANDOVER_FIRST_FD && (i == 0 || fds[i] > fds[i - 1]));
	free(fds);
	FUZZ_MUST((uint64_t)h->head->n_uids + h->head->n_sweeps <= h->head->uids_room);
	for (uint32_t i = 0; i < h->head->n_entries; i++) {
		const struct handover_entry *entry = &h->entries[i];

		FUZZ_MUST(name_is_id(entry->sandbox, strlen(entry->sandbox)) && strlen(entry->leaf) < sizeof entry->leaf && !strchr(entry->leaf, '/'));
		FUZZ_MUST(entry->pid == 0 || (entry->fds[ENTRY_CHANNEL] != -1 && !(entry->flags & HANDOVER_EXITED) && entry->generation > 0));
		FUZZ_MUST(entry->generation <= h->head->generations);
	}
}

static void line_of_a_build(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), again[BUILD_TEXT_BYTES];
	struct build b;

	FUZZ_MUST(text != NULL);
	if (build_parse(text, &b) == 0) {
		build_text(&b, again);
		FUZZ_MUST(strcmp(text, again) == 0);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct handover whole = { &head, entries, uids, uids };
	struct fuzz_in in = { data, size };
	uint8_t how = fuzz_u8(&in);
	struct handover h;
	struct err e = ERR_INIT;
	size_t packed_size;
	void *bytes;

	line_of_a_build(data, size);
	good(how);
	if (how & 0x80) { /* behind its checksum, or in the counts that pack looks at */
		bytes = handover_pack(&whole, &packed_size);
		FUZZ_MUST(bytes != NULL);
		while (in.left > 2)
			fuzz_take(&in, (uint8_t *)bytes + fuzz_u16(&in) % (packed_size - 8), 4);
		packed_size -= how & 0x40 ? 4 : 0;
	} else {
		change(&in);
		bytes = head.n_entries <= ENTRIES && head.n_uids <= 4 && head.n_sweeps <= 4 ? handover_pack(&whole, &packed_size) : NULL;
	}
	if (!bytes)
		return 0;
	if (handover_read(bytes, packed_size, &h, &e) == -1) {
		fuzz_refused(&e);
		FUZZ_MUST(e.code == ERR_UPGRADE_REFUSED);
	} else {
		taken(&h);
	}
	free(bytes);
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * The second half of elf_check: what the dynamic section makes the loader do. Tables must lie in loaded bytes of the
 * file, other libraries come by plain names only, and the descriptor is looked up the way dlsym does it: through the
 * GNU hash table where there is one, else through the old one. Tags are gathered as the loader does: the last one counts. */
#include "daemon/store/elf_image.h"

#include <inttypes.h>

#define DESCRIPTOR "sandbox_module"
#define KEPT_TAGS  64 /* all tags read by value are below, or have a slot of their own */

struct dynamic {
	const struct elf_image *im;
	uint64_t tag[KEPT_TAGS];
	bool has[KEPT_TAGS];
	uint64_t gnu_hash;
	bool has_gnu_hash;
	const char *strings;
	uint64_t strings_size;
	const unsigned char *symbols;
	uint64_t n_symbols; /* that could be there at most: up to the end of their segment */
};

static int refuse(struct err *e, const char *why)
{
	return err_set(e, ERR_BAD_IMAGE, "%s", why);
}

/* ---- tags ---- */

static const struct {
	uint64_t tag;
	const char *why;
} refused_tags[] = {
	{ DT_TEXTREL, "its code needs relocations in read-only memory (TEXTREL): compile it with -fPIC" },
	{ DT_RPATH, "it names folders to search libraries in (DT_RPATH)" },
	{ DT_RUNPATH, "it names folders to search libraries in (DT_RUNPATH)" },
	{ DT_AUDIT, "it names a library that audits the loader (DT_AUDIT)" },
	{ DT_DEPAUDIT, "it names a library that audits the loader (DT_DEPAUDIT)" },
	{ DT_FILTER, "it is a filter for another library (DT_FILTER)" },
	{ DT_AUXILIARY, "it is a filter for another library (DT_AUXILIARY)" },
};

static int take_tag(struct dynamic *d, const Elf64_Dyn *dyn, struct err *e)
{
	uint64_t tag = (uint64_t)dyn->d_tag, value = dyn->d_un.d_val;

	for (size_t i = 0; i < sizeof(refused_tags) / sizeof(refused_tags[0]); i++)
		if (tag == refused_tags[i].tag)
			return refuse(e, refused_tags[i].why);
	if (tag == DT_FLAGS && (value & DF_TEXTREL))
		return refuse(e, refused_tags[0].why);
	if (tag == DT_FLAGS_1 && (value & DF_1_PIE))
		return refuse(e, "it is a program (PIE), not a shared object: link it with -shared");
	if (tag < KEPT_TAGS) {
		d->tag[tag] = value;
		d->has[tag] = true;
	} else if (tag == DT_GNU_HASH) {
		d->gnu_hash = value;
		d->has_gnu_hash = true;
	}
	return 0;
}

/* The loader reads up to DT_NULL, whatever the header says about the size: so it must be there. */
static int take_tags(struct dynamic *d, const unsigned char *at, uint64_t n, struct err *e)
{
	for (uint64_t i = 0; i < n; i++) {
		Elf64_Dyn dyn;

		memcpy(&dyn, at + i * sizeof(dyn), sizeof(dyn));
		if (dyn.d_tag == DT_NULL)
			return 0;
		if (take_tag(d, &dyn, e) == -1)
			return -1;
	}
	return refuse(e, "its dynamic section has no end");
}

/* ---- tables ---- */

static const struct {
	unsigned address, size;
	const char *name;
} tables[] = {
	{ DT_RELA, DT_RELASZ, "relocations" },
	{ DT_REL, DT_RELSZ, "relocations" },
	{ DT_JMPREL, DT_PLTRELSZ, "relocations of calls" },
	{ DT_INIT_ARRAY, DT_INIT_ARRAYSZ, "constructors" },
	{ DT_FINI_ARRAY, DT_FINI_ARRAYSZ, "destructors" },
	{ 36 /* DT_RELR, not in every elf.h */, 35 /* DT_RELRSZ */, "packed relocations" },
};

static int check_tables(const struct dynamic *d, struct err *e)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		uint64_t n = d->has[tables[i].size] ? d->tag[tables[i].size] : 0;

		if (!d->has[tables[i].address] && n > 0)
			return err_set(e, ERR_BAD_IMAGE,
				"it has %" PRIu64 " bytes of %s, but doesn't say where", n, tables[i].name);
		if (n > 0 && !elf_range(d->im, d->tag[tables[i].address], n))
			return err_set(e, ERR_BAD_IMAGE,
				"its %s aren't part of what gets loaded from the file", tables[i].name);
	}
	return 0;
}

static int find_symbols(struct dynamic *d, struct err *e)
{
	uint64_t room = 0;

	d->strings = d->has[DT_STRTAB] && d->has[DT_STRSZ] && d->tag[DT_STRSZ] > 0 ?
		(const char *)elf_range(d->im, d->tag[DT_STRTAB], d->tag[DT_STRSZ]) : NULL;
	if (!d->strings)
		return refuse(e, "its table of names isn't part of what gets loaded from the file");
	d->strings_size = d->tag[DT_STRSZ];
	if (d->strings[d->strings_size - 1] != '\0')
		return refuse(e, "its table of names has no end");
	if (d->has[DT_SYMENT] && d->tag[DT_SYMENT] != sizeof(Elf64_Sym))
		return refuse(e, "its symbols have a wrong size");
	d->symbols = d->has[DT_SYMTAB] ? elf_at_address(d->im, d->tag[DT_SYMTAB], &room) : NULL;
	d->n_symbols = room / sizeof(Elf64_Sym);
	if (!d->symbols || d->n_symbols == 0)
		return refuse(e, "its symbols aren't part of what gets loaded from the file");
	return 0;
}

/* ---- needed libraries ---- */

/* No folders, and no '$', which the loader replaces by a folder. */
static int check_needed_name(const struct dynamic *d, uint64_t offset, struct err *e)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
	const char *name;
	size_t n;

	if (offset >= d->strings_size)
		return refuse(e, "a library that it needs has its name outside of the table of names");
	name = d->strings + offset;
	n = strnlen(name, d->strings_size - offset); /* the table ends with a NUL */
	if (n == 0 || n > LIMIT_PATH_BYTES || strspn(name, plain) != n)
		return err_set(e, ERR_BAD_IMAGE,
			"it needs the library '%.100s': only plain names are taken, no paths", name);
	return 0;
}

static int check_needed(const struct dynamic *d, const unsigned char *at, uint64_t n, struct err *e)
{
	for (uint64_t i = 0; i < n; i++) {
		Elf64_Dyn dyn;

		memcpy(&dyn, at + i * sizeof(dyn), sizeof(dyn));
		if (dyn.d_tag == DT_NULL)
			break;
		if (dyn.d_tag == DT_NEEDED && check_needed_name(d, dyn.d_un.d_val, e) == -1)
			return -1;
	}
	return 0;
}

/* ---- the descriptor ---- */

enum seen { SEEN_OTHER, SEEN_DESCRIPTOR, SEEN_WRONG /* err set */ };

static enum seen look_at_symbol(const struct dynamic *d, uint64_t index, struct err *e)
{
	Elf64_Sym s;
	const char *why = NULL;

	if (index >= d->n_symbols) {
		(void)refuse(e, "its symbol hash table points outside of the symbols");
		return SEEN_WRONG;
	}
	memcpy(&s, d->symbols + index * sizeof(s), sizeof(s));
	if (s.st_name >= d->strings_size || d->strings_size - s.st_name < sizeof(DESCRIPTOR) ||
		memcmp(d->strings + s.st_name, DESCRIPTOR, sizeof(DESCRIPTOR)) != 0 || s.st_shndx == SHN_UNDEF)
		return SEEN_OTHER;
	if (ELF64_ST_TYPE(s.st_info) != STT_OBJECT)
		why = "its symbol " DESCRIPTOR " isn't an object: use SBX_MODULE of sandbox_module.h";
	else if (ELF64_ST_BIND(s.st_info) != STB_GLOBAL)
		why = "its symbol " DESCRIPTOR " isn't global: use SBX_MODULE of sandbox_module.h";
	else if (ELF64_ST_VISIBILITY(s.st_other) != STV_DEFAULT && ELF64_ST_VISIBILITY(s.st_other) != STV_PROTECTED)
		why = "its symbol " DESCRIPTOR " is hidden";
	else if (s.st_shndx >= SHN_LORESERVE || !elf_range(d->im, s.st_value, s.st_size ? s.st_size : 1))
		why = "its symbol " DESCRIPTOR " isn't part of what gets loaded from the file";
	if (!why)
		return SEEN_DESCRIPTOR;
	(void)refuse(e, why);
	return SEEN_WRONG;
}

static int no_descriptor(struct err *e)
{
	return refuse(e, "it has no symbol " DESCRIPTOR ": a module ends with SBX_MODULE of sandbox_module.h");
}

static int hash_table_cut(struct err *e)
{
	return refuse(e, "its symbol hash table isn't part of what gets loaded from the file");
}

static uint32_t word(const unsigned char *at, uint64_t index)
{
	uint32_t w;

	memcpy(&w, at + index * sizeof(w), sizeof(w));
	return w;
}

/* Header of four words, a Bloom filter of 64-bit words, buckets, then one word per symbol from the first hashed one:
 * its hash with the lowest bit set in the last of a chain. */
static int find_by_gnu_hash(const struct dynamic *d, struct err *e)
{
	uint64_t room = 0, words, chains, n_buckets, first, index, bloom;
	const unsigned char *at = elf_at_address(d->im, d->gnu_hash, &room);
	uint32_t hash = 5381;

	for (const char *c = DESCRIPTOR; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	words = room / sizeof(uint32_t);
	if (!at || words < 4)
		return hash_table_cut(e);
	n_buckets = word(at, 0);
	first = word(at, 1);
	bloom = word(at, 2);
	chains = 4 + 2 * bloom + n_buckets; /* 32-bit numbers: no overflow */
	if (chains > words || bloom == 0 || (bloom & (bloom - 1)))
		return hash_table_cut(e);
	if (n_buckets == 0)
		return no_descriptor(e);
	index = word(at, 4 + 2 * bloom + hash % n_buckets);
	if (index == 0)
		return no_descriptor(e);
	for (; index >= first && chains + (index - first) < words; index++) {
		uint32_t chained = word(at, chains + (index - first));
		enum seen seen = (chained | 1) == (hash | 1) ? look_at_symbol(d, index, e) : SEEN_OTHER;

		if (seen != SEEN_OTHER)
			return seen == SEEN_DESCRIPTOR ? 0 : -1;
		if (chained & 1)
			return no_descriptor(e);
	}
	return hash_table_cut(e);
}

/* The old table: two words of sizes, buckets, then for each symbol the next of its chain. */
static int find_by_old_hash(const struct dynamic *d, struct err *e)
{
	uint64_t room = 0, n_buckets, n_chain, index;
	const unsigned char *at = elf_at_address(d->im, d->tag[DT_HASH], &room);
	uint32_t hash = 0;

	for (const char *c = DESCRIPTOR; *c; c++) {
		hash = (hash << 4) + (unsigned char)*c;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	if (!at || room < 2 * sizeof(uint32_t))
		return hash_table_cut(e);
	n_buckets = word(at, 0);
	n_chain = word(at, 1);
	if (2 + n_buckets + n_chain > room / sizeof(uint32_t))
		return hash_table_cut(e);
	index = n_buckets ? word(at, 2 + hash % n_buckets) : 0;
	for (uint64_t steps = 0; index != 0 && steps <= n_chain; steps++) {
		enum seen seen;

		if (index >= n_chain)
			return hash_table_cut(e);
		seen = look_at_symbol(d, index, e);
		if (seen != SEEN_OTHER)
			return seen == SEEN_DESCRIPTOR ? 0 : -1;
		index = word(at, 2 + n_buckets + index);
	}
	return index == 0 ? no_descriptor(e) : refuse(e, "its symbol hash table goes round in a circle");
}

int elf_check_dynamic(const struct elf_image *im, struct err *e)
{
	struct dynamic d = { .im = im };
	const Elf64_Phdr *p = &im->dynamic;
	uint64_t n = p->p_filesz / sizeof(Elf64_Dyn);
	const unsigned char *at;

	if (p->p_type != PT_DYNAMIC)
		return refuse(e, "it has no dynamic section: link it with -shared");
	at = elf_range(im, p->p_vaddr, p->p_filesz);
	if (!at || at != im->data + p->p_offset || p->p_vaddr % sizeof(uint64_t) != 0)
		return refuse(e, "its dynamic section isn't part of what gets loaded from the file");
	if (take_tags(&d, at, n, e) == -1 || check_tables(&d, e) == -1 || find_symbols(&d, e) == -1 ||
		check_needed(&d, at, n, e) == -1)
		return -1;
	if (d.has_gnu_hash)
		return find_by_gnu_hash(&d, e);
	if (d.has[DT_HASH])
		return find_by_old_hash(&d, e);
	return refuse(e, "it has no table to find symbols in (DT_GNU_HASH, DT_HASH)");
}

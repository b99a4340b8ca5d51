/* SPDX-License-Identifier: MIT
 *
 * Variables that code can write and that aren't declared state: each version gets its own, fresh. Found by the symbol table, which a linker
 * leaves in a shared object unless it was stripped; then only their size is known. It is for a warning: what can't be read is left out. */
#include "daemon/store/elf_check.h"
#include "daemon/store/elf_image.h"

#define CRT_BYTES    16          /* __dso_handle and completed.0 with their padding: in every object */
#define SYMBOLS_MOST (1u << 20)

struct finding {
	const struct elf_image *im;
	Elf64_Shdr names;            /* of sections */
	bool is_ours[LIMIT_ELF_HEADERS];
	struct elf_info *info;
};

static Elf64_Shdr section(const struct elf_image *im, unsigned i)
{
	Elf64_Shdr s;

	memcpy(&s, im->data + im->head.e_shoff + (uint64_t)i * sizeof(s), sizeof(s));
	return s;
}

/* A text of a string section that check_sections has seen; NULL: it isn't there, or has no end. */
static const char *text_at(const struct elf_image *im, const Elf64_Shdr *strings, uint64_t offset)
{
	const char *at;

	if (strings->sh_type != SHT_STRTAB || offset >= strings->sh_size)
		return NULL;
	at = (const char *)im->data + strings->sh_offset + offset;
	return memchr(at, '\0', strings->sh_size - offset) ? at : NULL;
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Plain variables, also thread-local ones; not what is only written while relocations are made. */
static bool is_data(const struct finding *f, const Elf64_Shdr *s)
{
	const char *name = text_at(f->im, &f->names, s->sh_name);

	if (!name || (s->sh_type != SHT_PROGBITS && s->sh_type != SHT_NOBITS) || !(s->sh_flags & SHF_WRITE) || !(s->sh_flags & SHF_ALLOC))
		return false;
	if (begins(name, ".data.rel.ro"))
		return false;
	return strcmp(name, ".data") == 0 || begins(name, ".data.") || strcmp(name, ".bss") == 0 || begins(name, ".bss.") ||
		strcmp(name, ".tdata") == 0 || strcmp(name, ".tbss") == 0;
}

/* The compiler's own, in every object. */
static bool is_of_the_compiler(const char *name)
{
	static const char *const theirs[] = { "completed.", "__", "_DYNAMIC", "_GLOBAL_OFFSET_TABLE_", "_ZGV", "_ZStL8__ioinit", "DW.ref." };

	for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
		if (begins(name, theirs[i]))
			return true;
	return !*name;
}

static void look_at_symbols(struct finding *f, const Elf64_Shdr *table, const Elf64_Shdr *strings)
{
	uint64_t n = table->sh_size / sizeof(Elf64_Sym);

	for (uint64_t i = 0; i < n && i < SYMBOLS_MOST; i++) {
		struct elf_info *info = f->info;
		const char *name;
		Elf64_Sym s;

		memcpy(&s, f->im->data + table->sh_offset + i * sizeof(s), sizeof(s));
		if ((ELF64_ST_TYPE(s.st_info) != STT_OBJECT && ELF64_ST_TYPE(s.st_info) != STT_TLS) || s.st_size == 0 ||
			s.st_shndx >= f->im->head.e_shnum || !f->is_ours[s.st_shndx])
			continue;
		name = text_at(f->im, strings, s.st_name);
		if (!name || is_of_the_compiler(name))
			continue;
		if (info->n_globals < ELF_GLOBALS_NAMED)
			text_clean(info->globals[info->n_globals], sizeof(info->globals[0]), name, strlen(name));
		info->n_globals++;
		info->globals_bytes += s.st_size <= UINT32_MAX ? s.st_size : UINT32_MAX;
	}
}

void elf_find_globals(const struct elf_image *im, struct elf_info *info)
{
	struct finding f = { .im = im, .info = info };
	uint64_t bytes = 0;

	if (im->head.e_shstrndx >= im->head.e_shnum || im->head.e_shnum > LIMIT_ELF_HEADERS)
		return;
	f.names = section(im, im->head.e_shstrndx);
	for (unsigned i = 0; i < im->head.e_shnum; i++) {
		Elf64_Shdr s = section(im, i);

		f.is_ours[i] = is_data(&f, &s);
		if (f.is_ours[i] && s.sh_size <= UINT32_MAX)
			bytes += s.sh_size;
	}
	for (unsigned i = 0; i < im->head.e_shnum; i++) {
		Elf64_Shdr s = section(im, i), strings;

		if (s.sh_type != SHT_SYMTAB || s.sh_entsize != sizeof(Elf64_Sym) || s.sh_link >= im->head.e_shnum)
			continue;
		strings = section(im, s.sh_link);
		look_at_symbols(&f, &s, &strings);
		return;
	}
	if (bytes > CRT_BYTES)
		info->globals_bytes = bytes - CRT_BYTES;
}

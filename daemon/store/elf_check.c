/* SPDX-License-Identifier: MIT
 *
 * The first look at an object: what kind of file it is, whether every segment and section that it promises is there,
 * and whether a loader would map it without making memory both writable and executable. The dynamic section is
 * elf_dynamic.c's. This protects from mistakes (cut files, other machines, programs) with a clear reason; it is no
 * wall against a hostile module, which runs its own code in the confined host anyway. */
#include "daemon/store/elf_check.h"

#include <ctype.h>
#include <inttypes.h>
#include <unistd.h>

#include "daemon/store/elf_image.h"

#if defined __x86_64__
#define OUR_MACHINE EM_X86_64
#elif defined __aarch64__
#define OUR_MACHINE EM_AARCH64
#else
#error "say here what e_machine this machine's objects have"
#endif

#define SPAN_BYTES (1ull << 30) /* memory that an object may take, and its largest alignment: far beyond any module */
#define INFO_NAME  ".sbx.info"

static int refuse(struct err *e, const char *why)
{
	return err_set(e, ERR_BAD_IMAGE, "%s", why);
}

/* ---- what kind of file ---- */

static const char *machine_name(unsigned machine)
{
	static const struct {
		unsigned machine;
		const char *name;
	} names[] = {
		{ EM_386, "i386" }, { EM_ARM, "arm" }, { EM_X86_64, "x86-64" }, { EM_AARCH64, "aarch64" },
		{ EM_RISCV, "riscv" }, { EM_PPC64, "ppc64" }, { EM_S390, "s390" }, { EM_MIPS, "mips" }, { EM_BPF, "bpf" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].machine == machine)
			return names[i].name;
	return "another machine";
}

static int refuse_no_elf(const unsigned char *data, size_t size, struct err *e)
{
	static const struct {
		const char *magic, *why;
	} kinds[] = {
		{ "!<arch>\n", "it is an archive (.a), not a shared object" },
		{ "BC\xc0\xde", "it is a compiler's bitcode, not a shared object; build without -flto" },
		{ "#!", "it is a script, not a shared object" },
	};
	size_t text = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t n = strlen(kinds[i].magic);

		if (size >= n && memcmp(data, kinds[i].magic, n) == 0)
			return refuse(e, kinds[i].why);
	}
	while (text < size && text < 64 && (isprint(data[text]) || isspace(data[text])))
		text++;
	if (text == size || text == 64)
		return refuse(e, "it is text, not a shared object");
	return refuse(e, "it is not an ELF file");
}

static int check_ident(const unsigned char *data, size_t size, struct err *e)
{
	if (size == 0)
		return refuse(e, "it is empty");
	if (size < SELFMAG || memcmp(data, ELFMAG, SELFMAG) != 0)
		return refuse_no_elf(data, size, e);
	if (size < EI_NIDENT)
		return err_set(e, ERR_BAD_IMAGE, "it is cut off: %zu bytes of an ELF header", size);
	if (data[EI_CLASS] != ELFCLASS64)
		return refuse(e, data[EI_CLASS] == ELFCLASS32 ? "it is 32-bit" : "its class is neither 32-bit nor 64-bit");
	if (data[EI_DATA] != ELFDATA2LSB)
		return refuse(e, data[EI_DATA] == ELFDATA2MSB ? "it is big-endian" : "its byte order is unknown");
	if (data[EI_VERSION] != EV_CURRENT)
		return err_set(e, ERR_BAD_IMAGE, "its ELF version is %u, not 1", data[EI_VERSION]);
	if (data[EI_OSABI] != ELFOSABI_SYSV && data[EI_OSABI] != ELFOSABI_GNU)
		return err_set(e, ERR_BAD_IMAGE, "it is for another operating system: OS ABI %u", data[EI_OSABI]);
	if (size < sizeof(Elf64_Ehdr))
		return err_set(e, ERR_BAD_IMAGE,
			"it is cut off: %zu bytes of an ELF header's %zu", size, sizeof(Elf64_Ehdr));
	return 0;
}

static int check_type(unsigned type, struct err *e)
{
	if (type == ET_DYN)
		return 0;
	if (type == ET_REL)
		return refuse(e, "it is an object file (.o): link it with -shared");
	if (type == ET_EXEC)
		return refuse(e, "it is a program, not a shared object: link it with -shared");
	if (type == ET_CORE)
		return refuse(e, "it is a core dump");
	return err_set(e, ERR_BAD_IMAGE, "its type is %u, not a shared object's", type);
}

static int check_head(const struct elf_image *im, struct err *e)
{
	const Elf64_Ehdr *h = &im->head;

	if (h->e_machine != OUR_MACHINE)
		return err_set(e, ERR_BAD_IMAGE,
			"it is for %s (machine %u), this machine is %s", machine_name(h->e_machine),
			h->e_machine, machine_name(OUR_MACHINE));
	if (check_type(h->e_type, e) == -1)
		return -1;
	if (h->e_version != EV_CURRENT || h->e_ehsize != sizeof(Elf64_Ehdr))
		return refuse(e, "its ELF header has a wrong version or size");
	if (h->e_phnum == 0)
		return refuse(e, "it has no program headers");
	if (h->e_phentsize != sizeof(Elf64_Phdr))
		return err_set(e, ERR_BAD_IMAGE, "its program headers have %u bytes, not %zu", h->e_phentsize,
			sizeof(Elf64_Phdr));
	if (h->e_phnum > LIMIT_ELF_HEADERS)
		return err_set(e, ERR_BAD_IMAGE, "it has %u program headers, at most %d are taken", h->e_phnum,
			LIMIT_ELF_HEADERS);
	if (!elf_in_file(im, h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr)))
		return err_set(e, ERR_BAD_IMAGE,
			"its program headers lie outside of the file of %" PRIu64 " bytes: it is cut off",
			im->size);
	if (h->e_shnum == 0 && h->e_shoff == 0)
		return 0; /* stripped of its section table: loaders don't need it */
	if (h->e_shnum == 0 || h->e_shnum > LIMIT_ELF_SECTIONS) /* 0 with a table: the number didn't fit in 16 bits */
		return err_set(e, ERR_BAD_IMAGE,
			"it has %s sections, at most %d are taken", h->e_shnum ? "too many" : "65280 or more",
			LIMIT_ELF_SECTIONS);
	if (h->e_shentsize != sizeof(Elf64_Shdr))
		return err_set(e, ERR_BAD_IMAGE, "its section headers have %u bytes, not %zu", h->e_shentsize,
			sizeof(Elf64_Shdr));
	if (!elf_in_file(im, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)))
		return err_set(e, ERR_BAD_IMAGE,
			"its section table begins at byte %" PRIu64 " and doesn't fit in a file of %" PRIu64 ": it is cut off",
			h->e_shoff, im->size);
	return 0;
}

/* ---- segments ---- */

static uint64_t page_down(uint64_t address)
{
	return address & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

/* Only for sums that were bounded before. */
static uint64_t page_up(uint64_t address)
{
	return page_down(address + (uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

static int refuse_segment(struct err *e, unsigned i, const char *why)
{
	return err_set(e, ERR_BAD_IMAGE, "segment %u %s", i, why);
}

static int check_alignment(const Elf64_Phdr *p, unsigned i, struct err *e)
{
	if (p->p_align & (p->p_align - 1) || p->p_align > SPAN_BYTES)
		return refuse_segment(e, i, "has an alignment that isn't a power of two, or too large");
	if (p->p_align < (uint64_t)sysconf(_SC_PAGESIZE))
		return refuse_segment(e, i, "is aligned to less than a page of this machine");
	if ((p->p_vaddr - p->p_offset) & (p->p_align - 1))
		return refuse_segment(e, i, "has an address that doesn't agree with its place in the file");
	return 0;
}

static int check_load(struct elf_image *im, const Elf64_Phdr *p, unsigned i, struct err *e)
{
	const Elf64_Phdr *before = im->n_loads ? &im->loads[im->n_loads - 1] : NULL;

	if (p->p_filesz > p->p_memsz)
		return refuse_segment(e, i, "has more bytes in the file than in memory");
	if (p->p_memsz > SPAN_BYTES || p->p_vaddr > UINT64_MAX / 2)
		return refuse_segment(e, i, "is larger than 1 GiB or has an address beyond all memory");
	if ((p->p_flags & PF_W) && (p->p_flags & PF_X))
		return refuse_segment(e, i, "is writable and executable");
	if (check_alignment(p, i, e) == -1)
		return -1;
	if (before && page_down(p->p_vaddr) < page_up(before->p_vaddr + before->p_memsz))
		return refuse_segment(e, i, "lies before or upon the one before it");
	if (p->p_vaddr + p->p_memsz - (before ? im->loads[0].p_vaddr : p->p_vaddr) > SPAN_BYTES)
		return refuse_segment(e, i, "ends more than 1 GiB behind the first one");
	im->loads[im->n_loads++] = *p;
	return 0;
}

static int check_segment(struct elf_image *im, const Elf64_Phdr *p, unsigned i, bool *has_stack, struct err *e)
{
	if (p->p_type == PT_NULL)
		return 0;
	if (!elf_in_file(im, p->p_offset, p->p_filesz))
		return err_set(e, ERR_BAD_IMAGE,
			"segment %u has %" PRIu64 " bytes at %" PRIu64 " of a file of %" PRIu64 ": it is cut off",
			i, p->p_filesz, p->p_offset, im->size);
	switch (p->p_type) {
	case PT_LOAD:
		return check_load(im, p, i, e);
	case PT_INTERP:
		return refuse(e, "it is a program (it names an interpreter), not a shared object: link it with -shared");
	case PT_GNU_STACK:
		*has_stack = true;
		return p->p_flags & PF_X ? refuse(e, "it asks for an executable stack: link it with -z noexecstack") : 0;
	case PT_DYNAMIC:
		if (im->dynamic.p_type == PT_DYNAMIC)
			return refuse_segment(e, i, "is a second dynamic section");
		im->dynamic = *p;
		return 0;
	default:
		return 0;
	}
}

/* What the loader reads or protects by address, and would fault on: it must be part of what gets mapped. */
static int check_placed(const struct elf_image *im, const Elf64_Phdr *p, unsigned i, struct err *e)
{
	if (p->p_type == PT_TLS) {
		if (p->p_align & (p->p_align - 1) || p->p_align > SPAN_BYTES || p->p_memsz > SPAN_BYTES ||
			p->p_filesz > p->p_memsz)
			return refuse_segment(e, i, "(thread-local data) has a wrong size or alignment");
		if (p->p_filesz > 0 && !elf_range(im, p->p_vaddr, p->p_filesz))
			return refuse_segment(e, i, "(thread-local data) isn't part of what gets loaded");
	}
	if (p->p_type == PT_GNU_RELRO && p->p_memsz > 0) {
		for (unsigned k = 0; k < im->n_loads; k++) {
			const Elf64_Phdr *load = &im->loads[k];

			if (p->p_vaddr >= load->p_vaddr && p->p_memsz <= SPAN_BYTES &&
				p->p_vaddr < load->p_vaddr + load->p_memsz &&
				p->p_vaddr + p->p_memsz <= page_up(load->p_vaddr + load->p_memsz))
				return 0;
		}
		return refuse_segment(e, i, "(read-only after relocation) isn't part of what gets loaded");
	}
	return 0;
}

static Elf64_Phdr program_header(const struct elf_image *im, unsigned i)
{
	Elf64_Phdr p;

	memcpy(&p, im->data + im->head.e_phoff + (uint64_t)i * sizeof(p), sizeof(p));
	return p;
}

static int check_segments(struct elf_image *im, struct err *e)
{
	bool has_stack = false;

	for (unsigned i = 0; i < im->head.e_phnum; i++) {
		Elf64_Phdr p = program_header(im, i);

		if (check_segment(im, &p, i, &has_stack, e) == -1)
			return -1;
	}
	if (im->n_loads == 0)
		return refuse(e, "it has nothing to load");
	for (unsigned i = 0; i < im->head.e_phnum; i++) {
		Elf64_Phdr p = program_header(im, i);

		if (check_placed(im, &p, i, e) == -1)
			return -1;
	}
	if (!has_stack)
		return refuse(e, "it doesn't say that its stack isn't executable (no PT_GNU_STACK): link it with -z noexecstack");
	return 0;
}

/* ---- sections ---- */

static Elf64_Shdr section_header(const struct elf_image *im, unsigned i)
{
	Elf64_Shdr s;

	memcpy(&s, im->data + im->head.e_shoff + (uint64_t)i * sizeof(s), sizeof(s));
	return s;
}

static int check_sections(const struct elf_image *im, struct err *e)
{
	for (unsigned i = 0; i < im->head.e_shnum; i++) {
		Elf64_Shdr s = section_header(im, i);

		if (s.sh_type == SHT_NULL || s.sh_type == SHT_NOBITS)
			continue;
		if (!elf_in_file(im, s.sh_offset, s.sh_size))
			return err_set(e, ERR_BAD_IMAGE,
				"section %u has %" PRIu64 " bytes at %" PRIu64 " of a file of %" PRIu64 ": it is cut off", i,
				s.sh_size, s.sh_offset, im->size);
	}
	return 0;
}

/* "sbx=1;name=NAME;state=N". It is for people: what can't be read is left out. */
static void parse_info(const char *text, size_t size, struct elf_info *info)
{
	static const char known[] = "sbx=1;";
	const char *at = text, *end = text + strnlen(text, size);

	if ((size_t)(end - at) < sizeof(known) - 1 || memcmp(at, known, sizeof(known) - 1) != 0)
		return;
	while (at < end) {
		const char *stop = memchr(at, ';', (size_t)(end - at));
		size_t n = (size_t)((stop ? stop : end) - at);

		if (n > 5 && memcmp(at, "name=", 5) == 0)
			text_clean(info->module, sizeof(info->module), at + 5, n - 5);
		if (n > 6 && n <= 16 && memcmp(at, "state=", 6) == 0) {
			uint64_t version = 0;

			for (size_t i = 6; i < n && version <= UINT32_MAX; i++)
				version = isdigit((unsigned char)at[i]) ? version * 10 + (uint64_t)(at[i] - '0') : UINT64_MAX;
			info->state_version = version <= UINT32_MAX ? (uint32_t)version : 0;
		}
		at = stop ? stop + 1 : end;
	}
}

/* After check_sections: every section but NOBITS lies in the file. */
static void read_info(const struct elf_image *im, struct elf_info *info)
{
	Elf64_Shdr names;

	if (im->head.e_shstrndx >= im->head.e_shnum)
		return;
	names = section_header(im, im->head.e_shstrndx);
	if (names.sh_type != SHT_STRTAB)
		return;
	for (unsigned i = 0; i < im->head.e_shnum; i++) {
		Elf64_Shdr s = section_header(im, i);

		if (s.sh_type == SHT_PROGBITS && !(s.sh_flags & SHF_COMPRESSED) && s.sh_name < names.sh_size &&
			names.sh_size - s.sh_name >= sizeof(INFO_NAME) &&
			memcmp(im->data + names.sh_offset + s.sh_name, INFO_NAME, sizeof(INFO_NAME)) == 0) {
			parse_info((const char *)im->data + s.sh_offset, s.sh_size, info);
			return;
		}
	}
}

int elf_check(const void *data, size_t size, struct elf_info *ret, struct err *e)
{
	struct elf_image im = { .data = data, .size = size, .dynamic.p_type = PT_NULL };
	struct elf_info info = { .module = "" };

	if (check_ident(data, size, e) == -1)
		return -1;
	memcpy(&im.head, data, sizeof(im.head));
	if (check_head(&im, e) == -1 || check_segments(&im, e) == -1 || check_sections(&im, e) == -1 ||
		elf_check_dynamic(&im, e) == -1)
		return -1;
	read_info(&im, &info);
	elf_find_globals(&im, &info);
	*ret = info;
	return 0;
}

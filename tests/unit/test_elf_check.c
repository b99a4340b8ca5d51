/* SPDX-License-Identifier: MIT
 *
 * The ELF check on real objects: compiled here, cut, patched and damaged at random. Each check gets a copy in memory
 * of exactly the file's size, so that the sanitizer sees the first byte that is read outside of it. */
#include "tests/support/check_main.h"

#include <elf.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/store/elf_check.h"
#include "proto/fd.h"
#include "proto/limits.h"

extern char **environ;

#define SOURCE                                                                                               \
	"__attribute__((visibility(\"default\"))) const int sandbox_module[12] = { 0x53425831 };\n"          \
	"static const char info[] __attribute__((section(\".sbx.info\"), used)) = "                          \
	"\"sbx=1;name=counter;state=7\";\n"                                                                  \
	"extern int puts(const char *);\n"                                                                   \
	"__thread int t = 3; int data = 1; int *address = &data;\n"                                          \
	"int f(void) { return puts(\"x\") + t; }\n"
#define MAIN "int main(void) { return 0; }\n"

struct file {
	unsigned char *data;
	size_t size;
};

static char dir[64];
static struct file plain; /* built once, before the tests are forked */

/* ---- building ---- */

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static char *path_of(const char *name)
{
	static char path[200];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void write_source(const char *name, const char *text)
{
	FILE *f = fopen(path_of(name), "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
}

/* gcc in the temporary folder with these arguments, separated by blanks. */
static void run_gcc(const char *arguments)
{
	char text[500], gcc[] = "gcc", *argv[32] = { gcc }, *rest = text;
	int n = 1, status;
	pid_t pid;
	posix_spawn_file_actions_t actions;

	(void)snprintf(text, sizeof(text), "%s", arguments);
	for (char *word; (word = strsep(&rest, " ")) && n < 31;)
		argv[n++] = word;
	ck_assert_int_eq(posix_spawn_file_actions_init(&actions), 0);
	ck_assert_int_eq(posix_spawn_file_actions_addchdir_np(&actions, dir), 0);
	ck_assert_int_eq(posix_spawnp(&pid, "gcc", &actions, NULL, argv, environ), 0);
	(void)posix_spawn_file_actions_destroy(&actions);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "gcc %s: wait status %d", arguments, status);
}

static struct file read_file(const char *name)
{
	autoclose int fd = open(path_of(name), O_RDONLY | O_CLOEXEC);
	struct file f = { 0 };
	struct err e = ERR_INIT;

	ck_assert_int_ge(fd, 0);
	f.data = (unsigned char *)fd_read_all(fd, 64u << 20, &f.size, &e);
	ck_assert_msg(f.data != NULL, "%s", e.text);
	return f;
}

static struct file build(const char *source, const char *flags)
{
	char arguments[400];

	write_source("x.c", source);
	(void)snprintf(arguments, sizeof(arguments), "-O1 -fPIC -o out x.c %s", flags);
	run_gcc(arguments);
	return read_file("out");
}

static void setup(void)
{
	(void)snprintf(dir, sizeof(dir), "%s/elf-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	plain = build(SOURCE, "-shared -Wl,-z,noexecstack");
}

static void teardown(void)
{
	free(plain.data);
	(void)nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- checking ---- */

static int check_copy(const unsigned char *data, size_t n, struct elf_info *info, struct err *e)
{
	unsigned char *copy = malloc(n ? n : 1);
	int r;

	memcpy(copy, data, n);
	r = elf_check(copy, n, info, e);
	free(copy);
	return r;
}

static void expect_good(struct file f, const char *module, uint32_t version)
{
	struct elf_info info = { .module = "untouched" };
	struct err e = ERR_INIT;

	ck_assert_msg(check_copy(f.data, f.size, &info, &e) == 0, "%s", e.text);
	ck_assert_str_eq(info.module, module);
	ck_assert_uint_eq(info.state_version, version);
}

static void expect_refused(const unsigned char *data, size_t n, const char *why)
{
	struct elf_info info = { .module = "untouched" };
	struct err e = ERR_INIT;

	ck_assert_msg(check_copy(data, n, &info, &e) == -1, "not refused, wanted: %s", why);
	ck_assert_int_eq(e.code, ERR_BAD_IMAGE);
	ck_assert_msg(strstr(e.text, why) != NULL, "'%s' doesn't say '%s'", e.text, why);
	ck_assert_str_eq(info.module, "untouched");
}

/* ---- real files ---- */

static const struct {
	const char *source, *flags, *module;
	uint32_t version;
} good[] = {
	{ SOURCE, "-shared", "counter", 7 },
	{ SOURCE, "-shared -Wl,--hash-style=sysv", "counter", 7 },
	{ SOURCE, "-shared -Wl,--hash-style=both -g", "counter", 7 },
	{ SOURCE, "-shared -s", "counter", 7 },
	{ SOURCE, "-shared -O2 -fno-gnu-unique -Wl,-z,relro,-z,now,-z,defs -lm", "counter", 7 },
	{ SOURCE, "-shared -Wl,-z,max-page-size=65536", "counter", 7 },
	{ SOURCE, "-shared -Wl,-z,max-page-size=2097152", "counter", 7 },
	{ SOURCE, "-shared -Wl,-z,noseparate-code", "counter", 7 },
	{ SOURCE, "-shared -Wl,-z,pack-relative-relocs", "counter", 7 },
	{ SOURCE, "-shared -nostdlib -Wl,-z,noexecstack", "counter", 7 },
	{ "const int sandbox_module[12] = { 1 };", "-shared", "", 0 },
	{ "int sandbox_module[12] = { 1 };", "-shared", "", 0 },
};

START_TEST(shared_objects_are_taken)
{
	struct file f = build(good[_i].source, good[_i].flags);

	expect_good(f, good[_i].module, good[_i].version);
	free(f.data);
}
END_TEST

static const struct {
	const char *source, *flags, *why;
} bad[] = {
	{ SOURCE, "-c", "object file (.o)" },
	{ SOURCE MAIN, "-no-pie -fno-pic", "a program" },
	{ SOURCE MAIN, "-pie", "a program" },
	{ SOURCE MAIN, "-static-pie", "a program" },
	{ SOURCE, "-c -flto -fno-fat-lto-objects", "object file (.o)" },
	{ SOURCE, "-shared -Wl,-z,execstack", "executable stack" },
	{ SOURCE, "-shared -Wl,-rpath,/x", "DT_RUNPATH" },
	{ SOURCE, "-shared -Wl,-rpath,/x -Wl,--disable-new-dtags", "DT_RPATH" },
	{ SOURCE, "-shared -Wl,--audit,x", "DT_AUDIT" },
	{ SOURCE, "-shared -Wl,--depaudit,x", "DT_DEPAUDIT" },
	{ SOURCE, "-shared -Wl,-f,x", "DT_AUXILIARY" },
	{ SOURCE, "-shared -Wl,-F,x", "DT_FILTER" },
	{ SOURCE "__asm__(\".text; .quad data\");", "-shared -Wl,-z,notext", "TEXTREL" },
	{ SOURCE, "-shared -Wl,--no-as-needed ./libneeded.so", "only plain names" },
	{ "int f(void) { return 1; }", "-shared", "no symbol sandbox_module" },
	{ "int f(void) { return 1; }", "-shared -Wl,--hash-style=sysv", "no symbol sandbox_module" },
	{ "extern int sandbox_module[]; int *f(void) { return sandbox_module; }", "-shared", "no symbol sandbox_module" },
	{ "static int sandbox_module[12] = { 1 }; int *f(void) { return sandbox_module; }", "-shared", "no symbol sandbox_module" },
	{ "__attribute__((visibility(\"hidden\"))) int sandbox_module[12] = { 1 };", "-shared", "no symbol sandbox_module" },
	{ "int sandbox_module(void) { return 1; }", "-shared", "isn't an object" },
	{ "__attribute__((weak)) int sandbox_module[12] = { 1 };", "-shared", "isn't global" },
	{ "int sandbox_module[12];", "-shared", "isn't part of what gets loaded" },
	{ "__thread int sandbox_module[12] = { 1 };", "-shared", "isn't an object" },
};

START_TEST(other_files_get_a_clear_reason)
{
	struct file f;

	if (strstr(bad[_i].flags, "libneeded"))
		run_gcc("-shared -o libneeded.so -xc /dev/null"); /* without a soname the path is recorded */
	f = build(bad[_i].source, bad[_i].flags);
	expect_refused(f.data, f.size, bad[_i].why);
	free(f.data);
}
END_TEST

static const struct {
	const char *bytes;
	size_t n;
	const char *why;
} no_elf[] = {
	{ "", 0, "empty" },
	{ "x", 1, "text" },
	{ "int main(void)\n{\n\treturn 0;\n}\n", 30, "text" },
	{ "#!/bin/sh\n", 10, "script" },
	{ "!<arch>\nxxxx", 12, "archive" },
	{ "BC\xc0\xde\x01", 5, "bitcode" },
	{ "\x7f", 1, "not an ELF file" },
	{ "\x7f" "ELE\2\1\1", 7, "not an ELF file" },
	{ "\0\0\0\0\0\0\0\0", 8, "not an ELF file" },
	{ "\x7f" "ELF", 4, "cut off" },
	{ "\x7f" "ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0", 18, "cut off" },
};

START_TEST(files_of_other_kinds_get_a_clear_reason)
{
	expect_refused((const unsigned char *)no_elf[_i].bytes, no_elf[_i].n, no_elf[_i].why);
}
END_TEST

/* ---- cut files ---- */

START_TEST(a_file_cut_anywhere_is_refused)
{
	expect_good(plain, "counter", 7);
	for (size_t n = 0; n < plain.size; n += n < 8192 ? 1 : 64)
		expect_refused(plain.data, n, "");
	expect_refused(plain.data, plain.size - 1, "cut off");
}
END_TEST

START_TEST(a_large_file_cut_at_every_page_is_refused)
{
	struct file f = build(SOURCE "const char more[1000000] = { 1 }; char most[1000000] = { 2 };", "-shared -g");

	expect_good(f, "counter", 7);
	ck_assert_uint_gt(f.size, 2000000);
	for (size_t n = 0; n < f.size; n += 4096)
		expect_refused(f.data, n, n ? "cut off" : "empty");
	for (size_t n = 0; n < 3 * 4096; n += 64)
		expect_refused(f.data, n, n ? "cut off" : "empty");
	free(f.data);
}
END_TEST

/* Without a section table only the segments tell where the file should end. */
START_TEST(a_file_without_sections_is_taken_and_its_cuts_refused)
{
	struct file f = build(SOURCE, "-shared -s");
	Elf64_Ehdr h;
	size_t end = 0;

	memcpy(&h, f.data, sizeof(h));
	for (unsigned i = 0; i < h.e_phnum; i++) {
		Elf64_Phdr p;

		memcpy(&p, f.data + h.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_offset + p.p_filesz > end)
			end = p.p_offset + p.p_filesz;
	}
	h.e_shoff = 0;
	h.e_shnum = h.e_shstrndx = 0;
	memcpy(f.data, &h, sizeof(h));
	expect_good(f, "", 0);
	for (size_t n = 0; n < end; n += 64)
		expect_refused(f.data, n, "");
	expect_refused(f.data, end - 1, "cut off");
	f.size = end;
	expect_good(f, "", 0);
	free(f.data);
}
END_TEST

/* ---- patched files ---- */


/* The program header number `which` (from 0) of a type. */
static unsigned char *segment(unsigned char *data, uint32_t type, unsigned which)
{
	Elf64_Ehdr h;

	memcpy(&h, data, sizeof(h));
	for (unsigned i = 0; i < h.e_phnum; i++) {
		Elf64_Phdr p;

		memcpy(&p, data + h.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == type && which-- == 0)
			return data + h.e_phoff + i * sizeof(p);
	}
	ck_abort_msg("no segment of type %u", type);
}

static unsigned char *section(unsigned char *data, unsigned i)
{
	Elf64_Ehdr h;

	memcpy(&h, data, sizeof(h));
	return data + h.e_shoff + i * sizeof(Elf64_Shdr);
}

/* The entry of a tag in the dynamic section; an unused one is made of DT_GNU_HASH's if need be. */
static unsigned char *dynamic_entry(unsigned char *data, int64_t tag)
{
	Elf64_Phdr p;

	memcpy(&p, segment(data, PT_DYNAMIC, 0), sizeof(p));
	for (size_t i = 0; i < p.p_filesz / sizeof(Elf64_Dyn); i++) {
		Elf64_Dyn d;

		memcpy(&d, data + p.p_offset + i * sizeof(d), sizeof(d));
		if (d.d_tag == tag)
			return data + p.p_offset + i * sizeof(d);
	}
	ck_abort_msg("no dynamic entry %lld", (long long)tag);
}

enum where { HEAD, LOAD0, LOAD1, LOAD3, DYNAMIC, STACK, RELRO, TLS, SECTION, TAG, TAG_NAME };

static unsigned char *place(unsigned char *data, enum where where, int64_t which)
{
	switch (where) {
	case HEAD:
		return data;
	case LOAD0:
		return segment(data, PT_LOAD, 0);
	case LOAD1:
		return segment(data, PT_LOAD, 1);
	case LOAD3:
		return segment(data, PT_LOAD, 3);
	case DYNAMIC:
		return segment(data, PT_DYNAMIC, 0);
	case STACK:
		return segment(data, PT_GNU_STACK, 0);
	case RELRO:
		return segment(data, PT_GNU_RELRO, 0);
	case TLS:
		return segment(data, PT_TLS, 0);
	case SECTION:
		return section(data, (unsigned)which);
	case TAG:
		return dynamic_entry(data, which) + offsetof(Elf64_Dyn, d_un);
	case TAG_NAME:
		return dynamic_entry(data, which);
	}
	return NULL;
}

#define AT(type, member) offsetof(type, member), sizeof(((type *)0)->member)
#define H(member) HEAD, 0, AT(Elf64_Ehdr, member)
#define P(where, member) where, 0, AT(Elf64_Phdr, member)
#define S(i, member) SECTION, i, AT(Elf64_Shdr, member)
#define VALUE(tag) TAG, tag, 0, 8
#define NAME(tag) TAG_NAME, tag, 0, 8
#define FAR 0xfffffffffffff000ull

static const struct {
	enum where where;
	int64_t which;
	size_t offset, n;
	uint64_t value;
	const char *why;
} patches[] = {
	{ HEAD, 0, EI_CLASS, 1, ELFCLASS32, "32-bit" },
	{ HEAD, 0, EI_CLASS, 1, 9, "class" },
	{ HEAD, 0, EI_DATA, 1, ELFDATA2MSB, "big-endian" },
	{ HEAD, 0, EI_DATA, 1, 0, "byte order" },
	{ HEAD, 0, EI_VERSION, 1, 0, "ELF version" },
	{ HEAD, 0, EI_OSABI, 1, ELFOSABI_FREEBSD, "another operating system" },
	{ H(e_machine), EM_ARM, "it is for arm" },
	{ H(e_machine), EM_RISCV, "it is for riscv" },
	{ H(e_machine), 60000, "another machine" },
	{ H(e_type), ET_EXEC, "a program" },
	{ H(e_type), ET_REL, "object file" },
	{ H(e_type), ET_CORE, "core dump" },
	{ H(e_type), ET_NONE, "type is 0" },
	{ H(e_version), 2, "wrong version" },
	{ H(e_ehsize), 52, "wrong version or size" },
	{ H(e_phnum), 0, "no program headers" },
	{ H(e_phnum), LIMIT_ELF_HEADERS + 1, "257 program headers" },
	{ H(e_phnum), 0xffff, "65535 program headers" },
	{ H(e_phentsize), 32, "program headers have 32 bytes" },
	{ H(e_phoff), 1u << 30, "program headers lie outside" },
	{ H(e_phoff), UINT64_MAX - 8, "program headers lie outside" },
	{ H(e_shnum), 0, "65280 or more" },
	{ H(e_shnum), LIMIT_ELF_SECTIONS + 1, "too many sections" },
	{ H(e_shnum), 0xfff, "cut off" },
	{ H(e_shentsize), 40, "section headers have 40 bytes" },
	{ H(e_shoff), 1u << 30, "cut off" },
	{ H(e_shoff), UINT64_MAX - 8, "cut off" },
	{ P(LOAD0, p_type), PT_NULL, "" },
	{ P(LOAD0, p_offset), 1u << 30, "cut off" },
	{ P(LOAD0, p_offset), FAR, "cut off" },
	{ P(LOAD0, p_filesz), 1u << 30, "cut off" },
	{ P(LOAD0, p_filesz), UINT64_MAX, "cut off" },
	{ P(LOAD0, p_memsz), 1, "more bytes in the file than in memory" },
	{ P(LOAD0, p_memsz), (1ull << 30) + 1, "larger than 1 GiB" },
	{ P(LOAD0, p_memsz), UINT64_MAX, "larger than 1 GiB" },
	{ P(LOAD0, p_memsz), 1u << 20, "upon the one before" },
	{ P(LOAD0, p_vaddr), FAR, "beyond all memory" },
	{ P(LOAD0, p_vaddr), 1u << 20, "before or upon" },
	{ P(LOAD0, p_align), 0, "less than a page" },
	{ P(LOAD0, p_align), 1, "less than a page" },
	{ P(LOAD0, p_align), 0x1800, "power of two" },
	{ P(LOAD0, p_align), 1ull << 40, "too large" },
	{ P(LOAD0, p_flags), PF_R | PF_W | PF_X, "writable and executable" },
	{ P(LOAD1, p_flags), PF_W | PF_X, "writable and executable" },
	{ P(LOAD1, p_vaddr), 0, "before or upon" },
	{ P(LOAD1, p_vaddr), 0x1008, "doesn't agree" },
	{ P(LOAD3, p_vaddr), 0x7fffffffffffe000ull, "" },
	{ P(LOAD3, p_memsz), 1ull << 30, "1 GiB behind" },
	{ P(STACK, p_type), PT_NULL, "no PT_GNU_STACK" },
	{ P(STACK, p_flags), PF_R | PF_W | PF_X, "executable stack" },
	{ P(STACK, p_filesz), 1u << 30, "cut off" },
	{ P(STACK, p_type), PT_INTERP, "interpreter" },
	{ P(STACK, p_type), PT_DYNAMIC, "second dynamic" },
	{ P(DYNAMIC, p_type), PT_NULL, "no dynamic section" },
	{ P(DYNAMIC, p_vaddr), 1u << 20, "dynamic section isn't part" },
	{ P(DYNAMIC, p_vaddr), FAR, "dynamic section isn't part" },
	{ P(DYNAMIC, p_offset), 0, "dynamic section isn't part" },
	{ P(DYNAMIC, p_filesz), 16, "has no end" },
	{ P(DYNAMIC, p_filesz), 0, "dynamic section" },
	{ P(RELRO, p_vaddr), 1u << 20, "read-only after relocation" },
	{ P(RELRO, p_vaddr), FAR, "read-only after relocation" },
	{ P(RELRO, p_memsz), 1u << 20, "read-only after relocation" },
	{ P(RELRO, p_memsz), UINT64_MAX, "read-only after relocation" },
	{ P(TLS, p_vaddr), 1u << 20, "thread-local" },
	{ P(TLS, p_align), 3, "thread-local" },
	{ P(TLS, p_memsz), UINT64_MAX, "thread-local" },
	{ P(TLS, p_memsz), 0, "thread-local" },
	{ S(1, sh_offset), 1u << 30, "section 1" },
	{ S(2, sh_size), UINT64_MAX, "section 2" },
	{ S(2, sh_offset), FAR, "section 2" },
	{ VALUE(DT_STRTAB), FAR, "table of names" },
	{ VALUE(DT_STRTAB), 0, "" },
	{ VALUE(DT_STRSZ), 0, "table of names" },
	{ VALUE(DT_STRSZ), UINT64_MAX, "table of names" },
	{ VALUE(DT_STRSZ), 3, "has no end" },
	{ VALUE(DT_SYMTAB), FAR, "symbols aren't part" },
	{ VALUE(DT_SYMENT), 16, "symbols have a wrong size" },
	{ VALUE(DT_GNU_HASH), FAR, "hash table isn't part" },
	{ VALUE(DT_RELA), FAR, "relocations aren't part" },
	{ VALUE(DT_RELASZ), 1u << 30, "relocations aren't part" },
	{ VALUE(DT_RELASZ), UINT64_MAX, "relocations aren't part" },
	{ VALUE(DT_INIT_ARRAY), FAR, "constructors aren't part" },
	{ VALUE(DT_NEEDED), FAR, "outside of the table of names" },
	{ VALUE(DT_NEEDED), 0, "needs the library ''" },
	{ NAME(DT_GNU_HASH), DT_TEXTREL, "TEXTREL" },
	{ NAME(DT_GNU_HASH), DT_RPATH, "DT_RPATH" },
	{ NAME(DT_GNU_HASH), DT_RUNPATH, "DT_RUNPATH" },
	{ NAME(DT_GNU_HASH), DT_AUDIT, "DT_AUDIT" },
	{ NAME(DT_GNU_HASH), DT_DEPAUDIT, "DT_DEPAUDIT" },
	{ NAME(DT_GNU_HASH), DT_FLAGS, "" },
	{ NAME(DT_GNU_HASH), DT_DEBUG, "no table to find symbols in" },
	{ NAME(DT_GNU_HASH), DT_HASH, "" },
	{ NAME(DT_SYMTAB), DT_DEBUG, "symbols aren't part" },
	{ NAME(DT_STRTAB), DT_DEBUG, "table of names" },
	{ NAME(DT_RELA), DT_DEBUG, "doesn't say where" },
};

START_TEST(every_wrong_field_is_refused)
{
	unsigned char *copy = malloc(plain.size);

	memcpy(copy, plain.data, plain.size);
	memcpy(place(copy, patches[_i].where, patches[_i].which) + patches[_i].offset, &patches[_i].value, patches[_i].n);
	expect_refused(copy, plain.size, patches[_i].why);
	free(copy);
}
END_TEST

static const struct {
	const char *info, *module;
	uint32_t version;
} infos[] = {
	{ "sbx=1;name=a;state=4294967295", "a", UINT32_MAX },
	{ "sbx=1;name=a;state=4294967296", "a", 0 },
	{ "sbx=1;name=a;state=99999999999999999999999", "a", 0 },
	{ "sbx=1;name=a;state=-1", "a", 0 },
	{ "sbx=1;name=a;state=", "a", 0 },
	{ "sbx=1;state=3;other=x;name=last", "last", 3 },
	{ "sbx=1;;;name=\\033[31m\\nred;", "?[31m?red", 0 },
	{ "sbx=1;name=0123456789012345678901234567890123456789012345678901234567890123456789",
		"012345678901234567890123456789012345678901234567890123456789012", 0 },
	{ "sbx=2;name=a;state=1", "", 0 },
	{ "name=a", "", 0 },
	{ "", "", 0 },
};

START_TEST(the_info_section_is_read_with_care)
{
	char source[400];
	struct file f;

	(void)snprintf(source, sizeof(source), "const int sandbox_module[12] = { 1 };\n"
		"static const char info[] __attribute__((section(\".sbx.info\"), used)) = \"%s\";", infos[_i].info);
	f = build(source, "-shared");
	expect_good(f, infos[_i].module, infos[_i].version);
	free(f.data);
}
END_TEST

/* ---- damaged files ---- */

static uint32_t seed = 20240229;

static uint32_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed;
}

/* Most hits go where the check reads: the headers, the dynamic section and its tables, the section table. */
static size_t random_place(size_t size)
{
	switch (next_random() % 4) {
	case 0:
		return next_random() % 64;
	case 1:
		return next_random() % 2048;
	case 2:
		return size - 1 - next_random() % 2048;
	default:
		return next_random() % size;
	}
}

static void damage(unsigned char *data, size_t size)
{
	static const uint64_t values[] = { 0, 1, 0x7f, 0xff, 0x1000, 0x7fffffff, 0xffffffff, 0x7fffffffffffffffull, UINT64_MAX,
		UINT64_MAX - 7, 0xfffffffffffff000ull };
	size_t at = random_place(size), n = next_random() % 2 ? 1 : 1u << next_random() % 4;
	uint64_t value = values[next_random() % (sizeof(values) / sizeof(values[0]))];

	at &= ~(n - 1);
	if (n == 1)
		data[at] ^= (unsigned char)(1u << next_random() % 8);
	else if (at + n <= size)
		memcpy(data + at, &value, n);
}

static const struct {
	const char *source, *flags;
	uint32_t n;
	uint64_t bytes;
	const char *names; /* in any order: each must be there */
} globals[] = {
	{ "", "-shared", 0, 0, "" },
	{ "static const int c = 5; const int *p(void) { return &c; } static int *const q = (int *)&c; int **r(void) { return (int **)&q; }", "-shared", 0, 0, "" },
	{ "int a = 5; static long b[3]; long *p(void) { return b; }", "-shared", 2, 28, "a b" },
	{ "int *f(void) { static int once; return &once; }", "-shared", 1, 4, "once" },
	{ "__thread int t = 3; static __thread char u[8]; char *p(void) { return u; }", "-shared", 2, 12, "t u" },
	{ "static void f(void) { } void (*hook)(void) = f;", "-shared", 1, 8, "hook" },
	{ "int a[100] = { 1 };", "-shared -s", 0, 400, "" },
	{ "", "-shared -s", 0, 0, "" },
	{ "int v0, v1, v2, v3, v4, v5, v6, v7, v8, v9;", "-shared -fno-common", 10, 40, "v" },
};

START_TEST(variables_are_named)
{
	char source[4096], names[512];
	struct elf_info info;
	struct err e = ERR_INIT;
	struct file f;
	uint32_t shown;

	(void)snprintf(source, sizeof source, "__attribute__((visibility(\"default\"))) const int sandbox_module[12] = { 0x53425831 };\n%s", globals[_i].source);
	f = build(source, globals[_i].flags);
	ck_assert_msg(elf_check(f.data, f.size, &info, &e) == 0, "%s", e.text);
	ck_assert_uint_eq(info.n_globals, globals[_i].n);
	/* In a stripped object only whole sections are known, with their padding. */
	ck_assert_uint_ge(info.globals_bytes, globals[_i].bytes);
	ck_assert_uint_le(info.globals_bytes, globals[_i].bytes + (strstr(globals[_i].flags, "-s ") || strstr(globals[_i].flags, " -s") ? 64 : 0));
	shown = info.n_globals < ELF_GLOBALS_NAMED ? info.n_globals : ELF_GLOBALS_NAMED;
	(void)snprintf(names, sizeof names, " %s ", globals[_i].names);
	for (uint32_t i = 0; i < shown && info.n_globals < ELF_GLOBALS_NAMED; i++) {
		char *base = strtok(info.globals[i], "."), with[80];

		(void)snprintf(with, sizeof with, " %s ", base);
		ck_assert_msg(strstr(names, with) != NULL, "%s isn't among%s", base, names);
	}
	free(f.data);
}
END_TEST

START_TEST(random_damage_never_hurts)
{
	struct file f = build(SOURCE, _i ? "-shared -Wl,--hash-style=sysv" : "-shared");
	unsigned char *copy = malloc(f.size);
	unsigned refused = 0, taken = 0;

	for (unsigned round = 0; round < 20000; round++) {
		struct elf_info info = { .module = "" };
		struct err e = ERR_INIT;

		memcpy(copy, f.data, f.size);
		for (unsigned hits = 1 + next_random() % 4; hits > 0; hits--)
			damage(copy, f.size);
		if (elf_check(copy, f.size, &info, &e) == 0) {
			taken++;
			continue;
		}
		ck_assert_int_eq(e.code, ERR_BAD_IMAGE);
		ck_assert_str_ne(e.text, "");
		refused++;
	}
	ck_assert_uint_gt(refused, 2000); /* both happened */
	ck_assert_uint_gt(taken, 500);
	free(copy);
	free(f.data);
}
END_TEST

#define COUNT(rows) ((int)(sizeof(rows) / sizeof((rows)[0])))

CHECK_MAIN("elf_check",
	tcase_add_unchecked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, shared_objects_are_taken, 0, COUNT(good));
	tcase_add_loop_test(tc, other_files_get_a_clear_reason, 0, COUNT(bad));
	tcase_add_loop_test(tc, files_of_other_kinds_get_a_clear_reason, 0, COUNT(no_elf));
	tcase_add_test(tc, a_file_cut_anywhere_is_refused);
	tcase_add_test(tc, a_large_file_cut_at_every_page_is_refused);
	tcase_add_test(tc, a_file_without_sections_is_taken_and_its_cuts_refused);
	tcase_add_loop_test(tc, every_wrong_field_is_refused, 0, COUNT(patches));
	tcase_add_loop_test(tc, the_info_section_is_read_with_care, 0, COUNT(infos));
	tcase_add_loop_test(tc, variables_are_named, 0, COUNT(globals));
	tcase_add_loop_test(tc, random_damage_never_hurts, 0, 2))

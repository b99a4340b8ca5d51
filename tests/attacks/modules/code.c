/* SPDX-License-Identifier: MIT
 *
 * Attacks that bring new code: executable memory of its own making, and programs. What it makes executable has `text` in it, and
 * stays mapped: the runner looks for it in this process's executable memory. */
#include "attack.h"

#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>

#define PAGE 4096

static void *page(int protection)
{
	return mmap(NULL, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int filled(const char *t, int fd)
{
	char bytes[PAGE] = { 0 };

	(void)snprintf(bytes, sizeof bytes, "\xc3%s", t);
	return fd >= 0 && write(fd, bytes, sizeof bytes) == sizeof bytes ? fd : -1;
}

static int write_and_execute(struct sbx *x, void *self)
{
	void *p = page(PROT_READ | PROT_WRITE | PROT_EXEC);

	(void)self;
	if (p == MAP_FAILED)
		return said(x, -1);
	strcpy(p, text_of(x));
	return said(x, 0);
}

static int execute_later(struct sbx *x, void *self)
{
	void *p = page(PROT_READ | PROT_WRITE);

	(void)self;
	if (p == MAP_FAILED)
		return said(x, -1);
	strcpy(p, text_of(x));
	return said(x, n_of(x) ? syscall(SYS_pkey_mprotect, p, PAGE, PROT_READ | PROT_EXEC, -1) : mprotect(p, PAGE, PROT_READ | PROT_EXEC));
}

/* Its own code made writable for a moment. */
__attribute__((aligned(PAGE), section(".text.attack"))) static const char victim_code[PAGE] = { 1 };

static int change_code(struct sbx *x, void *self)
{
	char *p = (char *)(uintptr_t)victim_code;

	(void)self;
	if (mprotect(p, PAGE, PROT_READ | PROT_WRITE) < 0)
		return said(x, -1);
	strcpy(p + 16, text_of(x));
	return said(x, mprotect(p, PAGE, PROT_READ | PROT_EXEC));
}

/* Through /proc/self/mem, which minds no protection. */
static int change_code_by_proc(struct sbx *x, void *self)
{
	const char *t = text_of(x);
	int fd = (prctl(PR_SET_DUMPABLE, 1), open("/proc/self/mem", O_RDWR | O_CLOEXEC)); /* else it would be root's file */
	long r = fd < 0 ? -1 : pwrite(fd, t, strlen(t), (off_t)(uintptr_t)(victim_code + 16));

	(void)self;
	return said(x, r);
}

static long map_code(int fd)
{
	return fd < 0 || mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0;
}

static int from_memory_file(struct sbx *x, void *self)
{
	(void)self;
	return said(x, map_code(filled(text_of(x), memfd_create("code", MFD_CLOEXEC))));
}

/* From a file that it writes: in its scratch folder, else where path says. */
static int from_file(struct sbx *x, void *self)
{
	char name[512];
	long r = map_code(filled(text_of(x), open("code", O_RDWR | O_CREAT | O_CLOEXEC, 0700)));

	(void)self;
	if (r == 0)
		return said(x, r);
	(void)snprintf(name, sizeof name, "%s/code", path_of(x));
	return said(x, map_code(filled(text_of(x), open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0700))));
}

static int from_segment(struct sbx *x, void *self)
{
	int id = shmget(IPC_PRIVATE, PAGE, 0700 | IPC_CREAT);
	char *p = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
	long r = -1;

	(void)self;
	if (p != (void *)-1) {
		strcpy(p, text_of(x));
		shmdt(p);
		r = shmat(id, NULL, SHM_EXEC | SHM_RDONLY) == (void *)-1 ? -1 : 0;
		shmctl(id, IPC_RMID, NULL);
	}
	return said(x, r);
}

/* Old programs' reading is executing: anonymous memory becomes executable without being asked for. */
static int by_personality(struct sbx *x, void *self)
{
	char *p;

	(void)self;
	if (syscall(SYS_personality, 0x0400000) < 0)
		return said(x, -1);
	p = page(PROT_READ | PROT_WRITE);
	if (p != MAP_FAILED)
		strcpy(p, text_of(x));
	return said(x, p == MAP_FAILED ? -1 : 0);
}

static int stack_code(struct sbx *x, void *self)
{
	volatile char here[PAGE * 2];
	char *p = (char *)(((uintptr_t)here + PAGE - 1) & ~(uintptr_t)(PAGE - 1));

	(void)self;
	strcpy(p, text_of(x));
	return said(x, mprotect(p, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
}

static int grow_code(struct sbx *x, void *self)
{
	char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)self;
	if (p == MAP_FAILED)
		return said(x, -1);
	strcpy(p, text_of(x));
	if (mprotect(p, PAGE, PROT_READ | PROT_EXEC) < 0)
		return said(x, -1);
	return said(x, mremap(p, PAGE, PAGE * 2, MREMAP_MAYMOVE) == MAP_FAILED ? -1 : 0);
}

/* ---- programs. A child tries: argv[1] has `text` for who looks from outside ---- */

static long run(struct sbx *x, const char *program, int fd)
{
	char *argv[] = { (char *)(uintptr_t) "attack", NULL, (char *)(uintptr_t)text_of(x), NULL }, *envp[] = { NULL };
	int ends[2], e = 0;
	pid_t pid;

	argv[1] = (char *)(uintptr_t) "30"; /* `sleep 30 TEXT` would complain: the program is the runner's own, which doesn't */
	if (pipe2(ends, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		return -1;
	if (pid == 0) {
		if (fd >= 0)
			(void)syscall(SYS_execveat, fd, "", argv, envp, 0x1000);
		else if (strncmp(program, "ld:", 3) == 0) {
			char *by_loader[] = { argv[0], (char *)(uintptr_t)(program + 3), argv[1], argv[2], NULL };

			(void)execve("/lib64/ld-linux-x86-64.so.2", by_loader, envp);
		} else
			(void)execve(program, argv, envp);
		e = errno;
		(void)!write(ends[1], &e, sizeof e);
		_exit(1);
	}
	close(ends[1]);
	if (read(ends[0], &e, sizeof e) == sizeof e) {
		errno = e;
		return -1;
	}
	return pid;
}

static int run_program(struct sbx *x, void *self)
{
	(void)self;
	return said(x, run(x, path_of(x), -1));
}

/* The program comes out of the module itself where no file can be read: `#!` of a script needs one, so an ELF of 120 bytes. */
static const unsigned char tiny[] = {
	0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0x3e, 0, 1, 0, 0, 0, 0x78, 0, 0x40, 0, 0, 0, 0, 0, 0x40, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0x38, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
	0, 0, 0, 0, 0, 0, 0xb0, 0x22, 0x0f, 0x05, 0xeb, 0xfa, 0x90, 0x90 }; /* mov al, 34 (pause); syscall; jmp back */

static int run_memory(struct sbx *x, void *self)
{
	int fd = memfd_create("program", 0);

	(void)self;
	if (fd < 0 || write(fd, tiny, sizeof tiny) != (ssize_t)sizeof tiny)
		return said(x, -1);
	return said(x, run(x, NULL, fd));
}

static long write_and_run(struct sbx *x, const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);

	if (fd < 0 || write(fd, tiny, sizeof tiny) != (ssize_t)sizeof tiny)
		return -1;
	(void)fchmod(fd, 0755);
	close(fd);
	return run(x, name, -1);
}

/* In its scratch folder, else where path says. */
static int run_written(struct sbx *x, void *self)
{
	char name[512];
	long r = write_and_run(x, "./attack-program");

	(void)self;
	if (r >= 0)
		return said(x, r);
	(void)snprintf(name, sizeof name, "%s/attack-program", path_of(x));
	return said(x, write_and_run(x, name));
}

/* ld.so as the program: a file without x permission, or on noexec, is mapped, not executed. */
static int run_by_loader(struct sbx *x, void *self)
{
	char program[512];

	(void)self;
	(void)snprintf(program, sizeof program, "ld:%s", path_of(x));
	return said(x, run(x, program, -1));
}

ATTACKS(code, ATTACK(write_and_execute), ATTACK(execute_later), ATTACK(change_code), ATTACK(change_code_by_proc), ATTACK(from_memory_file),
	ATTACK(from_file), ATTACK(from_segment), ATTACK(by_personality), ATTACK(stack_code), ATTACK(grow_code), ATTACK(run_program),
	ATTACK(run_memory), ATTACK(run_written), ATTACK(run_by_loader));

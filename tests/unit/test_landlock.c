/* SPDX-License-Identifier: MIT
 *
 * Landlock under every ABI that is known: what is covered and what is told to lack, and, as far as this kernel has it, that a restricted
 * process can and can't. Each restriction is tried in a child. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/host/zygote/landlock.h"
#include "proto/fd.h"
#include "tests/support/check_main.h"

START_TEST(cover)
{
	static const struct {
		const char *got, *lacks;
	} by_abi[LL_ABI_KNOWN + 2] = {
		[0] = { "", "files (Linux 5.13), moves (Linux 5.19), truncating (Linux 6.2), tcp (Linux 6.7), "
			    "device controls (Linux 6.10), abstract sockets (Linux 6.12), signals (Linux 6.12)" },
		[1] = { "files", "moves (Linux 5.19), truncating (Linux 6.2), tcp (Linux 6.7), "
				 "device controls (Linux 6.10), abstract sockets (Linux 6.12), signals (Linux 6.12)" },
		[2] = { "files, moves", "truncating (Linux 6.2), tcp (Linux 6.7), device controls (Linux 6.10), "
							       "abstract sockets (Linux 6.12), signals (Linux 6.12)" },
		[3] = { "files, moves, truncating",
			"tcp (Linux 6.7), device controls (Linux 6.10), abstract sockets (Linux 6.12), signals (Linux 6.12)" },
		[4] = { "files, moves, truncating, tcp",
			"device controls (Linux 6.10), abstract sockets (Linux 6.12), signals (Linux 6.12)" },
		[5] = { "files, moves, truncating, tcp, device controls",
			"abstract sockets (Linux 6.12), signals (Linux 6.12)" },
		[6] = { "files, moves, truncating, tcp, device controls, abstract sockets, signals", "" },
		[7] = { "files, moves, truncating, tcp, device controls, abstract sockets, signals", "" },
		[8] = { "files, moves, truncating, tcp, device controls, abstract sockets, signals", "" },
	};

	for (int abi = 0; abi <= LL_ABI_KNOWN + 1; abi++) {
		struct landlock_ruleset r;

		landlock_cover(profile_builtin(PROFILE_HIGH), abi, &r);
		ck_assert_str_eq(r.got, by_abi[abi].got);
		ck_assert_str_eq(r.lacks, by_abi[abi].lacks);
		ck_assert_int_eq(r.fd, -1);
		ck_assert_int_eq(r.abi, abi);
		ck_assert_uint_eq(r.fs, abi == 0 ? 0 : abi == 1 ? 0x1fff : abi == 2 ? 0x3fff : abi < 5 ? 0x7fff : 0xffff);
		ck_assert_uint_eq(r.net, abi < 4 ? 0 : 3);
		ck_assert_uint_eq(r.scopes, abi < 6 ? 0 : 3);
		landlock_cover(profile_builtin(PROFILE_LOW), abi, &r);
		ck_assert_str_eq(r.got, "");
		ck_assert_str_eq(r.lacks, "");
	}
}
END_TEST

/* ---- what holds ---- */

static char folder[] = "/tmp/landlockXXXXXX";
static struct sockaddr_un abstract;
static socklen_t abstract_bytes;

static int try_open(const char *name, int flags)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	fd = open(path, flags | O_CLOEXEC, 0600);
	if (fd == -1)
		return errno;
	(void)close(fd);
	return 0;
}

static int try_move(void)
{
	char from[64], to[64];

	(void)snprintf(from, sizeof from, "%s/rw/moves", folder);
	(void)snprintf(to, sizeof to, "%s/ro/moved", folder);
	return rename(from, to) == 0 ? 0 : errno;
}

static int try_truncate(void)
{
	char path[64];

	(void)snprintf(path, sizeof path, "%s/ro/file", folder);
	return truncate(path, 1) == 0 ? 0 : errno;
}

static int try_exec(void)
{
	static char name[] = "true";
	char *const argv[] = { name, NULL };

	(void)execv("/bin/true", argv);
	return errno;
}

static int try_abstract(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = fd == -1 || connect(fd, (const struct sockaddr *)&abstract, abstract_bytes) == -1 ? errno : 0;

	(void)close(fd);
	return rc;
}

static int try_tcp(void)
{
	struct sockaddr_in local = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = fd == -1 || bind(fd, (struct sockaddr *)&local, sizeof local) == -1 ? errno : 0;

	(void)close(fd);
	return rc;
}

static int try_signal(void)
{
	return kill(getppid(), 0) == 0 ? 0 : errno;
}

/* Each result in one field, in the order of the fields. */
struct results {
	int read, write_below_ro, create_in_rw, read_in_rw, elsewhere, move, truncates, abstract, tcp, signal, exec;
};

static struct results results_of(const struct policy *p, int abi)
{
	char rw[64];
	const struct landlock_folder folders[] = { { folder, LANDLOCK_READ_ONLY, false }, { rw, LANDLOCK_READ_WRITE, true } };
	struct landlock_ruleset r;
	struct results results = { 0 };
	struct err e = ERR_INIT;
	int ends[2], status;
	pid_t pid;

	(void)snprintf(rw, sizeof rw, "%s/rw", folder);
	ck_assert_msg(landlock_make(p, abi, folders, 2, &r, &e) == 0, "%s", e.text);
	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 || landlock_restrict(r.fd) == -1)
			_exit(1);
		results = (struct results){ .read = try_open("ro/file", O_RDONLY),
			.write_below_ro = try_open("ro/file", O_WRONLY),
			.create_in_rw = try_open("rw/new", O_WRONLY | O_CREAT),
			.read_in_rw = try_open("rw/new", O_RDONLY),
			.elsewhere = open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : errno,
			.move = try_move(),
			.truncates = try_truncate(),
			.abstract = try_abstract(),
			.tcp = try_tcp(),
			.signal = try_signal() };
		results.exec = -1; /* written before: a success doesn't come back */
		if (write(ends[1], &results, sizeof results) != sizeof results)
			_exit(2);
		_exit(try_exec());
	}
	(void)close(ends[1]);
	ck_assert_int_eq(read(ends[0], &results, sizeof results), sizeof results);
	(void)close(ends[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	results.exec = WEXITSTATUS(status);
	fd_close(&r.fd);
	return results;
}

static void files_make(void)
{
	char path[64];
	int fd;

	for (const char *const *name = (const char *const[]){ "ro", "rw", NULL }; *name; name++) {
		(void)snprintf(path, sizeof path, "%s/%s", folder, *name);
		(void)mkdir(path, 0700);
	}
	for (const char *const *name = (const char *const[]){ "ro/file", "rw/moves", NULL }; *name; name++) {
		(void)snprintf(path, sizeof path, "%s/%s", folder, *name);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		ck_assert_int_ge(fd, 0);
		(void)close(fd);
	}
}

static void files_remove(void)
{
	char path[64];

	for (const char *const *name = (const char *const[]){ "ro/file", "ro/moved", "rw/moves", "rw/new", NULL }; *name; name++) {
		(void)snprintf(path, sizeof path, "%s/%s", folder, *name);
		(void)unlink(path);
	}
	for (const char *const *name = (const char *const[]){ "ro", "rw", ".", NULL }; *name; name++) {
		(void)snprintf(path, sizeof path, "%s/%s", folder, *name);
		(void)rmdir(path);
	}
	(void)rmdir(folder);
}

static int abstract_listen(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	abstract.sun_family = AF_UNIX;
	abstract_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
		(size_t)snprintf(abstract.sun_path + 1, sizeof abstract.sun_path - 1, "landlock-test-%ld", (long)getpid()));
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&abstract, abstract_bytes), 0);
	ck_assert_int_eq(listen(fd, 64), 0);
	return fd;
}

START_TEST(holds)
{
	int own = landlock_abi(), listener;

	if (own == 0) {
		printf("SKIP landlock_holds: this kernel has no Landlock\n");
		return;
	}
	ck_assert_ptr_nonnull(mkdtemp(folder));
	listener = abstract_listen();
	for (int abi = 0; abi <= own && abi <= LL_ABI_KNOWN; abi++) {
		struct results r;

		files_make();
		r = results_of(profile_builtin(PROFILE_HIGH), abi);
		ck_assert_int_eq(r.read, 0);
		ck_assert_int_eq(r.create_in_rw, 0);
		ck_assert_int_eq(r.read_in_rw, 0);
		ck_assert_int_eq(r.write_below_ro, abi >= 1 ? EACCES : 0);
		ck_assert_int_eq(r.elsewhere, abi >= 1 ? EACCES : 0);
		ck_assert_int_eq(r.exec, abi >= 1 ? EACCES : 0);
		ck_assert_int_eq(r.move, abi >= 1 ? EACCES : 0);
		ck_assert_int_eq(r.truncates, abi >= 3 ? EACCES : 0);
		ck_assert_int_eq(r.tcp, abi >= 4 ? EACCES : 0);
		ck_assert_int_eq(r.abstract, abi >= 6 ? EPERM : 0);
		ck_assert_int_eq(r.signal, abi >= 6 ? EPERM : 0);
		files_remove();
		(void)mkdir(folder, 0700);
	}
	files_make();
	ck_assert_int_eq(results_of(profile_builtin(PROFILE_LOW), -1).elsewhere, 0); /* it asks for nothing */
	files_remove();
	(void)close(listener);
}
END_TEST

START_TEST(errors)
{
	const struct landlock_folder nowhere = { "/nowhere/at/all", LANDLOCK_READ_ONLY, false };
	struct landlock_ruleset r;
	struct err e = ERR_INIT;

	if (landlock_abi() == 0)
		return;
	ck_assert_int_eq(landlock_make(profile_builtin(PROFILE_HIGH), -1, &nowhere, 1, &r, &e), -1);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_msg(strstr(e.text, "/nowhere/at/all"), "%s", e.text);
	ck_assert_int_eq(r.fd, -1);
	ck_assert_int_eq(landlock_make(profile_builtin(PROFILE_HIGH), 1000, NULL, 0, &r, &e), 0); /* not believed */
	ck_assert_int_eq(r.abi, landlock_abi());
	fd_close(&r.fd);
	ck_assert_int_eq(landlock_make(profile_builtin(PROFILE_HIGH), 0, &nowhere, 1, &r, &e), 0); /* nothing to do */
	ck_assert_int_eq(r.fd, -1);
	ck_assert_int_eq(landlock_restrict(-1), 0);
	ck_assert_int_eq(landlock_restrict(0), -1);
}
END_TEST

CHECK_MAIN("landlock", tcase_add_test(tc, cover); tcase_add_test(tc, holds); tcase_add_test(tc, errors));

/* SPDX-License-Identifier: MIT
 *
 * The first instant of the daemon's socket (report B29): bound a thousand times under a umask of 0 while another user connects all the time.
 * The end-to-end test does the same with whole daemons, of which there can't be so many. */
#include "tests/support/check_main.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/spawner/listener.h"
#include "proto/config.h"

enum { STARTS = 1000, POLLERS = 2, POLLER_ID = 54321, OTHER_GROUP = 54322 };

struct counts {
	_Atomic uint64_t tries, refused, connected; /* refused: it was there, and the poller may not */
};

static struct counts *counts; /* shared with the pollers */
static struct config config;
static char dir[64];
static pid_t pollers[POLLERS];

static void poll_for_ever(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	memcpy(a.sun_path, config.socket_path, strlen(config.socket_path) + 1);
	for (;;) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		int r = connect(fd, (const struct sockaddr *)&a, sizeof a);

		if (r == 0 || errno == EAGAIN || errno == ECONNREFUSED) /* refused by nobody who listens yet: the mode let it pass */
			atomic_fetch_add(&counts->connected, 1);
		else if (errno == EACCES)
			atomic_fetch_add(&counts->refused, 1);
		atomic_fetch_add(&counts->tries, 1);
		(void)close(fd);
	}
}

static void begin(mode_t mode, gid_t group)
{
	pid_t parent = getpid();

	(void)snprintf(dir, sizeof dir, "%s/listener-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chmod(dir, 0755), 0);
	config_defaults(&config, 0);
	(void)snprintf(config.socket_path, sizeof config.socket_path, "%s/s", dir);
	config.socket_mode = mode;
	config.socket_group = group;
	counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(counts != MAP_FAILED);
	for (int i = 0; i < POLLERS; i++) {
		pollers[i] = fork();
		ck_assert_int_ge(pollers[i], 0);
		if (pollers[i] > 0)
			continue;
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setgroups(0, NULL) == 0 && setresgid(POLLER_ID, POLLER_ID, POLLER_ID) == 0 && setresuid(POLLER_ID, POLLER_ID, POLLER_ID) == 0 &&
			prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
			poll_for_ever();
		_exit(1);
	}
}

static void end(void)
{
	for (int i = 0; i < POLLERS; i++) {
		int status;

		(void)kill(pollers[i], SIGKILL);
		ck_assert_int_eq(waitpid(pollers[i], &status, 0), pollers[i]);
		ck_assert_msg(WIFSIGNALED(status), "a poller ended by itself");
	}
	(void)munmap(counts, sizeof *counts);
	ck_assert_int_eq(rmdir(dir), 0);
}

/* One start: the pollers try before it, at it and behind it. */
static void start_once(const struct config *c)
{
	struct listener l = LISTENER_INIT;
	struct err e = ERR_INIT;
	struct stat st;
	uint64_t seen = atomic_load(&counts->refused) + atomic_load(&counts->connected);

	ck_assert_msg(listener_open(&l, c, &e) == 0, "%s", e.text);
	ck_assert_int_eq(lstat(l.path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, c->socket_mode);
	eventually(atomic_load(&counts->refused) + atomic_load(&counts->connected) > seen);
	listener_close(&l);
}

static void starts(const char *what, mode_t mode, gid_t group)
{
	mode_t old = umask(0);

	begin(mode, group);
	for (int i = 0; i < STARTS; i++)
		start_once(&config);
	(void)umask(old);
	printf("NOTE B29 %s: %d starts, %llu attempts of another user, of which %llu at a socket that was there, none got in\n", what, STARTS,
		(unsigned long long)atomic_load(&counts->tries), (unsigned long long)atomic_load(&counts->refused));
	ck_assert_uint_eq(atomic_load(&counts->connected), 0);
	ck_assert_uint_ge(atomic_load(&counts->refused), STARTS);
	end();
}

START_TEST(nobody_else_gets_in)
{
	if (geteuid() != 0) {
		printf("SKIP listener_nobody_else: only root can be another user\n");
		return;
	}
	starts("mode 0600", 0600, (gid_t)-1);
}
END_TEST

START_TEST(nobody_else_gets_in_beside_a_group)
{
	if (geteuid() != 0) {
		printf("SKIP listener_nobody_else: only root can be another user\n");
		return;
	}
	starts("mode 0660 and a group", 0660, OTHER_GROUP);
}
END_TEST

/* The pollers would get in if they could: else the two above would prove nothing. */
START_TEST(who_may_gets_in)
{
	if (geteuid() != 0) {
		printf("SKIP listener_nobody_else: only root can be another user\n");
		return;
	}
	begin(0660, POLLER_ID);
	start_once(&config);
	config.socket_group = (gid_t)-1;
	config.socket_mode = 0666;
	start_once(&config);
	eventually(atomic_load(&counts->connected) > 0);
	end();
}
END_TEST

CHECK_MAIN("listener", tcase_add_test(tc, nobody_else_gets_in); tcase_add_test(tc, nobody_else_gets_in_beside_a_group);
	   tcase_add_test(tc, who_may_gets_in))

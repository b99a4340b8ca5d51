/* SPDX-License-Identifier: MIT
 *
 * The parent's half of a birth: sockets and pipes, the plan, the fork. It never waits for the child: whether exec worked
 * is told by the report pipe and the exit status. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/spawner/spawner.h"
#include "proto/clock.h"

#define CHANNEL_BUFFER_BYTES (1 << 20) /* sixteen of the largest messages, where net.core.wmem_max allows it */

static char environment_path[] = "PATH=/usr/bin:/bin";
static char environment_lang[] = "LANG=C.UTF-8";

char *const spawn_environment[] = { environment_path, environment_lang, NULL };

pid_t spawn_child(struct spawner *sp, struct child_plan *plan, struct err *e)
{
	pid_t pid;

	plan->extra[CHILD_FD_REPORT] = sp->report_write_fd;
	pid = fork();
	if (pid == 0)
		child_run(plan);
	if (pid == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot fork");
	return pid;
}

static void buffers_raise(int fd)
{
	const int bytes = CHANNEL_BUFFER_BYTES;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) == -1)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) == -1)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

/* Our read end doesn't block; the writer's does, as programs expect of their standard output. */
static int log_pipe(int ends[2], struct err *e)
{
	if (pipe2(ends, O_CLOEXEC) == -1 || fd_set_nonblocking(ends[0], true) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot make a pipe");
	return 0;
}

static void host_limits_plan(const struct spawner *sp, const struct host_limits *l, struct child_plan *plan)
{
#ifndef __SANITIZE_ADDRESS__ /* its shadow is data, far beyond any limit; such a host's report says that there is none */
	child_plan_limit(plan, RLIMIT_DATA, l->max_memory_bytes);
#endif
	child_plan_limit(plan, RLIMIT_FSIZE, l->max_file_size_bytes);
	child_plan_limit(plan, RLIMIT_STACK, l->max_stack_bytes);
	child_plan_limit(plan, RLIMIT_NOFILE, l->max_open_files);
	child_plan_limit(plan, RLIMIT_CORE, 0);
	if (sp->is_root) /* it counts all processes of a user: right only where the host has one of its own */
		child_plan_limit(plan, RLIMIT_NPROC, l->max_processes);
}

int spawn_host(struct spawner *sp, struct entry *entry, const struct host_limits *limits, struct err *e)
{
	static char name[] = "sandbox-host";
	static char *const argv[] = { name, NULL };
	int channel[2] = { -1, -1 }, out[2] = { -1, -1 }, error[2] = { -1, -1 };
	struct child_plan plan;
	pid_t pid = -1;

	child_plan_init(&plan, CHILD_HOST);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) == -1 ||
		fd_set_nonblocking(channel[0], true) == -1)
		err_sys(e, ERR_UNAVAILABLE, "cannot make a channel");
	else if (log_pipe(out, e) == 0 && log_pipe(error, e) == 0) {
		buffers_raise(channel[0]);
		buffers_raise(channel[1]);
		plan.fds[0] = sp->null_fd;
		plan.fds[HOST_FD_STDOUT] = out[1];
		plan.fds[HOST_FD_STDERR] = error[1];
		plan.fds[HOST_FD_CHANNEL] = channel[1];
		plan.n_fds = HOST_FD_CHANNEL + 1;
		plan.extra[CHILD_FD_PROGRAM] = sp->programs.host;
		plan.change_ids = sp->is_root;
		plan.uid = plan.gid = entry->uid;
		plan.argv = argv;
		plan.envp = spawn_environment;
		host_limits_plan(sp, limits, &plan);
		pid = spawn_child(sp, &plan, e);
	}
	fd_close(&channel[1]);
	fd_close(&out[1]);
	fd_close(&error[1]);
	if (pid == -1) {
		fd_close(&channel[0]);
		fd_close(&out[0]);
		fd_close(&error[0]);
		return -1;
	}
	entry->limits = *limits;
	entry->fds[ENTRY_CHANNEL] = channel[0];
	entry->fds[ENTRY_STDOUT] = out[0];
	entry->fds[ENTRY_STDERR] = error[0];
	entry_started(&sp->table, entry, pid, ++sp->generations, clock_monotonic_ms());
	return 0;
}

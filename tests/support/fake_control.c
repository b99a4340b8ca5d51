/* SPDX-License-Identifier: MIT
 *
 * Stands in for sandboxd-control in tests of the spawner: connects to the socket `relay` beside the state folder, sends what it
 * finds around itself, then carries messages both ways, descriptors and all. So the test itself speaks control's side. A
 * message of one byte from the test: exit with that status. A file `control-exits` beside the state folder: exit at once. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/build.h"
#include "proto/fd.h"
#include "proto/spawner_wire.h"
#include "tests/support/self_report.h"

static int relay_connect(const char *state_dir)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (snprintf(address.sun_path, sizeof address.sun_path, "%s/../relay", state_dir) >= (int)sizeof address.sun_path)
		return -1;
	return connect(fd, (const struct sockaddr *)&address, sizeof address) == -1 ? -1 : fd;
}

/* One message from one side to the other; both ends block. */
static void carry(int from, int to, bool from_test)
{
	char message[LIMIT_MESSAGE_BYTES];
	int fds[FD_MESSAGE_MAX];
	size_t n_fds;
	ssize_t n = fd_message_receive(from, message, sizeof message, fds, &n_fds);

	if (n == -1 && errno == EAGAIN)
		return;
	if (n <= 0)
		_exit(0);
	if (from_test && n == 1)
		_exit(message[0]);
	while (fd_message_send(to, message, (size_t)n, fds, n_fds) == -1) {
		struct pollfd wait = { .fd = to, .events = from_test ? POLLIN | POLLOUT : POLLOUT };

		if (errno != EAGAIN)
			_exit(0);
		(void)poll(&wait, 1, 1000);
		if (from_test && (wait.revents & POLLIN)) /* the spawner reads no more before its replies are taken */
			carry(to, from, false);
	}
	for (size_t i = 0; i < n_fds; i++)
		fd_close(&fds[i]);
}

int main(int argc, char **argv)
{
	struct control_begin begin;
	struct buf report = BUF_INIT;
	int fds[FD_MESSAGE_MAX], relay;
	char marker[LIMIT_PATH_BYTES + 32];
	size_t n_fds;

	if (argc == 2 && strcmp(argv[1], BUILD_ARGUMENT) == 0)
		return build_print();
	self_report(&report, argv);
	if (fd_message_receive(CONTROL_FD_SPAWNER, &begin, sizeof begin, fds, &n_fds) != (ssize_t)sizeof begin)
		return 2;
	(void)snprintf(marker, sizeof marker, "%s/../control-exits", begin.state_dir);
	if (access(marker, F_OK) == 0)
		_exit(3); /* not by main's end: a sanitizer's look for leaks there would change the status, which a test waits for */
	relay = relay_connect(begin.state_dir);
	if (relay == -1 || fd_message_send(relay, report.data, report.size, NULL, 0) == -1 ||
		fd_message_send(relay, &begin, sizeof begin, NULL, 0) == -1)
		return 4;
	for (;;) {
		struct pollfd sides[2] = { { .fd = CONTROL_FD_SPAWNER, .events = POLLIN }, { .fd = relay, .events = POLLIN } };

		(void)poll(sides, 2, -1);
		if (sides[1].revents)
			carry(relay, CONTROL_FD_SPAWNER, true);
		else if (sides[0].revents)
			carry(CONTROL_FD_SPAWNER, relay, false);
	}
}

/* SPDX-License-Identifier: MIT */
#include "daemon/spawner/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/log.h"

#define MESSAGE_BYTES 512

/* A path, or '@' and the name of an abstract socket. */
static socklen_t address_of(const char *text, struct sockaddr_un *to)
{
	size_t size = strlen(text);

	memset(to, 0, sizeof *to);
	to->sun_family = AF_UNIX;
	if ((text[0] != '/' && text[0] != '@') || size < 2 || size >= sizeof to->sun_path)
		return 0;
	memcpy(to->sun_path, text, size);
	if (text[0] == '@')
		to->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + (text[0] == '/' ? 1 : 0));
}

static int connect_to(const char *text)
{
	struct sockaddr_un address;
	socklen_t size = address_of(text, &address);
	autoclose int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (size == 0)
		errno = EINVAL;
	if (fd == -1 || size == 0 || connect(fd, (struct sockaddr *)&address, size) == -1)
		return -1;
	return fd_take(&fd);
}

/* $WATCHDOG_USEC is meant for $WATCHDOG_PID alone, where there is one. */
static int64_t watchdog_of(const char *usec, const char *pid)
{
	char *end;
	long long us;

	if (!usec || (pid && strtol(pid, NULL, 10) != (long)getpid()))
		return 0;
	errno = 0;
	us = strtoll(usec, &end, 10);
	if (*end || end == usec || errno != 0 || us < 1000) {
		log_warning("WATCHDOG_USEC is no time: '%.40s'", usec);
		return 0;
	}
	return us / 1000;
}

void notify_open(struct notify *n)
{
	const char *socket_path = getenv("NOTIFY_SOCKET");

	*n = (struct notify)NOTIFY_INIT;
	if (socket_path && socket_path[0]) {
		n->fd = connect_to(socket_path);
		if (n->fd == -1)
			log_warning("the service manager can't be told (NOTIFY_SOCKET=%.100s): %s", socket_path, strerror(errno));
		else
			n->watchdog_ms = watchdog_of(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"));
	}
	(void)unsetenv("NOTIFY_SOCKET");
	(void)unsetenv("WATCHDOG_USEC");
	(void)unsetenv("WATCHDOG_PID");
}

void notify_close(struct notify *n)
{
	fd_close(&n->fd);
}

void notify_send(struct notify *n, const char *format, ...)
{
	char text[MESSAGE_BYTES];
	va_list args;
	int size;

	if (n->fd == -1)
		return;
	va_start(args, format);
	size = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (size > 0 && send(n->fd, text, size < (int)sizeof text ? (size_t)size : sizeof text - 1, MSG_NOSIGNAL) == -1 && errno != EAGAIN)
		log_debug("the service manager can't be told: %s", strerror(errno));
}

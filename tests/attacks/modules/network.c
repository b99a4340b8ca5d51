/* SPDX-License-Identifier: MIT
 *
 * Attacks on the network, on sockets of other processes, and on the channel to the daemon. Sockets stay open: the runner counts them. */
#include "attack.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CHANNEL 3

static char room[1 << 16];

/* n: port on 127.0.0.1; m: 1 UDP, 2 TCP by IPv6, 3 TCP fast open, 4 MPTCP */
static int internet(struct sbx *x, void *self)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)n_of(x)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = to.sin_port, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	const char *t = text_of(x);
	long m = m_of(x);
	int fd = socket(m == 2 ? AF_INET6 : AF_INET, m == 1 ? SOCK_DGRAM : SOCK_STREAM, m == 4 ? 262 : 0);
	long r = -1;

	(void)self;
	if (fd < 0)
		return said(x, fd);
	if (m == 1 || m == 3)
		r = sendto(fd, t, strlen(t), MSG_NOSIGNAL | (m == 3 ? MSG_FASTOPEN : 0), (void *)&to, sizeof to);
	else if ((r = m == 2 ? connect(fd, (void *)&six, sizeof six) : connect(fd, (void *)&to, sizeof to)) == 0)
		r = send(fd, t, strlen(t), MSG_NOSIGNAL);
	return said(x, r);
}

/* Waits for others: n: 1 UDP. */
static int serve(struct sbx *x, void *self)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)n_of(x)) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	long r = fd < 0 ? -1 : bind(fd, (void *)&at, sizeof at);

	(void)self;
	return said(x, r < 0 ? r : listen(fd, 4));
}

static socklen_t unix_address(struct sockaddr_un *to, const char *name)
{
	size_t n = strlen(name);

	memset(to, 0, sizeof *to);
	to->sun_family = AF_UNIX;
	memcpy(to->sun_path, name, n < sizeof to->sun_path ? n : sizeof to->sun_path - 1);
	if (name[0] == '@') {
		to->sun_path[0] = '\0';
		return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	}
	return sizeof *to;
}

/* path: a socket file, or @name of an abstract one; n: 1 a datagram; what is answered comes back */
static int local(struct sbx *x, void *self)
{
	struct sockaddr_un to;
	socklen_t size = unix_address(&to, path_of(x));
	const char *t = text_of(x);
	int fd = socket(AF_UNIX, n_of(x) == 1 ? SOCK_DGRAM : SOCK_STREAM, 0);
	struct timeval wait = { .tv_sec = 2 };
	ssize_t n = -1;

	(void)self;
	if (fd < 0)
		return said(x, fd);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
	if (n_of(x) == 1)
		return said(x, sendto(fd, t, strlen(t), MSG_NOSIGNAL, (void *)&to, size));
	if (connect(fd, (void *)&to, size) < 0 || send(fd, t, strlen(t), MSG_NOSIGNAL) < 0)
		return said(x, -1);
	if (m_of(x) == 0)
		n = recv(fd, room, sizeof room, 0);
	return brought(x, n, room, n > 0 ? (size_t)n : 0);
}

/* A datagram through one half of a pair, which any process may have. */
static int pair_out(struct sbx *x, void *self)
{
	struct sockaddr_un to;
	socklen_t size = unix_address(&to, path_of(x));
	const char *t = text_of(x);
	int fds[2];

	(void)self;
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) < 0)
		return said(x, -1);
	return said(x, sendto(fds[0], t, strlen(t), MSG_NOSIGNAL, (void *)&to, size));
}

static int listen_local(struct sbx *x, void *self)
{
	struct sockaddr_un at;
	socklen_t size = unix_address(&at, path_of(x));
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	long r = fd < 0 ? -1 : bind(fd, (void *)&at, size);

	(void)self;
	return said(x, r < 0 ? r : listen(fd, 4));
}

/* n: family, and bits beyond the 32 that the kernel looks at; m: type, at: protocol */
static int any_socket(struct sbx *x, void *self)
{
	(void)self;
	return said(x, syscall(SYS_socket, n_of(x), m_of(x), sbx_arg_u64(x, "at")));
}

/* Every family and type there is; the number of sockets got. */
static int every_family(struct sbx *x, void *self)
{
	long got = 0;

	(void)self;
	for (int family = 0; family < 64; family++)
		for (int type = 1; type < 8; type++)
			for (int protocol = 0; protocol < 3; protocol++)
				got += socket(family, type, protocol) >= 0 || socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol) >= 0;
	errno = EACCES;
	return said(x, got ? got : -1);
}

/* Where the host is: the addresses of its interfaces, asked of the channel, which is a socket. */
static int interfaces(struct sbx *x, void *self)
{
	struct ifreq all[32], one;
	struct ifconf c = { .ifc_len = sizeof all, .ifc_req = all };
	int r = ioctl(CHANNEL, SIOCGIFCONF, &c);
	size_t n = 0;

	(void)self;
	for (int i = 1; r >= 0 && i < 64; i++) {
		memset(&one, 0, sizeof one);
		one.ifr_ifindex = i;
		if (ioctl(CHANNEL, SIOCGIFNAME, &one) == 0)
			n += (size_t)snprintf(room + n, sizeof room - n, "%s;", one.ifr_name);
	}
	return brought(x, r, room, n);
}

/* ---- the channel to the daemon ---- */

struct head { uint32_t magic; uint16_t type, flags; uint64_t generation, number, sequence; int64_t value[2]; uint32_t status, body_bytes; };

/* As fast as it goes, until nobody reads: n messages of type m with a body. */
static int flood_channel(struct sbx *x, void *self)
{
	struct { struct head head; char body[60000]; } u = { .head = { .magic = 0x48584253u, .type = (uint16_t)m_of(x), .generation = 1,
		.body_bytes = sizeof u.body } };
	long sent = 0;

	(void)self;
	memset(u.body, '[', sizeof u.body);
	for (long i = 0; i < n_of(x); i++)
		sent += send(CHANNEL, &u, sizeof u, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
	return said(x, sent);
}

static int flood_output(struct sbx *x, void *self)
{
	static char lines[65536];
	long sent = 0;

	(void)self;
	memset(lines, 'l', sizeof lines);
	for (long i = 0; i < n_of(x); i++)
		sent += write(1, lines, sizeof lines);
	return said(x, sent);
}

/* Replies that belong to others, a report that all is well, a stop that nobody asked for. text: in the body. */
static int forge_all(struct sbx *x, void *self)
{
	struct { struct head head; char body[512]; } u;
	long sent = 0;

	(void)self;
	for (int type = 64; type < 80; type++)
		for (uint64_t generation = 0; generation < 3; generation++) {
			memset(&u, 0, sizeof u);
			u.head.magic = 0x48584253u;
			u.head.type = (uint16_t)type;
			u.head.generation = generation;
			u.head.number = u.head.sequence = 1;
			u.head.body_bytes = (uint32_t)snprintf(u.body, sizeof u.body,
				"[{\"protection\":\"%s\",\"asked\":\"yes\",\"got\":\"yes\",\"by\":\"me\",\"why\":\"\"}]", text_of(x));
			sent += send(CHANNEL, &u, sizeof u.head + u.head.body_bytes, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
		}
	return said(x, sent);
}

ATTACKS(network, ATTACK(internet), ATTACK(serve), ATTACK(local), ATTACK(pair_out), ATTACK(listen_local), ATTACK(any_socket),
	ATTACK(every_family), ATTACK(interfaces), ATTACK(flood_channel), ATTACK(flood_output), ATTACK(forge_all));

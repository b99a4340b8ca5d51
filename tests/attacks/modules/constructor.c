/* SPDX-License-Identifier: MIT
 *
 * Code that runs while the object is being loaded, before any function of it was asked for: a constructor and an IFUNC resolver.
 * The runner replaces the markers in the object's bytes with a path and a nonce of the same length. */
#include "attack.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static volatile char target[256] = "@TARGET@", nonce[64] = "@NONCE@", port[16] = "@PORT@", way[8] = "@WAY@";

struct head { uint32_t magic; uint16_t type, flags; uint64_t generation, number, sequence; int64_t value[2]; uint32_t status, body_bytes; };

/* Nothing of libc has to work yet where a resolver runs: plain system calls only. */
static long call4(long number, long a, long b, long c, long d)
{
#if defined __x86_64__
	long r;
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall" : "=a"(r) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return r;
#else
	return syscall(number, a, b, c, d);
#endif
}

static inline long length(const volatile char *s)
{
	long n = 0;

	while (s[n])
		n++;
	return n;
}

static inline void strike(void)
{
	long fd = call4(SYS_openat, -100, (long)target, O_WRONLY, 0);

	if (fd >= 0) {
		call4(SYS_write, fd, (long)nonce, length(nonce), 0);
		call4(SYS_close, fd, 0, 0, 0);
	}
}

static int answer_a(void) { return 1; }

static int (*resolve(void))(void)
{
	if (way[0] == 'i')
		strike();
	return answer_a;
}

static int answer(void) __attribute__((ifunc("resolve")));

static void phone(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi((const char *)(uintptr_t)port)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd >= 0 && connect(fd, (void *)&to, sizeof to) == 0)
		(void)!write(fd, (const char *)(uintptr_t)nonce, (size_t)length(nonce));
}

/* Ready, replies, reports: before the host has said any of it itself. */
static void forge(void)
{
	struct { struct head head; char body[512]; } u;

	for (int type = 64; type < 80; type++)
		for (uint64_t generation = 0; generation < 3; generation++) {
			memset(&u, 0, sizeof u);
			u.head.magic = 0x48584253u;
			u.head.type = (uint16_t)type;
			u.head.generation = generation;
			u.head.body_bytes = (uint32_t)snprintf(u.body, sizeof u.body,
				"[{\"protection\":\"%s\",\"asked\":\"yes\",\"got\":\"yes\",\"by\":\"me\",\"why\":\"\"}]", (const char *)(uintptr_t)nonce);
			(void)send(3, &u, sizeof u.head + u.head.body_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
		}
}

__attribute__((constructor)) static void first(void)
{
	if (way[0] == 'c')
		strike();
	if (way[0] == 'p')
		phone();
	if (way[0] == 'f')
		forge();
}

static int ping(struct sbx *x, void *self)
{
	(void)self;
	return said(x, answer());
}

ATTACKS(constructor, ATTACK(ping));

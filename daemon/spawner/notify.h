/* SPDX-License-Identifier: MIT
 *
 * What the service manager is told (sd_notify's protocol: datagrams to $NOTIFY_SOCKET), and how often it wants to hear that the daemon
 * serves ($WATCHDOG_USEC). Without a service manager all of it does nothing. Spawner only; never blocks. */
#ifndef SANDBOXD_NOTIFY_H
#define SANDBOXD_NOTIFY_H

#include <stdint.h>

struct notify {
	int fd;                /* -1: nobody wants to know */
	int64_t watchdog_ms;   /* to be heard of at least so often; 0: no */
};
#define NOTIFY_INIT { .fd = -1 }

/* Reads the environment and takes the variables out of it. A socket that can't be reached is logged, and nobody is told. */
void notify_open(struct notify *n);
void notify_close(struct notify *n);
/* "READY=1\nSTATUS=serving\n" and the like. */
void notify_send(struct notify *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

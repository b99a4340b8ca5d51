/* SPDX-License-Identifier: MIT
 *
 * Descriptors: closing exactly once, memfds, messages with descriptors. Async-signal-safe where marked (S). */
#ifndef SANDBOXD_FD_H
#define SANDBOXD_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/err.h"

#define FD_MESSAGE_MAX 7 /* descriptors in one message */

void fd_close(int *fd);                    /* (S) closes if >= 0, leaves -1; keeps errno */
int fd_take(int *fd);                      /* (S) returns *fd and leaves -1 */
static inline void fd_autoclose_(int *fd)
{
	fd_close(fd);
}
#define autoclose __attribute__((cleanup(fd_autoclose_)))

/* Is the lowest free number, which the next open would get, more than `reserve` below the limit of this process? A quarter of a small
 * limit is enough for any reserve. */
bool fd_room_beside(unsigned reserve);

int fd_set_nonblocking(int fd, bool on);   /* 0 or -1 with errno */

/* A sealable, close-on-exec memfd with these bytes (may be NULL, 0). sealed: no more change of size or content. -1 with errno. */
int fd_memfd(const char *name, const void *data, size_t size, bool sealed);
/* The read end of a pipe that holds these bytes and has no writer: for who may not make a memfd. Close-on-exec, non-blocking. -1 with errno:
 * no more than fs.pipe-max-size fits, which is at least 1 MiB unless it was lowered. */
int fd_pipe_filled(const void *data, size_t size);
/* Takes just `size` bytes, all there is, out of a pipe into fresh memory; NUL-terminated. NULL and err on failure. Never blocks, whoever
 * holds the pipe's other ends and whatever their flags are. */
char *fd_read_pipe(int fd, size_t size, struct err *e);
/* Reads a whole memfd (or regular file) of at most `limit` bytes into fresh memory; NUL-terminated. NULL and err on failure. Never blocks on memfds. */
char *fd_read_all(int fd, size_t limit, size_t *ret_size, struct err *e);
bool fd_is_memfd_sealed(int fd);           /* has F_SEAL_WRITE|F_SEAL_SHRINK|F_SEAL_GROW */

/* One SEQPACKET message. Returns 0, or -1 with errno (EAGAIN: full). Never raises SIGPIPE. The fds stay the caller's. */
int fd_message_send(int socket_fd, const void *data, size_t size, const int *fds, size_t n_fds);
/* Two parts in one message, to spare a copy. */
int fd_message_send2(int socket_fd, const void *head, size_t head_size, const void *body, size_t body_size, const int *fds,
	size_t n_fds);
/* Receives one message into data; fds[0..*n_fds) are close-on-exec and the caller's; surplus ones are closed.
 * Returns its size, 0 at EOF, -1 with errno; EMSGSIZE (message or descriptors truncated: all its fds are closed). */
ssize_t fd_message_receive(int socket_fd, void *data, size_t room, int fds[FD_MESSAGE_MAX], size_t *n_fds);
/* The same, but a signal ends the waiting: EINTR. */
ssize_t fd_message_receive_once(int socket_fd, void *data, size_t room, int fds[FD_MESSAGE_MAX], size_t *n_fds);

#endif

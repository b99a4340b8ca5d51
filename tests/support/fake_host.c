/* SPDX-License-Identifier: MIT
 *
 * Stands in for sandbox-host in tests of the spawner, born by the real zygote's steps: sends what it finds around itself on its channel, says when it gets the
 * attention signal, and obeys words: `exit N`, `signal N`, `write N`, `child` and `escape` (a process that stays, in its group
 * or in a session of its own; the answer is its pid), `ping`, `read PATH`, `limits`. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/host/zygote/zygote.h"
#include "proto/build.h"
#include "proto/fd.h"
#include "proto/host_wire.h"
#include "proto/spawner_wire.h"
#include "tests/support/self_report.h"

static void say(const char *text)
{
	(void)fd_message_send(HOST_FD_CHANNEL, text, strlen(text), NULL, 0);
}

static void on_attention(int number)
{
	int kept = errno;

	(void)number;
	say("attention");
	errno = kept;
}

/* A process that ends only by a signal. */
static void linger(bool escapes)
{
	char text[32];
	pid_t pid = fork();

	if (pid == 0) {
		(void)close(HOST_FD_CHANNEL);
		if (escapes) {
			if (fork() != 0)
				_exit(0);
			(void)setsid();
		}
		(void)!write(HOST_FD_STDERR, escapes ? "e" : "c", 1);
		for (;;)
			(void)pause();
	}
	if (escapes)
		(void)waitpid(pid, NULL, 0);
	(void)snprintf(text, sizeof text, "%d", escapes ? 0 : (int)pid);
	say(text);
}

static void write_bytes(long n)
{
	static const char bytes[1000];

	while (n > 0) {
		ssize_t done = write(HOST_FD_STDOUT, bytes, n < (long)sizeof bytes ? (size_t)n : sizeof bytes);

		if (done <= 0)
			break;
		n -= done;
	}
	say("written");
}

static void read_file(const char *path)
{
	char text[64];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	(void)snprintf(text, sizeof text, "%s", fd == -1 ? strerror(errno) : "readable");
	fd_close(&fd);
	say(text);
}

static void obey(const char *word)
{
	const char *space = strchr(word, ' ');
	long n = space ? strtol(space + 1, NULL, 10) : 0;

	if (strncmp(word, "exit", 4) == 0)
		_exit((int)n);
	else if (strncmp(word, "signal", 6) == 0)
		(void)kill(getpid(), (int)n);
	else if (strncmp(word, "write", 5) == 0)
		write_bytes(n);
	else if (strcmp(word, "child") == 0 || strcmp(word, "escape") == 0)
		linger(word[0] == 'e');
	else if (strncmp(word, "read", 4) == 0 && space)
		read_file(space + 1);
	else
		say("pong");
}

static void count_one(struct zygote_message *m)
{
	autoclose int file = open("asked", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	int fds[FD_MESSAGE_MAX];
	size_t n_fds = 0;

	(void)!write(file, "x", 1);
	if (fd_message_receive(ZYGOTE_FD_LINK, m, sizeof *m, fds, &n_fds) <= 0)
		_exit(0);
	while (n_fds > 0)
		fd_close(&fds[--n_fds]);
}

/* As a zygote, by the word in the file `zygote` of its folder, the daemon's runtime folder: `fail` (a step), `exit` (before it is
 * ready, each time), or, once, when a host is asked for: `die`, `stop` (itself), `mute`, `count` (takes all that is asked for, answers nothing,
 * and the file `asked` gets a byte for each). */
static void misbehave(void)
{
	struct zygote_message m = { .version = ZYGOTE_WIRE_VERSION };
	int fds[FD_MESSAGE_MAX], file = open("zygote", O_RDONLY | O_CLOEXEC);
	char word[16] = "";
	size_t n_fds;

	if (file == -1 || read(file, word, sizeof word - 1) <= 0)
		return;
	if (strcmp(word, "exit") == 0)
		_exit(3);
	(void)fd_message_receive(ZYGOTE_FD_LINK, &m, sizeof m, fds, &n_fds);
	m.op = ZYGOTE_READY;
	if (strcmp(word, "fail") == 0) {
		m.op = ZYGOTE_FAILED;
		m.status = EDOM;
		(void)snprintf(m.step, sizeof m.step, "a step");
	}
	(void)fd_message_send(ZYGOTE_FD_LINK, &m, sizeof m, NULL, 0);
	if (m.op == ZYGOTE_FAILED)
		_exit(1);
	(void)fd_message_receive(ZYGOTE_FD_LINK, &m, sizeof m, fds, &n_fds);
	(void)unlink("zygote");
	if (strcmp(word, "stop") == 0)
		(void)raise(SIGSTOP);
	while (strcmp(word, "count") == 0)
		count_one(&m);
	while (strcmp(word, "mute") == 0)
		(void)pause();
	_exit(0);
}

int main(int argc, char **argv)
{
	struct sigaction attention = { .sa_handler = on_attention, .sa_flags = SA_RESTART };
	struct buf report = BUF_INIT;
	char word[512];

	if (argc == 2 && strcmp(argv[1], BUILD_ARGUMENT) == 0)
		return build_print();
	if (argc > 1 && strcmp(argv[1], ZYGOTE_ARGUMENT) == 0) {
		misbehave();
		zygote_run(); /* comes back in each host */
	}
	self_report(&report, argv);
	(void)sigaction(HOST_ATTENTION_SIGNAL, &attention, NULL);
	if (fd_message_send(HOST_FD_CHANNEL, report.data, report.size, NULL, 0) == -1)
		return 2;
	for (;;) {
		int fds[FD_MESSAGE_MAX];
		size_t n_fds;
		ssize_t n = fd_message_receive(HOST_FD_CHANNEL, word, sizeof word - 1, fds, &n_fds);

		if (n <= 0)
			return 0; /* spawner and control are both gone */
		word[n] = '\0';
		obey(word);
	}
}

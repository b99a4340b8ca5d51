/* SPDX-License-Identifier: MIT
 *
 * See beat.h. The handler calls nothing but send: it may come at any point of any thread's code. A copy of the process (a rehearsal, a save)
 * has no timer: fork doesn't hand it on. */
#include "daemon/host/beat.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include "proto/host_wire.h"

#define BEATS_PER_PERIOD 4
#define BEAT_MIN_MS      5

volatile uint64_t beat_word;

static struct {
	struct host_message message;
	int channel_fd;
	uint64_t told;
} beat;

static void on_beat(int number)
{
	int saved = errno;
	uint64_t now = beat_word;

	(void)number;
	/* No room: what fills the channel tells control that we live. */
	if (now != beat.told && send(beat.channel_fd, &beat.message, sizeof beat.message, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		beat.told = now;
	errno = saved;
}

int beat_start(int channel_fd, uint64_t generation, int64_t heartbeat_ms, struct err *e)
{
	struct sigaction act = { .sa_handler = on_beat, .sa_flags = SA_RESTART | SA_ONSTACK };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = HOST_BEAT_SIGNAL };
	int64_t ms = heartbeat_ms / BEATS_PER_PERIOD < BEAT_MIN_MS ? BEAT_MIN_MS : heartbeat_ms / BEATS_PER_PERIOD;
	struct itimerspec every = { { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 }, { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 } };
	timer_t timer;

	if (heartbeat_ms <= 0)
		return 0;
	beat.channel_fd = channel_fd;
	beat.message = (struct host_message){ .magic = HOST_MESSAGE_MAGIC, .type = HOST_ALIVE, .generation = generation };
	if (sigaction(HOST_BEAT_SIGNAL, &act, NULL) < 0 || timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 ||
		timer_settime(timer, 0, &every, NULL) < 0)
		return err_sys(e, ERR_START_FAILED, "cannot make the timer of the heartbeat");
	return 0;
}

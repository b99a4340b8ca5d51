/* SPDX-License-Identifier: MIT
 *
 * The two clocks. Policy never calls these: time is its argument. Runs in every process; async-signal-safe. */
#ifndef SANDBOXD_CLOCK_H
#define SANDBOXD_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_monotonic_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static inline int64_t clock_monotonic_ms(void)
{
	return clock_monotonic_us() / 1000;
}

static inline int64_t clock_wall_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static inline int64_t clock_wall_ms(void)
{
	return clock_wall_us() / 1000;
}

#endif

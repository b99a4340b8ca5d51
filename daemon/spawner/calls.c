/* SPDX-License-Identifier: MIT
 *
 * calls.def as data. */
#include "daemon/spawner/calls.h"

#include <asm/termbits.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/spawner/call_numbers.h"
#include "proto/profile.h"

#ifndef PR_GET_MDWE
#define PR_GET_MDWE 66
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#define OP(name)    OPERATION(name)
#define WRITING     (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | __O_TMPFILE)
#define SOCKET_TYPE 0xf /* what isn't SOCK_CLOEXEC or SOCK_NONBLOCK */
#define NEW_NAMESPACES                                                                                       \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

#define LOW(value)                     ((uint64_t)(uint32_t)(value))
#define EQ32(argument, value)          { argument, false, UINT32_MAX, LOW(value) }
#define EQ64(argument, value)          { argument, false, UINT64_MAX, (uint64_t)(value) }
#define SET32(argument, bits)          { argument, true, LOW(bits), 0 }
#define FIELD32(argument, field, value) { argument, false, LOW(field), LOW(value) }

#define C0(call, operations)       { #call, __NR_##call, operations, 0, { { 0 } } },
#define C1(call, operations, a)    { #call, __NR_##call, operations, 1, { a } },
#define C2(call, operations, a, b) { #call, __NR_##call, operations, 2, { a, b } },

const struct call_row call_rows[] = {
#include "daemon/spawner/calls.def"
};
const size_t call_rows_n = sizeof call_rows / sizeof *call_rows;

static bool holds(const struct call_condition *c, const struct seccomp_data *call)
{
	return ((call->args[c->argument] & c->mask) == c->value) != c->differs;
}

const struct call_row *call_find(const struct seccomp_data *call)
{
	for (size_t i = 0; i < call_rows_n; i++) {
		const struct call_row *row = &call_rows[i];
		size_t n = 0;

		if (row->number < 0 || row->number != call->nr)
			continue;
		while (n < row->n_conditions && holds(&row->conditions[n], call))
			n++;
		if (n == row->n_conditions)
			return row;
	}
	return NULL;
}

/* SPDX-License-Identifier: MIT
 *
 * One row per op says what a request of it has. */
#include "daemon/spawner/validate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/fd.h"
#include "proto/mirror.h"
#include "proto/names.h"

static const struct request_rule {
	const char *name;
	bool replies, sandbox;
	uint8_t kind_max; /* kinds are 1..kind_max; 0: the op has none */
	uint8_t fds_min, fds_max;
} request_rules[SPAWNER_REQUEST__N] = {
	[SPAWNER_READY] = { "READY", false, false, 0, 0, 0 },
	[SPAWNER_TABLE] = { "TABLE", true, false, 0, 0, 0 },
	[SPAWNER_HOLD] = { "HOLD", true, true, 0, 1, 1 },
	[SPAWNER_KEEP] = { "KEEP", true, true, SPAWNER_KEEP_MIRROR, 0, 1 },
	[SPAWNER_FORGET] = { "FORGET", true, true, 0, 0, 0 },
	[SPAWNER_START] = { "START", true, true, 0, 0, 1 },
	[SPAWNER_SIGNAL] = { "SIGNAL", true, true, SPAWNER_SIGNAL_TIME, 0, 0 },
	[SPAWNER_ACK_EXIT] = { "ACK_EXIT", false, true, 0, 0, 0 },
	[SPAWNER_JOB] = { "JOB", true, false, SPAWNER_JOB_COMPILE_C, 1, 1 },
	[SPAWNER_JOB_KILL] = { "JOB_KILL", false, false, 0, 0, 0 },
	[SPAWNER_FINISHED] = { "FINISHED", false, false, 0, 0, 0 },
	[SPAWNER_STOPPING] = { "STOPPING", false, false, 0, 0, 0 },
	[SPAWNER_ALIVE] = { "ALIVE", false, false, 0, 0, 0 },
	[SPAWNER_UPGRADE] = { "UPGRADE", false, false, 0, 0, 0 },
	[SPAWNER_PROMOTE] = { "PROMOTE", true, true, 0, 1, 2 },
	[SPAWNER_DISCARD] = { "DISCARD", true, true, 0, 0, 0 },
	[SPAWNER_STOP] = { "STOP", false, false, 0, 0, 0 },
	[SPAWNER_LIMIT] = { "LIMIT", true, true, 0, 1, 1 },
};

static bool op_known(uint16_t op)
{
	return op < SPAWNER_REQUEST__N && request_rules[op].name;
}

const char *validate_op_name(uint16_t op)
{
	return op_known(op) ? request_rules[op].name : "unknown";
}

bool validate_op_replies(uint16_t op)
{
	return op_known(op) && request_rules[op].replies;
}

int validate_frame(const struct spawner_message *m, size_t size, struct err *e)
{
	if (size != sizeof *m)
		return REFUSE(e, EPROTO, "a message of %zu bytes instead of %zu", size, sizeof *m);
	if (m->version != SPAWNER_WIRE_VERSION)
		return REFUSE(e, EPROTO, "a message of wire version %u instead of %u", m->version, SPAWNER_WIRE_VERSION);
	if (!op_known(m->op))
		return REFUSE(e, EPROTO, "a message with the unknown op %u", m->op);
	if (!memchr(m->sandbox, 0, sizeof m->sandbox) || !memchr(m->name, 0, sizeof m->name) ||
		!memchr(m->text, 0, sizeof m->text))
		return REFUSE(e, EPROTO, "a message %s with an unterminated text", validate_op_name(m->op));
	return 0;
}

int validate_request(const struct spawner_message *m, size_t n_fds, struct err *e)
{
	const struct request_rule *rule = &request_rules[m->op];

	if (n_fds < rule->fds_min || n_fds > rule->fds_max)
		return REFUSE(e, EINVAL, "%s with %zu descriptors", rule->name, n_fds);
	if (rule->kind_max ? m->kind < 1 || m->kind > rule->kind_max : m->kind != 0)
		return REFUSE(e, EINVAL, "%s of the unknown kind %u", rule->name, m->kind);
	if (rule->sandbox && !name_is_id(m->sandbox, strlen(m->sandbox)))
		return REFUSE(e, EINVAL, "%s of a sandbox whose name is not an id", rule->name);
	return 0;
}

static int memfd_check(int fd, int seals_wanted, uint64_t size_min, uint64_t size_max, const char *what, struct err *e)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode) || seals == -1)
		return REFUSE(e, EINVAL, "the %s is not a memfd", what);
	if ((seals & seals_wanted) != seals_wanted)
		return REFUSE(e, EINVAL, "the %s lacks seals", what);
	if (st.st_size < 0 || (uint64_t)st.st_size < size_min || (uint64_t)st.st_size > size_max)
		return REFUSE(e, EFBIG, "the %s has %lld bytes; %llu to %llu may be", what, (long long)st.st_size,
			(unsigned long long)size_min, (unsigned long long)size_max);
	return 0;
}

int validate_keep(uint16_t kind, int fd, struct err *e)
{
	const int whole = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;

	switch ((enum spawner_keep)kind) {
	case SPAWNER_KEEP_SPEC:
		if (fd == -1)
			return REFUSE(e, EINVAL, "a spec can be replaced, not dropped");
		return memfd_check(fd, whole, 0, LIMIT_SPEC_BYTES, "spec", e);
	case SPAWNER_KEEP_STATE:
		return fd == -1 ? 0 : memfd_check(fd, whole, 0, LIMIT_STATE_BYTES, "state", e);
	case SPAWNER_KEEP_RING:
		return fd == -1 ? 0 : memfd_check(fd, F_SEAL_SHRINK | F_SEAL_GROW, LIMIT_LOG_RING_BYTES,
			LIMIT_LOG_RING_BYTES, "log ring", e);
	case SPAWNER_KEEP_CHECKPOINT:
		return fd == -1 ? 0 : memfd_check(fd, whole, 0, LIMIT_STATE_BYTES, "checkpoint", e);
	case SPAWNER_KEEP_MIRROR:
		return fd == -1 ? 0 : memfd_check(fd, F_SEAL_SHRINK | F_SEAL_GROW, MIRROR_BYTES, MIRROR_BYTES, "mirror", e);
	}
	return REFUSE(e, EINVAL, "unknown kind");
}

static int ceiling_check(const char *name, uint64_t value, uint64_t ceiling, struct err *e)
{
	if (ceiling != 0 && value > ceiling)
		return REFUSE(e, EPERM, "%s = %llu is above the administrator's ceiling of %llu", name,
			(unsigned long long)value, (unsigned long long)ceiling);
	return 0;
}

/* A default never exceeds a ceiling: the administrator may set one below it. */
static uint64_t value_or_default(uint64_t value, uint64_t standard, uint64_t ceiling)
{
	if (value != 0)
		return value;
	return ceiling != 0 && ceiling < standard ? ceiling : standard;
}

int validate_limits(const struct host_limits *asked, const struct config *c, struct host_limits *ret, struct err *e)
{
	struct host_limits l = {
		.max_memory_bytes = value_or_default(asked->max_memory_bytes, DEFAULT_MAX_MEMORY_BYTES,
			c->max_memory_bytes),
		.max_file_size_bytes = value_or_default(asked->max_file_size_bytes, DEFAULT_MAX_FILE_SIZE_BYTES,
			c->max_file_size_bytes),
		.max_stack_bytes = value_or_default(asked->max_stack_bytes, DEFAULT_MAX_STACK_BYTES, 0),
		.max_processes = (uint32_t)value_or_default(asked->max_processes, DEFAULT_MAX_PROCESSES,
			c->max_processes),
		.max_open_files = (uint32_t)value_or_default(asked->max_open_files, DEFAULT_MAX_OPEN_FILES,
			c->max_open_files),
		.max_cpu_percentage = (uint32_t)value_or_default(asked->max_cpu_percentage, DEFAULT_MAX_CPU_PERCENTAGE, 0),
	};

	/* A stack is memory too, and the kernel doesn't count it in RLIMIT_DATA. */
	if (ceiling_check("max_memory_bytes", l.max_memory_bytes, c->max_memory_bytes, e) == -1 ||
		ceiling_check("max_file_size_bytes", l.max_file_size_bytes, c->max_file_size_bytes, e) == -1 ||
		ceiling_check("max_stack_bytes", l.max_stack_bytes,
			c->max_memory_bytes > DEFAULT_MAX_STACK_BYTES || c->max_memory_bytes == 0 ?
				c->max_memory_bytes : DEFAULT_MAX_STACK_BYTES, e) == -1 ||
		ceiling_check("max_processes", l.max_processes, c->max_processes, e) == -1 ||
		ceiling_check("max_open_files", l.max_open_files, c->max_open_files, e) == -1 ||
		ceiling_check("max_cpu_percentage", l.max_cpu_percentage, LIMIT_MAX_CPU_PERCENTAGE, e) == -1)
		return -1;
	*ret = l;
	return 0;
}

int validate_job(const struct spawner_message *m, int source_fd, const struct config *c, uint32_t *ret_timeout_ms,
	uint64_t *ret_memory_bytes, struct err *e)
{
	uint64_t timeout_ms = m->timeout_ms ? m->timeout_ms : c->compile_timeout_ms;
	uint64_t memory = m->limits.max_memory_bytes ? m->limits.max_memory_bytes : c->compile_memory_bytes;

	if (!name_is_source_file(m->name, strlen(m->name)) || m->name[0] == '-')
		return REFUSE(e, EINVAL, "the name of a source file is an id that ends in .c");
	if (memfd_check(source_fd, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW, 0, LIMIT_SOURCE_BYTES, "source", e) == -1 ||
		ceiling_check("timeout_ms", timeout_ms, c->compile_timeout_ms, e) == -1 ||
		ceiling_check("max_memory_bytes", memory, c->compile_memory_bytes, e) == -1)
		return -1;
	*ret_timeout_ms = (uint32_t)timeout_ms;
	*ret_memory_bytes = memory;
	return 0;
}

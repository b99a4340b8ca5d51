/* SPDX-License-Identifier: MIT
 *
 * What control may ask of the spawner: a message of any bytes, or a proper one with some fields from the input, and
 * descriptors of every sort. What is accepted is within the administrator's ceilings. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/spawner/validate.h"
#include "proto/fd.h"
#include "proto/names.h"

static struct config config;
static int sorts[6]; /* descriptors that messages may bring */

static void prepare(void)
{
	static const char zeros[LIMIT_LOG_RING_BYTES + 1];

	config_defaults(&config, 0);
	config.max_memory_bytes = 1u << 30;
	config.max_processes = 50;
	config.max_open_files = 100;
	config.max_file_size_bytes = 1u << 20;
	sorts[0] = fd_memfd("sealed", "{}", 2, true);
	sorts[1] = fd_memfd("open", "{}", 2, false);
	sorts[2] = fd_memfd("ring", zeros, LIMIT_LOG_RING_BYTES, false);
	FUZZ_MUST(fcntl(sorts[2], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	sorts[3] = fd_memfd("large", zeros, LIMIT_LOG_RING_BYTES + 1, true);
	sorts[4] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sorts[5] = fd_memfd("empty", NULL, 0, true);
}

static void proper(struct spawner_message *m, struct fuzz_in *in)
{
	static const char *const names[] = { "a", "counter", "x.c", "../x", "", "a/b", "0123456789012345678901234567890123456789012345678901234567890123" };

	*m = (struct spawner_message){ .version = SPAWNER_WIRE_VERSION, .op = (uint16_t)(fuzz_u8(in) % (SPAWNER_REQUEST__N + 1)) };
	m->kind = fuzz_u8(in) % 5;
	m->tag = fuzz_u8(in) % 4;
	m->generation = fuzz_u8(in) % 3;
	(void)snprintf(m->sandbox, sizeof m->sandbox, "%s", names[fuzz_u8(in) % 7]);
	(void)snprintf(m->name, sizeof m->name, "%s", names[fuzz_u8(in) % 7]);
	m->timeout_ms = fuzz_u8(in) < 128 ? fuzz_u16(in) : fuzz_u32(in);
	m->limits.max_memory_bytes = fuzz_u8(in) < 128 ? (uint64_t)fuzz_u16(in) << 14 : fuzz_u64(in);
	m->limits.max_file_size_bytes = fuzz_u8(in) < 128 ? fuzz_u16(in) : fuzz_u64(in);
	m->limits.max_stack_bytes = fuzz_u8(in) < 128 ? (uint64_t)fuzz_u16(in) << 8 : fuzz_u64(in);
	m->limits.max_processes = fuzz_u8(in) < 250 ? fuzz_u8(in) : fuzz_u32(in);
	m->limits.max_open_files = fuzz_u8(in) < 250 ? fuzz_u8(in) : fuzz_u32(in);
	if (in->left > 4) /* one field of any bytes */
		fuzz_take(in, (char *)m + fuzz_u16(in) % (sizeof *m - 8), 8);
}

static void ask(const struct spawner_message *m, size_t n_fds, int fd)
{
	struct host_limits limits;
	uint64_t memory = 0;
	uint32_t timeout = 0;
	struct err e = ERR_INIT;

	FUZZ_MUST(validate_op_name(m->op) != NULL);
	(void)validate_op_replies(m->op);
	if (validate_request(m, n_fds, &e) != 0) {
		fuzz_refused(&e);
		FUZZ_MUST(e.sys_errno != 0);
		return;
	}
	if (m->op == SPAWNER_HOLD || m->op == SPAWNER_KEEP || m->op == SPAWNER_FORGET || m->op == SPAWNER_START || m->op == SPAWNER_SIGNAL ||
		m->op == SPAWNER_ACK_EXIT)
		FUZZ_MUST(name_is_id(m->sandbox, strlen(m->sandbox)));
	if (validate_keep(m->kind, fd, &e) != 0)
		fuzz_refused(&e);
	else
		FUZZ_MUST(m->kind >= SPAWNER_KEEP_SPEC && m->kind <= SPAWNER_KEEP_MIRROR && fd != sorts[1] && fd != sorts[4]);
	if (validate_limits(&m->limits, &config, &limits, &e) != 0)
		fuzz_refused(&e);
	else
		FUZZ_MUST(limits.max_memory_bytes <= config.max_memory_bytes && limits.max_processes <= config.max_processes &&
			limits.max_open_files <= config.max_open_files && limits.max_file_size_bytes <= config.max_file_size_bytes &&
			limits.max_memory_bytes > 0 && limits.max_stack_bytes > 0 && limits.max_open_files > 0);
	if (m->op == SPAWNER_JOB && validate_job(m, fd, &config, &timeout, &memory, &e) == 0)
		FUZZ_MUST(timeout > 0 && timeout <= config.compile_timeout_ms && memory > 0 && memory <= config.compile_memory_bytes &&
			name_is_source_file(m->name, strlen(m->name)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	uint8_t how = fuzz_u8(&in);
	struct spawner_message m;
	struct err e = ERR_INIT;
	size_t n;

	if (config.socket_path[0] == '\0')
		prepare();
	if (how & 0x80) {
		n = in.left;
		fuzz_take(&in, &m, sizeof m);
	} else {
		n = sizeof m;
		proper(&m, &in);
	}
	if (validate_frame(&m, n, &e) != 0)
		fuzz_refused(&e);
	else
		ask(&m, how / 8 % 3, sorts[how % 8 % 6]);
	return 0;
}

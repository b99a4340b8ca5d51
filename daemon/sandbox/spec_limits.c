/* SPDX-License-Identifier: MIT
 *
 * The members of `limits` in requests, in the order of enum spec_limit: a table, with what each may be. */
#include <string.h>

#include "daemon/sandbox/sandbox.h"
#include "proto/names.h"

static const struct limit_row {
	const char *name;
	size_t offset;
	bool wide;       /* uint64_t, else uint32_t */
	int64_t min;
	uint64_t usual;
} limit_rows[SPEC_LIMIT__N] = {
	[SPEC_LIMIT_MEMORY] = { "max_memory", offsetof(struct host_limits, max_memory_bytes), true, 1 << 20, DEFAULT_MAX_MEMORY_BYTES },
	[SPEC_LIMIT_FILE_SIZE] = { "max_file_size", offsetof(struct host_limits, max_file_size_bytes), true, 1 << 10, DEFAULT_MAX_FILE_SIZE_BYTES },
	[SPEC_LIMIT_PROCESSES] = { "max_processes", offsetof(struct host_limits, max_processes), false, 1, DEFAULT_MAX_PROCESSES },
	[SPEC_LIMIT_OPEN_FILES] = { "max_open_files", offsetof(struct host_limits, max_open_files), false, 16, DEFAULT_MAX_OPEN_FILES },
	[SPEC_LIMIT_CPU] = { "max_cpu_percentage", offsetof(struct host_limits, max_cpu_percentage), false, 1, DEFAULT_MAX_CPU_PERCENTAGE },
};
#define N_LIMIT_ROWS ((size_t)SPEC_LIMIT__N)

const char *spec_limit_name(enum spec_limit which)
{
	return limit_rows[which].name;
}

uint64_t spec_limit(const struct host_limits *l, enum spec_limit which)
{
	const char *at = (const char *)l + limit_rows[which].offset;
	uint64_t n = limit_rows[which].wide ? *(const uint64_t *)(const void *)at : *(const uint32_t *)(const void *)at;

	return n ? n : limit_rows[which].usual;
}

static uint64_t limit_ceiling(const struct control_begin *b, size_t row)
{
	const uint64_t ceilings[N_LIMIT_ROWS] = { b->max_memory_bytes, b->max_file_size_bytes, b->max_processes, b->max_open_files, LIMIT_MAX_CPU_PERCENTAGE };

	return ceilings[row];
}

int spec_limits_read(struct host_limits *l, const struct control_begin *b, struct json_span object, struct err *e)
{
	struct json_span key, value;
	struct json_iter it;
	const char *names[N_LIMIT_ROWS];

	for (size_t i = 0; i < N_LIMIT_ROWS; i++)
		names[i] = limit_rows[i].name;
	for (it = json_iter_begin(object); json_iter_next(&it, &key, &value);) {
		char name[64] = "", text[80];
		size_t i = 0;
		int64_t n = 0;
		int near;

		(void)json_string(key, name, sizeof name);
		while (i < N_LIMIT_ROWS && strcmp(name, names[i]) != 0)
			i++;
		if (i == N_LIMIT_ROWS) {
			near = name_nearest(name, names, N_LIMIT_ROWS);
			text_clean(text, sizeof text, name, strlen(name));
			err_set(e, ERR_UNKNOWN_PARAM, "limits has no member '%s'", text);
			if (e && near >= 0)
				(void)snprintf(e->nearest, sizeof e->nearest, "%s", names[near]);
			return err_about(e, text, -1);
		}
		if (!json_i64(value, &n) || n < limit_rows[i].min || (!limit_rows[i].wide && n > INT32_MAX)) {
			err_set(e, ERR_BAD_PARAM, "limits.%s must be an integer of at least %lld", name, (long long)limit_rows[i].min);
			return err_about(e, name, -1);
		}
		if (limit_ceiling(b, i) > 0 && (uint64_t)n > limit_ceiling(b, i)) {
			err_set(e, ERR_DENIED, "limits.%s is %lld, above the administrator's ceiling of %llu", name, (long long)n,
				(unsigned long long)limit_ceiling(b, i));
			return err_about(e, name, -1);
		}
		if (limit_rows[i].wide)
			*(uint64_t *)(void *)((char *)l + limit_rows[i].offset) = (uint64_t)n;
		else
			*(uint32_t *)(void *)((char *)l + limit_rows[i].offset) = (uint32_t)n;
	}
	return 0;
}

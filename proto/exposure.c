/* SPDX-License-Identifier: MIT */
#include "proto/exposure.h"

#include <string.h>

static const uint8_t weights[PROTECTION__N] = {
	[PROTECTION_OWN_UID] = 8,
	[PROTECTION_GROUPS] = 4,
	[PROTECTION_CAPABILITIES] = 10,
	[PROTECTION_NO_NEW_PRIVILEGES] = 6,
	[PROTECTION_NOT_DUMPABLE] = 3,
	[PROTECTION_OWN_SESSION] = 2,
	[PROTECTION_PARENT_DEATH] = 1,
	[PROTECTION_LIMIT_CORE] = 1,
	[PROTECTION_LIMIT_MEMORY] = 4,
	[PROTECTION_LIMIT_FILE_SIZE] = 2,
	[PROTECTION_LIMIT_STACK] = 1,
	[PROTECTION_LIMIT_OPEN_FILES] = 2,
	[PROTECTION_LIMIT_PROCESSES] = 4,
	[PROTECTION_USER_NAMESPACE] = 0, /* what it gives is in the other rows */
	[PROTECTION_PID_NAMESPACE] = 5,
	[PROTECTION_MOUNT_NAMESPACE] = 3,
	[PROTECTION_IPC_NAMESPACE] = 2,
	[PROTECTION_UTS_NAMESPACE] = 1,
	[PROTECTION_CGROUP_NAMESPACE] = 1,
	[PROTECTION_NETWORK] = 8,
	[PROTECTION_OWN_ROOT] = 6,
	[PROTECTION_SCRATCH] = 1,
	[PROTECTION_FILES] = 6,
	[PROTECTION_SYSTEM_CALLS] = 10,
	[PROTECTION_NEW_CODE] = 5,
	[PROTECTION_TREE_MEMORY] = 4,
	[PROTECTION_TREE_PROCESSES] = 3,
	[PROTECTION_TREE_CPU] = 2,
	[PROTECTION_TREE_END] = 3,
};

unsigned exposure_weight(enum protection p)
{
	return p < PROTECTION__N ? weights[p] : 0;
}

double exposure_of(uint64_t standing)
{
	unsigned all = 0, open = 0;

	for (int p = 0; p < PROTECTION__N; p++) {
		all += weights[p];
		if (!(standing & PROTECTION_BIT(p)))
			open += weights[p];
	}
	return 10.0 * open / all;
}

const char *exposure_rating(double exposure)
{
	return exposure < 2 ? "good" : exposure < 5 ? "medium" : exposure < 8 ? "exposed" : "unsafe";
}

enum protection exposure_row(struct json_span row)
{
	struct json_span name = json_get(row, "protection");

	for (int p = 0; p < PROTECTION__N; p++)
		if (json_string_is(name, protection_name((enum protection)p)))
			return (enum protection)p;
	return PROTECTION__N;
}

bool exposure_stands(struct json_span row)
{
	struct json_span got = json_type(row) == '{' ? json_get(row, "got") : (struct json_span){ 0 };

	return json_type(got) == '"' && !json_string_is(got, "none") && !json_string_is(got, "");
}

uint64_t exposure_standing(struct json_span report)
{
	struct json_span key, row;
	uint64_t standing = 0;

	if (json_type(report) != '[')
		return 0;
	for (struct json_iter it = json_iter_begin(report); json_iter_next(&it, &key, &row);) {
		enum protection p = json_type(row) == '{' ? exposure_row(row) : PROTECTION__N;

		if (p != PROTECTION__N && exposure_stands(row))
			standing |= PROTECTION_BIT(p);
	}
	return standing;
}

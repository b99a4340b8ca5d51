/* SPDX-License-Identifier: MIT
 *
 * A kept spec as a new control reads it: a good one, and each way of being none, which is refused with a code and a reason. */
#include "tests/support/check_main.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/sandbox/shared_text.h"
#include "daemon/sandbox/sandbox.h"

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HEAD "\"format\":1,\"id\":\"a\",\"owner\":7,\"created_at\":1,\"serial\":3,\"last_serial\":4,\"state_bytes\":0"
#define POLICY                                                                                                          \
	",\"restart\":\"transient\",\"intensity\":5,\"period_ms\":60000,\"start_timeout_ms\":10000,\"shutdown_ms\":5000," \
	"\"max_queue\":1024,\"profile\":\"medium\",\"strict\":false,\"limits\":{\"max_memory\":0,\"max_file_size\":0,"   \
	"\"max_processes\":0,\"max_open_files\":0}"
#define VERSIONS                                                                                                          \
	",\"versions\":{\"last_number\":1,\"current\":1,\"previous\":0,\"items\":[{\"version\":1,\"sha256\":\"" SHA "\"," \
	"\"bytes\":5,\"state_version\":1,\"loaded_at\":5,\"loads\":1,\"author\":0,\"origin\":\"object\"}]}"
#define TAIL ",\"config\":{\"k\":1},\"labels\":{}"

static struct control control;
static struct sandbox sb;
static struct err e;

static int load(const char *json)
{
	size_t size = strlen(json);
	char *copy = malloc(size + 1); /* exactly as large: a read beyond it is seen */
	int rc;

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, json, size);
	e = (struct err)ERR_INIT;
	memset(&sb, 0, sizeof sb);
	sb.control = &control;
	rc = spec_load(&sb, copy, size, &e);
	free(copy);
	return rc;
}

static void unload(void)
{
	spec_fini(&sb.spec);
	sb.module = shared_text_free(sb.module);
	sb.security = shared_text_free(sb.security);
}

START_TEST(a_good_one_is_read)
{
	ck_assert_msg(load("{" HEAD POLICY VERSIONS TAIL "}") == 0, "%s", e.text);
	ck_assert_str_eq(sb.spec.id, "a");
	ck_assert_uint_eq(sb.spec.owner, 7);
	ck_assert_int_eq(sb.spec.policy.restart, LIFE_TRANSIENT);
	ck_assert_str_eq(sb.spec.config, "{\"k\":1}");
	ck_assert_uint_eq(sb.last_serial, 4);
	ck_assert_uint_eq(sb.versions.current, 1);
	unload();
}
END_TEST

/* What an earlier version didn't write, or nobody can have written, is as it was created. */
START_TEST(when_it_was_changed_and_what_was_counted)
{
	static const struct {
		const char *members;
		int64_t updated_at;
		uint32_t asked;
	} rows[] = { { "", 1, 0 }, { ",\"updated_at\":77,\"updated_wanted\":true,\"asked_restarts\":9", 77, 9 }, { ",\"updated_at\":0", 1, 0 },
		{ ",\"updated_at\":-5,\"asked_restarts\":-1", 1, 0 }, { ",\"updated_at\":{},\"updated_wanted\":[],\"asked_restarts\":\"x\"", 1, 0 } };

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char text[4096];

		(void)snprintf(text, sizeof text, "{" HEAD POLICY VERSIONS TAIL "%s}", rows[i].members);
		ck_assert_msg(load(text) == 0, "row %zu: %s", i, e.text);
		ck_assert_int_eq(sb.updated.at_ms, rows[i].updated_at);
		ck_assert_uint_eq(sb.asked_restarts, rows[i].asked);
		ck_assert_uint_eq(sandbox_restarts(&sb), sb.life.restarts + rows[i].asked);
		unload();
	}
}
END_TEST

/* The level is the sandbox's own, its profile's, or, of a profile that isn't there, the most. */
START_TEST(audit_levels)
{
	static const struct {
		const char *profile, *members;
		enum policy_audit level;
		bool known;
	} rows[] = { { "medium", "", POLICY_AUDIT_BASIC, true }, { "high", "", POLICY_AUDIT_FULL, true }, { "gone", "", POLICY_AUDIT_FULL, false },
		{ "high", ",\"audit_level\":\"none\"", POLICY_AUDIT_NONE, true }, { "gone", ",\"audit_level\":\"basic\"", POLICY_AUDIT_BASIC, false },
		{ "medium", ",\"audit_level\":\"all\"", POLICY_AUDIT_BASIC, true }, { "medium", ",\"audit_level\":2", POLICY_AUDIT_BASIC, true },
		{ "medium", ",\"audit_level\":\"a very long word that is no level\"", POLICY_AUDIT_BASIC, true } };

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char text[4096];

		(void)snprintf(text, sizeof text, "{" HEAD POLICY VERSIONS TAIL "%s}", rows[i].members);
		ck_assert_msg(load(text) == 0, "row %zu: %s", i, e.text);
		(void)snprintf(sb.spec.profile, sizeof sb.spec.profile, "%s", rows[i].profile);
		ck_assert_msg(spec_audit(&sb.spec) == rows[i].level, "row %zu", i);
		ck_assert_int_eq(spec_check_profile(&sb.spec, &e), rows[i].known ? 0 : -1);
		ck_assert_int_eq(spec_check_object(&sb.spec, LIMIT_OBJECT_BYTES, &e), 0);
		unload();
	}
}
END_TEST

START_TEST(what_is_none_is_refused_with_a_reason)
{
	static const char *const rows[] = {
		"", "[]", "1", "null", "{}", "{\"format\":2}", "{\"format\":1}", "{" HEAD "}", "{" HEAD POLICY "}", "{" HEAD POLICY VERSIONS "}",
		"{" HEAD POLICY VERSIONS ",\"config\":{}}", "{" HEAD POLICY VERSIONS ",\"config\":5,\"labels\":{}}",
		"{" HEAD POLICY VERSIONS ",\"config\":{},\"labels\":[]}", "{" HEAD POLICY VERSIONS TAIL ",\"candidate\":{}}",
		"{" HEAD POLICY VERSIONS TAIL "",
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		ck_assert_msg(load(rows[i]) == -1, "row %zu: %s", i, rows[i]);
		ck_assert_msg(e.code != ERR_OK && e.text[0], "row %zu gives no reason", i);
		unload();
	}
}
END_TEST

#define SHB "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OLDER(text) "{" HEAD POLICY VERSIONS ",\"older_states\":" text TAIL "}"
#define A    "{\"sha256\":\"" SHA "\",\"bytes\":7,\"bad\":false}"
#define B    "{\"sha256\":\"" SHB "\",\"bytes\":8,\"bad\":true}"

/* Of the two names the first that isn't the row's state is meant. What can't be read is no state, and costs the spec nothing. */
START_TEST(older_states)
{
	static const struct {
		const char *json, *row, *older;
		uint64_t bytes;
		bool is_bad;
	} rows[] = {
		{ OLDER("[]"), SHA, "", 0, false },
		{ OLDER("[" A "]"), "", SHA, 7, false },
		{ OLDER("[" A "]"), SHB, SHA, 7, false },
		{ OLDER("[" A "]"), SHA, "", 0, false },
		{ OLDER("[" A "," B "]"), SHA, SHB, 8, true },
		{ OLDER("[" A "," B "]"), SHB, SHA, 7, false },
		{ OLDER("[" B "," A "," A "]"), "", SHB, 8, true },
		{ OLDER("[" A "," A "]"), SHA, "", 0, false },
		{ OLDER("[7," A "]"), "", "", 0, false },
		{ OLDER("[" A ",{}]"), "", SHA, 7, false },
		{ OLDER("{\"a\":" A "}"), "", "", 0, false },
		{ OLDER("[{\"sha256\":\"../x\",\"bytes\":7,\"bad\":false}]"), "", "", 0, false },
		{ OLDER("[{\"sha256\":\"" SHA "0\",\"bytes\":7,\"bad\":false}]"), "", "", 0, false },
		{ OLDER("[{\"sha256\":\"" SHA "\",\"bytes\":-1,\"bad\":false}]"), "", "", 0, false },
		{ OLDER("[{\"sha256\":\"" SHA "\",\"bytes\":7}]"), "", "", 0, false },
		{ OLDER("[{\"sha256\":\"" SHA "\",\"bytes\":7,\"bad\":0}]"), "", "", 0, false },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		ck_assert_msg(load(rows[i].json) == 0, "row %zu: %s", i, e.text);
		sb.spec.persist = false; /* nothing is counted here */
		(void)snprintf(sb.disk.state_sha256, sizeof sb.disk.state_sha256, "%s", rows[i].row);
		durable_states_found(&sb);
		ck_assert_msg(strcmp(sb.disk.older.sha256, rows[i].older) == 0, "row %zu: %s", i, sb.disk.older.sha256);
		ck_assert_msg(sb.disk.older.bytes == rows[i].bytes && sb.disk.older.is_bad == rows[i].is_bad, "row %zu", i);
		ck_assert_str_eq(sb.disk.elder.sha256, "");
		unload();
	}
}
END_TEST

CHECK_MAIN("spec", tcase_add_test(tc, audit_levels); tcase_add_test(tc, older_states); tcase_add_test(tc, a_good_one_is_read); tcase_add_test(tc, when_it_was_changed_and_what_was_counted);
	tcase_add_test(tc, what_is_none_is_refused_with_a_reason);)

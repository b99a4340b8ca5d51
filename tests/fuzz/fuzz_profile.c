/* SPDX-License-Identifier: MIT
 *
 * A profile's text. The first byte says how long the name in front of the text is, and whether somebody looks at paths: then those with
 * an odd length are refused. */
#include "tests/fuzz/fuzz.h"

#include "proto/profile_file.h"

static int look(void *ctx, const char *path, struct err *e)
{
	(void)ctx;
	FUZZ_MUST(path[0] == '/' && strlen(path) <= LIMIT_PATH_BYTES);
	return strlen(path) % 2 ? err_set(e, ERR_BAD_PARAM, "has an odd length") : 0;
}

static void check(const struct policy *p)
{
	char fingerprint[POLICY_FINGERPRINT_BYTES + 1];
	struct err e = ERR_INIT;
	bool writes = false;
	size_t n = 0;

	FUZZ_MUST(policy_check(p, &e) == 0);
	FUZZ_MUST((p->operations & OPERATIONS_NEEDED) == OPERATIONS_NEEDED);
	FUZZ_MUST((p->operations & ~profile_builtin(PROFILE_LOW)->operations) == 0); /* never weaker */
	FUZZ_MUST(p->base == PROFILE_LOW || p->namespaces != 0);
	while (policy_path(p, n, &writes))
		FUZZ_MUST(strlen(policy_path(p, n++, &writes)) <= LIMIT_PATH_BYTES);
	FUZZ_MUST(n <= 2 * LIMIT_PROFILE_PATHS);
	policy_fingerprint(p, fingerprint);
	FUZZ_MUST(strlen(fingerprint) == POLICY_FINGERPRINT_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct profile_paths looks = { look, NULL };
	struct fuzz_in in = { data, size };
	uint8_t how = fuzz_u8(&in);
	size_t name_size = how / 4 < in.left ? how / 4u : in.left;
	char name[65] = "";
	struct policy p = { 0 }, again = { 0 };
	struct err e = ERR_INIT;
	int64_t lines = 1;
	char *text;

	if (name_size > 0)
		memcpy(name, in.at, name_size);
	text = fuzz_exact(in.at + name_size, in.left - name_size);
	for (size_t i = 0; i < in.left - name_size; i++)
		lines += text[i] == '\n';
	if (profile_parse(&p, name, text, in.left - name_size, "f", how & 1 ? &looks : NULL, &e) != 0) {
		fuzz_refused(&e);
		FUZZ_MUST(e.offset >= -1 && e.offset <= lines);
		FUZZ_MUST(p.name[0] == '\0');
	} else {
		FUZZ_MUST(strcmp(p.name, name) == 0);
		check(&p);
		FUZZ_MUST(profile_parse(&again, name, text, in.left - name_size, "f", how & 1 ? &looks : NULL, &e) == 0);
		FUZZ_MUST(again.operations == p.operations && again.landlock_net == p.landlock_net && memcmp(again.paths, p.paths, sizeof p.paths) == 0);
	}
	free(text);
	return 0;
}

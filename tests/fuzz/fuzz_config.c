/* SPDX-License-Identifier: MIT
 *
 * The administrator's configuration. The first byte says whether names of users and groups are looked up, and whether in good
 * texts or in the input's own. */
#include "tests/fuzz/fuzz.h"

#include "proto/config.h"

static const char users[] = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\nbad:x:nine:1::/:/\n";
static const char groups[] = "root:x:0:\nwheel:x:27:ada,root\nbad:x:-1:\n";

static int parse(struct config *c, uint8_t how, const char *text, size_t size, struct err *e)
{
	struct config_names names = { users, groups, sizeof users - 1, sizeof groups - 1 };

	config_defaults(c, how & 4 ? 1000 : 0);
	if (how % 4 == 0)
		return config_parse(c, text, size, "f", e);
	if (how % 4 == 2)
		names = (struct config_names){ text, text, size, size };
	return config_parse_named(c, text, size, "f", &names, e);
}

static bool same_ids(const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b)
{
	return n_a == n_b && memcmp(a, b, n_a * sizeof *a) == 0;
}

static bool same(const struct config *a, const struct config *b)
{
	return strcmp(a->socket_path, b->socket_path) == 0 && strcmp(a->state_dir, b->state_dir) == 0 &&
		strcmp(a->runtime_dir, b->runtime_dir) == 0 && a->socket_mode == b->socket_mode && a->socket_group == b->socket_group &&
		same_ids(a->administrators, a->n_administrators, b->administrators, b->n_administrators) &&
		same_ids(a->operators, a->n_operators, b->operators, b->n_operators) &&
		same_ids(a->administrator_groups, a->n_administrator_groups, b->administrator_groups, b->n_administrator_groups) &&
		same_ids(a->operator_groups, a->n_operator_groups, b->operator_groups, b->n_operator_groups) &&
		a->everyone_operates == b->everyone_operates && a->uid_first == b->uid_first && a->uid_count == b->uid_count &&
		a->max_sandboxes == b->max_sandboxes && a->max_memory_bytes == b->max_memory_bytes &&
		a->max_processes == b->max_processes && a->max_open_files == b->max_open_files &&
		a->max_file_size_bytes == b->max_file_size_bytes && a->max_jobs == b->max_jobs &&
		a->max_sandboxes_per_owner == b->max_sandboxes_per_owner && a->max_memory_per_owner == b->max_memory_per_owner &&
		a->max_store_bytes_per_owner == b->max_store_bytes_per_owner && a->max_jobs_per_owner == b->max_jobs_per_owner && a->spare_hosts == b->spare_hosts &&
		a->compile_memory_bytes == b->compile_memory_bytes && a->compile_timeout_ms == b->compile_timeout_ms;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	uint8_t how = fuzz_u8(&in);
	char *text = fuzz_exact(in.at, in.left);
	struct config c, again;
	struct err e = ERR_INIT;
	int64_t lines = 1;

	for (size_t i = 0; i < in.left; i++)
		lines += text[i] == '\n';
	if (parse(&c, how, text, in.left, &e) != 0) {
		fuzz_refused(&e);
		FUZZ_MUST(e.offset >= -1 && e.offset <= lines);
	} else {
		FUZZ_MUST(c.n_administrators <= CONFIG_MAX_USERS && c.n_operators <= CONFIG_MAX_USERS);
		FUZZ_MUST(c.n_administrator_groups <= CONFIG_MAX_USERS && c.n_operator_groups <= CONFIG_MAX_USERS);
		FUZZ_MUST(strnlen(c.socket_path, sizeof c.socket_path) < sizeof c.socket_path);
		FUZZ_MUST(strnlen(c.state_dir, sizeof c.state_dir) < sizeof c.state_dir);
		FUZZ_MUST(strnlen(c.runtime_dir, sizeof c.runtime_dir) < sizeof c.runtime_dir);
		FUZZ_MUST(parse(&again, how, text, in.left, &e) == 0 && same(&c, &again));
		if (config_check(&c, &e) != 0)
			fuzz_refused(&e);
		else
			FUZZ_MUST(c.state_dir[0] == '/' && c.runtime_dir[0] == '/');
	}
	free(text);
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * A kept spec of any bytes, read by a new control; what is accepted is adopted, and kept again as a spec that reads the same. */
#include "tests/fuzz/fuzz.h"

#include <unistd.h>

#include "daemon/sandbox/shared_text.h"
#include "daemon/sandbox/sandbox.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/names.h"

static struct control control;

static void begin(struct sandbox *sb)
{
	memset(sb, 0, sizeof *sb);
	sb->control = &control;
	sb->state_fd = -1;
	life_init(&sb->life);
}

static void end(struct sandbox *sb)
{
	spec_fini(&sb->spec);
	sb->module = shared_text_free(sb->module);
	sb->security = shared_text_free(sb->security);
}

/* Writes it as a spec; NULL: it has become too large. */
static char *keep(const struct sandbox *sb, size_t *ret_size)
{
	struct err e = ERR_INIT;
	int fd = spec_memfd(sb, sb->has_candidate, &e);
	char *text;

	if (fd < 0) {
		fuzz_refused(&e);
		FUZZ_MUST(e.code == ERR_LIMIT_EXCEEDED);
		return NULL;
	}
	text = fd_read_all(fd, LIMIT_SPEC_BYTES, ret_size, &e);
	fd_close(&fd);
	FUZZ_MUST(text != NULL);
	fuzz_is_json(text, *ret_size);
	return text;
}

static void adopt(struct sandbox *sb)
{
	struct life_finding found = { .found = LIFE_FOUND_NONE, .started_ms = 5 };
	struct life_actions out;

	life_adopt(&sb->life, &sb->spec.policy, &found, 1000000, &out);
	FUZZ_MUST((unsigned)sb->life.state < LIFE__N);
}

static void keep_again(const struct sandbox *sb)
{
	static struct sandbox again;
	size_t size = 0, again_size = 0;
	char *text = keep(sb, &size), *again_text;
	struct err e = ERR_INIT;

	if (!text)
		return;
	begin(&again);
	FUZZ_MUST(spec_load(&again, text, size, &e) == 0);
	again_text = keep(&again, &again_size);
	FUZZ_MUST(again_text != NULL && size == again_size && memcmp(text, again_text, size) == 0);
	free(text);
	free(again_text);
	end(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sandbox sb;
	char *text = fuzz_exact(data, size);
	struct err e = ERR_INIT;

	begin(&sb);
	if (spec_load(&sb, text, size, &e) != 0) {
		fuzz_refused(&e);
	} else {
		FUZZ_MUST(name_is_id(sb.spec.id, strlen(sb.spec.id)));
		FUZZ_MUST(json_type((struct json_span){ sb.spec.config, strlen(sb.spec.config) }) == '{');
		FUZZ_MUST(json_type((struct json_span){ sb.spec.labels, strlen(sb.spec.labels) }) == '{');
		FUZZ_MUST((unsigned)sb.spec.policy.restart < LIFE_RESTART__N && sb.spec.policy.budget.period_ms > 0);
		adopt(&sb);
		keep_again(&sb);
	}
	end(&sb);
	free(text);
	return 0;
}

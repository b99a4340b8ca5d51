/* SPDX-License-Identifier: MIT
 *
 * Numbers of events: what is read is what would be written; and a page of events behind any text. */
#include "tests/fuzz/fuzz.h"

#include "daemon/observe/events.h"

static unsigned n_done;

static void done(struct events_read *rd)
{
	(void)rd;
	n_done++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct events *ev;
	static struct events_read rd;
	char *text = fuzz_text(data, size), written[SEQ_ROOM];
	struct buf page = BUF_INIT;
	struct json_out o = json_out_to(&page);
	struct err e = ERR_INIT;
	struct seq s = { 0 };
	bool is_one = seq_read(text, &s);

	if (!ev) {
		ev = events_new(10);
		for (int i = 0; i < 20; i++)
			events_add(ev, "sandbox.started", i % 2 ? "a" : NULL, 0, "why", "x");
	}
	if (is_one) {
		seq_write(written, s);
		FUZZ_MUST(strcmp(written, text) == 0);
	}
	n_done = 0;
	rd = (struct events_read){ .limit = 5, .done = done };
	if (events_read_begin(ev, &rd, text, &e) != 0) {
		fuzz_refused(&e);
		FUZZ_MUST(!is_one && n_done == 0);
	} else {
		FUZZ_MUST(is_one && n_done == 1);
		json_out_object(&o, NULL);
		events_read_json(&rd, &o);
		json_out_object_end(&o);
		FUZZ_MUST(!page.failed);
		fuzz_is_json(page.data, page.size);
	}
	buf_fini(&rd.items);
	buf_fini(&page);
	free(text);
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * Collects what became of each field; entries stand in the order in which they were found. */
#include "daemon/host/state/report.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "proto/err.h"

static const char *const words[] = {
	[STATE_CARRIED] = "carried", [STATE_ADDED] = "added", [STATE_DROPPED] = "dropped", [STATE_RENAMED] = "renamed",
	[STATE_WIDENED] = "widened", [STATE_NARROWED] = "narrowed", [STATE_CONVERTED] = "converted", [STATE_LOSSY] = "lossy",
};
_Static_assert(sizeof words / sizeof words[0] == STATE_WORD__N, "each word has its text");

const char *state_word_text(enum state_word word)
{
	return words[word];
}

/* Entries are filled when they are added: most of them are never touched. */
void state_report_clear(struct state_report *r)
{
	memset(r, 0, offsetof(struct state_report, entries));
}

void state_report_add(struct state_report *r, enum state_word word, const char *path, const char *from, const char *to)
{
	size_t n = strlen(path);

	if (r == NULL)
		return;
	r->counts[word]++;
	if (r->n_entries == STATE_REPORT_ENTRIES) {
		r->n_left_out++;
		return;
	}
	if (n >= STATE_REPORT_PATH)
		path += n - (STATE_REPORT_PATH - 1);
	r->entries[r->n_entries].word = word;
	text_clean(r->entries[r->n_entries].path, STATE_REPORT_PATH, path, strlen(path));
	r->entries[r->n_entries].from[0] = r->entries[r->n_entries].to[0] = '\0';
	if (from != NULL)
		text_clean(r->entries[r->n_entries].from, sizeof r->entries[0].from, from, strlen(from));
	if (to != NULL)
		text_clean(r->entries[r->n_entries].to, sizeof r->entries[0].to, to, strlen(to));
	r->n_entries++;
}

static void out_word(const struct state_report *r, enum state_word word, struct json_out *o)
{
	bool pairs = word != STATE_CARRIED && word != STATE_ADDED && word != STATE_DROPPED;

	json_out_array(o, words[word]);
	for (uint32_t i = 0; i < r->n_entries; i++) {
		if (r->entries[i].word != word)
			continue;
		if (!pairs) {
			json_out_text(o, NULL, r->entries[i].path);
			continue;
		}
		json_out_object(o, NULL);
		json_out_text(o, "field", r->entries[i].path);
		json_out_text(o, "from", r->entries[i].from);
		json_out_text(o, "to", r->entries[i].to);
		json_out_object_end(o);
	}
	json_out_array_end(o);
}

void state_report_json(const struct state_report *r, struct json_out *o, const char *key)
{
	json_out_object(o, key);
	json_out_u64(o, "from_version", r->from_version);
	json_out_u64(o, "to_version", r->to_version);
	for (enum state_word word = 0; word < STATE_WORD__N; word++)
		if (r->counts[word] > 0)
			out_word(r, word, o);
	if (r->n_left_out > 0)
		json_out_u64(o, "left_out", r->n_left_out);
	json_out_object_end(o);
}

/* SPDX-License-Identifier: MIT
 *
 * sandbox.list: pages of rows, and what they are filtered by. A page ends at its rows, at its bytes, or at the work of its filters; `next`
 * is always the last sandbox that was looked at and that the caller may see, whether it had a row or not. */
#include <string.h>

#include "daemon/control/handlers.h"
#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/sandbox.h"
#include "proto/names.h"

struct list_filter {
	const char *status, *group, *profile, *name; /* NULL: any */
	char label[LIMIT_ID_BYTES + 1];              /* "": any */
	const char *label_text;                      /* NULL: any */
};

static int label_from_request(struct list_filter *f, const char *text, struct err *e)
{
	const char *equals = strchr(text, '=');
	size_t size = equals ? (size_t)(equals - text) : strlen(text);

	if (!name_is_id(text, size)) {
		err_set(e, ERR_BAD_PARAM, "label must be the name of a label, or name=text; names of labels are like ids");
		return err_about(e, "label", -1);
	}
	memcpy(f->label, text, size);
	f->label[size] = '\0';
	f->label_text = equals ? equals + 1 : NULL;
	return 0;
}

static int filter_from_request(struct list_filter *f, const struct rpc_request *r, struct err *e)
{
	*f = (struct list_filter){ .status = rpc_text(r, "status"), .group = rpc_text(r, "group"), .profile = rpc_text(r, "profile"),
		.name = rpc_text(r, "name") };
	if (f->name && !name_is_pattern(f->name)) {
		err_set(e, ERR_BAD_PARAM, "name may have what ids have, and *, ?, [a-z], [!a-z]; a [ needs its ]");
		return err_about(e, "name", -1);
	}
	if (f->profile && profile_wanted(f->profile, e) == PROFILE_NONE)
		return err_about(e, "profile", -1);
	return rpc_text(r, "label") ? label_from_request(f, rpc_text(r, "label"), e) : 0;
}

/* What a look at this one takes at most. */
static size_t filter_steps(const struct list_filter *f, const struct sandbox *sb)
{
	return 1 + (f->name ? strlen(f->name) * strlen(sb->spec.id) : 0) + (f->label[0] ? strlen(sb->spec.labels) : 0);
}

static bool filter_matches(const struct list_filter *f, const struct sandbox *sb)
{
	struct json_span label;

	if (f->status && strcmp(f->status, sandbox_status_text(sb)) != 0)
		return false;
	if ((f->group && strcmp(f->group, sb->spec.group) != 0) || (f->profile && strcmp(f->profile, sb->spec.profile) != 0))
		return false;
	if (f->name && !name_matches(f->name, sb->spec.id))
		return false;
	if (!f->label[0])
		return true;
	label = json_get((struct json_span){ sb->spec.labels, strlen(sb->spec.labels) }, f->label);
	return label.at && (!f->label_text || json_string_is(label, f->label_text));
}

/* Rows from `sb` on; returns the id that the next page begins behind, NULL: there is nothing more. */
static const char *page(const struct rpc_request *r, const struct list_filter *f, const struct sandbox *sb, struct json_out *o, const struct buf *b)
{
	int64_t limit = rpc_integer(r, "limit", LIMIT_LIST_PAGE), n = 0;
	const char *last = NULL;
	size_t steps = 0;

	for (; sb; sb = registry_next(sb)) {
		if (sb->forgetting || !rpc_may_see(r, sb->spec.owner))
			continue;
		if (last && (steps >= LIMIT_LIST_STEPS || b->size >= LIMIT_LIST_PAGE_BYTES))
			return last;
		steps += filter_steps(f, sb);
		if (filter_matches(f, sb)) {
			if (n == limit)
				return last;
			sandbox_row_json(sb, o);
			n++;
		}
		last = sb->spec.id;
	}
	return NULL;
}

const struct rpc_done *sandbox_list(struct control *c, struct rpc_request *r)
{
	const char *after = rpc_text(r, "after");
	struct sandbox *sb = after ? registry_get(c->registry, after) : NULL;
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);
	struct list_filter f;
	struct err e = ERR_INIT;

	if (filter_from_request(&f, r, &e) < 0)
		return rpc_error(r, &e, NULL);
	sb = sb ? registry_next(sb) : after ? NULL : registry_first(c->registry);
	json_out_object(&o, NULL);
	json_out_array(&o, "sandboxes");
	after = page(r, &f, sb, &o, &b);
	json_out_array_end(&o);
	json_out_text(&o, "next", after);
	json_out_object_end(&o);
	return handler_answer(r, &b);
}

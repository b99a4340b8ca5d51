/* SPDX-License-Identifier: MIT
 *
 * A group's requests are told by what the group is now, as those of sandboxes are: the tree was built anew, so a request that waited in it
 * was not begun, or it has come to something that can be seen. */
#include "daemon/control/outcome_group.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/group/group.h"
#include "daemon/sandbox/registry.h"

bool outcome_is_of_group(const struct outcome *row)
{
	return row->method < METHOD__N && strncmp(methods[row->method].name, "group.", 6) == 0;
}

/* The oldest process in it: a restart leaves none of before. 0: there is none. */
static uint64_t oldest(const struct group *g)
{
	size_t n;
	struct member **list = group_members(g, &n);
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; list && i < n; i++) {
		const struct sandbox *sb = list[i]->sandbox;
		uint64_t each = !sb ? oldest(list[i]->group) : sb->host ? sb->host->link.generation : 0;

		if (each > 0 && each < first)
			first = each;
	}
	free(list);
	return first == UINT64_MAX ? 0 : first;
}

static uint64_t newest(const struct group *g)
{
	size_t n;
	struct member **list = group_members(g, &n);
	uint64_t last = 0;

	for (size_t i = 0; list && i < n; i++) {
		const struct sandbox *sb = list[i]->sandbox;
		uint64_t each = !sb ? newest(list[i]->group) : sb->host ? sb->host->link.generation : 0;

		last = each > last ? each : last;
	}
	free(list);
	return last;
}

/* The sandbox of group.add and group.remove, if it is in this group. */
static const struct sandbox *member_of(struct control *c, const struct outcome *row, const struct group *g)
{
	const struct sandbox *sb = registry_get(c->registry, row->function);
	const struct member *m = sb ? sb->member : NULL;

	return m && m->in == g ? sb : NULL;
}

uint64_t group_outcome_before(struct control *c, const struct outcome *row)
{
	struct group *g = group_find(row->sandbox);

	if (!g)
		return 0;
	switch ((int)row->method) {
	case METHOD_GROUP_RESTART:
		return newest(g);
	case METHOD_GROUP_RESET:
		return group_top(g)->failed;
	case METHOD_GROUP_ADD:
	case METHOD_GROUP_REMOVE:
		return member_of(c, row, g) != NULL;
	}
	return 1; /* it is there */
}

static enum rpc_key_fate as_group(struct group *g, struct buf *to)
{
	struct json_out o = json_out_to(to);

	group_json(g, &o, NULL, false);
	return RPC_KEY_RESULT;
}

static enum rpc_key_fate restarted(struct group *g, const struct outcome *row, struct buf *to)
{
	return strcmp(group_status(g), "up") != 0 && strcmp(group_status(g), "running") != 0 ? RPC_KEY_NOT_BEGUN :
		oldest(g) > row->before	? as_group(g, to) : RPC_KEY_NOT_BEGUN;
}

static enum rpc_key_fate moved(struct control *c, struct group *g, const struct outcome *row, struct buf *to)
{
	const struct sandbox *sb = registry_get(c->registry, row->function);
	bool is_in = member_of(c, row, g), wanted = row->method == METHOD_GROUP_ADD;

	return sb && !sb->forgetting && is_in == wanted && row->before == !wanted ? outcome_as_info(sb, to) : RPC_KEY_NOT_BEGUN;
}

enum rpc_key_fate group_outcome(struct control *c, const struct outcome *row, struct buf *to)
{
	struct group *g = group_find(row->sandbox);
	bool is_up;

	if (!g)
		return row->method == METHOD_GROUP_DESTROY && row->before ? outcome_destroyed(row, to) : RPC_KEY_NOT_BEGUN;
	if (!group_is_settled(g))
		return RPC_KEY_UNDECIDED;
	is_up = strcmp(group_status(g), "up") == 0 || strcmp(group_status(g), "running") == 0;
	switch ((int)row->method) {
	case METHOD_GROUP_CREATE:
		return row->before ? RPC_KEY_NOT_BEGUN : as_group(g, to);
	case METHOD_GROUP_START:
		return is_up ? as_group(g, to) : RPC_KEY_NOT_BEGUN;
	case METHOD_GROUP_STOP:
		return is_up ? RPC_KEY_NOT_BEGUN : as_group(g, to);
	case METHOD_GROUP_RESTART:
		return restarted(g, row, to);
	case METHOD_GROUP_RESET: /* where nothing is to be seen of it, done again it does no harm */
		return row->before && !group_top(g)->failed ? as_group(g, to) : RPC_KEY_NOT_BEGUN;
	case METHOD_GROUP_ADD:
	case METHOD_GROUP_REMOVE:
		return moved(c, g, row, to);
	}
	return RPC_KEY_NOT_BEGUN;
}

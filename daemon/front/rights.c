/* SPDX-License-Identifier: MIT
 *
 * The levels and their lists. The lists come from the spawner and are short: they are searched from end to end. */
#include "daemon/front/rights.h"

#include <stddef.h>

static bool is_listed(const uint32_t *list, size_t n, uint32_t id)
{
	for (size_t i = 0; i < n && i < CONFIG_MAX_USERS; i++)
		if (list[i] == id)
			return true;
	return false;
}

static bool is_any_listed(const uint32_t *list, size_t n, const gid_t *groups, size_t n_groups)
{
	for (size_t i = 0; n > 0 && i < n_groups; i++)
		if (is_listed(list, n, groups[i]))
			return true;
	return false;
}

enum rights_level rights_of(const struct control_begin *begin, uid_t uid, const gid_t *groups, size_t n_groups)
{
	if (uid == 0 || uid == begin->daemon_uid || is_listed(begin->administrators, begin->n_administrators, uid) ||
		is_any_listed(begin->administrator_groups, begin->n_administrator_groups, groups, n_groups))
		return RIGHTS_ADMIN;
	if (begin->everyone_operates || is_listed(begin->operators, begin->n_operators, uid) ||
		is_any_listed(begin->operator_groups, begin->n_operator_groups, groups, n_groups))
		return RIGHTS_OPERATOR;
	return RIGHTS_NONE;
}

bool rights_allow(enum rights_level level, enum method_right needed)
{
	switch (needed) {
	case RIGHT_ANY:
		return true;
	case RIGHT_OPERATOR:
		return level != RIGHTS_NONE;
	case RIGHT_ADMIN:
		return level == RIGHTS_ADMIN;
	}
	return false;
}

const char *rights_text(enum rights_level level)
{
	switch (level) {
	case RIGHTS_NONE:
		return "none";
	case RIGHTS_OPERATOR:
		return "operator";
	case RIGHTS_ADMIN:
		return "admin";
	}
	return "?";
}

const char *rights_needed_text(enum method_right needed)
{
	switch (needed) {
	case RIGHT_ANY:
		return "any";
	case RIGHT_OPERATOR:
		return "operator";
	case RIGHT_ADMIN:
		return "admin";
	}
	return "?";
}

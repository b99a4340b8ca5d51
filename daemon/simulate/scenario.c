/* SPDX-License-Identifier: MIT
 *
 * Reads one scenario. Strict: unknown keys, wrong types and numbers out of range are errors that name where they stand.
 * Depth and counts are bounded before anything is made of them. Control's program. */
#include "daemon/simulate/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "proto/json_scan.h"
#include "proto/names.h"

struct scenario_block {
	struct scenario_block *next;
	max_align_t data[];
};

struct reader {
	struct scenario *s;
	struct err *e;
	size_t n_specs;
};

static void *take(struct reader *r, size_t n, size_t size)
{
	struct scenario_block *b = calloc(1, sizeof *b + (n ? n : 1) * size);

	if (!b) {
		(void)err_set(r->e, ERR_INTERNAL, "no memory");
		return NULL;
	}
	b->next = r->s->blocks;
	r->s->blocks = b;
	return b->data;
}

void scenario_fini(struct scenario *s)
{
	struct scenario_block *next;

	for (; s->blocks; s->blocks = next) {
		next = s->blocks->next;
		free(s->blocks);
	}
}

static struct scenario_name *name_of(struct reader *r, const char *id)
{
	uint32_t hash = 2166136261u;
	struct scenario_name **at, *n;

	for (const char *c = id; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 16777619u;
	for (at = &r->s->names[hash % SCENARIO_BUCKETS]; *at; at = &(*at)->next)
		if (strcmp((*at)->id, id) == 0)
			return *at;
	n = take(r, 1, sizeof *n);
	if (!n)
		return NULL;
	memcpy(n->id, id, strlen(id));
	n->start_ms = n->stop_ms = SCENARIO_UNSET;
	*at = n;
	return n;
}

/* ---- fields ---- */

static int keys_check(struct reader *r, struct json_span object, const char *what, const char *const *known, size_t n_known)
{
	struct json_iter it = json_iter_begin(object);
	struct json_span key, value;
	char name[64];
	size_t i;

	if (json_type(object) != '{')
		return err_set(r->e, ERR_BAD_PARAM, "%s: an object is expected", what);
	while (json_iter_next(&it, &key, &value)) {
		for (i = 0; i < n_known && !json_string_is(key, known[i]); i++)
			;
		if (i < n_known)
			continue;
		if (json_string(key, name, sizeof name) == -1)
			return err_set(r->e, ERR_UNKNOWN_PARAM, "%s: a key that there isn't", what);
		return err_set(r->e, ERR_UNKNOWN_PARAM, "%s: there is no key '%s' here", what, name);
	}
	return 0;
}

static int get_number(struct reader *r, struct json_span object, const char *key, int64_t least, int64_t most, bool needed, int64_t *ret)
{
	struct json_span v = json_get(object, key);

	if (!v.at && !needed)
		return 0;
	if (!v.at)
		return err_set(r->e, ERR_MISSING_PARAM, "'%s' is missing", key);
	if (json_type(v) != 'i' || !json_i64(v, ret) || *ret < least || *ret > most)
		return err_set(r->e, ERR_BAD_PARAM, "'%s' is a whole number from %lld to %lld", key, (long long)least, (long long)most);
	return 0;
}

static int get_id(struct reader *r, struct json_span object, const char *key, const char **ret)
{
	struct json_span v = json_get(object, key);
	char *id = take(r, 1, LIMIT_ID_BYTES + 1);
	int64_t n;

	if (!id)
		return -1;
	if (!v.at)
		return err_set(r->e, ERR_MISSING_PARAM, "'%s' is missing", key);
	n = json_string(v, id, LIMIT_ID_BYTES + 1);
	if (n < 0 || !name_is_id(id, (size_t)n))
		return err_set(r->e, ERR_INVALID_ID, "'%s' is no id", key);
	*ret = id;
	return 0;
}

/* One of n texts, by its place. */
static int get_word(struct reader *r, struct json_span object, const char *key, const char *const *words, size_t n, unsigned *ret)
{
	struct json_span v = json_get(object, key);
	char list[160] = "";
	size_t used = 0;

	if (!v.at)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (json_string_is(v, words[i])) {
			*ret = (unsigned)i;
			return 0;
		}
	for (size_t i = 0; i < n && used + strlen(words[i]) + 2 < sizeof list; i++) {
		memcpy(list + used, words[i], strlen(words[i]));
		used += strlen(words[i]);
		list[used++] = ' ';
	}
	list[used ? used - 1 : 0] = '\0';
	return err_set(r->e, ERR_BAD_PARAM, "'%s' is one of: %s", key, list);
}

/* A number of milliseconds, or a word that stands for a negative one. */
static int get_ms(struct reader *r, struct json_span object, const char *key, const char *word, int64_t means, int64_t *ret)
{
	struct json_span v = json_get(object, key);

	if (word && v.at && json_string_is(v, word)) {
		*ret = means;
		return 0;
	}
	return get_number(r, object, key, 0, LIMIT_SIMULATE_TIME_MS, false, ret);
}

static size_t items(struct json_span array)
{
	struct json_iter it = json_iter_begin(array);
	struct json_span key, value;
	size_t n = 0;

	while (json_iter_next(&it, &key, &value))
		n++;
	return n;
}

/* ---- the tree ---- */

static const char *const types[] = { "worker", "group" };
static const char *const restarts[] = { "permanent", "transient", "temporary" };
static const char *const strategies[] = { "one_for_one", "one_for_all", "rest_for_one" };
static const char *const autos[] = { "never", "any_significant", "all_significant" };
static const char *const worker_keys[] = { "id", "type", "restart", "significant", "shutdown", "start_ms", "stop_ms" };
static const char *const group_keys[] = { "id", "type", "restart", "significant", "shutdown", "start_ms", "strategy", "intensity",
	"period", "auto_shutdown", "children" };

#define N(array) (sizeof(array) / sizeof *(array))

static int read_spec(struct reader *r, struct json_span v, struct tree_spec *to, bool in_root, unsigned depth);

static int read_children(struct reader *r, struct json_span v, struct tree_spec *to, bool in_root, unsigned depth)
{
	struct json_span array = json_get(v, "children"), key, value;
	struct json_iter it = json_iter_begin(array);
	struct tree_spec *children;
	size_t n = items(array);

	if (!array.at)
		return 0;
	if (json_type(array) != '[')
		return err_set(r->e, ERR_BAD_PARAM, "'children' of '%s' is an array", to->id);
	if (depth >= LIMIT_TREE_DEPTH + 1 || n > LIMIT_GROUP_CHILDREN)
		return err_set(r->e, ERR_LIMIT_EXCEEDED, "group '%s': at most %d children, and %d groups in each other", to->id,
			LIMIT_GROUP_CHILDREN, LIMIT_TREE_DEPTH);
	children = take(r, n, sizeof *children);
	if (!children)
		return -1;
	to->children = children;
	for (; json_iter_next(&it, &key, &value); to->n_children++)
		if (read_spec(r, value, &children[to->n_children], in_root, depth + 1) == -1)
			return -1;
	return 0;
}

static int read_group(struct reader *r, struct json_span v, struct tree_spec *to, bool in_root, unsigned depth)
{
	int64_t intensity = 1, period_s = 5;
	unsigned strategy = 0, autos_at = 0;

	if (get_word(r, v, "strategy", strategies, N(strategies), &strategy) == -1 ||
		get_word(r, v, "auto_shutdown", autos, N(autos), &autos_at) == -1 ||
		get_number(r, v, "intensity", 0, BUDGET_INTENSITY_MAX, false, &intensity) == -1 ||
		get_number(r, v, "period", 1, 1000000, false, &period_s) == -1)
		return err_prefix(r->e, "group '%s'", to->id);
	to->strategy = (enum tree_strategy)strategy;
	to->auto_shutdown = (enum tree_auto)autos_at;
	to->intensity = (uint32_t)intensity;
	to->period_ms = (uint32_t)period_s * 1000;
	return read_children(r, v, to, in_root, depth);
}

static int read_spec(struct reader *r, struct json_span v, struct tree_spec *to, bool in_root, unsigned depth)
{
	struct scenario_child *c = take(r, 1, sizeof *c);
	unsigned type = 0, restart = 0;
	struct json_span significant;

	if (!c)
		return -1;
	if (json_type(v) != '{')
		return err_set(r->e, ERR_BAD_PARAM, "a child is an object");
	if (++r->n_specs > LIMIT_TREE_NODES)
		return err_set(r->e, ERR_LIMIT_EXCEEDED, "a scenario has at most %d groups and children", LIMIT_TREE_NODES);
	if (get_id(r, v, "id", &to->id) == -1)
		return err_prefix(r->e, "a child");
	if (!json_get(v, "type").at)
		return err_set(r->e, ERR_MISSING_PARAM, "child '%s': 'type' is missing", to->id);
	if (get_word(r, v, "type", types, N(types), &type) == -1 ||
		keys_check(r, v, type ? "a group" : "a worker", type ? group_keys : worker_keys, type ? N(group_keys) : N(worker_keys)) == -1 ||
		get_word(r, v, "restart", restarts, N(restarts), &restart) == -1)
		return err_prefix(r->e, "child '%s'", to->id);
	to->type = type ? TREE_GROUP : TREE_LEAF;
	to->restart = (enum tree_restart)restart;
	significant = json_get(v, "significant");
	if (significant.at && !json_bool(significant, &to->significant))
		return err_set(r->e, ERR_BAD_PARAM, "child '%s': 'significant' is true or false", to->id);
	to->shutdown_ms = type ? TREE_SHUTDOWN_INFINITY : 5000;
	if (json_string_is(json_get(v, "shutdown"), "brutal_kill"))
		to->shutdown_ms = TREE_SHUTDOWN_BRUTAL;
	else if (get_ms(r, v, "shutdown", "infinity", TREE_SHUTDOWN_INFINITY, &to->shutdown_ms) == -1)
		return err_prefix(r->e, "child '%s'", to->id);
	if (get_ms(r, v, "start_ms", NULL, 0, &c->start_ms) == -1 || get_ms(r, v, "stop_ms", "never", SCENARIO_NEVER, &c->stop_ms) == -1)
		return err_prefix(r->e, "child '%s'", to->id);
	c->name = name_of(r, to->id);
	if (!c->name)
		return -1;
	if (in_root && c->name->in_root)
		return err_set(r->e, ERR_BAD_PARAM, "two children '%s': in a scenario an id is used once", to->id);
	c->name->in_root |= in_root;
	to->user = c;
	return type ? read_group(r, v, to, in_root, depth) : 0;
}

/* ---- events ---- */

static int read_exit(struct reader *r, struct json_span v, struct scenario_event *to)
{
	struct json_span reason = json_get(v, "reason");
	char text[64] = "";

	if (!reason.at)
		return err_set(r->e, ERR_MISSING_PARAM, "'reason' is missing");
	if (json_string(reason, text, sizeof text) == -1)
		text[0] = '\0';
	if (strncmp(text, "shutdown:", 9) == 0)
		to->exit = TREE_EXIT_SHUTDOWN_WHY;
	else if (strcmp(text, "normal") == 0)
		to->exit = TREE_EXIT_NORMAL;
	else if (strcmp(text, "shutdown") == 0)
		to->exit = TREE_EXIT_SHUTDOWN;
	else if (strcmp(text, "killed") == 0)
		to->exit = TREE_EXIT_KILLED;
	else if (strcmp(text, "error") == 0)
		to->exit = TREE_EXIT_ERROR;
	else
		return err_set(r->e, ERR_BAD_PARAM, "'reason' is one of: normal shutdown shutdown:WHY killed error");
	return 0;
}

static int read_set(struct reader *r, struct json_span v, struct scenario_event *to)
{
	static const char *const keys[] = { "fail", "ignore", "start_ms", "stop_ms" };
	unsigned key = SCENARIO_KEY__N;

	if (get_word(r, v, "key", keys, N(keys), &key) == -1)
		return -1;
	if (key == SCENARIO_KEY__N)
		return err_set(r->e, ERR_MISSING_PARAM, "'key' is missing");
	to->key = (enum scenario_key)key;
	return get_number(r, v, "value", 0, LIMIT_SIMULATE_TIME_MS, true, &to->value);
}

static int read_request(struct reader *r, struct json_span v, struct scenario_event *to)
{
	struct tree_spec *spec;

	if (get_number(r, v, "n", 0, 1ll << 53, true, &to->number) == -1)
		return -1;
	if (to->ask == TREE_ASK_WHICH || to->ask == TREE_ASK_COUNT)
		return 0;
	if (to->ask != TREE_ASK_START_CHILD)
		return get_id(r, v, "child", &to->child);
	if (!json_get(v, "spec").at)
		return err_set(r->e, ERR_MISSING_PARAM, "'spec' is missing");
	spec = take(r, 1, sizeof *spec);
	if (!spec)
		return -1;
	to->spec = spec;
	return read_spec(r, json_get(v, "spec"), spec, false, 1);
}

static int read_event(struct reader *r, struct json_span v, struct scenario_event *to)
{
	static const char *const words[] = { "start_child", "terminate_child", "restart_child", "delete_child", "which", "count", "exit", "set",
		"stop_root" };
	static const char *const exit_keys[] = { "t", "do", "child", "reason" }, *const set_keys[] = { "t", "do", "child", "key", "value" };
	static const char *const request_keys[] = { "t", "do", "n", "group", "child", "spec" };
	const char *name = NULL;
	unsigned word = N(words);
	int status;

	if (json_type(v) != '{')
		return err_set(r->e, ERR_BAD_PARAM, "an event is an object");
	if (get_number(r, v, "t", -LIMIT_SIMULATE_TIME_MS, LIMIT_SIMULATE_TIME_MS, true, &to->t_ms) == -1 ||
		get_word(r, v, "do", words, N(words), &word) == -1)
		return -1;
	if (word == N(words))
		return err_set(r->e, ERR_MISSING_PARAM, "'do' is missing");
	to->what = word == 6 ? SCENARIO_EXIT : word == 7 ? SCENARIO_SET : word == 8 ? SCENARIO_STOP_ROOT : SCENARIO_REQUEST;
	if (to->what == SCENARIO_STOP_ROOT)
		return keys_check(r, v, "stop_root", exit_keys, 2);
	if (to->what == SCENARIO_REQUEST) {
		to->ask = (enum tree_ask)word;
		status = keys_check(r, v, words[word], request_keys, N(request_keys));
	} else {
		status = to->what == SCENARIO_EXIT ? keys_check(r, v, "exit", exit_keys, N(exit_keys)) : keys_check(r, v, "set", set_keys, N(set_keys));
	}
	if (status == -1 || get_id(r, v, to->what == SCENARIO_REQUEST ? "group" : "child", &name) == -1)
		return -1;
	to->name = name_of(r, name);
	if (!to->name)
		return -1;
	return to->what == SCENARIO_EXIT ? read_exit(r, v, to) : to->what == SCENARIO_SET ? read_set(r, v, to) : read_request(r, v, to);
}

static int read_events(struct reader *r, struct json_span array)
{
	struct json_iter it = json_iter_begin(array);
	struct json_span key, value;
	size_t n = items(array);

	if (!array.at)
		return 0;
	if (json_type(array) != '[')
		return err_set(r->e, ERR_BAD_PARAM, "'events' is an array");
	if (n > LIMIT_SIMULATE_EVENTS)
		return err_set(r->e, ERR_LIMIT_EXCEEDED, "a scenario has at most %d events", LIMIT_SIMULATE_EVENTS);
	r->s->events = take(r, n, sizeof *r->s->events);
	if (!r->s->events)
		return -1;
	for (; json_iter_next(&it, &key, &value); r->s->n_events++)
		if (read_event(r, value, &r->s->events[r->s->n_events]) == -1)
			return err_prefix(r->e, "event %zu", r->s->n_events + 1);
	return 0;
}

int scenario_parse(struct scenario *s, const char *line, size_t size, struct err *e)
{
	static const char *const keys[] = { "id", "phase", "t_end", "root", "events" };
	struct json_span v = { line, size }, root;
	struct reader r = { .s = s, .e = e };

	memset(s, 0, sizeof *s);
	if (size > LIMIT_SIMULATE_LINE_BYTES)
		return err_set(e, ERR_REQUEST_TOO_LARGE, "a scenario has at most %u bytes", LIMIT_SIMULATE_LINE_BYTES);
	if (json_check(line, size, e) == -1)
		return -1;
	if (keys_check(&r, v, "the scenario", keys, N(keys)) == -1 || get_number(&r, v, "id", 0, 1ll << 53, true, &s->id) == -1 ||
		get_number(&r, v, "phase", 0, 999, false, &s->phase_ms) == -1 ||
		get_number(&r, v, "t_end", 0, LIMIT_SIMULATE_TIME_MS, true, &s->end_ms) == -1)
		return -1;
	root = json_get(v, "root");
	if (!root.at)
		return err_set(e, ERR_MISSING_PARAM, "'root' is missing");
	if (read_spec(&r, root, &s->root, true, 1) == -1)
		return -1;
	if (s->root.type != TREE_GROUP)
		return err_set(e, ERR_BAD_PARAM, "'root' is a group");
	return read_events(&r, json_get(v, "events"));
}

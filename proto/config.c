/* SPDX-License-Identifier: MIT
 *
 * The configuration's keys are the table below; everything else reads it. A text is applied to a copy, so
 * that a bad file changes nothing. Opening the file, and who may own it, is the spawner's business. */
#include "proto/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/config_text.h"

/* "/objects/", an id, "/", a 20-digit serial and ".so" behind the runtime folder fit into LIMIT_PATH_BYTES */
#define PATH_TAIL      97
#define UID_LEAST      1000  /* below are the system's own users */
#define UID_MOST       0x7fffffffu /* beyond it some programs see negative numbers */
#define UID_NOBODY     65534u
#define UID_DYNAMIC    61184u /* systemd's DynamicUser= takes its uids from here */
#define UID_DYNAMIC_TO 65519u

enum kind { KIND_PATH, KIND_MODE, KIND_U32, KIND_U64, KIND_GROUP, KIND_ADMINISTRATORS, KIND_OPERATORS, KIND_ADMINISTRATOR_GROUPS,
	KIND_OPERATOR_GROUPS };

static const struct key {
	const char *name;
	enum kind kind;
	size_t offset, size; /* of the field in struct config */
	uint64_t min, max;
} keys[] = {
#define FIELD(field) offsetof(struct config, field), sizeof(((struct config *)0)->field)
#define KEY(name, kind, min, max) { #name, kind, FIELD(name), min, max }
	{ "socket", KIND_PATH, FIELD(socket_path), 0, 0 },
	KEY(state_dir, KIND_PATH, 0, 0),
	KEY(runtime_dir, KIND_PATH, 0, 0),
	KEY(socket_mode, KIND_MODE, 0, 0777),
	KEY(socket_group, KIND_GROUP, 0, UINT32_MAX - 1),
	KEY(administrators, KIND_ADMINISTRATORS, 0, UINT32_MAX - 1),
	KEY(operators, KIND_OPERATORS, 0, UINT32_MAX - 1),
	KEY(administrator_groups, KIND_ADMINISTRATOR_GROUPS, 0, UINT32_MAX - 1),
	KEY(operator_groups, KIND_OPERATOR_GROUPS, 0, UINT32_MAX - 1),
	KEY(uid_first, KIND_U32, UID_LEAST, UID_MOST),
	KEY(uid_count, KIND_U32, LIMIT_UIDS_PER_SLICE, UID_MOST),
	KEY(max_sandboxes, KIND_U32, 1, LIMIT_SANDBOXES),
	KEY(max_memory_bytes, KIND_U64, 0, INT64_MAX),
	KEY(max_processes, KIND_U32, 0, 4194304), /* the kernel's largest pid_max */
	KEY(max_open_files, KIND_U32, 0, 1048576), /* the kernel's usual fs.nr_open */
	KEY(max_file_size_bytes, KIND_U64, 0, INT64_MAX),
	KEY(spare_hosts, KIND_U32, 0, LIMIT_SPARES),
	KEY(max_jobs, KIND_U32, 1, LIMIT_JOBS),
	KEY(max_sandboxes_per_owner, KIND_U32, 0, LIMIT_SANDBOXES),
	KEY(max_memory_per_owner, KIND_U64, 0, INT64_MAX),
	KEY(max_store_bytes_per_owner, KIND_U64, 0, INT64_MAX),
	KEY(max_jobs_per_owner, KIND_U32, 0, LIMIT_JOBS),
	KEY(compile_memory_bytes, KIND_U64, 16u << 20, INT64_MAX), /* with less no compiler starts */
	KEY(compile_timeout_ms, KIND_U32, 100, 3600000),
	KEY(shutdown_timeout_ms, KIND_U32, 1000, LIMIT_DAEMON_SHUTDOWN_MS),
	KEY(zygote_hosts, KIND_U32, 1, 1000000000),
	KEY(zygote_age_ms, KIND_U32, 1000, 2000000000),
#undef KEY
#undef FIELD
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

_Static_assert(sizeof(mode_t) == sizeof(uint32_t) && sizeof(uid_t) == sizeof(uint32_t) &&
		       sizeof(gid_t) == sizeof(uint32_t),
	"numbers are stored through uint32_t");

size_t config_keys(const char **ret_names, size_t room)
{
	for (size_t i = 0; i < N_KEYS && i < room; i++)
		ret_names[i] = keys[i].name;
	return N_KEYS;
}

/* ---- defaults ---- */

/* <folder><tail> if the variable names an absolute folder that leaves room; an environment isn't to be
 * trusted with more. */
static bool path_from(char *to, size_t room, const char *variable, const char *tail)
{
	const char *folder = getenv(variable);
	int n;

	if (!folder || folder[0] != '/')
		return false;
	n = snprintf(to, room, "%s%s", folder, tail);
	return n > 0 && (size_t)n < room;
}

static void put_path(char *to, size_t room, const char *folder, const char *tail)
{
	size_t n = strnlen(folder, room - 1), m = strlen(tail);

	if (m > room - 1 - n)
		m = room - 1 - n; /* can't happen: callers' folders are short */
	memcpy(to, folder, n);
	memcpy(to + n, tail, m);
	to[n + m] = '\0';
}

static void user_paths(struct config *c, uid_t uid)
{
	/* short enough for the socket in it */
	char runtime[sizeof(c->socket_path) - sizeof("/sandboxd.sock") + 1];

	if (!path_from(runtime, sizeof(runtime), "XDG_RUNTIME_DIR", "/sandboxd"))
		(void)snprintf(runtime, sizeof(runtime), "/tmp/sandboxd-%u", uid);
	put_path(c->runtime_dir, sizeof(c->runtime_dir), runtime, "");
	put_path(c->socket_path, sizeof(c->socket_path), runtime, "/sandboxd.sock");
	if (!path_from(c->state_dir, sizeof(c->state_dir), "XDG_STATE_HOME", "/sandboxd") &&
	    !path_from(c->state_dir, sizeof(c->state_dir), "HOME", "/.local/state/sandboxd"))
		put_path(c->state_dir, sizeof(c->state_dir), runtime, "/state");
}

void config_defaults(struct config *c, uid_t uid)
{
	*c = (struct config){
		.socket_path = "/run/sandboxd/sandboxd.sock",
		.state_dir = "/var/lib/sandboxd",
		.runtime_dir = "/run/sandboxd",
		.socket_mode = 0600,
		.socket_group = (gid_t)-1,
		.uid_first = 1879048192,
		.uid_count = 1048576,
		.max_sandboxes = LIMIT_SANDBOXES,
		.spare_hosts = DEFAULT_SPARES,
		.max_jobs = 2,
		.max_sandboxes_per_owner = DEFAULT_OWNER_SANDBOXES,
		.max_memory_per_owner = DEFAULT_OWNER_MEMORY_BYTES,
		.max_store_bytes_per_owner = DEFAULT_OWNER_STORE_BYTES,
		.max_jobs_per_owner = DEFAULT_OWNER_JOBS,
		.compile_memory_bytes = DEFAULT_COMPILE_MEMORY_BYTES,
		.compile_timeout_ms = DEFAULT_COMPILE_TIMEOUT_MS,
		.shutdown_timeout_ms = DEFAULT_DAEMON_SHUTDOWN_MS,
		.zygote_hosts = DEFAULT_ZYGOTE_HOSTS,
		.zygote_age_ms = DEFAULT_ZYGOTE_AGE_MS,
	};
	if (uid != 0)
		user_paths(c, uid);
}

/* ---- one value ---- */

static int set_path(char *to, size_t room, struct word w, struct err *e)
{
	if (w.size >= room)
		return err_set(e, ERR_BAD_PARAM, "a path of %zu bytes, at most %zu fit", w.size, room - 1);
	if (w.at[0] != '/')
		return err_set(e, ERR_BAD_PARAM, "a path that doesn't begin with '/'");
	memcpy(to, w.at, w.size);
	to[w.size] = '\0';
	return 0;
}

static int set_number(const struct key *k, void *field, struct word w, struct err *e)
{
	bool octal = k->kind == KIND_MODE;
	uint64_t value;

	if (!word_number(w, octal ? 8 : 10, &value))
		return err_set(e, ERR_BAD_PARAM, "'%.*s' is not %s number", (int)(w.size > 40 ? 40 : w.size),
			w.at, octal ? "an octal" : "a decimal");
	if (octal && value > k->max)
		return err_set(e, ERR_BAD_PARAM, "not within 0000 to %04llo", (unsigned long long)k->max);
	if (value < k->min || value > k->max)
		return err_set(e, ERR_BAD_PARAM, "%llu is not within %llu to %llu", (unsigned long long)value,
			(unsigned long long)k->min, (unsigned long long)k->max);
	if (k->kind == KIND_U64) {
		memcpy(field, &value, sizeof(value));
	} else {
		uint32_t small = (uint32_t)value;

		memcpy(field, &small, sizeof(small));
	}
	return 0;
}

/* The number in the line `name:...:number:` of a text like /etc/passwd or /etc/group. Lines that aren't so are passed over. */
static bool look_up(const char *text, size_t size, struct word name, uint64_t *ret)
{
	if (!text)
		return false;
	for (const char *at = text, *end = text + size; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at)), *line_end = newline ? newline : end;
		const char *password = at + name.size, *colon = NULL, *last = NULL;

		if ((size_t)(line_end - at) > name.size && memcmp(at, name.at, name.size) == 0 && *password == ':')
			colon = memchr(password + 1, ':', (size_t)(line_end - password - 1));
		if (colon)
			last = memchr(colon + 1, ':', (size_t)(line_end - colon - 1));
		if (last && word_number((struct word){ colon + 1, (size_t)(last - colon - 1) }, 10, ret))
			return true;
		at = line_end + 1;
	}
	return false;
}

/* A user or a group: its number, or its name. */
static int who(const struct config_names *names, bool is_group, struct word w, uint64_t max, uint64_t *ret, struct err *e)
{
	const char *what = is_group ? "group" : "user";
	int shown = (int)(w.size > 40 ? 40 : w.size);

	if (word_number(w, 10, ret))
		return *ret <= max ? 0 : err_set(e, ERR_BAD_PARAM, "'%.*s' is not a %s's number", shown, w.at, what);
	if (!names || w.size == 0 || memchr(w.at, ':', w.size) || (w.at[0] >= '0' && w.at[0] <= '9'))
		return err_set(e, ERR_BAD_PARAM, "'%.*s' is not a %s's number", shown, w.at, what);
	if (!(is_group ? look_up(names->groups, names->groups_size, w, ret) : look_up(names->users, names->users_size, w, ret)) ||
	    *ret > max)
		return err_set(e, ERR_BAD_PARAM, "there is no %s '%.*s' in %s: give its number", what, shown, w.at,
			is_group ? "/etc/group" : "/etc/passwd");
	return 0;
}

static int set_users(const struct key *k, const struct config_names *names, bool are_groups, uint32_t users[CONFIG_MAX_USERS],
	size_t *n_users, struct word w, struct err *e)
{
	size_t n = 0;

	for (;;) {
		const char *comma = memchr(w.at, ',', w.size);
		struct word one = word_trim((struct word){ w.at, comma ? (size_t)(comma - w.at) : w.size });
		uint64_t value;

		if (who(names, are_groups, one, k->max, &value, e) == -1)
			return -1;
		if (n == CONFIG_MAX_USERS)
			return err_set(e, ERR_LIMIT_EXCEEDED, "more than %d %s", CONFIG_MAX_USERS, are_groups ? "groups" : "users");
		users[n++] = (uint32_t)value;
		if (!comma)
			break;
		w.size -= (size_t)(comma + 1 - w.at);
		w.at = comma + 1;
	}
	*n_users = n;
	return 0;
}

static int set_value(struct config *c, const struct key *k, const struct config_names *names, struct word w, struct err *e)
{
	char *field = (char *)c + k->offset;
	uint64_t value;

	switch (k->kind) {
	case KIND_PATH:
		return set_path(field, k->size, w, e);
	case KIND_MODE:
	case KIND_U32:
	case KIND_U64:
		return set_number(k, field, w, e);
	case KIND_GROUP:
		if (who(names, true, w, k->max, &value, e) == -1)
			return -1;
		c->socket_group = (gid_t)value;
		return 0;
	case KIND_ADMINISTRATORS:
		return set_users(k, names, false, c->administrators, &c->n_administrators, w, e);
	case KIND_OPERATORS:
		c->everyone_operates = w.size == 1 && w.at[0] == '*';
		return c->everyone_operates ? 0 : set_users(k, names, false, c->operators, &c->n_operators, w, e);
	case KIND_ADMINISTRATOR_GROUPS:
		return set_users(k, names, true, c->administrator_groups, &c->n_administrator_groups, w, e);
	case KIND_OPERATOR_GROUPS:
		return set_users(k, names, true, c->operator_groups, &c->n_operator_groups, w, e);
	}
	return err_set(e, ERR_INTERNAL, "a key of no kind");
}

/* ---- lines ---- */

struct draft {
	struct config *config;
	const struct config_names *names;
};

static int set_line(void *ctx, size_t key, int64_t line, struct word value, struct err *e)
{
	const struct draft *d = ctx;

	(void)line;
	return set_value(d->config, &keys[key], d->names, value, e);
}

int config_parse(struct config *c, const char *text, size_t size, const char *file, struct err *e)
{
	return config_parse_named(c, text, size, file, NULL, e);
}

int config_parse_named(struct config *c, const char *text, size_t size, const char *file, const struct config_names *names,
	struct err *e)
{
	const char *key_names[N_KEYS];
	struct config text_of = *c;
	struct draft draft = { &text_of, names };

	(void)config_keys(key_names, N_KEYS);
	if (config_text_read(text, size, LIMIT_CONFIG_BYTES, file, key_names, N_KEYS, set_line, &draft, e) == -1)
		return -1;
	*c = text_of;
	return 0;
}

/* ---- values against each other ---- */

static int check_path(const char *name, const char *path, size_t most, struct err *e)
{
	const char *why = NULL;

	if (path[0] != '/')
		why = "is not an absolute path";
	else if (path[strspn(path, "/")] == '\0')
		why = "is the root folder";
	else if (strlen(path) > most)
		why = "is too long";
	else if (!word_is_text((struct word){ path, strlen(path) }) || strpbrk(path, "\t\r"))
		why = "has control characters, or isn't UTF-8";
	for (const char *at = path; !why && (at = strstr(at, "/..")); at++)
		if (at[3] == '/' || at[3] == '\0')
			why = "goes through '..'";
	if (!why)
		return 0;
	err_set(e, ERR_BAD_PARAM, "%s '%s' %s (at most %zu bytes, absolute, without '..')", name, path, why,
		most);
	return err_about(e, name, -1);
}

static bool meets(uint64_t first, uint64_t last, uint64_t other_first, uint64_t other_last)
{
	return first <= other_last && other_first <= last;
}

static int check_uids(const struct config *c, struct err *e)
{
	uint64_t first = c->uid_first, last = first + c->uid_count - 1;
	const char *name = "uid_first";

	if (c->uid_count == 0 || c->uid_count % LIMIT_UIDS_PER_SLICE != 0) {
		name = "uid_count";
		err_set(e, ERR_BAD_PARAM, "uid_count %u is not a multiple of %d", c->uid_count,
			LIMIT_UIDS_PER_SLICE);
	} else if (first < UID_LEAST || last > UID_MOST) {
		err_set(e, ERR_BAD_PARAM, "uids %llu to %llu are not within %u to %u",
			(unsigned long long)first, (unsigned long long)last, UID_LEAST, UID_MOST);
	} else if (meets(first, last, UID_NOBODY, UID_NOBODY)) {
		err_set(e, ERR_BAD_PARAM, "uids %llu to %llu cover %u, the user 'nobody'",
			(unsigned long long)first, (unsigned long long)last, UID_NOBODY);
	} else if (meets(first, last, UID_DYNAMIC, UID_DYNAMIC_TO)) {
		err_set(e, ERR_BAD_PARAM, "uids %llu to %llu meet %u to %u, systemd's dynamic users",
			(unsigned long long)first, (unsigned long long)last, UID_DYNAMIC, UID_DYNAMIC_TO);
	} else {
		return 0;
	}
	return err_about(e, name, -1);
}

/* Without doubled slashes, "." and a slash at the end. Links aren't followed: the folders need not be there yet. */
static void path_plain(char to[LIMIT_PATH_BYTES + 2], const char *path)
{
	size_t n = 0;

	while (*path && n < LIMIT_PATH_BYTES) {
		size_t size = strcspn(path, "/");

		if (size > LIMIT_PATH_BYTES - n)
			size = LIMIT_PATH_BYTES - n; /* can't be: check_path has seen it */
		if (size > 0 && !(size == 1 && path[0] == '.')) {
			to[n++] = '/';
			memcpy(to + n, path, size);
			n += size;
		}
		path += size;
		path += strspn(path, "/");
	}
	to[n] = '\0';
}

/* What the runtime folder has is removed when the daemon ends, and at its start: nothing that lasts may lie there, nor may it lie in the
 * state folder, which belongs to control's user. */
static int check_folders(const struct config *c, struct err *e)
{
	char state[LIMIT_PATH_BYTES + 2], runtime[LIMIT_PATH_BYTES + 2], part[LIMIT_PATH_BYTES + 16];
	static const char *const parts[] = { "objects", "jobs", "lock" };

	path_plain(state, c->state_dir);
	path_plain(runtime, c->runtime_dir);
	if (strcmp(state, runtime) == 0) {
		err_set(e, ERR_BAD_PARAM, "state_dir and runtime_dir are the same folder '%s': name another for one of them", state);
		return err_about(e, "state_dir", -1);
	}
	if (path_is_within(runtime, state)) {
		err_set(e, ERR_BAD_PARAM, "runtime_dir '%s' lies in state_dir '%s', which belongs to the control process: name a folder outside of it",
			runtime, state);
		return err_about(e, "runtime_dir", -1);
	}
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		(void)snprintf(part, sizeof part, "%s/%s", runtime, parts[i]);
		if (!path_is_within(state, part))
			continue;
		err_set(e, ERR_BAD_PARAM, "state_dir '%s' lies in '%s', which the daemon empties at its start and its end: name a folder outside of it",
			state, part);
		return err_about(e, "state_dir", -1);
	}
	return 0;
}

int config_check(const struct config *c, struct err *e)
{
	if (check_path("socket", c->socket_path, sizeof(c->socket_path) - 1, e) == -1 ||
	    check_path("state_dir", c->state_dir, LIMIT_PATH_BYTES, e) == -1 ||
	    check_path("runtime_dir", c->runtime_dir, LIMIT_PATH_BYTES - PATH_TAIL, e) == -1)
		return -1;
	return check_folders(c, e) == -1 ? -1 : check_uids(c, e);
}

const char *config_meets(const struct config *c, const char *path)
{
	const struct {
		const char *key, *path;
	} rows[] = { { "state_dir", c->state_dir }, { "runtime_dir", c->runtime_dir }, { "socket", c->socket_path } };

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char plain[LIMIT_PATH_BYTES + 2];

		path_plain(plain, rows[i].path);
		if (path_is_within(plain, path) || path_is_within(path, plain))
			return rows[i].key;
	}
	return NULL;
}

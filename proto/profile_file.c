/* SPDX-License-Identifier: MIT
 *
 * Keys are read one by one into a draft, with their lines; what they mean together is decided when all are known, so that their order
 * doesn't matter and a contradiction names a line. */
#include "proto/profile_file.h"

#include <stdio.h>
#include <string.h>

#include "proto/config_text.h"
#include "proto/names.h"
#include "proto/zygote_wire.h"

#define SOCKETS (OPERATION(NETWORK_CLIENT) | OPERATION(NETWORK_SERVER) | OPERATION(NETWORK_OTHER) | OPERATION(CRYPTO))
#define CODE    (OPERATION(DYNAMIC_CODE) | OPERATION(EXEC))

enum key { KEY_BASE, KEY_ALLOW, KEY_REFUSE, KEY_NETWORK, KEY_AUDIT_LEVEL, KEY_MAX_MODULE_SIZE, KEY_ADMINISTRATORS_ONLY, KEY_DYNAMIC_CODE,
	KEY_READ_PATHS, KEY_WRITE_PATHS, KEY__N };

static const char *const key_names[KEY__N] = {
	[KEY_BASE] = "base",
	[KEY_ALLOW] = "allow",
	[KEY_REFUSE] = "refuse",
	[KEY_NETWORK] = "network",
	[KEY_AUDIT_LEVEL] = "audit_level",
	[KEY_MAX_MODULE_SIZE] = "max_module_size",
	[KEY_ADMINISTRATORS_ONLY] = "administrators_only",
	[KEY_DYNAMIC_CODE] = "dynamic_code",
	[KEY_READ_PATHS] = "read_paths",
	[KEY_WRITE_PATHS] = "write_paths",
};

/* In the form of a policy's. */
struct path_list {
	uint8_t n;
	size_t size;
	char text[LIMIT_PROFILE_PATHS_BYTES];
};

struct draft {
	int64_t line[KEY__N];      /* 0: not given */
	enum profile base;
	uint64_t allow, refuse;
	bool network, administrators_only, dynamic_code;
	enum policy_audit audit;
	uint32_t max_module_bytes;
	struct path_list read, write;
	const struct profile_paths *paths;
};

size_t profile_keys(const char **ret_names, size_t room)
{
	for (size_t i = 0; i < KEY__N && i < room; i++)
		ret_names[i] = key_names[i];
	return KEY__N;
}

static bool is_builtin(const char *name)
{
	return profile_from_name(name, strlen(name)) < PROFILE__N;
}

int profile_name_check(const char *name, struct err *e)
{
	char shown[LIMIT_ID_BYTES + 1];

	text_clean(shown, sizeof shown, name, strlen(name));
	if (!name_is_id(name, strlen(name)) || strlen(name) > LIMIT_PROFILE_NAME_BYTES)
		return err_set(e, ERR_INVALID_ID, "'%s' can't be a profile's name: it is a letter or digit, then A-Z a-z 0-9 . _ -, at most %d bytes", shown,
			LIMIT_PROFILE_NAME_BYTES);
	if (is_builtin(name))
		return err_set(e, ERR_BAD_PARAM, "profile %s is built in: give the file another name, and say base = %s in it", shown, shown);
	return 0;
}

/* ---- one value ---- */

/* The known word nearest to an unknown one goes along. */
static int unknown(struct word w, const char *what, const char *const *known, size_t n, struct err *e)
{
	char shown[48];
	int near;

	text_clean(shown, sizeof shown, w.at, w.size);
	near = name_nearest(shown, known, n);
	err_set(e, ERR_BAD_PARAM, near >= 0 ? "'%s' is no %s; is '%s' meant?" : "'%s' is no %s", shown, what, near >= 0 ? known[near] : "");
	if (e && near >= 0)
		(void)snprintf(e->nearest, sizeof e->nearest, "%s", known[near]);
	return -1;
}

static int set_operations(uint64_t *to, struct word w, struct err *e)
{
	const char *names[OPERATION__N];

	for (int i = 0; i < OPERATION__N; i++)
		names[i] = operation_name((enum operation)i);
	for (struct word rest = w; rest.size > 0;) {
		struct word one = { rest.at, 0 };
		enum operation op;

		while (one.size < rest.size && !strchr(" \t,", one.at[one.size]))
			one.size++;
		op = operation_from_name(one.at, one.size);
		if (one.size > 0 && op == OPERATION__N)
			return unknown(one, "operation", names, OPERATION__N, e);
		if (one.size > 0 && (*to & OPERATION_BIT(op)))
			return err_set(e, ERR_BAD_PARAM, "%s stands there twice", names[op]);
		if (one.size > 0)
			*to |= OPERATION_BIT(op);
		one.size += one.size < rest.size; /* the separator */
		rest = (struct word){ rest.at + one.size, rest.size - one.size };
	}
	return *to != 0 ? 0 : err_set(e, ERR_BAD_PARAM, "names no operation");
}

static int choose(struct word w, const char *what, const char *const *words, size_t n, unsigned *ret, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (word_is(w, words[i])) {
			*ret = (unsigned)i;
			return 0;
		}
	return unknown(w, what, words, n, e);
}

static int set_size(uint32_t *to, struct word w, struct err *e)
{
	uint64_t value;

	if (!word_number(w, 10, &value) || value < 1 || value > LIMIT_OBJECT_BYTES)
		return err_set(e, ERR_BAD_PARAM, "not a number of bytes within 1 to %u", LIMIT_OBJECT_BYTES);
	*to = (uint32_t)value;
	return 0;
}

/* Why no profile may grant it, whatever lies there. NULL: no such reason. */
static const char *path_fault(const char *path, bool writes)
{
	/* what hosts have there themselves, or what isn't files */
	static const char *const never[] = { "/proc", "/sys", ZYGOTE_OBJECTS, ZYGOTE_WRITABLE };
	static const char *const libraries[] = { "/usr", "/lib", "/lib64" };
	size_t size = strlen(path);

	if (path[0] != '/')
		return "doesn't begin with '/'";
	if (size == 1)
		return "is the root folder: name what is needed in it";
	if (size > LIMIT_PATH_BYTES)
		return "is too long";
	if (path[size - 1] == '/')
		return "ends with '/'";
	for (const char *at = path; *at; at += 1 + strcspn(at + 1, "/"))
		if (at[1] == '/' || (at[1] == '.' && (at[2] == '/' || !at[2] || (at[2] == '.' && (at[3] == '/' || !at[3])))))
			return "has an empty part, '.' or '..'";
	for (size_t i = 0; i < sizeof never / sizeof *never; i++)
		if (path_is_within(path, never[i]))
			return "lies where no profile may grant anything";
	for (size_t i = 0; writes && i < sizeof libraries / sizeof *libraries; i++)
		if (path_is_within(path, libraries[i]))
			return "lies among the libraries, which every host loads";
	return NULL;
}

static bool has_path(const struct path_list *l, const char *path)
{
	const char *at = l->text;

	for (uint8_t i = 0; i < l->n; i++, at += strlen(at) + 1)
		if (strcmp(at, path) == 0)
			return true;
	return false;
}

static int path_add(const struct draft *d, struct path_list *to, const char *path, bool writes, struct err *e)
{
	const char *fault = path_fault(path, writes);
	size_t size = strlen(path) + 1;

	if (fault)
		return err_set(e, ERR_BAD_PARAM, "%s %s", path, fault);
	if (has_path(&d->read, path) || has_path(&d->write, path))
		return err_set(e, ERR_BAD_PARAM, "%s stands there twice", path);
	if (to->n == LIMIT_PROFILE_PATHS || d->read.size + d->write.size + size > LIMIT_PROFILE_PATHS_BYTES)
		return err_set(e, ERR_LIMIT_EXCEEDED, "more than %d paths, or than %d bytes of them", LIMIT_PROFILE_PATHS, LIMIT_PROFILE_PATHS_BYTES);
	if (d->paths && d->paths->check(d->paths->ctx, path, e) == -1)
		return err_prefix(e, "%s", path);
	memcpy(to->text + to->size, path, size);
	to->size += size;
	to->n++;
	return 0;
}

static int set_paths(const struct draft *d, struct path_list *to, struct word w, bool writes, struct err *e)
{
	while (w.size > 0) {
		char path[LIMIT_PATH_BYTES + 2];
		struct word one = { w.at, 0 };

		while (one.size < w.size && !strchr(" \t", one.at[one.size]))
			one.size++;
		(void)snprintf(path, sizeof path, "%.*s", (int)(one.size < sizeof path ? one.size : sizeof path), one.at);
		if (path_add(d, to, path, writes, e) == -1)
			return -1;
		w = word_trim((struct word){ w.at + one.size, w.size - one.size });
	}
	return 0;
}

static int set_line(void *ctx, size_t key, int64_t line, struct word w, struct err *e)
{
	static const char *const bases[] = { "high", "medium", "low" }, *const networks[] = { "none", "host" }, *const answers[] = { "no", "yes" };
	struct draft *d = ctx;
	unsigned choice = 0;
	int result = 0;

	d->line[key] = line;
	switch ((enum key)key) {
	case KEY_BASE:
		result = choose(w, "built-in profile (high, medium, low)", bases, 3, &choice, e);
		d->base = (enum profile)choice;
		break;
	case KEY_ALLOW:
		return set_operations(&d->allow, w, e);
	case KEY_REFUSE:
		return set_operations(&d->refuse, w, e);
	case KEY_NETWORK:
		result = choose(w, "network (none, host)", networks, 2, &choice, e);
		d->network = choice == 1;
		break;
	case KEY_AUDIT_LEVEL:
		if (!policy_audit_from_text(w.at, w.size, &d->audit))
			result = unknown(w, "audit level (full, basic, none)", (const char *const[]){ "full", "basic", "none" }, 3, e);
		break;
	case KEY_MAX_MODULE_SIZE:
		return set_size(&d->max_module_bytes, w, e);
	case KEY_ADMINISTRATORS_ONLY:
		result = choose(w, "answer (yes, no)", answers, 2, &choice, e);
		d->administrators_only = choice == 1;
		break;
	case KEY_DYNAMIC_CODE:
		result = choose(w, "answer (yes, no)", answers, 2, &choice, e);
		d->dynamic_code = choice == 1;
		break;
	case KEY_READ_PATHS:
		return set_paths(d, &d->read, w, false, e);
	case KEY_WRITE_PATHS:
		return set_paths(d, &d->write, w, true, e);
	case KEY__N:
		break;
	}
	return result;
}

/* ---- all together ---- */

static int blame(const struct draft *d, enum key key, const char *file, struct err *e)
{
	err_prefix(e, "%s:%lld: %s", file, (long long)d->line[key], key_names[key]);
	return err_about(e, key_names[key], d->line[key]);
}

static const char *first_of(uint64_t operations)
{
	return operation_name((enum operation)__builtin_ctzll(operations));
}

static uint64_t never_allowed(void)
{
	uint64_t set = 0;

	for (int i = 0; i < OPERATION__N; i++)
		if (!operation_is_free((enum operation)i))
			set |= OPERATION_BIT(i);
	return set;
}

/* What allow and refuse say against each other, and against what no profile can be. */
static int check_operations(const struct draft *d, const char *file, struct err *e)
{
	uint64_t both = d->allow & d->refuse, needed = d->refuse & OPERATIONS_NEEDED, never = d->allow & never_allowed();

	if (both) {
		err_set(e, ERR_BAD_PARAM, "%s is allowed in line %lld, and refused here: take it out of one of them", first_of(both),
			(long long)d->line[KEY_ALLOW]);
		return blame(d, KEY_REFUSE, file, e);
	}
	if (needed) {
		err_set(e, ERR_BAD_PARAM, "no sandbox can work without the operation %s", first_of(needed));
		return blame(d, KEY_REFUSE, file, e);
	}
	if (never) {
		err_set(e, ERR_BAD_PARAM, "no profile may allow the operation %s: it would be weaker than low", first_of(never));
		return blame(d, KEY_ALLOW, file, e);
	}
	return 0;
}

static int check_code(const struct draft *d, uint64_t operations, const char *file, struct err *e)
{
	uint64_t code = operations & CODE;

	if (!d->line[KEY_DYNAMIC_CODE])
		return 0;
	if (d->dynamic_code && (d->refuse & OPERATION(DYNAMIC_CODE)))
		err_set(e, ERR_BAD_PARAM, "yes, and line %lld refuses the operation dynamic_code: take one of them out", (long long)d->line[KEY_REFUSE]);
	else if (!d->dynamic_code && (d->allow & CODE))
		err_set(e, ERR_BAD_PARAM, "no, and line %lld allows the operation %s, which makes new code: take one of them out",
			(long long)d->line[KEY_ALLOW], first_of(d->allow & CODE));
	else if (!d->dynamic_code && d->base == PROFILE_LOW && code != 0)
		err_set(e, ERR_BAD_PARAM, "no, and base = low allows system calls that nobody has looked at, so it can't refuse new code: take base = medium");
	else
		return 0;
	return blame(d, KEY_DYNAMIC_CODE, file, e);
}

static int check_network(const struct draft *d, bool network, uint64_t operations, const char *file, struct err *e)
{
	uint64_t sockets = operations & SOCKETS;
	enum key key = d->line[KEY_NETWORK] ? KEY_NETWORK : d->allow & SOCKETS ? KEY_ALLOW : KEY_BASE;

	if (!network && d->base == PROFILE_LOW)
		err_set(e, ERR_BAD_PARAM, "none, and base = low allows system calls that nobody has looked at, so it can't refuse the network: take base = medium");
	else if (!network && sockets)
		err_set(e, ERR_BAD_PARAM, "%s is allowed, and network = none: write network = host, or don't allow it", first_of(sockets));
	else if (network && !sockets)
		err_set(e, ERR_BAD_PARAM, "host, and no operation that uses it is allowed: write allow = network_client, or network_server");
	else
		return 0;
	return blame(d, key, file, e);
}

/* Landlock isn't asked to refuse what these need. Rights to files are given by folder, to what lies in its root. */
static void landlock_leave(struct policy *p, uint64_t operations)
{
	for (int i = 0; i < OPERATION__N; i++) {
		uint64_t fs, net;

		operation_landlock((enum operation)i, &fs, &net);
		if (operations & OPERATION_BIT(i)) {
			p->landlock_fs &= ~fs;
			p->landlock_net &= ~net;
		}
	}
}

static int check_paths(const struct draft *d, uint64_t operations, const char *file, struct err *e)
{
	enum key key = d->write.n > 0 ? KEY_WRITE_PATHS : KEY_READ_PATHS;

	if (d->read.n + d->write.n == 0)
		return 0;
	if (d->base == PROFILE_LOW)
		err_set(e, ERR_BAD_PARAM, "base = low sees all files of the machine: take base = medium, or leave the paths out");
	else if (d->write.n > 0 && !(operations & OPERATION(FILE_WRITE)))
		err_set(e, ERR_BAD_PARAM, "the operation file_write is refused (line %lld): make them read_paths, or don't refuse it",
			(long long)d->line[KEY_REFUSE]);
	else
		return 0;
	return blame(d, key, file, e);
}

static void paths_put(struct policy *p, const struct draft *d)
{
	p->n_read_paths = d->read.n;
	p->n_write_paths = d->write.n;
	memcpy(p->paths, d->read.text, d->read.size);
	memcpy(p->paths + d->read.size, d->write.text, d->write.size);
}

static int combine(const struct draft *d, struct policy *p, const char *file, struct err *e)
{
	const struct policy *base = profile_builtin(d->base);
	bool network = d->line[KEY_NETWORK] ? d->network : d->base == PROFILE_LOW;
	uint64_t asked = (base->operations | d->allow) & ~d->refuse;

	if (check_operations(d, file, e) == -1 || check_code(d, asked, file, e) == -1)
		return -1;
	if (d->line[KEY_DYNAMIC_CODE])
		asked = d->dynamic_code ? asked | OPERATION(DYNAMIC_CODE) : asked & ~OPERATION(DYNAMIC_CODE);
	if (check_network(d, network, asked, file, e) == -1 || check_paths(d, asked, file, e) == -1)
		return -1;
	p->operations = asked;
	paths_put(p, d);
	p->refuse_new_code = base->refuse_new_code && !(asked & CODE);
	landlock_leave(p, asked & (OPERATION(EXEC) | SOCKETS));
	if (d->line[KEY_AUDIT_LEVEL])
		p->audit = d->audit;
	if (d->line[KEY_MAX_MODULE_SIZE])
		p->max_module_bytes = d->max_module_bytes;
	if (d->line[KEY_ADMINISTRATORS_ONLY])
		p->administrators_only = d->administrators_only;
	return policy_check(p, e) == -1 ? err_prefix(e, "%s", file) : 0;
}

int profile_parse(struct policy *ret, const char *name, const char *text, size_t size, const char *file, const struct profile_paths *paths,
	struct err *e)
{
	struct draft d = { .base = PROFILE_NONE, .paths = paths };
	struct policy p;

	if (profile_name_check(name, e) == -1)
		return err_prefix(e, "%s", file);
	if (config_text_read(text, size, LIMIT_PROFILE_BYTES, file, key_names, KEY__N, set_line, &d, e) == -1)
		return -1;
	if (!d.line[KEY_BASE]) {
		err_set(e, ERR_BAD_PARAM, "%s: base is missing: write base = high, medium or low", file);
		return err_about(e, "base", -1);
	}
	p = *profile_builtin(d.base);
	(void)snprintf(p.name, sizeof p.name, "%s", name);
	if (combine(&d, &p, file, e) == -1)
		return -1;
	*ret = p;
	return 0;
}

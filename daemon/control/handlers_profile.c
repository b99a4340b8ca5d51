/* SPDX-License-Identifier: MIT
 *
 * profile.*: what profiles there are, what each comes to, where two differ; and whether a text would be one. All from memory: the files
 * were read by the spawner when the daemon started. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "daemon/control/control.h"
#include "daemon/control/handlers.h"
#include "proto/json_out.h"
#include "proto/landlock_abi.h"
#include "proto/profile_file.h"

struct bit {
	uint64_t bit;
	const char *name;
};

static const struct bit namespace_bits[] = { { CLONE_NEWPID, "pid" }, { CLONE_NEWNS, "mount" }, { CLONE_NEWIPC, "ipc" }, { CLONE_NEWUTS, "uts" },
	{ CLONE_NEWCGROUP, "cgroup" }, { CLONE_NEWNET, "net" }, { 0, NULL } };
static const struct bit fs_bits[] = { { LL_FS_EXECUTE, "execute" }, { LL_FS_WRITE_FILE, "write_file" }, { LL_FS_READ_FILE, "read_file" },
	{ LL_FS_READ_DIR, "read_dir" }, { LL_FS_REMOVE_DIR, "remove_dir" }, { LL_FS_REMOVE_FILE, "remove_file" }, { LL_FS_MAKE_CHAR, "make_char" },
	{ LL_FS_MAKE_DIR, "make_dir" }, { LL_FS_MAKE_REG, "make_reg" }, { LL_FS_MAKE_SOCK, "make_sock" }, { LL_FS_MAKE_FIFO, "make_fifo" },
	{ LL_FS_MAKE_BLOCK, "make_block" }, { LL_FS_MAKE_SYM, "make_sym" }, { LL_FS_REFER, "refer" }, { LL_FS_TRUNCATE, "truncate" },
	{ LL_FS_IOCTL_DEV, "ioctl_dev" }, { 0, NULL } };
static const struct bit net_bits[] = { { LL_NET_BIND_TCP, "bind_tcp" }, { LL_NET_CONNECT_TCP, "connect_tcp" }, { 0, NULL } };
static const struct bit scope_bits[] = { { LL_SCOPE_ABSTRACT_UNIX_SOCKET, "abstract_unix_socket" }, { LL_SCOPE_SIGNAL, "signal" }, { 0, NULL } };

/* ---- settings, as JSON and as texts ---- */

static const char *network_text(const struct policy *p)
{
	return policy_has_network(p) ? "host" : "none";
}

static const char *forbidden_text(const struct policy *p)
{
	return p->forbidden == POLICY_KILL ? "killed" : "refused";
}

static const char *unlisted_text(const struct policy *p)
{
	return p->unlisted == POLICY_ALLOW ? "allowed" : "refused";
}

static bool has_new_code(const struct policy *p)
{
	return p->operations & OPERATION(DYNAMIC_CODE);
}

static void names_add(struct json_out *o, const struct bit *names, uint64_t set)
{
	for (; names->name; names++)
		if (set & names->bit)
			json_out_text(o, NULL, names->name);
}

static void names_json(struct json_out *o, const char *member, const struct bit *names, uint64_t set)
{
	json_out_array(o, member);
	names_add(o, names, set);
	json_out_array_end(o);
}

static void settings_json(struct json_out *o, const struct policy *p, bool built_in)
{
	char fingerprint[POLICY_FINGERPRINT_BYTES + 1];

	policy_fingerprint(p, fingerprint);
	json_out_text(o, "profile", p->name);
	json_out_text(o, "base", profile_builtin(p->base)->name);
	json_out_bool(o, "built_in", built_in);
	json_out_text(o, "fingerprint", fingerprint);
	json_out_text(o, "network", network_text(p));
	json_out_text(o, "audit_level", policy_audit_text(p->audit));
	json_out_u64(o, "max_module_size", p->max_module_bytes);
	json_out_bool(o, "administrators_only", p->administrators_only);
	json_out_bool(o, "dynamic_code", has_new_code(p));
}

static void namespaces_text(const struct policy *p, char *to, size_t room)
{
	size_t put = 0;

	to[0] = '\0';
	for (const struct bit *b = namespace_bits; b->name && put < room; b++)
		if (p->namespaces & b->bit)
			put += (size_t)snprintf(to + put, room - put, "%s%s", put ? " " : "", b->name);
}

static void paths_text(const struct policy *p, bool writes, char *to, size_t room)
{
	const char *path;
	size_t put = 0;
	bool its = false;

	to[0] = '\0';
	for (size_t i = 0; (path = policy_path(p, i, &its)) && put < room; i++)
		if (its == writes)
			put += (size_t)snprintf(to + put, room - put, "%s%s", put ? " " : "", path);
}

#define N_SETTINGS    11
#define SETTING_BYTES (LIMIT_PROFILE_PATHS_BYTES + 1)

static void settings_text(const struct policy *p, char texts[N_SETTINGS][SETTING_BYTES])
{
	static const char *const answers[] = { "no", "yes" };

	(void)snprintf(texts[0], SETTING_BYTES, "%s", profile_builtin(p->base)->name);
	(void)snprintf(texts[1], SETTING_BYTES, "%s", network_text(p));
	(void)snprintf(texts[2], SETTING_BYTES, "%s", policy_audit_text(p->audit));
	(void)snprintf(texts[3], SETTING_BYTES, "%" PRIu32, p->max_module_bytes);
	(void)snprintf(texts[4], SETTING_BYTES, "%s", answers[p->administrators_only]);
	(void)snprintf(texts[5], SETTING_BYTES, "%s", answers[has_new_code(p)]);
	(void)snprintf(texts[6], SETTING_BYTES, "%s", forbidden_text(p));
	(void)snprintf(texts[7], SETTING_BYTES, "%s", unlisted_text(p));
	namespaces_text(p, texts[8], SETTING_BYTES);
	paths_text(p, false, texts[9], SETTING_BYTES);
	paths_text(p, true, texts[10], SETTING_BYTES);
}

static const char *const setting_names[N_SETTINGS] = { "base", "network", "audit_level", "max_module_size", "administrators_only", "dynamic_code",
	"forbidden", "unlisted", "namespaces", "read_paths", "write_paths" };

/* ---- one ---- */

static void operation_json(struct json_out *o, const struct control *c, const struct policy *p, enum operation op)
{
	int refusal = operation_refusal(op);
	uint64_t fs, net;

	operation_landlock(op, &fs, &net);
	json_out_object(o, NULL);
	json_out_text(o, "operation", operation_name(op));
	json_out_bool(o, "allowed", p->operations & OPERATION_BIT(op));
	json_out_text(o, "refused_with", refusal ? strerrorname_np(refusal) : forbidden_text(p));
	json_out_u64(o, "calls", c->begin.n_calls[op]);
	json_out_array(o, "landlock");
	names_add(o, fs_bits, fs);
	names_add(o, net_bits, net);
	json_out_array_end(o);
	json_out_text(o, "help", operation_help(op));
	json_out_object_end(o);
}

static void paths_json(struct json_out *o, const char *member, const struct policy *p, bool writes)
{
	const char *path;
	bool its = false;

	json_out_array(o, member);
	for (size_t i = 0; (path = policy_path(p, i, &its)); i++)
		if (its == writes)
			json_out_text(o, NULL, path);
	json_out_array_end(o);
}

static const struct rpc_done *answer_policy(const struct control *c, struct rpc_request *r, const struct policy *p, bool built_in)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	json_out_object(&o, NULL);
	settings_json(&o, p, built_in);
	json_out_text(&o, "forbidden", forbidden_text(p));
	json_out_text(&o, "unlisted", unlisted_text(p));
	paths_json(&o, "read_paths", p, false);
	paths_json(&o, "write_paths", p, true);
	names_json(&o, "namespaces", namespace_bits, p->namespaces);
	json_out_object(&o, "landlock");
	names_json(&o, "files", fs_bits, p->landlock_fs);
	names_json(&o, "network", net_bits, p->landlock_net);
	names_json(&o, "scopes", scope_bits, p->landlock_scopes);
	json_out_object_end(&o);
	json_out_array(&o, "operations");
	for (int op = 0; op < OPERATION__N; op++)
		operation_json(&o, c, p, (enum operation)op);
	json_out_array_end(&o);
	json_out_object_end(&o);
	return handler_answer(r, &b);
}

/* PROFILE_NONE with err not_found. */
static enum profile profile_param(const struct rpc_request *r, const char *param, struct err *e)
{
	enum profile id = profile_wanted(rpc_text(r, param), e);

	if (id == PROFILE_NONE) {
		(void)err_about(e, param, -1);
		e->code = ERR_NOT_FOUND;
	}
	return id;
}

/* ---- the methods ---- */

const struct rpc_done *profile_list(struct control *c, struct rpc_request *r)
{
	struct buf b = BUF_INIT;
	struct json_out o = json_out_to(&b);

	(void)c;
	json_out_object(&o, NULL);
	json_out_array(&o, "profiles");
	for (enum profile id = PROFILE_HIGH; profile_policy(id); id++) {
		json_out_object(&o, NULL);
		settings_json(&o, profile_policy(id), id < PROFILE__N);
		json_out_u64(&o, "operations", (uint64_t)__builtin_popcountll(profile_policy(id)->operations));
		json_out_object_end(&o);
	}
	json_out_array_end(&o);
	json_out_object_end(&o);
	return handler_answer(r, &b);
}

const struct rpc_done *profile_show(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	enum profile id = profile_param(r, "profile", &e);

	return id == PROFILE_NONE ? rpc_error(r, &e, NULL) : answer_policy(c, r, profile_policy(id), id < PROFILE__N);
}

const struct rpc_done *profile_validate(struct control *c, struct rpc_request *r)
{
	const char *text = rpc_text(r, "text"), *name = rpc_text(r, "name") ? rpc_text(r, "name") : "profile";
	char file[LIMIT_ID_BYTES + sizeof PROFILE_FILE_SUFFIX];
	struct err e = ERR_INIT;
	struct policy p;

	(void)snprintf(file, sizeof file, "%s" PROFILE_FILE_SUFFIX, name);
	return profile_parse(&p, name, text, strlen(text), file, NULL, &e) < 0 ? rpc_error(r, &e, NULL) : answer_policy(c, r, &p, false);
}

static void differences_json(struct json_out *o, const struct policy *a, const struct policy *b)
{
	char of_a[N_SETTINGS][SETTING_BYTES], of_b[N_SETTINGS][SETTING_BYTES];

	json_out_array(o, "operations");
	for (int op = 0; op < OPERATION__N; op++) {
		if (!((a->operations ^ b->operations) & OPERATION_BIT(op)))
			continue;
		json_out_object(o, NULL);
		json_out_text(o, "operation", operation_name((enum operation)op));
		json_out_bool(o, "a", a->operations & OPERATION_BIT(op));
		json_out_bool(o, "b", b->operations & OPERATION_BIT(op));
		json_out_object_end(o);
	}
	json_out_array_end(o);
	settings_text(a, of_a);
	settings_text(b, of_b);
	json_out_array(o, "settings");
	for (size_t i = 0; i < N_SETTINGS; i++) {
		if (strcmp(of_a[i], of_b[i]) == 0)
			continue;
		json_out_object(o, NULL);
		json_out_text(o, "setting", setting_names[i]);
		json_out_text(o, "a", of_a[i]);
		json_out_text(o, "b", of_b[i]);
		json_out_object_end(o);
	}
	json_out_array_end(o);
}

static bool is_same(const struct policy *a, const struct policy *b)
{
	char of_a[N_SETTINGS][SETTING_BYTES], of_b[N_SETTINGS][SETTING_BYTES];

	settings_text(a, of_a);
	settings_text(b, of_b);
	for (size_t i = 0; i < N_SETTINGS; i++)
		if (strcmp(of_a[i], of_b[i]) != 0)
			return false;
	return a->operations == b->operations;
}

const struct rpc_done *profile_diff(struct control *c, struct rpc_request *r)
{
	struct err e = ERR_INIT;
	enum profile a = profile_param(r, "a", &e), b = a == PROFILE_NONE ? PROFILE_NONE : profile_param(r, "b", &e);
	struct buf text = BUF_INIT;
	struct json_out o = json_out_to(&text);

	(void)c;
	if (b == PROFILE_NONE)
		return rpc_error(r, &e, NULL);
	json_out_object(&o, NULL);
	json_out_text(&o, "a", profile_policy(a)->name);
	json_out_text(&o, "b", profile_policy(b)->name);
	json_out_bool(&o, "same", is_same(profile_policy(a), profile_policy(b)));
	differences_json(&o, profile_policy(a), profile_policy(b));
	json_out_object_end(&o);
	return handler_answer(r, &text);
}

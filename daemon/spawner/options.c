/* SPDX-License-Identifier: MIT
 *
 * Options are few and long only. The file is read before any other user's input is, and only if nobody else could have
 * written it. */
#include "daemon/spawner/options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/spawner/trusted.h"
#include "proto/fd.h"
#include "proto/names.h"
#include "proto/protection.h"

#define CONFIG_FILE "/etc/sandboxd/sandboxd.conf"
#define USERS_FILE  "/etc/passwd"
#define GROUPS_FILE "/etc/group"
#define NAMES_BYTES (4u << 20) /* of each: some 50,000 users */

const char options_help[] =
	"Usage: sandboxd [OPTION]...\n"
	"\n"
	"Keeps native modules running, confined and up to date: one supervised process per\n"
	"sandbox, code replaced under way with its state. Stays in the foreground and logs to\n"
	"stderr; sandboxctl talks to it over a Unix socket.\n"
	"\n"
	"Started as root, control, each compile job and each sandbox get a user id of their\n"
	"own. Started as an ordinary user, all run as that user, in the XDG folders.\n"
	"\n"
	"  --socket PATH       socket to listen on (sandboxd.sock in the runtime folder)\n"
	"  --state-dir DIR     what survives a reboot (root: /var/lib/sandboxd; a user:\n"
	"                      $XDG_STATE_HOME/sandboxd or ~/.local/state/sandboxd)\n"
	"  --runtime-dir DIR   what doesn't; may not be mounted noexec for a user (root:\n"
	"                      /run/sandboxd; a user: $XDG_RUNTIME_DIR/sandboxd or\n"
	"                      /tmp/sandboxd-UID)\n"
	"  --config FILE       configuration (root: " CONFIG_FILE ", if there);\n"
	"                      must belong to root or to you, writable by nobody else\n"
	"  --simulate FILE     no daemon: read scenarios of groups from FILE (-: standard input),\n"
	"                      print what would happen, one line of JSON each, and exit\n"
	"  --otp               with --simulate: Erlang/OTP's rules to the letter\n"
	"  --explain           with --simulate: a sentence for each decision\n"
	"  --check-config      read configuration, profiles and command line, say what is\n"
	"                      wrong, exit\n"
	"  --debug             log more\n"
	"  --fault FAULT       for tests: POINT=error[:ERRNO]|crash|hang|kill|trace[:N], the\n"
	"                      N-th time that the point is passed; several may be given\n"
	"  --weaken NAME,...   for tests only: hosts lack these protections, by the names that\n"
	"                      `sandboxctl info` shows; said in the log and in each report\n"
	"  --landlock-abi N    for tests only: as if the kernel had Landlock's ABI N\n"
	"  --version           print the version and exit\n"
	"  --help              print this and exit\n"
	"\n"
	"Configuration: lines `key = value`, `#` begins a comment. Keys: socket, state_dir,\n"
	"runtime_dir, socket_mode, socket_group, administrators, operators,\n"
	"administrator_groups, operator_groups, uid_first, uid_count, max_sandboxes,\n"
	"max_memory_bytes, max_processes, max_open_files, max_file_size_bytes, spare_hosts,\n"
	"max_jobs, max_sandboxes_per_owner, max_memory_per_owner, max_store_bytes_per_owner,\n"
	"max_jobs_per_owner, compile_memory_bytes, compile_timeout_ms, shutdown_timeout_ms,\n"
	"zygote_hosts, zygote_age_ms. Users and groups are\n"
	"numbers, or names of /etc/passwd and /etc/group. Options of the command line go before it.\n"
	"\n"
	"Signals: SIGTERM, SIGINT stop all sandboxes in order and end; a second one hurries.\n"
	"SIGHUP replaces the running program by the one that is installed now, as `sandboxctl\n"
	"upgrade` does: sandboxes run on, the configuration is read again.\n"
	"\n"
	"Profiles: NAME.profile in the folder profiles.d beside the configuration, likewise owned;\n"
	"sandboxd.conf(5) has their keys.\n"
	"\n"
	"Exit status: 0 stopped when asked, or done, 1 failed, 2 usage, configuration or\n"
	"scenario, 4 already running.\n"
	"\n"
	"Files: RUNTIME/lock (held while running; has the pid), RUNTIME/objects, RUNTIME/jobs,\n"
	"/run/sandboxd.uids (root: which daemon uses which user ids).\n";

static const char *const option_names[] = { "--socket", "--state-dir", "--runtime-dir", "--config", "--simulate", "--otp", "--explain",
	"--check-config", "--debug", "--fault", "--version", "--help", "--weaken", "--landlock-abi" };

static int option_unknown(const char *argument, struct err *e)
{
	int near = name_nearest(argument, option_names, sizeof option_names / sizeof *option_names);

	if (near >= 0)
		return err_set(e, ERR_UNKNOWN_PARAM, "unknown option '%.40s'; is '%s' meant?", argument, option_names[near]);
	return err_set(e, ERR_UNKNOWN_PARAM, "unknown option '%.40s'", argument);
}

/* Both forms: --name VALUE and --name=VALUE. 1: it was this option, 0: not, -1: without a value. */
static int option_value(const char *name, int argc, char **argv, int *i, const char **ret, struct err *e)
{
	size_t size = strlen(name);

	if (strncmp(argv[*i], name, size) != 0 || (argv[*i][size] != '\0' && argv[*i][size] != '='))
		return 0;
	if (argv[*i][size] == '=')
		*ret = argv[*i] + size + 1;
	else if (*i + 1 < argc)
		*ret = argv[++*i];
	else
		return err_set(e, ERR_BAD_PARAM, "%s has no value", name);
	return **ret ? 1 : err_set(e, ERR_BAD_PARAM, "%s has an empty value", name);
}

/* Like option_value, but it may come several times. */
static int fault_option(struct options *o, int argc, char **argv, int *i, struct err *e)
{
	const char *text = NULL;
	int known = option_value("--fault", argc, argv, i, &text, e);

	if (known != 1)
		return known;
	if (o->n_faults == LIMIT_FAULTS)
		return err_set(e, ERR_LIMIT_EXCEEDED, "--fault: at most %d can be planted", LIMIT_FAULTS);
	return fault_parse(text, &o->faults[o->n_faults++], e) == -1 ? -1 : 1;
}

static int tests_parse(struct options *o, struct err *e)
{
	char *end = NULL;
	long abi = -1;

	if (o->weaken && protection_set_parse(o->weaken, &o->weaken_bits, e) == -1)
		return err_prefix(e, "--weaken");
	if (o->landlock_abi) {
		abi = strtol(o->landlock_abi, &end, 10);
		if (*end || abi < 0 || abi > 1000)
			return err_set(e, ERR_BAD_PARAM, "--landlock-abi: not a number from 0 to 1000");
	}
	o->abi = (int)abi;
	return 0;
}

int options_parse(struct options *o, int argc, char **argv, struct err *e)
{
	const struct {
		const char *name;
		const char **value;
		bool *flag;
	} rows[] = {
		{ "--socket", &o->socket, NULL }, { "--state-dir", &o->state_dir, NULL },
		{ "--runtime-dir", &o->runtime_dir, NULL }, { "--config", &o->config, NULL },
		{ "--weaken", &o->weaken, NULL }, { "--landlock-abi", &o->landlock_abi, NULL },
		{ "--take-over", &o->take_over, NULL }, { "--can-take-over", &o->can_take_over, NULL },
		{ "--simulate", &o->simulate, NULL }, { "--otp", NULL, &o->otp }, { "--explain", NULL, &o->explain },
		{ "--check-config", NULL, &o->check_config }, { "--debug", NULL, &o->debug },
		{ "--version", NULL, &o->version }, { "--help", NULL, &o->help },
	};

	memset(o, 0, sizeof *o);
	for (int i = 1; i < argc; i++) {
		int known = fault_option(o, argc, argv, &i, e);

		for (size_t j = 0; j < sizeof rows / sizeof *rows && known == 0; j++) {
			if (rows[j].value)
				known = option_value(rows[j].name, argc, argv, &i, rows[j].value, e);
			else if (strcmp(argv[i], rows[j].name) == 0)
				known = *rows[j].flag = true;
		}
		if (known == -1)
			return -1;
		if (known == 0)
			return option_unknown(argv[i], e);
	}
	if ((o->otp || o->explain) && !o->simulate)
		return err_set(e, ERR_BAD_PARAM, "%s goes with --simulate", o->otp ? "--otp" : "--explain");
	return tests_parse(o, e);
}

/* A file that can't be read has no names: whoever uses one is told. */
static char *names_read(const char *path, size_t *ret_size)
{
	autoclose int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct err ignored = ERR_INIT;

	*ret_size = 0;
	return fd == -1 ? NULL : fd_read_all(fd, NAMES_BYTES, ret_size, &ignored);
}

static int file_apply(struct config *c, const char *path, bool may_lack, struct err *e)
{
	struct config_names names = { 0 };
	struct err why = ERR_INIT;
	char *text, *users, *groups;
	size_t size;
	int result;

	text = trusted_read(AT_FDCWD, path, "configuration", path, LIMIT_CONFIG_BYTES, &size, &why);
	if (!text && may_lack && why.sys_errno == ENOENT)
		return 0;
	if (!text) {
		*e = why;
		return -1;
	}
	users = names_read(USERS_FILE, &names.users_size);
	groups = names_read(GROUPS_FILE, &names.groups_size);
	names.users = users;
	names.groups = groups;
	result = config_parse_named(c, text, size, path, &names, e);
	free(users);
	free(groups);
	free(text);
	return result;
}

/* Beside the configuration. An ordinary user who names none has none. */
static int own_profiles(const struct options *o, const struct config *c, struct err *e)
{
	const char *file = o->config ? o->config : geteuid() == 0 ? CONFIG_FILE : NULL, *slash = file ? strrchr(file, '/') : NULL;
	char folder[LIMIT_PATH_BYTES + 1];
	int n;

	if (!file)
		return 0;
	n = slash ? snprintf(folder, sizeof folder, "%.*s", (int)(slash - file), file) : snprintf(folder, sizeof folder, ".");
	if (n < 0 || (size_t)n >= sizeof folder)
		return err_set(e, ERR_BAD_PARAM, "--config: a path of at most %d bytes fits", LIMIT_PATH_BYTES);
	return profiles_load(folder, c, e);
}

/* A relative path of the command line is the caller's: made absolute here, since processes run in other folders. */
static int path_set(char *to, size_t room, const char *from, const char *option, struct err *e)
{
	char cwd[LIMIT_PATH_BYTES + 1];
	int n;

	if (from[0] == '/')
		n = snprintf(to, room, "%s", from);
	else if (!getcwd(cwd, sizeof cwd))
		return err_sys(e, ERR_IO, "%s: cannot tell the current folder", option);
	else
		n = snprintf(to, room, "%s/%s", cwd, from);
	if (n < 0 || (size_t)n >= room)
		return err_set(e, ERR_BAD_PARAM, "%s: a path of at most %zu bytes fits", option, room - 1);
	return 0;
}

static int config_read(const struct options *o, struct config *c, struct err *e)
{
	struct config standard;

	config_defaults(&standard, geteuid());
	*c = standard;
	if (o->config ? file_apply(c, o->config, false, e) == -1 : geteuid() == 0 && file_apply(c, CONFIG_FILE, true, e) == -1)
		return -1;
	if (o->runtime_dir && path_set(c->runtime_dir, sizeof c->runtime_dir, o->runtime_dir, "--runtime-dir", e) == -1)
		return -1;
	if (o->state_dir && path_set(c->state_dir, sizeof c->state_dir, o->state_dir, "--state-dir", e) == -1)
		return -1;
	if (o->socket)
		return path_set(c->socket_path, sizeof c->socket_path, o->socket, "--socket", e) == -1 ? -1 : config_check(c, e);
	/* A runtime folder of one's own brings the socket along, unless that is named too. */
	if (strcmp(c->socket_path, standard.socket_path) == 0 && strcmp(c->runtime_dir, standard.runtime_dir) != 0) {
		int n = snprintf(c->socket_path, sizeof c->socket_path, "%s/sandboxd.sock", c->runtime_dir);

		if (n < 0 || (size_t)n >= sizeof c->socket_path)
			return err_set(e, ERR_BAD_PARAM, "%s is too long for a socket in it: name one with --socket", c->runtime_dir);
	}
	return config_check(c, e);
}

int options_config(const struct options *o, struct config *c, struct err *e)
{
	return config_read(o, c, e) == -1 ? -1 : own_profiles(o, c, e);
}

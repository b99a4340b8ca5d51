/* SPDX-License-Identifier: MIT
 *
 * Which ABI brought which right is the table below; everything else follows from it. */
#include "daemon/host/zygote/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/fd.h"

/* The same on all architectures. */
#define NR_CREATE_RULESET 444
#define NR_ADD_RULE       445
#define NR_RESTRICT_SELF  446

static const struct arrival {
	int abi;
	uint64_t fs, net, scopes;
	const char *what, *kernel;
} arrivals[] = {
	{ 1, LL_FS_REFER - 1, 0, 0, "files", "5.13" },
	{ 2, LL_FS_REFER, 0, 0, "moves", "5.19" },
	{ 3, LL_FS_TRUNCATE, 0, 0, "truncating", "6.2" },
	{ 4, 0, LL_NET_ALL, 0, "tcp", "6.7" },
	{ 5, LL_FS_IOCTL_DEV, 0, 0, "device controls", "6.10" },
	{ 6, 0, 0, LL_SCOPE_ABSTRACT_UNIX_SOCKET, "abstract sockets", "6.12" },
	{ 6, 0, 0, LL_SCOPE_SIGNAL, "signals", "6.12" },
};

static void add_word(char *to, size_t size, const char *what, const char *kernel)
{
	size_t used = strlen(to);

	(void)snprintf(to + used, size - used, "%s%s%s%s%s", used ? ", " : "", what, kernel ? " (Linux " : "", kernel ? kernel : "",
		kernel ? ")" : "");
}

void landlock_cover(const struct policy *p, int abi, struct landlock_ruleset *ret)
{
	*ret = (struct landlock_ruleset){ .fd = -1, .abi = abi };
	for (size_t i = 0; i < sizeof arrivals / sizeof *arrivals; i++) {
		const struct arrival *a = &arrivals[i];

		if (!((a->fs & p->landlock_fs) | (a->net & p->landlock_net) | (a->scopes & p->landlock_scopes)))
			continue;
		if (a->abi > abi) {
			add_word(ret->lacks, sizeof ret->lacks, a->what, a->kernel);
			continue;
		}
		ret->fs |= a->fs & p->landlock_fs;
		ret->net |= a->net & p->landlock_net;
		ret->scopes |= a->scopes & p->landlock_scopes;
		add_word(ret->got, sizeof ret->got, a->what, NULL);
	}
}

int landlock_abi(void)
{
	long abi = syscall(NR_CREATE_RULESET, NULL, 0, LL_CREATE_RULESET_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

/* ABI 1 knows the first field only, 4 two of them; a kernel refuses what it doesn't know. */
static size_t attr_size(int abi)
{
	if (abi >= 6)
		return sizeof(struct ll_ruleset_attr);
	return abi >= 4 ? offsetof(struct ll_ruleset_attr, scoped) : offsetof(struct ll_ruleset_attr, handled_access_net);
}

#define FILE_RIGHTS (LL_FS_EXECUTE | LL_FS_WRITE_FILE | LL_FS_READ_FILE | LL_FS_TRUNCATE | LL_FS_IOCTL_DEV)

static int add_folder(const struct landlock_ruleset *r, const struct landlock_folder *folder, struct err *e)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = folder->is_granted ? RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS : 0 };
	autoclose int fd = (int)syscall(SYS_openat2, AT_FDCWD, folder->path, &how, sizeof how);
	struct ll_path_beneath_attr rule = { .allowed_access = folder->rights & r->fs, .parent_fd = fd };
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, ERR_START_FAILED, "Landlock: cannot open the folder %s", folder->path);
	if (!S_ISDIR(st.st_mode)) /* a file has no others in it */
		rule.allowed_access &= FILE_RIGHTS;
	if (rule.allowed_access == 0)
		return 0;
	if (syscall(NR_ADD_RULE, r->fd, LL_RULE_PATH_BENEATH, &rule, 0) < 0)
		return err_sys(e, ERR_START_FAILED, "Landlock: cannot add a rule for %s", folder->path);
	return 0;
}

int landlock_make(const struct policy *p, int abi, const struct landlock_folder *folders, size_t n, struct landlock_ruleset *ret,
	struct err *e)
{
	int own = landlock_abi();
	struct ll_ruleset_attr attr;

	landlock_cover(p, abi < 0 || abi > own ? own : abi, ret);
	attr = (struct ll_ruleset_attr){ ret->fs, ret->net, ret->scopes };
	if (!(ret->fs | ret->net | ret->scopes))
		return 0;
	ret->fd = (int)syscall(NR_CREATE_RULESET, &attr, attr_size(ret->abi), 0);
	if (ret->fd < 0)
		return err_sys(e, ERR_START_FAILED, "cannot make a Landlock ruleset (ABI %d)", ret->abi);
	for (size_t i = 0; i < n && ret->fs; i++)
		if (add_folder(ret, &folders[i], e) < 0) {
			fd_close(&ret->fd);
			return -1;
		}
	return 0;
}

int landlock_restrict(int fd)
{
	return fd < 0 ? 0 : (int)syscall(NR_RESTRICT_SELF, fd, 0);
}

/* SPDX-License-Identifier: MIT
 *
 * The lock file of user id slices. Open-file-description locks: a fork doesn't lose them and a close of another
 * descriptor doesn't drop them. */
#include "daemon/spawner/slices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/spawner/uids.h"
#include "proto/fd.h"

#define ACCOUNT_FILE_BYTES (16u << 20)

static int accounts_check(const struct config *c, struct err *e)
{
	static const struct {
		const char *path;
		enum uids_file kind;
	} files[] = {
		{ "/etc/passwd", UIDS_FILE_ACCOUNTS },
		{ "/etc/group", UIDS_FILE_ACCOUNTS },
		{ "/etc/subuid", UIDS_FILE_RANGES },
		{ "/etc/subgid", UIDS_FILE_RANGES },
	};

	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		autoclose int fd = open(files[i].path, O_RDONLY | O_CLOEXEC);
		char name[64];
		size_t size;
		bool meets;
		char *text;

		if (fd == -1 && errno == ENOENT)
			continue;
		if (fd == -1)
			return err_sys(e, ERR_UNAVAILABLE, "cannot read %s", files[i].path);
		text = fd_read_all(fd, ACCOUNT_FILE_BYTES, &size, e);
		if (!text)
			return err_prefix(e, "cannot read %s", files[i].path);
		meets = uids_text_meets(text, size, files[i].kind, c->uid_first, c->uid_count, name);
		free(text);
		if (meets)
			return err_set(e, ERR_UNAVAILABLE,
				"the user ids %u to %u meet '%s' of %s: set uid_first and uid_count in the configuration",
				(unsigned)c->uid_first, (unsigned)(c->uid_first + c->uid_count - 1), name,
				files[i].path);
	}
	return 0;
}

int slices_open(struct slices *s, const struct config *c, struct err *e)
{
	struct stat st;

	if (accounts_check(c, e) == -1)
		return -1;
	s->first = c->uid_first;
	s->n = c->uid_count / LIMIT_UIDS_PER_SLICE;
	s->next = 0;
	s->fd = open(SLICES_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->fd == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot open %s", SLICES_FILE);
	if (fstat(s->fd, &st) == -1 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return err_set(e, ERR_UNAVAILABLE, "%s is not a private file of root's: remove it", SLICES_FILE);
	return 0;
}

int slices_lock(struct slices *s, uid_t *ret_first, struct err *e)
{
	while (s->next < s->n) {
		uint32_t slice = s->next++;
		uid_t first = s->first + slice * LIMIT_UIDS_PER_SLICE;
		/* a byte for each user id: ranges of daemons may differ, and overlap anyhow */
		struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = first, .l_len = LIMIT_UIDS_PER_SLICE };

		if (fcntl(s->fd, F_OFD_SETLK, &lock) == 0) {
			*ret_first = first;
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES)
			return err_sys(e, ERR_UNAVAILABLE, "cannot lock a slice of user ids in %s", SLICES_FILE);
	}
	return err_set(e, ERR_LIMIT_EXCEEDED,
		"all %u slices of user ids are in use: raise uid_count in the configuration", s->n);
}

void slices_close(struct slices *s)
{
	fd_close(&s->fd);
}

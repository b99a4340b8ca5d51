/* SPDX-License-Identifier: MIT */
#include "daemon/store/states.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/store/blob.h"
#include "daemon/store/folder.h"
#include "proto/fd.h"
#include "proto/limits.h"

/* The memfd is sealed: nobody can truncate it under the mapping. */
static const void *map(int memfd, size_t size, struct err *e)
{
	struct stat st;
	void *at;

	if (size == 0)
		return "";
	if (!fd_is_memfd_sealed(memfd) || fstat(memfd, &st) == -1 || (uint64_t)st.st_size != size) {
		(void)err_set(e, ERR_INTERNAL, "a state of %zu bytes isn't in a sealed memfd", size);
		return NULL;
	}
	at = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, memfd, 0);
	if (at == MAP_FAILED) {
		(void)err_sys(e, ERR_IO, "cannot map a state of %zu bytes", size);
		return NULL;
	}
	return at;
}

static void unmap(const void *at, size_t size)
{
	union { const void *in; void *out; } p = { at };

	if (size > 0)
		(void)munmap(p.out, size);
}

/* A file into a sealed memfd. -1: cannot, with err. */
static int copy_in(int fd, size_t size, int *ret_memfd, struct err *e)
{
	autoclose int memfd = memfd_create("state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t left = size;

	if (memfd == -1)
		return err_sys(e, ERR_IO, "cannot make a memfd for a state of %zu bytes", size);
	while (left > 0) {
		ssize_t n = sendfile(memfd, fd, NULL, left < (64u << 20) ? left : 64u << 20);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == 0)
			errno = EIO;
		if (n <= 0)
			return err_sys(e, ERR_IO, "cannot read a state of %zu bytes", size);
		left -= (size_t)n;
	}
	if (fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == -1)
		return err_sys(e, ERR_IO, "cannot seal a state");
	*ret_memfd = fd_take(&memfd);
	return 0;
}

static enum folder_found load(int folder_fd, const char *sha256, uint64_t bytes, int *ret_memfd, struct err *e)
{
	autoclose int fd = -1;
	autoclose int memfd = -1;
	size_t size = 0;
	char hash[SHA256_HEX_BYTES + 1];
	enum folder_found found = folder_file(folder_fd, sha256, "state", (size_t)LIMIT_STATE_BYTES, &fd, &size, e);
	const void *data;

	if (found != FOLDER_GOOD)
		return found;
	if (size != bytes) {
		(void)err_set(e, ERR_IO, "it has %zu bytes instead of %llu", size, (unsigned long long)bytes);
		return FOLDER_DAMAGED;
	}
	if (copy_in(fd, size, &memfd, e) == -1 || !(data = map(memfd, size, e)))
		return FOLDER_UNREADABLE;
	sha256_hex(data, size, hash);
	unmap(data, size);
	if (strcmp(hash, sha256) != 0) {
		(void)err_set(e, ERR_IO, "its %zu bytes have the hash %s", size, hash);
		return FOLDER_DAMAGED;
	}
	*ret_memfd = fd_take(&memfd);
	return FOLDER_GOOD;
}

int states_get(int state_dir_fd, const char *sha256, uint64_t bytes, int *ret_memfd, bool *ret_is_gone, struct err *e)
{
	autoclose int folder_fd = folder_open(state_dir_fd, FOLDER_STATES);
	struct err aside = ERR_INIT;

	*ret_is_gone = false;
	if (folder_fd == -1 && errno != ENOENT)
		return folder_open_error(FOLDER_STATES, e);
	switch (folder_fd == -1 ? FOLDER_NONE : load(folder_fd, sha256, bytes, ret_memfd, e)) {
	case FOLDER_GOOD:
		return 0;
	case FOLDER_NONE:
		*ret_is_gone = true;
		return err_set(e, ERR_OBJECT_NOT_FOUND, "there is no state %s", sha256);
	case FOLDER_UNREADABLE:
		return -1;
	case FOLDER_DAMAGED:
		break;
	}
	*ret_is_gone = true;
	if (folder_put_aside(folder_fd, sha256, "state", &aside) == -1)
		return err_prefix(e, "state %s is damaged (%s)", sha256, aside.text);
	return err_prefix(e, "state %s was damaged and has been renamed to .damaged", sha256);
}

static int put(int folder_fd, const char *sha256, const void *data, size_t size, struct err *e)
{
	autoclose int memfd = -1;
	autoclose int fd = -1;
	size_t there = 0;

	switch (load(folder_fd, sha256, size, &memfd, e)) {
	case FOLDER_GOOD:
		if (folder_file(folder_fd, sha256, "state", (size_t)LIMIT_STATE_BYTES, &fd, &there, e) != FOLDER_GOOD)
			return -1;
		return folder_sync(folder_fd, fd, sha256, "state", e);
	case FOLDER_DAMAGED:
		if (folder_put_aside(folder_fd, sha256, "state", e) == -1)
			return -1;
		break;
	case FOLDER_NONE:
		break;
	case FOLDER_UNREADABLE:
		return -1;
	}
	return folder_write(folder_fd, sha256, "state", data, size, e);
}

int states_hash(int memfd, uint64_t bytes, char sha256[SHA256_HEX_BYTES + 1], struct err *e)
{
	const void *data = map(memfd, (size_t)bytes, e);

	if (!data)
		return -1;
	sha256_hex(data, (size_t)bytes, sha256);
	unmap(data, (size_t)bytes);
	return sha256[0] ? 0 : err_set(e, ERR_INTERNAL, "no memory to hash a state");
}

int states_put(int state_dir_fd, int memfd, uint64_t bytes, char ret_sha256[SHA256_HEX_BYTES + 1], struct err *e)
{
	autoclose int folder_fd = -1;
	const void *data = map(memfd, (size_t)bytes, e);
	int result;

	if (!data || folder_make(state_dir_fd, FOLDER_STATES, &folder_fd, e) == -1) {
		if (data)
			unmap(data, (size_t)bytes);
		return -1;
	}
	sha256_hex(data, (size_t)bytes, ret_sha256);
	result = ret_sha256[0] ? put(folder_fd, ret_sha256, data, (size_t)bytes, e) :
				 err_set(e, ERR_INTERNAL, "no memory to hash a state");
	unmap(data, (size_t)bytes);
	return result;
}

/* SPDX-License-Identifier: MIT */
#include "proto/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/log.h"
#include "proto/names.h"

#define FAULT_MAGIC 0x46584253u /* "SBXF" */
#define N_MOST      1000000u

bool fault_on;

static struct fault_page *page; /* shared; mapped for good */

static const struct {
	const char *text;
	bool may_fail;
} points[] = {
#define X(name, text, process, may_fail) { text, may_fail },
#include "proto/fault_points.def"
#undef X
};

static const char *const kinds[] = { [FAULT_ERROR] = "error", [FAULT_CRASH] = "crash", [FAULT_HANG] = "hang", [FAULT_KILL] = "kill",
	[FAULT_TRACE] = "trace" };

/* Those that disks and memory give. */
static const struct {
	const char *text;
	int number;
} errnos[] = {
	{ "EIO", EIO }, { "ENOSPC", ENOSPC }, { "EDQUOT", EDQUOT }, { "EROFS", EROFS }, { "EACCES", EACCES }, { "EPERM", EPERM },
	{ "EFBIG", EFBIG }, { "ENOMEM", ENOMEM }, { "EMFILE", EMFILE }, { "ENFILE", ENFILE }, { "EAGAIN", EAGAIN }, { "ENOENT", ENOENT },
};

const char *fault_point_text(enum fault_point point)
{
	return (unsigned)point < FAULT__N ? points[point].text : "";
}

/* ---- reading an option ---- */

static int point_read(const char *text, size_t size, uint32_t *ret, struct err *e)
{
	const char *names[FAULT__N];
	char name[48];
	int near;

	for (uint32_t i = 0; i < FAULT__N; i++) {
		names[i] = points[i].text;
		if (strlen(points[i].text) == size && memcmp(points[i].text, text, size) == 0) {
			*ret = i;
			return 0;
		}
	}
	text_clean(name, sizeof name, text, size);
	near = name_nearest(name, names, FAULT__N);
	if (near >= 0)
		return err_set(e, ERR_BAD_PARAM, "--fault: there is no point '%s'; is '%s' meant?", name, names[near]);
	return err_set(e, ERR_BAD_PARAM, "--fault: there is no point '%s'; sandboxd(8) lists them", name);
}

static bool number_read(const char *text, uint32_t *ret)
{
	uint32_t n = 0;

	for (; *text >= '0' && *text <= '9' && n <= N_MOST; text++)
		n = n * 10 + (uint32_t)(*text - '0');
	*ret = n;
	return *text == '\0' && n >= 1 && n <= N_MOST;
}

/* What follows the kind: ":ERRNO" of an error, then ":N". */
static int rest_read(const char *rest, struct fault *f, struct err *e)
{
	const char *colon;

	if (f->kind == FAULT_ERROR && *rest == ':' && !(rest[1] >= '0' && rest[1] <= '9')) {
		size_t size = strcspn(rest + 1, ":");

		f->sys_errno = 0;
		for (size_t i = 0; i < sizeof errnos / sizeof errnos[0]; i++)
			if (strlen(errnos[i].text) == size && memcmp(errnos[i].text, rest + 1, size) == 0)
				f->sys_errno = errnos[i].number;
		if (f->sys_errno == 0)
			return err_set(e, ERR_BAD_PARAM, "--fault: '%.*s' is no error that can be planted (EIO, ENOSPC, EDQUOT, EROFS, EACCES, EPERM, EFBIG, "
				"ENOMEM, EMFILE, ENFILE, EAGAIN, ENOENT)", (int)(size > 20 ? 20 : size), rest + 1);
		rest += 1 + size;
	}
	if (*rest == '\0')
		return 0;
	colon = rest;
	if (*colon != ':' || !number_read(colon + 1, &f->at))
		return err_set(e, ERR_BAD_PARAM, "--fault: '%.20s' is not ':N' with N from 1 to %u", rest, N_MOST);
	return 0;
}

int fault_parse(const char *text, struct fault *ret, struct err *e)
{
	const char *equals = strchr(text, '='), *kind = equals ? equals + 1 : "";
	size_t size = strcspn(kind, ":");
	unsigned i;

	*ret = (struct fault){ .sys_errno = EIO, .at = 1 };
	if (!equals)
		return err_set(e, ERR_BAD_PARAM, "--fault: '%.60s' is not POINT=error[:ERRNO]|crash|hang|kill|trace[:N]", text);
	if (point_read(text, (size_t)(equals - text), &ret->point, e) == -1)
		return -1;
	for (i = 0; i <= FAULT_TRACE; i++)
		if (strlen(kinds[i]) == size && memcmp(kinds[i], kind, size) == 0)
			break;
	if (i > FAULT_TRACE)
		return err_set(e, ERR_BAD_PARAM, "--fault: '%.*s' is not error, crash, hang, kill or trace", (int)(size > 20 ? 20 : size), kind);
	if (i == FAULT_ERROR && !points[ret->point].may_fail)
		return err_set(e, ERR_BAD_PARAM, "--fault: nothing can fail at '%s': crash, hang or kill the process there", points[ret->point].text);
	ret->kind = i;
	return rest_read(kind + size, ret, e);
}

/* ---- the page ---- */

static int map(int fd, struct err *e)
{
	void *at = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return err_sys(e, ERR_INTERNAL, "cannot map the faults that are planted");
	page = at;
	fault_on = true;
	return 0;
}

int fault_plant(const struct fault *faults, size_t n, struct err *e)
{
	autoclose int fd = memfd_create("faults", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd == -1 || ftruncate(fd, sizeof *page) == -1 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == -1)
		return err_sys(e, ERR_INTERNAL, "cannot make the memory of the faults that are planted");
	if (map(fd, e) == -1)
		return -1;
	page->magic = FAULT_MAGIC;
	page->n = (uint32_t)n;
	memcpy(page->faults, faults, n * sizeof faults[0]);
	return fd_take(&fd);
}

int fault_use(int fd, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) == -1 || st.st_size != sizeof *page)
		return err_set(e, ERR_INTERNAL, "what was given as planted faults isn't that");
	return map(fd, e);
}

static bool happens(const struct fault *f)
{
	log_warning("a planted fault happens: %s, %s", points[f->point].text, kinds[f->kind]);
	switch ((enum fault_kind)f->kind) {
	case FAULT_ERROR:
		errno = f->sys_errno;
		return true;
	case FAULT_CRASH:
		abort();
	case FAULT_HANG:
		break;
	case FAULT_KILL:
		(void)kill(getpid(), SIGKILL);
		break;
	case FAULT_TRACE:
		return false;
	}
	for (;;)
		(void)pause();
}

bool fault_pass(enum fault_point point)
{
	uint32_t n = page->magic == FAULT_MAGIC && page->n <= LIMIT_FAULTS ? page->n : 0;

	for (uint32_t i = 0; i < n; i++) {
		struct fault f = page->faults[i];
		uint32_t passed;

		if (f.point != (uint32_t)point || f.kind > FAULT_TRACE)
			continue;
		passed = __atomic_add_fetch(&page->faults[i].passed, 1, __ATOMIC_RELAXED);
		if (f.kind == FAULT_TRACE && passed >= f.at)
			log_info("passes %s, time %u", points[point].text, passed);
		else if (passed == f.at && happens(&f))
			return true;
	}
	return false;
}

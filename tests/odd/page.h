/* SPDX-License-Identifier: MIT
 *
 * The page by which a test speaks to the odd programs of its daemon: the file `odd` beside the program, mapped when it starts, so
 * that it is seen whatever the process has given up since. The layout is known to tests/e2e/odd.py. */
#ifndef TESTS_ODD_PAGE_H
#define TESTS_ODD_PAGE_H

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum odd_fate { ODD_NONE, ODD_FAILS, ODD_KILLED, ODD_EXITS, ODD_FAULTS };

struct odd_page {
	int64_t wall_shift_us; /* the wall clock of control is so far ahead */
	uint32_t fate;         /* what becomes of a process at the step */
	uint32_t table;        /* 0: a step of the zygote, 1: of a host that is to live */
	uint32_t reached;      /* so often the step was there to be made */
	uint32_t unused;
	char step[64];
};

static inline volatile struct odd_page *odd_page_map(void)
{
	char path[PATH_MAX + 8];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
	char *slash;
	void *page;
	int fd;

	if (n <= 0)
		abort();
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		abort();
	memcpy(slash + 1, "odd", sizeof "odd");
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd == -1)
		abort();
	page = mmap(NULL, sizeof(struct odd_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void)close(fd);
	if (page == MAP_FAILED)
		abort();
	return page;
}

#endif

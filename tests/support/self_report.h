/* SPDX-License-Identifier: MIT
 *
 * What a process finds around itself, as lines of `key=value`: the helpers that stand in for control and host send it to the
 * test. Read with report_has(). */
#ifndef SANDBOXD_SELF_REPORT_H
#define SANDBOXD_SELF_REPORT_H

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/buf.h"

static inline void report_descriptors(struct buf *b)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *d;

	buf_add_text(b, "fds=");
	while (dir && (d = readdir(dir))) {
		char target[256];
		int fd = atoi(d->d_name);
		ssize_t n = readlinkat(dirfd(dir), d->d_name, target, sizeof target - 1);

		if (n <= 0 || d->d_name[0] == '.' || fd == dirfd(dir))
			continue;
		target[n] = '\0';
		target[strcspn(target, "[")] = '\0'; /* without the inode */
		buf_printf(b, "%d:%s ", fd, target);
	}
	buf_add_char(b, '\n');
	if (dir)
		(void)closedir(dir);
}

static inline void report_status(struct buf *b)
{
	static const char *const keys[] = { "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
		"Groups" };
	FILE *f = fopen("/proc/self/status", "re");
	char line[512];

	while (f && fgets(line, sizeof line, f)) {
		char *value = strchr(line, ':');

		if (!value)
			continue;
		*value++ = '\0';
		value += strspn(value, " \t");
		value[strcspn(value, "\n")] = '\0';
		for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
			if (strcmp(line, keys[i]) == 0)
				buf_printf(b, "%s=%s\n", line, value);
	}
	if (f)
		(void)fclose(f);
}

static inline void report_limits(struct buf *b)
{
	static const struct {
		const char *name;
		int resource;
	} rows[] = { { "data", RLIMIT_DATA }, { "fsize", RLIMIT_FSIZE }, { "stack", RLIMIT_STACK }, { "nofile", RLIMIT_NOFILE },
		{ "core", RLIMIT_CORE }, { "nproc", RLIMIT_NPROC } };

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct rlimit l = { 0, 0 };

		(void)getrlimit((__rlimit_resource_t)rows[i].resource, &l);
		buf_printf(b, "%s=%llu/%llu\n", rows[i].name, (unsigned long long)l.rlim_cur, (unsigned long long)l.rlim_max);
	}
}

static inline void self_report(struct buf *b, char **argv)
{
	char cwd[256] = "?";
	int death = 0;
	mode_t mask = umask(0);
	uid_t r, e, s;
	gid_t rg, eg, sg;

	(void)umask(mask);
	report_descriptors(b); /* first, while nothing else is open */
	report_status(b);
	report_limits(b);
	(void)getresuid(&r, &e, &s);
	(void)getresgid(&rg, &eg, &sg);
	(void)prctl(PR_GET_PDEATHSIG, &death, 0, 0, 0);
	buf_printf(b, "pid=%d\nppid=%d\nsession=%s\nuids=%u,%u,%u\ngids=%u,%u,%u\npdeathsig=%d\numask=%03o\n", (int)getpid(),
		(int)getppid(), getsid(0) == getpid() ? "own" : "shared", r, e, s, rg, eg, sg, death, (unsigned)mask);
	buf_printf(b, "cwd=%s\nargv=", getcwd(cwd, sizeof cwd) ? cwd : "?");
	for (char **p = argv; *p; p++)
		buf_printf(b, "%s ", *p);
	buf_add_text(b, "\nenv=");
	for (char **p = environ; *p; p++)
		buf_printf(b, "%s ", *p);
	buf_add_char(b, '\n');
}

/* Is `line` one whole line of the report? */
static inline bool report_has(const char *report, const char *line)
{
	size_t size = strlen(line);

	for (const char *p = report; (p = strstr(p, line)); p++)
		if ((p == report || p[-1] == '\n') && p[size] == '\n')
			return true;
	return false;
}

static inline long report_number(const char *report, const char *key)
{
	char line[64];
	const char *p;

	(void)snprintf(line, sizeof line, "\n%s=", key);
	p = strstr(report, line);
	return p ? strtol(p + strlen(line), NULL, 10) : -1;
}

#endif

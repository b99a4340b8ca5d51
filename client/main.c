/* SPDX-License-Identifier: MIT
 *
 * sandboxctl: argv to a verb (verb.c has the table), the verb's answer to the exit status. Each verb is in
 * its own cmd_*.c, asks the daemon through ctl.h and prints through output.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/args.h"
#include "client/ctl.h"
#include "client/help.h"

/* With 0, 1 or 2 closed the daemon's connection would get that number, and our output would go to it. */
static void hold_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		(void)close(fd);
}

static int run(struct ctl *s, const struct args *a)
{
	if (a->version) {
		(void)puts("sandboxctl " SANDBOXD_VERSION);
		return 0;
	}
	if (a->help) {
		if (a->verb)
			help_verb(stdout, a->verb);
		else
			help_all(stdout);
		return 0;
	}
	if (!a->verb) {
		struct err e = ERR_INIT;

		err_set(&e, ERR_MISSING_PARAM, "no verb given; sandboxctl help lists them");
		return ctl_fail(s, &e, (struct json_span){ 0 });
	}
	return a->verb->run(s);
}

int main(int argc, char **argv)
{
	static struct args a; /* large, and there is one */
	struct err e = ERR_INIT;
	struct ctl s;
	int status;

	hold_standard_descriptors();
	if (args_parse(&a, argc, argv, &e) == -1) {
		ctl_init(&s, &a);
		status = ctl_fail(&s, &e, (struct json_span){ 0 });
	} else {
		ctl_init(&s, &a);
		status = run(&s, &a);
	}
	ctl_fini(&s);
	if ((fflush(stdout) == EOF || ferror(stdout)) && status == 0) {
		(void)fprintf(stderr, "sandboxctl: cannot write the output: %s\n", strerror(errno));
		status = err_code_exit(ERR_IO);
	}
	return status;
}

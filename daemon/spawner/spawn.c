/* SPDX-License-Identifier: MIT
 *
 * The parent's half of a fork and exec. It never waits for the child: whether exec worked is told by the report pipe and the
 * exit status. Hosts aren't made here but by zygotes (births.c). */
#include <unistd.h>

#include "daemon/spawner/spawner.h"

static char environment_path[] = "PATH=/usr/bin:/bin";
static char environment_lang[] = "LANG=C.UTF-8";

char *const spawn_environment[] = { environment_path, environment_lang, NULL };

pid_t spawn_child(struct spawner *sp, struct child_plan *plan, struct err *e)
{
	pid_t pid;

	plan->extra[CHILD_FD_REPORT] = sp->report_write_fd;
	pid = fork();
	if (pid == 0)
		child_run(plan);
	if (pid == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot fork");
	return pid;
}

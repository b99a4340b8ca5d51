/* SPDX-License-Identifier: MIT
 *
 * sandboxd: what is started is the spawner, the only privileged process; it starts control and all hosts. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "daemon/spawner/handover.h"
#include "daemon/spawner/options.h"
#include "daemon/spawner/programs.h"
#include "daemon/spawner/spawner.h"
#include "proto/log.h"

#ifndef SANDBOXD_VERSION
#define SANDBOXD_VERSION "0.1.0"
#endif

static int usage_failed(const struct err *e)
{
	(void)fprintf(stderr, "sandboxd: %s\nTry 'sandboxd --help'.\n", e->text);
	return EXIT_USAGE;
}

static int configuration_failed(const struct err *e)
{
	(void)fprintf(stderr, "sandboxd: %s\n", e->text);
	return EXIT_USAGE;
}

static int start_failed(struct spawner *sp, const struct err *e)
{
	log_error("%s", e->text);
	spawner_close(sp);
	return e->code == ERR_ALREADY_EXISTS ? EXIT_RUNNING : EXIT_FAILED;
}

/* No daemon: the groups' rules are control's, so its program does it, as whoever asked. */
static int simulate(const struct options *o)
{
	char name[] = "sandboxd-control", simulate_flag[] = "--simulate", otp[] = "--otp", explain[] = "--explain";
	char *file = strdup(o->simulate), *argv[6] = { name, simulate_flag, file };
	struct err e = ERR_INIT;
	int n = 3, fd = programs_open_control(&e);

	if (o->otp)
		argv[n++] = otp;
	if (o->explain)
		argv[n++] = explain;
	if (fd != -1 && file)
		(void)execveat(fd, "", argv, environ, AT_EMPTY_PATH);
	if (fd != -1)
		(void)err_sys(&e, ERR_UNAVAILABLE, "cannot run sandboxd-control");
	(void)fprintf(stderr, "sandboxd: %s\n", e.text);
	free(file);
	return EXIT_FAILED;
}

/* 0, 1 and 2 must be something. */
static int descriptors_fill(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	return fd == -1 ? -1 : close(fd);
}

/* What the launcher left open is none of our business, and would keep its pipes from ending. A program before this one left what it names. */
static int descriptors_clean(const struct options *o)
{
	return o->take_over || o->can_take_over ? 0 : close_range(STDERR_FILENO + 1, ~0u, 0);
}

static int faults_use(const struct options *o, const struct handover *h, int *ret_fd, struct err *e)
{
	*ret_fd = h ? h->head->fds[HANDOVER_FAULTS] : -1; /* what has been passed stays counted */
	if (*ret_fd != -1)
		return fault_use(*ret_fd, e);
	if (o->n_faults == 0 || h)
		return 0;
	*ret_fd = fault_plant(o->faults, o->n_faults, e);
	if (*ret_fd != -1)
		log_warning("%zu faults are planted (--fault): this daemon is to fail", o->n_faults);
	return *ret_fd == -1 ? -1 : 0;
}

int main(int argc, char **argv)
{
	static struct spawner spawner;
	struct err e = ERR_INIT;
	struct config config;
	struct options options;
	struct handover handover;
	int status, faults_fd;

	if (descriptors_fill() == -1)
		return EXIT_FAILED;
	if (options_parse(&options, argc, argv, &e) == -1)
		return usage_failed(&e);
	if (descriptors_clean(&options) == -1)
		return EXIT_FAILED;
	if (options.help)
		return fputs(options_help, stdout) == EOF || fflush(stdout) == EOF ? EXIT_FAILED : EXIT_DONE;
	if (options.version)
		return puts("sandboxd " SANDBOXD_VERSION) == EOF || fflush(stdout) == EOF ? EXIT_FAILED : EXIT_DONE;
	if (options.simulate)
		return simulate(&options);
	if (options_config(&options, &config, &e) == -1)
		return configuration_failed(&e);
	if (options.can_take_over)
		return upgrade_can_take_over(options.can_take_over, &config);
	if (options.check_config)
		return puts("configuration: good") == EOF || fflush(stdout) == EOF ? EXIT_FAILED : EXIT_DONE;

	log_init("sandboxd", options.debug ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO);
	(void)prctl(PR_SET_NAME, "sandboxd"); /* executed by descriptor: older kernels would show its number */
	if (options.take_over && upgrade_table_open(options.take_over, &handover, &e) == -1)
		return configuration_failed(&e);
	if (faults_use(&options, options.take_over ? &handover : NULL, &faults_fd, &e) == -1)
		return configuration_failed(&e);
	if (options.take_over ? spawner_take_over(&spawner, &config, &handover, &e) == -1 : spawner_open(&spawner, &config, faults_fd, &e) == -1)
		return start_failed(&spawner, &e);
	upgrade_begin_at(&spawner.upgrade, argv);
	spawner_weaken(&spawner, options.weaken_bits, options.abi);
	status = spawner_run(&spawner);
	spawner_close(&spawner);
	return status;
}

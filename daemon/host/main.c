/* SPDX-License-Identifier: MIT
 *
 * sandbox-host: the only process that ever runs module code. The spawner starts it as a zygote, whose copies are the hosts
 * (daemon/host/zygote), or directly with descriptors 0, 1, 2 and the channel. Everything else is said on the channel
 * (proto/host_wire.h). */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/host/attention.h"
#include "daemon/host/death.h"
#include "daemon/host/orphans.h"
#include "daemon/host/serve.h"
#include "daemon/host/warm.h"
#include "daemon/host/zygote/zygote.h"
#include "proto/build.h"
#include "proto/fd.h"
#include "proto/seldom.h"
#include "proto/spawner_wire.h"

#if !defined __SANITIZE_ADDRESS__ && defined __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
/* In a sanitized build: faults are ours to report; the leak checker can't trace a non-dumpable process. */
__attribute__((visibility("default"))) const char *__asan_default_options(void); /* the sanitizer's library looks for it */
const char *__asan_default_options(void)
{
	return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0:detect_leaks=0:"
	       "use_sigaltstack=0";
}
#endif

/* One way to find surplus descriptors: what the spawner forgot to close, module code would inherit. */
static void check_no_surplus(void)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;

#ifdef SANDBOXD_PROFILED /* make coverage: the file of its counters is one */
	if (folder)
		(void)closedir(folder);
	folder = NULL;
#endif
	if (!folder)
		return; /* no /proc here; main closes the range below */
	while ((entry = readdir(folder))) {
		long fd = strtol(entry->d_name, NULL, 10);
		char text[64];

		if (fd <= HOST_FD_CHANNEL || fd == dirfd(folder))
			continue;
		(void)snprintf(text, sizeof text, "descriptor %ld is open at the start", fd);
		death_end(HOST_EXIT_CONTRACT, text);
	}
	(void)closedir(folder);
}

static void check_started_by_spawner(void)
{
	int type = 0;
	socklen_t size = sizeof type;

	if (getsockopt(HOST_FD_CHANNEL, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET)
		return;
	(void)fprintf(stderr,
		"sandbox-host: descriptor %d isn't a channel: this program is started by sandboxd\n",
		HOST_FD_CHANNEL);
	exit(HOST_EXIT_CONTRACT);
}

static void adopt_descriptors(void)
{
	for (int fd = 0; fd < HOST_FD_CHANNEL; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			death_end(HOST_EXIT_CONTRACT, "one of the descriptors 0, 1, 2 is missing");
	if (fcntl(HOST_FD_CHANNEL, F_SETFD, FD_CLOEXEC) < 0 || fd_set_nonblocking(HOST_FD_CHANNEL, false) < 0)
		death_end(HOST_EXIT_RESOURCE, "cannot prepare the channel");
	check_no_surplus();
	(void)close_range(HOST_FD_CHANNEL + 1, ~0u, 0);
}

int main(int argc, char **argv)
{
	static SELDOM_WRITTEN struct host host; /* its ring, above all */
	struct err e = ERR_INIT;

	if (argc == 2 && strcmp(argv[1], BUILD_ARGUMENT) == 0)
		return build_print();
	orphans_watch();
	if (argc > 1 && strcmp(argv[1], ZYGOTE_ARGUMENT) == 0)
		zygote_run(), memset(argv[1], 0, strlen(argv[1])); /* comes back in each host, which ps shall show as one */
	check_started_by_spawner();
	death_init(HOST_FD_CHANNEL);
	if (!walls.stand) {
		adopt_descriptors();
		(void)prctl(PR_SET_DUMPABLE, 0); /* at once, not only at BEGIN: exec had set it again */
	}
	(void)setvbuf(stdout, NULL, _IOLBF, 0); /* a module's lines reach the log before its crash does */
	if (attention_init(&e) < 0)
		death_end(HOST_EXIT_RESOURCE, e.text);

	serve_init(&host, HOST_FD_CHANNEL);
	if (walls.spare) {
		warm_up();
		(void)prctl(PR_SET_NAME, SPARE_NAME, 0, 0, 0);
	}
	serve(&host);
	serve_fini(&host);

	death_expected();
	return host.exit_status;
}

/* SPDX-License-Identifier: MIT
 *
 * A process that has something to lose: a secret in memory and in its environment, descriptors, bits that only kcmp sees. Its first
 * line of input is the secret; every further line is answered with what has become of it. SIGWINCH is counted. `victim userns`: in a
 * user namespace of its own. Prints lines of JSON; ends with its input. */
#include <signal.h>
#include <sched.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

static char room[64];
static volatile sig_atomic_t signals;

static void counted(int number)
{
	(void)number;
	signals++;
}

static void be_ready(const char *secret, char bits[33])
{
	struct sigaction action = { .sa_handler = counted, .sa_flags = SA_RESTART };
	unsigned char chance[32] = { 0 };
	int memory = memfd_create("secret", 0);

	(void)sigaction(SIGWINCH, &action, NULL);
	(void)snprintf(room, sizeof room, "%s", secret);
	(void)!write(memory, room, strlen(room));
	(void)dup2(memory, 77);
	(void)!getrandom(chance, sizeof chance, 0);
	for (int i = 0; i < 32; i++) {
		bits[i] = chance[i] & 1 ? '1' : '0';
		(void)dup2(0, 100 + 2 * i);
		(void)dup2(chance[i] & 1 ? 0 : memory, 101 + 2 * i);
	}
}

int main(int argc, char **argv)
{
	char line[sizeof room] = "", bits[33] = "";
	void *head = NULL;
	size_t size = 0;

	if (!fgets(line, sizeof line, stdin))
		return 1;
	line[strcspn(line, "\n")] = '\0';
	be_ready(line, bits);
	memset(line, 0, sizeof line);
	if (argc > 1 && strcmp(argv[1], "userns") == 0) {
		(void)unshare(CLONE_NEWUSER);
		(void)prctl(PR_SET_DUMPABLE, 1);
	}
	(void)syscall(SYS_get_robust_list, 0, &head, &size);
	printf("{\"at\": %llu, \"bits\": \"%s\", \"robust\": \"list=%p\"}\n", (unsigned long long)(uintptr_t)room, bits, head);
	(void)fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		printf("{\"memory\": \"%.40s\", \"signals\": %d}\n", room, (int)signals);
		(void)fflush(stdout);
	}
	return 0;
}

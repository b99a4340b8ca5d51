/* SPDX-License-Identifier: MIT */
#include "daemon/doctor/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "proto/landlock_abi.h"
#include "proto/limits.h"

#define CGROUP_V2   "a machine with cgroup v2 alone, and sandboxd as a systemd service with Delegate=yes (as its unit has it)"
#define USER_NS     "user.max_user_namespaces above 0 (and, on Ubuntu, kernel.apparmor_restrict_unprivileged_userns=0), or run sandboxd as root"
#define ALWAYS      "nothing ordinary takes it away: look at the reason, and at a container or a service manager around the daemon"

static const struct machine_remedy remedies[PROTECTION__N] = {
	[PROTECTION_OWN_UID] = { "sandboxes run as one user and can signal and trace what is that user's, except where a namespace hides it", "run sandboxd as root" },
	[PROTECTION_GROUPS] = { "module code has the groups of the daemon's user", "run sandboxd as root" },
	[PROTECTION_CAPABILITIES] = { "module code keeps capabilities of the daemon", ALWAYS },
	[PROTECTION_NO_NEW_PRIVILEGES] = { "a set-uid program would give module code its rights", ALWAYS },
	[PROTECTION_NOT_DUMPABLE] = { "other processes of the same user can read the memory of a sandbox", ALWAYS },
	[PROTECTION_OWN_SESSION] = { "module code shares a terminal and a process group with the daemon", ALWAYS },
	[PROTECTION_PARENT_DEATH] = { "a sandbox that spins outlives a killed daemon", ALWAYS },
	[PROTECTION_LIMIT_CORE] = { "a crash writes the memory of a sandbox to disk", ALWAYS },
	[PROTECTION_LIMIT_MEMORY] = { "one process can use all memory", ALWAYS },
	[PROTECTION_LIMIT_FILE_SIZE] = { "one file can fill a disk", ALWAYS },
	[PROTECTION_LIMIT_STACK] = { "a stack can grow without end", ALWAYS },
	[PROTECTION_LIMIT_OPEN_FILES] = { "one process can use up the system's open files", ALWAYS },
	[PROTECTION_LIMIT_PROCESSES] = { "a fork bomb takes all processes of the user", USER_NS },
	[PROTECTION_USER_NAMESPACE] = { "without root there are no other namespaces and no own root", USER_NS },
	[PROTECTION_PID_NAMESPACE] = { "module code sees all processes, and what it leaves behind must be hunted", USER_NS },
	[PROTECTION_MOUNT_NAMESPACE] = { "module code sees the host's mounts", USER_NS },
	[PROTECTION_IPC_NAMESPACE] = { "module code reaches System V and POSIX queues of others", USER_NS },
	[PROTECTION_UTS_NAMESPACE] = { "module code sees the host's name", USER_NS },
	[PROTECTION_CGROUP_NAMESPACE] = { "module code sees the paths of the host's cgroups", USER_NS },
	[PROTECTION_NETWORK] = { "module code reaches the network", "a kernel with CONFIG_SECCOMP_FILTER, or network namespaces" },
	[PROTECTION_OWN_ROOT] = { "module code sees the host's files, as far as its user may read them", USER_NS },
	[PROTECTION_SCRATCH] = { "module code has no folder of its own to write to", USER_NS },
	[PROTECTION_FILES] = { "files are kept apart by user and mount namespace alone", "a kernel of 5.13 or later with CONFIG_SECURITY_LANDLOCK, and landlock in lsm=; 6.12 for both scopes" },
	[PROTECTION_SYSTEM_CALLS] = { "the whole kernel is within reach of module code", "a kernel with CONFIG_SECCOMP_FILTER" },
	[PROTECTION_NEW_CODE] = { "module code can write code and run it", "Linux 6.3 or later (PR_SET_MDWE)" },
	[PROTECTION_TREE_MEMORY] = { "memory is limited per process; of a whole sandbox it is looked at now and then, and who has too much is killed", CGROUP_V2 },
	[PROTECTION_TREE_PROCESSES] = { "processes are counted per user or namespace, not per sandbox", CGROUP_V2 },
	[PROTECTION_TREE_CPU] = { "max_cpu_percentage isn't enforced: a busy sandbox takes as much processor time as others leave", CGROUP_V2 },
	[PROTECTION_TREE_END] = { "what a sandbox forked and took out of its process group outlives it", "profile medium or high, where the pid namespace ends it; " USER_NS },
};

const struct machine_remedy *machine_remedy(enum protection p)
{
	return &remedies[p];
}

/* Where systemd would put a service: `unified` there means that version 2 alone has the controllers. */
static const char *cgroup_version(void)
{
	if (access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0)
		return "v2";
	if (access("/sys/fs/cgroup/unified/cgroup.procs", F_OK) == 0)
		return "hybrid";
	if (access("/sys/fs/cgroup", F_OK) == 0)
		return "v1";
	return "none";
}

void machine_json(struct json_out *o)
{
	struct utsname name;
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LL_CREATE_RULESET_VERSION);

	if (uname(&name) == 0) {
		json_out_text(o, "kernel", name.release);
		json_out_text(o, "architecture", name.machine);
	} else {
		json_out_text(o, "kernel", "unknown");
		json_out_text(o, "architecture", "unknown");
	}
	json_out_i64(o, "landlock_abi", abi < 0 ? 0 : abi);
	json_out_text(o, "cgroup", cgroup_version());
}

uint64_t machine_sandboxes_for(uint64_t descriptors)
{
	return descriptors < LIMIT_SPAWNER_FDS_HEADROOM ? 0 : (descriptors - LIMIT_SPAWNER_FDS_HEADROOM) / LIMIT_FDS_PER_SANDBOX;
}

uint64_t machine_descriptors_of(pid_t pid)
{
	static const char label[] = "Max open files";
	char path[40], line[160];
	unsigned long long soft = 0;
	FILE *f;

	(void)snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof line, f))
		if (strncmp(line, label, sizeof label - 1) == 0)
			soft = strtoull(line + sizeof label - 1, NULL, 10);
	(void)fclose(f);
	return soft;
}

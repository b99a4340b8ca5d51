/* SPDX-License-Identifier: MIT
 *
 * Compile jobs: one process group each, in a private folder, under a uid that no other job or host has at that time (gcc
 * prints lines of any file that it can read). The result is a memfd of diagnostics and, after success, the object. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/spawner/folders.h"
#include "daemon/spawner/spawner.h"
#include "daemon/spawner/validate.h"
#include "proto/clock.h"
#include "proto/log.h"

#define JOB_PROCESSES  64 /* gcc, cc1, as, collect2, ld and their helpers */
#define JOB_STACK      (64ull << 20)
#define JOB_OPEN_FILES 256

/* -g names the folder: mapped away, so that the same source gives the same bytes. */
static char arguments[][48] = {
	"gcc", "-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-fno-gnu-unique", "-fvisibility=hidden", "-Wall", "-Wextra",
	"-fmax-errors=20", "-fdiagnostics-color=never", "-I.", "-Wl,-z,defs,-z,relro,-z,now,-z,noexecstack", "-o", "out.so",
};

#define N_ARGUMENTS (sizeof arguments / sizeof *arguments)

static const char *const compilers[] = { "/usr/bin/gcc", "/usr/bin/cc", NULL };

void jobs_init(struct spawner *sp)
{
	for (size_t i = 0; i < LIMIT_JOBS; i++) {
		memset(&sp->jobs[i], 0, sizeof sp->jobs[i]);
		sp->jobs[i].folder_fd = sp->jobs[i].diagnostics_fd = sp->jobs[i].object_fd = -1;
	}
}

static void folder_name(const struct spawner *sp, const struct job *job, char name[16])
{
	(void)snprintf(name, 16, "%d", (int)(job - sp->jobs));
}

static void job_folder_remove(struct spawner *sp, struct job *job)
{
	struct err e = ERR_INIT;
	char name[16];

	folder_name(sp, job, name);
	fd_close(&job->folder_fd);
	if (folder_remove_at(sp->jobs_fd, name, &e) == -1)
		log_warning("the folder of a compile job stays: %s", e.text);
}

/* Back to a free place. */
static void job_clear(struct job *job)
{
	fd_close(&job->diagnostics_fd);
	fd_close(&job->object_fd);
	job->state = JOB_FREE;
}

static int job_folder_make(struct spawner *sp, struct job *job, struct err *e)
{
	char name[16];

	folder_name(sp, job, name);
	if (folder_remove_at(sp->jobs_fd, name, e) == -1)
		return -1;
	if (mkdirat(sp->jobs_fd, name, 0700) == -1)
		return err_sys(e, ERR_IO, "cannot make the folder of a compile job");
	job->folder_fd = openat(sp->jobs_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (job->folder_fd == -1 || (sp->is_root && fchown(job->folder_fd, job->uid, job->uid) == -1))
		return err_sys(e, ERR_IO, "cannot hand over the folder of a compile job");
	return 0;
}

static void job_limits_plan(const struct spawner *sp, uint32_t timeout_ms, uint64_t memory_bytes, struct child_plan *plan)
{
	child_plan_limit(plan, RLIMIT_DATA, memory_bytes);
	child_plan_limit(plan, RLIMIT_CPU, timeout_ms / 1000 + 1);
	child_plan_limit(plan, RLIMIT_FSIZE, LIMIT_OBJECT_BYTES);
	child_plan_limit(plan, RLIMIT_STACK, JOB_STACK);
	child_plan_limit(plan, RLIMIT_NOFILE, JOB_OPEN_FILES);
	child_plan_limit(plan, RLIMIT_CORE, 0);
	if (sp->is_root)
		child_plan_limit(plan, RLIMIT_NPROC, JOB_PROCESSES);
}

static int job_fork(struct spawner *sp, struct job *job, const struct spawner_message *m, int source_fd, uint32_t timeout_ms,
	uint64_t memory_bytes, struct err *e)
{
	char folder[LIMIT_PATH_BYTES + 32], temporary[LIMIT_PATH_BYTES + 40], map[LIMIT_PATH_BYTES + 64];
	char source[LIMIT_ID_BYTES + 1];
	char *argv[N_ARGUMENTS + 3], *envp[] = { spawn_environment[0], spawn_environment[1], temporary, NULL };
	struct child_plan plan;
	size_t n = 0;

	(void)snprintf(folder, sizeof folder, "%s/%d", sp->jobs_dir, (int)(job - sp->jobs));
	(void)snprintf(temporary, sizeof temporary, "TMPDIR=%s", folder);
	(void)snprintf(map, sizeof map, "-ffile-prefix-map=%s=.", folder);
	(void)snprintf(source, sizeof source, "%s", m->name);
	for (; n < N_ARGUMENTS; n++)
		argv[n] = arguments[n];
	argv[n++] = map;
	argv[n++] = source;
	argv[n] = NULL;
	child_plan_init(&plan, CHILD_COMPILE);
	plan.fds[0] = sp->null_fd;
	plan.fds[1] = plan.fds[2] = job->diagnostics_fd;
	plan.n_fds = 3;
	plan.extra[CHILD_FD_FOLDER] = job->folder_fd;
	plan.extra[CHILD_FD_SOURCE] = source_fd;
	plan.extra[CHILD_FD_HEADER] = sp->programs.header;
	plan.change_ids = sp->is_root;
	plan.uid = plan.gid = job->uid;
	plan.source_name = source;
	plan.programs = compilers;
	plan.argv = argv;
	plan.envp = envp;
	job_limits_plan(sp, timeout_ms, memory_bytes, &plan);
	job->pid = spawn_child(sp, &plan, e);
	return job->pid == -1 ? -1 : 0;
}

static struct job *job_place(struct spawner *sp)
{
	for (size_t i = 0; i < sp->config.max_jobs && i < LIMIT_JOBS; i++)
		if (sp->jobs[i].state == JOB_FREE)
			return &sp->jobs[i];
	return NULL;
}

int job_start(struct spawner *sp, const struct spawner_message *m, int source_fd, struct err *e)
{
	struct job *job = job_place(sp);
	uint64_t memory_bytes;
	uint32_t timeout_ms;
	uid_t uid;

	if (!job)
		return REFUSE(e, EAGAIN, "max_jobs = %u compile jobs run already", sp->config.max_jobs);
	if (validate_job(m, source_fd, &sp->config, &timeout_ms, &memory_bytes, e) == -1 || spawner_take_uid(sp, &uid, e) == -1)
		return -1;
	job->uid = uid;
	job->tag = m->tag;
	job->orphan = job->timed_out = false;
	job->step[0] = job->text[0] = '\0';
	job->deadline_ms = clock_monotonic_ms() + timeout_ms;
	job->diagnostics_fd = fd_memfd("diagnostics", NULL, 0, false);
	if (job->diagnostics_fd == -1)
		err_sys(e, ERR_UNAVAILABLE, "cannot make a memfd");
	else if (job_folder_make(sp, job, e) == 0 && job_fork(sp, job, m, source_fd, timeout_ms, memory_bytes, e) == 0) {
		job->state = JOB_RUNS;
		return 0;
	}
	if (sp->is_root)
		uids_give(&sp->uids, uid);
	job_folder_remove(sp, job);
	job_clear(job);
	return -1;
}

static void kill_group(const struct job *job)
{
	(void)kill(-job->pid, SIGKILL);
	(void)kill(job->pid, SIGKILL);
}

void job_kill(struct spawner *sp, uint64_t tag)
{
	for (size_t i = 0; i < LIMIT_JOBS; i++)
		if (sp->jobs[i].state == JOB_RUNS && !sp->jobs[i].orphan && sp->jobs[i].tag == tag)
			kill_group(&sp->jobs[i]);
}

struct job *job_find_pid(struct spawner *sp, pid_t pid)
{
	for (size_t i = 0; i < LIMIT_JOBS; i++)
		if (sp->jobs[i].state == JOB_RUNS && sp->jobs[i].pid == pid)
			return &sp->jobs[i];
	return NULL;
}

static int object_open(struct job *job)
{
	autoclose int fd = openat(job->folder_fd, "out.so", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd == -1 || fstat(fd, &st) == -1) {
		(void)snprintf(job->text, sizeof job->text, "the compiler left no object");
		return -1;
	}
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)LIMIT_OBJECT_BYTES) {
		(void)snprintf(job->text, sizeof job->text, "the object is no regular file of at most %u bytes", LIMIT_OBJECT_BYTES);
		return -1;
	}
	return fd_take(&fd);
}

/* Cut to what an error carries, and sealed: control reads it at leisure. */
static void diagnostics_finish(struct job *job)
{
	struct stat st;

	if (fstat(job->diagnostics_fd, &st) == 0 && st.st_size > (off_t)LIMIT_DIAGNOSTICS_BYTES)
		(void)!ftruncate(job->diagnostics_fd, LIMIT_DIAGNOSTICS_BYTES);
	(void)fcntl(job->diagnostics_fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
}

void job_reaped(struct spawner *sp, struct job *job, int status)
{
	int object = -1;

	if (status == 0 && !job->timed_out) {
		object = object_open(job);
		if (object == -1)
			status = 1 << 8; /* as if it had exited with 1 */
	}
	job_folder_remove(sp, job);
	diagnostics_finish(job);
	job->status = status;
	job->object_fd = object;
	if (sp->is_root)
		reap_sweep(sp, job->uid);
	job->state = JOB_ENDED;
	if (job->orphan)
		job_clear(job);
}

bool job_done_send(struct spawner *sp, struct job *job)
{
	struct spawner_message m = { .version = SPAWNER_WIRE_VERSION, .op = SPAWNER_JOB_DONE, .tag = job->tag };
	int fds[2] = { job->diagnostics_fd, job->object_fd };

	m.status = job->status;
	m.flags = job->timed_out ? SPAWNER_F_TIMED_OUT : 0;
	(void)snprintf(m.name, sizeof m.name, "%s", job->step);
	(void)snprintf(m.text, sizeof m.text, "%s", job->text);
	if (fd_message_send(sp->control.fd, &m, sizeof m, fds, job->object_fd == -1 ? 1 : 2) == -1)
		return false;
	job_clear(job);
	return true;
}

void jobs_orphan(struct spawner *sp)
{
	for (size_t i = 0; i < LIMIT_JOBS; i++) {
		struct job *job = &sp->jobs[i];

		if (job->state == JOB_ENDED)
			job_clear(job);
		if (job->state != JOB_RUNS)
			continue;
		job->orphan = true;
		kill_group(job);
	}
}

void jobs_kill_all(struct spawner *sp)
{
	for (size_t i = 0; i < LIMIT_JOBS; i++)
		if (sp->jobs[i].state == JOB_RUNS)
			kill_group(&sp->jobs[i]);
}

void jobs_timer(struct spawner *sp, int64_t now_ms)
{
	for (size_t i = 0; i < LIMIT_JOBS; i++) {
		struct job *job = &sp->jobs[i];

		if (job->state != JOB_RUNS || now_ms < job->deadline_ms)
			continue;
		job->timed_out = !job->orphan;
		job->deadline_ms = NEVER;
		kill_group(job);
	}
}

int64_t jobs_deadline(const struct spawner *sp)
{
	int64_t first = NEVER;

	for (size_t i = 0; i < LIMIT_JOBS; i++)
		if (sp->jobs[i].state == JOB_RUNS && sp->jobs[i].deadline_ms < first)
			first = sp->jobs[i].deadline_ms;
	return first;
}

/* SPDX-License-Identifier: MIT
 *
 * The control process: its start, its channel, its death and replacement. What a dead control had sent is applied to the
 * end before the next one starts. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/spawner/calls.h"
#include "daemon/spawner/spawner.h"
#include "daemon/spawner/validate.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/log.h"

#define REQUESTS_PER_TURN   64
#define QUICK_DEATH_MS      10000 /* a control that lived longer was a good one: the next starts at once */
#define DELAY_FIRST_MS      100
#define DELAY_MAX_MS        5000
#define READY_FIRST_MS      10000 /* the first one; then the daemon gives up */
#define READY_LATER_MS      60000 /* a successor takes over many sandboxes; then it is replaced */
#define FAILED_STARTS_MAX   3
#define CHANNEL_BUFFER_BYTES (1 << 20)

void control_init(struct control *c)
{
	memset(c, 0, sizeof *c);
	c->fd = -1;
	c->start_at_ms = 0;
	for (size_t i = 0; i < FD_MESSAGE_MAX; i++)
		c->out_fds[i] = -1;
}

/* A call that several rows are about counts once. */
static void calls_count(uint16_t counts[OPERATION__N])
{
	for (int op = 0; op < OPERATION__N; op++) {
		const char *before = "";

		for (size_t i = 0; i < call_rows_n; i++)
			if ((call_rows[i].operations & OPERATION_BIT(op)) && strcmp(before, call_rows[i].name) != 0) {
				before = call_rows[i].name;
				counts[op]++;
			}
	}
}

static void begin_fill(const struct spawner *sp, struct control_begin *b)
{
	const struct config *c = &sp->config;

	memset(b, 0, sizeof *b);
	b->wire_version = SPAWNER_WIRE_VERSION;
	b->epoch = sp->control.epoch;
	b->incarnation = sp->control.incarnation;
	b->is_root = sp->is_root;
	b->everyone_operates = c->everyone_operates;
	b->n_administrators = (uint16_t)c->n_administrators;
	b->n_operators = (uint16_t)c->n_operators;
	b->n_administrator_groups = (uint16_t)c->n_administrator_groups;
	b->n_operator_groups = (uint16_t)c->n_operator_groups;
	b->daemon_uid = geteuid();
	b->max_sandboxes = c->max_sandboxes;
	b->max_jobs = c->max_jobs;
	b->max_sandboxes_per_owner = c->max_sandboxes_per_owner;
	b->max_memory_per_owner = c->max_memory_per_owner;
	b->max_store_bytes_per_owner = c->max_store_bytes_per_owner;
	b->max_jobs_per_owner = c->max_jobs_per_owner;
	b->compile_timeout_ms = c->compile_timeout_ms;
	b->compile_memory_bytes = c->compile_memory_bytes;
	b->max_memory_bytes = c->max_memory_bytes;
	b->max_file_size_bytes = c->max_file_size_bytes;
	b->max_processes = c->max_processes;
	b->max_open_files = c->max_open_files;
	b->spawner_pid = getpid();
	b->has_faults = sp->faults_fd != -1;
	b->upgrades = sp->upgrade.done;
	b->is_upgraded = sp->upgrade.untold;
	b->host_build = sp->programs.host_build;
	b->lets_exceed = (sp->weaken & (PROTECTION_BIT(PROTECTION_LIMIT_MEMORY) | PROTECTION_BIT(PROTECTION_TREE_MEMORY) | PROTECTION_BIT(PROTECTION_LIMIT_PROCESSES) |
					       PROTECTION_BIT(PROTECTION_TREE_PROCESSES))) != 0;
	for (size_t i = 0; i < c->n_administrators; i++)
		b->administrators[i] = c->administrators[i];
	for (size_t i = 0; i < c->n_operators; i++)
		b->operators[i] = c->operators[i];
	for (size_t i = 0; i < c->n_administrator_groups; i++)
		b->administrator_groups[i] = c->administrator_groups[i];
	for (size_t i = 0; i < c->n_operator_groups; i++)
		b->operator_groups[i] = c->operator_groups[i];
	calls_count(b->n_calls);
	for (enum profile id = PROFILE__N; id < PROFILE_NONE && profile_policy(id); id++)
		b->profiles[b->n_profiles++] = *profile_policy(id);
	(void)snprintf(b->socket_path, sizeof b->socket_path, "%s", c->socket_path);
	(void)snprintf(b->state_dir, sizeof b->state_dir, "%s", c->state_dir);
	(void)snprintf(b->objects_dir, sizeof b->objects_dir, "%s", sp->objects_dir);
	(void)snprintf(b->cgroup_dir, sizeof b->cgroup_dir, "%s", sp->cgroups.path);
}

/* $JOURNAL_STREAM goes along: control logs to the same stderr, and to the journal in the journal's way. */
static pid_t control_fork(struct spawner *sp, int its_end, struct err *e)
{
	static char name[] = "sandboxd-control";
	static char *const argv[] = { name, NULL };
	static char journal[96];
	char *envp[] = { spawn_environment[0], spawn_environment[1], NULL, NULL };
	const char *stream = getenv("JOURNAL_STREAM");
	struct child_plan plan;

	if (stream && snprintf(journal, sizeof journal, "JOURNAL_STREAM=%s", stream) < (int)sizeof journal)
		envp[2] = journal;
	child_plan_init(&plan, CHILD_CONTROL);
	plan.fds[0] = sp->null_fd;
	plan.fds[1] = STDERR_FILENO;
	plan.fds[2] = STDERR_FILENO;
	plan.fds[CONTROL_FD_SPAWNER] = its_end;
	plan.fds[CONTROL_FD_LISTEN] = sp->listener.fd;
	plan.fds[CONTROL_FD_OUTCOMES] = sp->outcomes_fd;
	plan.n_fds = CONTROL_FD_OUTCOMES + 1;
	if (sp->faults_fd != -1) {
		plan.fds[CONTROL_FD_FAULTS] = sp->faults_fd;
		plan.n_fds = CONTROL_FD_FAULTS + 1;
	}
	plan.extra[CHILD_FD_PROGRAM] = sp->programs.control;
	plan.change_ids = sp->is_root;
	plan.uid = plan.gid = sp->control_uid;
	plan.umask = 027; /* its objects are read by the group, the host; its other files lie in a 0700 folder */
	plan.argv = argv;
	plan.envp = envp;
	return spawn_child(sp, &plan, e);
}

static int64_t restart_delay_ms(uint32_t quick_deaths)
{
	if (quick_deaths <= 1)
		return 0;
	if (quick_deaths >= 8)
		return DELAY_MAX_MS;
	return (DELAY_FIRST_MS << (quick_deaths - 2)) < DELAY_MAX_MS ? DELAY_FIRST_MS << (quick_deaths - 2) : DELAY_MAX_MS;
}

static void plan_restart(struct spawner *sp, int64_t now_ms)
{
	struct control *c = &sp->control;

	c->quick_deaths = now_ms - c->started_ms < QUICK_DEATH_MS ? c->quick_deaths + 1 : 0;
	c->start_at_ms = now_ms + restart_delay_ms(c->quick_deaths);
}

/* A successor learns of these from the table or needs them again. */
static void facts_renew(struct spawner *sp)
{
	sp->listener_unsent = false;
	sp->stop_unsent = sp->stop_asked > 0;
}

void control_start(struct spawner *sp, int64_t now_ms)
{
	struct control *c = &sp->control;
	const int bytes = CHANNEL_BUFFER_BYTES;
	uint64_t wall = (uint64_t)clock_wall_ms();
	struct control_begin begin;
	struct err e = ERR_INIT;
	int pair[2];

	c->started_ms = now_ms;
	if (FAULT(SPAWNER_CONTROL) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == -1) {
		log_error("cannot make control's channel: %s", strerror(errno));
		plan_restart(sp, now_ms);
		return;
	}
	(void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	(void)setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	c->epoch++;
	c->incarnation = wall > c->incarnation ? wall : c->incarnation + 1;
	c->ready = c->given_up = false;
	c->failure[0] = '\0';
	begin_fill(sp, &begin);
	if (fd_message_send(pair[0], &begin, sizeof begin, NULL, 0) == -1)
		err_sys(&e, ERR_UNAVAILABLE, "cannot send the first message");
	else
		c->pid = control_fork(sp, pair[1], &e);
	fd_close(&pair[1]);
	if (c->pid <= 0) {
		c->pid = 0;
		fd_close(&pair[0]);
		log_error("cannot start control: %s", e.text);
		plan_restart(sp, now_ms);
		return;
	}
	c->fd = pair[0];
	c->start_at_ms = NEVER;
	facts_renew(sp);
	log_debug("control %d started, epoch %u", (int)c->pid, c->epoch);
}

static void out_drop(struct control *c)
{
	for (size_t i = 0; i < c->n_out_fds; i++)
		fd_close(&c->out_fds[i]);
	c->n_out_fds = 0;
	c->has_out = false;
}

void control_break(struct spawner *sp, const char *why)
{
	struct control *c = &sp->control;

	if (c->fd == -1)
		return;
	log_error("control %d broke the contract and is replaced: %s", (int)c->pid, why);
	c->given_up = true;
	liveness_gone(&sp->liveness);
	fd_close(&c->fd);
	out_drop(c);
	if (c->pid > 0) /* else this came out of what it had sent before its death */
		(void)kill(c->pid, SIGKILL);
}

/* 1 sent, 0 no room, -1 its end is closed (its death will be reaped). */
static int send_now(struct control *c, const struct spawner_message *m, const int *fds, size_t n_fds)
{
	if (c->fd == -1)
		return -1;
	if (fd_message_send(c->fd, m, sizeof *m, fds, n_fds) == 0)
		return 1;
	/* ETOOMANYREFS: too many descriptors are on their way; room comes when control has received some. */
	return errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS || errno == ENOMEM ? 0 : -1;
}

void control_reply(struct spawner *sp, const struct spawner_message *m, const int *fds, size_t n_fds)
{
	struct control *c = &sp->control;

	if (c->has_out) { /* can't be: no request is read then */
		control_break(sp, "more replies than requests");
		return;
	}
	if (send_now(c, m, fds, n_fds) != 0)
		return;
	c->out = *m;
	c->has_out = true;
	c->n_out_fds = 0;
	for (size_t i = 0; i < n_fds; i++) {
		c->out_fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
		if (c->out_fds[i] == -1) {
			control_break(sp, "no descriptor is left to keep its reply");
			return;
		}
		c->n_out_fds++;
	}
}

static bool notice_send(struct spawner *sp, const struct spawner_message *m, const int *fds, size_t n_fds)
{
	return send_now(&sp->control, m, fds, n_fds) == 1;
}

static bool fact_notify(struct spawner *sp, const struct entry *entry, enum spawner_op op)
{
	struct spawner_message m = { .version = SPAWNER_WIRE_VERSION, .op = (uint16_t)op };

	entry_describe(entry, &m);
	return notice_send(sp, &m, NULL, 0);
}

static bool facts_notify(struct spawner *sp)
{
	struct entry *entry;

	while ((entry = table_fact(&sp->table))) {
		if (entry->birth_unsent && !fact_notify(sp, entry, SPAWNER_BORN))
			return false;
		entry_birth_sent(entry);
		if (entry->exit_unsent && !fact_notify(sp, entry, SPAWNER_EXITED))
			return false;
		entry_exit_sent(entry);
	}
	return true;
}

/* Before the exits: for what one was killed is known when it is told. */
static bool denials_notify(struct spawner *sp)
{
	const struct spawner_message *m;

	if (!sp->control.ready) /* a new one knows no sandbox yet */
		return true;
	while ((m = denials_first(&sp->denials))) {
		if (!notice_send(sp, m, NULL, 0))
			return false;
		denials_sent(&sp->denials);
	}
	return true;
}

/* Once it serves: before that nobody waits for the answer, and its event would be the first of all. */
static bool upgrade_notify(struct spawner *sp)
{
	struct upgrade *u = &sp->upgrade;
	struct spawner_message m = { .version = SPAWNER_WIRE_VERSION, .op = SPAWNER_UPGRADE_GOES };
	autoclose int fd = -1;

	if (u->says == UPGRADE_SAYS_NOTHING || !sp->control.ready)
		return true;
	if (u->says == UPGRADE_SAYS_REFUSED) {
		m.op = SPAWNER_UPGRADE_REFUSED;
		fd = fd_memfd("reason", u->reason, strlen(u->reason), true);
	}
	if (!notice_send(sp, &m, &fd, fd != -1))
		return false;
	u->says = UPGRADE_SAYS_NOTHING;
	return true;
}

void control_notify(struct spawner *sp)
{
	struct control *c = &sp->control;

	if (c->fd == -1 || c->has_out)
		return;
	if (sp->stop_unsent) {
		struct spawner_message m = { .version = SPAWNER_WIRE_VERSION, .op = SPAWNER_STOP_ASKED,
			.value = sp->stop_asked };

		if (!notice_send(sp, &m, NULL, 0))
			return;
		sp->stop_unsent = false;
	}
	if (sp->alive_unsent) {
		struct spawner_message m = { .version = SPAWNER_WIRE_VERSION, .op = SPAWNER_ALIVE_ASKED };

		if (!notice_send(sp, &m, NULL, 0))
			return;
		sp->alive_unsent = false;
	}
	if (sp->listener_unsent) {
		struct spawner_message m = { .version = SPAWNER_WIRE_VERSION, .op = SPAWNER_LISTENER };

		if (!notice_send(sp, &m, &sp->listener.fd, 1))
			return;
		sp->listener_unsent = false;
	}
	if (!upgrade_notify(sp) || !denials_notify(sp) || !facts_notify(sp))
		return;
	for (size_t i = 0; i < LIMIT_JOBS; i++)
		if (sp->jobs[i].state == JOB_ENDED && !job_done_send(sp, &sp->jobs[i]))
			return;
}

void control_writable(struct spawner *sp)
{
	struct control *c = &sp->control;
	int sent;

	if (!c->has_out)
		return;
	sent = send_now(c, &c->out, c->out_fds, c->n_out_fds);
	if (sent != 0)
		out_drop(c);
}

/* One request. 1: there was one; 0: none now, or the end. */
static int receive_one(struct spawner *sp, bool *ret_end)
{
	struct control *c = &sp->control;
	struct err e = ERR_INIT;
	struct spawner_message m;
	int fds[FD_MESSAGE_MAX];
	size_t n_fds;
	ssize_t n = fd_message_receive(c->fd, &m, sizeof m, fds, &n_fds);

	*ret_end = n == 0 || (n == -1 && errno != EAGAIN && errno != EMSGSIZE && errno != ENOMEM);
	if (n == -1 && errno == EMSGSIZE) {
		control_break(sp, "a message that is too large");
		return 0;
	}
	if (n <= 0)
		return 0;
	if (validate_frame(&m, (size_t)n, &e) == -1) {
		for (size_t i = 0; i < n_fds; i++)
			fd_close(&fds[i]);
		control_break(sp, e.text);
		return 0;
	}
	if (c->pid > 0 && !c->ready && liveness_goes_on(&sp->liveness, clock_monotonic_ms()))
		notify_send(&sp->notify, "WATCHDOG=1\nSTATUS=a new control takes over\n");
	request_handle(sp, &m, fds, n_fds);
	return 1;
}

void control_readable(struct spawner *sp)
{
	struct control *c = &sp->control;
	bool end = false;

	for (int i = 0; i < REQUESTS_PER_TURN && c->fd != -1 && !c->has_out && !sp->ending; i++)
		if (receive_one(sp, &end) == 0)
			break;
	if (end && c->fd != -1) {
		log_debug("control %d closed its channel", (int)c->pid);
		fd_close(&c->fd);
		out_drop(c);
		(void)kill(c->pid, SIGKILL);
	}
}

/* Replies go nowhere now (EPIPE), so nothing waits for room. */
static void drain_dead(struct spawner *sp)
{
	struct control *c = &sp->control;
	bool end = false;

	out_drop(c);
	while (c->fd != -1 && !end && receive_one(sp, &end) == 1)
		out_drop(c);
	fd_close(&c->fd);
	out_drop(c);
}

static void death_log(const struct control *c, pid_t pid, int status, int64_t lived_ms)
{
	if (c->failure[0])
		log_error("control %d never ran: %s", (int)pid, c->failure);
	else if (WIFSIGNALED(status))
		log_error("control %d was killed by signal %d after %lld ms", (int)pid, WTERMSIG(status), (long long)lived_ms);
	else
		log_error("control %d exited with %d after %lld ms", (int)pid, WEXITSTATUS(status), (long long)lived_ms);
}

void control_reaped(struct spawner *sp, int status, int64_t now_ms)
{
	struct control *c = &sp->control;
	pid_t pid = c->pid;

	c->pid = 0; /* reaped: nothing may be sent to this number any more */
	liveness_gone(&sp->liveness);
	sp->alive_unsent = false;
	drain_dead(sp); /* its last word may have been FINISHED: then its end is in order */
	if (!sp->ending && !(sp->upgrade.state == UPGRADE_LEAVES && WIFEXITED(status) && WEXITSTATUS(status) == 0))
		death_log(c, pid, status, now_ms - c->started_ms);
	jobs_orphan(sp);
	seconds_drop_all(sp); /* what it had sent is done: what isn't promoted now won't be */
	sp->drain_at_ms = now_ms;
	if (sp->ending || upgrade_control_left(sp, now_ms))
		return;
	if (!c->ever_ready && WIFEXITED(status) && WEXITSTATUS(status) == CONTROL_EXIT_REFUSED) {
		log_error("control refuses to start, and its own line above says why: sandboxd gives up");
		spawner_end(sp, EXIT_FAILED);
	} else if (!c->ready && !c->ever_ready && ++c->failed_starts >= FAILED_STARTS_MAX) {
		log_error("control died %d times before it was ready: sandboxd gives up%s%s", FAILED_STARTS_MAX,
			c->failure[0] ? "; " : "; its own lines above say why", c->failure);
		spawner_end(sp, EXIT_FAILED);
	} else if (sp->stop_asked > 0) {
		log_warning("control died while sandboxd was stopping: what still runs is killed");
		spawner_end(sp, EXIT_DONE);
	} else {
		/* Killed from outside while it served: no fault of its own, so the next needn't be slowed down. */
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && c->ready && !c->given_up)
			c->start_at_ms = now_ms;
		else
			plan_restart(sp, now_ms);
	}
}

int64_t control_deadline(const struct spawner *sp)
{
	const struct control *c = &sp->control;

	if (c->pid == 0)
		return c->start_at_ms;
	if (c->ready || c->fd == -1)
		return NEVER;
	return c->started_ms + (c->ever_ready ? READY_LATER_MS : READY_FIRST_MS);
}

void control_timer(struct spawner *sp, int64_t now_ms)
{
	struct control *c = &sp->control;

	if (sp->ending || now_ms < control_deadline(sp))
		return;
	if (c->pid == 0) {
		control_start(sp, now_ms);
	} else if (!c->ever_ready) {
		log_error("control did not get ready within %d s: sandboxd gives up", READY_FIRST_MS / 1000);
		spawner_end(sp, EXIT_FAILED);
	} else {
		control_break(sp, "it did not get ready");
	}
}

/* SPDX-License-Identifier: MIT
 *
 * The loop: signals, deaths, control's requests, the socket's folder, deadlines. */
#include "daemon/spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "daemon/spawner/handover.h"
#include "daemon/spawner/instance.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/log.h"

#define STOP_MS       (DEFAULT_SHUTDOWN_MS + 2000) /* control's own time for it, and some for saying so */
#define HURRY_MS      2000
#define ENDING_MS     5000  /* for SIGKILL to be obeyed */
#define KILL_AGAIN_MS 50
#define DRAIN_MS      50
#define DRAIN_ABOVE   (48 << 10)

int spawner_take_uid(struct spawner *sp, uid_t *ret_uid, struct err *e)
{
	uid_t first;

	*ret_uid = sp->is_root ? (uid_t)-1 : geteuid(); /* -1 stays where it fails: callers give back what they find there */
	if (!sp->is_root || uids_take(&sp->uids, ret_uid))
		return 0;
	if (slices_lock(&sp->slices, &first, e) == -1 || uids_add(&sp->uids, first, LIMIT_UIDS_PER_SLICE, e) == -1)
		return -1;
	return uids_take(&sp->uids, ret_uid) ? 0 : err_set(e, ERR_LIMIT_EXCEEDED, "no user id is free");
}

void spawner_end(struct spawner *sp, int exit_status)
{
	if (sp->ending)
		return;
	sp->ending = true;
	sp->exit_status = exit_status;
	sp->ending_by_ms = clock_monotonic_ms() + ENDING_MS;
	reap_kill_all(sp);
}

void spawner_stop_asked(struct spawner *sp, const char *by, int64_t now_ms)
{
	int64_t first_ms = sp->config.shutdown_timeout_ms < STOP_MS ? sp->config.shutdown_timeout_ms : STOP_MS;
	int64_t by_ms = now_ms + (sp->stop_asked == 0 ? first_ms : HURRY_MS);

	if (sp->stop_asked == 0 || by_ms < sp->stop_by_ms)
		sp->stop_by_ms = by_ms;
	if (sp->stop_asked == 0)
		sp->stop_asked_ms = now_ms;
	sp->stop_asked++;
	sp->stop_unsent = true;
	notify_send(&sp->notify, "STOPPING=1\nSTATUS=stopping on %s\n", by);
	log_info("stopping on %s", by);
	if (sp->control.pid == 0 && !upgrade_drains(sp)) /* the next control, of either program, is told, and stops them in order */
		spawner_end(sp, EXIT_DONE);
}

void spawner_patience(struct spawner *sp, uint64_t ms)
{
	uint64_t most = sp->config.shutdown_timeout_ms;
	int64_t by_ms = sp->stop_asked_ms + (int64_t)(ms < most ? ms : most);

	if (sp->stop_asked == 1 && by_ms > sp->stop_by_ms)
		sp->stop_by_ms = by_ms;
}

static void signals_read(struct spawner *sp, int64_t now_ms)
{
	struct signalfd_siginfo info;

	while (read(sp->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
		switch (info.ssi_signo) {
		case SIGTERM:
		case SIGINT:
			spawner_stop_asked(sp, info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM", now_ms);
			break;
		case SIGHUP:
			upgrade_asked(sp, "SIGHUP", now_ms);
			break;
		default: /* SIGCHLD: children are looked for below */
			break;
		}
	}
}

/* Reads the pipe empty, counting. Its writer would block, or lines of a later control would wait behind old ones. */
static uint64_t pipe_drain(int fd)
{
	char bytes[16384];
	uint64_t dropped = 0;
	int waiting = 0;

	if (fd == -1 || ioctl(fd, FIONREAD, &waiting) == -1 || waiting <= DRAIN_ABOVE)
		return 0;
	while (waiting > 0) {
		ssize_t n = read(fd, bytes, sizeof bytes);

		if (n <= 0)
			break;
		dropped += (uint64_t)n;
		waiting -= (int)n;
	}
	return dropped;
}

static void pipes_drain(struct spawner *sp, int64_t now_ms)
{
	if (sp->control.pid > 0 || now_ms < sp->drain_at_ms)
		return;
	sp->drain_at_ms = now_ms + DRAIN_MS;
	for (uint64_t cursor = 0;;) {
		struct entry *entry = table_from(&sp->table, cursor);

		if (!entry)
			return;
		if (entry_lives(entry))
			entry->dropped_bytes += pipe_drain(entry->fds[ENTRY_STDOUT]) + pipe_drain(entry->fds[ENTRY_STDERR]);
		cursor = entry->slot + 1ull;
	}
}

/* A debugger holds whom it looks at: then nobody is served, and that is its wish. */
static bool is_traced(pid_t pid)
{
	char path[40], line[128];
	int tracer = 0;
	FILE *f;

	(void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "TracerPid: %d", &tracer) == 1)
			break;
	if (f)
		(void)fclose(f);
	return tracer > 0;
}

static void liveness_look(struct spawner *sp, int64_t now_ms)
{
	switch (liveness_timer(&sp->liveness, now_ms)) {
	case LIVENESS_NOTHING:
		break;
	case LIVENESS_ASK:
		sp->alive_unsent = true;
		break;
	case LIVENESS_REPLACE:
		if (is_traced(sp->control.pid)) {
			log_warning("control %d is traced and doesn't answer: it is left to its tracer", (int)sp->control.pid);
			liveness_serves(&sp->liveness, now_ms);
			notify_send(&sp->notify, "WATCHDOG=1\nSTATUS=control is traced and doesn't answer\n"); /* its tracer's affair, not the service manager's */
			break;
		}
		notify_send(&sp->notify, "STATUS=control doesn't answer and is replaced\n");
		control_break(sp, "it has not answered for too long (stopped, or caught in a loop)");
		break;
	}
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int timeout_ms(const struct spawner *sp, int64_t now_ms)
{
	int64_t at = earlier(earlier(control_deadline(sp), jobs_deadline(sp)), zygotes_deadline(sp));

	at = earlier(earlier(at, sp->listener.retry_at_ms), earlier(liveness_deadline(&sp->liveness), earlier(sp->cgroups.retry_at_ms, sp->sweeps.retry_at_ms)));
	at = earlier(at, upgrade_deadline(sp));
	if (sp->stop_asked > 0)
		at = earlier(at, sp->stop_by_ms);
	if (sp->control.pid == 0 && sp->table.n_living > 0)
		at = earlier(at, sp->drain_at_ms);
	if (sp->ending)
		at = now_ms + KILL_AGAIN_MS;
	if (at == NEVER)
		return -1;
	if (at <= now_ms)
		return 0;
	return at - now_ms > 60000 ? 60000 : (int)(at - now_ms);
}

static void timers(struct spawner *sp, int64_t now_ms)
{
	jobs_timer(sp, now_ms);
	zygotes_timer(sp, now_ms);
	control_timer(sp, now_ms);
	upgrade_timer(sp, now_ms);
	pipes_drain(sp, now_ms);
	sweeps_timer(&sp->sweeps, now_ms);
	if (now_ms >= sp->cgroups.retry_at_ms)
		cgroups_retry(&sp->cgroups, now_ms);
	if (!sp->ending)
		liveness_look(sp, now_ms);
	if (now_ms >= sp->listener.retry_at_ms && listener_check(&sp->listener, now_ms))
		sp->listener_unsent = true;
	if (sp->stop_asked > 0 && now_ms >= sp->stop_by_ms && !sp->ending) {
		log_warning("control did not stop the sandboxes in time: what still runs is killed");
		spawner_end(sp, EXIT_DONE);
	}
}

static bool facts_wait(const struct spawner *sp)
{
	for (size_t i = 0; i < LIMIT_JOBS; i++)
		if (sp->jobs[i].state == JOB_ENDED)
			return true;
	return sp->control.has_out || (sp->control.ready && sp->upgrade.says != UPGRADE_SAYS_NOTHING) || sp->stop_unsent || sp->alive_unsent || sp->listener_unsent || sp->table.facts ||
		(sp->control.ready && sp->denials.n > 0);
}

static void turn(struct spawner *sp)
{
	enum { SIGNALS, REPORTS, FOLDER, CONTROL, DENIALS, LINKS, N = LINKS + ZYGOTES };
	int64_t now_ms = clock_monotonic_ms();
	struct pollfd fds[N] = {
		[SIGNALS] = { .fd = sp->signal_fd, .events = POLLIN },
		[REPORTS] = { .fd = sp->report_read_fd, .events = POLLIN },
		[FOLDER] = { .fd = sp->listener.inotify_fd, .events = POLLIN },
		[CONTROL] = { .fd = sp->control.fd, .events = sp->control.has_out ? 0 : POLLIN },
	};

	/* While the program is being replaced who asks waits: the kernel asks the next one again. */
	fds[DENIALS] = (struct pollfd){ .fd = upgrade_drains(sp) ? -1 : sp->denials.epoll_fd, .events = POLLIN };
	(void)zygotes_pollfds(sp, &fds[LINKS]);
	if (facts_wait(sp))
		fds[CONTROL].events |= POLLOUT;
	if (sp->ending) /* nothing is asked of us any more; a hang-up would make poll spin */
		fds[CONTROL].fd = -1;
	if (poll(fds, N, timeout_ms(sp, now_ms)) == -1 && errno != EINTR)
		log_error("poll: %s", strerror(errno));
	now_ms = clock_monotonic_ms();
	if (fds[REPORTS].revents)
		reap_reports(sp);
	zygotes_ready(sp, &fds[LINKS]);
	if (fds[DENIALS].revents)
		denials_ready(sp);
	if (fds[SIGNALS].revents) {
		signals_read(sp, now_ms);
		reap_children(sp, now_ms);
	}
	if (fds[FOLDER].revents && !sp->ending && listener_check(&sp->listener, now_ms))
		sp->listener_unsent = true;
	if (fds[CONTROL].revents && fds[CONTROL].fd == sp->control.fd) { /* else it died meanwhile */
		if (fds[CONTROL].revents & (POLLOUT | POLLHUP | POLLERR))
			control_writable(sp);
		control_readable(sp);
	}
	zygotes_go_on(sp);
	seconds_free(sp);
	timers(sp, now_ms);
	if (!sp->ending)
		control_notify(sp);
}

void spawner_weaken(struct spawner *sp, uint64_t weaken, int landlock_abi)
{
	sp->weaken = weaken;
	sp->landlock_abi = landlock_abi;
	for (int i = 0; i < PROTECTION__N; i++)
		if (weaken & PROTECTION_BIT(i))
			log_warning("--weaken: NO HOST IS PROTECTED by '%s'", protection_name((enum protection)i));
	if (landlock_abi >= 0)
		log_warning("--landlock-abi: hosts are restricted as by Landlock's ABI %d", landlock_abi);
}

int spawner_run(struct spawner *sp)
{
	while (!sp->ending)
		turn(sp);
	while (!reap_done(sp)) {
		reap_kill_all(sp);
		if (clock_monotonic_ms() >= sp->ending_by_ms) {
			log_error("processes are left that don't die of SIGKILL");
			break;
		}
		turn(sp);
	}
	return sp->exit_status;
}

/* Launchers leave all sorts of dispositions behind. What we handle is read from the signal descriptor. */
static int signals_open(struct spawner *sp, struct err *e)
{
	static const int ours[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP };
	struct sigaction standard = { .sa_handler = SIG_DFL }, ignore = { .sa_handler = SIG_IGN };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
		sigaddset(&set, ours[i]);
		(void)sigaction(ours[i], &standard, NULL);
	}
	(void)sigaction(SIGPIPE, &ignore, NULL);
	if (sigprocmask(SIG_SETMASK, &set, NULL) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot set the signal mask");
	sp->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (sp->signal_fd == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot make a signal descriptor");
	return 0;
}

static int report_pipe_open(struct spawner *sp, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) == -1 || fd_set_nonblocking(ends[0], true) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot make a pipe");
	sp->report_read_fd = ends[0];
	sp->report_write_fd = ends[1];
	return 0;
}

/* What keyed requests came to, kept for the next control. Its pages are taken as it fills. */
static int outcomes_make(struct spawner *sp, struct err *e)
{
	sp->outcomes_fd = FAULT(SPAWNER_OUTCOMES) ? -1 : memfd_create("outcomes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (sp->outcomes_fd == -1 || ftruncate(sp->outcomes_fd, LIMIT_OUTCOMES_BYTES) == -1 ||
		fcntl(sp->outcomes_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot make the memory for outcomes");
	return 0;
}

static void spawner_init(struct spawner *sp, const struct config *c)
{
	memset(sp, 0, sizeof *sp);
	sp->config = *c;
	sp->is_root = geteuid() == 0;
	sp->control_uid = geteuid();
	sp->runtime_fd = sp->lock_fd = sp->state_fd = sp->objects_fd = sp->jobs_fd = sp->null_fd = sp->outcomes_fd = -1;
	sp->signal_fd = sp->report_read_fd = sp->report_write_fd = -1;
	sp->listener = (struct listener)LISTENER_INIT;
	sp->programs = (struct programs)PROGRAMS_INIT;
	sp->slices = (struct slices)SLICES_INIT;
	control_init(&sp->control);
	jobs_init(sp);
	zygotes_init(&sp->zygotes, c->spare_hosts);
	sp->denials.epoll_fd = -1;
	sp->landlock_abi = -1;
	sp->cgroups = (struct cgroups)CGROUPS_INIT;
	sp->sweeps = (struct sweeps)SWEEPS_INIT;
	sp->liveness = (struct liveness)LIVENESS_INIT;
	sp->notify = (struct notify)NOTIFY_INIT;
	upgrade_init(&sp->upgrade);
}

int spawner_open(struct spawner *sp, const struct config *c, int faults_fd, struct err *e)
{
	spawner_init(sp, c);
	sp->faults_fd = faults_fd;
	notify_open(&sp->notify);
	liveness_init(&sp->liveness, sp->notify.watchdog_ms);
	if (signals_open(sp, e) == -1 || programs_open(&sp->programs, e) == -1 || instance_open(sp, e) == -1 ||
		report_pipe_open(sp, e) == -1 || denials_open(&sp->denials, e) == -1 || outcomes_make(sp, e) == -1 || table_init(&sp->table, c->max_sandboxes, e) == -1 ||
		listener_open(&sp->listener, c, e) == -1)
		return -1;
	cgroups_open(&sp->cgroups); /* behind the lock: no other daemon of this folder runs */
	return 0;
}

/* What was read of children's ends before the exec is read again: a pending SIGCHLD may have been dropped with the old handlers. */
int spawner_take_over(struct spawner *sp, const struct config *c, const struct handover *h, struct err *e)
{
	spawner_init(sp, c);
	sp->faults_fd = h->head->fds[HANDOVER_FAULTS];
	if (signals_open(sp, e) == -1 || programs_open(&sp->programs, e) == -1 || report_pipe_open(sp, e) == -1 || denials_open(&sp->denials, e) == -1 ||
		upgrade_take_over(sp, c, h, e) == -1)
		return -1;
	liveness_init(&sp->liveness, sp->notify.watchdog_ms);
	log_info("upgrade %u: took over %u sandboxes, %u of them with a process", sp->upgrade.done, sp->table.n, sp->table.n_living);
	reap_children(sp, clock_monotonic_ms());
	if (listener_check(&sp->listener, clock_monotonic_ms()))
		sp->listener_unsent = true;
	return 0;
}

void spawner_close(struct spawner *sp)
{
	upgrade_close(&sp->upgrade);
	listener_close(&sp->listener);
	zygotes_close(sp);
	table_fini(&sp->table);
	fd_close(&sp->control.fd);
	fd_close(&sp->outcomes_fd);
	instance_close(sp);
	programs_close(&sp->programs);
	slices_close(&sp->slices);
	sweeps_fini(&sp->sweeps);
	uids_fini(&sp->uids);
	denials_close(&sp->denials);
	fd_close(&sp->report_read_fd);
	fd_close(&sp->report_write_fd);
	fd_close(&sp->signal_fd);
	notify_close(&sp->notify);
	cgroups_close(&sp->cgroups);
}

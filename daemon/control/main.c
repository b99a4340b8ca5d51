/* SPDX-License-Identifier: MIT
 *
 * The control process: started by the spawner with two descriptors and nothing else (proto/spawner_wire.h). No privilege, no child,
 * one storage thread; whatever it knows, the spawner keeps too, so that its successor can go on. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "daemon/control/control.h"
#include "daemon/front/listener.h"
#include "daemon/group/group.h"
#include "daemon/control/handlers.h"
#include "daemon/control/leave.h"
#include "daemon/doctor/doctor.h"
#include "daemon/sandbox/durable.h"
#include "daemon/sandbox/owners.h"
#include "daemon/sandbox/registry.h"
#include "daemon/sandbox/sampler.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/control/shutdown.h"
#include "daemon/control/spawner_link.h"
#include "daemon/simulate/simulate.h"
#include "daemon/observe/audit.h"
#include "daemon/observe/events.h"
#include "daemon/observe/log_writer.h"
#include "daemon/store/database.h"
#include "daemon/store/histories.h"
#include "daemon/store/storage.h"
#include "proto/build.h"
#include "proto/clock.h"
#include "proto/fault.h"
#include "proto/fd.h"
#include "proto/log.h"

/* An exit of something that isn't in the registry: refused at take-over. */
static void stray_exited(struct control *c, const struct spawner_message *m)
{
	struct spawner_message s;

	spawner_message_init(&s, SPAWNER_ACK_EXIT, m->sandbox);
	s.generation = m->generation;
	spawner_send(c->spawner, &s, NULL, 0);
	spawner_message_init(&s, SPAWNER_FORGET, m->sandbox);
	spawner_send(c->spawner, &s, NULL, 0);
}

static void notice(void *ctx, const struct spawner_message *message, int *fds, size_t n_fds)
{
	struct control *c = ctx;
	struct spawner_message m = *message;
	struct sandbox *sb;

	m.sandbox[LIMIT_ID_BYTES] = '\0';
	switch ((enum spawner_op)m.op) {
	case SPAWNER_EXITED:
		sb = registry_get(c->registry, m.sandbox);
		if (sb)
			sandbox_exited(sb, &m);
		else if (doctor_exited(c, &m))
			break;
		else if (c->table_read || take_over_refused(m.sandbox)) /* else its entry is still to come, and says so too */
			stray_exited(c, &m);
		break;
	case SPAWNER_BORN:
		sb = registry_get(c->registry, m.sandbox);
		if (sb)
			sandbox_born(sb, &m);
		break;
	case SPAWNER_DENIED:
		sb = registry_get(c->registry, m.sandbox);
		if (sb)
			sandbox_denied(sb, &m);
		break;
	case SPAWNER_STOP_ASKED:
		c->stop_asked = m.value;
		if (c->serving)
			shutdown_begin(c, m.value);
		break;
	case SPAWNER_ALIVE_ASKED: {
		struct spawner_message alive;

		spawner_message_init(&alive, SPAWNER_ALIVE, NULL);
		spawner_send(c->spawner, &alive, NULL, 0);
		break;
	}
	case SPAWNER_UPGRADE_GOES:
		upgrade_goes(c);
		break;
	case SPAWNER_UPGRADE_REFUSED:
		upgrade_refused(c, n_fds > 0 ? fds[0] : -1);
		break;
	case SPAWNER_LISTENER:
		if (n_fds > 0 && c->listener && !c->leaving)
			listener_replace(c->listener, fd_take(&fds[0]));
		break;
	case SPAWNER_READY:
	case SPAWNER_TABLE:
	case SPAWNER_HOLD:
	case SPAWNER_KEEP:
	case SPAWNER_FORGET:
	case SPAWNER_START:
	case SPAWNER_SIGNAL:
	case SPAWNER_LIMIT:
	case SPAWNER_ACK_EXIT:
	case SPAWNER_JOB:
	case SPAWNER_JOB_KILL:
	case SPAWNER_FINISHED:
	case SPAWNER_STOP:
	case SPAWNER_STOPPING:
	case SPAWNER_ALIVE:
	case SPAWNER_UPGRADE:
	case SPAWNER_PROMOTE:
	case SPAWNER_DISCARD:
	case SPAWNER_REQUEST__N:
	case SPAWNER_OK:
	case SPAWNER_ERROR:
	case SPAWNER_ENTRY:
	case SPAWNER_TABLE_END:
	case SPAWNER_STARTED:
	case SPAWNER_JOB_DONE:
		break;
	}
}

/* All hosts have said what they are doing: clients are let in. */
static void serve(struct control *c)
{
	struct spawner_message m;
	struct err e = ERR_INIT;

	groups_begin(c);
	rpc_keys_settle(c->keys);
	if (listener_start(c, CONTROL_FD_LISTEN, &c->listener, &e) < 0) {
		log_error("%s", e.text);
		_exit(1);
	}
	spawner_message_init(&m, SPAWNER_READY, NULL);
	spawner_send(c->spawner, &m, NULL, 0);
	sandbox_logs_begin(c);
	events_add(c->events, "daemon.started", NULL, 0, NULL, NULL);
	upgrade_done(c);
	log_info("serving on %s", c->begin.socket_path);
	c->serving = true;
	if (c->stop_asked > 0)
		shutdown_begin(c, c->stop_asked);
}

/* ---- the registry: opened by the storage thread before anything else ---- */

static struct open_job {
	struct storage_job job;
	struct control *control;
	struct database_found found;
} open_job;

static void open_work(struct storage_job *job)
{
	struct open_job *o = (struct open_job *)job;
	struct storage *s = o->control->storage;
	struct database *d = NULL;

	/* The whole of it is checked when the daemon starts; a restart of control is not held up for that. */
	job->status = database_open(storage_dir_fd(s), o->control->begin.epoch <= 1, &d, &o->found, &job->err);
	storage_set_database(s, d);
}

static void open_done(struct storage_job *job)
{
	struct open_job *o = (struct open_job *)job;
	struct control *c = o->control;
	struct err e = ERR_INIT;

	if (job->status == -1) {
		log_error("%s", job->err.text);
		_exit(CONTROL_EXIT_REFUSED);
	}
	for (size_t i = 0; i < o->found.n_problems; i++)
		durable_problem(c, o->found.problems[i]);
	groups_load(c, &o->found);
	if (spawner_link_new(c->loop, CONTROL_FD_SPAWNER, notice, c, &c->spawner, &e) < 0 || take_over(c, &o->found, serve, &e) < 0) {
		log_error("cannot start: %s", e.text);
		_exit(1);
	}
}

static int control_start(struct control *c, struct err *e)
{
	static struct log_store logs;
	struct err why = ERR_INIT;

	c->started_ms = clock_monotonic_ms();
	if (spawner_receive_begin(CONTROL_FD_SPAWNER, &c->begin, e) < 0)
		return -1;
	if (c->begin.has_faults && fault_use(CONTROL_FD_FAULTS, e) < 0)
		return -1;
	if (fd_set_nonblocking(CONTROL_FD_SPAWNER, true) < 0)
		return err_sys(e, ERR_INTERNAL, "cannot use the spawner's socket");
	if (rpc_keys_open(c, CONTROL_FD_OUTCOMES, &outcome_owner, &c->keys, e) < 0)
		return -1;
	c->registry = registry_new();
	c->owners = owners_new();
	c->sampler = sampler_new(c);
	c->events = events_new(c->begin.incarnation);
	c->audit = audit_new(c->begin.incarnation);
	if (!c->registry || !c->owners || !c->sampler || !c->events || !c->audit)
		return err_set(e, ERR_INTERNAL, "no memory");
	if (durable_new(c, e) < 0 || storage_start(c->loop, c->begin.state_dir, &c->storage, e) < 0)
		return -1;
	c->histories = histories_new(storage_dir_fd(c->storage), &histories_limits);
	if (!c->histories)
		return err_set(e, ERR_INTERNAL, "no memory");
	if (events_open(c->events, storage_dir_fd(c->storage), "events", c->storage, &why) < 0)
		log_error("events are kept in memory only: %s", why.text);
	if (audit_open(c->audit, storage_dir_fd(c->storage), c->storage, &why) < 0)
		log_error("the audit trail is kept in memory only: %s", why.text);
	c->acted = audit_request;
	logs.storage = c->storage;
	c->logs = &logs;
	open_job.job = (struct storage_job){ .work = open_work, .done = open_done, .err = ERR_INIT };
	open_job.control = c;
	storage_submit(c->storage, &open_job.job);
	return 0;
}

int main(int argc, char **argv)
{
	static struct control control;
	struct err e = ERR_INIT;
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	if (argc == 2 && strcmp(argv[1], BUILD_ARGUMENT) == 0)
		return build_print();
	if (argc > 1)
		return simulate_main(argc, argv);
	log_init("sandboxd-control", LOG_LEVEL_INFO);
	(void)sigaction(SIGPIPE, &ignore, NULL);
	(void)sigaction(SIGXFSZ, &ignore, NULL); /* a quota is an error of write */
	(void)prctl(PR_SET_NAME, "sandboxd-control"); /* executed by descriptor: older kernels would show its number */
	(void)prctl(PR_SET_DUMPABLE, 0);
	control.loop = uv_default_loop();
	if (!control.loop || control_start(&control, &e) < 0) {
		log_error("cannot start: %s", e.text[0] ? e.text : "no loop");
		return 1;
	}
	uv_run(control.loop, UV_RUN_DEFAULT);
	durable_free(&control);
	control.histories = histories_free(control.histories);
	control.owners = owners_free(control.owners);
	control.sampler = sampler_free(control.sampler);
	events_free(control.events);
	audit_free(control.audit);
	return 0;
}

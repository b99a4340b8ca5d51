/* SPDX-License-Identifier: MIT
 *
 * What the rooms of the control process share: the loop and the parts that hang on it. Made and ended in main.c only;
 * a part reaches another through these pointers, never through globals. */
#ifndef SANDBOXD_CONTROL_H
#define SANDBOXD_CONTROL_H

#include <stdbool.h>
#include <uv.h>

#include "proto/spawner_wire.h"

struct storage;      /* daemon/store/storage.h: the one storage thread */
struct listener;     /* daemon/front/listener.h: socket, connections */
struct spawner_link; /* daemon/control/spawner_link.h */
struct registry;     /* daemon/sandbox/registry.h: id -> sandbox */
struct events;       /* daemon/observe/events.h */
struct log_store;    /* daemon/observe/log_writer.h */
struct event_followers; /* handlers_events.c */
struct rpc_keys;     /* daemon/front/rpc_key.h */
struct durable;      /* daemon/sandbox/durable.h: what is on disk */
struct histories;    /* daemon/store/histories.h: of destroyed sandboxes; for storage jobs alone */
struct doctor;       /* daemon/doctor/doctor.h */
struct rpc_act;      /* daemon/front/rpc.h */
struct sampler;      /* daemon/sandbox/sampler.h: looks at what runs */
struct owners;       /* daemon/sandbox/owners.h: totals per owner */

struct control {
	uv_loop_t *loop;
	struct control_begin begin; /* what the spawner said first */
	struct storage *storage;
	struct listener *listener;
	struct spawner_link *spawner;
	struct registry *registry;
	struct events *events;
	struct event_followers *followers, *audit_followers; /* NULL: nobody has asked yet */
	struct log_store *logs;     /* NULL: logs are in memory only (tests) */
	struct rpc_keys *keys;      /* NULL: no outcomes are kept (tests) */
	struct durable *durable;
	struct histories *histories;
	struct owners *owners;      /* NULL: nothing is counted (tests) */
	struct sampler *sampler;    /* NULL: nobody looks (tests) */
	struct doctor *doctor;      /* NULL: no examination is at work */
	struct audit *audit;        /* daemon/observe/audit.h; NULL: nothing is recorded (tests) */
	void (*acted)(struct control *c, const struct rpc_act *act); /* rpc.h; NULL: nobody wants to know (tests) */
	bool serving;               /* clients are let in */
	uint64_t stop_asked;        /* before that */
	int64_t started_ms;         /* monotonic */
	bool table_read;            /* take-over: all that the spawner holds is in the registry */
	bool shutting_down;         /* requests but daemon.ping are answered shutting_down */
	unsigned older_hosts;       /* that run another program than new ones would: from before an upgrade */
	bool leaving;               /* the program is replaced: connections are being closed, and this process ends; its successor takes over */
	bool finishing;             /* all sandboxes are stopped; connections are being closed */
};

#endif

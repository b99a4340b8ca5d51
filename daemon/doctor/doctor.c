/* SPDX-License-Identifier: MIT */
#include "daemon/doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/doctor/machine.h"
#include "daemon/doctor/probe.h"
#include "daemon/sandbox/registry.h"
#include "proto/json_out.h"
#include "proto/profile.h"

/* One examination. It goes on to its end also when nobody waits any more: what it has started must be ended. */
struct doctor {
	struct control *control;
	struct rpc_request *request; /* NULL: answered */
	enum profile profile;        /* that is being tried */
	struct probe *probe;
	struct buf text;
	struct json_out out;
	uint64_t missing;            /* PROTECTION_BITs that some profile asked for in vain */
};

static void begin_next(struct doctor *d);

/* ---- the answer ---- */

static int protection_of(const char *name)
{
	for (int p = 0; p < PROTECTION__N; p++)
		if (strcmp(protection_name((enum protection)p), name) == 0)
			return p;
	return -1;
}

static void note_missing(struct doctor *d, struct json_span report)
{
	struct json_span key, row;

	for (struct json_iter it = json_iter_begin(report); json_iter_next(&it, &key, &row);) {
		char name[64], asked[PROTECTION_TEXT_BYTES], got[PROTECTION_TEXT_BYTES];
		int p;

		if (json_string(json_get(row, "protection"), name, sizeof name) < 0 ||
			json_string(json_get(row, "asked"), asked, sizeof asked) < 0 ||
			json_string(json_get(row, "got"), got, sizeof got) < 0 || strcmp(asked, "none") == 0 || strcmp(got, "none") != 0)
			continue;
		json_out_text(&d->out, NULL, name);
		p = protection_of(name);
		if (p != -1)
			d->missing |= PROTECTION_BIT(p);
	}
}

static void profile_json(struct doctor *d, const struct probe_result *result)
{
	struct json_out *o = &d->out;
	struct json_span report = { result->report, result->report ? strlen(result->report) : 0 };

	json_out_object(o, NULL);
	json_out_text(o, "profile", profile_policy(d->profile)->name);
	json_out_bool(o, "works", result->report != NULL);
	if (result->report) {
		json_out_i64(o, "birth_us", result->took_us);
		json_out_null(o, "error");
		json_out_null(o, "step");
	} else {
		json_out_null(o, "birth_us");
		json_out_text(o, "error", result->err.text);
		json_out_text(o, "step", result->step);
	}
	json_out_array(o, "missing");
	if (result->report)
		note_missing(d, report);
	json_out_array_end(o);
	if (result->report)
		json_out_raw(o, "security", report.at, report.size);
	else
		json_out_null(o, "security");
	json_out_object_end(o);
}

static void capacity_json(struct doctor *d)
{
	const struct control *c = d->control;
	struct json_out *o = &d->out;
	uint64_t files = machine_descriptors_of((pid_t)c->begin.spawner_pid), fit = machine_sandboxes_for(files);
	bool by_files = files > 0 && fit < c->begin.max_sandboxes;

	json_out_object(o, "capacity");
	json_out_u64(o, "sandboxes", by_files ? fit : c->begin.max_sandboxes);
	json_out_text(o, "limited_by", by_files ? "open files" : "max_sandboxes");
	json_out_u64(o, "open_files", files);
	json_out_u64(o, "max_sandboxes", c->begin.max_sandboxes);
	json_out_u64(o, "present", registry_count(c->registry));
	json_out_text(o, "get", by_files ? "a higher hard limit of open files for sandboxd (LimitNOFILE=, ulimit -Hn)" : "max_sandboxes in the configuration");
	json_out_object_end(o);
}

static void remedies_json(struct doctor *d)
{
	struct json_out *o = &d->out;

	json_out_array(o, "remedies");
	for (int p = 0; p < PROTECTION__N; p++) {
		const struct machine_remedy *m = machine_remedy((enum protection)p);

		if (!(d->missing & PROTECTION_BIT(p)))
			continue;
		json_out_object(o, NULL);
		json_out_text(o, "protection", protection_name((enum protection)p));
		json_out_text(o, "lost", m->lost);
		json_out_text(o, "get", m->get);
		json_out_object_end(o);
	}
	json_out_array_end(o);
}

static void finish(struct doctor *d)
{
	struct err e = ERR_INIT;

	json_out_array_end(&d->out);
	remedies_json(d);
	capacity_json(d);
	json_out_object_end(&d->out);
	if (d->request && d->text.failed) {
		err_set(&e, ERR_INTERNAL, "no memory for the result");
		(void)rpc_error(d->request, &e, NULL);
	} else if (d->request) {
		(void)rpc_result_raw(d->request, buf_text(&d->text), d->text.size);
	}
	buf_fini(&d->text);
	d->control->doctor = NULL;
	free(d);
}

/* ---- one profile after the other ---- */

static void probed(void *ctx, const struct probe_result *result)
{
	struct doctor *d = ctx;

	d->probe = NULL;
	profile_json(d, result);
	d->profile++;
	begin_next(d);
}

static void begin_next(struct doctor *d)
{
	struct probe_result none = { .err = ERR_INIT, .step = "spawn" };

	for (; profile_policy(d->profile) && !d->control->shutting_down; d->profile++) {
		d->probe = probe_start(d->control, profile_policy(d->profile)->name, probed, d, &none.err);
		if (d->probe)
			return;
		profile_json(d, &none);
	}
	finish(d);
}

const struct rpc_done *daemon_doctor(struct control *c, struct rpc_request *r)
{
	struct doctor *d = c->doctor ? NULL : calloc(1, sizeof *d);
	const struct rpc_done *pending;
	struct err e = ERR_INIT;

	if (!d) {
		if (c->doctor)
			err_set(&e, ERR_BUSY, "an examination is at work already; ask again when it is done, in a second or so");
		else
			err_set(&e, ERR_INTERNAL, "no memory for an examination");
		return rpc_error(r, &e, NULL);
	}
	*d = (struct doctor){ .control = c, .request = r, .text = BUF_INIT };
	c->doctor = d;
	d->out = json_out_to(&d->text);
	pending = rpc_pending(r);
	json_out_object(&d->out, NULL);
	json_out_text(&d->out, "version", SANDBOXD_VERSION);
	json_out_bool(&d->out, "rootless", !c->begin.is_root);
	machine_json(&d->out);
	json_out_array(&d->out, "profiles");
	begin_next(d);
	return pending;
}

bool doctor_exited(struct control *c, const struct spawner_message *m)
{
	return c->doctor && probe_exited(c->doctor->probe, m);
}

void doctor_shutdown(struct control *c)
{
	struct rpc_request *r = c->doctor ? c->doctor->request : NULL;
	struct err e = ERR_INIT;

	if (!r)
		return;
	c->doctor->request = NULL;
	err_set(&e, ERR_SHUTTING_DOWN, "sandboxd ends; the examination was not finished");
	(void)rpc_error(r, &e, NULL);
}

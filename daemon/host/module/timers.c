/* SPDX-License-Identifier: MIT
 *
 * An instance's timers. They are armed by name and live with the instance; the main loop asks when the next is due and runs it.
 * What crosses a save is the time that is left, so that neither a pause nor a restart of the machine's clock counts. */
#include <stdlib.h>
#include <string.h>

#include "daemon/host/module/context.h"
#include "daemon/host/module/timers.h"
#include "proto/clock.h"

static int find(const struct module_desc *d, const char *name, size_t n)
{
	for (uint32_t i = 0; i < d->n_timers; i++)
		if (strlen(d->timers[i].name) == n && memcmp(d->timers[i].name, name, n) == 0)
			return (int)i;
	return -1;
}

static void arm(struct instance_timer *t, int64_t after_ms, int64_t every_ms)
{
	if (after_ms > LIMIT_TIMER_MS)
		after_ms = LIMIT_TIMER_MS;
	t->armed = true;
	t->due_us = clock_monotonic_us() + after_ms * 1000;
	t->every_ms = every_ms > LIMIT_TIMER_MS ? LIMIT_TIMER_MS : every_ms;
}

int service_timer(struct sbx *x, const char *name, int64_t after_ms, int64_t every_ms)
{
	struct context *c = (struct context *)x;
	int i = name != NULL ? find(c->m->desc, name, strnlen(name, LIMIT_FUNCTION_BYTES + 1)) : -1;

	if (i < 0) {
		context_fail(c, "unknown_timer", "there is no SBX_TIMER %.63s", name != NULL ? name : "");
		return -1;
	}
	if (after_ms < 0)
		c->m->timers[i].armed = false;
	else
		arm(&c->m->timers[i], after_ms, every_ms > 0 ? every_ms : 0);
	return 0;
}

/* ---- for the main loop ---- */

static int first_due(const struct module_instance *m)
{
	int first = -1;

	for (uint32_t i = 0; i < m->desc->n_timers; i++)
		if (m->timers[i].armed && (first < 0 || m->timers[i].due_us < m->timers[first].due_us))
			first = (int)i;
	return first;
}

int64_t instance_timer_due_us(const struct module_instance *m)
{
	int i = first_due(m);

	return i < 0 ? INT64_MAX : m->timers[i].due_us;
}

const char *instance_timer_name(const struct module_instance *m)
{
	int i = first_due(m);

	return i < 0 ? "" : m->desc->timers[i].name;
}

int instance_timer_run(struct module_instance *m, int64_t now_us, struct err *e)
{
	int i = first_due(m), r;
	struct instance_timer *t = i >= 0 ? &m->timers[i] : NULL;
	struct context c;

	if (t == NULL || t->due_us > now_us)
		return 0;
	t->armed = t->every_ms > 0;
	t->due_us += t->every_ms * 1000;
	if (t->due_us <= now_us) /* ticks that were missed don't come in a burst */
		t->due_us = now_us + t->every_ms * 1000;
	context_begin(&c, m, m->desc->timers[i].name, false);
	r = context_run(&c, m->desc->timers[i].fn, e);
	context_end(&c);
	return r;
}

/* ---- over a save ---- */

bool timers_any(const struct module_instance *m)
{
	return first_due(m) >= 0;
}

void timers_save(const struct module_instance *m, struct cbor_writer *w)
{
	int64_t now_us = clock_monotonic_us();
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->desc->n_timers; i++)
		n += m->timers[i].armed;
	cbor_put_head(w, CBOR_MAP, n);
	for (uint32_t i = 0; i < m->desc->n_timers; i++) {
		const struct instance_timer *t = &m->timers[i];
		uint64_t left_ms = t->due_us > now_us ? (uint64_t)(t->due_us - now_us + 999) / 1000 : 0;

		if (!t->armed)
			continue;
		cbor_put_string(w, m->desc->timers[i].name, strlen(m->desc->timers[i].name));
		/* All of one width: two saves of one state have one size, though time goes on between them. */
		cbor_put_head(w, CBOR_ARRAY, 2);
		cbor_put_u64_wide(w, left_ms);
		cbor_put_u64_wide(w, (uint64_t)t->every_ms);
	}
}

static int get_ms(struct cbor_reader *r, int64_t *ret)
{
	struct cbor_head h;

	if (cbor_get_head(r, &h) != 0 || h.major != CBOR_UINT || h.value > LIMIT_TIMER_MS)
		return -1;
	*ret = (int64_t)h.value;
	return 0;
}

int timers_restore(struct module_instance *m, const void *p, uint64_t n, struct err *e)
{
	struct cbor_reader r = cbor_reader_over(p, n);
	int64_t left_ms = 0, every_ms = 0;
	char name[LIMIT_FUNCTION_BYTES + 1];
	const uint8_t *text;
	struct cbor_head h, pair, key;
	int i;

	if (p == NULL)
		return 0;
	if (cbor_get_head(&r, &h) != 0 || h.major != CBOR_MAP)
		return err_set(e, ERR_STATE_MISMATCH, "the saved timers are damaged");
	for (; h.value > 0; h.value--) {
		if (cbor_get_head(&r, &key) != 0 || key.major != CBOR_TEXT || key.value > LIMIT_FUNCTION_BYTES ||
			(text = cbor_get_content(&r, &key)) == NULL || cbor_get_head(&r, &pair) != 0 ||
			pair.major != CBOR_ARRAY || pair.value != 2 || get_ms(&r, &left_ms) != 0 || get_ms(&r, &every_ms) != 0)
			return err_set(e, ERR_STATE_MISMATCH, "the saved timers are damaged");
		text_clean(name, sizeof name, (const char *)text, key.value);
		i = find(m->desc, (const char *)text, (size_t)key.value);
		if (i < 0) {
			err_set(e, ERR_STATE_MISMATCH, "the timer %s is armed, and the new code has no SBX_TIMER of that name", name);
			return err_about(e, name, -1);
		}
		arm(&m->timers[i], left_ms, every_ms);
	}
	return 0;
}

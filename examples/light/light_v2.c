/* SPDX-License-Identifier: MIT
 *
 * Version 2 can be stopped by hand; the timer that version 1 armed goes on in it. */
#define SBX_WANT_MINOR 1
#include <sandbox_module.h>

enum colour { RED, GREEN, AMBER, COLOURS };
static const char *const colours[] = { "red", "green", "amber" };

struct light { enum colour colour; uint32_t rounds; uint32_t hold_ms[COLOURS]; };
SBX_STATE(light, struct light, SBX_FIELD(colour), SBX_RANGE(RED, AMBER), SBX_FIELD(rounds), SBX_FIXED(hold_ms));

static int turn(struct sbx *x, void *self)
{
	struct light *l = (struct light *)self;

	l->colour = l->colour == RED ? GREEN : l->colour == GREEN ? AMBER : RED;
	l->rounds += l->colour == RED;
	return sbx_after(x, "turn", l->hold_ms[l->colour]);
}

/* Configuration: {"hold_ms": [red, green, amber]} */
static int start(struct sbx *x, void *self)
{
	static const uint32_t usual[COLOURS] = { 3000, 4000, 500 };
	struct light *l = (struct light *)self;
	struct sbx_val at = { 0, 0 }, v, hold = sbx_config(x, "hold_ms");

	for (int i = 0; i < COLOURS; i++)
		l->hold_ms[i] = sbx_has(v = sbx_next(x, hold, NULL, &at)) ? (uint32_t)sbx_u64(x, v) : usual[i];
	return sbx_after(x, "turn", l->hold_ms[RED]);
}

static int look(struct sbx *x, void *self)
{
	const struct light *l = (const struct light *)self;

	sbx_put_u64(x, "rounds", l->rounds);
	return sbx_put_str(x, "colour", colours[l->colour]);
}

static int hold(struct sbx *x, void *self)
{
	(void)self;
	return sbx_cancel_timer(x, "turn");
}

SBX_MODULE(light, 2, SBX_USES(light), SBX_ON_INIT(start), SBX_TIMER(turn), SBX_FN(look, ""), SBX_FN(hold, ""));

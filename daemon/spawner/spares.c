/* SPDX-License-Identifier: MIT
 *
 * What a spare gets in advance is what any host gets: a channel, two pipes. Its order comes on a socket that is made for it alone, and is
 * written once. */
#include "daemon/spawner/spares.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/spawner/spawner.h"
#include "daemon/spawner/zygotes_inside.h"
#include "proto/clock.h"
#include "proto/fd.h"
#include "proto/log.h"

static void place_free(struct spare *s)
{
	for (size_t i = 0; i < 3; i++)
		fd_close(&s->fds[i]);
	fd_close(&s->order_fd);
	*s = (struct spare){ .fds = { -1, -1, -1 }, .order_fd = -1 };
}

void spares_init(struct spares *s, uint32_t target)
{
	memset(s, 0, sizeof *s);
	pool_init(&s->pool, target);
	for (size_t i = 0; i < SPARE_PLACES; i++)
		s->of[i] = (struct spare){ .fds = { -1, -1, -1 }, .order_fd = -1 };
}

/* It has no use any more; its end follows. */
static void end(struct spare *s)
{
	for (size_t i = 0; i < 3; i++)
		fd_close(&s->fds[i]);
	fd_close(&s->order_fd);
	s->state = SPARE_GONE;
}

bool spare_use(struct zygote *z, const struct zygote_message *order, int objects_fd, int ret_fds[3], pid_t *ret_pid)
{
	struct spares *all = &z->spares;

	for (size_t i = 0; i < SPARE_PLACES; i++) {
		struct spare *s = &all->of[i];

		if (s->state != SPARE_WAITING)
			continue;
		if (fd_message_send(s->order_fd, order, sizeof *order, &objects_fd, objects_fd != -1) == -1) {
			pool_lost(&all->pool, true, clock_monotonic_ms()); /* it has died, and isn't reaped */
			end(s);
			continue;
		}
		(void)pool_take(&all->pool);
		for (size_t k = 0; k < 3; k++)
			ret_fds[k] = fd_take(&s->fds[k]);
		*ret_pid = s->pid;
		place_free(s);
		return true;
	}
	return false;
}

/* ---- making ---- */

static struct spare *place(struct spares *all)
{
	for (size_t i = 0; i < SPARE_PLACES; i++)
		if (all->of[i].state == SPARE_NONE)
			return &all->of[i];
	return NULL;
}

static int spare_make(struct zygote *z, struct spare *s, struct err *e)
{
	struct zygote_message m = { .version = ZYGOTE_WIRE_VERSION, .op = ZYGOTE_SPARE, .profile = (uint16_t)z->profile,
		.tag = SPARE_TAG | ++z->spares.last_tag, .scratch_bytes = DEFAULT_SCRATCH_BYTES };
	int its[4] = { -1, -1, -1, -1 }, pair[2], result = -1;

	if (!fd_room_beside(LIMIT_RESERVED_FDS))
		return err_set(e, ERR_LIMIT_EXCEEDED, "no descriptors are left for it");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot make its order");
	s->order_fd = pair[0];
	its[3] = pair[1];
	if (fd_set_nonblocking(s->order_fd, true) == -1 || host_ends_make(s->fds, its, e) == -1)
		(void)err_prefix(e, "cannot make its descriptors");
	else if (fd_message_send(z->link_fd, &m, sizeof m, its, 4) == -1)
		(void)err_sys(e, ERR_UNAVAILABLE, "cannot ask for it");
	else
		result = 0;
	for (size_t i = 0; i < 4; i++)
		fd_close(&its[i]);
	if (result == -1) {
		place_free(s);
		return -1;
	}
	s->tag = m.tag;
	s->state = SPARE_COMING;
	return 0;
}

void spares_timer(struct zygote *z, int64_t now_ms)
{
	struct pool *pool = &z->spares.pool;

	for (uint32_t n = pool_ask(pool, now_ms); n > 0; n--) {
		struct spare *s = place(&z->spares);
		struct err e = ERR_INIT;

		if (s && spare_make(z, s, &e) == 0)
			continue;
		log_debug("no spare host of profile %s: %s", profile_builtin(z->profile)->name, s ? e.text : "those that have ended aren't reaped");
		pool_lost(pool, false, now_ms);
	}
}

void spare_cloned(struct spawner *sp, struct zygote *z, const struct zygote_message *m)
{
	int status;

	for (size_t i = 0; i < SPARE_PLACES; i++) {
		struct spare *s = &z->spares.of[i];

		if (s->state == SPARE_NONE || s->tag != m->tag || s->pid != 0)
			continue;
		s->pid = m->pid;
		if (m->pid > 0 && !zygotes_early_take(sp, m->pid, &status)) {
			if (s->state == SPARE_COMING) {
				s->state = SPARE_WAITING;
				pool_came(&z->spares.pool);
			}
			return;
		}
		if (s->state == SPARE_COMING)
			pool_lost(&z->spares.pool, false, clock_monotonic_ms());
		place_free(s);
		return;
	}
}

/* ---- ends ---- */

bool spare_reaped(struct spawner *sp, pid_t pid)
{
	for (int i = 0; i < PROFILE__N; i++) {
		struct zygote *z = &sp->zygotes.of[i];

		for (size_t k = 0; k < SPARE_PLACES; k++) {
			struct spare *s = &z->spares.of[k];

			if (s->state == SPARE_NONE || s->pid != pid)
				continue;
			if (s->state == SPARE_WAITING)
				pool_lost(&z->spares.pool, true, clock_monotonic_ms());
			place_free(s);
			return true;
		}
	}
	return false;
}

bool spares_coming(const struct zygote *z)
{
	for (size_t i = 0; i < SPARE_PLACES; i++)
		if (z->spares.of[i].state != SPARE_NONE && z->spares.of[i].pid == 0)
			return true;
	return false;
}

void spares_drop(struct zygote *z)
{
	for (size_t i = 0; i < SPARE_PLACES; i++)
		if (z->spares.of[i].state != SPARE_NONE)
			end(&z->spares.of[i]);
	pool_emptied(&z->spares.pool, clock_monotonic_ms());
}

void spares_link_ended(struct zygote *z)
{
	spares_drop(z);
	for (size_t i = 0; i < SPARE_PLACES; i++)
		if (z->spares.of[i].pid == 0)
			place_free(&z->spares.of[i]);
}

void spares_kill(struct zygote *z)
{
	spares_drop(z);
	for (size_t i = 0; i < SPARE_PLACES; i++)
		if (z->spares.of[i].pid > 0)
			(void)kill(z->spares.of[i].pid, SIGKILL);
}

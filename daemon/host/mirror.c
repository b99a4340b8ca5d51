/* SPDX-License-Identifier: MIT
 *
 * One save: two stores, our reader over the arena, a sum. It is on the way of each call, so it allocates nothing, forks nothing, and asks
 * nothing of the kernel: a system call costs as much as all the rest. */
#include "daemon/host/mirror.h"

#include <sys/single_threaded.h>

#include "daemon/host/death.h"
#include "daemon/host/serve.h"

void mirror_serve(struct host *h, const struct host_message *head, const char *body, int state_fd)
{
	struct err e = ERR_INIT;

	(void)head, (void)body;
	if (h->mirror.map)
		death_end(HOST_EXIT_CONTRACT, "a second MIRROR");
	if (mirror_open(&h->mirror, state_fd, &e) < 0)
		death_end(HOST_EXIT_RESOURCE, e.text);
}

static int too_large(struct err *e, uint64_t bytes)
{
	return err_set(e, ERR_LIMIT_EXCEEDED, "checkpoint call: the saved state has %llu bytes, and before each reply at most %u are saved: use checkpoint_every_ms",
		(unsigned long long)bytes, LIMIT_MIRROR_STATE_BYTES);
}

int mirror_accepts(const struct host *h, struct module_instance *m, struct err *e)
{
	uint64_t bytes = 0;

	if (!h->mirror.map)
		return 0;
	if (!instance_save_is_ours(m))
		return err_set(e, ERR_BAD_MODULE, "checkpoint call: the module writes its state itself (SBX_ON_SAVE), and only declared state can be saved before each "
			"reply: use checkpoint_every_ms");
	if (instance_save(m, NULL, 0, &bytes, e) < 0)
		return -1;
	return bytes > LIMIT_MIRROR_STATE_BYTES ? too_large(e, bytes) : 0;
}

struct saving {
	struct module_instance *m;
	void *to;
	uint64_t bytes;
	struct err e;
	int rc;
};

static void save(void *ctx)
{
	struct saving *v = ctx;

	v->rc = instance_save(v->m, v->to, LIMIT_MIRROR_STATE_BYTES, &v->bytes, &v->e);
}

int mirror_save(struct host *h, struct module_instance *m, struct err *e)
{
	struct saving v = { .m = m, .e = ERR_INIT };

	if (!h->mirror.map)
		return 0;
	/* Another one may change the state while it is read. One that isn't libc's isn't known of; it can only spoil its own module's state. */
	if (!__libc_single_threaded && copy_one_thread(e) < 0)
		return err_prefix(e, "checkpoint call: the state can't be saved before the reply");
	v.to = mirror_begin(&h->mirror);
	if (!death_guarded_quickly(save, &v))
		return err_set(e, ERR_STATE_MISMATCH, "checkpoint call: the state can't be read, so it isn't saved before the reply");
	if (v.rc < 0 && v.e.code == ERR_LIMIT_EXCEEDED && v.bytes > LIMIT_MIRROR_STATE_BYTES)
		return too_large(e, v.bytes);
	if (v.rc < 0) {
		*e = v.e;
		return err_prefix(e, "checkpoint call: the state can't be saved before the reply");
	}
	mirror_publish(&h->mirror, v.bytes);
	return 0;
}

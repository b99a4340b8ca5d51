/* SPDX-License-Identifier: MIT
 *
 * Linked into a sandbox-host of the tests, around zygote_steps (ld's --wrap): the step that the test names fails there, or ends the
 * process. Hosts that the zygote only tries to make aren't touched. */
#include <errno.h>
#include <signal.h>

#include "daemon/host/zygote/zygote.h"
#include "tests/odd/page.h"

#define STEPS_MAX 64

int __real_zygote_steps(struct zygote *z, const struct zygote_step *steps, size_t n, enum zygote_mode mode, const char **ret_step);
int __wrap_zygote_steps(struct zygote *z, const struct zygote_step *steps, size_t n, enum zygote_mode mode, const char **ret_step);

static volatile struct odd_page *page;
static int *volatile nowhere;

__attribute__((constructor)) static void page_find(void)
{
	page = odd_page_map();
}

/* the fault itself is wanted, not what a sanitizer makes of it */
__attribute__((no_sanitize("address", "undefined"))) static int step_odd(struct zygote *z)
{
	(void)z;
	page->reached++;
	if (page->fate == ODD_KILLED)
		(void)raise(SIGKILL);
	if (page->fate == ODD_EXITS)
		_exit(0);
	if (page->fate == ODD_FAULTS)
		*nowhere = 1;
	errno = EDOM;
	return -1;
}

int __wrap_zygote_steps(struct zygote *z, const struct zygote_step *steps, size_t n, enum zygote_mode mode, const char **ret_step)
{
	struct zygote_step odd[STEPS_MAX];
	char name[sizeof page->step];
	bool is_prepare = n > 0 && strcmp(steps[0].name, "user namespace") == 0;

	if (n > STEPS_MAX)
		abort();
	memcpy(odd, steps, n * sizeof *steps);
	for (size_t i = 0; i < sizeof name; i++)
		name[i] = page->step[i];
	name[sizeof name - 1] = '\0';
	if (page->fate != ODD_NONE && (page->table ? mode == ZYGOTE_MUST : is_prepare))
		for (size_t i = 0; i < n; i++)
			if (strcmp(odd[i].name, name) == 0)
				odd[i].run = step_odd;
	return __real_zygote_steps(z, odd, n, mode, ret_step);
}

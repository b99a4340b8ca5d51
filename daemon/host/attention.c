/* SPDX-License-Identifier: MIT
 *
 * Signal dispositions of the host, but for those of death.c. */
#include "daemon/host/attention.h"

#include <signal.h>

#include "proto/host_wire.h"

volatile uint32_t attention_word;
static unsigned calls_attended;

static void on_attention(int number)
{
	(void)number;
	attention_word = 1;
}

int attention_init(struct err *e)
{
	struct sigaction attend = { .sa_handler =
					    on_attention }; /* no SA_RESTART: blocking calls end with EINTR */
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	if (sigaction(HOST_ATTENTION_SIGNAL, &attend, NULL) < 0)
		return err_sys(e, ERR_START_FAILED, "cannot install the attention handler");
	/* A lost log reader and a file at its size limit are errors of a call (EPIPE, EFBIG), not deaths: the
	 * limit holds for the host's own memfds too. */
	if (sigaction(SIGPIPE, &ignore, NULL) < 0 || sigaction(SIGXFSZ, &ignore, NULL) < 0)
		return err_sys(e, ERR_START_FAILED, "cannot ignore SIGPIPE and SIGXFSZ");
	return 0;
}

void attention_clear(void)
{
	attention_word = 0;
	calls_attended = 0;
}

void attention_call_ended(void)
{
	if (attention_word && ++calls_attended >= LIMIT_CALLS_IN_HOST)
		attention_clear();
}

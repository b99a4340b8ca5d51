/* SPDX-License-Identifier: MIT
 *
 * Signal dispositions of the host, but for those of death.c. */
#include "daemon/host/attention.h"

#include <signal.h>

#include "proto/host_wire.h"

volatile uint32_t attention_word;
static unsigned calls_attended;

/* Values of the word: code that polls it only asks whether it is 0. */
#define ALL_CALLS 1
#define ONE_CALL  2

static void on_attention(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_code == SI_QUEUE && info->si_value.sival_int == HOST_ATTENTION_TIME)
		attention_word = attention_word ? attention_word : ONE_CALL;
	else
		attention_word = ALL_CALLS;
}

int attention_init(struct err *e)
{
	struct sigaction attend = { .sa_sigaction = on_attention, .sa_flags = SA_SIGINFO }; /* no SA_RESTART: blocking calls end with EINTR */
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
	if (attention_word == ONE_CALL || (attention_word && ++calls_attended >= LIMIT_CALLS_IN_HOST))
		attention_clear();
}

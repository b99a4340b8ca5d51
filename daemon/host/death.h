/* SPDX-License-Identifier: MIT
 *
 * Last words. Whatever ends this process says why first: a fault handler on an alternate stack, an exit() of
 * the module, or the host itself. One message HOST_DEATH, no malloc; then the true wait status. In a forked
 * copy the channel is closed, and the note goes into the page that the copy shares with its parent. */
#ifndef SANDBOXD_HOST_DEATH_H
#define SANDBOXD_HOST_DEATH_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/host_wire.h"

/* Shared between a copy and its parent, which trusts none of it. */
struct death_page {
	struct host_death note;
	uint32_t noted;                         /* note is filled */
	char running[LIMIT_FUNCTION_BYTES + 1]; /* the step or function that runs */
};

/* Handlers, alternate stack, exit hook. Ends the process when even that fails. */
void death_init(int channel_fd);
void death_generation(uint64_t generation); /* goes into the note's header */
/* What runs from here on: a function's or step's name; "" between requests. */
void death_running(const char *name);
/* Text for the note of an abort() that follows at once. */
void death_last_word(const char *text);
/* Runs run(ctx), the host's own code over memory that a module may have spoilt. false: it faulted, and was left where it was; it
 * may hold nothing that must be given back. Also false, without a run, where the fault handlers aren't ours any more. */
bool death_guarded(void (*run)(void *ctx), void *ctx);
/* The same without a system call, for what runs with each call: where a module has put its own handler in place of ours, or has blocked the
 * signal, a fault is the end of this process. */
bool death_guarded_quickly(void (*run)(void *ctx), void *ctx);
/* This process is a copy now: notes go to the page. */
void death_in_copy(struct death_page *page);
/* A child that module code forked may come back into the host's code, with the host's channel: it ends here. */
void death_if_forked(void);
/* exit() is the host's own from here on. */
void death_expected(void);

/* The note, then exit_status (enum host_exit). */
_Noreturn void death_end(int exit_status, const char *text);
/* Nobody is there any more: no note. */
_Noreturn void death_orphan(void);

#endif

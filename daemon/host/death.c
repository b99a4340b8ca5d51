/* SPDX-License-Identifier: MIT
 *
 * The handler writes one note and lets the process die of what it was dying of: a fault returns with the
 * default action and recurs; a signal that was sent, and those that would not recur (SIGSYS, a breakpoint),
 * are raised again. Only pid 1 can't die of a signal that it raises itself: there the status is 128 + signal, which control takes
 * for the signal when the note says the same. */
#include "daemon/host/death.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "daemon/host/host.h"
#include "daemon/host/lines.h"
#include "daemon/host/ranges.h"
#include "proto/sandbox_module.h"
#include "proto/seldom.h"

#define STACK_BYTES  (64u << 10)
#define SEND_WAIT_MS 200 /* a full channel may drain; a dying process may not linger */

/* Faults, and all whose default is an end: a pid 1 is not ended by those without a handler, whoever sends them. */
static const int death_signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2,
	SIGALRM, SIGTERM, SIGSTKFLT, SIGXCPU, SIGVTALRM, SIGPROF, SIGPOLL, SIGPWR };

static SELDOM_WRITTEN _Alignas(16) char stack[STACK_BYTES];
static int channel = -1;
static uint64_t own_generation;
static struct death_page own_page;
static struct death_page *page = &own_page;
static bool expected;
static pid_t own_pid; /* children of module code inherit all this, but have nothing to say */
/* A page that the kernel gives to a child zeroed, however it was forked: a look at it costs no system call, as getpid() does. */
static volatile bool *not_forked;

static uintptr_t program_counter(const void *context)
{
	const ucontext_t *u = context;

#if defined __x86_64__
	return (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
#elif defined __aarch64__
	return (uintptr_t)u->uc_mcontext.pc;
#else
	(void)u;
	return 0;
#endif
}

static void send_note(void)
{
	struct host_message head = { .magic = HOST_MESSAGE_MAGIC,
		.type = HOST_DEATH,
		.generation = own_generation,
		.body_bytes = sizeof page->note };
	struct iovec parts[2] = { { &head, sizeof head }, { &page->note, sizeof page->note } };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 };
	struct pollfd p = { .fd = channel, .events = POLLOUT };

	page->noted = 1;
	if (channel < 0)
		return;
	if (sendmsg(channel, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EAGAIN &&
		poll(&p, 1, SEND_WAIT_MS) > 0)
		(void)sendmsg(channel, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- the guard ---- */

static sigjmp_buf guard;
static volatile sig_atomic_t guarded;

static void on_death(int number, siginfo_t *info, void *context)
{
	int kept = errno;
	struct sigaction standard = { .sa_handler = SIG_DFL };
	struct host_death *note = &page->note;
	bool recurs = info->si_code > 0 && (number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE);

	if (guarded && info->si_code > 0 && (number == SIGSEGV || number == SIGBUS)) {
		guarded = 0;
		siglongjmp(guard, 1);
	}
	if (getpid() == own_pid) {
		note->signal = number;
		note->code = info->si_code;
		if (info->si_code > 0)
			note->address = (uint64_t)(uintptr_t)info->si_addr;
		memcpy(note->function, page->running, sizeof note->function);
		ranges_describe(program_counter(context), note);
		send_note();
	}
	(void)sigaction(number, &standard, NULL);
	if (!recurs) {
		if (getpid() == 1) /* not _exit: in a sanitized build a function that doesn't return looks for /proc first */
			(void)syscall(SYS_exit_group, 128 + number);
		/* It comes when this handler returns. */
		(void)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
	}
	errno = kept;
}

static bool handler_is_ours(int number)
{
	struct sigaction now;

	return sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_death;
}

bool death_guarded(void (*run)(void *ctx), void *ctx)
{
	volatile bool whole = false;
	sigset_t faults, before;

	if (!handler_is_ours(SIGSEGV) || !handler_is_ours(SIGBUS))
		return false;
	(void)sigemptyset(&faults);
	(void)sigaddset(&faults, SIGSEGV);
	(void)sigaddset(&faults, SIGBUS);
	if (sigprocmask(SIG_UNBLOCK, &faults, &before) < 0)
		return false;
	if (sigsetjmp(guard, 0) == 0) {
		guarded = 1;
		run(ctx);
		whole = true;
	}
	guarded = 0;
	(void)sigprocmask(SIG_SETMASK, &before, NULL); /* the handler blocks all */
	return whole;
}

/* The handler blocks all signals; what was blocked before a fault isn't asked on the way to one that never comes. */
bool death_guarded_quickly(void (*run)(void *ctx), void *ctx)
{
	volatile bool whole = false;
	sigset_t none;

	if (sigsetjmp(guard, 0) == 0) {
		guarded = 1;
		run(ctx);
		whole = true;
	}
	guarded = 0;
	if (!whole) {
		(void)sigemptyset(&none);
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
	}
	return whole;
}

static void set_text(const char *text)
{
	text_clean(page->note.text, sizeof page->note.text, text, strlen(text));
}

/* The module called exit(), or returned through something that does. */
static void on_exit_called(int status, void *unused)
{
	char text[sizeof page->note.text];

	(void)unused;
	if (expected || getpid() != own_pid)
		return;
	(void)snprintf(text, sizeof text, "exit(%d) was called by the module", status);
	set_text(text);
	memcpy(page->note.function, page->running, sizeof page->note.function);
	send_note();
}

static void mark_page_map(void)
{
	void *at = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || madvise(at, 1, MADV_WIPEONFORK) < 0)
		death_end(HOST_EXIT_RESOURCE, "cannot map a page that forked children find empty");
	not_forked = at;
	*not_forked = true;
}

void death_init(int channel_fd)
{
	struct sigaction action = { .sa_sigaction = on_death, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };

	channel = channel_fd;
	own_pid = getpid();
	mark_page_map();
	sigfillset(&action.sa_mask);
	if (sigaltstack(&alternate, NULL) < 0)
		death_end(HOST_EXIT_RESOURCE, "cannot set an alternate signal stack");
	for (size_t i = 0; i < sizeof death_signals / sizeof *death_signals; i++)
		if (sigaction(death_signals[i], &action, NULL) < 0)
			death_end(HOST_EXIT_RESOURCE, "cannot install a fault handler");
	if (on_exit(on_exit_called, NULL) != 0)
		death_end(HOST_EXIT_RESOURCE, "cannot install an exit hook");
	ranges_refresh();
}

void death_generation(uint64_t generation)
{
	own_generation = generation;
}

void death_running(const char *name)
{
	size_t n = strlen(name);

	if (n >= sizeof page->running)
		n = sizeof page->running - 1;
	/* Terminated at any instant, for a handler that comes in between. */
	memset(page->running, 0, sizeof page->running);
	memcpy(page->running, name, n);
}

void death_last_word(const char *text)
{
	set_text(text);
}

void death_in_copy(struct death_page *shared)
{
	memcpy(shared, page, sizeof *shared);
	shared->noted = 0;
	page = shared;
	channel = -1;
	own_pid = getpid();
	*not_forked = true;
}

void death_if_forked(void)
{
	if (!*not_forked)
		_exit(0);
}

void death_expected(void)
{
	expected = true;
}

void death_end(int exit_status, const char *text)
{
	set_text(text);
	memcpy(page->note.function, page->running, sizeof page->note.function);
	send_note();
	if (channel >= 0)
		lines_log(NULL, SBX_ERROR, page->note.text, strlen(page->note.text));
	_exit(exit_status);
}

void death_orphan(void)
{
	_exit(HOST_EXIT_ORPHAN);
}

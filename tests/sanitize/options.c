/* SPDX-License-Identifier: MIT
 *
 * Linked into spawner and control when they are built with SANITIZE=1: children get an environment of their own, so the
 * sanitizers' options can't come from there. The host has its own options (daemon/host/main.c). Leaks: the look for them
 * needs ptrace, which these processes have given up; the unit ring looks for them. */

const char *__asan_default_options(void);

__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
	return "detect_leaks=0:allocator_may_return_null=1";
}

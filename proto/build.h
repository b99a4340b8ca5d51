/* SPDX-License-Identifier: MIT
 *
 * Which contracts a program of sandboxd was built with. Programs that run together, and a program that takes over from an older one, are
 * compared by these numbers before anything is touched; the version of the package says nothing about them. */
#ifndef SANDBOXD_BUILD_H
#define SANDBOXD_BUILD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/err.h"

#define BUILD_ARGUMENT   "--build" /* argv[1] of sandboxd-control and sandbox-host: print build_text and exit */
#define BUILD_TEXT_BYTES 128

/* Of the registry on disk. 2: the table of groups; a registry of format 1 gets it when it is opened. A build opens this one and all before. */
#define REGISTRY_FORMAT 2
/* Of what control keeps with the spawner: spec, log ring, outcomes. A build reads this one only. */
#define KEPT_FORMAT     1

struct build {
	uint32_t spawner_wire, zygote_wire, host_wire, registry, kept;
};

struct build build_own(void);
/* One line, as build_parse reads it. */
void build_text(const struct build *b, char to[BUILD_TEXT_BYTES]);
int build_print(void); /* that of this program to standard output; the exit status */
int build_parse(const char *text, struct build *ret); /* -1: it is none */

/* Do programs of these two builds understand each other? -1 with UPGRADE_REFUSED: what they differ in. `name` is the other program's. */
int build_is_same(const struct build *own, const struct build *other, const char *name, struct err *e);
/* May this build take over what `old` has running? */
int build_follows(const struct build *own, const struct build *old, struct err *e);

#endif

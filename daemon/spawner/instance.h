/* SPDX-License-Identifier: MIT
 *
 * What one running daemon owns on this machine: the lock, its folders, its uids, its place among the process limits. Opened
 * once, given back at the end. Runs in the spawner. */
#ifndef SANDBOXD_INSTANCE_H
#define SANDBOXD_INSTANCE_H

#include "proto/err.h"

struct spawner;

/* ERR_ALREADY_EXISTS: another daemon holds the lock; nothing was touched. */
int instance_take_over(struct spawner *sp, struct err *e); /* over an exec: the descriptors are there */
int instance_open(struct spawner *sp, struct err *e);
void instance_close(struct spawner *sp); /* also after a failed open */

#endif

/* SPDX-License-Identifier: MIT
 *
 * The free user ids that hosts and compile jobs run under, least recently used first, and the question whether a range of
 * ids meets the accounts of this machine. Pure: no file, no lock. Runs in the spawner. */
#ifndef SANDBOXD_UIDS_H
#define SANDBOXD_UIDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/err.h"

struct uids {
	uid_t *ring; /* the free ones, from head on; its room counts the taken ones too, so that giving back can't fail */
	uint32_t room, head, n_free;
};

#define UIDS_INIT { 0 }

void uids_fini(struct uids *u);
int uids_add(struct uids *u, uid_t first, uint32_t count, struct err *e);
bool uids_take(struct uids *u, uid_t *ret_uid); /* false: none is free, add more */
void uids_give(struct uids *u, uid_t uid);      /* goes to the end: reused as late as possible */

enum uids_file {
	UIDS_FILE_ACCOUNTS, /* /etc/passwd, /etc/group: name:x:ID:... */
	UIDS_FILE_RANGES    /* /etc/subuid, /etc/subgid: name:FIRST:COUNT */
};

/* Does a line of this file meet [first, first + count)? Then ret_name is its first field. Lines that don't parse are skipped. */
bool uids_text_meets(const char *text, size_t size, enum uids_file kind, uid_t first, uint32_t count, char ret_name[64]);

#endif

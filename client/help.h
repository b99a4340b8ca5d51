/* SPDX-License-Identifier: MIT
 *
 * Help, written from the tables: of all verbs, of one, and the bare names for completion. */
#ifndef SANDBOXD_HELP_H
#define SANDBOXD_HELP_H

#include <stdio.h>

#include "client/verb.h"

void help_all(FILE *to);
void help_verb(FILE *to, const struct verb *v);
void help_names(FILE *to, const struct verb *v); /* v NULL: the verbs; else "--option" or "--option=" lines */

#endif

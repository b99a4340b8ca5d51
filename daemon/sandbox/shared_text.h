/* SPDX-License-Identifier: MIT
 *
 * Texts that many sandboxes have alike: what a module says of itself, what walls stand around its process. Kept once for all. Loop thread
 * only. */
#ifndef SANDBOXD_SHARED_TEXT_H
#define SANDBOXD_SHARED_TEXT_H

#include <stddef.h>

const char *shared_text(const char *at, size_t size);   /* terminated; NULL: no memory. The caller gives it back */
const char *shared_text_free(const char *text);         /* NULL ok; returns NULL */

#endif

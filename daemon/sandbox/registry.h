/* SPDX-License-Identifier: MIT
 *
 * All sandboxes of this daemon by id, in the order of their creation. Owns none of them: a sandbox leaves when it is gone. */
#ifndef SANDBOXD_REGISTRY_H
#define SANDBOXD_REGISTRY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct registry;
struct sandbox;

struct registry *registry_new(void);
struct registry *registry_free(struct registry *r);                   /* must be empty; NULL ok */
struct sandbox *registry_get(const struct registry *r, const char *id); /* NULL: unknown */
void registry_add(struct registry *r, struct sandbox *sb);            /* its id must be free */
void registry_remove(struct registry *r, struct sandbox *sb);
/* A time of creation that no other sandbox has, so that it gives their order; the next one in a sequence that begins with `wall_ms`. */
int64_t registry_created_at(struct registry *r, int64_t wall_ms);
void registry_sort(struct registry *r); /* by the time of creation, after a take-over */
size_t registry_count(const struct registry *r);
struct sandbox *registry_first(const struct registry *r);
struct sandbox *registry_next(const struct sandbox *sb);

#endif

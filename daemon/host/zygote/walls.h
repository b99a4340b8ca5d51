/* SPDX-License-Identifier: MIT
 *
 * What was asked for around this process, and what of it couldn't be had. Filled by the steps of zygote and host, read by the
 * host's report, which looks at facts wherever there is one. */
#ifndef SANDBOXD_HOST_WALLS_H
#define SANDBOXD_HOST_WALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/zygote/landlock.h"
#include "proto/protection.h"

struct walls {
	bool spare;          /* made in advance: nobody waits for it yet */
	bool stand;          /* this process was cloned by a zygote, which has done all of it */
	uint64_t asked;      /* PROTECTION_BITs that the profile wants and that weren't left out */
	uint64_t left_out;   /* by --weaken */
	uint64_t lost;       /* tried in vain */
	uint16_t why[PROTECTION__N]; /* errno of those; 0: another that it needs is lost */
	uint64_t not_by_cgroup; /* PROTECTION_BITs that only a cgroup gives, and this process's doesn't */
	char no_cgroup[64];     /* why */
	bool own_cgroup;        /* the spawner can end it as a whole */
	uint64_t scratch_bytes;
	uint64_t root_device; /* st_dev of the template root; 0: none */
	char objects[256];    /* where object names are looked for; "": names are whole paths */
};

extern struct walls walls;
extern struct landlock_ruleset walls_landlock;

static inline bool walls_want(enum protection p)
{
	return (walls.asked & ~walls.lost & PROTECTION_BIT(p)) != 0;
}

static inline void walls_lose(enum protection p, int why)
{
	walls.lost |= PROTECTION_BIT(p) & walls.asked;
	walls.why[p] = (uint16_t)why;
}

#endif

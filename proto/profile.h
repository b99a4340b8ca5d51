/* SPDX-License-Identifier: MIT
 *
 * The security policies by name. Runs in every process. */
#ifndef SANDBOXD_PROFILE_H
#define SANDBOXD_PROFILE_H

enum profile { PROFILE_HIGH, PROFILE_MEDIUM, PROFILE_LOW, PROFILE__N };

#endif

/* SPDX-License-Identifier: MIT
 *
 * What verbs share whose answer is that of a reload. */
#ifndef SANDBOXD_CMD_RELOAD_H
#define SANDBOXD_CMD_RELOAD_H

#include "client/ctl.h"

void cmd_reload_show(const struct ctl *s, const struct rpcclient_reply *r);

#endif

/* SPDX-License-Identifier: MIT
 *
 * What control may ask: every field of a request against the contract and the administrator's ceilings. Pure but for looking
 * at descriptors. An err filled here carries in sys_errno the status of the ERROR reply. Runs in the spawner. */
#ifndef SANDBOXD_VALIDATE_H
#define SANDBOXD_VALIDATE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/config.h"
#include "proto/err.h"
#include "proto/spawner_wire.h"

#define REFUSE(e, number, ...) (err_set((e), ERR_BAD_PARAM, __VA_ARGS__), (e)->sys_errno = (number), -1)

/* Size, version, op, terminated texts. A message that fails here breaks the contract: its sender is killed. */
int validate_frame(const struct spawner_message *m, size_t size, struct err *e);
/* Names, kinds, number of descriptors: what fails is answered with ERROR. The frame is good. */
int validate_request(const struct spawner_message *m, size_t n_fds, struct err *e);
bool validate_op_replies(uint16_t op); /* an op without a reply can't be answered with ERROR either */
const char *validate_op_name(uint16_t op);

int validate_keep(uint16_t kind, int fd, struct err *e); /* is the descriptor what may be kept as this? */
/* Defaults filled in, ceilings checked: EPERM names the field. */
int validate_limits(const struct host_limits *asked, const struct config *c, struct host_limits *ret, struct err *e);
/* The same for a job's time and memory, and its source. */
int validate_job(const struct spawner_message *m, int source_fd, const struct config *c, uint32_t *ret_timeout_ms,
	uint64_t *ret_memory_bytes, struct err *e);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The JSON bodies of control's messages that name an object: START, REHEARSE, LOAD. Just the keys of the
 * contract, each of the right type. Runs in sandbox-host. */
#ifndef SANDBOXD_HOST_ORDER_H
#define SANDBOXD_HOST_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/err.h"
#include "proto/json_scan.h"
#include "proto/limits.h"

enum order_kind { ORDER_START, ORDER_REHEARSE, ORDER_LOAD, ORDER_STAGE };

#define ORDER_TIMEOUT_MOST_MS 3600000u

struct order {
	char path[LIMIT_PATH_BYTES + 1]; /* absolute */
	struct json_span config;         /* START; size 0: none */
	uint32_t timeout_ms;             /* REHEARSE; 0 isn't possible */
	bool backwards;                  /* START, REHEARSE, LOAD */
	struct json_span patch;          /* likewise: fields that the state is to have instead of its own; at NULL: none */
};

int order_parse(struct order *o, enum order_kind kind, const char *json, size_t size, struct err *e);

#endif

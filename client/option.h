/* SPDX-License-Identifier: MIT
 *
 * The options that a verb has: the global ones, the verb's own, and one for each parameter of its method that isn't an operand.
 * A parameter snake_case becomes --snake-case. A JSON parameter is given whole (--config JSON, "-" is standard input) or as a
 * file (--config-file FILE); an object whose name is a plural also member by member (--limit NAME=VALUE, --label NAME=VALUE). */
#ifndef SANDBOXD_OPTION_H
#define SANDBOXD_OPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "client/verb.h"

enum option_kind {
	OPTION_SOCKET, OPTION_JSON, OPTION_TIMEOUT, OPTION_QUIET, OPTION_VERSION, OPTION_HELP, /* global */
	OPTION_FLAG,   /* one of the verb's own; it may have a value */
	OPTION_WHOLE,  /* the value of a parameter */
	OPTION_NO,     /* --no-NAME: false for a parameter that is true or false */
	OPTION_FILE,   /* the file that has it */
	OPTION_ITEM    /* one member of it */
};

#define OPTION_NAME_BYTES 64
#define OPTIONS_MAX       104 /* global + own + three for each of METHOD_MAX_PARAMS */

struct option {
	enum option_kind kind;
	char name[OPTION_NAME_BYTES];      /* without "--" */
	char letter;                       /* 0: none */
	const struct method_param *param;  /* NULL: not a parameter's */
	const char *value;                 /* the word that stands for its value in usage; NULL: takes none */
	const char *help;
};

size_t options_of(const struct verb *v, struct option to[OPTIONS_MAX]); /* v NULL: the global ones */
bool option_is_operand(const struct verb *v, const char *param);        /* given by an operand alone, FILE included */

#endif

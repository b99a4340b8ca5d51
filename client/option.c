/* SPDX-License-Identifier: MIT
 *
 * Derives options from the tables. Pure. */
#include "client/option.h"

#include <assert.h>
#include <string.h>

static const struct option global[] = {
	{ OPTION_SOCKET, "socket", 0, NULL, "PATH",
		"the daemon's socket (default: $SANDBOXD_SOCKET, else your daemon's, else the system's)" },
	{ OPTION_JSON, "json", 0, NULL, NULL,
		"print the daemon's answer, or the error, as one line of JSON" },
	{ OPTION_TIMEOUT, "timeout", 0, NULL, "MS",
		"wait no longer for the daemon; 0: without end (90000 and what the request itself allows)" },
	{ OPTION_QUIET, "quiet", 'q', NULL, NULL,
		"print only what was asked for: no confirmations, no headings" },
	{ OPTION_VERSION, "version", 0, NULL, NULL, "print sandboxctl's version" },
	{ OPTION_HELP, "help", 'h', NULL, NULL, "print this help" },
};

bool option_is_operand(const struct verb *v, const char *param)
{
	/* An operand that may be missing can be given as an option as well: rollback ID --version 3. */
	for (size_t i = 0; i < VERB_OPERANDS && i < v->min_operands && v->operand_params[i]; i++)
		if (strcmp(v->operand_params[i], param) == 0)
			return true;
	/* `object` keeps its option: it stands for FILE where the daemon has the object. */
	return v->takes_code && (strcmp(param, "source") == 0 || strcmp(param, "source_name") == 0);
}

static const char *value_word(const struct method_param *p)
{
	size_t length = strlen(p->name);

	switch (p->kind) {
	case PARAM_INTEGER:
		return length > 3 && strcmp(p->name + length - 3, "_ms") == 0 ? "MS" : "N";
	case PARAM_BOOL:
		return NULL;
	case PARAM_CHOICE:
		return p->choices;
	case PARAM_OBJECT:
	case PARAM_ANY:
		return "JSON";
	case PARAM_ID:
		return "ID";
	case PARAM_SHA256:
		return "SHA256";
	case PARAM_TEXT:
	case PARAM_SOURCE_NAME:
	case PARAM_FUNCTION:
	case PARAM_BASE64:
		return "TEXT";
	}
	return "TEXT";
}

/* snake_case to kebab-case, with an ending. */
static void name_option(struct option *o, const char *param, size_t length, const char *ending)
{
	assert(length + strlen(ending) < sizeof(o->name));
	for (size_t i = 0; i < length; i++)
		o->name[i] = param[i] == '_' ? '-' : param[i];
	memcpy(o->name + length, ending, strlen(ending) + 1);
}

static size_t add_param(const struct verb *v, const struct method_param *p, struct option *to)
{
	size_t length = strlen(p->name), n = 1;
	bool json = p->kind == PARAM_OBJECT || p->kind == PARAM_ANY;

	to[0] = (struct option){ .kind = OPTION_WHOLE, .param = p, .value = value_word(p), .help = p->help };
	name_option(&to[0], p->name, length, "");
	for (size_t i = 0; i < VERB_OWN; i++)
		if (v->own[i].letter && !v->own[i].name && strcmp(v->own[i].param, p->name) == 0)
			to[0].letter = v->own[i].letter;
	if (p->kind == PARAM_BOOL) {
		to[n] = (struct option){ .kind = OPTION_NO, .param = p, .help = "the opposite" };
		memcpy(to[n].name, "no-", 3);
		memcpy(to[n].name + 3, to[0].name, length + 1);
		assert(length + 4 <= sizeof(to[n].name));
		n++;
	}
	if (json) {
		to[n] = (struct option){
			.kind = OPTION_FILE, .param = p, .value = "FILE", .help = "the same, read from a file"
		};
		name_option(&to[n++], p->name, length, "-file");
	}
	if (p->kind == PARAM_OBJECT && p->name[length - 1] == 's' &&
		!(v->rest_param && strcmp(v->rest_param, p->name) == 0)) {
		to[n] = (struct option){
			.kind = OPTION_ITEM,
			.param = p,
			.value = "NAME=VALUE",
			.help = "one member of it; may be repeated",
		};
		name_option(&to[n++], p->name, length - 1, "");
	}
	return n;
}

static size_t add_own(const struct verb *v, struct option *to)
{
	const struct method *m = verb_method(v);
	size_t n = 0;

	for (size_t i = 0; i < VERB_OWN; i++) {
		const struct verb_option *own = &v->own[i];
		const struct method_param *p = m && own->param ? m->params : NULL;

		if (!own->name)
			continue;
		while (p && p->name && strcmp(p->name, own->param) != 0)
			p++;
		assert(!p || p->name); /* the verb table names a parameter that there isn't */
		to[n] = (struct option){ p ? OPTION_WHOLE : OPTION_FLAG, "", own->letter, p,
			p ? value_word(p) : own->value, p ? p->help : own->help };
		name_option(&to[n++], own->name, strlen(own->name), "");
	}
	return n;
}

size_t options_of(const struct verb *v, struct option to[OPTIONS_MAX])
{
	const struct method *m = v ? verb_method(v) : NULL;
	size_t n = 0;

	_Static_assert(OPTIONS_MAX >= sizeof(global) / sizeof(global[0]) + VERB_OWN + 3 * METHOD_MAX_PARAMS,
		"room for all");
	if (v)
		n = add_own(v, to);
	for (size_t i = 0; m && !v->own_params && i < method_n_params(m); i++)
		if (!option_is_operand(v, m->params[i].name))
			n += add_param(v, &m->params[i], to + n);
	for (size_t i = 0; i < sizeof(global) / sizeof(global[0]); i++) {
		bool taken = false; /* the verb's own meaning of a name goes first */

		for (size_t j = 0; j < n; j++)
			taken = taken || strcmp(to[j].name, global[i].name) == 0;
		if (!taken)
			to[n++] = global[i];
	}
	return n;
}

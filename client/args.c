/* SPDX-License-Identifier: MIT
 *
 * Walks over argv once. Every option is looked up in the list derived from the tables; an unknown one is
 * answered with the nearest that there is. */
#include "client/args.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "proto/names.h"

bool args_integer(const char *text, int64_t *ret)
{
	const char *digits = *text == '-' ? text + 1 : text;
	long long value;

	if (*digits == '\0' || strspn(digits, "0123456789") != strlen(digits))
		return false;
	errno = 0;
	value = strtoll(text, NULL, 10);
	if (errno != 0)
		return false;
	*ret = value;
	return true;
}

bool args_flag(const struct args *a, const char *name)
{
	for (size_t i = 0; i < a->n_options; i++)
		if (a->options[i].option.kind == OPTION_FLAG && strcmp(a->options[i].option.name, name) == 0)
			return true;
	return false;
}

const char *args_text(const struct args *a, const char *name, const char *otherwise)
{
	for (size_t i = 0; i < a->n_options; i++)
		if (a->options[i].option.kind == OPTION_FLAG && strcmp(a->options[i].option.name, name) == 0)
			return a->options[i].text;
	return otherwise;
}

const struct arg_option *args_param(const struct args *a, const char *param)
{
	for (size_t i = 0; i < a->n_options; i++)
		if (a->options[i].option.param && strcmp(a->options[i].option.param->name, param) == 0)
			return &a->options[i];
	return NULL;
}

const char *args_operand(const struct args *a, const char *param)
{
	for (size_t i = 0; a->verb && i < VERB_OPERANDS && a->verb->operand_params[i]; i++)
		if (strcmp(a->verb->operand_params[i], param) == 0)
			return i < a->n_operands ? a->operands[i] : NULL;
	return NULL;
}

struct walk {
	struct args *a;
	char *const *argv;
	int argc, at;
	struct option known[OPTIONS_MAX];
	size_t n_known;
	struct err *e;
	const char *prefix; /* the word `group`, `state` or `profile` came, its verb follows; NULL: none */
};

static int unknown_option(struct walk *w, const char *name, size_t size)
{
	const char *names[OPTIONS_MAX];
	char text[OPTION_NAME_BYTES];
	int near = -1;

	err_set(w->e, ERR_UNKNOWN_PARAM, "there is no option --%.*s%s", (int)(size < 200 ? size : 200), name,
		w->a->verb ? "" : " before the verb");
	for (size_t i = 0; i < w->n_known; i++)
		names[i] = w->known[i].name;
	if (size > 0 && size < sizeof(text)) {
		memcpy(text, name, size);
		text[size] = '\0';
		near = name_nearest(text, names, w->n_known);
	}
	if (near >= 0 && w->e) {
		text_clean(w->e->nearest, 3, "--", 2);
		text_clean(w->e->nearest + 2, sizeof(w->e->nearest) - 2, names[near], strlen(names[near]));
	}
	return -1;
}

static int take_verb_option(struct walk *w, const struct option *o, const char *text)
{
	struct args *a = w->a;

	for (size_t i = 0; i < a->n_options; i++) {
		const struct option *other = &a->options[i].option;

		if (o->param ? other->param != o->param : strcmp(other->name, o->name) != 0)
			continue;
		if (o->kind == OPTION_ITEM && other->kind == OPTION_ITEM)
			continue;
		if (strcmp(other->name, o->name) == 0)
			return err_set(w->e, ERR_DUPLICATE_KEY, "--%s is given twice", o->name);
		return err_set(w->e, ERR_DUPLICATE_KEY, "--%s and --%s give the same parameter", other->name,
			o->name);
	}
	if (a->n_options == ARGS_MAX)
		return err_set(w->e, ERR_BAD_PARAM, "more than %d options", ARGS_MAX);
	a->options[a->n_options++] = (struct arg_option){ *o, text };
	return 0;
}

static int take_option(struct walk *w, const struct option *o, const char *text)
{
	struct args *a = w->a;

	switch (o->kind) {
	case OPTION_SOCKET:
		a->socket = text;
		return 0;
	case OPTION_JSON:
		a->json = true;
		return 0;
	case OPTION_TIMEOUT:
		assert(text); /* with_value gives one to every option that has `value` */
		if (!args_integer(text, &a->timeout_ms) || a->timeout_ms < 0 || a->timeout_ms > INT32_MAX)
			return err_set(w->e, ERR_BAD_PARAM, "--timeout needs milliseconds, not '%s'", text);
		return 0;
	case OPTION_QUIET:
		a->quiet = true;
		return 0;
	case OPTION_VERSION:
		a->version = true;
		return 0;
	case OPTION_HELP:
		a->help = true;
		return 0;
	case OPTION_NO:
		return take_verb_option(w, o, "false");
	case OPTION_FLAG:
	case OPTION_WHOLE:
	case OPTION_FILE:
	case OPTION_ITEM:
		return take_verb_option(w, o, text);
	}
	return -1;
}

/* Gives the option its value: what stands behind `=` or the letter, else the next argument. */
static int with_value(struct walk *w, const struct option *o, const char *attached)
{
	bool optional = o->kind == OPTION_WHOLE && o->param->kind == PARAM_BOOL;

	if (!o->value && attached && !optional)
		return err_set(w->e, ERR_BAD_PARAM, "--%s takes no value", o->name);
	if (o->value && !attached) {
		if (w->at >= w->argc)
			return err_set(w->e, ERR_MISSING_PARAM, "--%s needs a value: %s", o->name, o->value);
		attached = w->argv[w->at++];
	}
	return take_option(w, o, attached);
}

static int long_option(struct walk *w, const char *text)
{
	size_t size = strcspn(text, "=");

	for (size_t i = 0; i < w->n_known; i++)
		if (strlen(w->known[i].name) == size && memcmp(w->known[i].name, text, size) == 0)
			return with_value(w, &w->known[i], text[size] ? text + size + 1 : NULL);
	return unknown_option(w, text, size);
}

static int letters(struct walk *w, const char *text)
{
	for (; *text; text++) {
		const struct option *o = NULL;

		for (size_t i = 0; i < w->n_known && !o; i++)
			if (w->known[i].letter == *text)
				o = &w->known[i];
		if (!o)
			return err_set(w->e, ERR_UNKNOWN_PARAM, "there is no option -%c%s", *text,
				w->a->verb ? "" : " before the verb");
		if (o->value)
			return with_value(w, o, text[1] ? text + 1 : NULL);
		if (with_value(w, o, NULL) == -1)
			return -1;
	}
	return 0;
}

/* `group create` is group-create. */
static const char *prefix_of(const char *text)
{
	static const char *const prefixes[] = { "group", "state", "profile" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strcmp(text, prefixes[i]) == 0)
			return prefixes[i];
	return NULL;
}

/* `help group create` is help group-create, `help schema diff` help schema-diff. *text becomes the one word; false: it isn't all there yet. */
static bool help_word(struct walk *w, const char **text)
{
	struct args *a = w->a;
	const struct verb *v;
	char name[40];

	if (a->n_operands == 1 && strcmp(a->operands[0], "schema") == 0 && strcmp(*text, "diff") == 0) {
		a->operands[0] = verb_find("schema-diff", NULL)->name;
		return false;
	}
	if (a->n_operands > 0)
		return true;
	if (!w->prefix) {
		w->prefix = prefix_of(*text);
		return !w->prefix;
	}
	(void)snprintf(name, sizeof name, "%s-%.30s", w->prefix, *text);
	v = verb_find(name, NULL);
	*text = v ? v->name : *text;
	w->prefix = NULL;
	return true;
}

static int operand(struct walk *w, const char *text)
{
	struct args *a = w->a;
	const char *nearest = NULL;
	char name[40];

	if (a->verb && a->n_operands == 0 && strcmp(a->verb->name, "schema") == 0 && strcmp(text, "diff") == 0) {
		a->verb = verb_find("schema-diff", NULL);
		w->n_known = options_of(a->verb, w->known);
		return 0;
	}
	if (a->verb && strcmp(a->verb->name, "help") == 0 && !help_word(w, &text))
		return 0;
	if (a->verb) {
		if (a->n_operands == ARGS_MAX)
			return err_set(w->e, ERR_BAD_PARAM, "more than %d operands", ARGS_MAX);
		a->operands[a->n_operands++] = text;
		return 0;
	}
	if (!w->prefix && prefix_of(text)) {
		w->prefix = prefix_of(text);
		return 0;
	}
	if (w->prefix) {
		(void)snprintf(name, sizeof name, "%s-%.30s", w->prefix, text);
		text = name;
	}
	w->prefix = NULL;
	a->verb = verb_find(text, &nearest);
	if (!a->verb) {
		err_set(w->e, ERR_UNKNOWN_METHOD, "there is no verb '%s'", text);
		if (nearest && w->e)
			text_clean(w->e->nearest, sizeof(w->e->nearest), nearest, strlen(nearest));
		return -1;
	}
	w->n_known = options_of(a->verb, w->known);
	return 0;
}

static int check_operands(const struct args *a, struct err *e)
{
	const struct verb *v = a->verb;

	if (!v || a->help || a->version)
		return 0;
	if (a->n_operands < v->min_operands)
		return err_set(e, ERR_MISSING_PARAM, "too few operands; usage: sandboxctl %s %s [options]",
			v->name, v->operands);
	if (a->n_operands > v->max_operands && !v->rest_param)
		return err_set(e, ERR_UNKNOWN_PARAM,
			"'%s' is one operand too many; usage: sandboxctl %s%s%s [options]",
			a->operands[v->max_operands], v->name, *v->operands ? " " : "", v->operands);
	return 0;
}

int args_parse(struct args *a, int argc, char *const *argv, struct err *e)
{
	struct walk w = { .a = a, .argv = argv, .argc = argc, .at = 1, .e = e };
	bool options_end = false;

	*a = (struct args){ .timeout_ms = ARGS_NO_TIMEOUT };
	w.n_known = options_of(NULL, w.known);
	/* Before anything can fail, so that a bad command line too is answered in JSON. */
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--json") == 0)
			a->json = true;
	while (w.at < argc) {
		const char *text = argv[w.at++];
		int r;

		if (options_end || text[0] != '-' || text[1] == '\0') {
			r = operand(&w, text);
		} else if (text[1] != '-') {
			r = letters(&w, text + 1);
		} else if (text[2] == '\0') {
			options_end = true;
			continue;
		} else {
			r = long_option(&w, text + 2);
		}
		if (r == -1)
			return -1;
	}
	if (w.prefix)
		return err_set(e, ERR_MISSING_PARAM, "%s needs a verb: sandboxctl help lists those that begin with %s-", w.prefix, w.prefix);
	return check_operands(a, e);
}

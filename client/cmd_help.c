/* SPDX-License-Identifier: MIT
 *
 * help. The exit statuses' words stand here; which error has which is errors.def's. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl.h"
#include "client/help.h"
#include "client/option.h"
#include "client/output.h"

static const char *const exit_words[] = {
	"done",
	"failed",
	"usage",
	"no such thing",
	"wrong state or conflict",
	"timeout",
	"daemon unreachable",
	"denied",
	"source or object refused",
	"reload failed and nothing changed",
};

static void print_codes(FILE *to, int exit_status)
{
	size_t column = 0;

	for (int code = ERR_OK + 1; code < ERR__N; code++) {
		const char *text = err_code_text((enum err_code)code);

		if (err_code_exit((enum err_code)code) != exit_status)
			continue;
		if (column == 0 || column + strlen(text) > 100)
			column = (size_t)fprintf(to, "%s       %s", column ? "\n" : "", text);
		else
			column += (size_t)fprintf(to, " %s", text);
	}
	if (column)
		(void)putc('\n', to);
}

static void print_exits(FILE *to, bool codes)
{
	(void)fprintf(to, "\nExit status%s:\n", codes ? ", and the errors that have it" : "");
	for (size_t i = 0; i < sizeof(exit_words) / sizeof(exit_words[0]); i++) {
		(void)fprintf(to, "  %zu  %s\n", i, exit_words[i]);
		if (codes)
			print_codes(to, (int)i);
	}
}

static void print_option(FILE *to, const struct option *o)
{
	char *left;

	if (o->letter)
		left = output_format(
			"-%c, --%s%s%s", o->letter, o->name, o->value ? " " : "", o->value ? o->value : "");
	else
		left = output_format("--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
	if (strlen(left) > 28)
		(void)fprintf(to, "  %s\n  %-28s  %s", left, "", o->help);
	else
		(void)fprintf(to, "  %-28s  %s", left, o->help);
	free(left);
	if (o->param && o->kind == OPTION_WHOLE && o->param->kind == PARAM_INTEGER)
		(void)fprintf(to, " [%" PRId64 "..%" PRId64 "]", o->param->min, o->param->max);
	(void)putc('\n', to);
}

static bool is_global(const struct option *o)
{
	return o->kind <= OPTION_HELP;
}

static void print_options(FILE *to, const struct verb *v, bool global)
{
	struct option all[OPTIONS_MAX];
	size_t n = options_of(v, all);
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		if (is_global(&all[i]) != global)
			continue;
		if (!any)
			(void)fputs(
				global ? "\nGlobal options (before or after the verb):\n" : "\nOptions:\n",
				to);
		any = true;
		print_option(to, &all[i]);
	}
}

void help_all(FILE *to)
{
	(void)fputs("Usage: sandboxctl [global options] VERB [operands] [options]\n\nVerbs:\n", to);
	for (size_t i = 0; i < n_verbs; i++)
		(void)fprintf(to, "  %-12s  %s\n", verbs[i].name, verb_help(&verbs[i]));
	(void)fputs("\n`sandboxctl help VERB` shows a verb's operands and options.\n", to);
	print_options(to, NULL, true);
	print_exits(to, true);
}

static void print_operands(FILE *to, const struct verb *v)
{
	const struct method *m = verb_method(v);

	if (!v->operand_params[0])
		return;
	(void)fputs("\nOperands:\n", to);
	for (size_t i = 0; i < VERB_OPERANDS && v->operand_params[i]; i++)
		for (const struct method_param *p = m->params; p->name; p++)
			if (strcmp(p->name, v->operand_params[i]) == 0)
				(void)fprintf(to, "  %-28s  %s\n", p->name, p->help);
	if (v->takes_code)
		(void)fputs("  file                          a .so or .c file\n", to);
}

void help_verb(FILE *to, const struct verb *v)
{
	(void)fprintf(to, "Usage: sandboxctl %s%s%s [options]\n\n%s\n", v->name, *v->operands ? " " : "",
		v->operands, verb_help(v));
	if (v->notes)
		(void)fprintf(to, "%s\n", v->notes);
	print_operands(to, v);
	print_options(to, v, false);
	print_options(to, v, true);
	(void)fprintf(to, "\nExample:\n  %s\n", v->example);
	print_exits(to, false);
}

void help_names(FILE *to, const struct verb *v)
{
	struct option all[OPTIONS_MAX];
	size_t n = v ? options_of(v, all) : 0;

	for (size_t i = 0; !v && i < n_verbs; i++)
		(void)fprintf(to, "%s\n", verbs[i].name);
	for (size_t i = 0; i < n; i++) {
		bool choice = all[i].param ? all[i].param->kind == PARAM_CHOICE : all[i].kind == OPTION_FLAG && all[i].value;

		(void)fprintf(
			to, "--%s%s%s\n", all[i].name, all[i].value ? "=" : "", choice ? all[i].value : "");
	}
}

int cmd_help_run(struct ctl *s)
{
	const char *nearest = NULL, *name = s->args->n_operands > 0 ? s->args->operands[0] : NULL;
	const struct verb *v = name ? verb_find(name, &nearest) : NULL;
	struct err e = ERR_INIT;

	if (name && !v) {
		err_set(&e, ERR_UNKNOWN_METHOD, "there is no verb '%s'", name);
		if (nearest)
			text_clean(e.nearest, sizeof(e.nearest), nearest, strlen(nearest));
		return ctl_fail(s, &e, (struct json_span){ 0 });
	}
	if (args_flag(s->args, "names"))
		help_names(stdout, v);
	else if (v)
		help_verb(stdout, v);
	else
		help_all(stdout);
	return 0;
}

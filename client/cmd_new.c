/* SPDX-License-Identifier: MIT
 *
 * new: a folder with a module that compiles, runs and shows the parts that most modules have. Texts below; @ is the module's name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ctl.h"
#include "client/output.h"
#include "proto/buf.h"
#include "proto/fd.h"
#include "proto/json_out.h"
#include "proto/names.h"

static const char source_text[] =
	"/* @: a module of sandboxd. sandbox_module(3) describes everything that begins with sbx_ or SBX_. */\n"
	"#include <sandbox_module.h>\n"
	"\n"
	"/* What outlives a reload and an orderly stop. Each member is a field, or SBX_SKIP. */\n"
	"struct state {\n"
	"\tint64_t count;\n"
	"\tchar *greeting;\n"
	"};\n"
	"SBX_STATE(state, struct state, SBX_FIELD(count), SBX_FIELD(greeting));\n"
	"\n"
	"/* The first start: sandboxctl create ID @.c --config '{\"greeting\": \"Hi\"}' */\n"
	"static int init(struct sbx *x, void *self)\n"
	"{\n"
	"\tstruct state *s = self;\n"
	"\tstruct sbx_val greeting = sbx_config(x, \"greeting\");\n"
	"\n"
	"\tsbx_set_str(x, &s->greeting, sbx_has(greeting) ? sbx_text(x, greeting) : \"Hello\");\n"
	"\tsbx_log(x, SBX_INFO, \"the greeting is '%s'\", s->greeting);\n"
	"\treturn 0;\n"
	"}\n"
	"\n"
	"static int greet(struct sbx *x, void *self)\n"
	"{\n"
	"\tstruct state *s = self;\n"
	"\tchar text[256];\n"
	"\n"
	"\ts->count++;\n"
	"\tsnprintf(text, sizeof text, \"%s, %s!\", s->greeting, sbx_arg_str(x, \"name\"));\n"
	"\tsbx_put_str(x, \"text\", text);\n"
	"\treturn sbx_put_i64(x, \"count\", s->count);\n"
	"}\n"
	"\n"
	"static int set_greeting(struct sbx *x, void *self)\n"
	"{\n"
	"\tstruct state *s = self;\n"
	"\tconst char *text = sbx_arg_str(x, \"text\");\n"
	"\n"
	"\tif (*text == '\\0')\n"
	"\t\treturn sbx_fail(x, \"empty\", \"a greeting has at least one letter\");\n"
	"\tsbx_set_str(x, &s->greeting, text);\n"
	"\treturn 0;\n"
	"}\n"
	"\n"
	"/* Raise the 1 when you change fields so that `migrate` has something to do. */\n"
	"SBX_MODULE(@, 1, SBX_USES(state), SBX_ON_INIT(init),\n"
	"\tSBX_FN(greet, \"name: str = \\\"world\\\"\"),\n"
	"\tSBX_FN(set_greeting, \"text: str\"));\n";

static const char make_text[] =
	"# Builds @.so with the flags that sandboxd's package tells pkg-config.\n"
	"CFLAGS ?= -O2 -g -Wall -Wextra\n"
	"SANDBOX_CFLAGS ?= $(shell pkg-config --cflags sandbox-module)\n"
	"\n"
	"@.so: @.c\n"
	"\t$(CC) $(CFLAGS) $(SANDBOX_CFLAGS) $< -o $@\n"
	"\n"
	"clean:\n"
	"\trm -f @.so\n"
	"\n"
	".PHONY: clean\n";

static const char readme_text[] =
	"# @\n"
	"\n"
	"A module of sandboxd. The daemon compiles the source itself:\n"
	"\n"
	"```sh\n"
	"sandboxctl create @ @.c          # or, from the folder above: @/@.c\n"
	"sandboxctl call @ greet name=you\n"
	"sandboxctl call @ set_greeting text=Hi\n"
	"$EDITOR @.c\n"
	"sandboxctl reload @ @.c          # the new code, with the state of the old\n"
	"sandboxctl rollback @\n"
	"sandboxctl destroy @\n"
	"```\n"
	"\n"
	"`make` compiles it here, to @.so, which create and reload take as well. sandbox_module(3) is the reference.\n";

static const struct {
	const char *name, *text; /* @ in both */
} files[] = {
	{ "@.c", source_text },
	{ "Makefile", make_text },
	{ "README.md", readme_text },
};

#define N_FILES (sizeof(files) / sizeof(files[0]))

/* "$@" is make's own. */
static void fill_in(struct buf *to, const char *text, const char *name)
{
	for (const char *at = text; *at; at++)
		if (*at == '@' && (at == text || at[-1] != '$'))
			buf_add_text(to, name);
		else
			buf_add_char(to, *at);
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, data, size);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return -1;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

static int write_one(int folder, size_t i, const char *name, struct err *e)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	autoclose int fd = -1;
	int r = -1;

	fill_in(&path, files[i].name, name);
	fill_in(&text, files[i].text, name);
	if (path.failed || text.failed)
		err_set(e, ERR_INTERNAL, "no memory to write %s", files[i].name);
	else if ((fd = openat(folder, buf_text(&path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) == -1)
		err_sys(e, ERR_IO, "cannot make %s/%s", name, buf_text(&path));
	else if (write_all(fd, text.data, text.size) == -1)
		err_sys(e, ERR_IO, "cannot write %s/%s", name, buf_text(&path));
	else
		r = 0;
	buf_fini(&path);
	buf_fini(&text);
	return r;
}

/* Takes back the first n files, and the folder. */
static void remove_all(int folder, size_t n, const char *name)
{
	while (n-- > 0) {
		struct buf path = BUF_INIT;

		fill_in(&path, files[n].name, name);
		if (!path.failed)
			(void)unlinkat(folder, buf_text(&path), 0);
		buf_fini(&path);
	}
	(void)rmdir(name);
}

static int write_folder(const char *name, struct err *e)
{
	autoclose int folder = -1;

	if (mkdir(name, 0777) == -1)
		return errno == EEXIST ? err_set(e, ERR_ALREADY_EXISTS, "there is a %s here already", name) :
					 err_sys(e, ERR_IO, "cannot make the folder %s", name);
	folder = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder == -1) {
		err_sys(e, ERR_IO, "cannot open the folder %s", name);
		(void)rmdir(name);
		return -1;
	}
	for (size_t i = 0; i < N_FILES; i++) {
		if (write_one(folder, i, name, e) == 0)
			continue;
		remove_all(folder, i + 1, name);
		return -1;
	}
	return 0;
}

/* The name is that of the module (a C identifier), of the source, and, as proposed, of the sandbox. */
static int check(const struct args *a, struct err *e)
{
	const char *name = a->operands[0], *lang = args_text(a, "lang", "c");
	size_t size = strlen(name);

	if (strcmp(lang, "c") != 0)
		return err_set(e, ERR_BAD_PARAM, "--lang: '%s' is none of c", lang);
	if (!name_is_function(name, size) || !name_is_id(name, size) || size + 2 > LIMIT_ID_BYTES)
		return err_set(e, ERR_BAD_PARAM, "'%s' is not a module's name: a letter, then at most %d letters, digits and _", name,
			LIMIT_ID_BYTES - 3);
	return 0;
}

static void show(const struct ctl *s, const char *name)
{
	struct buf line = BUF_INIT;
	struct json_out o = json_out_to(&line);

	if (!s->args->json) {
		if (!s->args->quiet)
			(void)printf("%s: written; try: sandboxctl create %s %s/%s.c\n", name, name, name, name);
		return;
	}
	json_out_object(&o, NULL);
	json_out_text(&o, "name", name);
	json_out_array(&o, "files");
	for (size_t i = 0; i < N_FILES; i++) {
		struct buf path = BUF_INIT;

		fill_in(&path, "@/", name);
		fill_in(&path, files[i].name, name);
		json_out_text(&o, NULL, path.failed ? "" : buf_text(&path));
		buf_fini(&path);
	}
	json_out_array_end(&o);
	json_out_object_end(&o);
	if (!line.failed)
		output_json(stdout, (struct json_span){ line.data, line.size });
	buf_fini(&line);
}

int cmd_new_run(struct ctl *s)
{
	const char *name = s->args->operands[0];
	struct err e = ERR_INIT;

	if (check(s->args, &e) == -1 || write_folder(name, &e) == -1)
		return ctl_fail(s, &e, (struct json_span){ 0 });
	show(s, name);
	return 0;
}

/* SPDX-License-Identifier: MIT */
#include "proto/build.h"

#include <stdio.h>
#include <string.h>

#include "proto/host_wire.h"
#include "proto/spawner_wire.h"
#include "proto/zygote_wire.h"

#define FORMAT "build: spawner %u zygote %u host %u registry %u kept %u\n"

struct build build_own(void)
{
	return (struct build){ SPAWNER_WIRE_VERSION, ZYGOTE_WIRE_VERSION, HOST_WIRE_VERSION, REGISTRY_FORMAT, KEPT_FORMAT };
}

void build_text(const struct build *b, char to[BUILD_TEXT_BYTES])
{
	(void)snprintf(to, BUILD_TEXT_BYTES, FORMAT, b->spawner_wire, b->zygote_wire, b->host_wire, b->registry, b->kept);
}

int build_print(void)
{
	char text[BUILD_TEXT_BYTES];
	const struct build own = build_own();

	build_text(&own, text);
	return fputs(text, stdout) == EOF || fflush(stdout) == EOF;
}

/* Only what build_text writes: the numbers that were read are written again and compared. */
int build_parse(const char *text, struct build *ret)
{
	char again[BUILD_TEXT_BYTES];

	memset(ret, 0, sizeof *ret);
	if (sscanf(text, FORMAT, &ret->spawner_wire, &ret->zygote_wire, &ret->host_wire, &ret->registry, &ret->kept) != 5)
		return -1;
	build_text(ret, again);
	return strcmp(again, text) == 0 ? 0 : -1;
}

int build_is_same(const struct build *own, const struct build *other, const char *name, struct err *e)
{
	const struct {
		const char *what;
		uint32_t own, other;
	} rows[] = { { "protocol between spawner and control", own->spawner_wire, other->spawner_wire },
		{ "protocol of zygotes", own->zygote_wire, other->zygote_wire }, { "host protocol", own->host_wire, other->host_wire },
		{ "format of the registry", own->registry, other->registry }, { "format of what is kept", own->kept, other->kept } };

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].own != rows[i].other)
			return err_set(e, ERR_UPGRADE_REFUSED, "%s is of another build: %s %u, and sandboxd has %u: install sandboxd completely",
				name, rows[i].what, rows[i].other, rows[i].own);
	return 0;
}

int build_follows(const struct build *own, const struct build *old, struct err *e)
{
	if (own->host_wire != old->host_wire)
		return err_set(e, ERR_UPGRADE_REFUSED, "the new build speaks host protocol %u, and the hosts that run speak %u: stop and start the daemon instead",
			own->host_wire, old->host_wire);
	if (own->kept != old->kept)
		return err_set(e, ERR_UPGRADE_REFUSED, "the new build reads format %u of what is kept of sandboxes, and the running one writes %u: stop and start "
			"the daemon instead", own->kept, old->kept);
	if (own->registry < old->registry)
		return err_set(e, ERR_UPGRADE_REFUSED, "the new build reads registries up to format %u, and this one has format %u: install a newer one",
			own->registry, old->registry);
	return 0;
}

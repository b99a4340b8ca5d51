/* SPDX-License-Identifier: MIT
 *
 * One log text of a module becomes one or more lines; each carries its own level, none can forge another's. */
#include "daemon/host/lines.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "proto/err.h"
#include "proto/limits.h"
#include "proto/log.h"
#include "proto/sandbox_module.h"

static enum log_level line_level(int level)
{
	if (level <= SBX_DEBUG)
		return LOG_LEVEL_DEBUG;
	if (level == SBX_INFO)
		return LOG_LEVEL_INFO;
	return level == SBX_WARNING ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR;
}

void lines_log(void *ctx, int level, const char *text, size_t n)
{
	const char *end;

	(void)ctx;
	if (n > LIMIT_LOG_TEXT_BYTES)
		n = LIMIT_LOG_TEXT_BYTES;
	end = text + n;
	do {
		char line[3 + LIMIT_LOG_TEXT_BYTES + 2] = { '<', (char)('0' + line_level(level)), '>' };
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t length;

		if (!stop)
			stop = end;
		text_clean(line + 3, LIMIT_LOG_TEXT_BYTES + 1, text, (uint64_t)(stop - text));
		length = strlen(line);
		line[length] = '\n';
		if (write(STDERR_FILENO, line, length + 1) < 0)
			return; /* nobody to tell */
		text = stop + 1;
	} while (text < end);
}

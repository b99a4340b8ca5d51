/* SPDX-License-Identifier: MIT
 *
 * Bytes into lines. The input says how large a line may be and in which pieces the bytes come; the lines that come out must be
 * those that a plain split of the whole gives. */
#include "tests/fuzz/fuzz.h"

#include "proto/frame.h"

/* The line at *at of the whole; false: there is no newline any more. */
static bool next_plain(const uint8_t *data, size_t size, size_t *at, const uint8_t **line, size_t *n)
{
	const uint8_t *end = *at < size ? memchr(data + *at, '\n', size - *at) : NULL;

	if (!end)
		return false;
	*line = data + *at;
	*n = (size_t)(end - *line);
	*at += *n + 1;
	if (*n > 0 && (*line)[*n - 1] == '\r')
		(*n)--;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	size_t limit = fuzz_u8(&in) % 80 + 1, step = fuzz_u8(&in) % 40 + 1, at = 0, fed = 0;
	const uint8_t *all = in.at, *want;
	size_t all_size = in.left, want_size;
	enum frame_result r = FRAME_MORE;
	struct frame f;

	frame_init(&f, limit);
	while (r == FRAME_MORE && fed < all_size) {
		size_t room = 0, n;
		char *to = frame_room(&f, &room), *line;

		FUZZ_MUST(to != NULL && room > 0);
		n = step < room ? step : room;
		n = n < all_size - fed ? n : all_size - fed;
		memcpy(to, all + fed, n);
		frame_fed(&f, n);
		fed += n;
		while ((r = frame_next(&f, &line, &n)) == FRAME_LINE) {
			FUZZ_MUST(n <= limit);
			FUZZ_MUST(next_plain(all, all_size, &at, &want, &want_size));
			FUZZ_MUST(n == want_size && memcmp(line, want, n) == 0);
		}
		FUZZ_MUST(r == FRAME_MORE || r == FRAME_TOO_LARGE);
	}
	if (r == FRAME_TOO_LARGE) /* indeed: the next one is longer, or hasn't ended and is */
		FUZZ_MUST(!next_plain(all, all_size, &at, &want, &want_size) ? all_size - at > limit : want_size >= limit);
	else if (all_size == fed)
		FUZZ_MUST(!next_plain(all, all_size, &at, &want, &want_size) && frame_has_partial(&f) == (at < all_size));
	frame_fini(&f);
	return 0;
}

/* SPDX-License-Identifier: MIT
 *
 * The ELF check: any bytes, in memory of exactly their size. The seeds are real objects. A first byte of the input that isn't
 * ELF's says that a list of changes to a real object follows. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>

#include "daemon/store/elf_check.h"
#include "proto/fd.h"

static char *real;
static size_t real_size;

/* The object that the runner has built beside the seeds; without one only whole files are tried. */
static void find_real(void)
{
	const char *path = getenv("FUZZ_ELF");
	struct err e = ERR_INIT;
	autoclose int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd >= 0)
		real = fd_read_all(fd, 1u << 20, &real_size, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool is_ready;
	struct fuzz_in in = { data, size };
	struct elf_info info;
	struct err e = ERR_INIT;
	size_t n = size;
	char *p;

	if (!is_ready)
		find_real();
	is_ready = true;
	if (real && size > 0 && data[0] != 0x7f) {
		uint8_t how = fuzz_u8(&in);

		n = how & 1 ? fuzz_u32(&in) % (real_size + 1) : real_size;
		p = fuzz_exact(real, n);
		while (in.left > 0 && n > 0) {
			size_t at = (how & 2 ? fuzz_u8(&in) * 4u : fuzz_u16(&in)) % n;
			uint8_t width = fuzz_u8(&in) % 8 + 1;

			for (uint8_t i = 0; i < width; i++)
				p[(at + i) % n] = (char)fuzz_u8(&in);
		}
	} else {
		p = fuzz_exact(data, size);
	}
	if (elf_check(p, n, &info, &e) != 0) {
		fuzz_refused(&e);
		FUZZ_MUST(e.code == ERR_BAD_IMAGE);
	} else {
		char clean[sizeof info.module];

		FUZZ_MUST(n > 64 && memcmp(p, "\x7f""ELF", 4) == 0 && strnlen(info.module, sizeof info.module) < sizeof info.module);
		text_clean(clean, sizeof clean, info.module, strlen(info.module));
		FUZZ_MUST(strcmp(clean, info.module) == 0);
	}
	free(p);
	return 0;
}

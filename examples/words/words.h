/* SPDX-License-Identifier: MIT
 *
 * A C++ class as a module: containers of the standard library, saved and restored by the class itself. */
#ifndef EXAMPLE_WORDS_H
#define EXAMPLE_WORDS_H

#define SBX_WANT_MINOR 1
#include <sandbox_module.h>

#include <stdexcept>
#include <string>
#include <unordered_map>

struct Words {
	std::unordered_map<std::string, int64_t> seen;

	int add(struct sbx *x)
	{
		return sbx_put_i64(x, "times", ++seen[sbx_arg_str(x, "word")]);
	}
	int at(struct sbx *x)
	{
		return sbx_put_i64(x, "times", seen.at(sbx_arg_str(x, "word"))); // throws std::out_of_range
	}
	int save(struct sbx *x)
	{
		sbx_open_dict(x, "seen");
		for (const auto &[word, n] : seen)
			sbx_put_i64(x, word.c_str(), n);
		return sbx_close(x);
	}
	int restore(struct sbx *x)
	{
		sbx_val at{}, key{}, v;

		while (sbx_has(v = sbx_next(x, sbx_saved(x, "seen"), &key, &at)))
			seen[sbx_text(x, key)] = sbx_i64(x, v);
		return 0;
	}
};

#endif

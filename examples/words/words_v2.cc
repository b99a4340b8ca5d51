/* SPDX-License-Identifier: MIT
 *
 * Version 2: a class derived from the first one, which knows the most frequent word too. What is saved is the same. */
#include "words.h"

#include <algorithm>

struct Words2 : Words {
	int most(struct sbx *x)
	{
		auto best = std::max_element(seen.begin(), seen.end(), [](const auto &a, const auto &b) { return a.second < b.second; });

		if (best == seen.end())
			throw std::runtime_error("no words yet");
		return sbx_put_str(x, "word", best->first.c_str());
	}
};

SBX_MODULE(words, 1, SBX_CLASS(Words2), SBX_SAVES(Words2, save), SBX_RESTORES(Words2, restore),
	SBX_METHOD(Words2, add, "word: str"), SBX_METHOD(Words2, at, "word: str"), SBX_METHOD(Words2, most, ""));

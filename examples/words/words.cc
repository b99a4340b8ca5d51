/* SPDX-License-Identifier: MIT
 *
 * Counts words. */
#include "words.h"

SBX_MODULE(words, 1, SBX_CLASS(Words), SBX_SAVES(Words, save), SBX_RESTORES(Words, restore),
	SBX_METHOD(Words, add, "word: str"), SBX_METHOD(Words, at, "word: str"));

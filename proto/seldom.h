/* SPDX-License-Identifier: MIT
 *
 * Where large buffers of a program lie that has many copies: behind everything else that begins as zeros, so that the few bytes that
 * each copy writes share a page or two, instead of one beside each buffer. The linker sorts by the name (Makefile); without that nothing
 * is wrong, only larger. */
#ifndef SANDBOXD_SELDOM_H
#define SANDBOXD_SELDOM_H

#define SELDOM_WRITTEN __attribute__((section(".bss.seldom")))

#endif

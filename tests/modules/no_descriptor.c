/* SPDX-License-Identifier: MIT
 *
 * A shared object that is no module. */
__attribute__((visibility("default"))) int not_a_module(void);
int not_a_module(void)
{
	return 1;
}

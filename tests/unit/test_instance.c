/* SPDX-License-Identifier: MIT
 *
 * Instances: the order of hooks, calls and their errors, the two examples' upgrades, memory that ends, hostile blobs. */
#include "tests/support/check_main.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/module_make.h"

/* The examples, each with a name of its own for its parts. */
#define sandbox_module counter_v1
#define counter        counter_1
#define increment      increment_1
#define get            get_1
#define sbx_items_     sbx_items_1
#define sbx_info_      sbx_info_1
#define counter_schema counter_schema_1
extern const struct sbx_module counter_v1;
#include "examples/counter/counter_v1.c"
#undef sandbox_module
#undef counter
#undef increment
#undef get
#undef sbx_items_
#undef sbx_info_
#define sandbox_module counter_v2
#define counter        counter_2
#define increment      increment_2
#define get            get_2
#define sbx_items_     sbx_items_2
#define sbx_info_      sbx_info_2
extern const struct sbx_module counter_v2;
#include "examples/counter/counter_v2.c"
#undef sandbox_module
#undef counter
#undef increment
#undef get
#undef sbx_items_
#undef sbx_info_
#define sandbox_module inventory_v1
#define sbx_items_     sbx_items_3
#define sbx_info_      sbx_info_3
#define item           item_1
#define shop           shop_1
#define place          place_1
#define init           init_1
#define add            add_1
#define worth          worth_1
#define list           list_1
#define note           note_1
#define move           move_1
extern const struct sbx_module inventory_v1;
#include "examples/inventory/inventory_v1.c"

/* SPDX-License-Identifier: MIT
 *
 * Landlock's numbers up to ABI 7, carried: the headers of the oldest supported distribution end at ABI 2. */
#ifndef SANDBOXD_LANDLOCK_ABI_H
#define SANDBOXD_LANDLOCK_ABI_H

#include <stdint.h>

#define LL_ABI_KNOWN 7 /* later ones add rights that nothing here asks for */

#define LL_FS_EXECUTE     (UINT64_C(1) << 0)
#define LL_FS_WRITE_FILE  (UINT64_C(1) << 1)
#define LL_FS_READ_FILE   (UINT64_C(1) << 2)
#define LL_FS_READ_DIR    (UINT64_C(1) << 3)
#define LL_FS_REMOVE_DIR  (UINT64_C(1) << 4)
#define LL_FS_REMOVE_FILE (UINT64_C(1) << 5)
#define LL_FS_MAKE_CHAR   (UINT64_C(1) << 6)
#define LL_FS_MAKE_DIR    (UINT64_C(1) << 7)
#define LL_FS_MAKE_REG    (UINT64_C(1) << 8)
#define LL_FS_MAKE_SOCK   (UINT64_C(1) << 9)
#define LL_FS_MAKE_FIFO   (UINT64_C(1) << 10)
#define LL_FS_MAKE_BLOCK  (UINT64_C(1) << 11)
#define LL_FS_MAKE_SYM    (UINT64_C(1) << 12)
#define LL_FS_REFER       (UINT64_C(1) << 13) /* ABI 2 */
#define LL_FS_TRUNCATE    (UINT64_C(1) << 14) /* ABI 3 */
#define LL_FS_IOCTL_DEV   (UINT64_C(1) << 15) /* ABI 5 */
#define LL_FS_ALL         ((UINT64_C(1) << 16) - 1)

#define LL_NET_BIND_TCP    (UINT64_C(1) << 0) /* ABI 4 */
#define LL_NET_CONNECT_TCP (UINT64_C(1) << 1) /* ABI 4 */
#define LL_NET_ALL         (UINT64_C(3))

#define LL_SCOPE_ABSTRACT_UNIX_SOCKET (UINT64_C(1) << 0) /* ABI 6 */
#define LL_SCOPE_SIGNAL               (UINT64_C(1) << 1) /* ABI 6 */
#define LL_SCOPE_ALL                  (UINT64_C(3))

#define LL_CREATE_RULESET_VERSION (1u << 0)
#define LL_RULE_PATH_BENEATH      1

/* The kernel takes the struct by size, and refuses one that is longer than it knows with anything set behind. */
struct ll_ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net; /* ABI 4 */
	uint64_t scoped;             /* ABI 6 */
};

struct ll_path_beneath_attr {
	uint64_t allowed_access;
	int32_t parent_fd;
} __attribute__((packed));

#endif

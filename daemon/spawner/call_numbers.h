/* SPDX-License-Identifier: MIT
 *
 * Numbers that the installed headers lack: of newer kernels (the same on all architectures), and of old calls that this
 * architecture never had (-1: no row). */
#ifndef SANDBOXD_CALL_NUMBERS_H
#define SANDBOXD_CALL_NUMBERS_H

#include <sys/syscall.h>

#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_futex_wake
#define __NR_futex_wake    454
#define __NR_futex_wait    455
#define __NR_futex_requeue 456
#endif
#ifndef __NR_mseal
#define __NR_mseal 462
#endif
#ifndef __NR_open_tree_attr
#define __NR_open_tree_attr 467
#endif

#ifndef __x86_64__
#define __NR_access        -1
#define __NR_alarm         -1
#define __NR_arch_prctl    -1
#define __NR_chmod         -1
#define __NR_chown         -1
#define __NR_creat         -1
#define __NR_dup2          -1
#define __NR_epoll_create  -1
#define __NR_epoll_wait    -1
#define __NR_eventfd       -1
#define __NR_fork          -1
#define __NR_futimesat     -1
#define __NR_getdents      -1
#define __NR_getpgrp       -1
#define __NR_inotify_init  -1
#define __NR_ioperm        -1
#define __NR_iopl          -1
#define __NR_lchown        -1
#define __NR_link          -1
#define __NR_lstat         -1
#define __NR_mkdir         -1
#define __NR_mknod         -1
#define __NR_modify_ldt    -1
#define __NR_open          -1
#define __NR_pause         -1
#define __NR_pipe          -1
#define __NR_poll          -1
#define __NR_readlink      -1
#define __NR_rename        -1
#define __NR_rmdir         -1
#define __NR_select        -1
#define __NR_signalfd      -1
#define __NR_stat          -1
#define __NR_symlink       -1
#define __NR_time          -1
#define __NR_unlink        -1
#define __NR_utime         -1
#define __NR_utimes        -1
#define __NR_vfork         -1
#endif

#endif

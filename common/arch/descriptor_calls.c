/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which system calls return a descriptor, by the manual pages of section 2. Those that make one and
 * put its number elsewhere (pipe(2), recvmsg(2)), or return one for some requests alone (bpf(2),
 * ioctl(2), fcntl(2)), are not among them.
 */
#include <sys/syscall.h>

#include "common/arch/syscalls.h"

bool ip_syscall_returns_descriptor(uint64_t number)
{
	switch (number) {
	case SYS_open:
	case SYS_openat:
	case SYS_openat2:
	case SYS_creat:
	case SYS_open_by_handle_at:
	case SYS_memfd_create:
	case SYS_socket:
	case SYS_accept:
	case SYS_accept4:
	case SYS_eventfd:
	case SYS_eventfd2:
	case SYS_timerfd_create:
	case SYS_signalfd:
	case SYS_signalfd4:
	case SYS_epoll_create:
	case SYS_epoll_create1:
	case SYS_inotify_init:
	case SYS_inotify_init1:
	case SYS_pidfd_open:
	case SYS_pidfd_getfd:
	case SYS_io_uring_setup:
	case SYS_dup:
	case SYS_dup2:
	case SYS_dup3:
	case SYS_userfaultfd:
	case SYS_fsopen:
	case SYS_fsmount:
	case SYS_fspick:
	case SYS_open_tree:
	case SYS_mq_open:
	case SYS_perf_event_open:
	case SYS_fanotify_init:
		return true;
	default:
		return false;
	}
}

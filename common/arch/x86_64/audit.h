/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How seccomp identifies this machine's own system calls.
 */
#ifndef IP_X86_64_AUDIT_H
#define IP_X86_64_AUDIT_H

#include <linux/audit.h>

#define IP_ARCH_AUDIT AUDIT_ARCH_X86_64
/* Numbers from here on are those of x32, another table with the same identification. */
#define IP_ARCH_SYSCALL_END 0x40000000u

#endif

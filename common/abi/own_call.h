/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mark of system calls that iprobe's code makes in the target's threads: the runtime, to read
 * what pointers point to; borrowed threads, to make room. By it iprobe syscalls tells them from
 * those of the program.
 *
 * The mark is the upper half of the register of an argument that the kernel takes no such half of,
 * so it changes nothing; the kernel's event of the call (raw_syscalls:sys_enter) has the whole
 * registers:
 *
 *   - process_vm_readv(2), process_vm_writev(2): the first argument, a pid;
 *   - mmap(2): the fifth one, a descriptor;
 *   - all others: the sixth one, the lower half of which is 0. They have no such argument, or do
 *     not look at it (futex(2), in the operations that we use).
 *
 * A program never passes that by chance: it would be no number of a process or a descriptor. It
 * could do so on purpose: its call is then counted as one of ours (docs/threat-model.md). 32-bit
 * registers have no such half.
 */
#ifndef IP_OWN_CALL_H
#define IP_OWN_CALL_H

#define IP_OWN_CALL 0x6970726f /* "ipro" */

#endif

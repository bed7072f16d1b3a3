/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of threads that continue a system call in the runtime's code (struct ip_restart_slot), for
 * C and assembler. Each slot has its own calls. They lie side by side; the distance from there to
 * the slot follows them.
 */
#ifndef IP_ABI_RESTART_SLOTS_H
#define IP_ABI_RESTART_SLOTS_H

#define IP_RESTART_SLOTS   512
#define IP_RESTART_SLOT	   256 /* bytes */
#define IP_RESTART_CALLS   64  /* bytes of the calls of one slot: the call itself comes first */
#define IP_RESTART_POLL	   16  /* offset of ppoll() */
#define IP_RESTART_REST	   32  /* offset of the call that transfers the rest */
#define IP_RESTART_TO_SLOT 48  /* offset of the distance */

/* 32-bit code: a slot is the code together with all data that it needs
 * (runtime/arch/i386/syscall_resume.S). */
#define IP_RESTART_NARROW_SLOTS 128
#define IP_RESTART_NARROW	256 /* bytes */
#define IP_RESTART_NARROW_DATA	64  /* offset of its struct ip_restart */

#endif

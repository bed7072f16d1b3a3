/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of threads that go on waiting in the runtime's code (struct ip_restart_slot), for C and
 * assembler. Each has its own calls, side by side, and behind them the distance from there to the
 * slot.
 */
#ifndef IP_ABI_RESTART_SLOTS_H
#define IP_ABI_RESTART_SLOTS_H

#define IP_RESTART_SLOTS   512
#define IP_RESTART_SLOT	   256 /* bytes */
#define IP_RESTART_CALLS   64  /* bytes of the calls of one slot: the call itself first */
#define IP_RESTART_POLL	   16  /* where ppoll() stands among them */
#define IP_RESTART_REST	   32  /* the call that moves the rest */
#define IP_RESTART_TO_SLOT 48  /* the distance */

/* Of 32-bit code: a slot is the code with all that it needs in it
 * (runtime/arch/i386/syscall_resume.S). */
#define IP_RESTART_NARROW_SLOTS 128
#define IP_RESTART_NARROW	256 /* bytes */
#define IP_RESTART_NARROW_DATA	64  /* where its struct ip_restart lies */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the runtime: what its files share. The runtime is freestanding: it calls nothing
 * outside of itself, so that it can be called from anywhere (signal handlers, a thread that is half set up,
 * code that runs before libc is ready) and traces nothing of itself.
 */
#ifndef IP_RT_H
#define IP_RT_H

#include "common/rt_abi.h"

#define rt_unlikely(x) __builtin_expect(!!(x), 0)

/* Where the constructor mapped the pieces; constant after it. Valid only while rt_gate is not NULL. */
extern volatile struct ip_gate *rt_gate;
extern struct ip_area_header *rt_header;
extern struct ip_slot *rt_slots;
extern struct ip_subbuf *rt_subbufs;
extern char *rt_data;

/* The hooks that stubs jump to. number: probe number. They preserve what the C calling convention preserves.
 */
void rt_hook_entry(uint32_t number);
void rt_hook_exit(uint32_t number);
void rt_hook_tail_exit(uint32_t number);

#endif

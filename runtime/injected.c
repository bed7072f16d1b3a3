/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime that `iprobe attach` puts into a running process (hotpatcher/inject/inject.h). No
 * loader knows of it. A borrowed thread maps memory; iprobe writes the runtime into that memory and
 * fills in rt_injection; then another borrowed thread runs rt_wake (arch/ARCH/wake.S).
 */
#include <stddef.h>
#include <sys/syscall.h>

#include "common/abi/fperf.h"
#include "runtime/arch/cpu.h"
#include "runtime/rt.h"

#define PROT_READ 1
#define PROT_EXEC 4

/* Both lie at the start of the writable part, one behind the other. iprobe writes the magic number
 * last. */
struct ip_rt_anchor iprobe_rt_anchor __attribute__((section(".iprobe.anchor"))) = {
	.abi = IP_RT_ABI,
	.fperf_abi = IP_FPERF_ABI,
	.area_fd = -1,
};
struct ip_injection rt_injection __attribute__((section(".iprobe.injection"))) = {0};

void rt_wake_set_up(void)
{
	const struct ip_injection *in = &rt_injection;

	for (uint32_t i = 0; i < in->nrooms && i < IP_INJECTION_ROOMS; i++)
		cpu_syscall(SYS_mprotect, in->rooms[i].address, in->rooms[i].size,
			    PROT_READ | PROT_EXEC, 0);
	iprobe_rt_anchor.pools[IP_POOL_LIBRARIES].address = (uintptr_t)rt_pool;
	iprobe_rt_anchor.pools[IP_POOL_LIBRARIES].size = in->pool_size;
	rt_pool_size = in->pool_size;
	rt_area_size = in->area_size;
	rt_set_up(RT_WOKEN, in->executable, 0);
}

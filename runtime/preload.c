/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The constructor of libiprobe-rt.so.
 *
 * The library is linked with -z initfirst, so this constructor comes before every other constructor
 * of the process. In `iprobe run` it waits here until the launcher has made the probes live. So
 * constructors of the program and of its libraries are recorded like any other function.
 */
#include <elf.h>
#include <sys/syscall.h>

#include "common/abi/fperf.h"
#include "runtime/arch/cpu.h"
#include "runtime/rt.h"

__attribute__((visibility("default"))) struct ip_rt_anchor iprobe_rt_anchor = {
	.magic = IP_RT_MAGIC,
	.abi = IP_RT_ABI,
	.fperf_abi = IP_FPERF_ABI,
	.area_fd = -1,
};

static __attribute__((constructor)) void start(int argc __attribute__((unused)),
					       char **argv __attribute__((unused)), char **envp)
{
	const char *path = rt_environment(envp, IP_ENV_AREA);
	uint64_t headers = rt_auxiliary(envp, AT_PHDR);

	if (CPU_CALLS_ARE_NEAR)
		rt_rooms_open((const void *)(uintptr_t)headers, rt_auxiliary(envp, AT_PHNUM));
	rt_set_up(path && rt_map_launched(path) ? RT_LAUNCHED : RT_PRELOADED, headers,
		  (uintptr_t)rt_pool);
}

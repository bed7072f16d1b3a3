/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime that is linked into a static program (iprobe-rt.o). A program that is not traced
 * makes no system call and maps nothing because of it. `iprobe run` starts it at the program's
 * start, by the environment. `iprobe attach` starts it by a borrowed thread, which runs rt_wake
 * (arch/ARCH/wake.S).
 */
#include <elf.h>
#include <stddef.h>

#include "common/abi/fperf.h"
#include "runtime/rt.h"

/* The ELF header of the program that contains the runtime. */
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

__attribute__((visibility("default"))) struct ip_rt_anchor iprobe_rt_anchor = {
	.magic = IP_RT_MAGIC,
	.abi = IP_RT_ABI,
	.fperf_abi = IP_FPERF_ABI,
	.area_fd = -1,
	.wake = (uint64_t)rt_wake,
	.wake_end = (uint64_t)rt_wake_end,
	.wake_block = (uint64_t)rt_wake_block,
};

static void set_up(enum rt_start how)
{
	const char *header = (const char *)&__ehdr_start;
	const Elf64_Phdr *phdr = (const Elf64_Phdr *)(header + __ehdr_start.e_phoff);
	uint64_t bias = 0;

	for (unsigned i = 0; i < __ehdr_start.e_phnum; i++)
		if (phdr[i].p_type == PT_LOAD && phdr[i].p_offset == 0)
			bias = (uint64_t)header - phdr[i].p_vaddr;
	rt_stub_room_open(phdr, __ehdr_start.e_phnum, bias);
	rt_set_up(how, (uint64_t)header, 0);
}

/* Of everything that a program runs before main, this array comes first. A program that has gained
 * privileges by exec ignores the environment. */
static void start(int argc __attribute__((unused)), char **argv __attribute__((unused)),
		  char **envp)
{
	const char *path = rt_environment(envp, IP_ENV_AREA);

	/* a program that the launched program has started does nothing */
	if (path && !rt_auxiliary(envp, AT_SECURE) && rt_map_launched(path))
		set_up(RT_LAUNCHED);
}

void rt_wake_set_up(void)
{
	set_up(RT_WOKEN);
}

static void (*const preinit)(int, char **, char **)
	__attribute__((section(".preinit_array"), used)) = start;

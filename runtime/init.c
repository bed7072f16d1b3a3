/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setting the runtime up: it maps what a session needs, writes to the anchor where that is, and is
 * silent from then on.
 *
 * In libiprobe-rt.so the constructor does it (preload.c), before every other constructor of the
 * process. In a static program, `iprobe run` causes it at the start, or a borrowed thread does it
 * later (static_entry.c). In a runtime that iprobe has put into a process, a borrowed thread does
 * it (injected.c). If anything fails, the runtime does nothing, and the anchor holds the errno.
 *
 * The mappings cost address space, not memory. Of the area only the pages that a session fills take
 * memory, of the stub pools only the pages that hold stubs.
 */
#include <elf.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "common/abi/restart_slots.h"
#include "runtime/arch/cpu.h"
#include "runtime/rt.h"
#include "runtime/self.h"

#define PAGE	   4096ull
#define WAIT_LIMIT 30 /* seconds that an image waits for its launcher */

#define PROT_READ	    1
#define PROT_WRITE	    2
#define PROT_EXEC	    4
#define MAP_PRIVATE	    0x02
#define MAP_FIXED	    0x10
#define MAP_ANONYMOUS	    0x20
#define MAP_NORESERVE	    0x4000
#define MAP_FIXED_NOREPLACE 0x100000
#define MADV_DONTDUMP	    16
#define MADV_WIPEONFORK	    18

#define FAILED(ret) ((unsigned long)(ret) > -4096ul)

volatile struct ip_gate *rt_gate;
struct ip_area_header *rt_header;
struct ip_slot *rt_slots;
struct ip_subbuf *rt_subbufs;
char *rt_data;
struct ip_payload *rt_payloads;
struct ip_value_program *rt_programs;
uint32_t *rt_duties;
struct ip_area_clock *rt_clock;
struct ip_filter_rule *rt_rules;
struct ip_filters *rt_filters;
struct ip_rt_private rt_private;
uint64_t rt_area_size = IP_AREA_OWN_SIZE, rt_pool_size = RT_POOL_SIZE;

/* The bounds of the runtime's own code. The linker defines them, under other names where the
 * runtime is linked into a program (meson.build). */
extern const char RT_TEXT_START[] __attribute__((visibility("hidden")));
extern const char RT_TEXT_END[] __attribute__((visibility("hidden")));

/* Returns an address, or an error as from any system call. */
static unsigned long map(uint64_t address, uint64_t size, long prot, long flags, long fd)
{
	return cpu_syscall6(CPU_SYS_MMAP, address, size, prot, flags, fd, 0);
}

const char *rt_environment(char **envp, const char *name)
{
	for (; *envp; envp++) {
		size_t i = 0;

		while (name[i] && (*envp)[i] == name[i])
			i++;
		if (!name[i] && (*envp)[i] == '=')
			return *envp + i + 1;
	}
	return NULL;
}

uint64_t rt_auxiliary(char **envp, uint64_t type)
{
	const cpu_auxv *aux;

	while (*envp)
		envp++;
	for (aux = (const cpu_auxv *)(envp + 1); aux->a_type != AT_NULL; aux++)
		if (aux->a_type == type)
			return aux->a_un.a_val;
	return 0;
}

/* Maps a pool that every site of the executable reaches. It lies below the executable if there is
 * room, since the heap grows above it. A non-PIE executable starts too low for that. Its pool lies
 * as high as a call reaches, far above a heap of any usual size. */
static void map_executable_pool(uint64_t executable)
{
	const uint64_t reach = 0x70000000ull, size = rt_pool_size, step = 4ull * RT_POOL_SIZE;
	uint64_t base = executable & ~(PAGE - 1);
	long flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
	unsigned long at;

	for (uint64_t down = size + (16 << 20); down < reach && down + (16 << 20) < base;
	     down += step) {
		at = map(base - down, size, PROT_READ | PROT_EXEC, flags, -1);
		if (at == base - down)
			goto found;
		if (!FAILED(at)) /* an old kernel treats NOREPLACE as a hint */
			cpu_syscall(SYS_munmap, at, size, 0, 0);
	}
	for (uint64_t up = reach - size; up > reach / 2 && base < (1ull << 32); up -= step) {
		at = map(base + up, size, PROT_READ | PROT_EXEC, flags, -1);
		if (at == base + up)
			goto found;
		if (!FAILED(at))
			cpu_syscall(SYS_munmap, at, size, 0, 0);
	}
	return;
found:
	iprobe_rt_anchor.pools[0].address = at;
	iprobe_rt_anchor.pools[0].size = size;
}

/* Tells the launcher that this image has started, and waits until the launcher releases it. If the
 * launcher dies, the process gets another parent: then continue without it. */
static void wait_for_launcher(void)
{
	const struct {
		long sec, nsec;
	} tick = {0, 50 * 1000 * 1000};
	long parent = cpu_syscall(SYS_getppid, 0, 0, 0, 0);
	uint32_t mine = __atomic_add_fetch(&rt_header->ready, 1, __ATOMIC_SEQ_CST);

	cpu_syscall(SYS_futex, &rt_header->ready, FUTEX_WAKE, 1, 0);
	for (int ticks = 0; ticks < WAIT_LIMIT * 20; ticks++) {
		uint32_t go = __atomic_load_n(&rt_header->go, __ATOMIC_SEQ_CST);

		if ((int32_t)(go - mine) >= 0 || cpu_syscall(SYS_getppid, 0, 0, 0, 0) != parent)
			return;
		cpu_syscall(SYS_futex, &rt_header->go, FUTEX_WAIT, go, &tick);
	}
}

int rt_clock_is_forbidden(void)
{
	int32_t how = 0;

	return cpu_syscall(SYS_prctl, PR_GET_TSC, &how, 0, 0) || how != PR_TSC_ENABLE;
}

void rt_set_up(enum rt_start how, uint64_t executable, uint64_t library_pool)
{
	unsigned long gate, pool;

	/* The setting is inherited from the process that executed the program. The program may also
	 * forbid the clock later (IP_REMAP_CLOCK). */
	if (rt_clock_is_forbidden()) {
		iprobe_rt_anchor.error = IP_RT_NO_TSC;
		return;
	}
	if (how != RT_LAUNCHED && !rt_map_own_area(how))
		return;
	gate = map(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (!FAILED(gate)) {
		long ret = cpu_syscall(SYS_madvise, gate, PAGE, MADV_WIPEONFORK, 0);

		if (FAILED(ret))
			gate = ret;
	}
	if (FAILED(gate)) {
		iprobe_rt_anchor.error = -gate;
		return;
	}
	cpu_syscall(SYS_madvise, iprobe_rt_anchor.area, iprobe_rt_anchor.area_size, MADV_DONTDUMP,
		    0);
	if (CPU_CALLS_ARE_NEAR)
		map_executable_pool(executable);
	/* Loaders other than glibc's leave pages of the file there, behind the file's end. */
	pool = library_pool ? map(library_pool, rt_pool_size, PROT_READ | PROT_EXEC,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1)
			    : -1ul;
	if (!FAILED(pool)) {
		iprobe_rt_anchor.pools[1].address = pool;
		iprobe_rt_anchor.pools[1].size = rt_pool_size;
	}
	rt_header = (struct ip_area_header *)(uintptr_t)iprobe_rt_anchor.area;
	rt_slots = (struct ip_slot *)(uintptr_t)(iprobe_rt_anchor.area + IP_AREA_SLOTS_OFFSET);
	rt_subbufs =
		(struct ip_subbuf *)(uintptr_t)(iprobe_rt_anchor.area + IP_AREA_SUBBUFS_OFFSET);
	rt_data = (char *)(uintptr_t)(iprobe_rt_anchor.area + IP_AREA_DATA_OFFSET);
	rt_payloads =
		(struct ip_payload *)(uintptr_t)(iprobe_rt_anchor.area + IP_AREA_PAYLOADS_OFFSET);
	rt_programs = (struct ip_value_program *)(uintptr_t)(iprobe_rt_anchor.area +
							     IP_AREA_PROGRAMS_OFFSET);
	rt_clock =
		(struct ip_area_clock *)(uintptr_t)(iprobe_rt_anchor.area + IP_AREA_CLOCK_OFFSET);
	rt_rules =
		(struct ip_filter_rule *)(uintptr_t)(iprobe_rt_anchor.area + IP_AREA_RULES_OFFSET);
	rt_filters =
		(struct ip_filters *)(uintptr_t)(iprobe_rt_anchor.area + IP_AREA_FILTERS_OFFSET);
	rt_area_find_tables();
	rt_gate = (volatile struct ip_gate *)gate;

#ifndef RT_INJECTED
	rt_self_find_tid();
	iprobe_rt_anchor.tid_at = rt_tid_at;
#endif
	iprobe_rt_anchor.pid = cpu_syscall(SYS_getpid, 0, 0, 0, 0);
	for (unsigned kind = 0; kind < IP_HOOK_KINDS; kind++) {
		for (unsigned regs = 0; regs < IP_HOOK_REGS; regs++)
			iprobe_rt_anchor.hooks[kind][regs] =
				(uintptr_t)rt_hooks_base + rt_hooks[kind][regs];
		iprobe_rt_anchor.jump_hooks[kind] = (uintptr_t)rt_hooks_base + rt_jump_hooks[kind];
		for (unsigned jump = 0; jump < 2; jump++)
			if (rt_payload_hooks[kind][jump])
				iprobe_rt_anchor.payload_hooks[kind][jump] =
					(uintptr_t)rt_payload_base + rt_payload_hooks[kind][jump];
	}
	if (rt_return_hook) {
		iprobe_rt_anchor.return_hooks[0] = (uintptr_t)rt_hooks_base + rt_return_hook;
		iprobe_rt_anchor.return_hooks[1] =
			(uintptr_t)rt_payload_base + rt_payload_return_hook;
	}
	if (rt_tail_hook)
		iprobe_rt_anchor.tail_hook = (uintptr_t)rt_hooks_base + rt_tail_hook;
	if (rt_plt_hook)
		iprobe_rt_anchor.plt_hook = (uintptr_t)rt_hooks_base + rt_plt_hook;
	if (CPU_REMAPS) {
		iprobe_rt_anchor.remap = (uintptr_t)rt_remap;
		iprobe_rt_anchor.remap_end = (uintptr_t)rt_remap_end;
		iprobe_rt_anchor.remap_block = (uintptr_t)rt_remap_block;
	}
	iprobe_rt_anchor.own = (uintptr_t)&rt_private;
	iprobe_rt_anchor.text_start = (uintptr_t)RT_TEXT_START;
	iprobe_rt_anchor.text_end = (uintptr_t)RT_TEXT_END;
	iprobe_rt_anchor.restart = (uintptr_t)rt_restart;
	iprobe_rt_anchor.restart_end = (uintptr_t)rt_restart_end;
	if (CPU_RESTART_SLOTS) /* these slots are not in their code */
		iprobe_rt_anchor.restart_slots = (uintptr_t)rt_restart_slots;
	iprobe_rt_anchor.restart_nslots =
		CPU_RESTART_SLOTS ? IP_RESTART_SLOTS : IP_RESTART_NARROW_SLOTS;
	cpu_store_order();
	iprobe_rt_anchor.gate = gate; /* last: a reader that sees it sees the rest */

	if (how == RT_LAUNCHED)
		wait_for_launcher();
}

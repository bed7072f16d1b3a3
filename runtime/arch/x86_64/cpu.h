/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime needs of the machine: raw system calls (no libc, so no errno and no PLT), the
 * clock, and operations that are atomic against signal handlers of the same thread but not locked.
 */
#ifndef RT_X86_64_CPU_H
#define RT_X86_64_CPU_H

#include <elf.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "common/abi/own_call.h"

#define CPU_CLOCK_MONOTONIC_RAW 4 /* the kernel's number */

/* A call reaches +-2 GiB. */
#define CPU_CALLS_ARE_NEAR 1
#define CPU_SYS_GETRESUID  SYS_getresuid
#define CPU_SYS_GETRESGID  SYS_getresgid
#define CPU_SYS_MMAP	   SYS_mmap
#define CPU_CALLS_USERS	   1 /* user.S */
#define CPU_READS_PMCS	   1 /* cpu_read_pmc(), if the kernel allows it */
#define CPU_REMAPS	   1 /* remap.S exists */
#define CPU_RESTART_SLOTS  1 /* slots of syscall_resume.S */

/* Offset of a thread's id from the thread pointer in C libraries: musl, musl before 1.2, glibc. */
#define CPU_TID_PLACES 0x30, 0x38, 0x2d0

typedef Elf64_auxv_t cpu_auxv;

/* An int, with the mark of our own system calls beside it (common/abi/own_call.h). */
static inline long cpu_mark(long n)
{
	return (long)((uint64_t)IP_OWN_CALL << 32 | (uint32_t)n);
}

/* Marks the call. One of fewer than six arguments gets 0 for the others. */
static inline long cpu_syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;
	const int is_copy = nr == SYS_process_vm_readv || nr == SYS_process_vm_writev;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = nr == SYS_mmap ? cpu_mark(e) : e;
	register long r9 __asm__("r9") = is_copy || nr == SYS_mmap ? f : cpu_mark(f);

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(is_copy ? cpu_mark(a) : a), "S"(b), "d"(c), "r"(r10),
			   "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

#define cpu_syscall(nr, a, b, c, d)                                                                \
	cpu_syscall6(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* CLOCK_MONOTONIC_RAW, nanoseconds. */
static inline uint64_t cpu_monotonic(void)
{
	int64_t time[2] = {0, 0};

	cpu_syscall(SYS_clock_gettime, CPU_CLOCK_MONOTONIC_RAW, time, 0, 0);
	return time[0] * 1000000000ull + time[1];
}

static inline uint64_t cpu_clock(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

/* Reads a counter of the PMU. */
static inline uint64_t cpu_read_pmc(uint32_t number)
{
	uint32_t lo, hi;

	__asm__ volatile("rdpmc" : "=a"(lo), "=d"(hi) : "c"(number));
	return (uint64_t)hi << 32 | lo;
}

/* The thread pointer. The word that it points at is the thread pointer itself. */
static inline uint64_t cpu_thread_pointer(void)
{
	uint64_t pointer;

	__asm__ volatile("movq %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

/* A word at an offset from the thread pointer. */
static inline uint32_t cpu_thread_word(uint64_t offset)
{
	uint32_t word;

	__asm__ volatile("movl %%fs:(%1), %0" : "=r"(word) : "r"(offset));
	return word;
}

/* cmpxchg without lock. It is one instruction, so a signal handler of this thread runs before or
 * after it. */
static inline int cpu_cmpxchg_local(uint64_t *p, uint64_t expected, uint64_t desired)
{
	uint8_t done;

	__asm__ volatile("cmpxchgq %[desired], %[p]"
			 : "=@ccz"(done), [p] "+m"(*p), "+a"(expected)
			 : [desired] "r"(desired)
			 : "memory");
	return done;
}

/* The same, atomic against other processors too. */
static inline int cpu_cmpxchg_shared(uint64_t *p, uint64_t expected, uint64_t desired)
{
	uint8_t done;

	__asm__ volatile("lock cmpxchgq %[desired], %[p]"
			 : "=@ccz"(done), [p] "+m"(*p), "+a"(expected)
			 : [desired] "r"(desired)
			 : "memory");
	return done;
}

/* One instruction. */
static inline void cpu_add_local16(uint16_t *p, uint16_t n)
{
	__asm__ volatile("addw %1, %0" : "+m"(*p) : "r"(n) : "memory", "cc");
}

/* bytes: a multiple of 8. */
static inline void cpu_zero(void *p, uint64_t bytes)
{
	bytes /= 8;
	__asm__ volatile("rep stosq" : "+D"(p), "+c"(bytes) : "a"(0) : "memory");
}

static inline void cpu_increment_local(uint64_t *p)
{
	__asm__ volatile("incq %0" : "+m"(*p) : : "memory", "cc");
}

static inline void cpu_increment_local32(uint32_t *p)
{
	__asm__ volatile("incl %0" : "+m"(*p) : : "memory", "cc");
}

static inline void cpu_add_local(uint64_t *p, uint64_t n)
{
	__asm__ volatile("addq %1, %0" : "+m"(*p) : "r"(n) : "memory", "cc");
}

static inline void cpu_increment_shared(uint64_t *p)
{
	__atomic_fetch_add(p, 1, __ATOMIC_RELAXED);
}

/* One load of the whole word. */
static inline uint64_t cpu_load_word(const uint64_t *p)
{
	return *(const volatile uint64_t *)p;
}

/* One store, which a handler and other processors see as a whole. */
static inline void cpu_store_word(uint64_t *p, uint64_t word)
{
	*p = word;
}

/* Keeps the compiler from moving memory accesses; x86 itself keeps stores in order (SDM vol. 3,
 * 9.2.2). */
#define cpu_store_order() __asm__ volatile("" : : : "memory")
/* Loads stay in order too. */
#define cpu_load_order() __asm__ volatile("" : : : "memory")

#endif

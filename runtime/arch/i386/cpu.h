/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime needs of i386: raw system calls, the clock, and operations on 64-bit words. A
 * signal handler of the same thread, and the collector, which is a 64-bit program, must see such an
 * operation done or not done, never half done. On i386 cmpxchg8b is the only instruction for this
 * that does not touch vector and x87 state. It is locked, since only then other processors see one
 * store.
 */
#ifndef RT_I386_CPU_H
#define RT_I386_CPU_H

#include <elf.h>
#include <stdint.h>
#include <sys/syscall.h>

#define CPU_CLOCK_MONOTONIC_RAW 4 /* the kernel's number */

/* A call reaches every address. */
#define CPU_CALLS_ARE_NEAR 0
#define CPU_CALLS_USERS	   0
#define CPU_REMAPS	   0 /* a borrowed thread must be a 64-bit one */
#define CPU_SYS_GETRESUID  SYS_getresuid32
#define CPU_SYS_GETRESGID  SYS_getresgid32
#define CPU_RESTART_SLOTS  0	     /* syscall_resume.S has its data in its code */
#define CPU_SYS_MMAP	   SYS_mmap2 /* its offset, in pages, is always 0 here */

/* Offset of a thread's id from the thread pointer in C libraries: musl, musl before 1.2, glibc. */
#define CPU_TID_PLACES 0x18, 0x1c, 0x68

typedef Elf32_auxv_t cpu_auxv;

static inline long cpu_syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;

	/* the sixth argument goes into the frame pointer, which cannot be an operand */
	__asm__ volatile("pushl %[f]\n\t"
			 "pushl %%ebp\n\t"
			 "movl 4(%%esp), %%ebp\n\t"
			 "int $0x80\n\t"
			 "popl %%ebp\n\t"
			 "leal 4(%%esp), %%esp"
			 : "=a"(ret)
			 : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), [f] "g"(f)
			 : "memory", "cc");
	return ret;
}

#define cpu_syscall(nr, a, b, c, d)                                                                \
	cpu_syscall6(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* CLOCK_MONOTONIC_RAW, nanoseconds. */
static inline uint64_t cpu_monotonic(void)
{
	int64_t time[2] = {0, 0};

	cpu_syscall(SYS_clock_gettime64, CPU_CLOCK_MONOTONIC_RAW, time, 0, 0);
	return time[0] * 1000000000ull + time[1];
}

static inline uint64_t cpu_clock(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

/* The thread pointer. The word that it points at is the thread pointer itself. */
static inline uint32_t cpu_thread_pointer(void)
{
	uint32_t pointer;

	__asm__ volatile("movl %%gs:0, %0" : "=r"(pointer));
	return pointer;
}

/* A word at an offset from the thread pointer. */
static inline uint32_t cpu_thread_word(uint32_t offset)
{
	uint32_t word;

	__asm__ volatile("movl %%gs:(%1), %0" : "=r"(word) : "r"(offset));
	return word;
}

static inline int cpu_cmpxchg_local(uint64_t *p, uint64_t expected, uint64_t desired)
{
	uint8_t done;

	__asm__ volatile("lock cmpxchg8b %[p]"
			 : "=@ccz"(done), [p] "+m"(*p), "+A"(expected)
			 : "b"((uint32_t)desired), "c"((uint32_t)(desired >> 32))
			 : "memory");
	return done;
}

#define cpu_cmpxchg_shared cpu_cmpxchg_local

static inline void cpu_add_local16(uint16_t *p, uint16_t n)
{
	__asm__ volatile("addw %1, %0" : "+m"(*p) : "r"(n) : "memory", "cc");
}

static inline void cpu_zero(void *p, uint32_t bytes)
{
	bytes /= 4;
	__asm__ volatile("rep stosl" : "+D"(p), "+c"(bytes) : "a"(0) : "memory");
}

/* The carry is in the flags. A signal handler restores them, so no carry is lost. */
static inline void cpu_increment_local(uint64_t *p)
{
	uint32_t *half = (uint32_t *)p;

	__asm__ volatile("addl $1, %0; adcl $0, %1"
			 : "+m"(half[0]), "+m"(half[1])
			 :
			 : "memory", "cc");
}

static inline void cpu_increment_local32(uint32_t *p)
{
	__asm__ volatile("incl %0" : "+m"(*p) : : "memory", "cc");
}

static inline void cpu_add_local(uint64_t *p, uint64_t n)
{
	uint32_t *half = (uint32_t *)p;

	__asm__ volatile("addl %2, %0; adcl %3, %1"
			 : "+m"(half[0]), "+m"(half[1])
			 : "r"((uint32_t)n), "r"((uint32_t)(n >> 32))
			 : "memory", "cc");
}

static inline void cpu_increment_shared(uint64_t *p)
{
	uint64_t seen = *(volatile uint64_t *)p;

	while (!cpu_cmpxchg_local(p, seen, seen + 1))
		seen = *(volatile uint64_t *)p;
}

/* Reads a word that only grows, by far less than 2^32 between the two loads. */
static inline uint64_t cpu_load_word(const uint64_t *p)
{
	const volatile uint32_t *half = (const volatile uint32_t *)p;
	uint32_t low, high;

	do {
		high = half[1];
		low = half[0];
	} while (high != half[1]);
	return (uint64_t)high << 32 | low;
}

static inline void cpu_store_word(uint64_t *p, uint64_t word)
{
	uint64_t seen = *(volatile uint64_t *)p;

	while (!cpu_cmpxchg_local(p, seen, word))
		seen = *(volatile uint64_t *)p;
}

/* Keeps the compiler from moving memory accesses; x86 itself keeps stores in order (SDM vol. 3,
 * 9.2.2). */
#define cpu_store_order() __asm__ volatile("" : : : "memory")

#endif

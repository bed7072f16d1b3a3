/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe-cc puts this in front of each source in placement instrument with -mcmodel=large (do not
 * include it by hand). In that model gcc calls the hooks of -finstrument-functions through
 * registers: such a call has two bytes, too few for a site, and one load of the address may serve
 * many calls. So here the hooks become functions that gcc always inlines. Their body is the call
 * that gcc makes in the other models, with the same arguments, and it clobbers the same registers.
 * The code that iprobe can probe fits into 2 GiB, so the call reaches its target; if it does not,
 * the linker reports it.
 *
 * The compiler sees no call, and so might keep data below the stack pointer, unless -mno-red-zone
 * is given.
 */
#ifndef __ASSEMBLER__

#pragma GCC system_header

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __SSE__
#define IPROBE_LARGE_SSE_                                                                          \
	, "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
		"xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#else
#define IPROBE_LARGE_SSE_
#endif
#ifdef _SOFT_FLOAT
#define IPROBE_LARGE_X87_
#else
#define IPROBE_LARGE_X87_ , "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)"
#endif

#define IPROBE_LARGE_HOOK(name)                                                                    \
	extern __inline__ __attribute__((__gnu_inline__, __always_inline__,                        \
					 __no_instrument_function__, __artificial__)) void         \
	name(void *function, void *caller)                                                         \
	{                                                                                          \
		__asm__ __volatile__ __inline__("call\t" #name "@PLT"                              \
						: "+D"(function), "+S"(caller)                     \
						:                                                  \
						: "rax", "rcx", "rdx", "r8", "r9", "r10", "r11",   \
						  "cc",                                            \
						  "memory" IPROBE_LARGE_SSE_ IPROBE_LARGE_X87_);   \
	}

IPROBE_LARGE_HOOK(__cyg_profile_func_enter)
IPROBE_LARGE_HOOK(__cyg_profile_func_exit)

#undef IPROBE_LARGE_HOOK
#undef IPROBE_LARGE_SSE_
#undef IPROBE_LARGE_X87_

#ifdef __cplusplus
}
#endif

#endif

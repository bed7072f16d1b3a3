/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe-cc puts this in front of each source in placement inline (do not include it by hand). It
 * defines the hooks of -finstrument-functions as one NOP each. The compiler inlines the NOP at
 * every place where it would call the hook. The comment behind the NOP tells the assembler stage
 * (rewrite.c) which kind of site it is. The compiler sees no call, so it spills nothing and makes
 * no arguments. It also may keep data below the stack pointer across the site, unless -mno-red-zone
 * is given.
 */
#ifndef __ASSEMBLER__

#pragma GCC system_header

#ifdef __cplusplus
extern "C" {
#endif

#define IPROBE_INLINE_HOOK(name, kind)                                                             \
	extern __inline__ __attribute__((__gnu_inline__, __always_inline__,                        \
					 __no_instrument_function__, __artificial__)) void         \
	name(void *function, void *caller)                                                         \
	{                                                                                          \
		__asm__ __volatile__ __inline__(".byte 0x0f,0x1f,0x44,0,0 #iprobe:" kind);         \
	}

IPROBE_INLINE_HOOK(__cyg_profile_func_enter, "1")
IPROBE_INLINE_HOOK(__cyg_profile_func_exit, "2")

#undef IPROBE_INLINE_HOOK

#ifdef __cplusplus
}
#endif

#endif

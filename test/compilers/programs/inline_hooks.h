/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks of our own in place of iprobe-cc's in placement inline: a comment that the test counts in
 * the assembly. */
#ifndef __ASSEMBLER__
#ifdef __cplusplus
extern "C" {
#endif
#define HOOK(name, mark)                                                                           \
	extern __inline__ __attribute__((__gnu_inline__, __always_inline__,                        \
					 __no_instrument_function__)) void                         \
	name(void *function, void *caller)                                                         \
	{                                                                                          \
		__asm__ __volatile__ __inline__(".byte 0x0f,0x1f,0x44,0,0 #mark " mark);           \
	}
HOOK(__cyg_profile_func_enter, "entry")
HOOK(__cyg_profile_func_exit, "exit")
#undef HOOK
#ifdef __cplusplus
}
#endif
#endif

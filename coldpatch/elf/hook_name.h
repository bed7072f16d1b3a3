/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of the two instrumentation functions of -finstrument-functions.
 */
#ifndef COLD_HOOK_NAME_H
#define COLD_HOOK_NAME_H

#define COLD_HOOK_ENTER "__cyg_profile_func_enter"
#define COLD_HOOK_EXIT	"__cyg_profile_func_exit"

enum cold_hook {
	COLD_HOOK_NONE = 0,
	COLD_HOOK_IS_ENTER = 1,
	COLD_HOOK_IS_EXIT = 2,
};

/* Tells which of the two a symbol names. A version behind '@' is allowed. */
enum cold_hook cold_hook_named(const char *symbol);

#endif

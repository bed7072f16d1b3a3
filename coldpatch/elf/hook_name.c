/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises the instrumentation functions by name. See hook_name.h.
 */
#include "coldpatch/elf/hook_name.h"

#include <string.h>

enum cold_hook cold_hook_named(const char *symbol)
{
	size_t length = strcspn(symbol, "@");

	if (length == strlen(COLD_HOOK_ENTER) && !memcmp(symbol, COLD_HOOK_ENTER, length))
		return COLD_HOOK_IS_ENTER;
	if (length == strlen(COLD_HOOK_EXIT) && !memcmp(symbol, COLD_HOOK_EXIT, length))
		return COLD_HOOK_IS_EXIT;
	return COLD_HOOK_NONE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that do not return, and jumps through thunks.
 */
#ifndef COLD_X86_64_CALLS_H
#define COLD_X86_64_CALLS_H

#include "coldpatch/sites/arch/x86_64/insn.h"
#include "coldpatch/sites/hooks.h"

/* Whether the call never returns: then control does not reach the code behind it from the call. */
bool call_never_returns(const struct cold_module *module, const struct cold_hooks *hooks,
			const struct cold_insn *insn);

/* Whether a direct jump to target is an indirect jump by way of a thunk
 * (-mindirect-branch=thunk). */
bool jump_is_thunk(const struct cold_module *module, uint64_t target);

#endif

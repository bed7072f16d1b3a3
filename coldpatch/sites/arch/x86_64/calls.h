/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls and jumps that are not what they look like.
 */
#ifndef COLD_X86_64_CALLS_H
#define COLD_X86_64_CALLS_H

#include "coldpatch/sites/arch/x86_64/insn.h"
#include "coldpatch/sites/hooks.h"

/* Whether the call does not come back: what stands behind it is not reached from it. */
bool call_never_returns(const struct cold_module *module, const struct cold_hooks *hooks,
			const struct cold_insn *insn);

/* Of a direct jump to target: whether it is an indirect jump by way of a thunk
 * (-mindirect-branch=thunk). */
bool jump_is_thunk(const struct cold_module *module, uint64_t target);

#endif

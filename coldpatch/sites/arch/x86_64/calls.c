/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds functions that never return, by name or by their code, and thunks. See calls.h.
 */
#include "coldpatch/sites/arch/x86_64/calls.h"

#include <string.h>

/* Whether a function of that name never returns. */
static bool never_returns(const char *name)
{
	static const char *const names[] = {
		"_Unwind_Resume",
		"__assert_fail",
		"__cxa_bad_cast",
		"__cxa_bad_typeid",
		"__cxa_call_unexpected",
		"__cxa_pure_virtual",
		"__cxa_rethrow",
		"__cxa_throw",
		"__cxa_throw_bad_array_new_length",
		"__longjmp_chk",
		"__stack_chk_fail",
		"_exit",
		"abort",
		"exit",
		"longjmp",
		"siglongjmp",
		"__clang_call_terminate",
		"_ZSt9terminatev",
		"__chk_fail",
		"__fortify_fail",
		"err",
		"errx",
	};

	if (!name)
		return false;
	if (!strncmp(name, "_ZSt", 4) && strstr(name, "__throw_"))
		return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static const char *callee(const struct cold_module *m, const struct cold_hooks *hooks,
			  const struct cold_insn *insn)
{
	const struct cold_reloc *r;
	const struct cold_symbol *s;
	const char *name;
	uint64_t target;

	if (cold_insn_target(insn, &target)) {
		name = cold_stub_name(m, hooks, target);
		if (name)
			return name;
		s = cold_module_symbol(m, target);
		return s ? s->name : NULL;
	}
	if (cold_insn_memory(insn, &target)) {
		r = cold_module_reloc(m, target);
		return r ? r->symbol : NULL;
	}
	return NULL;
}

bool call_never_returns(const struct cold_module *m, const struct cold_hooks *hooks,
			const struct cold_insn *insn)
{
	uint64_t target;
	uint32_t range;

	if (cold_insn_target(insn, &target)) {
		range = cold_module_range(m, target);
		if (range != COLD_NONE && m->ranges[range].start == target &&
		    m->ranges[range].clean && !m->ranges[cold_range_root(m, range)].returns)
			return true;
	}
	return never_returns(callee(m, hooks, insn));
}

/* -mindirect-branch=thunk: an indirect jump looks like a direct one. */
bool jump_is_thunk(const struct cold_module *m, uint64_t target)
{
	const struct cold_symbol *s = cold_module_symbol(m, target);

	return s && !strncmp(s->name, "__x86_indirect_thunk", strlen("__x86_indirect_thunk"));
}

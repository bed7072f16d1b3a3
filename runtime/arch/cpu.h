/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine that this runtime is built for. There is one build for each machine whose programs
 * the kernel runs.
 */
#ifdef __i386__
#include "runtime/arch/i386/cpu.h"
#include "runtime/arch/i386/layout.h"
#else
#include "runtime/arch/x86_64/cpu.h"
#include "runtime/arch/x86_64/layout.h"
#endif

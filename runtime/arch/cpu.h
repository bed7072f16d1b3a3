/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine that this runtime is for. It is built once for each that one kernel runs.
 */
#ifdef __i386__
#include "runtime/arch/i386/cpu.h"
#include "runtime/arch/i386/layout.h"
#else
#include "runtime/arch/x86_64/cpu.h"
#include "runtime/arch/x86_64/layout.h"
#endif

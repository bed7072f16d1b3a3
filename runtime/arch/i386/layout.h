/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What assembler must know of C. It is the same as on x86-64, except for the width of a pointer.
 */
#ifndef RT_I386_LAYOUT_H
#define RT_I386_LAYOUT_H

#include "runtime/arch/x86_64/layout.h"

#undef SELF_SESSION
#define SELF_SESSION 4

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What assembler must know of C: as for x86-64, but for the width of a pointer.
 */
#ifndef IP_RT_LAYOUT_I386_H
#define IP_RT_LAYOUT_I386_H

#include "runtime/arch/x86_64/layout.h"

#undef SELF_SESSION
#define SELF_SESSION 4

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What assembler must know of C: sizes and offsets. record.c asserts that they are right.
 */
#ifndef IP_RT_LAYOUT_H
#define IP_RT_LAYOUT_H

#define RT_POOL_SIZE (64 << 20)

#endif

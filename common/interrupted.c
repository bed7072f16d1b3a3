/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See interrupted.h.
 */
#include "common/interrupted.h"

volatile int ip_interrupted;

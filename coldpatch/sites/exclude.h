/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gets no probes: functions and files that the builder of a program has named (IPROBE_EXCLUDE,
 * coldpatch --exclude).
 *
 * The text is a selection (common/selection.h), or the path of a file that holds one. It is applied
 * twice. The assembler stage leaves the NOPs of fentry away, where a function's name or its source
 * file is in it: that costs nothing at all. ColdPatch applies it again to the linked module, where
 * everything has its name: what is left there (calls of other placements, inlined functions,
 * objects that were built before the text was changed) becomes a NOP that no list names.
 */
#ifndef COLD_EXCLUDE_H
#define COLD_EXCLUDE_H

#include "common/selection.h"

#define ENV_EXCLUDE "IPROBE_EXCLUDE"

/* *ret is NULL where text is NULL or empty. -1 with an error that names the item. */
int cold_exclude_parse(const char *text, struct ip_selection **ret);

#endif

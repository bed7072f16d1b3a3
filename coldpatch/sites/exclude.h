/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions and files that get no probes, because the builder of a program has named them
 * (IPROBE_EXCLUDE, coldpatch --exclude).
 *
 * The text is a selection (common/selection/selection.h), or the path of a file that holds one. It
 * is applied twice. The assembler stage omits the NOPs of fentry if the selection matches the
 * function's name or its source file: such a function costs nothing at all. ColdPatch applies the
 * selection again to the linked module, where everything has its name. Sites that are left there
 * (calls of other placements, inlined functions, objects that were built before the text was
 * changed) become NOPs that no list names.
 */
#ifndef COLD_EXCLUDE_H
#define COLD_EXCLUDE_H

#include "common/selection/selection.h"

#define ENV_EXCLUDE "IPROBE_EXCLUDE"

/* Parses the text. *ret is NULL if text is NULL or empty. Returns 0, or -1 with an error that names
 * the item. */
int cold_exclude_parse(const char *text, struct ip_selection **ret);

#endif

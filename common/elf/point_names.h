/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of a point's values: made of the text that its arguments have in the source, which
 * ColdPatch has put into ip_pl_probe.arg_text:
 *
 *   r->id, IPROBE_STRING(r->uri), n % 16
 *
 * A name is an argument without spaces. Of IPROBE_STRING(x) and IPROBE_HEX(x) it is x. Spaces that
 * part words, and what could disturb a terminal or a reader of traces, become "_", and " becomes
 * '. What is too long is shortened in its midst. The second of two equal names becomes x#2.
 *
 * The text comes from a file: any bytes are taken.
 */
#ifndef IP_POINT_NAMES_H
#define IP_POINT_NAMES_H

#include "common/elf/point_args.h"

#define IP_POINT_NAME_MAX 64u /* bytes of a name */
/* What ends a text of which only the beginning was kept. */
#define IP_POINT_TEXT_CUT '\1'

struct ip_point_names {
	/* "": it has none, since the text does not tell it */
	char names[IP_POINT_ARGS_MAX][IP_POINT_NAME_MAX + 1];
};

/* Makes the names of a point of n arguments. They have none where the text has another number of
 * arguments. n is at most IP_POINT_ARGS_MAX. */
void ip_point_names_make(const char *text, unsigned n, struct ip_point_names *ret);

#endif

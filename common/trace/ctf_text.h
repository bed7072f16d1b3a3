/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of TSDL that the descriptions of all our streams share (ctf_metadata.h, kernel_metadata.h).
 */
#ifndef IP_CTF_TEXT_H
#define IP_CTF_TEXT_H

#include <stdint.h>
#include <stdio.h>

#include "common/trace/ctf_metadata.h"

/* Writes a string literal. '\\' and '"' are escaped. Control characters become '?', since
 * babeltrace2 and Trace Compass disagree on the other escapes. */
void ip_ctf_write_string(FILE *out, const char *text);
void ip_ctf_write_uuid(FILE *out, const uint8_t uuid[16]);
/* Writes the clock "tsc", from tsc_hz, tsc_start and start_realtime_ns. tsc_hz must not be 0. */
void ip_ctf_write_clock(FILE *out, const struct ip_ctf_metadata *m);

#endif

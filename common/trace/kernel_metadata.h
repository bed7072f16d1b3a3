/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DIR/kernel/metadata: describes the layout of kernel_format.h in TSDL (CTF 1.8).
 */
#ifndef IP_KERNEL_METADATA_H
#define IP_KERNEL_METADATA_H

#include <stdio.h>

#include "common/trace/ctf_metadata.h"

struct ip_kernel_functions;

/* Writes the text to out; does not flush or close it. m: of labels, threads and command nothing is
 * used. functions: of the kernel, that have events (kernel_functions.h). Returns 0, or -1 with an
 * error. */
int ip_kernel_metadata_write(FILE *out, const struct ip_ctf_metadata *m,
			     const struct ip_kernel_functions *functions);

#endif

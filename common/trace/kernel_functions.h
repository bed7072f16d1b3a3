/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the kernel that have events in a trace: DIR/iprobe/kernel_functions, with a line
 * "NAME<TAB>MODULE" for each. Its number is that of the line, from 0 on (kernel_format.h). MODULE:
 * the module of the kernel that it belongs to; empty: it is the kernel's own.
 */
#ifndef IP_KERNEL_FUNCTIONS_H
#define IP_KERNEL_FUNCTIONS_H

#include <stddef.h>

#define IP_KERNEL_NAME_MAX 512u /* bytes of a name, as the kernel has it (KSYM_NAME_LEN) */

struct ip_kernel_function {
	char *name, *module; /* module "": the kernel itself */
};

struct ip_kernel_functions {
	struct ip_kernel_function *items;
	size_t n;
};

/* Adds a function: copies name and module. Returns 0, or -1 with an error. */
int ip_kernel_functions_add(struct ip_kernel_functions *functions, const char *name,
			    const char *module);
void ip_kernel_functions_clear(struct ip_kernel_functions *functions);

/* Makes the file. dir: of the trace. Returns 0, or -1 with an error. */
int ip_kernel_functions_write(int dir, const struct ip_kernel_functions *functions);

/* Reads the file of a trace, which is input from outside: no name has more than letters, digits,
 * '_', '.' and '$'. dir: the trace. *ret: the caller clears it in any case; without functions where
 * there is no file. Returns 0, or -1 with an error. */
int ip_kernel_functions_read(const char *dir, struct ip_kernel_functions *ret);

#endif

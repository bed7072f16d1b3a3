/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How arguments of system calls are written: as numbers, or by the names that the system's headers
 * have for them.
 */
#ifndef IP_SYSCALL_FLAGS_H
#define IP_SYSCALL_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ip_syscall_format {
	IP_SYSCALL_HEX, /* an address, or what is not known */
	IP_SYSCALL_INT, /* 32 bits with a sign */
	IP_SYSCALL_SIZE,
	IP_SYSCALL_OFFSET, /* 64 bits with a sign */
	IP_SYSCALL_OCTAL,
	IP_SYSCALL_DESCRIPTOR,
	IP_SYSCALL_NAMES, /* of a value, of bits, or of both */
};

struct ip_syscall_flag {
	const char *name; /* NULL behind the last */
	uint64_t value;
};

/* The bits of the mask are one value, which has one name; each other bit has a name of its own. */
struct ip_syscall_argument {
	enum ip_syscall_format format;
	const struct ip_syscall_flag *flags;
	uint64_t mask;
};

/* How an argument of a call is written. */
struct ip_syscall_argument ip_syscall_argument_of(unsigned number, const char *argument);

/* Writes a value by names: "O_RDWR|O_CLOEXEC"; what has none is 0x... Returns the text's length,
 * which is below size. */
size_t ip_syscall_flags_write(char *out, size_t size, const struct ip_syscall_argument *argument,
			      uint64_t value);

/* The name of an error: "ENOENT"; those by which the kernel restarts calls included. One without a
 * name is "errno N", in the buffer. */
const char *ip_syscall_error_name(unsigned number, char buffer[24]);
/* Whether the kernel begins calls that end so anew, unless a signal's handler runs. */
bool ip_syscall_error_restarts(unsigned number);

#endif

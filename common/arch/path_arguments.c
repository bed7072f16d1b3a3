/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which arguments of system calls are paths, by the names that the kernel has for them.
 */
#include <string.h>
#include <sys/syscall.h>

#include "common/arch/syscalls.h"

/* Of these calls "name" is a path; of others it is an attribute's, or the machine's. */
static bool names_file(uint64_t number)
{
	return number == SYS_acct || number == SYS_umount2 || number == SYS_name_to_handle_at;
}

static bool is_path(uint64_t number, const char *name, size_t length)
{
	static const char *const names[] = {"filename", "pathname",	 "path",       "oldname",
					    "newname",	"dev_name",	 "dir_name",   "new_root",
					    "put_old",	"from_pathname", "to_pathname"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strlen(names[i]) == length && !memcmp(names[i], name, length))
			return true;
	return length == 4 && !memcmp(name, "name", 4) && names_file(number);
}

unsigned ip_syscall_path_arguments(uint64_t number)
{
	const struct ip_syscall *call = ip_syscall_find(number);
	unsigned paths = 0, bit = 1;
	size_t length;

	for (const char *name = call ? call->arguments : ""; *name; bit <<= 1) {
		length = strcspn(name, ",");
		if (is_path(number, name, length))
			paths |= bit;
		name += length + (name[length] == ',');
	}
	return paths;
}

bool ip_syscall_path_if_failed(uint64_t number)
{
	return ip_syscall_returns_descriptor(number) || number == SYS_execve ||
	       number == SYS_execveat;
}

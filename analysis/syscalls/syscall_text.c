/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes system calls as text.
 */
#include "analysis/syscalls/syscall_text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "analysis/syscalls/syscall_flags.h"
#include "analysis/syscalls/syscall_set.h"
#include "analysis/wait/descriptors/call_paths.h"
#include "common/arch/syscalls.h"

/* Text that is written piece by piece, and cut off where the memory ends. */
struct text {
	char *out;
	size_t size, at;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->out + t->at, t->size - t->at, format, args);
	va_end(args);
	t->at = n >= 0 && (size_t)n < t->size - t->at ? t->at + n : t->size - 1;
}

uint64_t ip_syscall_before(const struct ip_syscall_call *call)
{
	return call->timed && !call->earlier ? call->begin - 1 : call->begin;
}

static void put_descriptor(struct text *t, const struct ip_syscall_call *call,
			   const struct ip_syscall_descriptors *descriptors, int32_t fd,
			   uint64_t tsc)
{
	const char *is = descriptors && descriptors->find && fd >= 0
				 ? descriptors->find(descriptors->context, call->tid, fd, tsc)
				 : NULL;

	if (fd == AT_FDCWD)
		put(t, "AT_FDCWD");
	else if (is)
		put(t, "%d<%s>", fd, is);
	else
		put(t, "%d", fd);
}

static void put_hex(struct text *t, uint64_t value)
{
	put(t, value ? "0x%" PRIx64 : "%" PRIu64, value);
}

const char *ip_syscall_path(const struct ip_call_paths *paths, const struct ip_syscall_call *call,
			    unsigned argument)
{
	const struct ip_call_path key = {.tid = call->tid,
					 .number = call->number,
					 .argument = argument,
					 .address = call->arguments[argument]};

	if (call->outcome != IP_SYSCALL_RETURNED ||
	    (call->result >= 0 && ip_syscall_path_if_failed(call->number)))
		return NULL;
	return ip_call_paths_find(paths, &key, call->begin, call->end);
}

/* In quotes, as strace has it. Control characters are '?', as in a trace. */
static void put_path(struct text *t, const char *path)
{
	put(t, "\"");
	for (; *path; path++)
		put(t, "%s%c", *path == '"' || *path == '\\' ? "\\" : "",
		    (unsigned char)*path < ' ' || *path == 0x7f ? '?' : *path);
	put(t, "\"");
}

static void put_argument(struct text *t, const struct ip_syscall_call *call, unsigned i,
			 const char *name, const struct ip_syscall_descriptors *descriptors)
{
	const struct ip_syscall_argument how = ip_syscall_argument_of(call->number, name);
	const uint64_t value = call->arguments[i];
	const char *path =
		descriptors && descriptors->path && ip_syscall_path_arguments(call->number) >> i & 1
			? descriptors->path(descriptors->context, call, i)
			: NULL;
	char names[256];

	if (path) {
		put_path(t, path);
		return;
	}
	switch (how.format) {
	case IP_SYSCALL_INT:
		put(t, "%d", (int32_t)value);
		break;
	case IP_SYSCALL_SIZE:
		put(t, "%" PRIu64, value);
		break;
	case IP_SYSCALL_OFFSET:
		put(t, "%" PRId64, (int64_t)value);
		break;
	case IP_SYSCALL_OCTAL:
		put(t, value & UINT32_MAX ? "0%o" : "%o", (uint32_t)value);
		break;
	case IP_SYSCALL_DESCRIPTOR:
		put_descriptor(t, call, descriptors, value, ip_syscall_before(call));
		break;
	case IP_SYSCALL_NAMES:
		ip_syscall_flags_write(names, sizeof(names), &how, value);
		put(t, "%s", names);
		break;
	default:
		put_hex(t, value);
	}
}

/* The mode of a file that the call does not make is no argument. */
static bool is_unused(const struct ip_syscall_call *call, unsigned i)
{
	const uint64_t made = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);

	return (call->number == SYS_openat && i == 3 && !(call->arguments[2] & made)) ||
	       (call->number == SYS_open && i == 2 && !(call->arguments[1] & made));
}

const char *ip_syscall_text(const struct ip_syscall_call *call,
			    const struct ip_syscall_descriptors *descriptors, char *ret,
			    size_t size)
{
	struct text t = {ret, size, 0};
	char name[32];

	put(&t, "%s(", ip_syscall_name(call->number, name));
	if (!call->timed)
		put(&t, "...");
	for (unsigned i = 0; call->timed && i < IP_SYSCALL_ARGUMENTS; i++) {
		const char *argument = ip_syscall_argument_name(call->number, i, name);

		if (!ip_syscall_find(call->number) && call->arguments[i])
			argument = "";
		if (!argument || is_unused(call, i))
			break;
		put(&t, "%s", i ? ", " : "");
		put_argument(&t, call, i, argument, descriptors);
	}
	put(&t, call->outcome == IP_SYSCALL_OPEN ? " <unfinished ...>" : ")");
	return ret;
}

/* Whether a result is an address. */
static bool returns_address(uint16_t number)
{
	return number == SYS_mmap || number == SYS_brk || number == SYS_mremap ||
	       number == SYS_shmat;
}

/* Whether a result is a descriptor. */
static bool returns_descriptor(const struct ip_syscall_call *call)
{
	if (call->number == SYS_fcntl)
		return call->timed &&
		       (call->arguments[1] == F_DUPFD || call->arguments[1] == F_DUPFD_CLOEXEC);
	return ip_syscall_returns_descriptor(call->number);
}

const char *ip_syscall_result_text(const struct ip_syscall_call *call,
				   const struct ip_syscall_descriptors *descriptors, char *ret,
				   size_t size)
{
	struct text t = {ret, size, 0};
	char name[24];
	unsigned error;

	*ret = '\0';
	if (call->outcome != IP_SYSCALL_RETURNED) {
		put(&t, "?");
	} else if (ip_syscall_is_error(call->result, &error)) {
		put(&t, "-1 %s", ip_syscall_error_name(error, name));
		if (strerrordesc_np(error))
			put(&t, " (%s)", strerrordesc_np(error));
	} else if (returns_descriptor(call)) {
		put_descriptor(&t, call, descriptors, call->result, call->end);
	} else if (returns_address(call->number)) {
		put_hex(&t, call->result);
	} else {
		put(&t, "%" PRId64, call->result);
	}
	return ret;
}

int32_t ip_syscall_descriptor(const struct ip_syscall_call *call, bool *ret_made)
{
	char name[32];

	*ret_made = false;
	if (returns_descriptor(call) && call->outcome == IP_SYSCALL_RETURNED && call->result >= 0 &&
	    call->result <= INT32_MAX) {
		*ret_made = true;
		return call->result;
	}
	for (unsigned i = 0; call->timed && ip_syscall_argument_name(call->number, i, name); i++)
		if (ip_syscall_argument_of(call->number, name).format == IP_SYSCALL_DESCRIPTOR) {
			const int32_t fd = call->arguments[i];

			if (fd >= 0)
				return fd;
		}
	return -1;
}

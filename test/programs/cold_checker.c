/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The truth about sites: preloaded into a program whose hook calls are still calls, this defines
 * the hooks and logs who calls them for which function. test_coldpatch.py compares that with the
 * probe list.
 *
 * Each different pair is one line in the file that COLD_LOG names:
 *   E|X  module  base  return address  module of the function  its base  the function  its name
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROOM (1u << 18)

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

static struct {
	uintptr_t site, function;
} seen[ROOM];
static volatile char locked;
static int log_fd = -2;

static void note(char kind, void *site, void *function)
{
	uintptr_t at = (((uintptr_t)site >> 1) ^ (uintptr_t)function * 31) % ROOM;
	Dl_info where = {0}, what = {0};
	char line[4096];
	int n;

	while (__atomic_test_and_set(&locked, __ATOMIC_ACQUIRE))
		;
	while (seen[at].site &&
	       (seen[at].site != (uintptr_t)site || seen[at].function != (uintptr_t)function))
		at = (at + 1) % ROOM;
	if (!seen[at].site) {
		seen[at].site = (uintptr_t)site;
		seen[at].function = (uintptr_t)function;
		if (log_fd == -2)
			log_fd = open(getenv("COLD_LOG") ? getenv("COLD_LOG") : "/dev/null",
				      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
		dladdr(site, &where);
		dladdr(function, &what);
		n = snprintf(line, sizeof(line), "%c\t%s\t%lx\t%lx\t%s\t%lx\t%lx\t%s\n", kind,
			     where.dli_fname ? where.dli_fname : "?",
			     (unsigned long)where.dli_fbase, (unsigned long)site,
			     what.dli_fname ? what.dli_fname : "?", (unsigned long)what.dli_fbase,
			     (unsigned long)function, what.dli_sname ? what.dli_sname : "?");
		if (write(log_fd, line, n) != n)
			abort();
	}
	__atomic_clear(&locked, __ATOMIC_RELEASE);
}

void __cyg_profile_func_enter(void *function, void *caller)
{
	(void)caller;
	note('E', __builtin_return_address(0), function);
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	(void)caller;
	note('X', __builtin_return_address(0), function);
}

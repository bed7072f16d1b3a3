/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts pages of zeros where a mapped file has ended.
 */
#include "common/elf/mapped_file.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

bool ip_mapped_file_has_shrunk(const siginfo_t *info)
{
	const uintptr_t size = sysconf(_SC_PAGESIZE), page = (uintptr_t)info->si_addr & ~(size - 1);
	const int error = errno;
	bool ret;

	/* BUS_ADRERR is of a page that is mapped and has nothing behind it; memory that the machine
	 * has lost is another code */
	ret = info->si_code == BUS_ADRERR &&
	      mmap((void *)page, size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
	errno = error;
	return ret;
}

static void on_bus(int number, siginfo_t *info, void *context)
{
	if (ip_mapped_file_has_shrunk(info))
		return;
	signal(number, SIG_DFL);
	raise(number);
}

void ip_mapped_file_may_shrink(void)
{
	const struct sigaction action = {.sa_sigaction = on_bus,
					 .sa_flags = SA_SIGINFO | SA_RESTART};

	sigaction(SIGBUS, &action, NULL);
}

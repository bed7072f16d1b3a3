/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks its own code in memory, says "ready" and waits until stdin is closed.
 */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

__attribute__((noinline)) static int wait_for_end(void)
{
	int c;

	while ((c = getchar()) != EOF)
		;
	return 0;
}

int main(void)
{
	void *page = (void *)((uintptr_t)wait_for_end & ~(uintptr_t)4095);

	if (mlock(page, 4096) != 0) {
		perror("mlock");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	return wait_for_end();
}

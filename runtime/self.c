/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory in which threads find their slots, and the place of their ids.
 */
#include "runtime/self.h"

#ifdef RT_INJECTED
struct ip_slot *rt_threads[RT_THREADS];
#else
__thread struct rt_self rt_self __attribute__((tls_model("initial-exec")));

uint32_t rt_tid_at;

/* Whether a word behind the thread pointer is mapped: what the C library has there may be smaller
 * than what this code looks for. */
static int is_there(uintptr_t pointer, uint32_t offset)
{
	const uintptr_t page = 4096, last = (pointer + offset + 3) & ~(page - 1);
	unsigned char resident;

	return last == (pointer & ~(page - 1)) ||
	       !cpu_syscall(SYS_mincore, last, page, &resident, 0);
}

/* Called by the thread that sets the runtime up: the first of its process, or one that iprobe has
 * borrowed. */
void rt_self_find_tid(void)
{
	static const uint16_t places[] = {CPU_TID_PLACES};
	uint32_t tid = cpu_syscall(SYS_gettid, 0, 0, 0, 0);
	uintptr_t pointer = cpu_thread_pointer();

	for (unsigned i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (is_there(pointer, places[i]) && cpu_thread_word(places[i]) == tid) {
			rt_tid_at = places[i];
			return;
		}
}

void rt_self_check_tid(uint32_t pid)
{
	uint32_t tid = rt_self_tid();

	if (rt_tid_at && tid != pid && cpu_syscall(SYS_gettid, 0, 0, 0, 0) != tid)
		rt_tid_at = 0;
}

_Static_assert(offsetof(struct rt_self, slot) == SELF_SLOT &&
		       offsetof(struct rt_self, session) == SELF_SESSION,
	       "layout.h");
#endif

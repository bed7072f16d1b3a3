/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory in which threads find their slots.
 */
#include "runtime/self.h"

#ifdef RT_INJECTED
struct ip_slot *rt_threads[RT_THREADS];
#else
__thread struct rt_self rt_self __attribute__((tls_model("initial-exec")));

_Static_assert(offsetof(struct rt_self, slot) == SELF_SLOT &&
		       offsetof(struct rt_self, session) == SELF_SESSION,
	       "layout.h");
#endif

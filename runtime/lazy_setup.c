/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets up a runtime that does nothing until a borrowed thread comes (arch/ARCH/wake.S). Such a
 * runtime is linked into a static program (static_entry.c), or iprobe has put it into the process
 * (injected.c).
 */
#include "runtime/arch/cpu.h"
#include "runtime/rt.h"

/* Called by rt_wake. Sets the runtime up once only, whichever thread comes. After a failure a later
 * thread may try again. */
void rt_wake_up(void)
{
	uint32_t nobody = 0;

	if (!__atomic_compare_exchange_n(&iprobe_rt_anchor.waking, &nobody, 1, 0, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return;
	iprobe_rt_anchor.error = 0;
	if (!iprobe_rt_anchor.gate)
		rt_wake_set_up();
	__atomic_store_n(&iprobe_rt_anchor.waking, 0, __ATOMIC_RELEASE);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setting up a runtime that slept until a borrowed thread came (arch/ARCH/wake.S): one that is
 * linked into a static program (static_entry.c), or that iprobe has put into the process
 * (injected.c).
 */
#include "runtime/arch/cpu.h"
#include "runtime/rt.h"

/* Called by rt_wake. Once only, whoever comes; after a failure somebody may try again. */
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

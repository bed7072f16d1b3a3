/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking about syscall user dispatch. See syscall_dispatch.h.
 */
#include "hotpatcher/ptrace/syscall_dispatch.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "common/cleanup.h"

#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF	     0
#endif

/* Whether this kernel has no dispatch at all: then it does not know how to switch dispatch off,
 * which iprobe asks for itself. */
static bool has_none(void)
{
	static int none = -1;

	if (none < 0)
		none = prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0) < 0 &&
		       errno == EINVAL;
	return none;
}

enum ip_dispatch ip_dispatch_of(pid_t tid)
{
	struct {
		uint64_t mode, selector, offset, length;
	} dispatch = {0};

	if (ptrace(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tid, sizeof(dispatch), &dispatch) == 0)
		return dispatch.mode == PR_SYS_DISPATCH_OFF ? IP_DISPATCH_OFF : IP_DISPATCH_ON;
	return has_none() ? IP_DISPATCH_OFF : IP_DISPATCH_UNKNOWN;
}

/* Whether SIGSYS is neither blocked nor ignored. */
static bool takes_signal(pid_t tid)
{
	_cleanup_fclose_ FILE *file = NULL;
	const uint64_t bit = 1ull << (SIGSYS - 1);
	uint64_t blocked = bit, ignored = bit;
	char name[64], line[256];

	snprintf(name, sizeof(name), "/proc/%d/status", tid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "SigBlk: %" SCNx64, &blocked);
		sscanf(line, "SigIgn: %" SCNx64, &ignored);
	}
	return !((blocked | ignored) & bit);
}

bool ip_dispatch_lets_us_call(pid_t tid)
{
	const enum ip_dispatch dispatch = ip_dispatch_of(tid);

	return dispatch == IP_DISPATCH_OFF ||
	       (dispatch == IP_DISPATCH_UNKNOWN && takes_signal(tid));
}

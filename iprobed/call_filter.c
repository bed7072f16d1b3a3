/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes filters of system calls.
 */
#include "iprobed/call_filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "common/arch/x86_64/audit.h"
#include "common/error.h"

void ip_call_filter_put(struct ip_call_filter *f, struct sock_filter instruction)
{
	if (f->n < IP_CALL_FILTER_ROOM)
		f->code[f->n] = instruction;
	f->n++;
}

#define PUT(...) ip_call_filter_put(f, (struct sock_filter)__VA_ARGS__)

void ip_call_filter_begin(struct ip_call_filter *f)
{
	f->n = 0;
	PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
	PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IP_ARCH_AUDIT, 1, 0));
	PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
	PUT(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, IP_ARCH_SYSCALL_END, 0, 1));
	PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
}

void ip_call_filter_list(struct ip_call_filter *f, const unsigned short *calls, size_t ncalls,
			 uint32_t action)
{
	for (size_t i = 0; i < ncalls; i++) {
		PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1));
		PUT(BPF_STMT(BPF_RET | BPF_K, action));
	}
}

int ip_call_filter_end(struct ip_call_filter *f, uint32_t action, const char *who)
{
	struct sock_fprog program = {.filter = f->code};

	PUT(BPF_STMT(BPF_RET | BPF_K, action));
	program.len = f->n;
	if (f->n > IP_CALL_FILTER_ROOM)
		errno = E2BIG;
	else if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
		return 0;
	return ip_error_errno("cannot put %s under seccomp", who);
}

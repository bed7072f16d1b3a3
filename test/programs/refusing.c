/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel that does not tell: runs a command beneath a seccomp filter that refuses one question,
 * and nothing else.
 *
 *   refusing kcmp|dispatch COMMAND [ARG...]
 *
 * kcmp: EPERM, as where another may not be asked. dispatch: EIO for
 * PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, as in kernels from 5.11 to 6.3.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field)	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define END(what)	    BPF_STMT(BPF_RET | BPF_K, what)

int main(int argc, char **argv)
{
	struct sock_filter kcmp[] = {
		LOAD(arch),	     UNLESS(AUDIT_ARCH_X86_64, 3),   LOAD(nr),
		UNLESS(SYS_kcmp, 1), END(SECCOMP_RET_ERRNO | EPERM), END(SECCOMP_RET_ALLOW),
	};
	struct sock_filter dispatch[] = {
		LOAD(arch),
		UNLESS(AUDIT_ARCH_X86_64, 5),
		LOAD(nr),
		UNLESS(SYS_ptrace, 3),
		LOAD(args[0]),
		UNLESS(0x4211, 1),
		END(SECCOMP_RET_ERRNO | EIO),
		END(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog kcmp_is = {sizeof(kcmp) / sizeof(*kcmp), kcmp};
	struct sock_fprog dispatch_is = {sizeof(dispatch) / sizeof(*dispatch), dispatch};

	if (argc < 3 || (strcmp(argv[1], "kcmp") && strcmp(argv[1], "dispatch")))
		return 2;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
		  strcmp(argv[1], "kcmp") ? &dispatch_is : &kcmp_is)) {
		perror("refusing");
		return 3;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 3;
}

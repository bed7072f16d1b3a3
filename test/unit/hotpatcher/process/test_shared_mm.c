/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether processes that share memory are told from others where the kernel does not say: kcmp is
 * refused to this program.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/kcmp.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "hotpatcher/process/shared_mm.h"

#define STACK (64 << 10)
#define BLOCK (1 << 20)
#define TRIES 2000

static atomic_bool ended;

static int refuse_kcmp(void **state)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kcmp, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int wait_for_end(void *pipe)
{
	char c;

	return prctl(PR_SET_PDEATHSIG, SIGKILL) || read(*(int *)pipe, &c, 1) != 0;
}

/* Shares our memory, and not the descriptors: until `end` is closed. */
static pid_t start_sharer(int *end)
{
	static int fds[2];
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	assert_true(stack != MAP_FAILED);
	assert_int_equal(pipe(fds), 0);
	pid = clone(wait_for_end, stack + STACK, CLONE_VM | CLONE_FILES | SIGCHLD, fds);
	assert_true(pid > 0);
	*end = fds[1];
	return pid;
}

static void end_sharer(pid_t pid, int end)
{
	int status;

	close(end);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void *change_sizes(void *data)
{
	while (!ended) {
		char *block = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		assert_true(block != MAP_FAILED);
		assert_int_equal(munmap(block, BLOCK), 0);
	}
	return NULL;
}

static void the_kernel_does_not_tell(void **state)
{
	assert_int_equal(syscall(SYS_kcmp, getpid(), getppid(), KCMP_VM, 0, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_false(ip_shared_mm_is(getpid(), getpid()));
}

static void may_share(void **state)
{
	int end;
	const pid_t pid = start_sharer(&end);
	pid_t *all;
	size_t n;

	assert_true(ip_shared_mm_may_be(getpid(), pid));
	assert_int_equal(ip_shared_mm_find(getpid(), getpid(), &all, &n), -1);
	end_sharer(pid, end);
	assert_false(ip_shared_mm_may_be(getpid(), pid));
	assert_int_equal(ip_shared_mm_find(getpid(), getpid(), &all, &n), 0);
	assert_int_equal(n, 0);
}

static void others_are_not(void **state)
{
	assert_false(ip_shared_mm_may_be(getpid(), getppid()));
	assert_false(ip_shared_mm_may_be(getpid(), 1));
}

static void *grow(void *data)
{
	while (!ended)
		assert_true(mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0) != MAP_FAILED);
	return NULL;
}

/* Of a memory that grows all the while no two looks are the same. */
static void others_are_not_while_it_grows(void **state)
{
	pthread_t thread;
	int not = 0;

	ended = false;
	assert_int_equal(pthread_create(&thread, NULL, grow, NULL), 0);
	for (int i = 0; i < 100; i++)
		not += !ip_shared_mm_may_be(getpid(), getppid());
	ended = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	/* when it is just as large as the other one has been at most, there is no telling: that is
	 * once */
	assert_in_range(not, 98, 100);
}

/* Who cannot look does not take others for strangers. */
static void others_may_be_where_no_file_can_be_opened(void **state)
{
	struct rlimit limit, none;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	const bool may_be = ip_shared_mm_may_be(getpid(), getppid());
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(may_be);
}

/* Of one memory two looks may see two sizes: it is no other for that. */
static void kin_whose_sizes_go_to_and_fro(void **state)
{
	int end;
	const pid_t pid = start_sharer(&end);
	pthread_t thread;

	ended = false;
	assert_int_equal(pthread_create(&thread, NULL, change_sizes, NULL), 0);
	for (int i = 0; i < TRIES; i++)
		assert_true(ip_shared_mm_may_be(getpid(), pid));
	ended = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	end_sharer(pid, end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_does_not_tell),
		cmocka_unit_test(may_share),
		cmocka_unit_test(others_are_not),
		cmocka_unit_test(others_are_not_while_it_grows),
		cmocka_unit_test(others_may_be_where_no_file_can_be_opened),
		cmocka_unit_test(kin_whose_sizes_go_to_and_fro),
	};

	return cmocka_run_group_tests(tests, refuse_kcmp, NULL);
}

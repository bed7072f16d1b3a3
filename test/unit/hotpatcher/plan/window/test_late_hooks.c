/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a hook is found that signal handlers have interrupted, by the stacks alone: no slot tells
 * of it. A forked process plays the target, and a function of it plays a hook.
 */
#include <alloca.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/abi/area.h"
#include "common/error.h"
#include "hotpatcher/plan/window/late_hooks.h"
#include "test/unit/test.h"

#define PAGE  4096ul
#define STACK (64 * PAGE)

#define PLAYS_HOOK __attribute__((noinline, section("plays_hook")))

extern char __start_plays_hook[], __stop_plays_hook[];

static struct ip_gate gate; /* closed */
static int ready[2];
static bool nests, splits;
static char *other_stack;

/* In one instruction of the caller: the handler interrupts just that. */
static inline __attribute__((always_inline)) void signal_self(long pid, long tid, long signal)
{
	long ret = SYS_tgkill;

	__asm__ volatile("syscall"
			 : "+a"(ret)
			 : "D"(pid), "S"(tid), "d"(signal)
			 : "rcx", "r11", "memory");
}

PLAYS_HOOK static void hook(long pid)
{
	signal_self(pid, pid, SIGUSR1);
}

static void elsewhere(long pid)
{
	signal_self(pid, pid, SIGUSR1);
}

static void wait_here(void)
{
	if (write(ready[1], "", 1) == 1)
		for (;;)
			pause();
	_exit(1);
}

static void second(int signal)
{
	(void)signal;
	wait_here();
}

static void first(int signal)
{
	volatile char *room = alloca(8 * PAGE);
	uintptr_t page = ((uintptr_t)room + 4 * PAGE) & ~(PAGE - 1);

	(void)signal;
	room[0] = 0;
	if (splits && madvise((void *)page, PAGE, MADV_DONTDUMP))
		_exit(2);
	if (nests)
		raise(SIGUSR2);
	wait_here();
}

static void play(bool in_hook)
{
	struct sigaction action = {.sa_handler = first};
	const stack_t stack = {.ss_sp = other_stack, .ss_size = STACK};
	long pid = getpid();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sigaction(SIGUSR1, &action, NULL) || sigaltstack(&stack, NULL))
		_exit(3);
	action.sa_handler = second;
	action.sa_flags = SA_ONSTACK;
	if (sigaction(SIGUSR2, &action, NULL))
		_exit(4);
	if (in_hook)
		hook(pid);
	else
		elsewhere(pid);
	_exit(5);
}

static int look(pid_t pid)
{
	struct ip_target *target;
	struct ip_area *area;
	int ret;

	assert_int_equal(ip_target_open(pid, false, &target), 0);
	assert_int_equal(ip_area_create(1 << 20, &area), 0);
	target->anchor = (struct ip_rt_anchor){
		.gate = (uintptr_t)&gate,
		.text_start = (uintptr_t)__start_plays_hook,
		.text_end = (uintptr_t)__stop_plays_hook,
	};
	ret = ip_late_hooks_check(target, area, 300000000, false);
	ip_area_close(area);
	ip_target_close(target);
	return ret;
}

static int find(bool in_hook, bool is_nested, bool is_split)
{
	char byte;
	pid_t pid;
	int ret;

	nests = is_nested;
	splits = is_split;
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		play(in_hook);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	ret = look(pid);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ready[0]);
	close(ready[1]);
	return ret;
}

static void test_handlers(void **state)
{
	(void)state;
	for (int nested = 0; nested < 2; nested++)
		for (int split = 0; split < 2; split++) {
			assert_int_equal(find(false, nested, split), 0);
			assert_int_equal(find(true, nested, split), -1);
			assert_non_null(strstr(ip_error_message(), "may be in a hook"));
		}
}

static int make_stack(void **state)
{
	char *at = mmap(NULL, STACK + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (at == MAP_FAILED)
		return -1;
	other_stack = at + PAGE; /* nothing that can be read adjoins it */
	return mprotect(other_stack, STACK, PROT_READ | PROT_WRITE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_handlers),
	};

	return cmocka_run_group_tests(tests, make_stack, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the watch for threads without an area of their own says of threads that end while it looks.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "hotpatcher/arch/x86_64/borrow.h"
#include "hotpatcher/inject/thread_areas.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/ptrace/stops.h"

#define MS 1000

static int looks; /* the next one would come after 50 times the time of the first */

/* The linker puts it in place of the engine's (meson.build): we get no CPU right after the thread
 * has been let go. */
void __real_ip_stop_end_look(struct ip_stop *stop);
void __wrap_ip_stop_end_look(struct ip_stop *stop);
void __wrap_ip_stop_end_look(struct ip_stop *stop)
{
	__real_ip_stop_end_look(stop);
	looks++;
	usleep(300 * MS);
}

/* As one that was born and had no CPU since: the C library has not registered it. */
static void *live_for_a_while(void *data)
{
	syscall(SYS_set_robust_list, NULL, 3 * sizeof(void *));
	usleep(200 * MS);
	return NULL;
}

static pid_t start(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		pthread_t thread;

		usleep(100 * MS);
		if (pthread_create(&thread, NULL, live_for_a_while, NULL) ||
		    pthread_join(thread, NULL))
			_exit(1);
	}
}

static void a_thread_that_ends_behind_the_look_is_sound(void **state)
{
	struct ip_thread_areas *watch = ip_thread_areas_create();
	pid_t pid = start();
	struct ip_target *target;

	assert_non_null(watch);
	assert_int_equal(ip_stops_open(pid, &target), 0);
	target->anchor.tid_at = ip_arch_tid_places[0];
	for (int i = 0; i < 2000 && !looks; i++) {
		assert_int_equal(ip_thread_areas_step(watch, target, false), 0);
		usleep(5 * MS);
	}
	assert_int_equal(looks, 1);
	ip_target_close(target);
	ip_thread_areas_destroy(watch);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_ends_behind_the_look_is_sound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

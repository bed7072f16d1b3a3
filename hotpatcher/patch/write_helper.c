/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second thread that writes. The steps are told in write_helper.h.
 */
#include "hotpatcher/patch/write_helper.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/now.h"
#include "hotpatcher/ptrace/priority.h"

/* below what is lent to threads of the target */
#define PRIORITY  (IP_STOP_PRIORITY - 2)
#define WAKE_NS	  1000000u
#define FINISH_NS 50000u

enum state {
	SLEEPS,
	AWAKE, /* waits for GO, at first without sleep */
	GO,    /* may begin */
	WORKS,
	ENDS
};

struct ip_write_helper {
	pthread_t thread;
	uint32_t state; /* enum state, atomic; a futex */
	void (*work)(void *data, uint8_t *buffer);
	void *data;
	uint8_t *buffer;
};

static void set(struct ip_write_helper *helper, uint32_t state)
{
	__atomic_store_n(&helper->state, state, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &helper->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Waits while the state is so: at first without sleep. */
static void wait_while(const struct ip_write_helper *helper, uint32_t state, uint64_t awake_ns)
{
	const uint64_t until = ip_now_ns() + awake_ns;

	while (__atomic_load_n(&helper->state, __ATOMIC_ACQUIRE) == state)
		if (ip_now_ns() > until)
			syscall(SYS_futex, &helper->state, FUTEX_WAIT_PRIVATE, state, NULL, NULL,
				0);
}

static void *run(void *context)
{
	struct ip_write_helper *helper = context;

	for (;;) {
		uint32_t state = __atomic_load_n(&helper->state, __ATOMIC_ACQUIRE);

		if (state == ENDS)
			return NULL;
		if (state != GO) {
			wait_while(helper, state, state == AWAKE ? WAKE_NS : 0);
			continue;
		}
		if (!__atomic_compare_exchange_n(&helper->state, &state, WORKS, false,
						 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			continue;
		helper->work(helper->data, helper->buffer);
		set(helper, SLEEPS);
	}
}

/* Whether there is a CPU for another thread. */
static bool have_cpus(void)
{
	cpu_set_t cpus;

	return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) > 1;
}

/* Makes the thread, with the priority: it begins at once, however busy the CPUs are. */
static int begin(struct ip_write_helper *helper)
{
	const struct sched_param high = {.sched_priority = PRIORITY};
	pthread_attr_t attributes;
	sigset_t all, before;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
	pthread_attr_setschedparam(&attributes, &high);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&helper->thread, &attributes, run, helper);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return error ? -1 : 0;
}

struct ip_write_helper *ip_write_helper_start(void (*work)(void *data, uint8_t *buffer), void *data,
					      uint64_t buffer_size)
{
	struct ip_write_helper *helper = have_cpus() ? calloc(1, sizeof(*helper)) : NULL;

	if (!helper)
		return NULL;
	*helper = (struct ip_write_helper){
		.work = work, .data = data, .state = SLEEPS, .buffer = malloc(buffer_size)};
	/* no page of it is faulted in while the target stands */
	if (helper->buffer)
		memset(helper->buffer, 0, buffer_size);
	if (helper->buffer && begin(helper) == 0)
		return helper;
	free(helper->buffer);
	free(helper);
	return NULL;
}

void ip_write_helper_wake(struct ip_write_helper *helper)
{
	if (helper)
		set(helper, AWAKE);
}

void ip_write_helper_go(struct ip_write_helper *helper)
{
	if (helper)
		set(helper, GO);
}

void ip_write_helper_finish(struct ip_write_helper *helper)
{
	uint32_t state;

	if (!helper)
		return;
	state = __atomic_load_n(&helper->state, __ATOMIC_ACQUIRE);
	while (state == AWAKE || state == GO)
		if (__atomic_compare_exchange_n(&helper->state, &state, SLEEPS, false,
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			return;
	wait_while(helper, WORKS, FINISH_NS);
}

void ip_write_helper_destroy(struct ip_write_helper *helper)
{
	if (!helper)
		return;
	set(helper, ENDS);
	pthread_join(helper->thread, NULL);
	free(helper->buffer);
	free(helper);
}

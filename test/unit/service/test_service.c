/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service whose sessions let children go: each child is recorded, or told truly.
 *
 * The sessions are not real: what a worker reports is what a session would.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/notice.h"
#include "common/process_set.h"
#include "service/service.h"
#include "test.h"

#define SECOND_NS    1000000000ull
#define ORPHAN_TRIES 8u

enum story {
	AT_THE_END,	/* the child is let go when the time is over */
	AND_ENDED,	/* the same, and it has ended */
	ORPHAN,		/* its parent has ended, and its parent's session keeps it for long */
	WITHOUT_PROBES, /* it executes something without probes, and ends */
	STRANGER,	/* what is let go lives, and does not belong to the service */
};

static struct {
	enum story story;
	pid_t parent, child, stranger;
	volatile unsigned tries;    /* of the child */
	volatile bool let_go, none; /* none: a worker has said that there are no probes */
	/* what the service has returned and told */
	int result;
	unsigned not_begun, not_any_more, missed;
} * shared;

static unsigned not_begun, not_any_more;
static struct ip_process_set *missed;

static void take_notice(const char *who, const char *text)
{
	(void)who;
	not_begun += strstr(text, "its own session had not begun") != NULL;
	not_any_more += strstr(text, "is not recorded any more") != NULL;
}

static void nap(uint64_t ns)
{
	const struct timespec t = {.tv_sec = ns / SECOND_NS, .tv_nsec = ns % SECOND_NS};

	nanosleep(&t, NULL);
}

static void wait_for_tries(unsigned tries)
{
	for (unsigned i = 0; i < 2000 && shared->tries < tries; i++)
		nap(10000000);
}

/* It is a zombie nowhere: its parent takes no notice of its end. */
static void end_child(void)
{
	kill(shared->child, SIGKILL);
	while (kill(shared->child, 0) == 0)
		nap(1000000);
}

static int record_child(struct ip_service_worker_result *result)
{
	result->none = shared->let_go && shared->story == WITHOUT_PROBES;
	result->followed = !result->none;
	shared->none |= result->none;
	__atomic_add_fetch(&shared->tries, 1, __ATOMIC_SEQ_CST);
	return result->none;
}

static void let_go(int socket, pid_t pid)
{
	ip_service_worker_say_let_go(socket, pid);
	shared->let_go = true;
}

static int work(void *context, const struct ip_service_task *task, int socket,
		struct ip_service_worker_result *result)
{
	(void)context;
	if (task->pid == shared->child)
		return record_child(result);
	ip_service_worker_say_live(socket, true);
	result->recorded = true;
	wait_for_tries(1);
	switch (shared->story) {
	case AT_THE_END:
	case AND_ENDED:
		nap(task->left_ns + SECOND_NS / 10);
		if (shared->story == AND_ENDED)
			end_child();
		let_go(socket, shared->child);
		break;
	case ORPHAN:
		kill(shared->parent, SIGKILL);
		let_go(socket, shared->child);
		wait_for_tries(ORPHAN_TRIES);
		result->over = true;
		break;
	case WITHOUT_PROBES:
		let_go(socket, shared->child);
		for (unsigned i = 0; i < 2000 && !shared->none; i++)
			nap(10000000);
		nap(SECOND_NS / 5); /* it is taken note of */
		end_child();
		result->over = true;
		break;
	case STRANGER:
		let_go(socket, shared->stranger);
		nap(SECOND_NS / 10);
		result->over = true;
		break;
	}
	return 0;
}

static _Noreturn void be_parent(int tell, const char *name)
{
	pid_t child;

	prctl(PR_SET_NAME, name);
	signal(SIGCHLD, SIG_IGN);
	child = fork();
	if (child && write(tell, &child, sizeof(child)) != sizeof(child))
		_exit(1);
	alarm(60);
	for (;;)
		pause();
}

/* This process and what it has started are never found: a sibling of the service records it. */
static _Noreturn void record(const char *name)
{
	const struct ip_service_options options = {
		.choice = {.names = &name, .nnames = 1},
		.missed = missed,
		.duration_ns = shared->story <= AND_ENDED ? SECOND_NS / 2 : 0,
		.work = work};
	struct ip_service_sum sum;

	alarm(60);
	ip_notice_to(take_notice);
	shared->result = ip_service_record(&options, &sum);
	shared->not_begun = not_begun;
	shared->not_any_more = not_any_more;
	shared->missed = ip_process_set_count(missed);
	_exit(0);
}

static void tell(enum story story)
{
	char name[16];
	int told[2], status;
	pid_t parent, recorder;

	snprintf(name, sizeof(name), "ipsrv%d", getpid() % 1000000);
	*shared = (typeof(*shared)){.story = story, .stranger = getpid()};
	assert_int_equal(pipe(told), 0);
	parent = fork();
	if (!parent)
		be_parent(told[1], name);
	shared->parent = parent;
	assert_int_equal(read(told[0], (void *)&shared->child, sizeof(pid_t)), sizeof(pid_t));
	recorder = fork();
	if (!recorder)
		record(name);
	assert_int_equal(waitpid(recorder, &status, 0), recorder);
	kill(shared->child, SIGKILL);
	kill(shared->parent, SIGKILL);
	waitpid(shared->parent, NULL, 0);
	close(told[0]);
	close(told[1]);
	assert_int_equal(status, 0);
	assert_int_equal(shared->result, 0);
	assert_int_equal(shared->not_begun, story == AT_THE_END || story == ORPHAN);
	assert_int_equal(shared->not_any_more, story == STRANGER);
	assert_int_equal(shared->missed, story == AND_ENDED);
	assert_int_equal(shared->none, story == WITHOUT_PROBES);
	assert_true(shared->tries >= (story == ORPHAN ? ORPHAN_TRIES : 1));
}

static void test_at_the_end(void **state)
{
	(void)state;
	tell(AT_THE_END);
	tell(AND_ENDED);
}

static void test_orphan(void **state)
{
	(void)state;
	tell(ORPHAN);
}

static void test_without_probes(void **state)
{
	(void)state;
	tell(WITHOUT_PROBES);
}

static void test_stranger(void **state)
{
	(void)state;
	tell(STRANGER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_at_the_end),
		cmocka_unit_test(test_orphan),
		cmocka_unit_test(test_without_probes),
		cmocka_unit_test(test_stranger),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	missed = ip_process_set_create(false);
	if (shared == MAP_FAILED || !missed)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

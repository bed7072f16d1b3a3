/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker may ask the reader of kernel events for. The reader is a child of the test's.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/kernel_check.h"
#include "kernel_trace/recorder.h"
#include "kernel_trace/users/event_protocol.h"
#include "kernel_trace/users/event_reader.h"
#include "test/unit/test.h"

#define BUFFER	  (64u << 10)
#define GONE	  0x3fffffff
#define FORBIDDEN 1 /* the first process of the machine is not ours */

static int worker;
static pid_t reader, target;
static unsigned own, begins; /* packets that name the target; of what was so at the beginning */
static unsigned overs;
static uint64_t until;	/* all events before have come */
static bool several;	/* processes are named by the worker */
static bool renames;	/* it gets a new name while its threads are read */
static unsigned *asked; /* how often it was whether the target is there; shared */
static unsigned lives_for;

static enum ip_event_access access_to(void *context, pid_t pid)
{
	if (pid == target)
		return IP_EVENT_ALLOWED;
	ip_error("pid %d is another user's", pid);
	return IP_EVENT_FORBIDDEN;
}

static bool lives(void *context, pid_t pid)
{
	const unsigned n = __atomic_fetch_add(asked, 1, __ATOMIC_SEQ_CST);

	/* until the target has its new name */
	for (unsigned i = 0; renames && i < 5000 && !__atomic_load_n(asked + 1, __ATOMIC_SEQ_CST);
	     i++)
		usleep(1000);
	return n < lives_for;
}

static int hold(void *context, pid_t pid)
{
	return pid == GONE ? ip_error("pid %d: no such process", pid) : 0;
}

static int set_up_for(unsigned times)
{
	int pair[2];

	lives_for = times;
	own = begins = overs = 0;
	asked = mmap(NULL, 2 * sizeof(*asked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	assert_ptr_not_equal(asked, MAP_FAILED);

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	target = getpid();
	fflush(NULL);
	reader = fork();
	if (reader == 0) {
		const struct ip_event_reader_options options = {.socket = pair[1],
								.pid = several ? 0 : target,
								.hold = several ? hold : NULL,
								.access = access_to,
								.lives = lives,
								.buffer_most = BUFFER};

		close(pair[0]);
		_exit(ip_event_reader_serve(&options) < 0);
	}
	close(pair[1]);
	worker = pair[0];
	return 0;
}

static int set_up(void **state)
{
	renames = false;
	return set_up_for(UINT32_MAX);
}

static int set_up_renaming(void **state)
{
	renames = true;
	return set_up_for(UINT32_MAX);
}

/* It ends before its threads are listed: its number is another's by then. */
static int set_up_ended(void **state)
{
	renames = false;
	return set_up_for(0);
}

/* It ends behind that. */
static int set_up_ending(void **state)
{
	renames = false;
	return set_up_for(1);
}

static int set_up_several(void **state)
{
	several = true;
	return set_up(state);
}

static int set_up_several_ended(void **state)
{
	several = true;
	return set_up_ended(state);
}

/* It has ended by itself when its worker is gone. */
static int tear_down(void **state)
{
	int status;

	close(worker);
	assert_int_equal(waitpid(reader, &status, 0), reader);
	assert_int_equal(status, 0);
	munmap(asked, 2 * sizeof(*asked));
	several = false;
	return 0;
}

static void send_word(uint32_t word, int32_t number, uint64_t size)
{
	const struct ip_event_message m = {.word = word, .number = number, .size = size};

	assert_int_equal(send(worker, &m, sizeof(m), MSG_NOSIGNAL), sizeof(m));
}

static struct {
	struct ip_event_message head;
	char text[IP_EVENT_PACKET_MAX + 1];
} got;

/* Receives until the answer, and counts the events between. Returns the word of the answer; 0: the
 * reader has ended. */
static uint32_t answer(size_t *ret_bytes)
{
	size_t bytes = 0;

	for (;;) {
		ssize_t n = recv(worker, &got, sizeof(got) - 1, 0);

		if (n < (ssize_t)sizeof(got.head))
			return 0;
		got.text[n - sizeof(got.head)] = '\0';
		if (got.head.word == IP_EVENT_EVENTS) {
			bytes += n - sizeof(got.head);
			begins += got.head.cpu == IP_KERNEL_CPUS_MAX;
			own += memmem(got.text, n - sizeof(got.head), &target, sizeof(target)) !=
			       NULL;
		}
		if (got.head.word == IP_EVENT_UNTIL)
			until = got.head.size;
		overs += got.head.word == IP_EVENT_OVER;
		if (got.head.word != IP_EVENT_DONE && got.head.word != IP_EVENT_REFUSED)
			continue;
		if (ret_bytes)
			*ret_bytes = bytes;
		return got.head.word;
	}
}

static void skip_without_events(void)
{
	char *missing = NULL;

	if (ip_kernel_missing(1 << IP_KERNEL_GROUP_SCHED, IP_KERNEL_SOURCE_TRACEFS, &missing) < 0) {
		print_message("skipped: %s\n", ip_error_message());
		skip();
	}
	free(missing);
}

static void assert_refused(const char *why)
{
	assert_int_equal(answer(NULL), IP_EVENT_REFUSED);
	assert_non_null(strstr(got.text, why));
}

static void test_words(void **state)
{
	const uint32_t all = ((1u << IP_KERNEL_GROUPS) - 1) & ~(1u << IP_KERNEL_GROUP_BLOCK);

	skip_without_events();
	send_word(IP_EVENT_ADD, target, 0); /* nothing was begun */
	assert_refused("is not the process that was asked for");
	send_word(IP_EVENT_BEGIN, all, BUFFER + 1);
	assert_refused("is not given");
	send_word(IP_EVENT_BEGIN, all, 1);
	assert_refused("is not given");
	send_word(IP_EVENT_BEGIN, -1, BUFFER);
	assert_refused("of the group block");
	send_word(IP_EVENT_LOOK, -1, 0);
	assert_refused("of the group block");
	send_word(IP_EVENT_LOOK, 1 << IP_KERNEL_GROUP_SCHED, 0);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	assert_string_equal(got.text, "");
	/* more groups than there are */
	send_word(IP_EVENT_BEGIN, -1 & ~(1 << IP_KERNEL_GROUP_BLOCK), BUFFER);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	send_word(IP_EVENT_BEGIN, all, BUFFER);
	assert_refused("are read already");
	send_word(IP_EVENT_ADD, FORBIDDEN, 0);
	assert_refused("is not the process that was asked for");
	send_word(IP_EVENT_ADD, reader, 0);
	assert_refused("is not the process that was asked for");
	send_word(IP_EVENT_STOP, 0, 0);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	assert_int_equal(answer(NULL), 0);
}

static void test_what_is_no_word(void **state)
{
	send_word(IP_EVENT_OVER, 0, 0);
	assert_int_equal(answer(NULL), 0);
}

static void test_half_a_word(void **state)
{
	assert_int_equal(send(worker, "x", 1, MSG_NOSIGNAL), 1);
	assert_int_equal(answer(NULL), 0);
}

/* A descriptor is not received, and not closed as long as there is something to put back. */
static void test_a_word_with_a_descriptor(void **state)
{
	struct ip_event_message word = {.word = IP_EVENT_LOOK, .number = 1};
	struct iovec part = {.iov_base = &word, .iov_len = sizeof(word)};
	_Alignas(struct cmsghdr) char along[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = along,
				 .msg_controllen = sizeof(along)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	int ends[2];
	char byte;

	assert_int_equal(pipe(ends), 0);
	*head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
				 .cmsg_level = SOL_SOCKET,
				 .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(head), &ends[1], sizeof(int));
	assert_int_equal(sendmsg(worker, &message, 0), sizeof(word));
	close(ends[1]);
	assert_int_equal(answer(NULL), 0);
	close(worker); /* it has ended: nobody has the descriptor any more */
	assert_int_equal(read(ends[0], &byte, 1), 0);
	close(ends[0]);
}

static void test_a_recording(void **state)
{
	size_t bytes;

	skip_without_events();
	send_word(IP_EVENT_BEGIN, 1 << IP_KERNEL_GROUP_SYSCALLS, BUFFER);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	send_word(IP_EVENT_ADD, target, 0);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	for (unsigned i = 0; i < 20; i++)
		usleep(10000);
	send_word(IP_EVENT_STOP, 0, 0);
	assert_int_equal(answer(&bytes), IP_EVENT_DONE);
	assert_true(bytes > 20 * sizeof(struct ip_kernel_event_header));
	assert_true(own > 0 && begins > 0);
}

/* A call that has just been made is among what comes before the answer. */
static void test_up_to_now(void **state)
{
	skip_without_events();
	send_word(IP_EVENT_BEGIN, 1 << IP_KERNEL_GROUP_SYSCALLS, BUFFER);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	send_word(IP_EVENT_FLUSH, 0, 0);
	assert_refused("no events are read yet");
	send_word(IP_EVENT_ADD, target, 0);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	for (unsigned i = 0; i < 20; i++) {
		const unsigned before = own;
		const uint64_t now = ip_clock_now();

		getppid();
		send_word(IP_EVENT_FLUSH, 0, 0);
		assert_int_equal(answer(NULL), IP_EVENT_DONE);
		assert_true(until >= now && own > before);
	}
	send_word(IP_EVENT_STOP, 0, 0);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
}

/* Nothing comes out of what is read under a number that is not the target's any more. Here it is
 * still the target's: so it is seen if it does. */
static void test_a_number_that_is_given_again(void **state)
{
	skip_without_events();
	send_word(IP_EVENT_BEGIN, 1 << IP_KERNEL_GROUP_SYSCALLS, BUFFER);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	send_word(IP_EVENT_ADD, target, 0);
	assert_refused("has ended");
	assert_true(*asked > 0);
	assert_int_equal(answer(NULL), 0); /* it ends by itself */
	assert_int_equal(overs, 1);
	assert_int_equal(own, 0);
}

/* A new name is the beginning of an exec: what was read meanwhile may be of another program. */
static void test_an_exec_while_its_threads_are_read(void **state)
{
	skip_without_events();
	send_word(IP_EVENT_BEGIN, 1 << IP_KERNEL_GROUP_SYSCALLS, BUFFER);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	send_word(IP_EVENT_ADD, target, 0);
	for (unsigned i = 0; i < 5000 && !__atomic_load_n(asked, __ATOMIC_SEQ_CST); i++)
		usleep(1000);
	assert_int_equal(prctl(PR_SET_NAME, "renamed"), 0);
	__atomic_store_n(asked + 1, 1, __ATOMIC_SEQ_CST);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	for (unsigned i = 0; i < 20; i++)
		usleep(10000);
	send_word(IP_EVENT_STOP, 0, 0);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	assert_int_equal(begins, 0);
	assert_true(own > 0); /* it is shown when it was checked once more */
}

/* Each that is named is judged; who is refused keeps no other from being recorded. */
static void test_several(void **state)
{
	skip_without_events();
	send_word(IP_EVENT_BEGIN, 1 << IP_KERNEL_GROUP_SYSCALLS, BUFFER);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	for (int32_t number = -2; number <= 0; number++) {
		send_word(IP_EVENT_ADD, number, 0);
		assert_refused("is not the process that was asked for");
	}
	send_word(IP_EVENT_ADD, GONE, 0);
	assert_refused("no such process");
	send_word(IP_EVENT_ADD, FORBIDDEN, 0);
	assert_refused("is another user's");
	send_word(IP_EVENT_ADD, target, 0);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	send_word(IP_EVENT_ADD, FORBIDDEN, 0);
	assert_refused("was refused before");
	for (unsigned i = 0; i < 20; i++)
		usleep(10000);
	send_word(IP_EVENT_ADD, target, 0); /* once more: it executes another program perhaps */
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	send_word(IP_EVENT_STOP, 0, 0);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	assert_true(own > 0 && begins > 0);
	assert_int_equal(overs, 0);
}

/* As test_a_number_that_is_given_again(), but the recording goes on. */
static void test_one_of_several_has_ended(void **state)
{
	skip_without_events();
	send_word(IP_EVENT_BEGIN, 1 << IP_KERNEL_GROUP_SYSCALLS, BUFFER);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	for (unsigned i = 0; i < 3; i++) {
		send_word(IP_EVENT_ADD, target, 0);
		assert_refused("has ended");
	}
	for (unsigned i = 0; i < 50; i++)
		usleep(10000);
	send_word(IP_EVENT_STOP, 0, 0);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	assert_int_equal(overs, 0);
	assert_int_equal(own, 0);
	assert_int_equal(begins, 0);
}

/* SIGTERM is what it gets when iprobed has ended. */
static void test_it_is_told_to_end(void **state)
{
	char path[96], *missing = NULL;

	skip_without_events();
	send_word(IP_EVENT_BEGIN, 1 << IP_KERNEL_GROUP_SCHED, BUFFER);
	assert_int_equal(answer(NULL), IP_EVENT_DONE);
	assert_int_equal(kill(reader, SIGTERM), 0);
	assert_int_equal(answer(NULL), 0);
	/* nothing is left for others to remove */
	snprintf(path, sizeof(path), "ls /sys/kernel/tracing/instances | grep -q '^iprobe-%d-'",
		 reader);
	assert_int_equal(ip_kernel_missing(1, IP_KERNEL_SOURCE_TRACEFS, &missing), 0);
	free(missing);
	for (unsigned i = 0; i < 1000 && system(path) == 0; i++)
		usleep(10000);
	assert_int_not_equal(system(path), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_words),
		TEST(test_what_is_no_word),
		TEST(test_half_a_word),
		TEST(test_a_word_with_a_descriptor),
		TEST(test_a_recording),
		TEST(test_up_to_now),
		TEST(test_it_is_told_to_end),
		cmocka_unit_test_setup_teardown(test_a_number_that_is_given_again, set_up_ended,
						tear_down),
		cmocka_unit_test_setup_teardown(test_an_exec_while_its_threads_are_read,
						set_up_renaming, tear_down),
		cmocka_unit_test_setup_teardown(test_a_number_that_is_given_again, set_up_ending,
						tear_down),
		cmocka_unit_test_setup_teardown(test_several, set_up_several, tear_down),
		cmocka_unit_test_setup_teardown(test_one_of_several_has_ended, set_up_several_ended,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

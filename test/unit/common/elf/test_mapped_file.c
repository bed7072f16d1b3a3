/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that become shorter while they are mapped.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/elf/mapped_file.h"
#include "test/unit/test.h"

#define PAGES 4u

static void test_a_file_that_shrinks(void **state)
{
	const size_t page = sysconf(_SC_PAGESIZE), size = PAGES * page;
	int fd = memfd_create("shrinks", MFD_CLOEXEC);
	volatile unsigned char *bytes;

	ip_mapped_file_may_shrink();
	assert_int_equal(ftruncate(fd, size), 0);
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	for (size_t i = 0; i < PAGES; i++)
		assert_int_equal(pwrite(fd, "x", 1, i * page), 1);
	assert_int_equal(bytes[3 * page], 'x');
	assert_int_equal(ftruncate(fd, page), 0);
	/* what is still there stays, and what has gone is zeros, also where it was read before */
	assert_int_equal(bytes[0], 'x');
	assert_int_equal(bytes[page], 0);
	assert_int_equal(bytes[size - 1], 0);
	bytes[2 * page] = 'y'; /* libelf writes to its private copy of some sections */
	assert_int_equal(bytes[2 * page], 'y');
	munmap((void *)bytes, size);
	close(fd);
}

/* How a child ends that does that. */
static int ends(void (*what)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		ip_mapped_file_may_shrink();
		what();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void send_it(void)
{
	raise(SIGBUS);
}

/* A signal that somebody sends means what it always means. */
static void test_a_signal_that_is_sent(void **state)
{
	const int status = ends(send_it);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGBUS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_file_that_shrinks),
		cmocka_unit_test(test_a_signal_that_is_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

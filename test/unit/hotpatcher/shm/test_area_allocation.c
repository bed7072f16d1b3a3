/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is allocated beside other work: all of it is there once somebody has waited, and who
 * waits learns of a failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hotpatcher/shm/area.h"
#include "hotpatcher/shm/area_allocation.h"
#include "test/unit/test.h"

#define MEMORY (64ull << 20)

static uint64_t allocated(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_blocks * 512ull;
}

static void test_sizes(void **state)
{
	static const uint64_t sizes[] = {4096, 1 << 20, (1 << 20) + 4096, 8 << 20};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(sizes); i++) {
		struct ip_area_allocation *allocation;
		int fd = memfd_create("area", MFD_CLOEXEC);

		assert_true(fd >= 0);
		assert_int_equal(ip_area_allocation_start(fd, 65536, sizes[i], &allocation), 0);
		assert_int_equal(allocation != NULL, i > 1);
		assert_int_equal(ip_area_allocation_finish(allocation), 0);
		assert_int_equal(allocated(fd), sizes[i]);
		close(fd);
	}
}

static void test_failure(void **state)
{
	struct ip_area_allocation *allocation;
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(ip_area_allocation_start(fd, 0, 4096, &allocation), ENODEV);
	assert_null(allocation);
	assert_int_equal(ip_area_allocation_start(fd, 0, 8 << 20, &allocation), 0);
	assert_int_equal(ip_area_allocation_finish(allocation), ENODEV);
	close(fd);
}

/* A session's first sub-buffers, and what is told where there is no memory for them. */
static void test_session(void **state)
{
	const struct ip_area_needs needs = {.memory = MEMORY};
	struct ip_area *area;
	int sealed;

	(void)state;
	assert_int_equal(ip_area_create(MEMORY, &area), 0);
	assert_int_equal(ip_area_begin(area, getpid(), &needs), 0);
	assert_int_equal(ip_area_await_allocated(area, 1), 0);
	assert_true(allocated(area->fd) >= (uint64_t)area->ngrown * IP_SUBBUF_SIZE);
	/* nothing else allocates it, until a session begins */
	sealed = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ip_area_allocation_start(sealed, 0, 8 << 20, &area->allocation), 0);
	assert_int_equal(ip_area_await_allocated(area, 1), -1);
	assert_non_null(strstr(ip_error_message(), "pid 1: cannot allocate 6"));
	assert_int_equal(ip_area_await_allocated(area, 1), -1);
	/* an area may be closed meanwhile */
	assert_int_equal(ip_area_begin(area, getpid(), &needs), 0);
	assert_int_equal(ip_area_await_allocated(area, 1), 0);
	assert_int_equal(ip_area_begin(area, getpid(), &needs), 0);
	ip_area_close(area);
	close(sealed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_failure),
		cmocka_unit_test(test_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

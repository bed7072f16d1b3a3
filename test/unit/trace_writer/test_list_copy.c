/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of probe lists: all bytes are in the file once somebody has waited, and who waits learns
 * of a full disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/unit/test.h"
#include "trace_writer/list_copy.h"

#define LARGE ((3u << 20) + 17)

static void test_bytes(void **state)
{
	static const size_t sizes[] = {1, 4096, 1 << 20, (1 << 20) + 1, LARGE};
	char *bytes = malloc(LARGE), *copied = malloc(LARGE);

	(void)state;
	for (size_t i = 0; i < LARGE; i++)
		bytes[i] = i * 2654435761u >> 13;
	for (size_t i = 0; i < N_ELEMENTS(sizes); i++) {
		struct ip_list_copy *copy;
		int fd = memfd_create("list", MFD_CLOEXEC), own = dup(fd);
		struct stat st;

		assert_int_equal(ip_list_copy_start(own, bytes, sizes[i], "list", &copy), 0);
		assert_int_equal(copy != NULL, i > 2);
		if (copy)
			assert_int_equal(ip_list_copy_finish(copy), 0);
		assert_int_equal(fcntl(own, F_GETFD), -1); /* the copy has closed it */
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, sizes[i]);
		assert_int_equal(pread(fd, copied, sizes[i], 0), sizes[i]);
		assert_memory_equal(copied, bytes, sizes[i]);
		close(fd);
	}
	free(bytes);
	free(copied);
}

static void test_full_disk(void **state)
{
	char *bytes = calloc(1, LARGE);
	struct ip_list_copy *copy;

	(void)state;
	assert_int_equal(ip_list_copy_start(open("/dev/full", O_WRONLY | O_CLOEXEC), bytes, 100,
					    "d/x.probes", &copy),
			 -1);
	assert_null(copy);
	assert_string_equal(ip_error_message(), "cannot write d/x.probes: No space left on device");
	ip_error("another");
	assert_int_equal(ip_list_copy_start(open("/dev/full", O_WRONLY | O_CLOEXEC), bytes, LARGE,
					    "d/x.probes", &copy),
			 0);
	assert_int_equal(ip_list_copy_finish(copy), -1);
	assert_string_equal(ip_error_message(), "cannot write d/x.probes: No space left on device");
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

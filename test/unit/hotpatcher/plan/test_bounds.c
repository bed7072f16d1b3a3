/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bounds a runtime is written only into the process that has the area: not where another image
 * has taken its place since the area was opened.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "hotpatcher/plan/bounds.h"
#include "test/unit/test.h"

#define MAPPED 65536u

static int make_file(void)
{
	int fd = memfd_create("area", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, IP_AREA_DATA_OFFSET), 0);
	return fd;
}

/* As /proc/PID/maps tells it. */
static struct ip_mapping tell(uint64_t at, int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (struct ip_mapping){.start = at,
				   .end = at + MAPPED,
				   .perms = "rw-s",
				   .dev_major = major(st.st_dev),
				   .dev_minor = minor(st.st_dev),
				   .inode = st.st_ino};
}

static void test_whose_memory_is_mapped(void **state)
{
	int ours = make_file(), others = make_file();
	char *at = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, others, 0);
	const struct ip_user_payload user = {0};
	struct ip_area_header header = {0};
	/* of the image that is there now */
	struct ip_rt_private own, before;
	struct ip_mapping mapping = tell((uintptr_t)at, others);
	struct ip_target target = {.pid = getpid(),
				   .has_runtime = true,
				   .maps = {.items = &mapping, .n = 1},
				   .anchor = {.own = (uintptr_t)&own, .area = (uintptr_t)at}};
	struct ip_area area = {.fd = ours, .header = &header, .window = IP_AREA_DATA_OFFSET};

	(void)state;
	target.mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	assert_true(target.mem >= 0 && at != MAP_FAILED);
	memset(&own, 0x5a, sizeof(own));
	before = own;
	assert_int_equal(ip_bounds_write(&target, &area, &user), -1);
	assert_error("executes another program now");
	assert_memory_equal(&own, &before, sizeof(own));
	/* nothing is mapped there */
	target.maps.n = 0;
	assert_int_equal(ip_bounds_write(&target, &area, &user), -1);
	assert_error("executes another program now");
	assert_memory_equal(&own, &before, sizeof(own));
	/* the same inode of another file system */
	target.maps.n = 1;
	area.fd = others;
	mapping.dev_minor++;
	assert_int_equal(ip_bounds_write(&target, &area, &user), -1);
	assert_memory_equal(&own, &before, sizeof(own));
	mapping.dev_minor--;
	assert_int_equal(ip_bounds_write(&target, &area, &user), 0);
	assert_int_equal(own.end, IP_AREA_DATA_OFFSET);
	assert_int_equal(own.inherited, before.inherited);
	/* no runtime, or one that does not say where its memory is */
	before = own;
	target.anchor.own = 0;
	assert_int_equal(ip_bounds_write(&target, &area, &user), -1);
	assert_error("does not say where its own memory is");
	assert_memory_equal(&own, &before, sizeof(own));
	munmap(at, MAPPED);
	close(target.mem);
	close(ours);
	close(others);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_whose_memory_is_mapped)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is told of a FIFO, and that nothing is asked of a file system that could let us wait.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "kernel_trace/fifo.h"
#include "test/unit/test.h"

static void test_types(void **state)
{
	assert_true(ip_file_system_is_local("ext4") && ip_file_system_is_local("tmpfs"));
	/* these ask a server, or what lies below them, which may be one */
	assert_false(ip_file_system_is_local("fuse") || ip_file_system_is_local("fuse.sshfs"));
	assert_false(ip_file_system_is_local("nfs4") || ip_file_system_is_local("9p"));
	assert_false(ip_file_system_is_local("overlay") || ip_file_system_is_local(""));
}

static void test_mounts(void **state)
{
	static const char line[] =
		"36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors\n";
	char type[32] = "";

	assert_true(ip_mount_type(line, 36, type));
	assert_string_equal(type, "ext3");
	assert_false(ip_mount_type(line, 3, type) || ip_mount_type(line, 35, type));
	assert_true(ip_mount_type("36 35 0:5 / / rw - fuse", 36, type));
	assert_string_equal(type, "fuse");
	/* longer than any, or none */
	assert_true(ip_mount_type(
		"36 35 0:5 / / rw - aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa x\n", 36, type));
	assert_int_equal(strlen(type), 31);
	assert_false(ip_mount_type("36 35 0:5 / / rw\n", 36, type));
	assert_false(ip_mount_type("", 0, type) || ip_mount_type("x - ext4 y", 0, type));
}

static void test_descriptors(void **state)
{
	char dir[] = "/dev/shm/test-fifo.XXXXXX", path[64];
	int pair[2], fifo, file;

	if (!mkdtemp(dir))
		skip(); /* there is no tmpfs at that place */
	snprintf(path, sizeof(path), "%s/ends", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	fifo = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fifo >= 0);
	unlink(path);
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(file >= 0);
	unlink(path);
	rmdir(dir);
	assert_int_equal(pipe(pair), 0);
	assert_true(ip_is_fifo(getpid(), fifo));
	assert_false(ip_is_fifo(getpid(), file));
	/* it is no file of a mount that the process has */
	assert_false(ip_is_fifo(getpid(), pair[0]));
	close(fifo);
	assert_false(ip_is_fifo(getpid(), fifo));
	close(file);
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

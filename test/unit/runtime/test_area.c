/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving a forked child an area of its own: what is left if that fails half-way, and the descriptor
 * of the area that it had before.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/rt.h"
#include "test/unit/test.h"

#define SIZE (IP_AREA_DATA_OFFSET + 64 * IP_SUBBUF_SIZE)

/* What other files have in the runtime. */
struct ip_rt_anchor iprobe_rt_anchor = {.area_fd = -1};
struct ip_rt_private rt_private;
struct ip_area_header *rt_header;
uint32_t rt_last_session;

/* Lets the calls that lay covers, or those that withhold the area from children, fail. */
static void forbid(uint32_t number, unsigned argument, uint32_t bit)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[argument])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bit, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {N_ELEMENTS(filter), filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(90);
}

/* Bytes of the area's range that are mapped; *ret_shared: those of a file. */
static uint64_t mapped(uint64_t *ret_shared)
{
	FILE *file = fopen("/proc/self/maps", "r");
	uint64_t from, to, inode, sum = 0;
	char line[512];

	*ret_shared = 0;
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode) != 3 ||
		    from < iprobe_rt_anchor.area || to > iprobe_rt_anchor.area + SIZE)
			continue;
		sum += to - from;
		*ret_shared += inode ? to - from : 0;
	}
	if (file)
		fclose(file);
	return sum;
}

static unsigned descriptors_of_areas(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned n = 0;

	for (struct dirent *entry; folder && (entry = readdir(folder));) {
		char target[64] = "";

		if (readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1) > 0)
			n += strstr(target, "memfd:iprobe") != NULL;
	}
	if (folder)
		closedir(folder);
	return n;
}

static void have_area(void)
{
	char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		_exit(91);
	iprobe_rt_anchor.area = (uintptr_t)at;
	iprobe_rt_anchor.area_size = SIZE;
	rt_header = (struct ip_area_header *)at;
	rt_private.end = SIZE;
	if (rt_area_renew(1) || rt_header->magic != IP_AREA_MAGIC)
		_exit(92);
}

static int covers_that_fail(void)
{
	uint64_t shared;

	have_area();
	rt_header->session = 7;
	forbid(SYS_mmap, 3, MAP_GROWSDOWN);
	if (rt_area_renew(1) != -ENOMEM)
		return 1;
	/* whole, private, and silent */
	if (mapped(&shared) != SIZE || shared)
		return 2;
	return rt_header->magic || rt_header->session ? 3 : 0;
}

static int withholding_that_fails(void)
{
	uint64_t shared, covers = 0;

	have_area();
	for (unsigned i = 0; i <= IP_AREA_COVERS; i++) {
		uint64_t to =
			i < IP_AREA_COVERS && ip_area_cover(i) < SIZE ? ip_area_cover(i) : SIZE;
		uint64_t from = i ? ip_area_cover(i - 1) + 4096 : 0;

		munmap((char *)iprobe_rt_anchor.area + from, to - from);
		covers += i > 0;
		if (to == SIZE)
			break;
	}
	forbid(SYS_madvise, 2, MADV_DONTFORK);
	if (rt_area_renew(0) != -ENOMEM)
		return 1;
	return mapped(&shared) != covers * 4096 || shared ? 2 : 0;
}

/* A process without privileges, which keeps a descriptor of its area. */
static int descriptors(void)
{
	int null;

	if (setresgid(65534, 65534, 65534) < 0 && !getuid())
		return 1;
	if (setresuid(65534, 65534, 65534) < 0 && !getuid())
		return 2;
	prctl(PR_SET_DUMPABLE, 1);
	have_area();
	if (iprobe_rt_anchor.area_fd < 0 || descriptors_of_areas() != 1)
		return 3;
	for (int i = 0; i < 3; i++)
		if (rt_area_renew(1) || descriptors_of_areas() != 1)
			return 4;
	/* the program has put its own there */
	null = dup2(open("/dev/null", O_RDONLY), iprobe_rt_anchor.area_fd);
	if (null < 0 || rt_area_renew(1) || fcntl(null, F_GETFD) < 0)
		return 5;
	if (iprobe_rt_anchor.area_fd == null || descriptors_of_areas() != 1)
		return 6;
	null = dup2(open("/dev/null", O_PATH), iprobe_rt_anchor.area_fd);
	return null < 0 || rt_area_renew(1) || fcntl(null, F_GETFD) < 0 ? 7 : 0;
}

static int in_child(int (*function)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(function());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_nothing_is_left_where_covers_fail(void **state)
{
	(void)state;
	assert_int_equal(in_child(covers_that_fail), 0);
}

static void test_nothing_is_left_where_withholding_fails(void **state)
{
	(void)state;
	assert_int_equal(in_child(withholding_that_fails), 0);
}

static void test_the_earlier_descriptor_is_closed(void **state)
{
	(void)state;
	assert_int_equal(in_child(descriptors), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_left_where_covers_fail),
		cmocka_unit_test(test_nothing_is_left_where_withholding_fails),
		cmocka_unit_test(test_the_earlier_descriptor_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

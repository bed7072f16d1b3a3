/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mapping of the area: how a small one grows, and over nothing else; giving a forked child an
 * area of its own: what is left if that fails half-way, and the descriptor of the area that it had
 * before.
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
uint64_t rt_area_size;
uint32_t *rt_duties;

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
static uint64_t mapped_in(uint64_t size, uint64_t *ret_shared)
{
	FILE *file = fopen("/proc/self/maps", "r");
	uint64_t from, to, inode, sum = 0;
	char line[512];

	*ret_shared = 0;
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode) != 3 ||
		    from < iprobe_rt_anchor.area || to > iprobe_rt_anchor.area + size)
			continue;
		sum += to - from;
		*ret_shared += inode ? to - from : 0;
	}
	if (file)
		fclose(file);
	return sum;
}

static uint64_t mapped(uint64_t *ret_shared)
{
	return mapped_in(SIZE, ret_shared);
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
	rt_has_tables = 1;
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

/* A small area, as a runtime makes it that was put into a process: it grows, and what a child has
 * of it is nothing but covers. */
static int have_small_area(void)
{
	rt_area_size = IP_AREA_SMALL_SIZE;
	if (!rt_map_own_area(RT_WOKEN) || rt_has_tables)
		return 0;
	rt_header = (struct ip_area_header *)(uintptr_t)iprobe_rt_anchor.area;
	rt_area_find_tables();
	return rt_header->magic == IP_AREA_MAGIC;
}

static uint64_t mapped_now(void)
{
	uint64_t shared;

	return mapped_in(iprobe_rt_anchor.area_size, &shared);
}

#define TABLES (IP_AREA_TABLES_END - IP_AREA_TABLES_OFFSET)

static int grows(void)
{
	const uint64_t large = IP_AREA_DATA_OFFSET + 2048 * IP_SUBBUF_SIZE;
	char *area, *last;

	if (!have_small_area() || mapped_now() != IP_AREA_SMALL_SIZE - TABLES)
		return 1;
	area = (char *)(uintptr_t)iprobe_rt_anchor.area;
	if (rt_duties != (uint32_t *)(area + IP_AREA_SMALL_DUTIES) || rt_nrules)
		return 2;
	/* the file has that much, or this is a SIGBUS */
	if (((volatile uint32_t *)rt_duties)[IP_AREA_DUTIES - 1])
		return 3;
	/* sizes that nobody asks for */
	if (rt_area_widen(large + 1, large) != -EINVAL || rt_area_widen(4096, 4096) != -EINVAL ||
	    rt_area_widen(large, large + 4096) != -EINVAL ||
	    rt_area_widen(UINT64_MAX & ~4095ull, large) != -EINVAL)
		return 4;
	rt_private.end = IP_AREA_SMALL_SIZE;
	if (rt_area_widen(large, IP_AREA_DATA_OFFSET) || mapped_now() != large - TABLES ||
	    iprobe_rt_anchor.area_size != large || rt_private.end != IP_AREA_SMALL_SIZE)
		return 5;
	if (rt_area_widen(large, large) || rt_private.end != large || rt_private.nsubbufs != 2048)
		return 6;
	if (rt_area_map_tables() || !rt_has_tables || mapped_now() != large)
		return 7;
	if (rt_duties != (uint32_t *)(area + IP_AREA_DUTIES_OFFSET) || rt_nrules != IP_AREA_RULES ||
	    rt_area_map_tables())
		return 8;
	/* the tables are the file's, at their place in it */
	rt_duties[5] = 77;
	last = mmap(NULL, IP_AREA_DATA_OFFSET, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mremap(area, 0, IP_AREA_DATA_OFFSET, MREMAP_MAYMOVE | MREMAP_FIXED, last) != last ||
	    *(uint32_t *)(last + IP_AREA_DUTIES_OFFSET + 20) != 77)
		return 9;
	return 0;
}

static int grows_not_over_others(void)
{
	const uint64_t large = IP_AREA_DATA_OFFSET + 2048 * IP_SUBBUF_SIZE;
	uint64_t before;
	char *area, *end, *in;

	if (!have_small_area())
		return 1;
	area = (char *)(uintptr_t)iprobe_rt_anchor.area;
	end = area + IP_AREA_SMALL_SIZE + 65536;
	in = area + IP_AREA_TABLES_OFFSET + 65536;
	if (mmap(end, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != end ||
	    mmap(in, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != in)
		return 2;
	*end = *in = 9;
	before = mapped_now();
	if (rt_area_widen(large, large) != -ENOMEM || rt_area_map_tables() != -EEXIST ||
	    mapped_now() != before || *end != 9 || *in != 9 || rt_has_tables)
		return 3;
	/* covers that cannot be laid: what has grown is taken back */
	munmap(end, 4096);
	before = mapped_now();
	forbid(SYS_mmap, 3, MAP_GROWSDOWN);
	return rt_area_widen(large, large) != -ENOMEM || mapped_now() != before ||
			       mapped_in(large, &before) != IP_AREA_SMALL_SIZE - TABLES + 4096
		       ? 4
		       : 0;
}

static int a_child_of_a_small_area(void)
{
	uint64_t shared;
	int status;
	pid_t pid;

	if (!have_small_area() || rt_area_widen(IP_AREA_OWN_SIZE, IP_AREA_DATA_OFFSET))
		return 1;
	pid = fork();
	if (!pid) {
		/* covers alone, then an area of its own, then private memory, and anew */
		uint64_t size = iprobe_rt_anchor.area_size;

		if (mapped_in(size, &shared) != IP_AREA_COVERS * 4096 || shared)
			_exit(2);
		if (rt_area_renew(0) || mapped_in(size, &shared) != size - TABLES)
			_exit(3);
		if (rt_area_map_tables() || mapped_in(size, &shared) != size)
			_exit(4);
		if (rt_area_disown() || mapped_in(size, &shared) != size || shared)
			_exit(5);
		if (rt_area_renew(1) || mapped_in(size, &shared) != size ||
		    shared != size - IP_AREA_COVERS * 4096)
			_exit(6);
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 7;
}

/* A small area that has grown to `size`, with the tables. */
static char *have_grown_area(uint64_t size)
{
	if (!have_small_area() || rt_area_widen(size, size) || rt_area_map_tables())
		return NULL;
	return (char *)(uintptr_t)iprobe_rt_anchor.area;
}

static int narrows(void)
{
	const uint64_t large = IP_AREA_DATA_OFFSET + 2048 * IP_SUBBUF_SIZE;
	char *area = have_grown_area(large);
	uint64_t shared;

	if (!area)
		return 1;
	area[IP_AREA_DUTIES_OFFSET] = 9;
	if (rt_area_narrow(IP_AREA_SMALL_SIZE + 4096) != -EINVAL ||
	    rt_area_narrow(IP_AREA_DATA_OFFSET) != -EINVAL || mapped_now() != large)
		return 3;
	if (rt_area_narrow(IP_AREA_SMALL_SIZE) ||
	    iprobe_rt_anchor.area_size != IP_AREA_SMALL_SIZE ||
	    mapped_in(large, &shared) != IP_AREA_SMALL_SIZE - TABLES)
		return 4;
	/* whoever is told a longer file by the area does not go beyond */
	if (rt_private.end > IP_AREA_SMALL_FILE ||
	    IP_AREA_DATA_OFFSET + rt_private.nsubbufs * IP_SUBBUF_SIZE > IP_AREA_SMALL_FILE ||
	    rt_private.place_last + sizeof(struct ip_hist_tails) > (uintptr_t)area + rt_private.end)
		return 5;
	if (rt_has_tables || rt_nrules || rt_duties != (uint32_t *)(area + IP_AREA_SMALL_DUTIES))
		return 6;
	/* it grows anew, over the same memory of the file */
	return rt_area_narrow(IP_AREA_SMALL_SIZE) || rt_area_widen(large, IP_AREA_DATA_OFFSET) ||
			       rt_area_map_tables() || mapped_now() != large ||
			       area[IP_AREA_DUTIES_OFFSET] != 9
		       ? 7
		       : 0;
}

static int narrows_not_at_all(void)
{
	const uint64_t large = IP_AREA_DATA_OFFSET + 2048 * IP_SUBBUF_SIZE;
	char *area = have_grown_area(large);

	if (!area)
		return 1;
	forbid(SYS_munmap, 1, UINT32_MAX);
	if (rt_area_narrow(IP_AREA_SMALL_SIZE) != -ENOMEM || iprobe_rt_anchor.area_size != large ||
	    !rt_has_tables || rt_duties != (uint32_t *)(area + IP_AREA_DUTIES_OFFSET))
		return 2;
	return mapped_now() != large || rt_area_remove() != -ENOMEM ? 3 : 0;
}

static int removes(void)
{
	const uint64_t large = IP_AREA_DATA_OFFSET + 2048 * IP_SUBBUF_SIZE;
	char *area = have_grown_area(large), *pool;
	uint64_t shared;

	if (!area)
		return 1;
	pool = mmap(NULL, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	iprobe_rt_anchor.pools[IP_POOL_LIBRARIES].address = (uintptr_t)pool;
	iprobe_rt_anchor.pools[IP_POOL_LIBRARIES].size = 65536;
	iprobe_rt_anchor.pid = getpid();
	rt_header->last_session = 41;
	if (rt_area_remove() || iprobe_rt_anchor.pid || iprobe_rt_anchor.area_fd != -1 ||
	    descriptors_of_areas())
		return 2;
	/* the covers that a child has, too, and nothing else */
	if (mapped_in(large, &shared) != 3 * 4096 || shared)
		return 3;
	if (iprobe_rt_anchor.pools[IP_POOL_LIBRARIES].size || munmap(pool, 65536) ||
	    mmap(pool, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		 0) != pool)
		return 4;
	if (rt_area_renew(0) || mapped_in(large, &shared) != IP_AREA_SMALL_SIZE - TABLES ||
	    iprobe_rt_anchor.pid != getpid())
		return 5;
	return rt_header->last_session < 41 || !rt_header->renewed ? 6 : 0;
}

static int pools(void)
{
	char *at = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t place = (uintptr_t)at;

	if (rt_pool_add(place, 65536) != -EEXIST || iprobe_rt_anchor.pools[IP_POOL_MORE].size)
		return 1;
	munmap(at, 1 << 20);
	if (rt_pool_add(place, 100) != -EINVAL || rt_pool_add(place + 1, 4096) != -EINVAL ||
	    rt_pool_add(place, 2ull * IP_POOL_SIZE_MAX) != -EINVAL)
		return 2;
	for (unsigned i = IP_POOL_MORE; i < IP_POOLS; i++)
		if (rt_pool_add(place + i * 65536, 65536) ||
		    iprobe_rt_anchor.pools[i].address != place + i * 65536)
			return 3;
	return rt_pool_add(place + IP_POOLS * 65536, 65536) != -ENOSPC ? 4 : 0;
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

static void test_a_small_area_grows(void **state)
{
	(void)state;
	assert_int_equal(in_child(grows), 0);
	assert_int_equal(in_child(grows_not_over_others), 0);
	assert_int_equal(in_child(a_child_of_a_small_area), 0);
}

static void test_what_has_grown_is_given_back(void **state)
{
	(void)state;
	assert_int_equal(in_child(narrows), 0);
	assert_int_equal(in_child(narrows_not_at_all), 0);
	assert_int_equal(in_child(removes), 0);
}

static void test_more_pools(void **state)
{
	(void)state;
	assert_int_equal(in_child(pools), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_left_where_covers_fail),
		cmocka_unit_test(test_nothing_is_left_where_withholding_fails),
		cmocka_unit_test(test_the_earlier_descriptor_is_closed),
		cmocka_unit_test(test_a_small_area_grows),
		cmocka_unit_test(test_what_has_grown_is_given_back),
		cmocka_unit_test(test_more_pools),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

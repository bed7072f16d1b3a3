/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The area: opening or making its memfd, mapping it, and who else has access to it.
 *
 * Forked children do not get the area (MADV_DONTFORK), unless they are followed: a child may give
 * up privileges that its parent has. A hook that begins in a child finds the gate cleared, and
 * touches nothing of the area. But a signal handler may interrupt a hook and fork. Then this hook
 * also continues in the child, with addresses of the area in its registers. So that it finds memory
 * there:
 *
 *   1. Some pages of the area are not pages of the file but private ones: covers
 *      (common/abi/area.h). They are mapped like stacks that grow down (MAP_GROWSDOWN). In the
 *      process itself they lie right above the area's memory, and never grow.
 *   2. In a child there is nothing below them. When a late hook reads or writes there, the kernel
 *      lets a cover grow down to that address, up to the child's limit on stacks (RLIMIT_STACK,
 *      mostly 8 MiB). The new pages are zeros of the child's own. Zeros name no sub-buffer of the
 *      child and no session. So what the hook still does to them has no effect.
 *   3. The area lies far from everything that the kernel maps by itself. So what the child maps
 *      later does not lie where such a hook writes.
 *
 *   4. iprobe may attach to a child later. Then a borrowed thread gives it an area of its own, at
 *      the same addresses (rt_area_renew): between the covers where the child has nothing there, or
 * in the place of what it has inherited or was left. The new file is as long as the old one was, so
 * a late hook still finds memory, and numbers of sessions go on, so no thread takes a slot for its
 * own that it had in its parent. If the new area cannot be finished, nothing is left of it: the
 * gaps are empty again, or all is private memory (rt_area_disown). Hooks are silent there, and a
 * later attach tries again.
 *
 * Where the runtime was put into a running process, it maps a small part of the area at first, and
 * more when a session needs it (area_window.c). The tables are mapped only when a session needs
 * them. Until then there is a hole, right behind the first cover.
 *
 * The covers protect what records use: the header, slots, descriptors, and the first sub-buffers.
 * The collector lets the sub-buffers with the lowest numbers circulate, so they are the ones in
 * use.
 */
#include <stddef.h>
#include <sys/syscall.h>

#include "runtime/arch/cpu.h"
#include "runtime/rt.h"

#define PAGE	 4096ull
#define FD_FLOOR 900 /* the memfd avoids the low numbers: programs rely on getting them */
/* below 64, which is the size of every process's first table of descriptors: see raise_fd() */
#define FD_FLOOR_WOKEN 48

#define PROT_READ	    1
#define PROT_WRITE	    2
#define MAP_SHARED	    0x01
#define MAP_PRIVATE	    0x02
#define MAP_FIXED	    0x10
#define MAP_ANONYMOUS	    0x20
#define MAP_GROWSDOWN	    0x100
#define MAP_NORESERVE	    0x4000
#define MAP_FIXED_NOREPLACE 0x100000
#define MADV_DONTFORK	    10
#define MADV_DOFORK	    11
#define MADV_DONTDUMP	    16
#define O_PATH		    010000000
#define CAPABILITY_VERSION  0x20080522u /* _LINUX_CAPABILITY_VERSION_3 */
#define OWNER_ALONE	    0600
#define MFD_CLOEXEC	    1u
#define MFD_ALLOW_SEALING   2u
#define MFD_NOEXEC_SEAL	    8u
#define O_RDWR		    2
#define O_CLOEXEC	    02000000
#define F_GETFL		    3
#define F_DUPFD_CLOEXEC	    1030
#define SEEK_END	    2
#define LIMIT_FSIZE	    1
#define EFBIG		    27
#define EEXIST		    17

#define FAILED(ret) ((unsigned long)(ret) > -4096ul)

int rt_has_tables;
uint32_t rt_nrules;

/* Returns an address, or an error as from any system call. offset: a multiple of a page. */
static unsigned long map_from(uint64_t address, uint64_t size, long prot, long flags, long fd,
			      uint64_t offset)
{
	/* mmap2 counts the offset in pages */
	return cpu_syscall6(CPU_SYS_MMAP, address, size, prot, flags, fd,
			    sizeof(void *) == 8 ? offset : offset / PAGE);
}

static unsigned long map(uint64_t address, uint64_t size, long prot, long flags, long fd)
{
	return map_from(address, size, prot, flags, fd, 0);
}

void rt_area_find_tables(void)
{
	const uint64_t area = iprobe_rt_anchor.area;
	uint64_t duties = rt_has_tables ? IP_AREA_DUTIES_OFFSET : IP_AREA_SMALL_DUTIES;

	__atomic_store_n(&rt_duties, (uint32_t *)(uintptr_t)(area + duties), __ATOMIC_RELEASE);
	__atomic_store_n(&rt_nrules, rt_has_tables ? IP_AREA_RULES : 0, __ATOMIC_RELEASE);
}

/* A hint for the kernel: an address in the middle of the range that the kernel fills from neither
 * end. It is not easier to guess than other addresses of the process. 0: there is no such range.
 * local: any object on the stack. */
static uint64_t place_far_away(const void *local)
{
	const uint64_t mixed =
		(((uintptr_t)local ^ (uintptr_t)&rt_private << 16) * 0x9e3779b97f4a7c15ull) >> 32;

	return IP_AREA_PLACE && sizeof(void *) == 8
		       ? IP_AREA_PLACE + mixed % (IP_AREA_PLACE_RANGE / PAGE) * PAGE
		       : 0;
}

/* Where the memory begins that lies behind the cover at that offset. */
static uint64_t behind(uint64_t cover)
{
	return cover + PAGE == IP_AREA_TABLES_OFFSET && !rt_has_tables ? IP_AREA_TABLES_END
								       : cover + PAGE;
}

/* Step 1. */
long rt_area_lay_covers(uint64_t area, uint64_t from, uint64_t size)
{
	for (unsigned i = 0; i < IP_AREA_COVERS && ip_area_cover(i) < size; i++) {
		unsigned long at;

		if (ip_area_cover(i) < from)
			continue;
		at = map(area + ip_area_cover(i), PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, -1);
		if (FAILED(at))
			return at;
	}
	return 0;
}

/* Maps the area's range, without the hole, in the place of what is mapped there. fd: -1: private
 * memory. Returns 0, or an error. */
static long map_range(uint64_t area, uint64_t size, long flags, long fd)
{
	const uint64_t end = rt_has_tables ? size : IP_AREA_TABLES_OFFSET;
	unsigned long at = map(area, end, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd);

	if (!FAILED(at) && end < size)
		at = map_from(area + IP_AREA_TABLES_END, size - IP_AREA_TABLES_END,
			      PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd,
			      fd < 0 ? 0 : IP_AREA_TABLES_END);
	return FAILED(at) ? (long)at : 0;
}

/* Decides whether forked children get the area. They always get the covers. Returns 0, or an
 * error. */
static long keep(uint64_t area, uint64_t size, int inherit)
{
	uint64_t from = 0;

	for (unsigned i = 0; i <= IP_AREA_COVERS && from < size; i++) {
		uint64_t to =
			i < IP_AREA_COVERS && ip_area_cover(i) < size ? ip_area_cover(i) : size;
		long ret = cpu_syscall(SYS_madvise, area + from, to - from,
				       inherit ? MADV_DOFORK : MADV_DONTFORK, 0);

		if (FAILED(ret))
			return ret;
		from = behind(to);
	}
	return 0;
}

long rt_area_keep(int inherit)
{
	long ret = keep(iprobe_rt_anchor.area, iprobe_rt_anchor.area_size, inherit);

	if (!FAILED(ret))
		rt_private.inherited = inherit;
	return ret;
}

long rt_area_disown(void)
{
	return map_range(iprobe_rt_anchor.area, iprobe_rt_anchor.area_size,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

/* Moves a descriptor out of the low numbers, at once. The kernel gives a new descriptor the lowest
 * free number, and has no call that asks for another number directly. A thread that opens something
 * between the two calls gets a number higher than the lowest. That also happens when any other
 * thread opens something at that time. The new number must lie below the process's limit, however
 * low that is. If other threads run, it must not be higher than the smallest table of descriptors
 * reaches. The reason: to enlarge a shared table the kernel waits for all processors (an RCU grace
 * period). That takes milliseconds, on a busy machine seconds, and a borrowed thread would be held
 * for that time. */
static long raise_fd(long fd, long highest)
{
	long raised = fd;

	for (long floor = highest; !FAILED(fd) && floor > fd; floor /= 2) {
		raised = cpu_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, floor, 0);
		if (!FAILED(raised))
			break;
		raised = fd;
	}
	if (raised != fd)
		cpu_syscall(SYS_close, fd, 0, 0, 0);
	return raised;
}

/* Whether the process has a privilege that a child of it might give up. */
static int is_privileged(void)
{
	uint32_t ids[6] = {0}, set[6] = {0};
	struct {
		uint32_t version;
		int32_t pid;
	} header = {CAPABILITY_VERSION, 0};

	if (FAILED(cpu_syscall(CPU_SYS_GETRESUID, (long)&ids[0], (long)&ids[1], (long)&ids[2],
			       0)) ||
	    FAILED(cpu_syscall(CPU_SYS_GETRESGID, (long)&ids[3], (long)&ids[4], (long)&ids[5],
			       0)) ||
	    FAILED(cpu_syscall(SYS_capget, (long)&header, (long)set, 0, 0)))
		return 1;
	/* effective, permitted, inheritable; two words each */
	return !ids[0] || ids[0] != ids[1] || ids[0] != ids[2] || ids[3] != ids[4] ||
	       ids[3] != ids[5] || set[0] || set[1] || set[3] || set[4];
}

/* Writes the path of a descriptor of this process. */
static void name_descriptor(long fd, char ret[32])
{
	static const char folder[] = "/proc/self/fd/";
	unsigned at = 0, end;

	for (; folder[at]; at++)
		ret[at] = folder[at];
	end = at;
	for (long n = fd; n || end == at; n /= 10)
		end++;
	ret[end] = '\0';
	for (long n = fd; end > at; n /= 10)
		ret[--end] = '0' + n % 10;
}

/* Closes the descriptor of the area, since each child would inherit it. A tracer of a privileged
 * process reaches the area through its mapping (map_files), so such a process keeps no descriptor.
 * The user's own iprobe cannot do that with an unprivileged process. So that process keeps a
 * descriptor that only names the file (O_PATH). It is of use to the process's user alone, and
 * children run as that user too. Returns the number, or -1. */
static int32_t keep_name(long fd, long highest)
{
	char name[32];
	long path = -1;

	name_descriptor(fd, name);
	if (!is_privileged())
		path = cpu_syscall(SYS_openat, -100, (long)name, O_PATH | O_CLOEXEC, 0);
	cpu_syscall(SYS_close, fd, 0, 0, 0);
	if (FAILED(path))
		return -1;
	path = raise_fd(path, highest);
	return FAILED(path) ? -1 : (int32_t)path;
}

/* Closes the descriptor that keep_name() has left, if the program has not put something else in its
 * place: it must name a memfd of ours and do nothing else. A program that does just that at this
 * moment would lose its descriptor. */
static void close_name(int32_t fd)
{
	static const char ours[] = "/memfd:iprobe (deleted)";
	char path[32], is[32] = "";
	long flags = fd < 0 ? -1 : cpu_syscall(SYS_fcntl, fd, F_GETFL, 0, 0);

	if (FAILED(flags) || !(flags & O_PATH))
		return;
	name_descriptor(fd, path);
	if (cpu_syscall6(SYS_readlinkat, -100, (long)path, (long)is, sizeof(is), 0, 0) !=
	    sizeof(ours) - 1)
		return;
	for (unsigned i = 0; i < sizeof(ours) - 1; i++)
		if (is[i] != ours[i])
			return;
	cpu_syscall(SYS_close, fd, 0, 0, 0);
}

/* Opens and maps the launcher's area if it was made for this process. */
int rt_map_launched(const char *path)
{
	long fd = raise_fd(cpu_syscall(SYS_openat, -100, path, O_RDWR | O_CLOEXEC, 0), FD_FLOOR);
	struct ip_area_header *header;
	unsigned long at;
	long size;

	if (FAILED(fd))
		return 0;
	size = cpu_syscall(SYS_lseek, fd, 0, SEEK_END, 0);
	if (FAILED(size) || (uint64_t)size < IP_AREA_DATA_OFFSET + IP_SUBBUF_SIZE)
		goto not_ours;
	at = map(place_far_away(&path), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		 fd);
	if (FAILED(at))
		goto not_ours;
	header = (struct ip_area_header *)at;
	if (header->magic != IP_AREA_MAGIC || header->abi != IP_RT_ABI ||
	    header->run_pid != cpu_syscall(SYS_getpid, 0, 0, 0, 0)) {
		cpu_syscall(SYS_munmap, at, size, 0, 0);
		goto not_ours;
	}
	rt_private.inherited = header->inherit == 1;
	rt_has_tables = 1; /* a launcher's area is mapped in its full length */
	if ((!rt_private.inherited && FAILED(keep(at, size, 0))) ||
	    FAILED(rt_area_lay_covers(at, 0, size))) {
		cpu_syscall(SYS_munmap, at, size, 0, 0);
		goto not_ours;
	}
	iprobe_rt_anchor.area = at;
	iprobe_rt_anchor.area_size = size;
	iprobe_rt_anchor.area_fd = keep_name(fd, FD_FLOOR);
	return 1;
not_ours:
	cpu_syscall(SYS_close, fd, 0, 0, 0);
	return 0;
}

/* If a file grows beyond the process's limit on file sizes, the process gets SIGXFSZ and ends. The
 * limit holds for memfds too. */
static int fits_limit(uint64_t size)
{
	uint64_t limit[2]; /* current, maximal */
	long ret = cpu_syscall(SYS_prlimit64, 0, LIMIT_FSIZE, 0, limit);

	return FAILED(ret) || size <= limit[0];
}

/* Makes a memfd of that size. highest: as for raise_fd(). Returns a descriptor, or an error. */
static long make_file(uint64_t size, long highest)
{
	long fd, ret;

	if (!fits_limit(size))
		return -EFBIG;
	fd = cpu_syscall(SYS_memfd_create, "iprobe", MFD_CLOEXEC | MFD_NOEXEC_SEAL, 0, 0);
	/* kernels before 6.3 do not know MFD_NOEXEC_SEAL, which allows sealing too */
	if (FAILED(fd))
		fd = cpu_syscall(SYS_memfd_create, "iprobe", MFD_CLOEXEC | MFD_ALLOW_SEALING, 0, 0);
	fd = raise_fd(fd, highest);
	if (FAILED(fd))
		return fd;
	ret = cpu_syscall(SYS_fchmod, fd, OWNER_ALONE, 0, 0);
	if (!FAILED(ret))
		ret = cpu_syscall(SYS_ftruncate, fd, size, 0, 0);
	if (!FAILED(ret))
		return fd;
	cpu_syscall(SYS_close, fd, 0, 0, 0);
	return ret;
}

/* Maps the area where nothing is mapped, and withholds it from children at once: a process that
 * another thread forks in between has the area (session/follow/follow_fork.h, step 6). Returns its
 * address, or an error: then nothing is mapped. */
static unsigned long map_far_away(uint64_t size, long fd)
{
	const uint64_t end = rt_has_tables ? size : IP_AREA_TABLES_OFFSET;
	unsigned long at = map(place_far_away(&size), end, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_NORESERVE, fd);
	long ret = 0;

	if (FAILED(at))
		return at;
	ret = cpu_syscall(SYS_madvise, at, end, MADV_DONTFORK, 0);
	if (!FAILED(ret) && end < size) {
		const uint64_t there = at + IP_AREA_TABLES_END;

		ret = map_from(there, size - IP_AREA_TABLES_END, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd,
			       IP_AREA_TABLES_END);
		if (!FAILED(ret) && (uint64_t)ret != there) {
			/* an old kernel takes NOREPLACE for a hint */
			cpu_syscall(SYS_munmap, ret, size - IP_AREA_TABLES_END, 0, 0);
			ret = -EEXIST;
		}
		if (!FAILED(ret)) {
			ret = cpu_syscall(SYS_madvise, there, size - IP_AREA_TABLES_END,
					  MADV_DONTFORK, 0);
			if (FAILED(ret))
				cpu_syscall(SYS_munmap, there, size - IP_AREA_TABLES_END, 0, 0);
		}
	}
	if (!FAILED(ret))
		return at;
	cpu_syscall(SYS_munmap, at, end, 0, 0);
	return ret;
}

/* Unmaps what map_far_away() has mapped. */
static void unmap(uint64_t area, uint64_t size)
{
	const uint64_t end = rt_has_tables ? size : IP_AREA_TABLES_OFFSET;

	cpu_syscall(SYS_munmap, area, end, 0, 0);
	if (end < size)
		cpu_syscall(SYS_munmap, area + IP_AREA_TABLES_END, size - IP_AREA_TABLES_END, 0, 0);
}

int rt_map_own_area(enum rt_start how)
{
	const uint64_t size = rt_area_size;
	const long highest = how == RT_WOKEN ? FD_FLOOR_WOKEN : FD_FLOOR;
	struct ip_area_header *header;
	unsigned long at;
	int32_t name;
	long fd, ret;

	rt_has_tables = size >= IP_AREA_OWN_SIZE;
	fd = make_file(rt_has_tables ? IP_AREA_DATA_OFFSET : IP_AREA_SMALL_FILE, highest);
	if (FAILED(fd)) {
		iprobe_rt_anchor.error = -fd;
		return 0;
	}
	at = map_far_away(size, fd);
	if (FAILED(at)) {
		cpu_syscall(SYS_close, fd, 0, 0, 0);
		iprobe_rt_anchor.error = -at;
		return 0;
	}
	/* close the descriptor before anything else, since a process that was forked in between has
	 * it too */
	name = keep_name(fd, highest);
	ret = rt_area_lay_covers(at, 0, size);
	if (FAILED(ret)) {
		unmap(at, size);
		if (name >= 0)
			cpu_syscall(SYS_close, name, 0, 0, 0);
		iprobe_rt_anchor.error = -ret;
		return 0;
	}
	header = (struct ip_area_header *)at;
	header->magic = IP_AREA_MAGIC;
	header->abi = IP_RT_ABI;
	iprobe_rt_anchor.area = at;
	iprobe_rt_anchor.area_size = size;
	iprobe_rt_anchor.area_fd = name;
	return 1;
}

/* The end of the gap that begins at `from`: the next cover, or the end of the area. */
static uint64_t gap_end(uint64_t from, uint64_t size)
{
	for (unsigned i = 0; i < IP_AREA_COVERS; i++)
		if (ip_area_cover(i) >= from)
			return ip_area_cover(i) < size ? ip_area_cover(i) : size;
	return size;
}

/* Empties the gaps between the covers, up to `end`. */
static void empty_gaps(uint64_t area, uint64_t size, uint64_t end)
{
	for (uint64_t from = 0, to; from < end; from = behind(to)) {
		to = gap_end(from, size);
		cpu_syscall(SYS_munmap, area + from, to - from, 0, 0);
	}
}

/* Maps the file into the gaps between the covers. Nothing may be there. Returns 0, or an error:
 * then the gaps are as they were. */
static long fill_gaps(uint64_t area, uint64_t size, long fd)
{
	uint64_t from, to;
	long ret = 0;

	for (from = 0; from < size; from = behind(to)) {
		unsigned long at;

		to = gap_end(from, size);
		at = map_from(area + from, to - from, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, from);
		if (at == area + from)
			continue;
		if (!FAILED(at)) /* an old kernel takes NOREPLACE for a hint */
			cpu_syscall(SYS_munmap, at, to - from, 0, 0);
		ret = FAILED(at) ? (long)at : -EEXIST;
		break;
	}
	if (ret)
		empty_gaps(area, size, from);
	return ret;
}

void rt_area_forget(void)
{
	const uint64_t area = iprobe_rt_anchor.area, size = iprobe_rt_anchor.area_size;

	/* numbers of sessions go on in the next area */
	if (rt_header->last_session > rt_last_session)
		rt_last_session = rt_header->last_session;
	iprobe_rt_anchor.pid = 0; /* it is no process's any more */
	cpu_store_order();
	close_name(iprobe_rt_anchor.area_fd);
	iprobe_rt_anchor.area_fd = -1;
	rt_private.inherited = 0;
	empty_gaps(area, size, size);
}

long rt_area_renew(int replace)
{
	const uint64_t area = iprobe_rt_anchor.area, size = iprobe_rt_anchor.area_size;
	/* what the old area's sessions were numbered up to; only a mapped one can be read */
	const uint32_t last = replace ? rt_header->last_session : 0;
	/* a hook that began before the fork may still write up to here (step 2 above) */
	uint64_t end = rt_private.end > IP_AREA_DATA_OFFSET && rt_private.end <= size
			       ? rt_private.end
			       : IP_AREA_DATA_OFFSET;
	long fd, ret;

	if (!rt_has_tables && end < IP_AREA_SMALL_FILE)
		end = IP_AREA_SMALL_FILE;
	fd = make_file(end, FD_FLOOR_WOKEN);

	if (FAILED(fd))
		return fd;
	if (replace)
		ret = map_range(area, size, MAP_SHARED | MAP_NORESERVE, fd);
	else
		ret = fill_gaps(area, size, fd);
	if (FAILED(ret)) {
		if (replace)
			rt_area_disown(); /* half of it may be the new file's */
		cpu_syscall(SYS_close, fd, 0, 0, 0);
		return ret;
	}
	if (replace)
		ret = rt_area_lay_covers(area, 0, size);
	/* a child that another thread forks in between has the area, as in rt_map_own_area() */
	if (!FAILED(ret))
		ret = keep(area, size, 0);
	if (FAILED(ret)) {
		if (replace)
			rt_area_disown();
		else
			empty_gaps(area, size, size);
		cpu_syscall(SYS_close, fd, 0, 0, 0);
		return ret;
	}
	close_name(iprobe_rt_anchor.area_fd);
	rt_private.inherited = 0;
	cpu_syscall(SYS_madvise, area, size, MADV_DONTDUMP, 0);
	iprobe_rt_anchor.area_fd = keep_name(fd, FD_FLOOR_WOKEN);
	iprobe_rt_anchor.pid = cpu_syscall(SYS_getpid, 0, 0, 0, 0);
	/* Threads remember slots by the session's number: no number of the old area may come
	 * again. */
	rt_header->last_session = last > rt_last_session ? last : rt_last_session;
	rt_header->abi = IP_RT_ABI;
	rt_header->renewed = 1;
	cpu_store_order();
	rt_header->magic = IP_AREA_MAGIC;
	return 0;
}

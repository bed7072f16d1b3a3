/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes, opens, locks and resets the area.
 */
#include "hotpatcher/shm/area.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/units.h"
#include "hotpatcher/shm/area_allocation.h"
#include "hotpatcher/shm/late_slots.h"

/* Sub-buffers. 256 of them are 8 MiB. With two more for each thread they last for the first
 * milliseconds. */
#define AT_FIRST	 256u
#define AT_ONCE		 128u
#define COVER_SIZE	 4096u
#define RUNTIME_RESIDENT (512u << 10) /* of its text, data and stubs: 0.4 MiB were measured */

static struct ip_area *area_new(int fd, uint64_t window)
{
	struct ip_area *area = calloc(1, sizeof(*area));

	if (!area) {
		close(fd);
		ip_error("out of memory");
		return NULL;
	}
	area->fd = fd;
	area->window = area->most = window;
	area->tables = true;
	return area;
}

static int area_map(struct ip_area *area, size_t size)
{
	char *at = area->header ? mremap(area->header, area->mapped, size, MREMAP_MAYMOVE)
				: mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, area->fd, 0);

	if (at == MAP_FAILED)
		return ip_error_errno("cannot map %zu bytes of ring memory", size);
	area->mapped = size;
	area->header = (struct ip_area_header *)at;
	area->modules = (struct ip_area_module *)(at + IP_AREA_MODULES_OFFSET);
	area->slots = (struct ip_slot *)(at + IP_AREA_SLOTS_OFFSET);
	area->subbufs = (struct ip_subbuf *)(at + IP_AREA_SUBBUFS_OFFSET);
	area->firsts = (uint32_t *)(at + IP_AREA_FIRSTS_OFFSET);
	area->payloads = (struct ip_payload *)(at + IP_AREA_PAYLOADS_OFFSET);
	area->programs = (struct ip_value_program *)(at + IP_AREA_PROGRAMS_OFFSET);
	area->duties = (uint32_t *)(at + IP_AREA_DUTIES_OFFSET);
	area->trace = (struct ip_area_trace *)(at + IP_AREA_TRACE_OFFSET);
	area->clock = (struct ip_area_clock *)(at + IP_AREA_CLOCK_OFFSET);
	area->filters = (struct ip_filters *)(at + IP_AREA_FILTERS_OFFSET);
	area->rules = (struct ip_filter_rule *)(at + IP_AREA_RULES_OFFSET);
	area->data = at + IP_AREA_DATA_OFFSET;
	return 0;
}

/* Seals the memory, so that no process can make it shorter while it is mapped here (reading it
 * would be a SIGBUS). Only a memfd can be sealed, so this also proves that the file is one. It
 * must not be made of huge pages: if the machine has none left, reading such a file is a SIGBUS
 * as well. */
static int seal(int fd, pid_t pid)
{
	struct statfs fs;
	int seals;

	if (fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
		return ip_error("pid %d: its ring memory is of another kind than the runtime "
				"makes: it is not the runtime's",
				pid);
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
		return 0;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals >= 0 && (seals & F_SEAL_SHRINK))
		return 0;
	return ip_error("pid %d: its ring memory cannot be sealed against shrinking: it is not the "
			"runtime's",
			pid);
}

static uint64_t subbufs_for(uint64_t memory)
{
	uint64_t n = memory / IP_SUBBUF_SIZE;

	return n < IP_SUBBUFS_LEAST ? IP_SUBBUFS_LEAST : n > IP_AREA_SUBBUFS ? IP_AREA_SUBBUFS : n;
}

int ip_area_create(uint64_t memory, struct ip_area **ret)
{
	/* blocks of meters take half of it at most, and lie behind the covers */
	uint64_t n = subbufs_for(memory), behind = IP_COVER_LAST + 1 + n / 2 + 1;
	uint64_t size = IP_AREA_DATA_OFFSET + (n > behind ? n : behind) * IP_SUBBUF_SIZE;
	int fd = memfd_create("iprobe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct ip_area *area;

	if (fd < 0)
		return ip_error_errno("cannot make ring memory (memfd_create)");
	area = area_new(fd, size);
	if (!area)
		return -1;
	if (fchmod(fd, 0600) < 0 || ftruncate(fd, size) < 0) {
		ip_error_errno("cannot make %lu bytes of ring memory", size);
		ip_area_close(area);
		return -1;
	}
	if (seal(fd, 0) < 0 || area_map(area, size) < 0) {
		ip_area_close(area);
		return -1;
	}
	area->header->magic = IP_AREA_MAGIC;
	area->header->abi = IP_RT_ABI;
	*ret = area;
	return 0;
}

static int open_memfd(const struct ip_target *target, const struct ip_mapping *m)
{
	char name[128];
	struct stat st;
	_cleanup_close_ int place = -1;
	int fd = -1;

	/* The number of the descriptor comes from the target. Opening what it refers to may have
	 * effects (a watchdog, a tape), so its kind is checked first. */
	if (target->anchor.area_fd >= 0) {
		snprintf(name, sizeof(name), "/proc/%d/fd/%d", target->pid, target->anchor.area_fd);
		place = ip_delegation_open(name, O_PATH);
	}
	if (place >= 0 && fstat(place, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == m->inode &&
	    major(st.st_dev) == m->dev_major && minor(st.st_dev) == m->dev_minor) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", place);
		fd = ip_delegation_open(name, O_RDWR);
	}
	if (fd >= 0)
		return fd;
	snprintf(name, sizeof(name), "/proc/%d/map_files/%lx-%lx", target->pid, m->start, m->end);
	fd = ip_delegation_open(name, O_RDWR);
	if (fd < 0)
		return ip_error("pid %d has no descriptor of the runtime's ring memory (%s), and "
				"we may not reach it otherwise (%s): attach as root "
				"(CAP_CHECKPOINT_RESTORE), or start it with iprobe run",
				target->pid,
				target->anchor.area_fd >= 0 ? "it was closed"
							    : "a privileged process keeps none",
				strerror(errno));
	return fd;
}

/* Returns how many bytes of the area the process has mapped in the way its runtime maps it: from
 * one file, without gaps except for covers, and for the tables, behind the first cover. */
static uint64_t window_of(const struct ip_maps *maps, const struct ip_mapping *first,
			  bool *ret_tables)
{
	const struct ip_mapping *m = first;
	uint64_t next = first->start;
	unsigned cover = 0;

	*ret_tables = true;
	for (; m < maps->items + maps->n && m->inode == first->inode &&
	       m->dev_major == first->dev_major && m->dev_minor == first->dev_minor &&
	       m->offset == m->start - first->start;
	     m++) {
		const struct ip_mapping *page = m + 1;
		uint64_t end = m->end - first->start;

		if (m->start != next) {
			if (cover != 1 || m->offset != IP_AREA_TABLES_END)
				break;
			*ret_tables = false;
		}
		next = m->end + COVER_SIZE;
		if (cover == IP_AREA_COVERS || end != ip_area_cover(cover) ||
		    page >= maps->items + maps->n || page->inode || page->start != m->end ||
		    page->end - page->start != COVER_SIZE)
			return end;
		cover++;
		m = page;
	}
	return m > first ? (m - 1)->end - first->start : 0;
}

int ip_area_look(struct ip_area *area, const struct ip_target *target)
{
	const struct ip_mapping *m = ip_maps_find(&target->maps, target->anchor.area);

	area->window = m && m->start == target->anchor.area
			       ? window_of(&target->maps, m, &area->tables)
			       : 0;
	/* what has the tables from the start is as large as it can be (runtime/area_window.c) */
	area->most = target->anchor.remap && area->window < IP_AREA_OWN_SIZE ? IP_AREA_OWN_SIZE
									     : area->window;
	if (area->window >= IP_AREA_DATA_OFFSET)
		return 0;
	return ip_error("pid %d: the runtime's ring memory at %#lx is not mapped any more",
			target->pid, target->anchor.area);
}

int ip_area_open(const struct ip_target *target, struct ip_area **ret)
{
	const struct ip_rt_anchor *anchor = &target->anchor;
	struct ip_area look = {0}, *area;
	int fd;

	if (!target->has_runtime)
		return ip_error(
			"pid %d does not have iprobe's runtime yet: iprobe attach puts it there",
			target->pid);
	if (anchor->error || !anchor->gate)
		return ip_error("pid %d: iprobe's runtime could not set itself up (%s)",
				target->pid,
				anchor->error ? strerror(anchor->error)
				: target->linked_in || target->injected
					? "it is asleep: iprobe attach wakes it"
					: "its constructor has not run yet");
	if (ip_area_look(&look, target) < 0)
		return -1;
	fd = open_memfd(target, ip_maps_find(&target->maps, anchor->area));
	if (fd < 0)
		return -1;
	area = area_new(fd, look.window);
	if (!area)
		return -1;
	area->most = look.most;
	area->tables = look.tables;
	if (seal(fd, target->pid) < 0) {
		ip_area_close(area);
		return -1;
	}
	if (lseek(fd, 0, SEEK_END) < (off_t)IP_AREA_DATA_OFFSET ||
	    area_map(area, IP_AREA_DATA_OFFSET) < 0 || area->header->magic != IP_AREA_MAGIC ||
	    area->header->abi != IP_RT_ABI) {
		ip_area_close(area);
		return ip_error("pid %d: the runtime's ring memory is damaged", target->pid);
	}
	*ret = area;
	return 0;
}

void ip_area_close(struct ip_area *area)
{
	if (!area)
		return;
	ip_area_allocation_finish(area->allocation);
	if (area->header)
		munmap(area->header, area->mapped);
	close(area->fd);
	free(area);
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

struct ip_meters *ip_area_meters(const struct ip_area *area, uint32_t i)
{
	return (struct ip_meters *)((char *)area->header + area->blocks.at + i * area->blocks.size);
}

void ip_area_set_duty(struct ip_area *area, uint32_t number, uint32_t duty, uint32_t offset)
{
	if (number < area->numbers)
		__atomic_store_n(&area->duties[number], IP_DUTY(duty, offset), __ATOMIC_RELAXED);
}

/* Returns the bytes that are left for rings and meters. The limit also covers the runtime's own
 * pages, and the tables of threads and sub-buffers, unless these would take a quarter of it. */
static uint64_t without_overhead(uint64_t memory)
{
	uint64_t notes = IP_AREA_SUBBUFS_OFFSET +
			 memory / IP_SUBBUF_SIZE * sizeof(struct ip_subbuf),
		 overhead = notes + RUNTIME_RESIDENT;

	return memory / 4 > overhead ? memory - overhead : memory;
}

uint64_t ip_area_size_for(uint64_t memory)
{
	return IP_AREA_DATA_OFFSET +
	       (uint64_t)subbufs_for(without_overhead(memory)) * IP_SUBBUF_SIZE;
}

/* Divides the memory. Blocks of meters get half of it at most. */
static int divide(struct ip_area *area, const struct ip_area_needs *needs)
{
	uint64_t memory = (uint64_t)subbufs_for(without_overhead(needs->memory)) * IP_SUBBUF_SIZE,
		 left;

	area->numbers = needs->modes & IP_MODE_PAYLOADS ? needs->numbers : 0;
	if (area->numbers > IP_AREA_DUTIES)
		return ip_error("%u probe numbers are too many", area->numbers);
	if (ip_blocks_divide(area, needs->room, needs->frames, memory, &left) < 0)
		return -1;
	area->nsubbufs = subbufs_for(left);
	return 0;
}

/* Returns the bytes of the session, counted from the first sub-buffer on. */
static uint64_t data_size(const struct ip_area *area)
{
	uint64_t end = IP_AREA_DATA_OFFSET + (uint64_t)area->nsubbufs * IP_SUBBUF_SIZE;

	if (area->blocks.n)
		end = round_up(area->blocks.at + area->blocks.all * area->blocks.size, 4096);
	return end - IP_AREA_DATA_OFFSET;
}

/* Returns how many of the first n sub-buffers can be used. */
static uint32_t usable(uint32_t n)
{
	uint32_t covers = n ? (n - 1) / IP_COVER_STRIDE : 0;

	return n - (covers < IP_AREA_COVERS ? covers : IP_AREA_COVERS - 1);
}

static void keep_clear(void *data, uint64_t from, uint64_t to)
{
	struct ip_area *area = data;

	for (uint64_t i = (from - IP_AREA_DATA_OFFSET) / IP_SUBBUF_SIZE;
	     i < area->nsubbufs && IP_AREA_DATA_OFFSET + i * IP_SUBBUF_SIZE < to; i++)
		area->subbufs[i].state = IP_SUBBUF_OWNED;
}

/* Returns how many sub-buffers of a session's pool are allocated before its first site goes live.
 * Rings in overwrite mode are shared out at once, so they need the whole pool. If there are meters,
 * the pool cannot grow, since they lie behind it. */
static uint32_t first_subbufs(const struct ip_area *area, pid_t pid, uint32_t modes)
{
	long threads = ip_proc_status(pid, "Threads");
	uint64_t first = AT_FIRST + 2 * (uint64_t)(threads > 0 ? threads : 0);

	if (modes & IP_MODE_OVERWRITE || area->blocks.n || area->nsubbufs < first)
		return area->nsubbufs;
	return first;
}

static int no_room(const struct ip_area *area, pid_t pid)
{
	char have[16];

	return ip_error("pid %d: its runtime has room for %s of ring memory: ask for no more with "
			"--memory",
			pid, ip_format_size(area->most - IP_AREA_DATA_OFFSET, have));
}

int ip_area_plan(struct ip_area *area, pid_t pid, const struct ip_area_needs *needs,
		 uint64_t *ret_size, bool *ret_tables)
{
	if (divide(area, needs) < 0)
		return -1;
	if (IP_AREA_DATA_OFFSET + data_size(area) > area->most)
		return no_room(area, pid);
	*ret_size = round_up(IP_AREA_DATA_OFFSET + data_size(area), 4096);
	*ret_tables = needs->tables || needs->modes & (IP_MODE_CAREFUL | IP_MODE_PAYLOADS);
	return 0;
}

uint32_t ip_area_next_session(const struct ip_area *area)
{
	uint32_t last = __atomic_load_n(&area->header->last_session, __ATOMIC_RELAXED), next;

	do
		next = IP_SESSION_NUMBER(++last);
	while (!next);
	return next;
}

static int no_memory(const struct ip_area *area, pid_t pid, int error)
{
	char have[16];

	errno = error;
	return ip_error_errno("pid %d: cannot allocate %s of ring memory (--memory takes less)",
			      pid, ip_format_size(data_size(area), have));
}

int ip_area_await_allocated(struct ip_area *area, pid_t pid)
{
	/* a session that is planned again does not begin the area again: what failed has failed */
	if (area->allocation)
		area->allocation_error = ip_area_allocation_finish(ip_steal_ptr(area->allocation));
	return area->allocation_error ? no_memory(area, pid, area->allocation_error) : 0;
}

int ip_area_begin(struct ip_area *area, pid_t pid, const struct ip_area_needs *needs)
{
	uint64_t size, n;
	struct ip_area_header *h;
	struct stat st;
	int error;

	if (divide(area, needs) < 0)
		return -1;
	n = area->nsubbufs;
	size = data_size(area);
	if (IP_AREA_DATA_OFFSET + size > area->window)
		return no_room(area, pid);
	if (fstat(area->fd, &st) < 0 || (st.st_size < (off_t)(IP_AREA_DATA_OFFSET + size) &&
					 ftruncate(area->fd, IP_AREA_DATA_OFFSET + size) < 0))
		return ip_error_errno("pid %d: cannot resize its ring memory", pid);
	ip_area_end(area);
	/* To allocate and zero all of 64 MiB takes longer than everything else in an attach to ten
	 * thousand functions. */
	area->ngrown = first_subbufs(area, pid, needs->modes);
	if ((area->blocks.n &&
	     fallocate(area->fd, 0, area->blocks.at,
		       round_up(area->blocks.all * area->blocks.size, 4096)) < 0) ||
	    (area->numbers && fallocate(area->fd, 0, IP_AREA_DUTIES_OFFSET,
					round_up(area->numbers * sizeof(*area->duties), 4096)) < 0))
		return no_memory(area, pid, errno);
	area->allocation_error = 0;
	error = ip_area_allocation_start(area->fd, IP_AREA_DATA_OFFSET,
					 (uint64_t)area->ngrown * IP_SUBBUF_SIZE,
					 &area->allocation);
	if (error)
		return no_memory(area, pid, error);
	if (area_map(area, IP_AREA_DATA_OFFSET + size) < 0)
		return -1;
	h = area->header;
	memset(area->subbufs, 0, n * sizeof(*area->subbufs));
	for (uint64_t i = 0; i < n; i++) {
		area->subbufs[i].slot = IP_NO_SLOT;
		if (ip_subbuf_is_cover(i))
			area->subbufs[i].state = IP_SUBBUF_OWNED;
	}
	ip_blocks_each_late(area, keep_clear, area);
	ip_late_slots_forget(area, pid);
	h->nsubbufs = area->ngrown;
	h->nfree = usable(area->ngrown);
	h->hint = 0;
	h->slots_used = 0;
	h->unserved = 0;
	h->owner_pid = getpid();
	h->ended = 0;
	area->may_read = false;
	area->user_scratch = area->fperf = area->fperf_pmu = area->fperf_counters =
		area->fperf_reads = 0;
	h->refused = 0;
	h->user = 0;
	h->fperf = 0;
	h->modes = area->modes = needs->modes;
	area->clock->now = 0;
	h->nmeters = area->blocks.n;
	h->meters_all = area->blocks.all;
	h->meters = area->blocks.at;
	h->meters_size = area->blocks.size;
	h->meters_hint = 1;
	if (area->blocks.n)
		ip_area_meters(area, 0)->state = IP_METERS_OWNED;
	memset(area->filters, 0, sizeof(*area->filters));
	area->nrules = 0;
	area->nprograms = 0;
	memset(area->bound, 0, sizeof(area->bound));
	h->session_pid = pid;
	h->follow = 0;
	do
		h->session = IP_SESSION_NUMBER(
			__atomic_add_fetch(&h->last_session, 1, __ATOMIC_SEQ_CST));
	while (!h->session);
	return 0;
}

int ip_area_resume(struct ip_area *area, pid_t pid, uint32_t session)
{
	uint64_t n = __atomic_load_n(&area->header->nsubbufs, __ATOMIC_RELAXED),
		 size = IP_AREA_DATA_OFFSET + n * IP_SUBBUF_SIZE;

	if (!session || n < IP_SUBBUFS_LEAST || n > IP_AREA_SUBBUFS || size > area->window ||
	    lseek(area->fd, 0, SEEK_END) < (off_t)size)
		return ip_error("pid %d: there is no recording to go on with", pid);
	if (area_map(area, size) < 0)
		return -1;
	area->nsubbufs = n;
	/* If the iprobe was killed while the pool still grew, the pool does not grow any more. */
	area->ngrown = n;
	area->header->owner_pid = getpid();
	for (uint32_t i = 0; i < IP_AREA_PROGRAMS; i++)
		if (__atomic_load_n(&area->programs[i].session, __ATOMIC_RELAXED) == session)
			area->nprograms = i + 1;
	return 0;
}

int ip_area_grow(struct ip_area *area, pid_t pid)
{
	uint32_t more = area->nsubbufs - area->ngrown;
	char have[16];

	if (!more)
		return 0;
	if (more > AT_ONCE)
		more = AT_ONCE;
	if (fallocate(area->fd, 0, IP_AREA_DATA_OFFSET + (uint64_t)area->ngrown * IP_SUBBUF_SIZE,
		      (uint64_t)more * IP_SUBBUF_SIZE) < 0) {
		if (errno == EINTR)
			return 1;
		ip_error_errno(
			"pid %d: there is memory for %s of the rings only (--memory takes less)",
			pid, ip_format_size((uint64_t)area->ngrown * IP_SUBBUF_SIZE, have));
		area->nsubbufs = area->ngrown;
		return -1;
	}
	area->ngrown += more;
	__atomic_store_n(&area->header->nsubbufs, area->ngrown, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&area->header->nfree, usable(area->ngrown) - usable(area->ngrown - more),
			   __ATOMIC_SEQ_CST);
	return area->ngrown < area->nsubbufs;
}

static int allocate(struct ip_area *area, uint64_t offset, uint64_t size)
{
	if (size && fallocate(area->fd, 0, offset, size) < 0)
		return ip_error_errno("cannot allocate memory for values");
	return 0;
}

int ip_area_reserve_values(struct ip_area *area, uint32_t npayloads, uint32_t nprograms)
{
	uint64_t end = (uint64_t)area->nprograms + nprograms;

	if (npayloads > IP_AREA_PAYLOADS || end > IP_AREA_PROGRAMS)
		return ip_error("too many functions to record values of: select fewer");
	return allocate(area, IP_AREA_PAYLOADS_OFFSET, npayloads * sizeof(*area->payloads)) < 0 ||
			       allocate(area, IP_AREA_PROGRAMS_OFFSET,
					end * sizeof(*area->programs)) < 0
		       ? -1
		       : 0;
}

uint32_t ip_area_add_program(struct ip_area *area, const struct ip_value_program *program)
{
	struct ip_value_program *p = &area->programs[area->nprograms];

	__atomic_store_n(&p->session, 0, __ATOMIC_SEQ_CST);
	p->signature = program->signature;
	p->nops = program->nops;
	p->max_words = program->max_words;
	memcpy(p->ops, program->ops, sizeof(p->ops));
	__atomic_store_n(&p->session, area->header->session, __ATOMIC_SEQ_CST);
	return ++area->nprograms;
}

void ip_area_forget_stubs(struct ip_area *area)
{
	for (uint32_t i = 0; i < area->header->nmodules && i < IP_AREA_MODULES; i++)
		area->modules[i].build_id_size = 0;
	memset(area->header->stubs_used, 0, sizeof(area->header->stubs_used));
	area->nprograms = 0;
	memset(area->bound, 0, sizeof(area->bound));
}

void ip_area_end(struct ip_area *area)
{
	off_t end = lseek(area->fd, 0, SEEK_END);

	ip_area_allocation_finish(ip_steal_ptr(area->allocation));
	/* after this, events of a late hook have no values */
	fallocate(area->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, IP_AREA_PROGRAMS_OFFSET,
		  IP_AREA_DATA_OFFSET - IP_AREA_PROGRAMS_OFFSET);
	if (end > (off_t)IP_AREA_DATA_OFFSET)
		fallocate(area->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, IP_AREA_DATA_OFFSET,
			  end - IP_AREA_DATA_OFFSET);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the runtime into a process. inject.h describes the steps; the comments here name them.
 */
#include "hotpatcher/inject/inject.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <time.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/abi/area.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "hotpatcher/arch/x86_64/borrow.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/inject/inject_code.h"
#include "hotpatcher/inject/text_padding.h"

#define LIMIT_NS    2000000000ull /* how long to search for a thread */
#define STOP_NS	    1000000000ull
#define RUN_NS	    10000000000ull
#define NAP_NS	    2000000l
#define PAGE	    4096ull
#define STACK_LOOK  (8ull << 20) /* bytes of a stack that are searched */
#define MEMORY_NAME "[anon:" IP_RT_SONAME "]"

static const uint8_t image[] __attribute__((aligned(16))) = {
#include "runtime/rt_image.h"
};

struct injection {
	struct ip_target *target;
	const struct ip_rt_image *head;
	struct ip_inject_room room;
	struct ip_text_padding padding; /* where the code stands */
	uint64_t memory;		/* address of the memory that was made; 0: none yet */
	/* from the thread pointer to a thread's id, in bytes; 0: not known yet */
	uint64_t tid_at;
	bool odd;    /* a thread's id was not where C libraries keep it */
	bool astray; /* a thread may still be in the text padding */
	uint64_t held_ns;
};

static size_t code_size(void)
{
	return ip_inject_code_end - ip_inject_code;
}

static uint64_t place_of(const struct injection *in, const uint8_t *label)
{
	return in->padding.address + (label - ip_inject_code);
}

/* The soft limit of that name in /proc/PID/limits; UINT64_MAX: there is none. */
static uint64_t limit_of(pid_t pid, const char *name)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[64], line[256];
	uint64_t value;

	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			return sscanf(line + strlen(name), "%lu", &value) == 1 ? value : UINT64_MAX;
	return UINT64_MAX;
}

/* Bytes of the memory that holds the image and a pool. */
static uint64_t memory_size(const struct injection *in)
{
	return in->head->pool + in->room.pool;
}

/* Step 1: whether the limits leave room for the image, the area and two pools. 0, or -1 with the
 * reason. */
static int check_limits(const struct ip_target *target, const struct ip_inject_room *room)
{
	const struct ip_rt_image *head = (const struct ip_rt_image *)image;
	const uint64_t area = room->area < IP_AREA_OWN_SIZE
				      ? room->area - (IP_AREA_TABLES_END - IP_AREA_TABLES_OFFSET)
				      : room->area;
	uint64_t need = head->pool + 2 * room->pool + area + (1 << 20);
	uint64_t space = limit_of(target->pid, "Max address space"),
		 files = limit_of(target->pid, "Max file size");
	long used = ip_proc_status(target->pid, "VmSize");

	if (used >= 0 && space != UINT64_MAX && (uint64_t)used * 1024 + need > space)
		return ip_error("pid %d: its limit on address space (%lu MiB, of which %ld are "
				"used) leaves no room for iprobe's runtime, which takes %lu MiB: "
				"raise it (prlimit --as)%s, or start it with a higher one",
				target->pid, space >> 20, used >> 10, need >> 20,
				room->area > IP_AREA_SMALL_SIZE && room->area < IP_AREA_OWN_SIZE
					? ", give less --memory"
					: "");
	/* A program sets this for itself, while it runs: nobody can start it with a higher one. */
	if (!files)
		return ip_error(
			"pid %d: it has forbidden itself to write files (RLIMIT_FSIZE 0, as "
			"a sandbox has it), which holds for shared memory too: iprobe's "
			"runtime takes %llu bytes: if it lives on, have root raise it "
			"(prlimit --pid %d --fsize=%llu) and attach again; if not, it "
			"cannot be recorded",
			target->pid, IP_AREA_SMALL_FILE, target->pid, IP_AREA_SMALL_FILE);
	if (files < IP_AREA_SMALL_FILE)
		return ip_error("pid %d: its limit on file sizes, which holds for shared memory "
				"too, is %lu bytes: iprobe's runtime takes %llu: raise it (prlimit "
				"--fsize), or start it with a higher one",
				target->pid, files, IP_AREA_SMALL_FILE);
	return 0;
}

int ip_inject_check(const struct ip_target *target, const struct ip_inject_room *room)
{
	const struct ip_inject_room least = {IP_AREA_SMALL_SIZE, IP_POOL_SIZE_LEAST};

	if (target->arch->bits != 64)
		return ip_error("pid %d is a 32-bit process without iprobe's runtime, which can be "
				"put into 64-bit ones only: start it with iprobe run",
				target->pid);
	if (ip_proc_status(target->pid, "Seccomp") > 0 && !ip_borrow_may_suspend_seccomp())
		return ip_error("pid %d does not have iprobe's runtime, and putting it there takes "
				"system calls for which its seccomp filter might kill it: attach "
				"as root (CAP_SYS_ADMIN), or start it with iprobe run",
				target->pid);
	return ip_borrow_check(target->pid) < 0 ? -1 : check_limits(target, room ? room : &least);
}

bool ip_inject_is_in_use(struct ip_target *target, uint64_t address, uint64_t size)
{
	struct user_regs_struct regs;
	struct ip_inject_header head;
	struct ip_stop stop;
	struct ip_wake block;
	bool found = true;
	char name[64];

	if (ip_target_read(target, address, &head, sizeof(head)) < 0 || size < sizeof(block) ||
	    head.block > size - sizeof(block) ||
	    ip_target_read(target, address + head.block, &block, sizeof(block)) < 0)
		return true;
	snprintf(name, sizeof(name), "/proc/%d/task/%lu", target->pid, block.tid);
	if (!block.tid || block.tid > INT32_MAX || ip_access(name, F_OK) < 0)
		return false;
	if (ip_stop_one(target, block.tid, STOP_NS, &stop) < 0)
		return ip_access(name, F_OK) == 0;
	if (ptrace(PTRACE_GETREGS, block.tid, 0, &regs) == 0) {
		const struct ip_mapping *m = ip_maps_find(&target->maps, regs.rsp);
		uint64_t words[512], end = m ? m->end : regs.rsp;

		found = regs.rip - address < size;
		if (end - regs.rsp > STACK_LOOK)
			end = regs.rsp + STACK_LOOK;
		for (uint64_t at = regs.rsp & ~7ull; at < end && !found; at += sizeof(words)) {
			ssize_t got = pread(target->mem, words, sizeof(words), at);

			for (ssize_t i = 0; i < got / 8; i++)
				found |= words[i] - address < size;
		}
	}
	ip_stop_end_look(&stop);
	return found;
}

/* Whether the memory holds nothing, or a part of the image without its magic number. */
static bool is_unfinished(const struct ip_target *target, const struct ip_rt_image *head,
			  uint64_t memory)
{
	static const uint8_t zeros[PAGE];
	uint8_t page[PAGE];

	for (uint64_t at = 0; at < head->data; at += PAGE)
		if (pread(target->mem, page, PAGE, memory + at) != (ssize_t)PAGE ||
		    (memcmp(page, zeros, PAGE) && memcmp(page, image + at, PAGE)))
			return false;
	return pread(target->mem, page, PAGE, memory + head->data) == (ssize_t)PAGE &&
	       !memcmp(page + offsetof(struct ip_rt_anchor, magic), zeros, sizeof(uint64_t));
}

bool ip_inject_is_intact(const struct ip_target *target)
{
	const struct ip_rt_image *ours = (const struct ip_rt_image *)image;
	struct ip_rt_image theirs;
	uint8_t page[PAGE];
	uint64_t memory;

	if (target->anchor_address < ours->data)
		return true;
	memory = target->anchor_address - ours->data;
	if (ip_target_read(target, memory, &theirs, sizeof(theirs)) < 0 ||
	    memcmp(&theirs, ours, sizeof(theirs)))
		return true;
	for (uint64_t at = 0; at < ours->data; at += PAGE)
		if (ip_target_read(target, memory + at, page, PAGE) < 0 ||
		    memcmp(page, image + at, PAGE))
			return false;
	return true;
}

/* Address of the fact how much of the area a runtime will map that was injected, and sleeps; 0: it
 * is no such runtime, or one of another build. */
static uint64_t area_size_of(const struct ip_target *target)
{
	const struct ip_rt_image *ours = (const struct ip_rt_image *)image;
	struct ip_rt_image theirs;
	uint64_t memory;

	if (!target->has_runtime || !target->injected || target->anchor.gate ||
	    target->anchor_address < ours->data)
		return 0;
	memory = target->anchor_address - ours->data;
	if (ip_target_read(target, memory, &theirs, sizeof(theirs)) < 0 ||
	    memcmp(&theirs, ours, sizeof(theirs)))
		return 0;
	return memory + ours->injection + offsetof(struct ip_injection, area_size);
}

uint64_t ip_inject_area_size(const struct ip_target *target)
{
	const uint64_t at = area_size_of(target);
	uint64_t size;

	return at && ip_target_read(target, at, &size, sizeof(size)) == 0 &&
			       size >= IP_AREA_SMALL_SIZE && size <= IP_AREA_OWN_SIZE
		       ? size
		       : 0;
}

int ip_inject_map_all(struct ip_target *target)
{
	const uint64_t at = area_size_of(target), all = IP_AREA_OWN_SIZE;

	return at ? ip_target_write(target, at, &all, sizeof(all)) : 0;
}

static bool is_part(const struct ip_mapping *m, const char *perms, uint64_t start, uint64_t end)
{
	return !m->inode && !memcmp(m->perms, perms, 4) && m->start == start && m->end == end &&
	       (!m->path[0] || !strcmp(m->path, MEMORY_NAME));
}

/* How much of the mapping is surely ours, and no more than is asked for. A mapping without a name
 * may have been merged with one of the program's that adjoins it: then it is of another size than
 * is asked for, and has a pool of the least size at its beginning. */
static uint64_t own_part(const struct ip_mapping *m, uint64_t asked)
{
	const uint64_t size = m->end - m->start,
		       own = m->path[0] || size == asked ? size : IP_POOL_SIZE_LEAST;

	return own < asked ? own : asked;
}

/* Step 1: finds memory that an iprobe which died had made for this very image. Its address; 0:
 * there is none. *pool: how large its pool is to be; how large it is. */
static uint64_t find_memory(const struct ip_target *target, const struct ip_rt_image *head,
			    uint64_t *pool)
{
	for (size_t i = 0; i + 2 < target->maps.n; i++) {
		const struct ip_mapping *m = &target->maps.items[i];
		uint64_t start = m->start;

		if (is_part(&m[0], "r-xp", start, start + head->data) &&
		    is_part(&m[1], "rw-p", start + head->data, start + head->pool) &&
		    is_part(&m[2], "r-xp", start + head->pool, m[2].end) &&
		    m[2].end - m[2].start >= IP_POOL_SIZE_LEAST &&
		    is_unfinished(target, head, start)) {
			*pool = own_part(&m[2], *pool);
			return start;
		}
	}
	return 0;
}

/* Address of the executable's program headers, as the kernel told it to the process; 0: not
 * known. */
static uint64_t executable_of(pid_t pid)
{
	_cleanup_close_ int fd = -1;
	Elf64_auxv_t auxv[64];
	char name[64];
	ssize_t got;

	snprintf(name, sizeof(name), "/proc/%d/auxv", pid);
	fd = ip_delegation_open(name, O_RDONLY);
	got = fd >= 0 ? read(fd, auxv, sizeof(auxv)) : 0;
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(*auxv); i++)
		if (auxv[i].a_type == AT_PHDR)
			return auxv[i].a_un.a_val;
	return 0;
}

/* Step 2. The code goes into the executable, which stays mapped. If there is no room, it goes into
 * the last module that has room: at the end of the address space lie the libraries that came with
 * the executable, rather than those that dlclose() may unmap under the thread. The last resort is
 * the kernel's own library (vdso), which every process has. */
static int place_code(struct injection *in)
{
	_cleanup_free_ struct ip_text_padding *all = NULL;
	const struct ip_inject_arguments facts = {memory_size(in), in->head->data,
						  in->head->pool - in->head->data};
	_cleanup_free_ uint8_t *code = malloc(code_size());
	const struct ip_mapping *own =
		ip_maps_find(&in->target->maps, executable_of(in->target->pid));
	size_t n, best = SIZE_MAX;

	if (!code || ip_text_padding_find(in->target, &all, &n) < 0)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++) {
		if (all[i].left_behind || all[i].size < code_size())
			continue;
		if (best == SIZE_MAX || strcmp(all[i].path, "[vdso]"))
			best = i;
		if (own && !strcmp(all[i].path, own->path))
			break;
	}
	if (best == SIZE_MAX)
		return ip_error("pid %d: no module has %zu bytes to spare behind its code, which "
				"putting iprobe's runtime there takes: start it with iprobe run",
				in->target->pid, code_size());
	in->padding = all[best];
	memcpy(code, ip_inject_code, code_size());
	memcpy(code + (ip_inject_code_arguments - ip_inject_code), &facts, sizeof(facts));
	return ip_target_write(in->target, in->padding.address, code, code_size());
}

/* Step 3: whether the thread's id is where a C library that we know keeps it. */
static bool knows_tid(struct injection *in, const struct ip_borrowed *b)
{
	uint64_t base = ip_arch_thread_pointer(&b->regs);
	uint32_t tid = ip_proc_inner_pid(b->tid), there;

	for (size_t i = 0; base && i < sizeof(ip_arch_tid_places) / sizeof(*ip_arch_tid_places);
	     i++)
		if (pread(in->target->mem, &there, sizeof(there), base + ip_arch_tid_places[i]) ==
			    sizeof(there) &&
		    there == tid) {
			in->tid_at = ip_arch_tid_places[i];
			return true;
		}
	in->odd = true;
	return false;
}

/* Whether the code stands there as it was written. This leaves out what lies behind it: the facts
 * that it reads, and the way back. */
static bool holds_code(const struct injection *in)
{
	const size_t size = ip_inject_code_arguments - ip_inject_code;
	uint8_t there[PAGE];

	return size <= sizeof(there) &&
	       ip_target_read(in->target, in->padding.address, there, size) == 0 &&
	       !memcmp(there, ip_inject_code, size);
}

/* Steps 4 to 6. 1: the memory is there; 0: begin again from step 3; -1 with the reason. */
static int visit(struct injection *in, struct ip_borrowed *b)
{
	uint64_t block = place_of(in, ip_inject_code_arguments) +
			 sizeof(struct ip_inject_arguments),
		 made;
	struct ip_wake way = {.mask = b->mask, .tid = b->tid};
	struct user_regs_struct regs = b->regs;
	int ret;

	ip_arch_way_back(&b->regs, &way);
	if (!ip_text_padding_is_ours(in->target, &in->padding))
		return ip_error("pid %d: the module in which iprobe was at work has been unloaded: "
				"try again",
				in->target->pid);
	if (!holds_code(in))
		return ip_error("pid %d: somebody else has written where iprobe was at work: no "
				"thread is sent there",
				in->target->pid);
	if (ip_target_write(in->target, block, &way, sizeof(way)) < 0)
		return -1;
	ip_arch_send_lightly(
		&regs, place_of(in, in->memory ? ip_inject_code_resume : ip_inject_code_start),
		in->memory);
	ret = ip_borrow_visit(b, &regs, place_of(in, ip_inject_code_start),
			      place_of(in, ip_inject_code_end), RUN_NS);
	/* If the thread is confined, the address that the kernel returned counts: the registers may
	 * hold what another thread of the process has chosen. */
	made = b->confined && !in->memory ? b->confined->memory : ip_arch_made(&regs);
	if (ret < 0 || (regs.rip - in->padding.address >= code_size() && ret == 0))
		return ret;
	/* if the thread is on its way back, its registers are its own and say nothing of our
	 * memory */
	if (ret == 0 && regs.rip > place_of(in, ip_inject_code_back))
		return 0;
	if (made && !(made % PAGE))
		in->memory = made;
	if (ret == 0)
		return 0;
	if (made % PAGE)
		return ip_error("pid %d: no memory for iprobe's runtime: %s (limits on address "
				"space, locked memory, number of mappings)",
				in->target->pid, strerror(-(int)made));
	if (ip_arch_made_writable(&regs))
		return ip_error("pid %d: no memory for iprobe's runtime: %s", in->target->pid,
				strerror(-(int)ip_arch_made_writable(&regs)));
	return 1;
}

/* Steps 3 to 6. */
static int make_memory(struct injection *in)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	uint64_t began = ip_now_ns(), held;
	struct ip_borrowed b;

	for (;;) {
		struct ip_confined confined = {.pidfd = in->target->pidfd,
					       .size = memory_size(in),
					       .data = in->head->data,
					       .data_size = in->head->pool - in->head->data,
					       .memory = in->memory};
		int got;

		ip_stop_let_go(in->target);
		got = ip_borrow_begin(in->target, ip_borrow_anyone(ip_now_ns() - began), &confined,
				      &b);
		if (got < 0)
			return -1;
		if (got) {
			got = knows_tid(in, &b) ? visit(in, &b) : 0;
			held = ip_borrow_end(&b);
			/* the thread may have gone back by itself: then the memory that it made is
			 * there */
			if (got == 0 && !in->memory && ip_target_refresh(in->target) == 0)
				in->memory = find_memory(in->target, in->head, &in->room.pool);
			in->held_ns = held > in->held_ns ? held : in->held_ns;
			in->astray |= b.astray;
			if (got)
				return got < 0 ? -1 : 0;
		}
		if (!ip_target_alive(in->target))
			return ip_error("pid %d has ended", in->target->pid);
		if (ip_now_ns() - began > LIMIT_NS && in->odd && !in->tid_at)
			return ip_error(
				"pid %d: its threads do not keep their ids where glibc and musl "
				"do, and iprobe's runtime needs them: start it with iprobe run",
				in->target->pid);
		if (ip_now_ns() - began > LIMIT_NS)
			return ip_error("pid %d does not have iprobe's runtime, and none of its "
					"threads could be borrowed to put it there (the process is "
					"stopped, its threads sleep uninterruptibly or under "
					"seccomp%s): try again, or start it with iprobe run",
					in->target->pid, ip_borrow_hindrance());
		nanosleep(&nap, NULL);
	}
}

/* Notes the rooms for stubs that are still as the loader mapped them. */
static void list_rooms(const struct ip_target *target, const struct ip_modules *modules,
		       struct ip_injection *ret)
{
	for (size_t i = 0; i < modules->n && ret->nrooms < IP_INJECTION_ROOMS; i++) {
		const struct ip_mapping *m;
		struct ip_stub_room room;

		if (!ip_module_room(&modules->items[i], &room))
			continue;
		m = ip_maps_find(&target->maps, room.address);
		if (!m || m->inode || memcmp(m->perms, "rw-p", 4) ||
		    room.address + room.size > m->end)
			continue;
		ret->rooms[ret->nrooms].address = room.address;
		ret->rooms[ret->nrooms++].size = room.size;
	}
}

/* Step 8. */
static int write_image(const struct injection *in, const struct ip_modules *modules)
{
	const uint64_t magic = IP_RT_MAGIC;
	_cleanup_free_ uint8_t *bytes = malloc(sizeof(image));
	struct ip_rt_anchor *anchor;
	struct ip_injection *facts;

	if (!bytes)
		return ip_error("out of memory");
	memcpy(bytes, image, sizeof(image));
	anchor = (struct ip_rt_anchor *)(bytes + in->head->data);
	anchor->tid_at = in->tid_at;
	anchor->wake = in->memory + in->head->wake;
	anchor->wake_end = in->memory + in->head->wake_end;
	anchor->wake_block = in->memory + in->head->wake_block;
	facts = (struct ip_injection *)(bytes + in->head->injection);
	facts->tid_at = in->tid_at;
	facts->executable = executable_of(in->target->pid);
	facts->area_size = in->room.area;
	facts->pool_size = in->room.pool;
	list_rooms(in->target, modules, facts);
	if (ip_target_write(in->target, in->memory, bytes, sizeof(image)) < 0)
		return -1;
	return ip_target_write(in->target,
			       in->memory + in->head->data + offsetof(struct ip_rt_anchor, magic),
			       &magic, sizeof(magic));
}

/* Steps 2 to 7. */
static int prepare(struct injection *in)
{
	_cleanup_free_ char *why = NULL;
	int ret;

	if (place_code(in) < 0)
		return -1;
	ret = make_memory(in);
	if (ret < 0)
		why = strdup(ip_error_message());
	if (!in->astray && ip_target_alive(in->target))
		ip_text_padding_restore(in->target, &in->padding, code_size());
	return ret < 0 ? ip_error("%s", why ? why : "out of memory") : 0;
}

int ip_inject(struct ip_target *target, const struct ip_modules *modules,
	      const struct ip_inject_room *room, uint64_t *ret_held_ns)
{
	struct injection in = {
		.target = target, .head = (const struct ip_rt_image *)image, .room = *room};
	_cleanup_close_ int fd = -1;

	*ret_held_ns = 0;
	if (target->has_runtime)
		return 0;
	if (ip_inject_check(target, room) < 0)
		return -1;
	fd = ip_borrow_lock(target->pid);
	if (fd < 0 || ip_target_refresh(target) < 0)
		return -1;
	if (target->has_runtime)
		return 0;
	ip_text_padding_tidy(target);
	in.memory = find_memory(target, in.head, &in.room.pool);
	if (prepare(&in) < 0 || write_image(&in, modules) < 0)
		return -1;
	*ret_held_ns = in.held_ns;
	if (ip_target_refresh(target) < 0)
		return -1;
	return target->has_runtime
		       ? 0
		       : ip_error("pid %d: it has become another program: try again", target->pid);
}

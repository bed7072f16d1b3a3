/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offers a copy of a stack to libdwfl as if it were a process with one thread.
 */
#include "hotpatcher/process/stack_unwind.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elf/eh_frame_hdr.h"
#include "common/error.h"

#define SP_X86_64 7 /* DWARF numbers of the stack pointer */
#define SP_I386	  4
#define VDSO_MAX  (256u << 10)

/* Where the functions of a module with probes begin. */
struct starts {
	struct ip_eh_frame_hdr hdr;
	uint64_t bias; /* load bias of the module */
};

struct ip_stack_unwind {
	Dwfl *dwfl;
	struct starts *starts; /* by index of the modules */
	size_t nstarts;
	/* the walk */
	const struct ip_stack_copy *copy;
	struct ip_unwind_frame *frames;
	size_t n;
	uint64_t sp; /* of the frame before */
	bool at_end;
};

/* libdwfl asks for files that it has not been given: there are none. */
static int find_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
		    char **ret_name, Elf **ret_elf)
{
	return -1;
}

static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			  const char *file, const char *link, GElf_Word crc, char **ret_name)
{
	return -1;
}

static const Dwfl_Callbacks no_files = {.find_elf = find_elf, .find_debuginfo = find_debuginfo};

static pid_t next_thread(Dwfl *dwfl, void *context, void **thread)
{
	const struct ip_stack_unwind *u = context;

	if (*thread || !u->copy)
		return 0;
	*thread = context;
	return u->copy->tid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *context, void **thread)
{
	const struct ip_stack_unwind *u = context;

	*thread = context;
	return u->copy && u->copy->tid == tid;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *ret, void *context)
{
	const struct ip_stack_copy *copy = ((struct ip_stack_unwind *)context)->copy;
	const size_t width = copy->narrow ? 4 : 8;
	uint64_t word = 0;

	if (address < copy->sp || copy->size < width || address - copy->sp > copy->size - width)
		return false;
	memcpy(&word, copy->bytes + (address - copy->sp), width);
	*ret = word;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *context)
{
	const struct ip_stack_copy *copy = ((struct ip_stack_unwind *)context)->copy;

	return dwfl_thread_state_registers(thread, 0, copy->narrow ? 9 : IP_STACK_COPY_REGISTERS,
					   copy->registers);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {.next_thread = next_thread,
						       .get_thread = get_thread,
						       .memory_read = read_memory,
						       .set_initial_registers = set_registers};

/* Returns where the function begins that the pc lies in, if its module has probes and unwind
 * tables; else 0. */
static uint64_t start_of(const struct ip_stack_unwind *u, uint64_t pc)
{
	Dwfl_Module *module = dwfl_addrmodule(u->dwfl, pc);
	void **index = NULL;
	Dwarf_Addr bias = 0;
	Dwarf_CFI *cfi = module ? dwfl_module_eh_cfi(module, &bias) : NULL;
	Dwarf_Frame *frame = NULL;
	const struct starts *s;
	uint64_t start;

	if (!cfi || !dwfl_module_info(module, &index, NULL, NULL, NULL, NULL, NULL, NULL) ||
	    !index || !*index || dwarf_cfi_addrframe(cfi, pc - bias, &frame) != 0)
		return 0;
	free(frame); /* its table has the pc: then the index has the function */
	s = *index;
	start = ip_eh_frame_hdr_find(&s->hdr, pc - s->bias);
	return start ? start + s->bias : 0;
}

/* A frame's caller is known when libdwfl has come to that one: its stack pointer. */
static int on_frame(Dwfl_Frame *state, void *context)
{
	struct ip_stack_unwind *u = context;
	struct ip_unwind_frame *f = &u->frames[u->n];
	Dwarf_Word sp;
	Dwarf_Addr pc;
	bool exact;

	if (!dwfl_frame_pc(state, &pc, &exact) ||
	    dwfl_frame_reg(state, u->copy->narrow ? SP_I386 : SP_X86_64, &sp) != 0)
		return DWARF_CB_ABORT;
	/* a call takes room for the return address */
	if (u->at_end ? sp <= u->sp : sp != u->copy->sp)
		return DWARF_CB_ABORT;
	if (u->at_end) {
		f->caller = sp;
		f = &u->frames[++u->n];
	}
	if (u->n == IP_STACK_UNWIND_MAX)
		return DWARF_CB_ABORT;
	*f = (struct ip_unwind_frame){
		.start = start_of(u, exact ? pc : pc - 1), .pc = pc, .exact = exact};
	u->sp = sp;
	u->at_end = true;
	return DWARF_CB_OK;
}

/* Gives libdwfl the file of a module. It owns a descriptor that it has accepted. */
static Dwfl_Module *report(Dwfl *dwfl, const char *name, int fd, uint64_t base)
{
	Dwfl_Module *module = fd < 0 ? NULL : dwfl_report_elf(dwfl, name, name, fd, base, true);

	if (!module && fd >= 0)
		close(fd);
	return module;
}

static int report_module(struct ip_stack_unwind *u, const struct ip_module *m)
{
	struct starts *starts = &u->starts[u->nstarts++];
	Dwfl_Module *module;
	void **index = NULL;

	if (!m->elf)
		return 0;
	module = report(u->dwfl, m->path, fcntl(m->elf->fd, F_DUPFD_CLOEXEC, 0), m->load_bias);
	if (!module || !m->list)
		return 0;
	starts->bias = m->load_bias;
	if (ip_eh_frame_hdr_read(m->elf, &starts->hdr) < 0)
		return -1;
	dwfl_module_info(module, &index, NULL, NULL, NULL, NULL, NULL, NULL);
	if (index)
		*index = starts;
	return 0;
}

/* The kernel's own library is a file only in the target's memory. */
static void report_vdso(Dwfl *dwfl, const struct ip_target *target)
{
	_cleanup_free_ uint8_t *image = NULL;

	for (size_t i = 0; i < target->maps.n; i++) {
		const struct ip_mapping *m = &target->maps.items[i];
		const uint64_t size = m->end - m->start;
		int fd;

		if (strcmp(m->path, "[vdso]") || size > VDSO_MAX)
			continue;
		image = malloc(size);
		if (!image || ip_target_read(target, m->start, image, size) < 0)
			return;
		fd = memfd_create("vdso", MFD_CLOEXEC);
		if (fd >= 0 && write(fd, image, size) != (ssize_t)size) {
			close(fd);
			return;
		}
		report(dwfl, "[vdso]", fd, m->start);
		return;
	}
}

int ip_stack_unwind_create(const struct ip_target *target, const struct ip_modules *modules,
			   struct ip_stack_unwind **ret)
{
	struct ip_stack_unwind *u = calloc(1, sizeof(*u));
	bool failed = false;

	if (u) {
		u->starts = calloc(modules->n + 1, sizeof(*u->starts));
		u->dwfl = dwfl_begin(&no_files);
	}
	if (!u || !u->starts || !u->dwfl) {
		ip_stack_unwind_destroy(u);
		return ip_error("out of memory");
	}
	dwfl_report_begin(u->dwfl);
	for (size_t i = 0; i < modules->n && !failed; i++)
		failed = report_module(u, &modules->items[i]) < 0;
	report_vdso(u->dwfl, target);
	dwfl_report_end(u->dwfl, NULL, NULL);
	if (!failed && !dwfl_attach_state(u->dwfl, NULL, target->pid, &thread_callbacks, u))
		failed = ip_error("pid %d: its stacks cannot be walked: %s", target->pid,
				  dwfl_errmsg(-1));
	if (failed) {
		ip_stack_unwind_destroy(u);
		return -1;
	}
	*ret = u;
	return 0;
}

void ip_stack_unwind_destroy(struct ip_stack_unwind *u)
{
	if (!u)
		return;
	if (u->dwfl)
		dwfl_end(u->dwfl);
	for (size_t i = 0; i < u->nstarts; i++)
		ip_eh_frame_hdr_clear(&u->starts[i].hdr);
	free(u->starts);
	free(u);
}

size_t ip_stack_unwind_walk(struct ip_stack_unwind *u, const struct ip_stack_copy *copy,
			    struct ip_unwind_frame *frames, bool *ret_whole)
{
	u->copy = copy;
	u->frames = frames;
	u->n = 0;
	u->at_end = false;
	*ret_whole = dwfl_getthread_frames(u->dwfl, copy->tid, on_frame, u) == 0;
	u->copy = NULL;
	return u->n;
}

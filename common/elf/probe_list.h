/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe list: all probes of one module, keyed by its build-id.
 *
 * ColdPatch writes it, everything else reads it. It is one block of bytes. The block is the same in
 * the module (non-allocated section IP_PROBE_SECTION) and in a file of its own (*.probes). It is
 * little-endian and position-independent, and can be used directly from mmap:
 *
 *   struct ip_pl_header
 *   struct ip_pl_function[nfunctions]      at functions_offset
 *   struct ip_pl_probe[nprobes]            at probes_offset, ascending by offset
 *   char strings[strings_size]             at strings_offset, first byte '\0',
 *                                          last byte '\0'
 *
 * The reader does not trust the block. ip_probe_list_parse() checks every offset, index and string
 * once. After that the accessors cannot go out of bounds.
 */
#ifndef IP_PROBE_LIST_H
#define IP_PROBE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_PROBE_SECTION ".iprobe.probes"
/* the sites as iprobe-cc's compilations leave them: coldpatch makes the list of it, and drops it */
#define IP_SITE_TABLE_SECTION ".pdr.iprobe"
#define IP_STUB_SECTION                                                                            \
	".iprobe.stubs" /* NOBITS, page-aligned, behind the data: room for stubs                   \
			 */
#define IP_PL_MAGIC "iprobePL"
/* 3: a caller may keep values in any register that a function does not use, r11 too, so hooks must
 * preserve all of them. An iprobe that reads version 2 only has hooks that do not. */
#define IP_PL_VERSION	     3
#define IP_PL_OLDEST_VERSION 2
#define IP_BUILD_ID_MAX	     32

enum ip_placement {
	IP_PLACEMENT_INSTRUMENT = 1,
	IP_PLACEMENT_FENTRY = 2,
	IP_PLACEMENT_INLINE = 3,
};

/* Also the event id of the compact record in a trace (trace_format.h). */
enum ip_probe_kind {
	IP_PROBE_ENTRY = 1,
	IP_PROBE_EXIT = 2,
	IP_PROBE_TAIL_EXIT = 3, /* the function ends with a jump to another function */
	IP_PROBE_POINT = 4,	/* a developer's IPROBE_POINT */
};

/* What a site looks like, idle and live (common/arch/ARCH/site.c). */
enum ip_site_form {
	/* a NOP; when live, a call of the stub. Memory below the stack pointer holds nothing that
	 * is in use */
	IP_FORM_CALL = 0,
	/* a return and a NOP; when live, a jump to the stub. The hook returns for the function. It
	 * is the function's own return (kind EXIT, registers RETURN), or an exit hook that was
	 * tail-called (kind TAIL_EXIT, registers CALL). What lies behind the first byte of an idle
	 * site is never executed */
	IP_FORM_RETURN = 1,
	/* a NOP; when live, a jump to a stub of the site's own, which steps over the red zone and
	 * jumps back */
	IP_FORM_JUMP = 2,
	/* the jump to another function with which this one ends (kind TAIL_EXIT, registers ALL);
	 * when live, a jump to a stub of the site's own, which jumps there after its hook. It does
	 * not cross a page, unless after its first byte, which is the same idle and live */
	IP_FORM_TAIL = 3,
	/* the jump of a PLT entry through its slot (kind ENTRY, registers ALL, ENTRY_ONLY); when
	 * live, a jump to a stub of the site's own, which jumps through the same slot after its
	 * hook. It never crosses a page. x86-64 alone has it (hotpatcher/process/plt.h) */
	IP_FORM_PLT = 4,
};

/* Which registers hold live values at a site, besides those that a call preserves. */
enum ip_site_regs {
	IP_REGS_CALL = 0, /* none: the compiler expects a call here (placement instrument) */
	/* a function's first instruction: every register that can carry an argument, also rax and
	 * r10, and r11, in which a caller that knows what the function uses may keep a value
	 * (gcc's -fipa-ra). The flags are free, and what is below the stack pointer */
	IP_REGS_ENTRY = 1,
	/* in front of a return: rax, rdx, xmm0, xmm1, x87, and every register that the function has
	 * not used. The flags are free, and what is below the stack pointer */
	IP_REGS_RETURN = 2,
	IP_REGS_ALL = 3, /* everything, also the flags: tail jumps, placement inline, points */
};

/* How ColdPatch found sites; a list may hold several kinds. Bits of ip_pl_header.found_by. */
#define IP_FOUND_BY_TABLE	0x1u /* the table that the assembler stage or a macro has written */
#define IP_FOUND_BY_RELOCATIONS 0x2u /* relocations that the linker kept */
#define IP_FOUND_BY_DECODING	0x4u /* calls found by decoding the code */
/* NOPs of other tools: patchable entries, __mcount_loc, XRay sleds */
#define IP_FOUND_BY_FOREIGN 0x8u

/* The probe belongs to an instance of its function that was inlined into another function: its
 * stack frame is the frame of that other function. Readers of traces need this to close frames. */
#define IP_PROBE_INLINED 0x01
/* An entry whose function has no exit probes: its calls are counted, but their ends are not
 * known. */
#define IP_PROBE_ENTRY_ONLY 0x02
/* The flags are not live, whatever regs says: the next code sets them, or leaves the function. Such
 * a site can be written wherever it crosses a page. */
#define IP_PROBE_FLAGS_DEAD 0x04

struct ip_elf_file;

struct ip_pl_header {
	char magic[8];
	uint32_t version;
	uint32_t header_size;
	uint32_t machine;   /* EM_X86_64, EM_386 */
	uint32_t placement; /* enum ip_placement of most probes */
	uint32_t nfunctions;
	uint32_t nprobes;
	uint64_t functions_offset;
	uint64_t probes_offset;
	uint64_t strings_offset;
	uint64_t strings_size;
	uint32_t build_id_size; /* 1..IP_BUILD_ID_MAX */
	uint8_t build_id[IP_BUILD_ID_MAX];
	uint32_t found_by; /* IP_FOUND_BY_... */
	/* Room for stubs that the module brings (section IP_STUB_SECTION), as a link-time address;
	 * 0: none */
	uint64_t stub_area_offset, stub_area_size;
	/* struct ip_rt_anchor of a runtime that is linked in; 0: none */
	uint64_t rt_anchor_offset;
};

struct ip_pl_function {
	uint64_t address; /* link-time address of the function; 0: unknown */
	uint32_t name;	  /* linker name, offset into strings; never 0 */
	uint32_t file;	  /* source file, offset into strings; 0: unknown */
	uint32_t line;	  /* line of the function's declaration; 0: unknown */
	uint32_t reserved;
};

struct ip_pl_probe {
	uint64_t offset;   /* link-time address of the site, as nm prints it */
	uint32_t function; /* index of the function */
	uint32_t line;	   /* line of the site; 0: unknown */
	uint8_t kind;	   /* enum ip_probe_kind */
	uint8_t length;	   /* bytes of the site: 5 or 6 */
	uint8_t flags;	   /* IP_PROBE_INLINED, IP_PROBE_ENTRY_ONLY, IP_PROBE_FLAGS_DEAD */
	uint8_t form;	   /* enum ip_site_form */
	uint8_t regs;	   /* enum ip_site_regs */
	uint8_t reserved[3];
	/* for a point: where its arguments are (common/elf/point_args.h), offset into strings; 0:
	 * none */
	uint32_t args;
	union {
		/* for an entry: bytes from the stack pointer at the site to the caller's stack
		 * pointer before its call; 0: unknown. Readers of traces need it to tell a new call
		 * from a call inside of a frame that has ended */
		uint32_t frame; /* ip_probe_frame() */
		/* for a point: the text of its arguments in the source (common/elf/point_names.h),
		 * offset into strings; 0: not known */
		uint32_t arg_text;
		/* for form TAIL: bytes from the site's end to where it jumps when idle; for form
		 * PLT: to the slot through which it jumps */
		int32_t jump;
	};
};

struct ip_probe_list {
	const struct ip_pl_header *header;
	const struct ip_pl_function *functions;
	const struct ip_pl_probe *probes;
	const char *strings;
	void *owned; /* freed by ip_probe_list_destroy() */
};

/* Checks a block, and makes a list over a private copy of it. Returns 0, or -1 with an error that
 * says what is wrong at which offset. */
int ip_probe_list_parse(const void *data, size_t size, struct ip_probe_list **ret);

/* Read a list from its own file. The second function reads it from a descriptor, which stays
 * open. */
int ip_probe_list_load(const char *path, struct ip_probe_list **ret);
int ip_probe_list_load_fd(int fd, const char *path, struct ip_probe_list **ret);

/* Reads the list from the section of an ELF file that is open on fd (fd stays open, its position
 * unchanged). Returns 1: found; 0: the ELF file has none (*ret is NULL); -1: error. path is for
 * messages. */
int ip_probe_list_from_elf(int fd, const char *path, struct ip_probe_list **ret);

/* Whether coldpatch has still to make the list: iprobe-cc has compiled the file, and another
 * compiler has linked it. */
bool ip_probe_list_is_to_be_made(struct ip_elf_file *elf);

/* The same of separate debug information, which has what strip took off the module: 0 also if it
 * is no such file. Whose list it is, its header says: the caller compares the build-id. */
int ip_probe_list_from_debug_file(int fd, const char *path, struct ip_probe_list **ret);

/* The path of the list of a build in a directory of lists: ".build-id/ab/cdef.probes". malloc'ed;
 * NULL: out of memory. */
char *ip_probe_list_file_name(const uint8_t *build_id, size_t size);

void ip_probe_list_destroy(struct ip_probe_list *list);

static inline const char *ip_probe_list_string(const struct ip_probe_list *list, uint32_t offset)
{
	return list->strings + offset;
}

const char *ip_placement_name(uint32_t placement); /* "instrument" ...; "?" */
const char *ip_probe_kind_name(uint32_t kind);	   /* "entry", "exit", "tail-exit", "point" */

/* Whether the site is the return of its function. The stack pointer is the same when it is live,
 * and the hook's `ret` leaves the function. */
static inline bool ip_probe_returns(unsigned kind, unsigned form)
{
	return kind == IP_PROBE_EXIT && form == IP_FORM_RETURN;
}

/* Whether a site of this form has a stub of its own, which lets the thread go on from there. */
static inline bool ip_form_has_own_stub(unsigned form)
{
	return form == IP_FORM_JUMP || form == IP_FORM_TAIL || form == IP_FORM_PLT;
}

/* The idle jump of a site of form TAIL or PLT; 0 for other forms, which have none. */
static inline int32_t ip_probe_jump(const struct ip_pl_probe *probe)
{
	return probe->form == IP_FORM_TAIL || probe->form == IP_FORM_PLT ? probe->jump : 0;
}

/* The frame of an entry. At a PLT entry there is the return address of the call alone. */
static inline uint32_t ip_probe_frame(const struct ip_pl_probe *probe)
{
	return probe->form == IP_FORM_PLT ? 8 : probe->frame;
}

/* The text of a point's arguments in the source; "" where it is not known. */
static inline const char *ip_probe_arg_text(const struct ip_probe_list *list,
					    const struct ip_pl_probe *probe)
{
	return ip_probe_list_string(list, probe->kind == IP_PROBE_POINT ? probe->arg_text : 0);
}

/* Whether the site is of a user's scope (IPROBE_SCOPE), as far as that is certain: in modules of
 * placement fentry. A function has other registers at its sites there, and an address. */
static inline bool ip_probe_is_scope(const struct ip_probe_list *list,
				     const struct ip_pl_probe *probe)
{
	return list->header->placement == IP_PLACEMENT_FENTRY &&
	       (probe->kind == IP_PROBE_ENTRY || probe->kind == IP_PROBE_EXIT) &&
	       probe->form == IP_FORM_JUMP && probe->regs == IP_REGS_ALL &&
	       !list->functions[probe->function].address;
}

/* The registers that transit() of struct ip_arch must preserve at this probe. */
static inline unsigned ip_probe_transit_regs(const struct ip_pl_probe *probe)
{
	return probe->flags & IP_PROBE_FLAGS_DEAD ? IP_REGS_CALL : probe->regs;
}

/* Makes a copy of the list with more functions behind its own, and their probes. names: of the new
 * functions, which have no address; probes: ascending by offset, each with the index of its name as
 * its function. They must not overlap with those of the list. 0, or -1 with an error. */
int ip_probe_list_extend(const struct ip_probe_list *list, const char *const *names, size_t nnames,
			 const struct ip_pl_probe *probes, size_t nprobes,
			 struct ip_probe_list **ret);

/* Builder. Strings are copied and shared; probes may be added in any order. */
struct ip_probe_list_builder;
int ip_probe_list_builder_create(uint32_t machine, enum ip_placement placement,
				 const uint8_t *build_id, size_t build_id_size,
				 struct ip_probe_list_builder **ret);
/* Index of the function; it is made if (name, address) is new. -1 with an error. file may be
 * NULL. */
int64_t ip_probe_list_builder_function(struct ip_probe_list_builder *b, const char *name,
				       uint64_t address, const char *file, uint32_t line);
/* probe->args, and of a point probe->arg_text, are ignored: args and arg_text are the texts
 * themselves; NULL: none. */
int ip_probe_list_builder_probe(struct ip_probe_list_builder *b, const struct ip_pl_probe *probe,
				const char *args, const char *arg_text);
/* Sets the other members of the header; they are 0 if this is not called. */
void ip_probe_list_builder_header(struct ip_probe_list_builder *b, uint32_t found_by,
				  uint64_t stub_area_offset, uint64_t stub_area_size,
				  uint64_t rt_anchor_offset);
/* The block (malloc'ed, caller frees); two probes that overlap are an error. */
int ip_probe_list_builder_finish(struct ip_probe_list_builder *b, void **ret_data,
				 size_t *ret_size);
void ip_probe_list_builder_destroy(struct ip_probe_list_builder *b);

#endif

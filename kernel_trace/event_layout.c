/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads layouts of tracepoints, and converts their records.
 */
#include "kernel_trace/event_layout.h"

#include <event-parse.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <tracefs.h>

#include "common/abi/own_call.h"
#include "common/arch/syscalls.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/kernel_probes.h"

#define TYPES	 65536u /* of tracepoints: 16 bits of each record */
#define HARDIRQ	 0x08u	/* of common_flags (trace_flag_type of the kernel) */
#define SOFTIRQ	 0x10u
#define ARGUMENT 8u /* bytes */

/* One field: bytes of the record that become bytes of the event. */
struct step {
	uint16_t from;
	uint8_t size, to_size;
	bool dynamic; /* at `from` stands where the bytes are: offset, and length << 16 */
	bool is_signed;
};

struct conversion {
	uint16_t id;
	struct ip_tracepoint tracepoint;
	unsigned nsteps;
	struct step steps[IP_KERNEL_FIELDS_MAX];
};

enum { PART_TYPE, PART_FLAGS, PART_PID, PARTS };

/* The event of entries, or that of returns, of the kernel's functions. */
struct function_event {
	int32_t type; /* -1: none */
	struct step number, ip, parent;
};

struct ip_event_layout {
	struct step common[PARTS];
	struct step number, arguments, result; /* of system calls */
	struct ip_tracepoint calls[2];	       /* raw_syscalls: entry, exit; system NULL: none */
	struct function_event functions[2];    /* entries; returns */
	uint8_t by_type[TYPES];		       /* index of conversions, from 1 on */
	struct conversion conversions[IP_KERNEL_EVENTS];
};

static bool find(struct tep_event *event, const char *name, struct step *ret)
{
	const struct tep_format_field *field = tep_find_any_field(event, name);

	if (!field || field->offset < 0 || field->offset > UINT16_MAX || field->size <= 0 ||
	    field->size > UINT8_MAX)
		return false;
	*ret = (struct step){.from = field->offset,
			     .size = field->size,
			     .dynamic = field->flags & TEP_FIELD_IS_DYNAMIC,
			     .is_signed = field->flags & TEP_FIELD_IS_SIGNED};
	return true;
}

/* Reads what a tracepoint's records look like. (tracefs_local_events_system() would read the
 * kernel's symbols as well, which takes longer than all the rest.) NULL: the kernel has it not. */
static struct tep_event *event_of(struct tep_handle *tep, const char *system, const char *name)
{
	struct tep_event *event = tep_find_event_by_name(tep, system, name);
	_cleanup_free_ char *format = NULL;
	int size;

	if (event)
		return event;
	format = tracefs_event_file_read(NULL, system, name, "format", &size);
	if (!format || size <= 0)
		return NULL;
	/* also of one whose text for people it does not understand: its fields are there */
	tep_parse_event(tep, format, size, system);
	return tep_find_event_by_name(tep, system, name);
}

static struct ip_tracepoint describe(const struct tep_event *event, const char *system,
				     const char *name, enum ip_kernel_group group)
{
	struct ip_tracepoint ret = {
		.system = system, .name = name, .type = event->id, .group = group};

	for (const struct tep_format_field *f = event->format.fields; f; f = f->next)
		if (f->offset + f->size > ret.size && f->offset + f->size <= UINT16_MAX)
			ret.size = f->offset + f->size;
	return ret;
}

/* A tracepoint that the kernel does not have is left out, and so is one without a field that we
 * need: its events would tell something wrong. */
static void add(struct ip_event_layout *layout, struct tep_handle *tep, unsigned id)
{
	const struct ip_kernel_kind *kind = ip_kernel_kind_of(id);
	struct conversion *c = &layout->conversions[id];
	struct tep_event *event;

	if (!kind || !kind->system)
		return;
	event = event_of(tep, kind->system, kind->tracepoint);
	if (!event || event->id < 0 || event->id >= (int)TYPES)
		return;
	for (; c->nsteps < IP_KERNEL_FIELDS_MAX && kind->fields[c->nsteps].name; c->nsteps++) {
		const struct ip_kernel_field *field = &kind->fields[c->nsteps];
		struct step *step = &c->steps[c->nsteps];

		/* newer kernels do not name the thread: it is the one that runs, where the name is
		 * that of a program which it executes */
		if (!find(event, field->of_tracepoint ? field->of_tracepoint : field->name, step) &&
		    (id != IP_KERNEL_TASK_RENAME || !find(event, "common_pid", step)))
			return;
		step->to_size = ip_kernel_type_size(field->type);
		if (field->type != IP_KERNEL_TEXT16 && (step->dynamic || step->size > 8))
			return;
	}
	c->id = id;
	c->tracepoint = describe(event, kind->system, kind->tracepoint, kind->group);
	layout->by_type[event->id] = id;
}

static void add_calls(struct ip_event_layout *layout, struct tep_handle *tep)
{
	struct tep_event *entry = event_of(tep, "raw_syscalls", "sys_enter"),
			 *exit = event_of(tep, "raw_syscalls", "sys_exit");
	struct step number;

	if (!entry || !exit || entry->id < 0 || entry->id >= (int)TYPES || exit->id < 0 ||
	    exit->id >= (int)TYPES || !find(entry, "id", &layout->number) ||
	    !find(entry, "args", &layout->arguments) || !find(exit, "ret", &layout->result) ||
	    !find(exit, "id", &number) || number.from != layout->number.from ||
	    layout->number.size != 8 || layout->result.size != 8 ||
	    layout->arguments.size != ARGUMENT * IP_SYSCALL_ARGUMENTS)
		return;
	layout->calls[0] = describe(entry, "raw_syscalls", "sys_enter", IP_KERNEL_GROUP_SYSCALLS);
	layout->calls[1] = describe(exit, "raw_syscalls", "sys_exit", IP_KERNEL_GROUP_SYSCALLS);
}

static int read_all(struct ip_event_layout *layout, struct tep_handle *tep)
{
	struct tep_event *any = event_of(tep, "sched", "sched_switch");

	if (!any)
		return ip_error("cannot read what records of sched:sched_switch look like");
	if (!find(any, "common_type", &layout->common[PART_TYPE]) ||
	    !find(any, "common_flags", &layout->common[PART_FLAGS]) ||
	    !find(any, "common_pid", &layout->common[PART_PID]) ||
	    layout->common[PART_TYPE].size != 2 || layout->common[PART_FLAGS].size != 1 ||
	    layout->common[PART_PID].size != 4)
		return ip_error("this kernel's records of sched_switch are laid out in a way that "
				"iprobe does not know");
	for (unsigned id = 0; id < IP_KERNEL_EVENTS; id++)
		add(layout, tep, id);
	add_calls(layout, tep);
	return 0;
}

static int add_function(struct function_event *ret, struct tep_handle *tep, const char *group,
			const char *name, const char *ip, const char *parent)
{
	struct tep_event *event = event_of(tep, group, name);

	if (!event || event->id < 0 || event->id >= (int)TYPES ||
	    !find(event, "number", &ret->number) || !find(event, ip, &ret->ip) ||
	    !find(event, parent, &ret->parent) || ret->number.size > 8 || ret->ip.size != 8 ||
	    ret->parent.size != 8)
		return ip_error("this kernel's records of probes are laid out in a way that iprobe "
				"does not know");
	ret->type = event->id;
	return 0;
}

int ip_event_layout_add_functions(struct ip_event_layout *layout,
				  const struct ip_kernel_probes *probes)
{
	struct tep_handle *tep = tep_alloc();
	int ret = -1;

	if (!tep)
		return ip_error("out of memory");
	if (add_function(&layout->functions[0], tep, probes->group, probes->entry, "__probe_ip",
			 "parent") == 0)
		ret = add_function(&layout->functions[1], tep, probes->group, probes->exit,
				   "__probe_func", "__probe_ret_ip");
	tep_free(tep);
	return ret;
}

struct ip_event_layout *ip_event_layout_read(void)
{
	struct tep_handle *tep;
	struct ip_event_layout *layout = calloc(1, sizeof(*layout));

	if (!layout) {
		ip_error("out of memory");
		return NULL;
	}
	layout->functions[0].type = layout->functions[1].type = -1;
	tep = tep_alloc();
	if (!tep || read_all(layout, tep) < 0) {
		if (!tep)
			ip_error("out of memory");
		ip_event_layout_free(layout);
		layout = NULL;
	}
	tep_free(tep);
	return layout;
}

char *ip_event_layout_missing(const struct ip_event_layout *layout, unsigned groups)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	const char *comma = "";

	for (unsigned id = 0; out && id < IP_KERNEL_EVENTS; id++) {
		const struct ip_kernel_kind *kind = ip_kernel_kind_of(id);

		if (!kind || !kind->system || kind->unwritten || !(groups >> kind->group & 1) ||
		    ip_event_layout_has(layout, id))
			continue;
		fprintf(out, "%s%s:%s", comma, kind->system, kind->tracepoint);
		comma = ", ";
	}
	if (out && groups >> IP_KERNEL_GROUP_SYSCALLS & 1 && !layout->calls[0].system)
		fprintf(out, "%sraw_syscalls:sys_enter, raw_syscalls:sys_exit", comma);
	if (!out || fclose(out)) {
		ip_error("out of memory");
		return NULL;
	}
	return text;
}

const struct ip_tracepoint *ip_event_layout_tracepoint(const struct ip_event_layout *layout,
						       unsigned id)
{
	const struct ip_tracepoint *found = NULL;

	if (id == IP_KERNEL_SYSCALL_ENTRY || id == IP_KERNEL_SYSCALL_EXIT)
		found = &layout->calls[id == IP_KERNEL_SYSCALL_EXIT];
	else if (id < IP_KERNEL_EVENTS)
		found = &layout->conversions[id].tracepoint;
	return found && found->system ? found : NULL;
}

unsigned ip_event_layout_offset(const struct ip_event_layout *layout, unsigned id, unsigned field)
{
	return layout->conversions[id].steps[field].from;
}

bool ip_event_layout_has(const struct ip_event_layout *layout, unsigned id)
{
	return id < IP_KERNEL_EVENTS && layout->conversions[id].id == id;
}

void ip_event_layout_free(struct ip_event_layout *layout)
{
	free(layout);
}

static uint64_t get(const uint8_t *record, const struct step *step)
{
	uint64_t value = 0;

	memcpy(&value, record + step->from, step->size);
	if (step->is_signed && step->size < 8 && value >> (8 * step->size - 1))
		value |= UINT64_MAX << (8 * step->size);
	return value;
}

/* A text of 16 bytes, the last of which is 0. */
static void put_text(uint8_t *out, const uint8_t *from, size_t size)
{
	size_t n = strnlen((const char *)from, size < 15 ? size : 15);

	memset(out, 0, 16);
	memcpy(out, from, n);
}

static bool take(const struct step *step, const uint8_t *record, size_t size, uint8_t *out)
{
	uint64_t value;

	if (step->from + step->size > size)
		return false;
	if (step->to_size == 16 && !step->dynamic) {
		put_text(out, record + step->from, step->size);
		return true;
	}
	value = get(record, step);
	if (step->to_size != 16) {
		memcpy(out, &value, step->to_size);
		return true;
	}
	if ((value & 0xffff) + (value >> 16 & 0xffff) > size)
		return false;
	put_text(out, record + (value & 0xffff), value >> 16 & 0xffff);
	return true;
}

bool ip_event_take_own_mark(uint64_t number, uint64_t arguments[IP_SYSCALL_ARGUMENTS])
{
	const bool is_copy = number == SYS_process_vm_readv || number == SYS_process_vm_writev;
	uint64_t *argument = &arguments[is_copy ? 0 : number == SYS_mmap ? 4 : 5];

	if (*argument >> 32 != IP_OWN_CALL || (argument == &arguments[5] && (uint32_t)*argument))
		return false;
	*argument = (int64_t)(int32_t)*argument;
	return true;
}

static size_t convert_call(const struct ip_event_layout *layout, const uint8_t *record, size_t size,
			   bool exit, struct ip_kernel_event_header *header, uint8_t *out)
{
	const struct step *from = exit ? &layout->result : &layout->arguments;
	uint64_t number, arguments[IP_SYSCALL_ARGUMENTS];
	int wanted;

	if (layout->number.from + layout->number.size > size ||
	    (size_t)from->from + from->size > size)
		return 0;
	number = get(record, &layout->number);
	if (!ip_kernel_has_syscall(number))
		return 0;
	header->id = number + (exit ? IP_KERNEL_SYSCALL_EXIT : IP_KERNEL_SYSCALL_ENTRY);
	wanted = ip_kernel_fields_size(header->id);
	if (exit) {
		memcpy(out, record + from->from, wanted);
	} else {
		memcpy(arguments, record + from->from, sizeof(arguments));
		if (ip_event_take_own_mark(number, arguments))
			header->context |= IP_KERNEL_OWN_CALL;
		memcpy(out, arguments, wanted);
	}
	return sizeof(struct ip_kernel_event_header) + wanted;
}

static size_t convert_function(const struct function_event *from, const uint8_t *record,
			       size_t size, bool exit, struct ip_kernel_event_header *header,
			       uint8_t *out)
{
	struct ip_kernel_function_fields fields;
	uint64_t number;

	if (from->number.from + from->number.size > size || from->ip.from + 8u > size ||
	    from->parent.from + 8u > size)
		return 0;
	number = get(record, &from->number);
	if (number >= IP_KERNEL_FUNCTIONS_MAX)
		return 0;
	header->id = number + (exit ? IP_KERNEL_FUNCTION_EXIT : IP_KERNEL_FUNCTION_ENTRY);
	fields.ip = get(record, &from->ip);
	fields.parent_ip = get(record, &from->parent);
	memcpy(out, &fields, sizeof(fields));
	return sizeof(struct ip_kernel_event_header) + sizeof(fields);
}

size_t ip_event_convert(const struct ip_event_layout *layout, const void *record, size_t size,
			uint64_t tsc, uint8_t *out)
{
	struct ip_kernel_event_header header = {.tsc = tsc};
	uint8_t *at = out + sizeof(header);
	const struct conversion *c;
	unsigned flags;
	int32_t type;
	size_t ret;

	for (unsigned i = 0; i < PARTS; i++)
		if (layout->common[i].from + layout->common[i].size > size)
			return 0;
	type = (uint16_t)get(record, &layout->common[PART_TYPE]);
	flags = get(record, &layout->common[PART_FLAGS]);
	header.tid = get(record, &layout->common[PART_PID]);
	header.context = (flags & HARDIRQ ? IP_KERNEL_IN_HARDIRQ : 0) |
			 (flags & SOFTIRQ ? IP_KERNEL_IN_SOFTIRQ : 0);
	if (layout->calls[0].system &&
	    (type == layout->calls[0].type || type == layout->calls[1].type)) {
		ret = convert_call(layout, record, size, type == layout->calls[1].type, &header,
				   at);
	} else if (type == layout->functions[0].type || type == layout->functions[1].type) {
		const bool exit = type == layout->functions[1].type;

		ret = convert_function(&layout->functions[exit], record, size, exit, &header, at);
	} else {
		if (!layout->by_type[type])
			return 0;
		c = &layout->conversions[layout->by_type[type]];
		header.id = c->id;
		for (unsigned i = 0; i < c->nsteps; at += c->steps[i++].to_size)
			if (!take(&c->steps[i], record, size, at))
				return 0;
		ret = at - out;
	}
	memcpy(out, &header, sizeof(header));
	return ret;
}

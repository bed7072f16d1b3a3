/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the TSDL text that describes the events of kernel_format.h.
 *
 * LTTng puts an underscore in front of each field, since a name might be a word of TSDL; readers
 * take it off.
 */
#include "common/trace/kernel_metadata.h"

#include <string.h>

#include "common/arch/syscalls.h"
#include "common/error.h"
#include "common/trace/ctf_text.h"
#include "common/trace/kernel_format.h"
#include "common/trace/kernel_functions.h"

static const char *type_name(enum ip_kernel_type type)
{
	switch (type) {
	case IP_KERNEL_S32:
		return "int32_t";
	case IP_KERNEL_U32:
		return "uint32_t";
	case IP_KERNEL_S64:
		return "int64_t";
	case IP_KERNEL_U64:
		return "uint64_t";
	case IP_KERNEL_X64:
		return "address_t";
	case IP_KERNEL_TEXT16:
		return "char_t";
	}
	return "";
}

static void write_types(FILE *out)
{
	fputs("typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
	      "typealias integer { size = 8; align = 8; signed = true; encoding = UTF8; } := "
	      "char_t;\n"
	      "typealias integer { size = 16; align = 8; signed = false; } := uint16_t;\n"
	      "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
	      "typealias integer { size = 32; align = 8; signed = true; } := int32_t;\n"
	      "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
	      "typealias integer { size = 64; align = 8; signed = true; } := int64_t;\n"
	      "typealias integer { size = 64; align = 8; signed = false; base = 16; } := "
	      "address_t;\n\n",
	      out);
}

static void write_kind(FILE *out, unsigned id, const struct ip_kernel_kind *kind)
{
	fprintf(out, "event { name = \"%s\"; id = %u; stream_id = 0; fields := struct {",
		kind->name, id);
	for (size_t i = 0; i < IP_KERNEL_FIELDS_MAX && kind->fields[i].name; i++)
		fprintf(out, " %s _%s%s;", type_name(kind->fields[i].type), kind->fields[i].name,
			kind->fields[i].type == IP_KERNEL_TEXT16 ? "[16]" : "");
	fputs(" }; };\n", out);
}

static void write_call(FILE *out, unsigned number)
{
	const struct ip_syscall *call = ip_syscall_find(number);
	char unknown[32];
	const char *name = unknown, *at = "arg0,arg1,arg2,arg3,arg4,arg5";

	snprintf(unknown, sizeof(unknown), "unknown_%u", number);
	if (call) {
		name = call->name;
		at = call->arguments;
	}
	fprintf(out,
		"event { name = \"syscall_entry_%s\"; id = %u; stream_id = 0; fields := struct {",
		name, IP_KERNEL_SYSCALL_ENTRY + number);
	while (*at) {
		size_t n = strcspn(at, ",");

		fprintf(out, " address_t _%.*s;", (int)n, at);
		at += n + (at[n] == ',');
	}
	fprintf(out,
		" }; };\nevent { name = \"syscall_exit_%s\"; id = %u; stream_id = 0; fields := "
		"struct { int64_t _ret; }; };\n",
		name, IP_KERNEL_SYSCALL_EXIT + number);
}

/* As LTTng has kretprobes. */
static void write_function(FILE *out, unsigned number, const char *name)
{
	for (int exit = 0; exit < 2; exit++)
		fprintf(out,
			"event { name = \"%s_%s\"; id = %u; stream_id = 0; fields := struct { "
			"address_t _ip; address_t _parent_ip; }; };\n",
			name, exit ? "exit" : "entry",
			number + (exit ? IP_KERNEL_FUNCTION_EXIT : IP_KERNEL_FUNCTION_ENTRY));
}

int ip_kernel_metadata_write(FILE *out, const struct ip_ctf_metadata *m,
			     const struct ip_kernel_functions *functions)
{
	if (m->tsc_hz == 0)
		return ip_error("metadata: the frequency of the clock is not known");
	fputs("/* CTF 1.8 */\n\n", out);
	write_types(out);
	fputs("trace {\n	major = 1;\n	minor = 8;\n	uuid = ", out);
	ip_ctf_write_uuid(out, m->uuid);
	fputs(";\n"
	      "	byte_order = le;\n"
	      "	packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; "
	      "};\n"
	      "};\n\n"
	      /* what readers know the names of events by */
	      "env {\n"
	      "	domain = \"kernel\";\n"
	      "	tracer_name = \"lttng-modules\";\n"
	      "	tracer_major = 2;\n"
	      "	tracer_minor = 6;\n"
	      "	written_by = \"iprobe " IP_VERSION "\";\n",
	      out);
	if (m->host) {
		fputs("	hostname = ", out);
		ip_ctf_write_string(out, m->host);
		fputs(";\n", out);
	}
	fputs("};\n\n", out);
	ip_ctf_write_clock(out, m);
	fputs("typealias integer { size = 64; align = 8; signed = false; map = clock.tsc.value; } "
	      ":= uint64_clock_t;\n\n"
	      "stream {\n"
	      "	id = 0;\n"
	      "	event.header := struct { uint16_t id; uint64_clock_t timestamp; };\n"
	      "	event.context := struct { int32_t _tid; uint8_t _irq_context; };\n"
	      "	packet.context := struct {\n"
	      "		uint64_clock_t timestamp_begin;\n"
	      "		uint64_clock_t timestamp_end;\n"
	      "		uint64_t content_size;\n"
	      "		uint64_t packet_size;\n"
	      "		uint64_t packet_seq_num;\n"
	      "		uint64_t events_discarded;\n"
	      "		uint32_t cpu_id;\n"
	      "	};\n"
	      "};\n\n",
	      out);
	for (unsigned id = 0; id < IP_KERNEL_EVENTS; id++)
		if (ip_kernel_kind_of(id) && !ip_kernel_kind_of(id)->unwritten)
			write_kind(out, id, ip_kernel_kind_of(id));
	for (unsigned number = 0; number < IP_KERNEL_SYSCALLS_MAX; number++)
		if (ip_kernel_has_syscall(number))
			write_call(out, number);
	for (unsigned i = 0; i < functions->n; i++)
		write_function(out, i, functions->items[i].name);
	if (ferror(out))
		return ip_error_errno("metadata: cannot write");
	return 0;
}

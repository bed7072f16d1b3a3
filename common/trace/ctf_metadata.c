/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the TSDL text that describes the packets and records of trace_format.h.
 *
 * CTF numbers the bits of a little-endian field from the lowest. So the fields of a record,
 * declared from bit 0 upwards with an alignment of one bit, are exactly the C layout. The size of a
 * record is a multiple of 8 bytes, and the packet header is 80 bytes long. So no field ever needs
 * padding.
 */
#include "common/trace/ctf_metadata.h"

#include <stdbool.h>

#include "common/elf/probe_list.h"
#include "common/error.h"
#include "common/trace/ctf_text.h"
#include "common/trace/text_line.h"
#include "common/trace/trace_format.h"

/* The event names. A tail exit has its own ids, but not its own name: for a reader it is an
 * exit. */
static const struct {
	enum ip_probe_kind id;
	const char *name;
} events[] = {
	{IP_PROBE_ENTRY, "func_entry"},
	{IP_PROBE_EXIT, "func_exit"},
	{IP_PROBE_TAIL_EXIT, "func_exit"},
	{IP_PROBE_POINT, "point"},
};

/* Writes the integer types. Those that are mapped to the clock can only be declared after it. */
static void write_types(FILE *out, bool clock)
{
	static const struct {
		const char *name;
		unsigned size, align, base;
		bool clock;
	} types[] = {
		{"uint3_t", 3, 1, 10, false},
		{"uint11_t", IP_SP_BITS, 1, 10, false},
		{"uint13_t", 13, 1, 10, false},
		{"uint21_t", IP_NUMBER_BITS, 1, 10, false},
		{"uint29_t", IP_TIME_BITS, 1, 10, false},
		{"uint8_t", 8, 8, 10, false},
		{"uint16_t", 16, 1, 16, false},
		{"uint32_t", 32, 8, 10, false},
		{"uint64_t", 64, 8, 10, false},
		{"address_t", 64, 8, 16, false},
		{"uint29_clock_t", IP_TIME_BITS, 1, 10, true},
		{"uint64_clock_t", 64, 8, 10, true},
		/* A structure is aligned like its widest field. This one stands behind 32 bits that
		 * begin at bit 3. */
		{"uint64_packed_clock_t", 64, 1, 10, true},
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].clock == clock)
			fprintf(out,
				"typealias integer { size = %u; align = %u; signed = false; base = "
				"%u;%s } := %s;\n",
				types[i].size, types[i].align, types[i].base,
				clock ? " map = clock.tsc.value;" : "", types[i].name);
	fputc('\n', out);
}

static void write_env(FILE *out, const struct ip_ctf_metadata *m)
{
	fputs("env {\n	tracer_name = \"iprobe\";\n	tracer_version = \"" IP_VERSION "\";\n",
	      out);
	if (m->host) {
		fputs("	hostname = ", out);
		ip_ctf_write_string(out, m->host);
		fputs(";\n", out);
	}
	if (m->command) {
		fputs("	command = ", out);
		ip_ctf_write_string(out, m->command);
		fputs(";\n", out);
	}
	for (size_t i = 0; i < m->nthreads; i++) {
		if (!*m->threads[i].name)
			continue;
		fprintf(out, "	thread_%u = ", m->threads[i].tid);
		ip_ctf_write_string(out, m->threads[i].name);
		fputs(";\n", out);
	}
	fputs("};\n\n", out);
}

/* As ip_ctf_write_string(), which writes what has to be replaced in it. */
static void put_label(struct ip_text_line *line, const char *label)
{
	size_t plain = 0;
	unsigned char c;

	while ((c = label[plain]) >= ' ' && c != 0x7f && c != '"' && c != '\\')
		plain++;
	if (c) {
		ip_text_flush(line);
		ip_ctf_write_string(line->out, label);
		return;
	}
	ip_text_put(line, "\"");
	ip_text_put_bytes(line, label, plain);
	ip_text_put(line, "\"");
}

static int write_probes(FILE *out, const struct ip_ctf_metadata *m)
{
	struct ip_text_line line;

	ip_text_begin(&line, out);
	fputs("enum probe : uint21_t {\n", out);
	for (size_t i = 0; i < m->nlabels; i++) {
		const char *label = m->label_text + m->labels[i].label;

		if (m->labels[i].number == 0 || m->labels[i].number > IP_NUMBER_MAX)
			return ip_error("metadata: probe number %u of %s is out of range",
					m->labels[i].number, label);
		ip_text_put(&line, "\t");
		put_label(&line, label);
		ip_text_put(&line, " = ");
		ip_text_put_number(&line, m->labels[i].number);
		ip_text_put(&line, ",\n");
	}
	ip_text_flush(&line);
	/* An enumeration may not be empty, and no probe has number 0. */
	fputs("	\"(none)\" = 0\n};\n\n", out);
	return 0;
}

static void write_events(FILE *out)
{
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		fprintf(out,
			"event { name = \"%s\"; id = %d; stream_id = 0; fields := struct { }; };\n",
			events[i].name, events[i].id);
		fprintf(out,
			"event { name = \"%s\"; id = %d; stream_id = 0; fields := struct { "
			"address_t sp; }; };\n",
			events[i].name, events[i].id + IP_ID_EXT_BASE);
		fprintf(out,
			"event { name = \"%s\"; id = %d; stream_id = 0; fields := struct { "
			"address_t sp; uint3_t zero; uint13_t n; uint16_t missing; uint32_t "
			"signature; address_t values[n]; }; };\n",
			events[i].name, events[i].id + IP_ID_PAYLOAD_BASE);
	}
}

int ip_ctf_metadata_write(FILE *out, const struct ip_ctf_metadata *m)
{
	if (m->tsc_hz == 0)
		return ip_error("metadata: the frequency of the clock is not known");

	fputs("/* CTF 1.8 */\n\n", out);
	write_types(out, false);
	fputs("trace {\n	major = 1;\n	minor = 8;\n	uuid = ", out);
	ip_ctf_write_uuid(out, m->uuid);
	fputs(";\n"
	      "	byte_order = le;\n"
	      "	packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; "
	      "};\n"
	      "};\n\n",
	      out);
	write_env(out, m);
	ip_ctf_write_clock(out, m);
	write_types(out, true);
	fprintf(out,
		"struct packet_context {\n"
		"	uint64_clock_t timestamp_begin;\n"
		"	uint64_clock_t timestamp_end;\n"
		"	uint64_t content_size;\n"
		"	uint64_t packet_size;\n"
		"	uint64_t packet_seq_num;\n"
		"	uint64_t events_discarded;\n"
		"	uint32_t pid;\n"
		"	uint32_t tid;\n"
		"};\n\n"
		"struct event_header {\n"
		"	enum : uint3_t { compact = 0 ... %d, extended = %d } id;\n"
		"	variant <id> {\n"
		"		struct { uint29_clock_t timestamp; } compact;\n"
		"		struct { uint29_t id; uint64_packed_clock_t timestamp; } "
		"extended;\n"
		"	} v;\n"
		"} align(8);\n\n",
		IP_ID_EXTENDED - 1, IP_ID_EXTENDED);
	if (write_probes(out, m) < 0)
		return -1;
	/* The probe stands in the context that all events share: readers compare each label of an
	 * enumeration with all the others, once for every place that uses it. */
	fputs("stream {\n"
	      "	id = 0;\n"
	      "	event.header := struct event_header;\n"
	      "	packet.context := struct packet_context;\n"
	      "	event.context := struct { enum probe probe; uint11_t sp_low; };\n"
	      "};\n\n",
	      out);
	write_events(out);
	if (ferror(out))
		return ip_error_errno("metadata: cannot write");
	return 0;
}

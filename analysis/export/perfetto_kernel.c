/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes bundles of events, one CPU each (numbers of fields from ftrace_event_bundle.proto,
 * ftrace_event.proto, sched.proto, irq.proto and system_info.proto as of 2026). The clock of a
 * bundle is the default one, which that of slices is, too.
 *
 * What a state of sched_switch means differs between kernels: so the release of the kernel is
 * there.
 */
#include "analysis/export/perfetto_kernel.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/export/protobuf.h"
#include "analysis/read/kernel_reader.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"

enum { TRACE_PACKET = 1 };
enum { PACKET_BUNDLE = 1, PACKET_SEQUENCE = 10, PACKET_SYSTEM = 45 };
enum { SYSTEM_UTSNAME = 1 };
enum { UTSNAME_SYSNAME = 1, UTSNAME_RELEASE = 3 };
enum { BUNDLE_CPU = 1, BUNDLE_EVENT, BUNDLE_LOST };
enum {
	EVENT_TIMESTAMP = 1,
	EVENT_PID = 2,
	EVENT_SWITCH = 4,
	EVENT_WAKEUP = 17,
	EVENT_WAKING = 20,
	EVENT_SOFTIRQ_ENTRY = 24,
	EVENT_SOFTIRQ_EXIT = 25,
	EVENT_IRQ_ENTRY = 36,
	EVENT_IRQ_EXIT = 37,
	EVENT_WAKEUP_NEW = 114
};
enum {
	SWITCH_PREV_COMM = 1,
	SWITCH_PREV_PID,
	SWITCH_PREV_PRIO,
	SWITCH_PREV_STATE,
	SWITCH_NEXT_COMM,
	SWITCH_NEXT_PID,
	SWITCH_NEXT_PRIO
};
enum { WAKE_COMM = 1, WAKE_PID, WAKE_PRIO, WAKE_SUCCESS, WAKE_CPU };
enum { IRQ_LINE = 1, IRQ_NAME, IRQ_RESULT = 2 };

#define BUNDLE_EVENTS 512u
#define COMM	      16u

/* What a CPU has that is not written yet. */
struct cpu {
	struct ip_message bundle;
	unsigned n;
	bool lost;
};

struct writer {
	const struct ip_recording *session;
	uint64_t sequence;
	FILE *out;
	struct cpu *cpus;
	size_t ncpus;
	struct ip_message file, packet, event, inner;
	uint64_t lost; /* events */
	bool failed;
};

static void write_packet(struct writer *w)
{
	ip_message_number(&w->packet, PACKET_SEQUENCE, w->sequence);
	ip_message_reset(&w->file);
	ip_message_message(&w->file, TRACE_PACKET, &w->packet);
	ip_message_reset(&w->packet);
	w->failed |= w->file.failed;
	if (!w->failed)
		fwrite(w->file.bytes, 1, w->file.n, w->out);
}

static void write_bundle(struct writer *w, uint32_t number)
{
	struct cpu *cpu = &w->cpus[number];

	if (!cpu->n && !cpu->lost)
		return;
	ip_message_number(&cpu->bundle, BUNDLE_CPU, number);
	if (cpu->lost)
		ip_message_number(&cpu->bundle, BUNDLE_LOST, 1);
	ip_message_message(&w->packet, PACKET_BUNDLE, &cpu->bundle);
	write_packet(w);
	ip_message_reset(&cpu->bundle);
	cpu->n = 0;
	cpu->lost = false;
}

/* The name of a command, or of an interrupt: 16 bytes that may have no end. */
static void put_comm(struct ip_message *m, unsigned field, const uint8_t *bytes)
{
	char text[COMM + 1];

	memcpy(text, bytes, COMM);
	text[COMM] = '\0';
	ip_clean(text); /* strings must be UTF-8 */
	ip_message_string(m, field, text);
}

/* Negative numbers are as long as those of 64 bits. */
static void put_s32(struct ip_message *m, unsigned field, const struct ip_kernel_record *r,
		    size_t at)
{
	ip_message_number(m, field, (uint64_t)(int64_t)ip_kernel_s32(r, at));
}

/* Makes the inner message of an event. Returns its field; 0: the event has no place there. */
static unsigned make_inner(struct ip_message *m, const struct ip_kernel_record *r)
{
	switch (r->id) {
	case IP_KERNEL_SCHED_SWITCH:
		put_comm(m, SWITCH_PREV_COMM, r->fields);
		put_s32(m, SWITCH_PREV_PID, r, 16);
		put_s32(m, SWITCH_PREV_PRIO, r, 20);
		ip_message_number(m, SWITCH_PREV_STATE, ip_kernel_u64(r, 24));
		put_comm(m, SWITCH_NEXT_COMM, r->fields + 32);
		put_s32(m, SWITCH_NEXT_PID, r, 48);
		put_s32(m, SWITCH_NEXT_PRIO, r, 52);
		return EVENT_SWITCH;
	case IP_KERNEL_SCHED_WAKING:
	case IP_KERNEL_SCHED_WAKEUP:
	case IP_KERNEL_SCHED_WAKEUP_NEW:
		put_comm(m, WAKE_COMM, r->fields);
		put_s32(m, WAKE_PID, r, 16);
		put_s32(m, WAKE_PRIO, r, 20);
		ip_message_number(m, WAKE_SUCCESS, 1);
		put_s32(m, WAKE_CPU, r, 24);
		return r->id == IP_KERNEL_SCHED_WAKING	 ? EVENT_WAKING
		       : r->id == IP_KERNEL_SCHED_WAKEUP ? EVENT_WAKEUP
							 : EVENT_WAKEUP_NEW;
	case IP_KERNEL_SOFTIRQ_ENTRY:
	case IP_KERNEL_SOFTIRQ_EXIT:
		ip_message_number(m, IRQ_LINE, (uint32_t)ip_kernel_s32(r, 0));
		return r->id == IP_KERNEL_SOFTIRQ_ENTRY ? EVENT_SOFTIRQ_ENTRY : EVENT_SOFTIRQ_EXIT;
	case IP_KERNEL_IRQ_ENTRY:
		put_s32(m, IRQ_LINE, r, 0);
		put_comm(m, IRQ_NAME, r->fields + 4);
		return EVENT_IRQ_ENTRY;
	case IP_KERNEL_IRQ_EXIT:
		put_s32(m, IRQ_LINE, r, 0);
		put_s32(m, IRQ_RESULT, r, 4);
		return EVENT_IRQ_EXIT;
	default:
		return 0;
	}
}

static struct cpu *cpu_of(struct writer *w, uint32_t number)
{
	if (number >= w->ncpus) {
		struct cpu *cpus = number < IP_KERNEL_CPUS_MAX
					   ? reallocarray(w->cpus, number + 1ul, sizeof(*cpus))
					   : NULL;

		if (!cpus) {
			w->failed = true;
			return NULL;
		}
		memset(cpus + w->ncpus, 0, (number + 1 - w->ncpus) * sizeof(*cpus));
		w->cpus = cpus;
		w->ncpus = number + 1ul;
	}
	return &w->cpus[number];
}

static void put(struct writer *w, const struct ip_kernel_record *r)
{
	struct cpu *cpu = cpu_of(w, r->cpu);
	unsigned field;

	if (!cpu)
		return;
	/* who ran is told by the events of all processes */
	if (r->id == IP_KERNEL_LOST) {
		w->lost += r->lost;
		cpu->lost |= r->all;
		return;
	}
	ip_message_reset(&w->inner);
	field = make_inner(&w->inner, r);
	if (!field)
		return;
	ip_message_reset(&w->event);
	ip_message_number(&w->event, EVENT_TIMESTAMP, ip_recording_since_start(w->session, r->tsc));
	ip_message_number(&w->event, EVENT_PID, (uint32_t)r->tid);
	ip_message_message(&w->event, field, &w->inner);
	ip_message_message(&cpu->bundle, BUNDLE_EVENT, &w->event);
	w->failed |= cpu->bundle.failed;
	if (++cpu->n == BUNDLE_EVENTS)
		write_bundle(w, r->cpu);
}

/* "Linux 6.1.0-13-amd64" */
static void put_system(struct writer *w)
{
	_cleanup_free_ char *kernel = strdup(w->session->kernel ? w->session->kernel : "");
	char *release;

	if (!kernel) {
		w->failed = true;
		return;
	}
	ip_clean(kernel);
	release = strchr(kernel, ' ');
	if (!release)
		return;
	*release++ = '\0';
	release[strcspn(release, " ")] = '\0';
	ip_message_reset(&w->inner);
	ip_message_string(&w->inner, UTSNAME_SYSNAME, kernel);
	ip_message_string(&w->inner, UTSNAME_RELEASE, release);
	ip_message_reset(&w->event);
	ip_message_message(&w->event, SYSTEM_UTSNAME, &w->inner);
	ip_message_message(&w->packet, PACKET_SYSTEM, &w->event);
	write_packet(w);
}

int ip_perfetto_kernel_put(const struct ip_trace_reader *trace, uint64_t sequence,
			   void (*damage)(const char *line), FILE *out)
{
	struct writer w = {.session = trace->session, .sequence = sequence, .out = out};
	struct ip_kernel_reader *reader = NULL;
	struct ip_kernel_record record;
	int got = ip_kernel_reader_open(trace->dir, &reader);

	if (got <= 0)
		return got;
	put_system(&w);
	while (!w.failed && !ferror(out) && (got = ip_kernel_reader_next(reader, &record)) > 0)
		put(&w, &record);
	for (uint32_t i = 0; i < w.ncpus && !w.failed && got >= 0; i++)
		write_bundle(&w, i);
	if (w.failed)
		got = ip_error("out of memory");
	for (const char *const *line = ip_kernel_reader_damage(reader); got >= 0 && *line; line++)
		damage(*line);
	if (got >= 0 && w.lost) {
		char line[128];

		snprintf(line, sizeof(line),
			 "of the kernel's events %" PRIu64
			 " are LOST: what they would tell is unknown",
			 w.lost);
		damage(line);
	}
	for (size_t i = 0; i < w.ncpus; i++)
		ip_message_deinit(&w.cpus[i].bundle);
	free(w.cpus);
	ip_message_deinit(&w.file);
	ip_message_deinit(&w.packet);
	ip_message_deinit(&w.event);
	ip_message_deinit(&w.inner);
	ip_kernel_reader_close(reader);
	return got < 0 ? -1 : 0;
}

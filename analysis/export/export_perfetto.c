/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes Perfetto's own format (perfetto.dev, "TrackEvent" and "TracePacket"; numbers of fields
 * from trace_packet.proto, track_event.proto, track_descriptor.proto, interned_data.proto and
 * debug_annotation.proto as of 2026). A trace takes a third of its size in chrome's format.
 * Events are in order of time, in one sequence of packets. Each thread has a track. A name is
 * written once; from then on its number is written.
 *
 * Times are nanoseconds since the recording began, on Perfetto's default clock. Arguments and
 * results are one annotation, in JSON, as in the other formats. Events of the kernel stand behind
 * all others (perfetto_kernel.h): readers sort by time.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/export/export_events.h"
#include "analysis/export/perfetto_kernel.h"
#include "analysis/export/protobuf.h"
#include "analysis/read/names.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"

enum { TRACE_PACKET = 1 };
enum {
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60
};
enum { FLAG_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum { EVENT_CATEGORY_IID = 3, EVENT_ANNOTATION, EVENT_TYPE = 9, EVENT_NAME_IID, EVENT_TRACK };
enum { TYPE_BEGIN = 1, TYPE_END, TYPE_INSTANT };
enum { INTERNED_CATEGORY = 1, INTERNED_NAME };
enum { ENTRY_IID = 1, ENTRY_NAME };
enum { TRACK_UUID = 1, TRACK_PROCESS = 3, TRACK_THREAD };
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID, THREAD_NAME = 5 };
enum { ANNOTATION_BOOL = 2, ANNOTATION_JSON = 9, ANNOTATION_NAME };

#define SEQUENCE 1

struct thread {
	uint32_t pid, tid;
	const struct ip_trace_process *process;
};

struct perfetto {
	const struct ip_export_options *options;
	struct ip_trace_reader *trace;
	struct ip_names *names;
	FILE *out;
	struct thread *threads; /* sorted, each thread once; a thread's track is its index + 1 */
	size_t nthreads;
	bool *named;	/* by function: its name has been written */
	bool *category; /* by module: its name has been written */
	uint64_t track;
	struct ip_message file, packet, inner, entry; /* each is part of the one before */
	bool stop;
};

static void write_packet(struct perfetto *p)
{
	ip_message_number(&p->packet, PACKET_SEQUENCE, SEQUENCE);
	ip_message_message(&p->file, TRACE_PACKET, &p->packet);
	p->stop |= p->file.failed;
	if (!p->stop)
		fwrite(p->file.bytes, 1, p->file.n, p->out);
	p->stop |= ferror(p->out) != 0;
	ip_message_reset(&p->file);
	ip_message_reset(&p->packet);
}

static void put_entry(struct perfetto *p, struct ip_message *interned, unsigned field, uint64_t iid,
		      const char *name)
{
	_cleanup_free_ char *clean = strdup(name);

	if (!clean) {
		p->stop = true;
		return;
	}
	ip_clean(clean); /* strings must be UTF-8 */
	ip_message_reset(&p->entry);
	ip_message_number(&p->entry, ENTRY_IID, iid);
	ip_message_string(&p->entry, ENTRY_NAME, clean);
	ip_message_message(interned, field, &p->entry);
}

/* The number of a name is that of its function or module, counted from 1. */
static void put_names(struct perfetto *p, uint32_t function)
{
	uint32_t module = p->trace->session->functions[function].module;
	bool category = module != IP_NO_MODULE && !p->category[module];
	struct ip_message interned = {0};

	if (p->named[function] && !category)
		return;
	if (!p->named[function])
		put_entry(p, &interned, INTERNED_NAME, function + 1ull,
			  ip_names_get(p->names, function));
	if (category)
		put_entry(p, &interned, INTERNED_CATEGORY, module + 1ull,
			  ip_recording_module_name(p->trace->session,
						   &p->trace->session->functions[function]));
	ip_message_message(&p->packet, PACKET_INTERNED, &interned);
	ip_message_deinit(&interned);
	p->named[function] = true;
	if (category)
		p->category[module] = true;
}

/* single is the name of the only value; NULL: the values are arguments. */
static void put_values(struct perfetto *p, const uint64_t *payload, const char *single)
{
	const struct ip_signature *signature = ip_recording_signature(p->trace->session, payload);
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	struct ip_json j;
	FILE *memory;

	if (!signature)
		return;
	memory = open_memstream(&text, &size);
	if (memory) {
		ip_json_init(&j, memory);
		ip_json_object(&j, NULL);
		if (single)
			ip_value_json(&j, single, signature, payload);
		else
			ip_values_json(&j, signature, payload);
		ip_json_end_object(&j);
	}
	if (!memory || fclose(memory) != 0 || !text) {
		p->stop = true;
		return;
	}
	text[strcspn(text, "\n")] = '\0';
	ip_message_reset(&p->entry);
	ip_message_string(&p->entry, ANNOTATION_JSON, text);
	ip_message_string(&p->entry, ANNOTATION_NAME, single ? "result" : "arguments");
	ip_message_message(&p->inner, EVENT_ANNOTATION, &p->entry);
}

static void put_until_tail(struct perfetto *p)
{
	ip_message_reset(&p->entry);
	ip_message_number(&p->entry, ANNOTATION_BOOL, true);
	ip_message_string(&p->entry, ANNOTATION_NAME, "until_tail_call");
	ip_message_message(&p->inner, EVENT_ANNOTATION, &p->entry);
}

static bool on_event(void *context, const struct ip_export_event *e)
{
	static const unsigned types[] = {[IP_EXPORT_BEGIN] = TYPE_BEGIN,
					 [IP_EXPORT_END] = TYPE_END,
					 [IP_EXPORT_INSTANT] = TYPE_INSTANT};
	struct perfetto *p = context;
	uint32_t module = p->trace->session->functions[e->function].module;

	ip_message_number(&p->packet, PACKET_TIMESTAMP,
			  ip_recording_since_start(p->trace->session, e->ts));
	ip_message_number(&p->packet, PACKET_FLAGS, FLAG_NEEDS_STATE);
	ip_message_reset(&p->inner);
	ip_message_number(&p->inner, EVENT_TYPE, types[e->kind]);
	ip_message_number(&p->inner, EVENT_TRACK, p->track);
	if (e->kind != IP_EXPORT_END) {
		put_names(p, e->function);
		ip_message_number(&p->inner, EVENT_NAME_IID, e->function + 1ull);
		if (module != IP_NO_MODULE)
			ip_message_number(&p->inner, EVENT_CATEGORY_IID, module + 1ull);
	}
	put_values(p, e->payload, e->kind == IP_EXPORT_END ? "retval" : NULL);
	if (e->until_tail)
		put_until_tail(p);
	ip_message_message(&p->packet, PACKET_EVENT, &p->inner);
	write_packet(p);
	return !p->stop;
}

static int by_id(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct perfetto *p = context;
	const struct thread wanted = {.pid = run->pid, .tid = run->tid};
	const struct thread *found =
		bsearch(&wanted, p->threads, p->nthreads, sizeof(wanted), by_id);

	p->track = found ? found - p->threads + 1 : 0;
}

static void put_track(struct perfetto *p, uint64_t uuid, unsigned field)
{
	ip_message_reset(&p->inner);
	ip_message_number(&p->inner, TRACK_UUID, uuid);
	ip_message_message(&p->inner, field, &p->entry);
	ip_message_message(&p->packet, PACKET_TRACK, &p->inner);
	write_packet(p);
}

static void put_name(struct ip_message *m, unsigned field, const char *name)
{
	_cleanup_free_ char *clean = name ? strdup(name) : NULL;

	if (!clean)
		return;
	ip_clean(clean);
	ip_message_string(m, field, clean);
}

/* The tracks of processes have the numbers after those of threads. */
static void put_tracks(struct perfetto *p)
{
	uint64_t process = p->nthreads;

	ip_message_number(&p->packet, PACKET_FLAGS, FLAG_CLEARED);
	write_packet(p);
	for (size_t i = 0; i < p->nthreads && !p->stop; i++) {
		const struct thread *t = &p->threads[i];

		if (i == 0 || t->pid != t[-1].pid) {
			ip_message_reset(&p->entry);
			ip_message_number(&p->entry, PROCESS_PID, t->pid);
			put_name(&p->entry, PROCESS_NAME, t->process->command);
			put_track(p, ++process, TRACK_PROCESS);
		}
		ip_message_reset(&p->entry);
		ip_message_number(&p->entry, THREAD_PID, t->pid);
		ip_message_number(&p->entry, THREAD_TID, t->tid);
		put_name(&p->entry, THREAD_NAME,
			 ip_recording_thread_name(p->trace->session, t->process->member, t->tid));
		put_track(p, i + 1, TRACK_THREAD);
	}
}

static int list_threads(struct perfetto *p)
{
	size_t n = 0;

	p->threads = calloc(p->trace->nruns + 1, sizeof(*p->threads));
	if (!p->threads)
		return ip_error("out of memory");
	for (size_t i = 0; i < p->trace->nruns; i++) {
		const struct ip_thread_packets *run = &p->trace->runs[i];

		if (!run->off && (!p->options->tid || run->tid == p->options->tid))
			p->threads[n++] = (struct thread){run->pid, run->tid,
							  &p->trace->process_list[run->process]};
	}
	if (n)
		qsort(p->threads, n, sizeof(*p->threads), by_id);
	for (size_t i = 0; i < n; i++)
		if (!p->nthreads || by_id(&p->threads[p->nthreads - 1], &p->threads[i]))
			p->threads[p->nthreads++] = p->threads[i];
	return 0;
}

int ip_export_perfetto(struct ip_trace_reader *trace, const struct ip_export_options *options,
		       FILE *out)
{
	static const struct ip_export_writer writer = {on_run, on_event};
	struct perfetto p = {.options = options,
			     .trace = trace,
			     .out = out,
			     .names = ip_names_create(trace->session)};
	_cleanup_free_ bool *named = calloc(trace->session->nfunctions, sizeof(*named)),
			    *category = calloc(trace->session->nmodules + 1, sizeof(*category));
	int ret = -1;

	p.named = named;
	p.category = category;
	if (!named || !category) {
		ip_error("out of memory");
	} else if (p.names && list_threads(&p) == 0) {
		put_tracks(&p);
		ret = p.stop ? 0 : ip_export_events(trace, options, &writer, &p, out);
		if (p.stop && !ferror(out))
			ret = ip_error("out of memory");
		if (ret == 0 && !p.stop)
			ret = ip_perfetto_kernel_put(trace, SEQUENCE, options->damage, out);
	}
	ip_message_deinit(&p.file);
	ip_message_deinit(&p.packet);
	ip_message_deinit(&p.inner);
	ip_message_deinit(&p.entry);
	free(p.threads);
	ip_names_destroy(p.names);
	return ret;
}

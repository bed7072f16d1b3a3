/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes batches of what the observer of the rings is told.
 */
#include "stream_log/stream_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/abi/area.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/now.h"
#include "common/trace/checksum.h"
#include "common/trace/stream_log_format.h"
#include "stream_log/log_place.h"
#include "stream_log/log_writer.h"
#include "stream_log/record_order.h"

#define RECORDS_AT_ONCE 32768u
#define THREADS_AT_ONCE 4096u
#define TEXT_AT_ONCE	(256u << 10)
#define FULL_FROM	(IP_LOG_WRITER_ROOM / 4 * 3)
#define FULL_UNTIL	(IP_LOG_WRITER_ROOM / 2)
#define NO_THREAD	UINT32_MAX

/* Which thread a slot's claim is. */
struct known {
	uint64_t claimed;
	uint32_t thread; /* NO_THREAD: there were too many */
	bool placed;	 /* it was told with the stack pointer of its first record */
};

struct ip_stream_log {
	struct ip_collector_observer observer;
	struct ip_log_writer *writer;
	uint64_t interval_ns;
	uint64_t hold, hold_full; /* in ticks */
	uint64_t (*lost)(void *data);
	void *data;
	pthread_mutex_t lock; /* of all below: two threads of a session may write batches */
	struct known *slots;
	uint32_t nthreads;
	bool full; /* records are dropped as they come, until there is room again */
	struct ip_record_order order; /* records that are held back */
	/* what is to be told of threads, until it was */
	struct ip_stream_log_thread *threads;
	struct ip_stream_log_ended *ended;
	struct ip_stream_log_behind *behind;
	size_t nnew, nended, nbehind;
	uint64_t complete;
	uint64_t batch_ns; /* when the last batch was made */
	struct ip_stream_log_counts counts;
	struct ip_stream_log_header *batch; /* that is being made */
	size_t size;
};

/* Begins a batch. */
static void begin_batch(struct ip_stream_log *log)
{
	const uint64_t id = log->batch->id;

	*log->batch = (struct ip_stream_log_header){
		.magic = IP_STREAM_LOG_MAGIC,
		.version = IP_STREAM_LOG_VERSION,
		.id = id,
		.number = log->counts.batches,
		.complete = log->complete,
		.dropped = log->counts.dropped,
		.interval_us = log->interval_ns / 1000,
	};
	log->size = sizeof(*log->batch);
}

/* Adds a section, and returns the place of its content, which is to be filled. */
static void *add_section(struct ip_stream_log *log, enum ip_stream_log_kind kind, size_t size)
{
	uint8_t *at = (uint8_t *)log->batch + log->size;
	const struct ip_stream_log_section section = {kind, size};
	const size_t padded = (size + 7) & ~(size_t)7;

	memcpy(at, &section, sizeof(section));
	memset(at + sizeof(section) + size, 0, padded - size);
	log->size += sizeof(section) + padded;
	return at + sizeof(section);
}

static void add_items(struct ip_stream_log *log, enum ip_stream_log_kind kind, const void *items,
		      size_t size)
{
	if (size)
		memcpy(add_section(log, kind, size), items, size);
}

/* Has the batch written. Returns false if there is no room for it. */
static bool put_batch(struct ip_stream_log *log)
{
	const uint64_t now = ip_now_ns();

	log->batch->size = log->size;
	log->batch->lost = log->lost ? log->lost(log->data) : 0;
	log->batch->checksum = ip_checksum(0, log->batch, log->size);
	if (!ip_log_writer_put(log->writer, log->batch, log->size))
		return false;
	if (log->batch_ns && now - log->batch_ns > log->counts.longest_gap_ns)
		log->counts.longest_gap_ns = now - log->batch_ns;
	log->batch_ns = now;
	log->counts.batches++;
	return true;
}

size_t ip_stream_log_text(struct ip_stream_log *log, const char *text, size_t size)
{
	size_t taken = 0;

	pthread_mutex_lock(&log->lock);
	while (taken < size) {
		size_t n = size - taken < TEXT_AT_ONCE ? size - taken : TEXT_AT_ONCE;
		const char *last = memrchr(text + taken, '\n', n);

		if (last)
			n = last + 1 - (text + taken);
		else if (size - taken <= TEXT_AT_ONCE) /* the rest of the line is to come */
			break;
		begin_batch(log);
		add_items(log, IP_STREAM_LOG_TEXT, text + taken, n);
		if (!put_batch(log))
			break;
		taken += n;
	}
	pthread_mutex_unlock(&log->lock);
	return taken;
}

/* Returns the number of the claim's thread, which is told of in the next batch if it is new, and
 * once more when its stack pointer is known. sp: of its first record; 0: there is none yet. */
static uint32_t thread_of(struct ip_stream_log *log, const struct ip_observer_claim *claim,
			  uint64_t sp)
{
	struct known *k = &log->slots[claim->slot];

	if (k->claimed != claim->claimed || !k->claimed)
		*k = (struct known){claim->claimed, NO_THREAD, false};
	else if (k->placed || !sp)
		return k->thread;
	if ((k->thread != NO_THREAD || log->nthreads < IP_STREAM_LOG_THREADS) &&
	    ip_array_grow(&log->threads, log->nnew, sizeof(*log->threads)) == 0) {
		if (k->thread == NO_THREAD)
			k->thread = log->nthreads++;
		k->placed = sp;
		log->threads[log->nnew++] = (struct ip_stream_log_thread){
			.thread = k->thread, .pid = claim->pid, .tid = claim->tid, .sp = sp};
	}
	return k->thread;
}

static void take_records(void *data, const struct ip_observer_claim *claim,
			 const struct ip_observer_record *records, size_t n)
{
	struct ip_stream_log *log = data;
	uint32_t thread;

	pthread_mutex_lock(&log->lock);
	thread = thread_of(log, claim, records[0].sp);
	if (log->full) {
		/* the drain is not held up for what has no room anyway */
		log->counts.dropped += n;
		n = 0;
	}
	for (size_t i = 0; i < n; i++) {
		const struct ip_observer_record *r = &records[i];
		const struct ip_order_record item = {
			.time = r->time,
			.thread = thread,
			.sp = r->sp >> 3,
			.what = IP_STREAM_LOG_WHAT(r->number, r->kind, r->sp)};

		if (thread == NO_THREAD || ip_record_order_add(&log->order, &item) < 0) {
			log->counts.dropped++;
			log->counts.unsorted++;
		}
	}
	pthread_mutex_unlock(&log->lock);
}

static void take_end(void *data, const struct ip_observer_claim *claim, uint64_t time)
{
	struct ip_stream_log *log = data;
	struct known *k = &log->slots[claim->slot];

	pthread_mutex_lock(&log->lock);
	/* a thread without a record is not known here, and nobody waits for its end */
	if (k->claimed == claim->claimed && k->thread != NO_THREAD &&
	    ip_array_grow(&log->ended, log->nended, sizeof(*log->ended)) == 0)
		log->ended[log->nended++] =
			(struct ip_stream_log_ended){.thread = k->thread, .time = time};
	k->claimed = 0;
	pthread_mutex_unlock(&log->lock);
}

/* How many of the first records go into one batch: those before `complete`, in one base time. */
static size_t count_records(const struct ip_stream_log *log, uint64_t complete)
{
	const struct ip_order_record *items = log->order.items;
	size_t n = 0;

	while (n < log->order.n && n < RECORDS_AT_ONCE && items[n].time < complete &&
	       items[n].time - items[0].time <= UINT32_MAX)
		n++;
	return n;
}

static void add_records(struct ip_stream_log *log, size_t n)
{
	const struct ip_order_record *items = log->order.items;
	struct ip_stream_log_record *at;
	uint8_t *section;

	if (!n)
		return;
	section = add_section(log, IP_STREAM_LOG_RECORDS, sizeof(uint64_t) + n * sizeof(*at));
	memcpy(section, &items[0].time, sizeof(uint64_t));
	at = (struct ip_stream_log_record *)(section + sizeof(uint64_t));
	for (size_t i = 0; i < n; i++)
		at[i] = (struct ip_stream_log_record){.after = items[i].time - items[0].time,
						      .thread = items[i].thread,
						      .sp = items[i].sp,
						      .what = items[i].what};
}

/* The first entries of `ended` whose time has come: all of a thread's records are before it. */
static size_t count_ended(const struct ip_stream_log *log, uint64_t complete)
{
	size_t n = 0;

	while (n < log->nended && n < THREADS_AT_ONCE && log->ended[n].time <= complete)
		n++;
	return n;
}

/* Removes the first n of *nall items. */
static void remove_items(void *items, size_t size, size_t *nall, size_t n)
{
	*nall -= n;
	if (n)
		memmove(items, (uint8_t *)items + n * size, *nall * size);
}

/* Writes all that is known before `complete`. */
static void write_batches(struct ip_stream_log *log, uint64_t complete)
{
	bool whole;

	ip_record_order_sort(&log->order);
	do {
		const size_t n = count_records(log, complete), added = n,
			     nthreads = log->nnew < THREADS_AT_ONCE ? log->nnew : THREADS_AT_ONCE;
		const uint64_t before = log->complete;
		uint64_t upto;
		size_t nended;
		uint32_t late = 0;

		whole = n == log->order.n || log->order.items[n].time >= complete;
		upto = whole ? complete : log->order.items[n].time;
		while (late < n && log->order.items[late].time < before)
			late++;
		log->complete = upto > before ? upto : before;
		nended = whole ? count_ended(log, log->complete) : 0;
		begin_batch(log);
		log->batch->late = late;
		add_items(log, IP_STREAM_LOG_THREAD, log->threads,
			  nthreads * sizeof(*log->threads));
		add_records(log, added);
		add_items(log, IP_STREAM_LOG_ENDED, log->ended, nended * sizeof(*log->ended));
		add_items(log, IP_STREAM_LOG_BEHIND, log->behind,
			  log->nbehind * sizeof(*log->behind));
		add_items(log, IP_STREAM_LOG_UNSORTED, &log->counts.unsorted,
			  log->counts.unsorted ? sizeof(log->counts.unsorted) : 0);
		if (put_batch(log)) {
			log->counts.records += added;
			log->counts.late += late;
			remove_items(log->threads, sizeof(*log->threads), &log->nnew, nthreads);
			remove_items(log->ended, sizeof(*log->ended), &log->nended, nended);
		} else {
			/* the next batch that has room tells of it */
			log->counts.dropped += added;
		}
		ip_record_order_take(&log->order, n);
	} while (!whole);
}

static void look_is_done(void *data, uint64_t now, const struct ip_observer_behind *behind,
			 size_t n)
{
	struct ip_stream_log *log = data;
	uint64_t complete = now;
	uint64_t hold = log->hold;

	const size_t waiting = ip_log_writer_waiting(log->writer);

	pthread_mutex_lock(&log->lock);
	if (waiting > FULL_FROM)
		log->full = true;
	else if (waiting < FULL_UNTIL)
		log->full = false;
	log->nbehind = 0;
	for (size_t i = 0; i < n; i++) {
		const struct ip_observer_behind *b = &behind[i];
		const uint64_t newest = b->newest ? b->newest : b->claim.claimed;
		const uint32_t thread = thread_of(log, &b->claim, 0);

		complete = newest < complete ? newest : complete;
		hold = b->full ? log->hold_full : hold;
		if (thread != NO_THREAD)
			log->behind[log->nbehind++] = (struct ip_stream_log_behind){
				thread, b->words < UINT32_MAX ? b->words : UINT32_MAX, b->newest};
	}
	if (now > hold && complete < now - hold)
		complete = now - hold;
	if (complete < log->complete)
		complete = log->complete;
	if (log->order.n || log->nnew || log->nended || !log->batch_ns ||
	    ip_now_ns() - log->batch_ns >= log->interval_ns)
		write_batches(log, complete);
	pthread_mutex_unlock(&log->lock);
}

int ip_stream_log_open(const char *place, uint64_t interval_ns, struct ip_stream_log **ret)
{
	struct ip_stream_log *log = calloc(1, sizeof(*log));
	bool blocks;
	int fd;

	if (!log)
		return ip_error("out of memory");
	log->observer = (struct ip_collector_observer){log, take_records, take_end, look_is_done};
	log->interval_ns = interval_ns;
	pthread_mutex_init(&log->lock, NULL);
	log->slots = calloc(IP_AREA_SLOTS, sizeof(*log->slots));
	log->behind = calloc(IP_AREA_SLOTS, sizeof(*log->behind));
	log->batch = calloc(1, IP_STREAM_LOG_MOST);
	if (!log->slots || !log->behind || !log->batch) {
		ip_stream_log_destroy(log);
		return ip_error("out of memory");
	}
	if (getrandom(&log->batch->id, sizeof(log->batch->id), 0) < 0) {
		ip_stream_log_destroy(log);
		return ip_error_errno("cannot make the id of a live log");
	}
	fd = ip_log_place_open(place, &blocks);
	log->writer = fd < 0 ? NULL : ip_log_writer_start(fd, blocks);
	if (!log->writer) {
		ip_stream_log_destroy(log);
		return -1;
	}
	*ret = log;
	return 0;
}

void ip_stream_log_begin(struct ip_stream_log *log, uint64_t hz, uint64_t (*lost)(void *data),
			 void *data)
{
	log->hold = hz / 1000 * (IP_STREAM_LOG_HOLD_NS / 1000000);
	log->hold_full = hz / 1000 * (IP_STREAM_LOG_FULL_NS / 1000000);
	log->lost = lost;
	log->data = data;
}

const struct ip_collector_observer *ip_stream_log_observer(struct ip_stream_log *log)
{
	return &log->observer;
}

const char *ip_stream_log_failure(struct ip_stream_log *log)
{
	return ip_log_writer_failure(log->writer);
}

void ip_stream_log_end(struct ip_stream_log *log, uint64_t now, uint64_t limit_ns,
		       struct ip_stream_log_counts *ret)
{
	struct ip_log_writer_counts written;

	log->nbehind = 0;
	write_batches(log, now > log->complete ? now : log->complete);
	ip_log_writer_end(ip_steal_ptr(log->writer), limit_ns, &written);
	*ret = log->counts;
	/* with times that are yet to come: the process has made them up */
	ret->dropped += log->order.n;
	ret->unsorted += log->order.n;
	ret->written = written.written;
	ret->unwritten = written.unwritten;
	ret->longest_sync_ns = written.longest_sync_ns;
	ret->syncs = written.syncs;
	ret->hangs = written.hangs;
	ip_stream_log_destroy(log);
}

void ip_stream_log_destroy(struct ip_stream_log *log)
{
	struct ip_log_writer_counts written;

	if (!log)
		return;
	if (log->writer)
		ip_log_writer_end(log->writer, 0, &written);
	ip_record_order_clear(&log->order);
	free(log->slots);
	free(log->threads);
	free(log->ended);
	free(log->behind);
	free(log->batch);
	free(log);
}

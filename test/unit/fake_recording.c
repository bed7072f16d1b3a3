/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes recordings without a process. See fake_recording.h.
 */
#include "test/unit/fake_recording.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/elf/probe_list.h"

static void must(int holds)
{
	if (!holds)
		abort();
}

void fake_recording_begin(struct fake_recording *r, const struct ip_area_needs *needs,
			  uint64_t max_size)
{
	struct ip_clock_reading start;

	*r = (struct fake_recording){.dir = "/tmp/iprobe-recording-XXXXXX"};
	r->target = fake_target_open();
	r->target->pid = r->target->inner_pid = getpid();
	must(ip_area_create(needs->memory, &r->area) == 0);
	must(ip_area_begin(r->area, getpid(), needs) == 0);
	must(mkdtemp(r->dir) != NULL);
	ip_clock_read(&start);
	must(ip_trace_create(r->dir, getpid(), "none", &start, &r->trace) == 0);
	must(ip_trace_begin_journal(r->trace, r->area->header->session, max_size) == 0);
	must(ip_collector_create(r->area, r->trace, r->target, max_size, &r->collector) == 0);
}

/* ip_trace_create() has kept the empty directory: discarding the trace brings it back, but not
 * where a test has resumed it. */
void fake_recording_end(struct fake_recording *r)
{
	char old[sizeof(r->dir) + 4];

	ip_collector_destroy(r->collector);
	ip_trace_discard(r->trace);
	ip_area_close(r->area);
	ip_target_close(r->target);
	rmdir(r->dir);
	snprintf(old, sizeof(old), "%s.old", r->dir);
	rmdir(old);
}

void fake_thread_claim(struct fake_recording *r, uint32_t slot, uint32_t tid)
{
	struct ip_area_header *h = r->area->header;
	static uint64_t claims;

	r->area->slots[slot] = (struct ip_slot){.state = IP_SLOT_CLAIMED,
						.tid = tid,
						.pid = (uint32_t)r->target->inner_pid,
						.session = h->session,
						.claimed = ++claims,
						.cur = IP_NO_SUBBUF << IP_POSITION_BITS};
	if (h->slots_used <= slot)
		h->slots_used = slot + 1;
}

void fake_thread_take(struct fake_recording *r, uint32_t slot, uint32_t subbuf, uint64_t ordinal,
		      uint32_t n)
{
	struct ip_slot *s = &r->area->slots[slot];

	r->area->subbufs[subbuf] = (struct ip_subbuf){
		.state = IP_SUBBUF_OWNED, .slot = slot, .ordinal = ordinal, .lost = s->lost};
	r->area->header->nfree--;
	s->cur = (uint64_t)subbuf << IP_POSITION_BITS | (ordinal * IP_SUBBUF_WORDS + n);
}

void fake_thread_leave(struct fake_recording *r, uint32_t slot, uint64_t ordinal)
{
	r->area->slots[slot].cur =
		IP_NO_SUBBUF << IP_POSITION_BITS | (ordinal + 1) * IP_SUBBUF_WORDS;
}

uint64_t *fake_words(const struct fake_recording *r, uint32_t subbuf)
{
	return (uint64_t *)(r->area->data + (uint64_t)subbuf * IP_SUBBUF_SIZE);
}

uint32_t fake_put_extended(uint64_t *words, uint32_t at, uint64_t time, uint32_t number)
{
	words[at] = time << 32 | (uint64_t)(IP_ID_EXT_BASE + IP_PROBE_ENTRY) << 3 | IP_ID_EXTENDED;
	words[at + 1] = (uint64_t)number << 32 | time >> 32;
	words[at + 2] = 0x7ffc00001000; /* a stack pointer */
	return at + IP_EXT_WORDS;
}

uint32_t fake_put_compact(uint64_t *words, uint32_t at, uint64_t time, uint32_t number)
{
	words[at] = (uint64_t)number << 32 | (time & IP_TIME_MASK) << 3 | IP_PROBE_ENTRY;
	return at + 1;
}

uint32_t fake_fill(uint64_t *words, uint32_t n, uint64_t time)
{
	uint32_t at = fake_put_extended(words, 1, time, 1);
	uint32_t events = 1;

	while (at < n)
		at = fake_put_compact(words, at, time + events++, 1);
	return events;
}

bool fake_packet(const struct fake_recording *r, uint32_t slot, unsigned packet,
		 struct ip_packet_header *ret)
{
	char name[32];
	off_t at = 0;
	bool found = true;
	int fd;

	snprintf(name, sizeof(name), "stream-%u", slot);
	fd = openat(ip_trace_dirfd(r->trace), name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	for (unsigned i = 0; found && i <= packet; i++) {
		found = pread(fd, ret, sizeof(*ret), at) == sizeof(*ret);
		at += (off_t)(ret->packet_size / 8);
	}
	close(fd);
	return found;
}

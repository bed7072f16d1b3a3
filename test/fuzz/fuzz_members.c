/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces of several processes: an input is a list of members, and behind each byte 0x1e a session
 * file of one of them. What the list has is written and read again, and names nothing outside its
 * directory. The recordings are put together: each number leads to a function of its process and to
 * no other one's.
 *
 * covers: common/trace/trace_members.c analysis/read/members.c
 */
#include <limits.h>

#include "analysis/read/members.h"
#include "common/dir.h"
#include "common/trace/trace_members.h"
#include "fuzz.h"

#define SEPARATOR 0x1e
#define MOST	  8u

static struct ip_dir_place place;

static void remove_directory(void)
{
	ip_dir_remove(place.parent, place.name);
}

static int directory(void)
{
	static int fd = -1;

	if (fd < 0) {
		fd = ip_dir_make_temporary("/tmp", "fuzz-members", &place);
		atexit(remove_directory);
	}
	fuzz_assert(fd >= 0);
	return fd;
}

static void check_list(const char *text, size_t size)
{
	struct ip_trace_members list, again;
	char name[IP_TRACE_MEMBER_NAME];

	if (ip_trace_members_parse("list", text, size, &list) < 0) {
		fuzz_check_error();
		fuzz_assert(!list.items && !list.service);
		return;
	}
	fuzz_assert(list.n <= IP_TRACE_MEMBERS_MAX);
	for (size_t i = 0; i < list.n; i++) {
		const char *own = list.items[i].name;

		fuzz_assert(!strchr(own, '/') && *own != '.' && strcmp(own, "iprobe"));
		fuzz_assert(list.items[i].pid > 0);
		fuzz_assert(ip_trace_member_open(directory(), own) < 0);
		fuzz_assert(ip_trace_member_name(list.items[i].pid, own, name, sizeof(name)) == 0);
		fuzz_assert(ip_trace_member_is_name(name));
	}
	fuzz_assert(ip_trace_members_write(directory(), "d", &list) == 0);
	fuzz_assert(ip_trace_members_read(directory(), "d", &again) == 0);
	fuzz_assert(again.n == list.n && !again.service == !list.service);
	for (size_t i = 0; i < list.n; i++)
		fuzz_assert(!strcmp(again.items[i].name, list.items[i].name) &&
			    again.items[i].pid == list.items[i].pid);
	ip_trace_members_clear(&again);
	ip_trace_members_clear(&list);
	/* a process's name may be anything, too */
	if (size < 100 && !memchr(text, '\0', size)) {
		char comm[100] = "";

		memcpy(comm, text, size);
		fuzz_assert(ip_trace_member_name(INT_MAX, comm, name, sizeof(name)) == 0);
		fuzz_assert(ip_trace_member_is_name(name));
	}
}

static void check_member(const struct ip_recording *s, uint32_t member)
{
	const struct ip_recording_member *m = &s->members->items[member];
	const struct ip_recording *own = m->own;

	for (uint32_t n = 0; n < own->nnumbers + 3; n++) {
		struct ip_recording_number a = ip_recording_number(own, n),
					   b = ip_recording_number(s, ip_member_number(m, n));

		fuzz_assert(ip_member_number(m, n) < s->nnumbers && b.function < s->nfunctions);
		fuzz_assert(!strcmp(own->functions[a.function].linker_name,
				    s->functions[b.function].linker_name));
		/* a number without a function may have been told a payload; nobody asks for it */
		fuzz_assert(!a.function ||
			    (a.room == b.room && a.payload == b.payload && a.jumps == b.jumps &&
			     a.silent == b.silent && a.entry_only == b.entry_only));
		for (uint64_t ts = 0; ts < 16; ts++)
			fuzz_assert(ip_changes_is_off(&own->changes, a.function, ts) ==
				    ip_changes_is_off(&m->changes, b.function, ts));
	}
	for (size_t i = 0; i < own->njumps; i++)
		fuzz_assert(ip_recording_leads_to(s, ip_member_number(m, own->jumps[i].number),
						  m->functions[own->jumps[i].to]) ||
			    own->jumps[i].number > m->most);
	fuzz_assert(m->signatures + m->most_signature < s->nsignatures);
	for (size_t i = 0; i < own->nmodules; i++)
		fuzz_assert(!own->modules[i].present || m->modules[i] < s->nmodules);
}

static void check_sessions(const char *text, size_t size)
{
	struct ip_recording_members *members = calloc(1, sizeof(*members));
	struct ip_recording *s;
	const char *end = text + size;

	fuzz_assert(members);
	members->items = calloc(MOST, sizeof(*members->items));
	fuzz_assert(members->items);
	while (text < end && members->n < MOST) {
		const char *next = memchr(text, SEPARATOR, (size_t)(end - text));
		struct ip_recording *own;

		if (ip_recording_parse("s", text, (size_t)((next ? next : end) - text), &own) < 0)
			fuzz_check_error();
		else if (members->n && ip_recording_other_clock(members->items[0].own, own))
			ip_recording_destroy(own);
		else
			members->items[members->n++] =
				(struct ip_recording_member){.own = own, .name = strdup("m-1")};
		text = next ? next + 1 : end;
	}
	if (!members->n) {
		ip_recording_members_destroy(members);
		return;
	}
	if (ip_recording_join(members, &s) < 0) {
		fuzz_check_error();
		return;
	}
	for (uint32_t i = 0; i < s->members->n; i++)
		check_member(s, i);
	for (size_t i = 0; i < s->nmodules; i++)
		fuzz_assert(s->modules[i].same_as <= i);
	for (size_t i = 0; i < s->nmissing; i++)
		fuzz_assert(s->missing[i].number < s->nnumbers);
	for (size_t i = 0; i < s->ndrops; i++)
		fuzz_assert(s->drops[i].function < s->nfunctions);
	for (size_t i = 1; i < s->nstops; i++)
		fuzz_assert(s->stops[i - 1].tsc <= s->stops[i].tsc);
	ip_recording_destroy(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *separator = memchr(data, SEPARATOR, size);
	size_t list = separator ? (size_t)(separator - data) : size;

	check_list((const char *)data, list);
	if (separator)
		check_sessions((const char *)separator + 1, size - list - 1);
	return 0;
}

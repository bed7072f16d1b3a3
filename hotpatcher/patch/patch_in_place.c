/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing single sites. The steps are told in patch_in_place.h; the comments here name them.
 */
#include "hotpatcher/patch/patch_in_place.h"

#include <string.h>

#include "common/error.h"
#include "common/proc.h"
#include "hotpatcher/ptrace/stop.h"

#define PAGE_SIZE 4096ull
#define SITE_NS	  5000u /* time to read and write one site */

/* Step 2. */
static int check_pcs(const struct ip_target *target, const struct ip_stop *stop,
		     const struct ip_change *changes, size_t n)
{
	for (size_t i = 0; i < stop->n; i++) {
		uint64_t pc = stop->threads[i].pc;
		size_t low = 0, high = n;

		if (!stop->threads[i].stopped)
			continue;
		while (low < high) {
			size_t middle = (low + high) / 2;

			if (changes[middle].address < pc)
				low = middle + 1;
			else
				high = middle;
		}
		if (low && pc < changes[low - 1].address + changes[low - 1].length)
			return ip_error("pid %d: thread %s stands inside the site at %#lx: nothing "
					"was changed",
					target->pid, IP_THREAD_TEXT(stop->threads[i].tid),
					changes[low - 1].address);
	}
	return 0;
}

/* Step 4. */
int ip_patch_in_place_write(const struct ip_target *target, const struct ip_change *c)
{
	unsigned first = 0, end = c->length, split = PAGE_SIZE - c->address % PAGE_SIZE, n;
	uint8_t transit[IP_SITE_MAX];

	while (first < end && c->old_bytes[first] == c->new_bytes[first])
		first++;
	while (end > first && c->old_bytes[end - 1] == c->new_bytes[end - 1])
		end--;
	if (first == end)
		return 0;
	if (split <= first || split >= end)
		return ip_target_write(target, c->address + first, c->new_bytes + first,
				       end - first);
	if (first == 0) {
		n = target->arch->transit(c->form, c->transit_regs, c->length, split, transit);
		if (!n)
			return ip_error("pid %d: the site at %#lx crosses a page and cannot be "
					"written safely",
					target->pid, c->address);
		if (ip_target_write(target, c->address, transit, n) < 0)
			return -1;
	}
	if (ip_target_write(target, c->address + split, c->new_bytes + split, end - split) < 0)
		return -1;
	return ip_target_write(target, c->address + first, c->new_bytes + first, split - first);
}

int ip_patch_in_place(struct ip_target *target, const struct ip_change *changes, size_t n,
		      uint64_t deadline_ns, struct ip_patch_result *ret)
{
	struct ip_stop_record record = {0};
	struct ip_stop stop;
	int done;

	*ret = (struct ip_patch_result){0};
	if (ip_stop_begin(target, deadline_ns, n * SITE_NS, &stop) < 0) { /* 1 */
		ret->transient = ip_target_alive(target) && stop.late;
		return -1;
	}
	record.threads = stop.n;
	record.tsc = stop.began_tsc;
	done = check_pcs(target, &stop, changes, n);
	ret->transient = done < 0;
	for (size_t i = 0; done == 0 && i < n; i++) {
		uint8_t now[IP_SITE_MAX];

		done = ip_target_read(target, changes[i].address, now, changes[i].length); /* 3 */
		if (done < 0 && changes[i].may_go) {
			done = 0;
			continue;
		}
		if (done < 0 || memcmp(now, changes[i].old_bytes, changes[i].length))
			continue;
		done = ip_patch_in_place_write(target, &changes[i]);
		record.sites += done == 0;
	}
	record.pages = record.sites;
	record.ns = ip_stop_end(&stop); /* 5 */
	record.running_ns = stop.running_ns;
	record.failed = done < 0 && !record.sites;
	if (record.failed)
		ip_stop_was_in_vain(target, &record);
	else
		ip_patch_result_add(ret, &record);
	return done < 0 ? -1 : (int)ret->sites;
}

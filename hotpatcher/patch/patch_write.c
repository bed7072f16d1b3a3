/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the changes of a patch while all threads of the target stand: steps 6 and 7 of patch.h.
 */
#include <string.h>
#include <sys/uio.h>

#include "common/error.h"
#include "hotpatcher/patch/patch_private.h"
#include "hotpatcher/patch/write_helper.h"

#define LEAST_PIECES 2 /* of less there is nothing to share */

uint64_t ip_patch_sum(uint8_t *bytes, size_t n)
{
	uint64_t sum = 0xcbf29ce484222325ull, word;

	memset(bytes + n, 0, sizeof(word));
	for (size_t i = 0; i < n; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		sum = (sum ^ word) * 0x100000001b3ull;
		sum ^= sum >> 32;
	}
	return sum;
}

static bool holds(const uint8_t *bytes, const uint8_t *wanted, size_t length)
{
	return !memcmp(bytes, wanted, length);
}

/* The bytes of a site within 8 bytes, by its length. */
static const uint8_t masks[IP_SITE_MAX + 1][IP_SITE_MAX] = {
	{0},
	{255},
	{255, 255},
	{255, 255, 255},
	{255, 255, 255, 255},
	{255, 255, 255, 255, 255},
	{255, 255, 255, 255, 255, 255},
	{255, 255, 255, 255, 255, 255, 255},
	{255, 255, 255, 255, 255, 255, 255, 255},
};

static uint64_t word_at(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* Puts `to` in the place of `from`: 1; 0 if it is neither of them. At `at` are IP_SITE_MAX bytes;
 * those behind the site stay. The target stands meanwhile, so there is no call for each site. */
static inline bool exchange(uint8_t *at, const uint8_t *from, const uint8_t *to, unsigned length)
{
	const uint64_t mask = word_at(masks[length]), now = word_at(at), wanted = word_at(to);
	const uint64_t then = (now & ~mask) | (wanted & mask);

	if ((now ^ word_at(from)) & mask)
		return now == then;
	memcpy(at, &then, sizeof(then));
	return true;
}

_Static_assert(IP_SITE_MAX == sizeof(uint64_t), "a site is exchanged as one word");

/* Reads memory of the target, all threads of which stand. process_vm_readv() takes two thirds of
 * the time, but a worker of iprobed may not use it, and it does not work if the first thread has
 * ended. */
static int read_standing(const struct ip_patch *patch, uint64_t address, void *buffer, size_t size)
{
	const struct iovec here = {buffer, size}, there = {(void *)(uintptr_t)address, size};

	if (process_vm_readv(patch->target->pid, &here, 1, &there, 1, 0) == (ssize_t)size)
		return 0;
	return ip_target_read(patch->target, address, buffer, size);
}

int ip_patch_read_crossing(const struct ip_patch *patch, const struct ip_change *c, uint8_t *ret)
{
	return ip_target_read(patch->target, c->address, ret, c->length);
}

static int changed_by_others(const struct ip_patch *patch, const struct ip_change *c)
{
	return ip_error("pid %d: the site at %#lx was changed by somebody else just now: nothing "
			"was changed, try again",
			patch->target->pid, c->address);
}

/* Step 6 for a piece. back: step 7. buffer: as that of the patch. */
static int write_piece(const struct ip_patch *patch, const struct ip_patch_piece *p, bool back,
		       uint8_t *buffer)
{
	if (read_standing(patch, p->start, buffer, p->size) < 0)
		return -1;
	if (!back && p->exact && ip_patch_sum(buffer, p->size) != p->sum)
		return ip_error("pid %d: the library at %#lx was unloaded or changed just now: "
				"nothing was changed, try again",
				patch->target->pid, p->start);
	for (size_t i = p->first; i < p->last; i++) {
		const struct ip_change *c = &patch->changes[i];
		const uint8_t *from = back ? c->new_bytes : c->old_bytes,
			      *to = back ? c->old_bytes : c->new_bytes;

		if (ip_change_crosses_page(c))
			continue;
		if (!exchange(buffer + (c->address - p->start), from, to, c->length) && !back)
			return changed_by_others(patch, c);
	}
	return ip_target_write(patch->target, p->start, buffer, p->size);
}

/* The next piece that nobody has taken; NULL: there is none. */
static const struct ip_patch_piece *take_piece(struct ip_patch *patch)
{
	const size_t i = __atomic_fetch_add(&patch->next, 1, __ATOMIC_RELAXED);

	return i < patch->npieces ? &patch->pieces[i] : NULL;
}

/* What the helper does of step 6. It leaves a piece that it cannot write to the caller, who learns
 * the reason. */
static void help(void *data, uint8_t *buffer)
{
	struct ip_patch *patch = data;
	const struct ip_patch_piece *p;

	while ((p = take_piece(patch)))
		if (write_piece(patch, p, false, buffer) < 0) {
			__atomic_store_n(&patch->left, p - patch->pieces, __ATOMIC_RELAXED);
			return;
		}
}

void ip_patch_write_begin(struct ip_patch *patch)
{
	if (patch->npieces >= LEAST_PIECES)
		patch->helper = ip_write_helper_start(help, patch, IP_PIECE_BYTES + IP_SITE_MAX);
}

/* Step 6 without the sites that cross a page. A piece may be written again: its sites then hold
 * their new bytes. */
static int write_pieces(struct ip_patch *patch)
{
	const struct ip_patch_piece *p;
	int ret = 0;

	patch->next = 0;
	patch->left = patch->npieces;
	ip_write_helper_go(patch->helper);
	while (ret == 0 && (p = take_piece(patch)))
		ret = write_piece(patch, p, false, patch->buffer);
	__atomic_store_n(&patch->next, patch->npieces, __ATOMIC_RELAXED);
	ip_write_helper_finish(patch->helper);
	if (ret == 0 && patch->left < patch->npieces)
		ret = write_piece(patch, &patch->pieces[patch->left], false, patch->buffer);
	return ret;
}

/* Steps 6 and 7 for a site that crosses a page. */
static int write_crossing(const struct ip_patch *patch, const struct ip_change *c, bool back)
{
	const uint8_t *from = back ? c->new_bytes : c->old_bytes,
		      *to = back ? c->old_bytes : c->new_bytes;
	unsigned split = PAGE(c->address + c->length - 1) - c->address;
	uint8_t transit[IP_SITE_MAX], now[IP_SITE_MAX];
	unsigned n = patch->arch->transit(c->form, c->transit_regs, c->length, split, transit);

	if (!n)
		return ip_error(
			"pid %d: the site at %#lx crosses a page and cannot be written safely",
			patch->target->pid, c->address);
	if (ip_patch_read_crossing(patch, c, now) < 0)
		return -1;
	if (!holds(now, from, c->length) && !holds(now, transit, n))
		return back || holds(now, to, c->length) ? 0 : changed_by_others(patch, c);
	if (ip_target_write(patch->target, c->address, transit, n) < 0)
		return -1;
	if (ip_target_write(patch->target, c->address + split, to + split, c->length - split) < 0)
		return -1;
	return ip_target_write(patch->target, c->address, to, split);
}

/* Step 6. back: step 7, which tries all pieces and sites, whatever fails. */
int ip_patch_write_all(struct ip_patch *patch, bool back)
{
	int ret = back ? 0 : write_pieces(patch);

	for (size_t i = 0; back && i < patch->npieces; i++)
		ret |= write_piece(patch, &patch->pieces[i], true, patch->buffer);
	for (size_t i = 0; patch->ncrossing && i < patch->nchanges && (back || ret == 0); i++)
		if (ip_change_crosses_page(&patch->changes[i]))
			ret |= write_crossing(patch, &patch->changes[i], back);
	return ret;
}

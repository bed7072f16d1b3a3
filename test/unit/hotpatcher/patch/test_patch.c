/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preparing a patch: what is checked and touched while the target still runs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "hotpatcher/patch/patch.h"
#include "test/unit/fake_target.h"
#include "test/unit/test.h"

#define TEXT  0x400000ull
#define POOL  0x600000ull
#define SITES 300

static struct ip_target *target;
static struct ip_patch *patch;
static struct ip_change changes[SITES];
/* what was read and written since, see the wraps */
static struct {
	uint64_t address, size;
} reads[1000];
static size_t nreads, nwrites;
static uint64_t written[1000];

int __real_ip_target_read(const struct ip_target *t, uint64_t address, void *buffer, size_t size);
int __wrap_ip_target_read(const struct ip_target *t, uint64_t address, void *buffer, size_t size);
int __real_ip_target_write(const struct ip_target *t, uint64_t address, const void *buffer,
			   size_t size);
int __wrap_ip_target_write(const struct ip_target *t, uint64_t address, const void *buffer,
			   size_t size);

int __wrap_ip_target_read(const struct ip_target *t, uint64_t address, void *buffer, size_t size)
{
	assert_true(nreads < N_ELEMENTS(reads));
	reads[nreads].address = address;
	reads[nreads++].size = size;
	return __real_ip_target_read(t, address, buffer, size);
}

/* Nothing may change yet: only what is there is written again. */
int __wrap_ip_target_write(const struct ip_target *t, uint64_t address, const void *buffer,
			   size_t size)
{
	assert_true(nwrites < N_ELEMENTS(written));
	assert_int_equal(size, 1);
	assert_int_equal(*(const uint8_t *)buffer, fake_target_byte(t, address));
	written[nwrites++] = address;
	return __real_ip_target_write(t, address, buffer, size);
}

static int begin(void **state)
{
	(void)state;
	target = fake_target_open();
	nreads = nwrites = 0;
	patch = NULL;
	return 0;
}

static int end(void **state)
{
	(void)state;
	ip_patch_destroy(patch);
	ip_target_close(target);
	return 0;
}

static void site(size_t i, uint64_t offset)
{
	struct ip_change *c = &changes[i];

	*c = (struct ip_change){
		.address = TEXT + offset, .length = 5, .transit_regs = IP_REGS_CALL};
	target->arch->idle(IP_FORM_CALL, 5, 0, c->old_bytes);
	target->arch->live(IP_FORM_CALL, 5, c->address, POOL, c->new_bytes);
	assert_int_equal(__real_ip_target_write(target, c->address, c->old_bytes, 5), 0);
}

static int prepare(size_t n)
{
	ip_patch_destroy(patch);
	patch = NULL;
	nreads = nwrites = 0;
	return ip_patch_prepare(target, changes, n, false, &patch);
}

static void prepared(size_t n)
{
	if (prepare(n) < 0)
		fail_msg("%s", ip_error_message());
}

/* Pages are copied before the stop: one byte of each. */
static void test_pages(void **state)
{
	(void)state;
	prepared(0);
	assert_int_equal(ip_patch_pages(patch), 0);
	assert_int_equal(nreads + nwrites, 0);
	site(0, 0x5020);
	site(1, 0x1000);
	site(2, 0x1100);
	site(3, 0x1ffd);
	site(4, 0x2800);
	prepared(5);
	/* the patch has them in order, its caller as before */
	assert_int_equal(changes[0].address, TEXT + 0x5020);
	assert_int_equal(changes[4].address, TEXT + 0x2800);
	assert_int_equal(ip_patch_pages(patch), 3);
	assert_int_equal(nwrites, 3);
	assert_int_equal(written[0], TEXT + 0x1000);
	assert_int_equal(written[1], TEXT + 0x2001); /* the last byte of the one that crosses */
	assert_int_equal(written[2], TEXT + 0x5020);
	/* not those that are the process's own already, nor a library's that may go */
	changes[0].resident = true;
	changes[1].may_go = changes[2].may_go = true;
	prepared(5);
	assert_int_equal(nwrites, 2);
	assert_int_equal(written[0], TEXT + 0x1ffd);
	assert_int_equal(written[1], TEXT + 0x2001);
}

/* No page without sites is read, but for one between two that have some, and never much at once. */
static void test_pieces(void **state)
{
	(void)state;
	for (size_t i = 0; i < SITES; i++)
		site(i, i * 0x1000 + (i >= 150 ? 0x3000 : 0));
	for (size_t i = 0; i < SITES; i++)
		changes[i].resident = true;
	prepared(SITES);
	assert_int_equal(ip_patch_pages(patch), SITES);
	assert_int_equal(nwrites, 0);
	/* 150 pages in pieces of 32, twice */
	assert_int_equal(nreads, 10);
	for (size_t i = 0; i < nreads; i++) {
		uint64_t first = (reads[i].address - TEXT) / 0x1000,
			 last = (reads[i].address + reads[i].size - 1 - TEXT) / 0x1000;

		assert_true(last - first < 32);
		assert_true(last < 150 || first >= 153);
	}
}

/* A site that holds neither its old nor its new bytes is somebody else's. */
static void test_sites_of_others(void **state)
{
	const uint8_t trap = 0xcc;

	(void)state;
	site(0, 0x1000);
	site(1, 0x1ffd);
	site(2, 0x3000);
	/* one that is live already */
	assert_int_equal(
		__real_ip_target_write(target, changes[2].address, changes[2].new_bytes, 5), 0);
	prepared(3);
	for (size_t i = 0; i < 3; i++) {
		uint8_t was = fake_target_byte(target, changes[i].address);
		char text[64];

		assert_int_equal(__real_ip_target_write(target, changes[i].address, &trap, 1), 0);
		assert_int_equal(prepare(3), -1);
		assert_int_equal(nwrites, 0);
		snprintf(text, sizeof(text), "the site at %#lx holds cc ", changes[i].address);
		assert_error(text);
		assert_error("instead of 0f 1f 44 00 00: somebody else changed it");
		assert_int_equal(__real_ip_target_write(target, changes[i].address, &was, 1), 0);
	}
	prepared(3);
}

static void test_sites_that_overlap(void **state)
{
	(void)state;
	site(0, 0x1004);
	site(1, 0x1000);
	assert_int_equal(prepare(2), -1);
	assert_error("two sites overlap at 0x401004");
	assert_int_equal(nreads + nwrites, 0);
	site(0, 0x1005);
	site(1, 0x1000);
	prepared(2);
}

static void test_memory_that_is_gone(void **state)
{
	(void)state;
	site(0, 0x1000);
	fake_target_lose_memory(target);
	assert_int_equal(prepare(1), -1);
	assert_error("has ended");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pages, begin, end),
		cmocka_unit_test_setup_teardown(test_pieces, begin, end),
		cmocka_unit_test_setup_teardown(test_sites_of_others, begin, end),
		cmocka_unit_test_setup_teardown(test_sites_that_overlap, begin, end),
		cmocka_unit_test_setup_teardown(test_memory_that_is_gone, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

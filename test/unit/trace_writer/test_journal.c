/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal: an entry whose packet was never complete does not hold, and does not come to hold
 * when its piece is removed.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/trace/trace_format.h"
#include "test/unit/test.h"
#include "trace_writer/journal.h"

#define SLOT   5
#define PACKET 1000u

static char dir[] = "/tmp/iprobe-journal-XXXXXX";
static int dirfd;
static uint64_t sizes[4]; /* of the pieces' files */

static uint64_t size_of(void *context, uint32_t slot, uint32_t piece)
{
	(void)context;
	assert_int_equal(slot, SLOT);
	return sizes[piece];
}

static int begin(void **state)
{
	const struct ip_journal_header head = {.session = 1, .pid = 1, .pieces = 2};
	struct ip_journal *journal;

	(void)state;
	strcpy(strrchr(dir, '-'), "-XXXXXX");
	if (!mkdtemp(dir) || (dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
	    mkdirat(dirfd, "iprobe", 0700) < 0 || ip_journal_create(dirfd, &head, &journal) < 0)
		return -1;
	ip_journal_close(journal);
	memset(sizes, 0, sizeof(sizes));
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlinkat(dirfd, IP_TRACE_JOURNAL, 0);
	unlinkat(dirfd, "iprobe", AT_REMOVEDIR);
	close(dirfd);
	return rmdir(dir);
}

/* As an iprobe that goes on. */
static struct ip_journal *open_again(struct ip_journal *before, struct ip_journal_entry *ret)
{
	struct ip_journal_header head;
	struct ip_journal *journal;

	ip_journal_close(before);
	assert_int_equal(ip_journal_open(dirfd, &head, &journal), 0);
	assert_int_equal(ip_journal_get(journal, SLOT, size_of, NULL, ret), 0);
	return journal;
}

static void put(struct ip_journal *journal, uint32_t piece, uint64_t packets)
{
	const struct ip_progress progress = {
		.claimed = 1, .next_ordinal = packets, .events = 100 * packets};

	assert_int_equal(ip_journal_put(journal, SLOT, &progress, piece, PACKET, packets), 0);
}

static void test_the_first_packet_was_never_complete(void **state)
{
	struct ip_journal_entry e;
	struct ip_journal *journal = open_again(NULL, &e);

	(void)state;
	assert_int_equal(e.seq, 0);
	put(journal, 0, 1);
	sizes[0] = PACKET - 1;
	journal = open_again(journal, &e);
	assert_int_equal(e.seq, 0);
	/* others have written meanwhile, and it is killed again before this one has */
	sizes[0] = UINT64_MAX;
	journal = open_again(journal, &e);
	assert_int_equal(e.seq, 0);
	assert_int_equal(e.progress.events, 0);
	/* now it has */
	put(journal, 1, 1);
	sizes[1] = PACKET;
	journal = open_again(journal, &e);
	assert_int_equal(e.progress.events, 100);
	ip_journal_close(journal);
}

static void test_a_later_one_was_not(void **state)
{
	struct ip_journal_entry e;
	struct ip_journal *journal = open_again(NULL, &e);

	(void)state;
	for (uint32_t piece = 0; piece < 3; piece++)
		put(journal, piece, piece + 1);
	sizes[0] = sizes[1] = PACKET;
	for (int i = 0; i < 2; i++) {
		journal = open_again(journal, &e);
		assert_int_equal(e.piece, 1);
		assert_int_equal(e.progress.events, 200);
		sizes[0] = sizes[1] = sizes[2] = UINT64_MAX;
	}
	ip_journal_close(journal);
}

static void test_what_was_removed_holds(void **state)
{
	struct ip_journal_entry e;
	struct ip_journal *journal = open_again(NULL, &e);

	(void)state;
	put(journal, 0, 1);
	put(journal, 1, 2);
	sizes[0] = sizes[1] = UINT64_MAX;
	journal = open_again(journal, &e);
	assert_int_equal(e.progress.events, 200);
	sizes[1] = PACKET - 1; /* by somebody else */
	journal = open_again(journal, &e);
	assert_int_equal(e.progress.events, 100);
	ip_journal_close(journal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_the_first_packet_was_never_complete, begin,
						end),
		cmocka_unit_test_setup_teardown(test_a_later_one_was_not, begin, end),
		cmocka_unit_test_setup_teardown(test_what_was_removed_holds, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

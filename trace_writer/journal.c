/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's file: a head, then two entries for each slot, which are written by turns.
 */
#include "trace_writer/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/abi/area.h"
#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/trace/trace_format.h"

#define MAGIC	   0x334a65626f727069ull /* "iprobeJ3" */
#define ENTRY_SIZE 128u /* so an entry does not cross a page: the kernel copies it whole */

_Static_assert(sizeof(struct ip_journal_entry) <= ENTRY_SIZE &&
		       sizeof(struct ip_journal_header) <= 4096,
	       "the journal's places");

struct ip_journal {
	int fd;
	uint64_t seq[IP_AREA_SLOTS]; /* number of each slot's newest entry */
};

static off_t place(uint32_t slot, uint64_t seq)
{
	return 4096 + ENTRY_SIZE * (2ull * slot + seq % 2);
}

static struct ip_journal *new_journal(int fd)
{
	struct ip_journal *journal = calloc(1, sizeof(*journal));

	if (journal)
		journal->fd = fd;
	else
		ip_error("out of memory");
	return journal;
}

static bool lock(int fd)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &l) == 0;
}

static int open_journal(int dirfd, int flags)
{
	return openat(dirfd, IP_TRACE_JOURNAL,
		      flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

int ip_journal_create(int dirfd, const struct ip_journal_header *head, struct ip_journal **ret)
{
	_cleanup_close_ int fd = ip_file_make(dirfd, IP_TRACE_JOURNAL, O_RDWR);
	struct ip_journal_header h = *head;

	h.magic = MAGIC;
	if (fd < 0 || !lock(fd) || pwrite(fd, &h, sizeof(h), 0) != sizeof(h))
		return ip_error_errno("cannot make the journal of the trace (%s)",
				      IP_TRACE_JOURNAL);
	*ret = new_journal(fd);
	if (!*ret)
		return -1;
	fd = -1;
	return 0;
}

int ip_journal_open(int dirfd, struct ip_journal_header *head, struct ip_journal **ret)
{
	_cleanup_close_ int fd = open_journal(dirfd, O_RDWR);

	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd < 0)
		return ip_error_errno("cannot open %s", IP_TRACE_JOURNAL);
	if (!lock(fd))
		return ip_error("an iprobe that lives is writing it");
	if (pread(fd, head, sizeof(*head), 0) != sizeof(*head) || head->magic != MAGIC)
		return ip_error("its journal is damaged");
	*ret = new_journal(fd);
	if (!*ret)
		return -1;
	fd = -1;
	return 0;
}

int ip_journal_expect_session(struct ip_journal *journal, uint32_t session)
{
	if (pwrite(journal->fd, &session, sizeof(session),
		   offsetof(struct ip_journal_header, next)) != sizeof(session))
		return ip_error_errno("cannot write the journal of the trace (%s)",
				      IP_TRACE_JOURNAL);
	return 0;
}

int ip_journal_set_session(struct ip_journal *journal, uint32_t session)
{
	if (pwrite(journal->fd, &session, sizeof(session),
		   offsetof(struct ip_journal_header, session)) != sizeof(session))
		return ip_error_errno("cannot write the journal of the trace (%s)",
				      IP_TRACE_JOURNAL);
	return 0;
}

bool ip_journal_is_locked(int dirfd)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	_cleanup_close_ int fd = open_journal(dirfd, O_RDONLY);

	return fd >= 0 && fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

int ip_journal_put(struct ip_journal *journal, uint32_t slot, const struct ip_progress *progress,
		   uint32_t piece, uint64_t size, uint64_t packets)
{
	uint64_t seq = journal->seq[slot] + 1;
	const struct ip_journal_entry e = {seq, size, packets, piece, *progress, seq};
	ssize_t done;

	do
		done = pwrite(journal->fd, &e, sizeof(e), place(slot, seq));
	while (done < 0 && errno == EINTR);
	if (done != sizeof(e)) {
		errno = done < 0 ? errno : ENOSPC;
		return -1;
	}
	journal->seq[slot] = seq;
	return 0;
}

void ip_journal_undo(struct ip_journal *journal, uint32_t slot)
{
	journal->seq[slot]--; /* the next entry overwrites it */
}

int ip_journal_get(struct ip_journal *journal, uint32_t slot,
		   uint64_t (*size_of)(void *context, uint32_t slot, uint32_t piece), void *context,
		   struct ip_journal_entry *ret)
{
	static const struct ip_journal_entry none;
	struct ip_journal_entry e[2] = {0}, *newer, *older;
	bool holds;

	for (int i = 0; i < 2; i++)
		if (pread(journal->fd, &e[i], sizeof(e[i]), place(slot, i)) != sizeof(e[i]) ||
		    e[i].seq != e[i].seq_again || (e[i].seq && e[i].seq % 2 != (uint64_t)i))
			e[i] = (struct ip_journal_entry){0};
	newer = &e[e[1].seq > e[0].seq];
	older = &e[!(e[1].seq > e[0].seq)];
	holds = !newer->seq || size_of(context, slot, newer->piece) >= newer->size;
	*ret = holds ? *newer : *older;
	journal->seq[slot] = ret->seq;
	if (ret->seq && size_of(context, slot, ret->piece) < ret->size)
		return ip_error("stream-%u is shorter than its journal says: another program has "
				"changed the trace",
				slot);
	/* else it would become valid once its piece is removed */
	if (!holds &&
	    pwrite(journal->fd, &none, sizeof(none), place(slot, newer->seq)) != sizeof(none))
		return ip_error_errno("cannot write %s", IP_TRACE_JOURNAL);
	return 0;
}

void ip_journal_reserve(struct ip_journal *journal, uint64_t size)
{
	/* The space may not be available (another kind of file system, a full disk). Then the trace
	 * may lack its last lines. */
	fallocate(journal->fd, FALLOC_FL_KEEP_SIZE, place(IP_AREA_SLOTS, 0), size);
}

void ip_journal_close(struct ip_journal *journal)
{
	if (!journal)
		return;
	close(journal->fd);
	free(journal);
}

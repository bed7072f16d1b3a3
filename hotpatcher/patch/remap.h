/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing sites without stopping the threads that run them (--no-stop): whole pages are switched,
 * one blocked thread at a time is borrowed for the system calls.
 *
 * The changed sites are cut into pieces: neighbouring pages of one mapping, no site across their
 * borders. There are three kinds.
 *
 *   Reverting: afterwards the piece is, byte for byte, what its file holds (detach). The file's own
 *   pages need only come back.
 *   Switching: before, the piece is what its file holds (attach).
 *   Changing: neither, since sites of ours beside those that change stay live (IP_REMAP_KEEPING: a
 *   session that changes). The unchanged ones are in both images. No live
 *      site lies across the border of such a piece: half of it would be idle in step 4.
 *
 *   1. Prepare: read each piece and its file. Each site must hold its old bytes, and all between
 *      the sites be the file's, or, of a changing piece, live sites of ours, as restore.h knows
 *      them (nobody's breakpoint, no relocation). A piece for which this does not hold cannot be
 *      flipped: its sites are left out, or the whole is refused, as the caller chose.
 *   2. Head-room (remap_limits.h): mappings, memory cgroups, memory. One iprobe at a time; what a
 *      dead one left is unmapped.
 *   3. Read the pieces again: still what was prepared.
 *   4. First hold of a blocked thread, for each piece:
 *      switching  mremap(MREMAP_DONTUNMAP) moves the text's pages away, to a new mapping of the
 *                 same file; the text's mapping stays, and its pages are the file's. This cannot
 *                 leave text unmapped, whatever fails.
 *      changing   the same, twice: the first new mapping, A, has the text's pages, the second, B,
 *                 has none, since the text has none of its own then. Then A is put back in the
 *                 place of the text, as in 8. The text is what it was, and B is another mapping of
 *                 the file. All live sites of the piece are idle in between, some ten microseconds
 *                 (three calls in a row; struct ip_remap tells how long): see below.
 *      reverting  nothing yet; where all pieces are of this kind the text's pages are moved away as
 *                 above, and unmapped, and that is all.
 *   5. The thread is let go. What is staged must be what the file holds, else it is put back
 *      (somebody wrote since 3).
 *   6. The new bytes are written into what is staged, through /proc/PID/mem, which copies the
 *      pages; nobody executes there. Read back. The text must still be what was prepared.
 *   7. The gate is opened. (One that is to be closed was closed before 3; one that is open stays
 *      so.)
 *   8. Second hold: mremap(MREMAP_FIXED), piece by piece, puts what is staged in the place of the
 *      text; what reverts does so now.
 *   9. Read back.
 *
 * What is mapped where is in the target's struct ip_remap at any moment. Killed before 8, we leave
 * a second mapping of the text that nobody uses, which the next iprobe unmaps (2), and the text as
 * it was; in a hold, the thread does the rest by itself and goes back; after 8, live sites as any
 * dead session. Every byte of text is old or new, or, in 4, the file's. A failure before 8 unmaps
 * what is staged: nothing has changed. (Should A not come back in 4, for want of memory that 2 has
 * looked for, the piece is idle, and it is known by its text: begun.) A process that forks in the
 * midst of 4 gives its child idle sites, which have no session there anyway, and at worst one
 * mapping that nobody uses.
 *
 * Why a moment of idle sites is harmless, to hooks in flight and to who reads what they leave
 *
 *   A hook that runs is in the runtime and its stub, neither of which is touched; it returns behind
 *   its site, which is the end of the instruction in either form. So what threads do is what they
 *   do at any attach and detach: a call may have its entry seen and not its exit, or the other way
 *   round.
 *   - Calls that begin in the gap are not counted. How many: the caller reckons (remap_gap.c).
 *   - An entry whose exit was missed leaves a frame open. A later entry at its place of the stack,
 *     or further out, ends it (runtime/fperf.c, rule 1; runtime/frames.h). What must not be is that
 *     the exit of another call, which began in the gap at the same place, ends it as its own: the
 *     two would be measured as one. Who has open samples ends them before: no frame of before the
 *     gap is current behind it (remap_gap.c).
 *   - Exclusive samples need every call seen: they are cut by any change (loop.c).
 *
 * Why the threads notice nothing
 *
 *   A thread stands between two instructions, and old and new text differ in whole instructions,
 *   each a site (patch.h): going on in new text from a place in old text is what a thread does that
 *   a stop has found there. What has to be shown is that no processor ever executes an instruction
 *   made of bytes of both. (Intel: SDM vol. 3, "Handling Self- and Cross-Modifying Code" and
 *   "Self-Modifying Code": code that another processor modified, or that was modified by another
 *   linear address, is to be executed after a serialising instruction. AMD: APM vol. 2, 7.6.1,
 *   "Cache and Memory Management: Self-Modifying and Cross-Modifying Code", asks for the same where
 *   a store is not one aligned quadword.)
 *
 *   a. No page is written while it is executed. The new bytes are stored (6) into pages that no
 *   translation makes executable at the
 *      text's address, microseconds to seconds before it is so used (8).
 *   b. A switch is: translations of the old pages removed; flushed on all processors that run the
 *   process; new ones entered. The
 *      kernel does all three holding the process's mappings for writing (mmap_lock, and the locks
 *      of the mappings), so no page fault is served in between: a thread that fetches meanwhile
 *      faults, and waits until the new pages are there.
 *   c. A processor learns of the flush by an interrupt. It is taken between two instructions; what
 *   was fetched beyond is
 *      discarded; IRET serialises (SDM vol. 3, "Serializing Instructions"; APM vol. 2, 7.6.4). One
 *      that does not run the process then (or is idle in its address space) flushes before it next
 *      does, by loading CR3, which serialises as well. So instructions fetched by old translations
 *      have retired or are fetched anew before the first new translation exists: no instruction is
 *      a mixture, wherever it lies in a line or across pages of a piece. (SDM vol. 3, "Details of
 *      TLB Use" and "Operations that Invalidate TLBs": a processor may use a translation until it
 *      is invalidated, and no longer.)
 *   d. Without an interrupt, by INVLPGB and TLBSYNC (APM vol. 3), old translations are gone all the
 *   same before the new ones come, but
 *      no manual promises that the first half of an instruction, fetched before, is discarded while
 *      the fetch of the second half waits for a page fault. Fetches are of lines, so only a site
 *      that crosses one of 64 bytes could be so cut: where the processor has INVLPGB such sites are
 *      left out (arch/ARCH/remap.h).
 *   e. madvise(MADV_DONTNEED) would revert as well, but under a lock that lets faults through:
 *   another processor's fault may enter a new
 *      translation before all have flushed. That is why reverting moves the pages away.
 *   f. Other processors need no membarrier(SYNC_CORE): c is one.
 *
 * Why 8 cannot leave text unmapped: MREMAP_FIXED unmaps the destination first, then needs a record
 * for the mapping and perhaps page tables. The kernel refuses beforehand where the number of
 * mappings might not do; 2 sees to it that it does, and that no memory cgroup is near its limit.
 * The mapping has the text's own flags, so nothing is charged to commit or lock limits, and
 * RLIMIT_AS was asked in 4. Small allocations of the kernel do not fail otherwise; should one, the
 * thread tries again at once.
 *
 * What remains: a byte that somebody else writes into text between 6's reading and 8 (a tenth of a
 * millisecond to some) is lost: a debugger's breakpoint or a uprobe would not be hit. Threads see
 * one piece switched before the next.
 */
#ifndef IP_REMAP_H
#define IP_REMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hotpatcher/inject/remap_thread.h"
#include "hotpatcher/patch/patch.h"
#include "hotpatcher/process/modules.h"

struct ip_remap_plan;

#define IP_REMAP_HOLDS 16

struct ip_remap_result {
	size_t sites, pages, pieces;
	/* of one thread each; the last one stands for all further ones */
	struct ip_remap_hold holds[IP_REMAP_HOLDS];
	size_t nholds;
	uint64_t changing_ns; /* so long mappings were changed, all holds together */
	uint64_t bare_ns;     /* so long each piece that changes was idle, on average */
	bool begun;	      /* of a failure: some pieces may have been switched */
	bool transient;	      /* of a failure: it may work a moment later */
};

enum ip_remap_how {
	/* sites that cannot be flipped are left out, and the first reason kept; else they are an
	 * error */
	IP_REMAP_PARTIAL = 1,
	IP_REMAP_KEEPING = 2, /* other sites of ours may be live, and stay so */
};

/* Step 1. changes are copied; modules outlive the plan. flags: enum ip_remap_how. */
int ip_remap_prepare(struct ip_target *target, const struct ip_modules *modules,
		     const struct ip_change *changes, size_t n, unsigned flags,
		     struct ip_remap_plan **ret);
void ip_remap_destroy(struct ip_remap_plan *plan);

/* Of what was prepared. */
size_t ip_remap_sites(const struct ip_remap_plan *plan);
size_t ip_remap_pages(const struct ip_remap_plan *plan); /* that hold sites */
size_t ip_remap_pages_copied(const struct ip_remap_plan *plan);
size_t ip_remap_pieces(const struct ip_remap_plan *plan);
size_t ip_remap_left_out(const struct ip_remap_plan *plan);
bool ip_remap_is_left_out(const struct ip_remap_plan *plan, uint64_t address);
/* why the first site was left out; NULL: none was */
const char *ip_remap_reason(const struct ip_remap_plan *plan);
/* The functions with sites that are live now and idle for a moment in step 4: of pieces that
 * change. The same one may be told several times. */
void ip_remap_each_interrupted(const struct ip_remap_plan *plan,
			       void (*visit)(void *context, const struct ip_module *module,
					     uint32_t function),
			       void *context);

/* Step 2 up to where nothing has been changed: whether it would serve now. */
int ip_remap_check(const struct ip_remap_plan *plan);

/* Steps 2 to 9. gate_session: as for ip_patch_apply(). A thread is looked for for find_ns each
 * time. -1 with the reason: nothing is staged any more, as far as a thread could be had; sites
 * of some pieces may be live, and ip_restore() knows them. */
int ip_remap_apply(struct ip_remap_plan *plan, int64_t gate_session, uint64_t find_ns,
		   struct ip_remap_result *ret);

/* ip_restore() without a stop: every site that any iprobe left live becomes idle, and the gate
 * is closed. ret->stop_ns: of all holds together. */
int ip_remap_restore(struct ip_target *target, const struct ip_modules *modules,
		     struct ip_patch_result *ret);

/* Has unmapped what an iprobe that died in a flip has left. 0 also where there was nothing; *ret:
 * the hold. */
int ip_remap_clean(struct ip_target *target, struct ip_remap_hold *ret);

#endif

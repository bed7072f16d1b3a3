/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing sites without stopping the threads that run them (--no-stop): iprobe switches whole
 * pages. For the system calls it borrows one blocked thread of the target at a time.
 *
 * The changed sites are divided into pieces. A piece is a range of neighbouring pages of one
 * mapping; no site lies across its borders. There are three kinds of pieces:
 *
 *   Reverting: after the change the piece is, byte for byte, what its file holds (detach). Only
 *              the file's own pages need to come back.
 *   Switching: before the change the piece is what its file holds (attach).
 *   Changing:  neither, since sites of iprobe beside those that change stay live
 *              (IP_REMAP_KEEPING: a session that changes). Both images hold the sites that do not
 *              change. No live site lies across the border of such a piece: half of it would be
 *              idle in step 4.
 *
 *   1. Prepare: read each piece and its file. Each site must hold its old bytes. All bytes between
 *      the sites must be the file's; in a changing piece they may also be live sites of iprobe, as
 *      restore.h knows them (no breakpoint of another program, no relocation). A piece for which
 *      this does not hold cannot be switched: its sites are left out, or the whole change is
 *      refused, as the caller chose.
 *   2. Head-room (remap_limits.h): check mappings, memory cgroups and memory. Only one iprobe
 *      works at a time. What a dead iprobe left is unmapped.
 *   3. Read the pieces again: they must still hold what was prepared.
 *   4. First hold of a blocked thread, for each piece:
 *      switching  mremap(MREMAP_DONTUNMAP) moves the text's pages away, to a new mapping of the
 *                 same file. The text's mapping stays, and its pages are the file's. This cannot
 *                 leave text unmapped, whatever fails.
 *      changing   The same is done twice. The first new mapping, A, has the text's pages. The
 *                 second one, B, has none, since the text has no pages of its own then. Then A is
 *                 put back in the place of the text, as in 8. The text is what it was, and B is
 *                 another mapping of the file. In between all live sites of the piece are idle,
 *                 for some ten microseconds (three calls in a row; struct ip_remap tells how
 *                 long): see below.
 *      reverting  Nothing yet. But if all pieces are of this kind, the text's pages are moved away
 *                 as above, and unmapped, and that is all.
 *   5. The thread is let go. The staged pages must be what the file holds; otherwise they are put
 *      back (another program has written to the text since 3).
 *   6. The new bytes are written into the staged pages, through /proc/PID/mem, which copies the
 *      pages; no thread executes there. Read the staged pages back. The text must still be what
 *      was prepared.
 *   7. The gate is opened. (A gate that is to be closed was closed before 3; a gate that is open
 *      stays open.)
 *   8. Second hold: mremap(MREMAP_FIXED), piece by piece, puts the staged pages in the place of
 *      the text. Pieces that revert do so now.
 *   9. Read back.
 *
 * At any moment the target's struct ip_remap tells what is mapped where. If iprobe is killed
 * before 8, it leaves the text as it was, and a second mapping of the text that nothing uses; the
 * next iprobe unmaps that mapping (2). If iprobe is killed in a hold, the thread does the rest by
 * itself and goes back. If iprobe is killed after 8, it leaves live sites, as any dead session
 * does. Every byte of text is old or new, or, in 4, the file's. After a failure before 8 the
 * staged pages are unmapped: nothing has changed. (A might not come back in 4, for want of memory,
 * although 2 has checked the memory. Then the piece is idle, which its text shows: begun.) A
 * process that forks in the middle of 4 gives its child idle sites, which have no session there
 * anyway, and at worst one mapping that nothing uses.
 *
 * Why a moment of idle sites is harmless to hooks in flight and to those who read what the hooks
 * leave
 *
 *   A hook that runs is in the runtime and in its stub, and neither is touched. The hook returns
 *   behind its site, which is the end of the instruction in either form. So threads do what they
 *   do at any attach and detach: the entry of a call may be seen and its exit not, or the other
 *   way round.
 *   - Calls that begin in the gap are not counted. The caller estimates how many there were
 *     (remap_gap.c).
 *   - An entry whose exit was missed leaves a frame open. A later entry at the same place of the
 *     stack, or further out, ends that frame (runtime/fperf.c, rule 1; runtime/frames.h). But the
 *     exit of another call, which began in the gap at the same place, must not end the frame as
 *     its own: the two calls would be measured as one. So a caller that has open samples ends them
 *     before the gap: no frame from before the gap is current after it (remap_gap.c).
 *   - Exclusive samples need to see every call: any change cuts them (loop.c).
 *
 * Why the threads notice nothing
 *
 *   A thread stands between two instructions. Old and new text differ in whole instructions, each
 *   of which is a site (patch.h). A thread that goes on in new text from a place in old text does
 *   what a thread does that a stop has found there. It remains to show that no processor ever
 *   executes an instruction made of bytes of both. (Intel: SDM vol. 3, "Handling Self- and
 *   Cross-Modifying Code" and "Self-Modifying Code": code that another processor modified, or that
 *   was modified by another linear address, is to be executed after a serialising instruction.
 *   AMD: APM vol. 2, 7.6.1, "Cache and Memory Management: Self-Modifying and Cross-Modifying
 *   Code", asks for the same unless a store is one aligned quadword.)
 *
 *   a. No page is written while it is executed. The new bytes are stored (6) into pages that no
 *      translation makes executable at the text's address. They are so used (8) only microseconds
 *      to seconds later.
 *   b. A switch has three parts: the translations of the old pages are removed; they are flushed
 *      on all processors that run the process; new translations are entered. The kernel does all
 *      three while it holds the process's mappings for writing (mmap_lock, and the locks of the
 *      mappings), so no page fault is served in between. A thread that fetches meanwhile faults,
 *      and waits until the new pages are there.
 *   c. A processor learns of the flush by an interrupt. The interrupt is taken between two
 *      instructions; what was fetched beyond is discarded; IRET serialises (SDM vol. 3,
 *      "Serializing Instructions"; APM vol. 2, 7.6.4). A processor that does not run the process
 *      then (or is idle in its address space) flushes before it next runs the process, by loading
 *      CR3, which serialises as well. So instructions that were fetched by old translations have
 *      retired, or are fetched anew, before the first new translation exists: no instruction is a
 *      mixture, wherever it lies in a line or across pages of a piece. (SDM vol. 3, "Details of
 *      TLB Use" and "Operations that Invalidate TLBs": a processor may use a translation until it
 *      is invalidated, and no longer.)
 *   d. Without an interrupt, by INVLPGB and TLBSYNC (APM vol. 3), the old translations are also
 *      gone before the new ones come. But no manual promises that the first half of an
 *      instruction, fetched before, is discarded while the fetch of the second half waits for a
 *      page fault. Fetches are of lines, so only a site that crosses a line of 64 bytes could be
 *      cut in this way: where the processor has INVLPGB such sites are left out
 *      (arch/ARCH/remap.h).
 *   e. madvise(MADV_DONTNEED) would revert as well, but under a lock that lets faults through: a
 *      fault on another processor may enter a new translation before all processors have flushed.
 *      That is why reverting moves the pages away.
 *   f. Other processors need no membarrier(SYNC_CORE): c serves as one.
 *
 * Why 8 cannot leave text unmapped: MREMAP_FIXED unmaps the destination first, and then needs a
 * record for the mapping and perhaps page tables. The kernel refuses beforehand if the number of
 * mappings might not be enough; 2 makes sure that it is enough, and that no memory cgroup is near
 * its limit. The mapping has the text's own flags, so nothing is charged to commit or lock limits,
 * and the kernel has checked RLIMIT_AS in 4. Small allocations of the kernel do not fail
 * otherwise; if one fails, the thread tries again at once.
 *
 * What remains: a byte that another program writes into the text between the reading in 6 and step
 * 8 (a tenth of a millisecond to some milliseconds) is lost: a debugger's breakpoint or a uprobe
 * would not be hit. And threads see one piece switched before the next.
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
	/* one for each hold of a thread; the last one stands for all further ones */
	struct ip_remap_hold holds[IP_REMAP_HOLDS];
	size_t nholds;
	uint64_t changing_ns; /* time in which mappings were changed, in all holds together */
	uint64_t bare_ns;     /* time for which each piece that changes was idle, on average */
	bool begun;	      /* after a failure: some pieces may have been switched */
	bool transient;	      /* after a failure: the change may succeed a moment later */
	const char *why;      /* after a failure: the reason in a phrase, for a summary */
};

enum ip_remap_how {
	/* sites that cannot be switched are left out, and the first reason is kept; without this
	 * flag they are an error */
	IP_REMAP_PARTIAL = 1,
	IP_REMAP_KEEPING = 2, /* other sites of iprobe may be live, and stay live */
};

/* Step 1. changes are copied; modules must outlive the plan. flags: enum ip_remap_how. The caller
 * frees *ret with ip_remap_destroy(). 0, or -1 with the reason. */
int ip_remap_prepare(struct ip_target *target, const struct ip_modules *modules,
		     const struct ip_change *changes, size_t n, unsigned flags,
		     struct ip_remap_plan **ret);
void ip_remap_destroy(struct ip_remap_plan *plan);

/* Numbers of what was prepared. */
size_t ip_remap_sites(const struct ip_remap_plan *plan);
size_t ip_remap_pages(const struct ip_remap_plan *plan); /* pages that change */
size_t ip_remap_pages_copied(const struct ip_remap_plan *plan);
size_t ip_remap_pieces(const struct ip_remap_plan *plan);
size_t ip_remap_left_out(const struct ip_remap_plan *plan);
bool ip_remap_is_left_out(const struct ip_remap_plan *plan, uint64_t address);
/* why the first site was left out; NULL: none was */
const char *ip_remap_reason(const struct ip_remap_plan *plan);
/* Calls visit for the functions with sites that are live now and will be idle for a moment in step
 * 4, in pieces that change. It may be called several times for the same function. */
void ip_remap_each_interrupted(const struct ip_remap_plan *plan,
			       void (*visit)(void *context, const struct ip_module *module,
					     uint32_t function),
			       void *context);

/* Step 2 up to the point where nothing has been changed yet: whether the change would be possible
 * now. 0, or -1 with the reason. */
int ip_remap_check(const struct ip_remap_plan *plan);

/* Steps 2 to 9. gate_session: as for ip_patch_apply(). find_ns: how long to search for a thread
 * each time. 0; -1 with the reason: nothing is staged any more, if a thread could be had for
 * unmapping it as soon (else ip_remap_clean() is for later); sites of some pieces may be live, and
 * ip_restore() knows them. */
int ip_remap_apply(struct ip_remap_plan *plan, int64_t gate_session, uint64_t find_ns,
		   struct ip_remap_result *ret);

/* As ip_restore(), without a stop: every site that any iprobe left live becomes idle, and the gate
 * is closed. ret->stop_ns: the sum of all holds. */
int ip_remap_restore(struct ip_target *target, const struct ip_modules *modules,
		     struct ip_patch_result *ret);

/* Has a thread unmap what an iprobe left that died in a remap, or that found no thread in time.
 * *ret: the hold. 0, also if there was nothing to do; -1 with the reason. */
int ip_remap_clean(struct ip_target *target, struct ip_remap_hold *ret);

#endif

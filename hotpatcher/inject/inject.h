/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the runtime into a process that was started without it.
 *
 * There is no remote dlopen. The runtime is freestanding: it calls no library and needs no loader.
 * So iprobe brings the runtime along as bytes that work at any address (runtime/image.ld), has one
 * thread of the process make memory for them, and writes them there. That thread calls no function
 * of the process. So it may be in the middle of anything, malloc and the loader included; the C
 * library may be glibc or musl, or linked in; the library's file may have been replaced; the
 * process may have another root. The runtime finds the slot of a thread by the thread's id, which
 * the C library keeps behind the thread pointer (runtime/self.h).
 *
 *   1. Only one iprobe injects at a time (ip_borrow_lock). No other iprobe has put a runtime there
 *      meanwhile. The limits on address space and file sizes leave room for the runtime. What an
 *      iprobe that was killed during these steps has left behind is cleared up or, where it made
 *      memory, used.
 *   2. Write inject.S into text padding (text_padding.h): executable bytes that belong to nobody
 *      and are never run. (The process does not notice: it gets a private copy of a page of code,
 *      and the code in it is unchanged.)
 *   3. Choose and stop a thread as runtime_wake.h does in step 2. The thread must have its own id
 *      where the C library keeps the id.
 *   4. Write the way back behind the code: the thread's registers, with an interrupted call wound
 *      back to its start.
 *   5. SETREGS: the thread is at the start of that code; its stack pointer and its flags are as
 *      they were. From here on the thread finds its way back by itself: it makes the memory (mmap,
 *      mprotect), names it (prctl), waits for iprobe (rt_sigtimedwait), loads each register from
 *      behind the code, and jumps to where it was. The thread writes nothing, so the place of the
 *      code can cause no fault. It masks no signals, so no signal can stay masked. A signal handler
 *      finds the stack as in any other interruption.
 *   6. In the wait iprobe takes the thread back as in runtime_wake.h, steps 8 and 9. A signal for
 *      the thread that comes before is delivered first: iprobe puts the registers back, DETACHes
 *      with the signal, and begins again from 3 with the memory that is there.
 *   7. The text padding gets its bytes back. No thread holds an address in it: the thread that ran
 *      there was taken back before the end of the code.
 *   8. Write the image into the new memory, then the facts that it has to know, and last the magic
 *      number of the anchor. No thread runs there yet.
 *   9. The runtime is there and asleep: runtime_wake.h goes on.
 *
 * If iprobe is killed at 1 to 4, bytes stay in text padding that no thread runs. At 5 and 6, the
 * thread finishes by itself; besides, memory stays that nobody uses. At 7 and 8, the same stays, or
 * an image without a magic number, which does not count as a runtime. The next iprobe knows the
 * code by its first bytes. It takes the code away if no thread is in it and if the stack of the
 * thread that was in it holds no address of it (a signal handler may have interrupted the thread
 * there). The next iprobe knows the memory by its sizes, and by the fact that it holds nothing but
 * zeros and pages of this image; it uses that memory.
 *
 * Seccomp: a filter may forbid the calls of step 5 and those of the wake. They are made all the
 * same, one by one, and each is compared with the calls that our code makes (confined.h:
 * CAP_SYS_ADMIN). The rooms for stubs are not made executable in a thread under seccomp, since
 * other threads could have written to them before. The runtime itself makes no call afterwards,
 * except in a forked child that is followed. If iprobe is killed while the thread is borrowed
 * (during the holds that are reported as stops, some milliseconds together), the filters judge the
 * calls that remain. If a filter answers with an error, the runtime stays inert; if it kills, it
 * kills. That is the time of risk, and the only one. Without the privilege iprobe refuses.
 *
 * The memory stays until the process ends. Its code has no unwinding information that the process's
 * own unwinder would find: see docs/limits.md.
 */
#ifndef IP_INJECT_H
#define IP_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/process/modules.h"
#include "hotpatcher/process/target.h"

/* How much the runtime maps at first, in bytes: of the area, from IP_AREA_SMALL_SIZE on or, where
 * it cannot grow later, IP_AREA_OWN_SIZE; of each of its two pools, at most IP_POOL_SIZE_MAX. */
struct ip_inject_room {
	uint64_t area, pool;
};

/* Puts the runtime into the target, asleep, if the target has none. modules: the target's,
 * borrowed; their rooms for stubs are noted in the runtime. 0, with the longest time in nanoseconds
 * for which a thread was held; -1 with the reason, and nothing has changed that the target would
 * notice. */
int ip_inject(struct ip_target *target, const struct ip_modules *modules,
	      const struct ip_inject_room *room, uint64_t *ret_held_ns);

/* Whether ip_inject() could succeed, as far as can be seen without a stop. room: NULL: the least
 * that it may take. 0; -1 with the reason. */
int ip_inject_check(const struct ip_target *target, const struct ip_inject_room *room);

/* Has a runtime that was injected, and sleeps yet, map all of its area when it is woken: the
 * process is confined by now, so that the area cannot grow later. A runtime of another build is
 * left alone. 0; -1 with the reason. */
int ip_inject_map_all(struct ip_target *target);
/* Bytes of the area that such a runtime will map; 0: not known. */
uint64_t ip_inject_area_size(const struct ip_target *target);

/* Whether the code of an injected runtime is what iprobe put there. True also of a runtime that
 * another build of iprobe has put there, since this iprobe cannot check its code. */
bool ip_inject_is_intact(const struct ip_target *target);

#endif

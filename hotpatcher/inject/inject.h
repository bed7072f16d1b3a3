/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting the runtime into a process that was started without it.
 *
 * No remote dlopen. The runtime is freestanding: it calls no library and needs no loader. So iprobe
 * brings it along as bytes that work wherever they lie (runtime/image.ld), has one thread of the
 * process make memory for them, and writes them there. That thread calls nothing of the process, so
 * it may be in the middle of anything, malloc and the loader included; the C library may be glibc,
 * musl, or linked in, its file may have been replaced, the root may be another. A thread's slot is
 * found by its id, which the C library keeps behind the thread pointer (runtime/self.h).
 *
 *   1. One iprobe at a time (ip_borrow_lock). Nobody has put a runtime there meanwhile. Limits on
 *      address space and files have room for it. What an iprobe that was killed in here has left
 *      behind is cleared up or, where it made memory, used.
 *   2. Write inject.S into slack (text_padding.h): executable bytes that belong to nobody and are
 *      never run. (The process does not notice: a private copy of a page of code, the code in it
 *      unchanged.)
 *   3. Choose and stop a thread as runtime_wake.h does in step 2; where the C library keeps the id,
 *      that thread must have its own.
 *   4. Write the way back behind the code: the registers, an interrupted call wound back to its
 *      start.
 *   5. SETREGS: the thread is at the start of that code, its stack pointer and its flags as they
 *      were. It finds its way back by itself from here on: it makes the memory (mmap, mprotect),
 *      names it (prctl), waits for us (rt_sigtimedwait), loads each register from behind the code,
 *      and jumps to where it was. It writes nothing, so no fault can come of the place; it masks no
 *      signals, so none can stay masked; a handler finds the stack as in any other interruption.
 *   6. There we take it back as in runtime_wake.h, steps 8 and 9. A signal for the thread that
 *      comes before goes first: registers back, DETACH with the signal, and again from 3 with the
 *      memory that is there.
 *   7. The slack gets its bytes back. No thread holds an address in it: the one that ran there was
 *      taken back before its end.
 *   8. Write the image into the new memory, then what it has to know, at last the magic number of
 *      the anchor. Nobody runs there yet.
 *   9. The runtime is there and asleep: runtime_wake.h.
 *
 * Killed at 1 to 4: bytes in slack that nobody runs. At 5, 6: the thread finishes by itself;
 * besides memory stays that nobody uses. At 7, 8: the same, or an image without a magic number,
 * which is none. The next iprobe knows the code by its first bytes and takes it away, if no thread
 * is in it and no stack of the thread that was has an address of it (a handler may have interrupted
 * it there); it knows the memory by its sizes, and by holding nothing but zeros and pages of this
 * image, and uses it.
 *
 * Seccomp: the calls of 5 and of waking may be forbidden. They are made nevertheless, one by one,
 * each compared with what our code calls (confined.h: CAP_SYS_ADMIN); rooms for stubs stay as they
 * are there, since they could be written before. The runtime itself makes no call afterwards, but
 * in a forked child that is followed. If we are killed while the thread is away (the holds that are
 * told as stops, some milliseconds together), the filters judge what calls remain: one that answers
 * with an error leaves the runtime inert; one that kills, kills. That is the window, and the only
 * one; without the privilege we refuse.
 *
 * The memory stays for good. Its code has no unwinding information that the process's own unwinder
 * would find: see docs/limits.md.
 */
#ifndef IP_INJECT_H
#define IP_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/process/modules.h"
#include "hotpatcher/process/target.h"

/* Puts the runtime there, asleep, if there is none. modules: of the target, for their rooms. 0,
 * with the nanoseconds for which a thread was held; -1 with the reason, nothing changed that
 * anybody would notice. */
int ip_inject(struct ip_target *target, const struct ip_modules *modules, uint64_t *ret_held_ns);

/* Whether that could be done, by what can be seen without stopping anything. 0; -1 with the
 * reason. */
int ip_inject_check(const struct ip_target *target);

/* Whether the code of the runtime that was put there is what we put there. True also of one that
 * another build of iprobe has put there, of which that cannot be told. */
bool ip_inject_is_intact(const struct ip_target *target);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second thread of the tracer that shares the writing within a stop.
 *
 * All threads of the target stand then, so that another CPU has nothing to do for it. The kernel
 * takes about half a microsecond to write a page, and as long to read one: two threads that take
 * pieces by turns need little more than half of the time.
 *
 *   1. ip_write_helper_start() makes the thread while the target runs. It sleeps. There is none if
 *      the tracer has one CPU only, or may not have real-time priority: the tracer would have to
 *      wait for a thread that gets no CPU while the target stands.
 *   2. ip_write_helper_wake() is called when all threads stand. It is not called before: the CPU is
 *      the target's until then. The thread waits without sleep, for WAKE_NS at most.
 *   3. ip_write_helper_go() lets it call the operation, which the caller calls in its own thread,
 *      too: both take pieces of the same work until there is no more.
 *   4. ip_write_helper_finish() returns when the operation is over in the helper. If the helper has
 *      not begun it by then, it does not begin it any more.
 *
 * The thread makes no ptrace request. All signals are blocked in it. If the tracer is killed, it is
 * killed, too, in the middle of a write perhaps: as the tracer's own thread (patch.h, step 6).
 */
#ifndef IP_WRITE_HELPER_H
#define IP_WRITE_HELPER_H

#include <stdint.h>

struct ip_write_helper;

/* Step 1. The operation is called with a buffer of buffer_size bytes that is the helper's own, and
 * with data. It must not set errors that anybody is to see. NULL: there is no helper; the caller
 * does all of the work. */
struct ip_write_helper *ip_write_helper_start(void (*work)(void *data, uint8_t *buffer), void *data,
					      uint64_t buffer_size);

/* Steps 2 to 4, again and again. helper: may be NULL. */
void ip_write_helper_wake(struct ip_write_helper *helper);
void ip_write_helper_go(struct ip_write_helper *helper);
void ip_write_helper_finish(struct ip_write_helper *helper);

/* Ends the thread. NULL is allowed. */
void ip_write_helper_destroy(struct ip_write_helper *helper);

#endif

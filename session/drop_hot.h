/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --drop-hot: functions whose probes distort the run (hot_functions.h tells them) lose them while
 * the session goes on.
 *
 *   1. The collector shows its packets to hot_functions.h. A turn asks it ten times a second at
 *      most, and less often where the stops take more than a hundredth of the time.
 *   2. What is hot is noted here, by module and function. If counting is cheap enough for it, it is
 *      to go on as a count; else as nothing.
 *   3. Its duty becomes to count, before any site is changed: from that moment on each of its calls
 *      is counted, and each before it is in the trace. Calls that are open then get no exit:
 *      readers close them, by the stack, or at 5.
 *   4. The session is brought in line with its selections, which ask here too (plan.c): a change
 *      like that of any second attach (update.h), in stops as that makes them. Exits become NOPs,
 *      and entries too of what is not counted.
 *   5. That change tells the trace that the functions are removed; a line "dropped" says why, and
 *      what became of them.
 *
 * Where the change fails (threads cannot be stopped in time, or some of several stops were made)
 * the functions are dropped all the same: what counts goes on counting, what is to do nothing is
 * made to by its duty, and the line is written. Taking back would lose calls that were counted
 * already. Only 4 is tried again later. A function that was dropped stays so for the session,
 * wherever its module is loaded.
 */
#ifndef IP_DROP_HOT_H
#define IP_DROP_HOT_H

struct ip_session;

/* Adds a controller (controller.h) to the session that drops such functions. percent: as of
 * ip_hot_create(). 0, or -1 with an error. */
int ip_drop_hot_add(struct ip_session *s, unsigned percent);

#endif

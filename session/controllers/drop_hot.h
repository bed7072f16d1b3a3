/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --drop-hot: functions whose probes distort the run lose their probes while the session goes on.
 * hot_functions.h finds these functions.
 *
 *   1. The collector shows its packets to hot_functions.h. A step of the session asks
 *      hot_functions.h for hot functions ten times a second at most, and less often if the stops
 *      take more than a hundredth of the time.
 *   2. The hot functions are noted here, by module and function. If counting is cheap enough for a
 *      function, its calls are to be counted from now on; else nothing of it is to be recorded.
 *   3. The duty of a function that is to be counted becomes to count, before any site is changed.
 *      From that moment on each of its calls is counted, and each call before it is in the trace.
 *      Calls that are open at that moment get no exit. Readers close them, by the stack, or at step
 *      5.
 *   4. The session is updated to match its selections, which ask the chooser of this file, too
 *      (plan.c). This is a change like the change of any second attach (update.h), and takes stops
 *      in the same way. Exits become NOPs. Entries become NOPs, too, if the function is not
 *      counted.
 *   5. That change writes into the trace that the functions are removed. A line "dropped" tells the
 *      reason, and what became of the functions.
 *
 * If the change fails (threads cannot be stopped in time, or only some of several stops were made),
 * the functions are dropped all the same. A function that is counted is counted from then on. A
 * function that is to record nothing is silenced by its duty. The line is written. Undoing this
 * would lose calls that were counted already. Only step 4 is tried again later. A function that was
 * dropped stays dropped for the rest of the session, wherever its module is loaded.
 */
#ifndef IP_DROP_HOT_H
#define IP_DROP_HOT_H

struct ip_session;

/* Adds a controller (controller.h) to the session, which drops hot functions. percent: as for
 * ip_hot_create(). 0, or -1 with an error. */
int ip_drop_hot_add(struct ip_session *s, unsigned percent);

#endif

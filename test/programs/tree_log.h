/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's own log of its entries and exits, against which a recorded call tree is held.
 *
 * Lives in a small library that is compiled without instrumentation. Each thread writes 32-byte
 * records to a file of its own, TREE_LOG/PROGRAM.PID.TID, through a shared mapping, so that nothing
 * is lost however the program ends. Safe in signal handlers. Without TREE_LOG in the environment
 * nothing is written.
 */
#ifndef TREE_LOG_H
#define TREE_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

/* Depth of the frame entered, to be handed to log_unwind() by whoever lands in it. */
int log_enter(const char *name);
void log_leave(const char *name);
/* Control is in the frame of this depth: the frames above it are gone. -1: all are. */
void log_unwind(int depth);
/* In a forked child: it is not recorded, so it logs nothing. */
void log_silence(void);

#define ENTER(name) __attribute__((unused)) int depth_ = log_enter(name)
#define LEAVE(name) log_leave(name)
#define LANDED()    log_unwind(depth_)

#ifdef __cplusplus
}
#endif

#endif

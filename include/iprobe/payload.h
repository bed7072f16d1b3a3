/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A payload of your own: what the probes of chosen functions do instead of logging. It is in a
 * shared object that the traced process has loaded.
 *
 *   #include <iprobe/payload.h>
 *
 *   struct cell { uint64_t entries, from_main; };
 *   static const struct iprobe_field fields[] = {
 *           {"entries", offsetof(struct cell, entries), IPROBE_SUM},
 *   };
 *   static void on_call(const struct iprobe_call *call)
 *   {
 *           struct cell *c = call->cell;
 *           c->entries += call->event == IPROBE_ENTRY;
 *   }
 *   IPROBE_PAYLOAD(on_call, sizeof(struct cell), 0, fields);
 *
 *   cc -O2 -shared -fPIC -Wl,-z,nodelete -o mine.so mine.c
 *   iprobe run --payload user:./mine.so:'db_*' -- program
 *   iprobe attach PID --payload user:./mine.so
 *
 * iprobe run preloads the object. For iprobe attach the process must have loaded it already: by
 * LD_PRELOAD, by being linked with it, or by dlopen of an object that was linked with -z nodelete.
 * An object that could be unloaded is refused.
 *
 * The payload is called with a struct iprobe_call. It is called in the program's own thread, at a
 * function's entry and exit, on that thread's stack (keep some KiB free). All registers, vector and
 * x87 state and errno of the program are preserved.
 *
 * The payload may use its memory, compute, and call functions that are async-signal-safe
 * (signal-safety(7)). It must not wait for anything that the program may hold, throw, or longjmp.
 * It may reach probes itself, and so may a signal handler on top of it, if these probes are of its
 * functions too. Such probes do not call it again: the calls are left out and counted. There is one
 * exception: a handler on an alternate stack (sigaltstack(2)) that lies above the interrupted one
 * is not recognised as being on top, and calls the payload again. If the program has such handlers,
 * and they have probes, keep them out of the selection, or write a payload that may be re-entered.
 *
 * A session that calls payloads takes no filters (--depth, --min-duration, --callsite...): filters
 * hold events back, but a payload must see them when they happen.
 *
 * Its memory: scratch_size bytes for each thread, and cell_size bytes for each function in each
 * thread. The memory is zero at first, and aligned to 8. It belongs to one thread alone, so no
 * locks are needed. A thread for which there is no memory (--memory) does not call the payload;
 * such calls are not counted.
 *
 * Results: fields name 64-bit numbers in a function's cell. iprobe reads them from outside. It adds
 * them up over all threads (or takes the greatest, or the least that is not 0). It writes
 * DIR/iprobe/payload.txt every second and at the end: a line for each function, a column for each
 * field. This calls nothing in the process, so the results exist even if the process or iprobe is
 * killed.
 */
#ifndef IPROBE_PAYLOAD_H
#define IPROBE_PAYLOAD_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#define IPROBE_PAYLOAD_ABI 1u

enum iprobe_event {
	IPROBE_ENTRY = 1,
	IPROBE_EXIT = 2,
	IPROBE_TAIL_EXIT = 3, /* the function ends with a jump to another function */
	IPROBE_POINT = 4,     /* a point of <iprobe/probe.h> */
};

struct iprobe_call {
	uint32_t size;	/* size of this structure: later versions may add members at its end */
	uint32_t event; /* enum iprobe_event */
	/* the function's number, as in the trace's session file; it does not change during the
	 * session */
	uint32_t number;
	uint32_t thread;      /* the thread's id, as the program sees it */
	const char *function; /* its linker name; valid during the session */
	/* return address: where it was called from; NULL: not known */
	const void *caller;
	void *cell;    /* memory of this function in this thread */
	void *scratch; /* memory of this thread; NULL: the payload asks for none */
};

enum iprobe_how {
	IPROBE_SUM = 0,
	IPROBE_MAX = 1,
	IPROBE_MIN = 2, /* 0 does not count */
};

struct iprobe_field {
	const char *name; /* no blanks; at most 31 characters */
	uint32_t offset;  /* offset of a uint64_t in the cell, a multiple of 8 */
	uint32_t how;	  /* enum iprobe_how */
};

#define IPROBE_FIELDS_MAX  32u
#define IPROBE_CELL_MAX	   1024u
#define IPROBE_SCRATCH_MAX 16384u

/* The object exports one structure of this type as iprobe_payload. */
struct iprobe_payload {
	uint32_t abi; /* IPROBE_PAYLOAD_ABI */
	uint32_t cell_size, scratch_size;
	uint32_t nfields;
	void (*call)(const struct iprobe_call *call);
	const struct iprobe_field *fields;
};

#ifdef __cplusplus
#define IPROBE_PAYLOAD_EXTERN extern "C" /* in C++ a const is visible in its own file only */
#else
#define IPROBE_PAYLOAD_EXTERN extern
#endif

/* Defines iprobe_payload. handler is a void (const struct iprobe_call *); named is an array of
 * struct iprobe_field. */
#define IPROBE_PAYLOAD(handler, cell, scratch, named)                                              \
	static void iprobe_payload_call(const struct iprobe_call *call)                            \
	{                                                                                          \
		int before = errno;                                                                \
		handler(call);                                                                     \
		errno = before;                                                                    \
	}                                                                                          \
	IPROBE_PAYLOAD_EXTERN __attribute__((visibility("default")))                               \
	const struct iprobe_payload iprobe_payload;                                                \
	__attribute__((used)) const struct iprobe_payload iprobe_payload = {                       \
		IPROBE_PAYLOAD_ABI,  (cell), (scratch), sizeof(named) / sizeof((named)[0]),        \
		iprobe_payload_call, (named)}

#endif

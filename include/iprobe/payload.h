/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A payload of your own: what the probes of chosen functions do instead of logging, in a shared
 * object that the traced process has loaded.
 *
 *   #include <iprobe/payload.h>
 *
 *   struct cell { uint64_t entries, from_main; };
 *   static const struct iprobe_field fields[] = {
 *           {"entries", offsetof(struct cell, entries), IPROBE_SUM},
 *   };
 *   static void on_call(const struct iprobe_call *call) { struct cell *c = call->cell; c->entries
 *   += call->event == IPROBE_ENTRY; } IPROBE_PAYLOAD(on_call, sizeof(struct cell), 0, fields);
 *
 *   cc -O2 -shared -fPIC -Wl,-z,nodelete -o mine.so mine.c
 *   iprobe run --payload user:./mine.so:'db_*' -- program iprobe attach PID --payload
 *   user:./mine.so
 *
 * iprobe run preloads the object; iprobe attach needs it in the process already (LD_PRELOAD, linked
 * with it, or a dlopen with -z nodelete: an object that could be unloaded is refused).
 *
 * What it is called with is struct iprobe_call. It is called in the program's own thread, at a
 * function's entry and exit, on that thread's stack (keep some KiB free). All registers, vector and
 * x87 state and errno of the program are kept.
 *
 * What it may do: use its memory, compute, call what is async-signal-safe (signal-safety(7)). It
 * must not block on what the program may hold, throw, or longjmp. Probes that it runs into itself,
 * and those of a signal handler on top of it that are its functions' too, do not call it again:
 * such calls are left out and counted. One case escapes that: a handler on an alternate stack
 * (sigaltstack(2)) that lies above the interrupted one is not seen to be on top, and calls it
 * again. Where the program has such handlers, and they have probes, keep them out of the selection,
 * or write a handler that may be re-entered.
 *
 * A session that calls payloads takes no filters (--depth, --min-duration, --callsite...): these
 * hold events back, which a payload must see when they happen.
 *
 * Its memory: per thread scratch_size bytes, and cell_size bytes per function and thread, zero at
 * first, aligned to 8. They are nobody else's, so no locks. A thread for which there is no memory
 * (--memory) does not call it; such calls are not counted.
 *
 * Results: fields name 64-bit numbers in a function's cell. iprobe reads them from outside, adds up
 * (or takes the greatest, or the least that is not 0) over all threads, and writes
 * DIR/iprobe/payload.txt: a line a function, a column a field, every second and at the end. Nothing
 * of the process is called for that, so they are there whoever is killed.
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
	IPROBE_TAIL_EXIT = 3, /* it ends by calling another function in its place */
	IPROBE_POINT = 4,     /* a point of <iprobe/probe.h> */
};

struct iprobe_call {
	uint32_t size;	/* of this structure: later versions may add behind */
	uint32_t event; /* enum iprobe_event */
	/* the function's, as in the trace's session file; the same for all of the session */
	uint32_t number;
	uint32_t thread;      /* its id, as the program sees it */
	const char *function; /* its linker name; valid for the life of the session */
	const void *caller;   /* where it was called from: the return address; NULL: not known */
	void *cell;	      /* of this function in this thread */
	void *scratch;	      /* of this thread; NULL: the payload asks for none */
};

enum iprobe_how {
	IPROBE_SUM = 0,
	IPROBE_MAX = 1,
	IPROBE_MIN = 2, /* 0 counts as none */
};

struct iprobe_field {
	const char *name; /* no blanks; at most 31 characters */
	uint32_t offset;  /* of a uint64_t in the cell, a multiple of 8 */
	uint32_t how;	  /* enum iprobe_how */
};

#define IPROBE_FIELDS_MAX  32u
#define IPROBE_CELL_MAX	   1024u
#define IPROBE_SCRATCH_MAX 16384u

/* The object exports one of this as iprobe_payload. */
struct iprobe_payload {
	uint32_t abi; /* IPROBE_PAYLOAD_ABI */
	uint32_t cell_size, scratch_size;
	uint32_t nfields;
	void (*call)(const struct iprobe_call *call);
	const struct iprobe_field *fields;
};

#ifdef __cplusplus
#define IPROBE_PAYLOAD_EXTERN extern "C" /* a const of C++ is seen in its own file only */
#else
#define IPROBE_PAYLOAD_EXTERN extern
#endif

/* Defines it: handler is a void (const struct iprobe_call *), named an array of struct
 * iprobe_field. */
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

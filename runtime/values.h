/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running the program that reads the values at a site (common/abi/values.h).
 */
#ifndef RT_VALUES_H
#define RT_VALUES_H

#include <stdint.h>

#include "common/abi/values.h"
#include "runtime/payload.h"

/* Reads of one program that are remembered, and those that wait for one call. */
#define RT_READS	 16u
#define RT_WAITING_BYTES (8 * RT_READS)
/* Bytes of memory that one run keeps besides the strings. */
#define RT_READ_BYTES 384u

/* Where the reads of a program have found their memory the last time. It is a guess, and shared by
 * all threads without any order: what is read there counts only where the address turns out to be
 * the right one. */
struct rt_guess {
	uint32_t session; /* that has found it */
	uint64_t address[RT_READS];
	uint16_t size[RT_READS];
};

/* Memory that a program reads through pointers. Only programs that do so need one. */
struct rt_loads {
	struct rt_guess *guess;
	uint32_t
		nreads; /* reads that the operations so far have made: the number of the next one */
	uint32_t nwaiting;
	uint32_t asked; /* 1: a call has been made, and the guesses were read with it */
	struct {
		uint64_t address;
		const struct ip_value_op *op;
	} waiting[RT_READS];
	/* memory that has been read for a read to come; size 0: none */
	struct {
		uint64_t address;
		uint32_t size, at; /* in bytes */
	} held[RT_READS];
	uint32_t used, room;
	uint8_t *bytes; /* [room] */
};

struct rt_run {
	const struct rt_frame *frame;
	const struct ip_value_op *ops;
	uint32_t nops;
	uint64_t *words; /* [room] */
	uint32_t n, room;
	uint32_t place;	  /* of the next value */
	uint32_t at;	  /* operation that runs */
	uint32_t strings; /* strings that are to be read; 0: also if they have been read together */
	uint32_t missing; /* one bit a value */
	uint32_t out;	  /* 1: the condition is not true: the call leaves no event */
	uint64_t unknown; /* one bit a temporary: its value could not be read */
	uint64_t pending; /* one bit a temporary: it waits to be read */
	struct rt_loads *loads;
	uint64_t temporary[IP_PROGRAM_TEMPS];
};

/* Runs the operations and fills in words, n, missing and out. What a program says is not trusted:
 * numbers that are too large mean nothing, and no access to memory can fault. */
void rt_values_run(struct rt_run *run);

/* The guesses of a program of a session, for the stack that sp points into. Those of an earlier
 * session are forgotten: its programs have other reads. */
struct rt_guess *rt_values_guess(uint32_t program, uint32_t session, uint64_t sp);

#endif

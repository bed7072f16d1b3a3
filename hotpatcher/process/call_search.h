/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for calls in the code of a live process (callees.h says what it finds): functions with
 * probes, where they lie, and which of them the code of another one leads to. For callees.c alone.
 *
 * The process chooses its files, lists and code. So a search ends where the user wants the end, and
 * where the code that it is led through is more than any program has.
 */
#ifndef IP_CALL_SEARCH_H
#define IP_CALL_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hotpatcher/process/modules.h"

#define IP_CALL_SEARCH_MOST (256u << 20) /* bytes of code */

/* A function with probes, and where it is in the process. */
struct ip_call_place {
	uint64_t address;
	uint64_t size; /* as a symbol tells it; 0: none does, or they were not read yet */
	const struct ip_module *module;
	uint32_t function;
	bool callee, scanned; /* scanned: its calls have been added */
};

struct ip_call_search {
	struct ip_target *target;
	struct ip_modules modules;
	struct ip_call_place *places; /* by address */
	size_t n;
	struct ip_call_place **callees; /* those that were found */
	size_t ncallees;
	bool *sized;   /* of each module: its symbols were read */
	bool pointers; /* a function calls through pointers, too */
	uint64_t scanned;
};

/* Opens the process, which is only read, and lists the functions. The caller clears *ret in any
 * case. Returns 0, or -1 with an error. */
int ip_call_search_open(pid_t pid, struct ip_call_search *ret);
void ip_call_search_clear(struct ip_call_search *search);

/* The linker name of a function. */
const char *ip_call_place_name(const struct ip_call_place *place);

/* Adds the callees of a function, once. Returns 0, or -1 with an error. */
int ip_call_search_scan(struct ip_call_search *search, struct ip_call_place *caller);
/* The same for whatever function has this address in it. One that has no probes is not known:
 * pointers is set. */
int ip_call_search_scan_around(struct ip_call_search *search, uint64_t address);
/* Adds what callees jump to at their ends, which returns to the caller. Returns 0, or -1 with an
 * error. */
int ip_call_search_follow_jumps(struct ip_call_search *search);

#endif

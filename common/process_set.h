/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of processes by their numbers, which the workers of a service can share. Each process is in
 * it once, whoever adds it, and however often.
 */
#ifndef IP_PROCESS_SET_H
#define IP_PROCESS_SET_H

#include <stdbool.h>
#include <stdint.h>

struct ip_process_set;

/* shared: processes that are forked afterwards share it. The caller destroys it, each process of
 * several for itself. NULL: out of memory, with an error. */
struct ip_process_set *ip_process_set_create(bool shared);
void ip_process_set_destroy(struct ip_process_set *set);

/* Numbers that no process can have are left out. */
void ip_process_set_add(struct ip_process_set *set, uint32_t pid);
/* Adds processes whose numbers are not known. */
void ip_process_set_add_unknown(struct ip_process_set *set, uint64_t n);

/* Whether the process is one of those whose numbers are known. */
bool ip_process_set_has(const struct ip_process_set *set, uint32_t pid);

/* Returns how many processes there are. */
uint64_t ip_process_set_count(const struct ip_process_set *set);
/* Calls visit for each of those whose numbers are known, in their order. Returns how many. */
uint64_t ip_process_set_each(const struct ip_process_set *set,
			     void (*visit)(void *context, uint32_t pid), void *context);

#endif

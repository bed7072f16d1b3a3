/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of views that show one thread only (--tid): which it is. Several processes may have threads of
 * one number.
 */
#ifndef IP_CLI_REPORT_THREAD_LINES_H
#define IP_CLI_REPORT_THREAD_LINES_H

#include "analysis/profile/tree_threads.h"
#include "common/json.h"

/* Prints "only thread 1234 worker", a line for each. */
void cli_one_thread_print(const struct ip_tree_threads *threads, uint32_t tid);

/* Writes the members tid and only, a list. */
void cli_one_thread_json(struct ip_json *j, const struct ip_tree_threads *threads, uint32_t tid);

/* Writes the members pid, process, tid and thread. */
void cli_thread_json(struct ip_json *j, const struct ip_tree_thread *thread);

#endif

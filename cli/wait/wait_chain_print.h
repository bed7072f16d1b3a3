/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chain of a call (analysis/wait/wait_chain.h) in one line, and as JSON.
 */
#ifndef IP_CLI_WAIT_CHAIN_PRINT_H
#define IP_CLI_WAIT_CHAIN_PRINT_H

#include "analysis/wait/function_index.h"
#include "analysis/wait/wait_chain.h"
#include "cli/wait/wait_load.h"
#include "common/json.h"

/* Prints "thread 77 (server)" to stdout, or "another process on CPU 3" where the thread stands for
 * all that are not shown. */
void cli_wait_print_thread(const struct ip_thread_states *thread);

/* " 149 ms in futex &db.lock held by thread 77 in compact <- 140 ms in file /data/x". Returns 0, or
 * -1 with an error. */
int cli_wait_chain_print(const struct cli_wait_trace *t, struct ip_function_index *functions,
			 const struct ip_wait_chain *chain);
/* Adds the array "chain". Returns 0, or -1 with an error. */
int cli_wait_chain_json(const struct cli_wait_trace *t, struct ip_function_index *functions,
			const struct ip_wait_chain *chain, struct ip_json *j);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of the state of a search (iprobe darc --resume, --status): any bytes as a file. What
 * it takes can be gone on with: each node has its parent before it, and the calls that are searched
 * follow from the latencies.
 *
 * covers: cli/darc/darc_state_read.c cli/darc/darc_state_tree.c cli/darc/darc_state_values.c
 */
#include "cli/darc/darc_state.h"
#include "fuzz.h"

static void check(const struct cli_darc_state *s)
{
	const struct ip_darc_search *p = &s->profile;

	fuzz_assert(s->level <= IP_DARC_DEPTH_MOST && p->options.depth <= IP_DARC_DEPTH_MOST);
	fuzz_assert(p->options.decision_operations && p->options.start_operations);
	fuzz_assert(p->latencies.bins.count == p->latencies.durations.count);
	if (s->level) {
		fuzz_assert(s->looked && *s->linker_name);
		fuzz_assert(p->ranges[0].from_ns < p->ranges[0].to_ns && p->ranges[0].count);
		fuzz_assert(!p->peak || p->peak <= p->peaks.n);
	}
	for (size_t i = 0; i < s->nnodes; i++) {
		const struct cli_darc_state_node *n = &s->nodes[i];

		fuzz_assert((n->parent == IP_FTREE_NONE) == (i == 0));
		fuzz_assert(i == 0 || n->parent < i);
		fuzz_assert(n->depth == (i ? s->nodes[n->parent].depth + 1 : 0));
	}
	for (size_t i = 0; i < s->ncauses; i++)
		fuzz_assert(s->causes[i].node < s->nnodes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cli_darc_state state;

	if (cli_darc_state_read((const char *)data, size, "file", &state) < 0)
		fuzz_check_error();
	else
		check(&state);
	cli_darc_state_clear(&state);
	return 0;
}

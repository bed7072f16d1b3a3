/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of iprobe darc.
 */
#ifndef IP_CLI_DARC_H
#define IP_CLI_DARC_H

#include "analysis/darc/search.h"
#include "analysis/darc/stretches.h"
#include "analysis/read/names.h"
#include "analysis/read/symbolize.h"
#include "analysis/wait/trace_waits.h"
#include "common/json.h"
#include "hotpatcher/ptrace/stop_log.h"

struct cli_darc_state;

struct cli_darc {
	const struct ip_darc_search *search;
	const struct ip_darc_search *profile; /* whose latencies are shown; mostly the same */
	struct ip_names *names;
	struct ip_symbolizer *places;
	struct ip_trace_waits *waits; /* NULL: the trace has no events of the kernel */
	uint64_t lost;
	const struct ip_stretches *stretches; /* by cause; NULL: not looked for, or none */
	const bool *used; /* by node: it is in the JSON's ftree; NULL: all that were looked at */
	/* what an earlier search of the same had found, of which this one has no causes yet; NULL:
	 * nothing */
	const struct cli_darc_state *kept;
	const struct ip_stop_log *stops; /* of the process; NULL: a trace was searched */
};

/* Print what a search has found. Return 0, or -1 with an error. */
int cli_darc_text(const struct cli_darc *d);
int cli_darc_json(const struct cli_darc *d);
/* Puts the JSON as a member, key NULL: as the document. Returns 0, or -1 with an error. */
int cli_darc_json_put(struct ip_json *j, const char *key, const struct cli_darc *d);
/* The members of the JSON object alone. most: of the nodes of the ftree that are on no path. */
int cli_darc_json_members(struct ip_json *j, const struct cli_darc *d, size_t most);
/* Prints in one line what was found: for people, or as a JSON object that says so. Returns 0, or -1
 * with an error. */
int cli_darc_summary(const struct cli_darc *d, bool json);
/* Prints what makes the latency vary. */
int cli_darc_variance_text(const struct cli_darc *d);

/* Prints the histogram of F0 with its peaks. name: as people read it. */
void cli_darc_profile_text(const char *name, const struct ip_darc_search *profile);

/* Ticks, which may be means, in ns. */
double cli_darc_ns(const struct cli_darc *d, double ticks);
/* Where a node is called; NULL: not known. */
const struct ip_place *cli_darc_place(const struct cli_darc *d, uint32_t node);
/* The nodes from F0 down to a node. The caller frees the array. Returns NULL with an error. */
uint32_t *cli_darc_path(const struct cli_darc *d, uint32_t node, size_t *ret_n);

/* Prints in words what a thread did: "blocked on futex &db.lock, held by ...". */
void cli_darc_print_part(FILE *out, const struct cli_darc *d, const struct ip_cause_part *part);
/* Write what a part was for, and who had it, as members; part NULL: not known. The first returns 0,
 * or -1 with an error. */
int cli_darc_json_object(struct ip_json *j, const struct cli_darc *d,
			 const struct ip_cause_part *part);
void cli_darc_json_who(struct ip_json *j, const struct cli_darc *d,
		       const struct ip_cause_part *part);

/* Prints in which stretches a root cause takes its time, and where that ends. Returns 0, or -1 with
 * an error. */
int cli_darc_print_stretches(const struct cli_darc *d, size_t cause, int indent);
/* Writes all of them as a member, if there are some. Returns 0, or -1 with an error. */
int cli_darc_json_stretches(struct ip_json *j, const struct cli_darc *d, size_t cause);

#endif

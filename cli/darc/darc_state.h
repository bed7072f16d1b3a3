/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a live search as a JSON document, which iprobe darc --resume keeps in a file, and
 * iprobe darc --status asks for (docs/man/iprobe-darc.1.rst describes it). Functions have their
 * names in it, and modules their build-ids: it means the same in another process of the program,
 * and on another machine.
 *
 * Whoever gives us a document may have made it up. What is read of it is bounded: its size and its
 * depth (config/yaml_tree.h: JSON is YAML), each number, and how long names and lists are. What a
 * document tells twice must agree.
 */
#ifndef IP_CLI_DARC_STATE_H
#define IP_CLI_DARC_STATE_H

#include "analysis/darc/search.h"
#include "cli/darc/darc_names.h"
#include "common/dir.h"
#include "common/json.h"

#define CLI_DARC_STATE_FORMAT	 "iprobe darc search"
#define CLI_DARC_STATE_VERSION	 1u
#define CLI_DARC_STATE_SIZE_MAX	 (1u << 20) /* bytes */
#define CLI_DARC_STATE_NODES_MAX 1000u	    /* of the ftree */
/* Nodes that are on no path, as many as are written down. */
#define CLI_DARC_STATE_NODES_WRITTEN 400u

struct cli_darc_state_module {
	char *path, *build_id; /* in hexadecimal; "": it has none */
};

/* A node of the ftree. */
struct cli_darc_state_node {
	uint32_t number;	    /* as the document calls it */
	uint32_t parent, depth;	    /* parent: index into the nodes; IP_FTREE_NONE: F0 has none */
	char *function, *call_site; /* call_site: NULL: not known */
	bool cause;		    /* it is on the path of a root cause */
	uint64_t looked_at, maxcount;
	uint64_t longest_ns, usual_longest_ns;
};

struct cli_darc_state_cause {
	uint32_t node; /* index into the nodes */
	double share;
	char *kind;
};

struct cli_darc_state {
	char *function;	   /* F0, as people read it; before the first look: the selection */
	char *linker_name; /* NULL: not known yet */
	/* Options, latencies, peaks, and which of them is searched. No operations, no causes. */
	struct ip_darc_search profile;
	bool looked;		/* there are latencies */
	uint64_t profile_ns;	/* how long it took to record them */
	uint32_t level;		/* that is searched; 0: it is waited for the profile */
	uint64_t max_functions; /* live at once */
	struct cli_darc_state_module *modules;
	size_t nmodules;
	struct cli_darc_sets sets;
	struct cli_darc_names live; /* linker names */
	struct cli_darc_state_node *nodes;
	size_t nnodes;
	struct cli_darc_state_cause *causes;
	size_t ncauses;
};

/* Reads a document. name: of the file, for messages. The caller clears *ret in any case. Returns 0,
 * or -1 with an error. */
int cli_darc_state_read(const char *text, size_t size, const char *name,
			struct cli_darc_state *ret);
void cli_darc_state_clear(struct cli_darc_state *state);

/* Writes a document: under a name of its own at first, by which it is renamed then. So the file is
 * either the one before or the new one, whole. sync: it is on the disk by then. Returns 0, or -1
 * with an error. */
int cli_darc_state_put(const struct ip_dir_place *place, const char *text, size_t size, bool sync);

/* Prints what a search does, for people. */
void cli_darc_state_text(const struct cli_darc_state *state);

/* Print the causes that a search had found before it was resumed: as text; as the member "kept". */
void cli_darc_kept_text(const struct cli_darc_state *state);
void cli_darc_kept_json(struct ip_json *j, const struct cli_darc_state *state);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a compiler's command line. It answers only these questions: does the command compile, does
 * it link, where does the result go, and is there anything that forbids us to interfere. It knows
 * the driver options of gcc and clang.
 */
#ifndef COLD_COMMAND_LINE_H
#define COLD_COMMAND_LINE_H

#include <stdbool.h>

struct command_line {
	char **expanded;    /* the arguments, with @files read; owned */
	const char *output; /* of the link; "a.out" if not given. Points into expanded */
	bool compiles;	    /* a source becomes machine code */
	bool assembles;	    /* assembler text becomes machine code */
	bool preprocesses;  /* a source is read, for any purpose */
	bool links;	    /* the linker runs */
	bool lto;	    /* -flto: the linker generates code */
	bool is_static;	    /* -static, -static-pie */
	/* the linker makes a partial link, or follows the user's own script */
	bool own_layout;
	bool own_start;	  /* links without the C library, or without its start files */
	bool keep_relocs; /* the user wants relocations in the output (-q, --emit-relocs) */
	bool no_relocs;	  /* the linker fails with -q and the other options */
	/* -s, -Wl,-s, ... at a place where command_line_without_strip() can remove them: stripping
	 * is done after ColdPatch */
	bool strips;
	bool build_id;	  /* the user has chosen a build-id, or no build-id */
	bool m32;	  /* -m32: placement instrument only */
	bool x32;	  /* -mx32: refused */
	bool hands_off;	  /* another machine, or no libc: neither instrument nor patch */
	bool prints_only; /* -###: nothing is run */
	bool profiles;	  /* -p or -pg: gprof uses the entries of functions */
	bool red_zone;	  /* -mred-zone */
	bool large_model; /* -mcmodel=large: calls go through registers */
	bool gold_drops;  /* gold with --gc-sections: it drops tables that nothing refers to */
	/* -fsplit-stack: the linker looks for its prologue at the very start of a function */
	bool split_stack;
	/* -finstrument-functions: 1; -fno-instrument-functions: -1; 0: not mentioned */
	int instrument;
};

/* Parses argv as main() got it. Returns 0, or -1 with an error. */
int command_line_parse(int argc, char **argv, struct command_line *ret);
/* Removes the request to strip from an argument of main(). Returns the argument itself if it has
 * none; NULL if nothing else is left; or a new text (never freed) with the other options of a
 * -Wl,... */
char *command_line_without_strip(char *argument);

void command_line_release(struct command_line *line);

#endif

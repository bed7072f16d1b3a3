/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Understanding a compiler's command line just well enough: does it compile, does
 * it link, where does the result go, and is there anything that forbids us to
 * interfere. gcc's and clang's driver options are known.
 */
#ifndef COLD_COMMAND_LINE_H
#define COLD_COMMAND_LINE_H

#include <stdbool.h>

struct command_line {
	char **expanded;    /* arguments with @files read; owned */
	const char *output; /* of the link; "a.out" where not named. Points into expanded */
	bool compiles;	    /* a source becomes machine code */
	bool links;	    /* the linker runs */
	bool build_id;	    /* the user has chosen a build-id, or none */
	bool hands_off;	    /* other machine, no libc: neither instrument nor patch */
	bool prints_only;   /* -###: nothing is really run */
};

/* argv as main() got it. 0, or -1 with an error. */
int command_line_parse(int argc, char **argv, struct command_line *ret);
void command_line_release(struct command_line *line);

#endif

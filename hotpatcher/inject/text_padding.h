/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text padding: the bytes between the end of a module's code and the end of its last page. They are
 * mapped executable, belong to nobody and are never run. An injection (inject.h) puts a few hundred
 * bytes there for less than a millisecond.
 */
#ifndef IP_TEXT_PADDING_H
#define IP_TEXT_PADDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hotpatcher/process/target.h"

struct ip_text_padding {
	uint64_t address, size; /* the part in which all bytes are the same */
	uint8_t fill;		/* the value of these bytes: zeros, or a linker's traps */
	const char *path;	/* of the module; borrowed from target->maps */
	/* bytes, from address on, that an iprobe which died has left there; 0: none */
	uint64_t left_behind;
};

/* Finds all text padding of the process; the caller frees *ret. 0, or -1 if memory ran out. A
 * module whose headers cannot be read has no text padding. */
int ip_text_padding_find(const struct ip_target *target, struct ip_text_padding **ret,
			 size_t *ret_n);

/* Whether our code still stands in the text padding. The module may have been unmapped meanwhile,
 * and something else be mapped in its place. */
bool ip_text_padding_is_ours(const struct ip_target *target, const struct ip_text_padding *padding);

/* Puts the first size bytes of the text padding back. 0; -1: our code does not stand there (no
 * error is set), or the target cannot be written (with an error). */
int ip_text_padding_restore(const struct ip_target *target, const struct ip_text_padding *padding,
			    size_t size);

/* Looks for code that an iprobe which was killed has left in the target's text padding. It is
 * harmless, since no thread runs it. The address of the first; 0: there is none. */
uint64_t ip_text_padding_left_behind(const struct ip_target *target);

/* Takes such code away, except where a thread is still on its way through it. Returns the number of
 * places. */
unsigned ip_text_padding_tidy(struct ip_target *target);

#endif

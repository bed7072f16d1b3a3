/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slack: bytes between the end of a module's code and the end of its last page. They are mapped
 * executable, belong to nobody and are never run. An injection (inject.h) puts a few hundred bytes
 * there for less than a millisecond.
 */
#ifndef IP_TEXT_PADDING_H
#define IP_TEXT_PADDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hotpatcher/process/target.h"

struct ip_text_padding {
	uint64_t address, size; /* as far as all bytes are the same */
	uint8_t fill;		/* what they are: zeros, or a linker's traps */
	const char *path;	/* of the module, in target->maps */
	/* bytes, from address, that an iprobe which died has left there; 0: none */
	uint64_t left_behind;
};

/* All slack of the process; the caller frees *ret. 0, -1 out of memory. A module whose headers
 * cannot be read has none. */
int ip_text_padding_find(const struct ip_target *target, struct ip_text_padding **ret,
			 size_t *ret_n);

/* Whether the code still stands there. Its module may have been unmapped meanwhile, and something
 * else be in its place. */
bool ip_text_padding_is_ours(const struct ip_target *target, const struct ip_text_padding *padding);

/* Puts back what slack held, if the code stands there. */
int ip_text_padding_restore(const struct ip_target *target, const struct ip_text_padding *padding,
			    size_t size);

/* What an iprobe which was killed has left in the target's slack: harmless, since nobody runs it.
 * The address of the first, 0: nothing. */
uint64_t ip_text_padding_left_behind(const struct ip_target *target);

/* Takes it away, where no thread is still on its way through. The number of places. */
unsigned ip_text_padding_tidy(struct ip_target *target);

#endif

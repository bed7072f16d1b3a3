/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe's notes: what a module says about itself, in a PT_NOTE with owner IP_NOTE_OWNER. They are
 * loaded. So they survive strip, and can be read from a live process. runtime/arch/ARCH/stub_room.S
 * and static.S write them.
 */
#ifndef IP_NOTE_H
#define IP_NOTE_H

#include <stdint.h>

#define IP_NOTE_OWNER "iprobe"

enum ip_note_type {
	IP_NOTE_ROOM = 1,   /* room for stubs: IP_STUB_SECTION */
	IP_NOTE_ANCHOR = 2, /* struct ip_rt_anchor of a runtime that is linked in */
};

struct ip_note_place {
	int64_t distance; /* distance from this member itself to what the note names */
	uint64_t size;
};

#endif

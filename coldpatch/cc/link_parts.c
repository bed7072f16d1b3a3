/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the parts that a link gets. See link_parts.h.
 *
 * They come last on the command line. Objects that are named there are always linked, whatever
 * archives come before, and nothing that the user gave changes its order. Their definitions never
 * conflict with the user's (all are weak or local).
 */
#include "coldpatch/cc/link_parts.h"

#include "coldpatch/cc/install_paths.h"

#include <unistd.h>

static char *find_part(const char *name)
{
	return install_path("../runtime", IP_RT_FROM_BIN, name, R_OK);
}

size_t link_parts(const struct command_line *line, bool clang, const char *ret[LINK_PARTS_MAX])
{
	const char *room, *runtime, *inlined;
	size_t n = 0;

	/* i386: a call reaches every address, and there is no runtime to link */
	if (!line->links || line->hands_off || line->own_layout || line->m32)
		return 0;
	room = find_part("iprobe-room.o");
	runtime = line->is_static && !line->own_start ? find_part("iprobe-rt.o") : NULL;
	inlined = clang ? find_part("iprobe-inlined.ar") : NULL;
	if (room || runtime || inlined)
		ret[n++] = "-xnone"; /* a language that -x named would hold for these files, too */
	if (room)
		ret[n++] = room;
	if (runtime)
		ret[n++] = runtime;
	if (inlined)
		ret[n++] = inlined;
	return n;
}

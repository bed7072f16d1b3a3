/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the parts, relative to our own place: beside us in a build folder, or where they are installed.
 *
 * They come last on the command line: objects that are named there are always linked, whatever archives come before, and
 * nothing that the user gave changes its order. A definition of theirs never stands against one of the user's (all are weak or local).
 */
#include "coldpatch/link_parts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *find_part(const char *name)
{
	static const char *const places[] = {"../runtime", IP_RT_FROM_BIN};
	char exe[PATH_MAX], candidate[2 * PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n <= 0)
		return NULL;
	exe[n] = '\0';
	*strrchr(exe, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(candidate, sizeof(candidate), "%s/%s/%s", exe, places[i], name);
		if (access(candidate, R_OK) == 0)
			return realpath(candidate, NULL);
	}
	return NULL;
}

size_t link_parts(const struct command_line *line, bool clang, const char *ret[LINK_PARTS_MAX])
{
	const char *room, *runtime, *inlined;
	size_t n = 0;

	/* i386: one call reaches everywhere, and there is no runtime to link in */
	if (!line->links || line->hands_off || line->own_layout || line->m32)
		return 0;
	room = find_part("iprobe-room.o");
	runtime = line->is_static && !line->own_start ? find_part("iprobe-rt.o") : NULL;
	inlined = clang ? find_part("iprobe-inlined.ar") : NULL;
	if (room || runtime || inlined)
		ret[n++] = "-xnone"; /* a language that was named holds for all inputs behind it */
	if (room)
		ret[n++] = room;
	if (runtime)
		ret[n++] = runtime;
	if (inlined)
		ret[n++] = inlined;
	return n;
}

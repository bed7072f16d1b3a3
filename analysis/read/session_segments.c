/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads which pieces of a trace in pieces (--rotate) exist. During the recording, and for a
 * recording that was cut off, only DIR/iprobe/pieces tells this.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "analysis/read/session.h"
#include "analysis/read/session_parser.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/trace/trace_segments.h"

int ip_session_load_pieces(const char *dir, struct ip_recording *s)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	_cleanup_close_ int fd = -1;
	const struct ip_trace_segment *first;
	struct ip_trace_segments pieces;
	uint64_t size;

	if (asprintf(&path, "%s/" IP_TRACE_PIECES, dir) < 0) {
		path = NULL;
		return ip_error("out of memory");
	}
	if (ip_access(path, F_OK) < 0)
		return 0;
	fd = ip_open_regular(path, &size);
	if (fd < 0)
		return -1;
	size = size < IP_TRACE_SEGMENTS_SIZE ? size : IP_TRACE_SEGMENTS_SIZE;
	text = malloc(size + 1);
	if (!text)
		return ip_error("out of memory");
	if (ip_read_at(fd, path, 0, text, size) < 0 ||
	    ip_trace_segments_parse(path, text, size, &pieces) < 0)
		return -1;
	first = ip_trace_segments_first(&pieces);
	s->rotates = true;
	s->rotated = first->events;
	s->rotated_pieces = first->number;
	s->rotated_packets = first->packets;
	s->rotated_bytes = first->bytes;
	s->rotated_lost = first->lost;
	s->rotated_tsc = first->tsc;
	return 0;
}

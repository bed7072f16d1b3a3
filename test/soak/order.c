/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the streams of a trace and checks that no stamp of a thread lies before the one in front of
 * it, within a stream:
 *
 *   soak-order STREAM...
 *
 * Prints one JSON object: streams, packets, events. Exit 1 with a line on stderr: a stream is
 * damaged, or out of order.
 */
#include <inttypes.h>
#include <stdio.h>

#include "analysis/read/stream.h"
#include "common/error.h"

static uint64_t packets, events;

static int check(const char *path)
{
	struct ip_event batch[256];
	struct ip_packet packet;
	struct ip_stream *stream;
	uint64_t last = 0;
	uint32_t pid = 0, tid = 0;
	int more = -1;

	if (ip_stream_open(path, &stream) < 0)
		return -1;
	while ((more = ip_stream_next_packet(stream, &packet)) > 0) {
		ssize_t n;

		if (packet.pid != pid || packet.tid != tid)
			last = 0;
		pid = packet.pid;
		tid = packet.tid;
		packets++;
		while ((n = ip_stream_read(stream, batch, sizeof(batch) / sizeof(*batch))) > 0)
			for (ssize_t i = 0; i < n; i++) {
				if (batch[i].ts < last || batch[i].ts < packet.begin ||
				    batch[i].ts > packet.end) {
					ip_error("%s: thread %u: the event at %" PRIu64
						 " stands behind one at %" PRIu64
						 ", in a packet from %" PRIu64 " to %" PRIu64,
						 path, tid, batch[i].ts, last, packet.begin,
						 packet.end);
					ip_stream_close(stream);
					return -1;
				}
				last = batch[i].ts;
				events++;
			}
		if (n < 0)
			break;
	}
	if (more == 0 && ip_stream_damage(stream))
		more = ip_error("%s", ip_stream_damage(stream));
	ip_stream_close(stream);
	return more;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (check(argv[i]) < 0) {
			fprintf(stderr, "soak-order: %s\n", ip_error_message());
			return 1;
		}
	printf("{\"streams\":%d,\"packets\":%" PRIu64 ",\"events\":%" PRIu64 "}\n", argc - 1,
	       packets, events);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A uprobe that comes and goes at once:
 *
 *   uprobe PATH OFFSET [PID]
 *
 * On each line on stdin it is set (at OFFSET of the file, in all processes or PID alone) or, if it
 * is there, taken away; "on" or "off" and how often it was hit is printed then. Ends, and takes it
 * away, when stdin is closed. Exit 77: the kernel has no uprobes for us.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int set(unsigned type, const char *path, uint64_t offset, pid_t pid)
{
	struct perf_event_attr attr = {
		.type = type, .size = sizeof(attr), .sample_period = 1u << 31};

	attr.config1 = (uintptr_t)path;
	attr.config2 = offset;
	return syscall(SYS_perf_event_open, &attr, pid, pid == -1 ? 0 : -1, -1,
		       PERF_FLAG_FD_CLOEXEC);
}

int main(int argc, char **argv)
{
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	char line[64];
	unsigned type;
	int fd = -1;

	if (argc < 3)
		return 2;
	if (!file || fscanf(file, "%u", &type) != 1)
		return 77;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (fd < 0) {
			fd = set(type, argv[1], strtoull(argv[2], NULL, 0),
				 argc > 3 ? atoi(argv[3]) : -1);
			if (fd < 0) {
				fprintf(stderr, "uprobe: %s\n", strerror(errno));
				return 77;
			}
		} else {
			close(fd);
			fd = -1;
		}
		puts(fd < 0 ? "off" : "on");
		fflush(stdout);
	}
	return 0;
}

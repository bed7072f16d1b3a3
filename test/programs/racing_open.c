// SPDX-License-Identifier: Apache-2.0
/*
 * Tries to open what /proc shows of each child of a process, all the time, until standard input
 * ends: argv[1] is the process. At the end it says how many children it saw, and what it could
 * open: "SEEN NAME NAME...".
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name;
	int flags;
} files[] = {{"oom_score_adj", O_WRONLY},
	     {"coredump_filter", O_WRONLY},
	     {"mem", O_RDWR},
	     {"environ", O_RDONLY}};

#define FILES (sizeof(files) / sizeof(*files))

int main(int argc, char **argv)
{
	char list[64], text[4096], name[64];
	struct pollfd end = {.fd = STDIN_FILENO, .events = POLLIN};
	int opened[FILES] = {0}, seen = 0, last = 0;

	if (argc != 2)
		return 2;
	snprintf(list, sizeof(list), "/proc/%s/task/%s/children", argv[1], argv[1]);
	puts("ready");
	fflush(stdout);
	for (unsigned turn = 0; turn % 4096 || poll(&end, 1, 0) == 0; turn++) {
		int fd = open(list, O_RDONLY);
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

		if (fd >= 0)
			close(fd);
		if (n < 0)
			return 1;
		text[n] = '\0';
		for (char *save, *pid = strtok_r(text, " \n", &save); pid;
		     pid = strtok_r(NULL, " \n", &save)) {
			if (atoi(pid) > last) {
				last = atoi(pid);
				seen++;
			}
			for (size_t i = 0; i < FILES; i++) {
				snprintf(name, sizeof(name), "/proc/%s/%s", pid, files[i].name);
				fd = open(name, files[i].flags);
				opened[i] += fd >= 0;
				if (fd >= 0)
					close(fd);
			}
		}
	}
	printf("%d", seen);
	for (size_t i = 0; i < FILES; i++)
		if (opened[i])
			printf(" %s", files[i].name);
	puts("");
	return 0;
}

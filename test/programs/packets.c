/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the kernel busy with packets that nobody receives.
 *
 *   packets CPU MILLISECONDS COMMAND ARGS...
 *
 * Brings the loopback interface up, runs the command, and for so long, or until it has ended, sends
 * bursts of small packets from the CPU to a port that is closed. Exits with the command's code. In
 * a network namespace of its own nobody else has them; where the namespace's receive packet
 * steering names another CPU, that one's time goes to software interrupts.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PACKETS 256u
#define TURNS	8u
#define PAUSE	15000u /* us */

static struct mmsghdr messages[PACKETS];

static int fail(const char *what)
{
	perror(what);
	return 1;
}

static long long ms_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(7777),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	struct iovec byte = {"x", 1};
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	long long end;
	cpu_set_t cpus;
	pid_t child, ended = 0;
	int status;

	if (argc < 4 || fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
		return fail("packets");
	end = ms_now() + atoll(argv[2]);
	child = fork();
	if (child == 0) {
		execvp(argv[3], argv + 3);
		_exit(fail(argv[3]));
	}
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	if (child < 0 || sched_setaffinity(0, sizeof(cpus), &cpus) < 0)
		return fail("packets");
	/* The socket is not connected: no refusal ends a burst. */
	for (unsigned i = 0; i < PACKETS; i++)
		messages[i].msg_hdr = (struct msghdr){.msg_name = &to,
						      .msg_namelen = sizeof(to),
						      .msg_iov = &byte,
						      .msg_iovlen = 1};
	while (!ended && ms_now() < end) {
		for (unsigned i = 0; i < TURNS; i++)
			sendmmsg(fd, messages, PACKETS, 0);
		usleep(PAUSE);
		ended = waitpid(child, &status, WNOHANG);
	}
	if (!ended)
		ended = waitpid(child, &status, 0);
	if (ended < 0)
		return fail("packets");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests with ids, which two processes work for. The first one reads a byte for each request: its
 * id. It says so by the point "request" (id), computes 2 ms in front(), passes the id on by a pipe
 * to its child, and polls for the next one. The child works in handle_job(key), where key is the
 * id, for as many ms as that says, then computes 3 ms in tidy(), which is for no request.
 *
 * usage: id_requests [done]
 *
 *   done   the first process passes a point "done" behind front(), and computes 2 ms in after(),
 *          which is for no request then
 *
 * At the end of its input it ends.
 */
#define _GNU_SOURCE
#include <iprobe/probe.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define FUNC  __attribute__((noinline))
#define KEEP  asm volatile("") /* no tail call */

QUIET static uint64_t cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

QUIET static void burn(unsigned ms)
{
	const uint64_t begin = cpu_now();

	while (cpu_now() - begin < ms * 1000000ull)
		KEEP;
}

FUNC void front(void)
{
	burn(2);
	KEEP;
}

FUNC void after(void)
{
	burn(2);
	KEEP;
}

FUNC void tidy(void)
{
	burn(3);
	KEEP;
}

FUNC void handle_job(int key)
{
	burn(key);
	KEEP;
}

FUNC void work(int from)
{
	for (unsigned char key; read(from, &key, 1) == 1;) {
		handle_job(key);
		tidy();
	}
}

FUNC void loop(int to, int says_done)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};
	unsigned char id;

	while (poll(&input, 1, -1) == 1 && read(0, &id, 1) == 1) {
		IPROBE_POINT(request, id);
		front();
		if (says_done) {
			IPROBE_POINT(done);
			after();
		}
		if (write(to, &id, 1) != 1)
			abort();
	}
	KEEP;
}

QUIET int main(int argc, char **argv)
{
	int ends[2];

	if (pipe(ends))
		abort();
	if (fork() == 0) {
		close(ends[1]);
		work(ends[0]);
		return 0;
	}
	close(ends[0]);
	if (write(1, "ready\n", 6) != 6)
		abort();
	loop(ends[1], argc > 1);
	close(ends[1]);
	return wait(NULL) > 0 ? 0 : 1;
}

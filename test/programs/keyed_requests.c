/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server whose requests have keys, and whose own clock tells how long each took:
 *
 *   keyed_requests N     serves N requests by turns, then prints a line of JSON each:
 *                        {"kind","size","status","inside","around"}
 *                        inside, around: ns by clocks read in serve() and around its call
 *
 * serve() spins for a time that depends on its URI, and is recursive for /nested. finish() ends by
 * a jump to done(). The point "parsed" has the size and the URI. The last request never ends: the
 * process leaves in the middle of it.
 */
#include <iprobe/probe.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

enum method { GET, PUT, DELETE = 7 };

struct served {
	unsigned size;
	int status;
	uint64_t inside, around;
};

static const struct {
	const char *uri;
	unsigned us, size;
	enum method method;
} kinds[] = {{"/fast", 100, 3, GET},
	     {"/slow", 800, 5000, PUT},
	     {"/nested", 120, 100, DELETE},
	     {"/\x1b[31mred", 200, 0, GET},
	     {NULL, 50, 70000, PUT}};

static volatile int sink;
static uint64_t inside;

QUIET static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

QUIET static void spin(unsigned us)
{
	uint64_t end = now() + us * 1000ull;

	while (now() < end)
		;
}

KEEP int done(int status)
{
	sink = status;
	return status + 1;
}

/* Ends by a jump to done(). */
KEEP int finish(int status)
{
	sink += status;
	return done(status);
}

KEEP int serve(const char *uri, unsigned size, enum method method, double share, unsigned us)
{
	uint64_t begin = now();

	IPROBE_POINT(parsed, size, uri);
	if (us == 77) {
		fflush(stdout);
		_exit(0); /* the call never returns */
	}
	if (uri && !strcmp(uri, "/nested") && us > 30) {
		spin(us / 2);
		serve(uri, size, method, share, us / 4);
	} else {
		spin(us);
	}
	finish((int)size);
	sink += method == PUT;
	inside = now() - begin;
	return uri ? (int)(size % 7) - 3 : -1;
}

QUIET int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? atoi(argv[1]) : 100;
	struct served *served = calloc(n, sizeof(*served));

	for (unsigned i = 0; i < n; i++) {
		unsigned kind = i % 5;
		uint64_t begin = now();

		served[i].status = serve(kinds[kind].uri, kinds[kind].size, kinds[kind].method,
					 kind / 4.0, kinds[kind].us);
		served[i].around = now() - begin;
		served[i].inside = inside;
		served[i].size = kinds[kind].size;
	}
	for (unsigned i = 0; i < n; i++)
		printf("{\"kind\":%u,\"size\":%u,\"status\":%d,\"inside\":%llu,\"around\":%llu}\n",
		       i % 5, served[i].size, served[i].status,
		       (unsigned long long)served[i].inside, (unsigned long long)served[i].around);
	serve("/hangs", 1, GET, 0, 77);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of the manual pages: has the functions that examples there name.
 *
 *   server [--config FILE] [--workers N] [INPUT]
 *
 * It turns its event loop 50 times, or as often as FILE says (0: until it is ended), with ten
 * requests each. One request in fifty is committed, which takes 30 ms. N: so many children do it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server.h"

static unsigned requests;
static volatile size_t buffer_size;
static volatile unsigned sink;

static void wait_ms(long ms)
{
	const struct timespec t = {.tv_nsec = ms * 1000000};

	nanosleep(&t, NULL);
}

KEEP void write_page(void)
{
	wait_ms(15);
	sink++;
}

/* What other servers have another thread do. */
struct job {
	unsigned number;
};

KEEP void push(struct job *job)
{
	sink += job->number;
}

KEEP void run_job(struct job *job)
{
	sink -= job->number;
}

KEEP void commit(void)
{
	struct job job = {requests};

	push(&job);
	write_page();
	write_page();
	run_job(&job);
	sink++;
}

KEEP void db_query(unsigned key)
{
	for (unsigned i = 0; i < 100; i++)
		sink += i * key;
}

KEEP void set_size(size_t size)
{
	buffer_size = size;
}

KEEP void grow_buffer(size_t size)
{
	set_size(size);
	sink++;
}

KEEP unsigned parse_header(const char *path)
{
	return (unsigned)strlen(path);
}

KEEP unsigned parse_request(const char *path)
{
	grow_buffer(16u << requests % 4);
	return parse_header(path) + requests % 100;
}

/* What a request took by the server's own measure, in microseconds. */
KEEP void write_log(long t_total)
{
	sink += (unsigned)t_total;
}

KEEP int handle_request(int fd, const char *path)
{
	unsigned key = parse_request(path);

	if (!cache_get(key)) {
		db_query(key);
		cache_put(key);
	}
	if (!(++requests % 50))
		commit();
	return fd < 0 ? 500 : 200;
}

KEEP void event_loop_turn(void)
{
	for (int i = 0; i < 10; i++) {
		sink += (unsigned)handle_request(3, i % 2 ? "/index.html" : "/search");
		write_log(requests % 50 ? i : 30000 + i);
	}
	wait_ms(1);
}

KEEP void serve(unsigned long turns)
{
	for (unsigned long i = 0; !turns || i < turns; i++)
		event_loop_turn();
}

KEEP unsigned long load_config(const char *path)
{
	unsigned long turns = 50;
	FILE *f = path ? fopen(path, "r") : NULL;

	if (f) {
		if (fscanf(f, "turns %lu", &turns) != 1)
			exit(2);
		fclose(f);
	}
	return turns;
}

int main(int argc, char **argv)
{
	const char *config = NULL;
	unsigned long turns;
	int workers = 0;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--config"))
			config = argv[i + 1];
		else if (!strcmp(argv[i], "--workers"))
			workers = atoi(argv[i + 1]);
	}
	turns = load_config(config);
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < workers; i++)
		if (!fork()) {
			serve(turns);
			_exit(0);
		}
	if (!workers)
		serve(turns);
	while (wait(NULL) > 0)
		;
	return 0;
}

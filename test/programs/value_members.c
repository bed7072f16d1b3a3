/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls functions whose parameters lead to structures, and says on stdout what expressions over
 * them are: one JSON object a call, {"f", "args", "ret"}, with the expressions as keys.
 *
 *   value_members          the list of calls
 *   value_members race N   prints "ready", waits for a line, calls chased() N times in each of 2
 *                          threads while others unmap and map again what its pointers lead to
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__has_attribute) && __has_attribute(noipa)
#define NOINLINE __attribute__((noipa))
#else
#define NOINLINE __attribute__((noinline, optnone))
#endif

enum state { IDLE, BUSY = 4, GONE = -2 };
struct text {
	size_t len;
	unsigned char *data;
};
struct flags {
	unsigned low : 3;
	int sign : 5;
	unsigned long wide : 40;
	unsigned char odd : 7;
	int last : 9;
};
struct hidden; /* complete at the end of this file only */
struct connection {
	int fd;
	struct flags flags;
	struct {
		short inner;
	};
	union {
		int32_t number;
		float real;
		char letters[4];
	} as;
	enum state state;
	struct hidden *hidden;
};
struct request {
	long id;
	struct text uri;
	struct connection *connection;
	struct request *next;
	double weight;
	short table[6];
	struct text texts[3];
	char name[12];
	uint8_t big;
	int8_t small;
	_Bool yes;
};
struct pair {
	int x;
	short y;
	float z;
};
struct mixed {
	double d;
	long n;
};
struct large {
	long words[7];
	struct text text;
};

extern struct hidden hidden;

NOINLINE int handle(struct request *request, int index)
{
	/* the pointer may lead nowhere: it is looked at by nobody but hooks */
	return index + (request != NULL);
}

NOINLINE struct pair small(struct pair pair, int n)
{
	return (struct pair){pair.x + n, (short)(pair.y - n), pair.z * 2};
}

NOINLINE struct mixed mixed(struct mixed mixed)
{
	return (struct mixed){mixed.d / 2, mixed.n - 1};
}

NOINLINE struct large large(struct large large, long first)
{
	large.words[0] = first;
	return large;
}

NOINLINE struct request *find(struct request *request)
{
	return request->next;
}

NOINLINE long chased(long number, struct request *request)
{
	return number + (request != NULL);
}

static void say_handle(const struct request *r, int index)
{
	const struct connection *c = r->connection;

	printf("{\"f\":\"handle\",\"args\":{\"request->uri.data\":\"%.*s\",\"fd\":%d,"
	       "\"request->connection->flags.low\":%u,\"request->connection->flags.sign\":%d,"
	       "\"request->connection->flags.wide\":%lu,\"request->connection->flags.odd\":%u,"
	       "\"request->connection->flags.last\":%d,\"request->connection->inner\":%d,"
	       "\"request->connection->as.number\":%d,\"request->connection->as.letters\":\"%.4s\","
	       "\"request->connection->state\":\"%s\",\"request->table[index]\":%d,"
	       "\"request->texts[2].data\":\"%s\",\"request->name\":\"%s\","
	       "\"request->next->id\":%ld,\"(*request).weight\":%g}}\n",
	       (int)r->uri.len, r->uri.data, c->fd, c->flags.low, c->flags.sign,
	       (unsigned long)c->flags.wide, c->flags.odd, c->flags.last, c->inner, c->as.number,
	       c->as.letters, c->state == BUSY ? "BUSY" : "GONE", r->table[index],
	       (const char *)r->texts[2].data, r->name, r->next->id, r->weight);
	handle((struct request *)r, index);
}

static void list(void)
{
	static struct connection connection = {.fd = 7,
					       .flags = {5, -9, 0xabcdef1234, 99, -200},
					       .inner = -3,
					       .as.number = 0x64636261,
					       .state = BUSY,
					       .hidden = &hidden};
	static struct request request = {.id = 11,
					 .uri = {11, (unsigned char *)"/index.html HTTP/1.1"},
					 .weight = 2.5,
					 .table = {1, -2, 3, -4, 5, -6},
					 .name = "first",
					 .big = 250,
					 .small = -5,
					 .yes = 1};
	static struct request second = {.id = 22, .name = "second"};
	struct request odd = request;
	struct pair pair = {100, 20, 1.5f};
	struct mixed m = {0.25, -77};
	struct large big = {{1, 2, 3, 4, 5, 6, 7}, {3, (unsigned char *)"abcdef"}};

	request.connection = &connection;
	request.next = &second;
	request.texts[2].data = (unsigned char *)"third";
	second.next = &request;
	for (int i = 0; i < 6; i++) {
		connection.state = i & 1 ? BUSY : GONE;
		connection.flags.sign = -i;
		say_handle(&request, i);
	}
	for (int i = 0; i < 3; i++) {
		struct pair result = small(pair, i);

		printf("{\"f\":\"small\",\"args\":{\"pair.x\":%d,\"pair.y\":%d,\"pair.z\":%g},"
		       "\"ret\":{\"retval.x\":%d,\"retval.y\":%d,\"retval.z\":%g}}\n",
		       pair.x, pair.y, pair.z, result.x, result.y, result.z);
		pair.x -= 300;
	}
	{
		struct mixed result = mixed(m);

		printf("{\"f\":\"mixed\",\"args\":{\"mixed.d\":%g,\"mixed.n\":%ld},"
		       "\"ret\":{\"retval.d\":%g,\"retval.n\":%ld}}\n",
		       m.d, m.n, result.d, result.n);
	}
	{
		struct large result = large(big, 99);

		printf("{\"f\":\"large\",\"args\":{\"large.words[6]\":%ld,\"large.text.data\":"
		       "\"abc\"},"
		       "\"ret\":{\"retval.words[0]\":%ld,\"retval.text.data\":\"abc\"}}\n",
		       big.words[6], result.words[0]);
	}
	find(&second);
	printf("{\"f\":\"find\",\"ret\":{\"retval->id\":11,\"$retval->connection->fd\":7}}\n");
	/* pointers that lead nowhere */
	handle(NULL, 1);
	printf("{\"f\":\"handle\",\"bad\":\"null\"}\n");
	handle((struct request *)0x10, 2);
	printf("{\"f\":\"handle\",\"bad\":\"low\"}\n");
	handle((struct request *)0xdead000000000000, 3);
	printf("{\"f\":\"handle\",\"bad\":\"not canonical\"}\n");
	handle((struct request *)0xffffffff81000000, 3);
	printf("{\"f\":\"handle\",\"bad\":\"kernel\"}\n");
	odd.connection = (struct connection *)0x7000000000;
	handle(&odd, 0);
	printf("{\"f\":\"handle\",\"bad\":\"connection\"}\n");
	{
		char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);
		struct request *end = (struct request *)(pages + 4096 - 16);

		munmap(pages + 4096, 4096);
		end->id = 5;
		end->uri.len = 6;
		handle(end, 0);
		printf("{\"f\":\"handle\",\"bad\":\"end of page\"}\n");
		munmap(pages, 4096);
		handle(end, 0);
		printf("{\"f\":\"handle\",\"bad\":\"unmapped\"}\n");
	}
}

#define PLACE ((char *)0x5f0000000000)

static volatile int ended;

/* The structures of chased(): request in the first page, its connection in the second. */
static void fill(void)
{
	struct request *request = (struct request *)PLACE;

	request->connection = (struct connection *)(PLACE + 4096);
	request->connection->fd = 4711;
	request->id = 815;
}

static void *change(void *unused)
{
	(void)unused;
	while (!ended) {
		munmap(PLACE, 8192);
		if (mmap(PLACE, 8192, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == PLACE)
			fill();
	}
	return NULL;
}

static void *chase(void *rounds)
{
	for (long i = 0; i < (long)rounds; i++)
		chased(i, (struct request *)PLACE);
	return NULL;
}

static void race(long rounds)
{
	pthread_t threads[3];
	int c;

	puts("ready");
	fflush(stdout);
	while ((c = getchar()) != '\n' && c != EOF)
		;
	pthread_create(&threads[2], NULL, change, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, chase, (void *)rounds);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ended = 1;
	pthread_join(threads[2], NULL);
	puts("done");
	fflush(stdout);
	while ((c = getchar()) != '\n' && c != EOF)
		;
}

struct hidden {
	long secret;
};
struct hidden hidden = {31337};

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "race"))
		race(atol(argv[2]));
	else
		list();
	return 0;
}

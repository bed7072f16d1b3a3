/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A desk that works on orders: something with a past to look into.
 *
 *   IPROBE_PLACEMENT=inline iprobe-cc -O2 -g -pthread orders.c -o orders
 *   ./orders [SECONDS [THREADS]]
 *
 * Each thread takes an order, parses it, looks its items up, prices and packs it. Now and then
 * (one lookup in a thousand) the lookup goes the long way round: the average hides it, the p99 of
 * look_up() in a report does not. Without SECONDS it works until it is ended; then it prints
 * how many orders it has shipped. The compiler inlines most of its functions: only in placement
 * inline do those have probes.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ITEMS	    64
#define LINES	    4
#define THREADS_MAX 64

struct order {
	unsigned number;
	unsigned items[LINES];
	unsigned counts[LINES];
};

struct desk {
	pthread_t thread;
	unsigned seed;
	unsigned long shipped;
	unsigned long cents;
};

static volatile sig_atomic_t closing;
static unsigned prices[ITEMS];
static volatile unsigned archive[1 << 14]; /* volatile: or the compiler would not go there at all */

static unsigned next_random(struct desk *desk)
{
	desk->seed = desk->seed * 1664525 + 1013904223;
	return desk->seed >> 8;
}

static void take(struct desk *desk, char *text, size_t size)
{
	snprintf(text, size, "%u: %ux%u %ux%u %ux%u %ux%u", next_random(desk),
		 1 + next_random(desk) % 9, next_random(desk) % ITEMS, 1 + next_random(desk) % 9,
		 next_random(desk) % ITEMS, 1 + next_random(desk) % 9, next_random(desk) % ITEMS,
		 1 + next_random(desk) % 9, next_random(desk) % ITEMS);
}

static int parse(const char *text, struct order *order)
{
	char *end;

	order->number = (unsigned)strtoul(text, &end, 10);
	if (*end++ != ':')
		return -1;
	for (int i = 0; i < LINES; i++) {
		order->counts[i] = (unsigned)strtoul(end, &end, 10);
		if (*end++ != 'x')
			return -1;
		order->items[i] = (unsigned)strtoul(end, &end, 10) % ITEMS;
	}
	return 0;
}

/* The long way: reads everything that was ever written down. */
static unsigned search_archive(unsigned item)
{
	unsigned sum = 0;

	for (size_t i = 0; i < sizeof(archive) / sizeof(archive[0]); i++)
		sum += archive[i] ^ item;
	return prices[item] + (sum & 1);
}

static unsigned look_up(struct desk *desk, unsigned item)
{
	if (next_random(desk) % 1000 == 0)
		return search_archive(item);
	return prices[item];
}

static unsigned long price(struct desk *desk, const struct order *order)
{
	unsigned long cents = 0;

	for (int i = 0; i < LINES; i++)
		cents += (unsigned long)order->counts[i] * look_up(desk, order->items[i]);
	return cents;
}

static int by_item(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return (x > y) - (x < y);
}

static void pack(struct order *order)
{
	qsort(order->items, LINES, sizeof(order->items[0]), by_item);
}

static void work_on_order(struct desk *desk)
{
	struct order order;
	char text[128];

	take(desk, text, sizeof(text));
	if (parse(text, &order) < 0)
		return;
	desk->cents += price(desk, &order);
	pack(&order);
	desk->shipped++;
}

static void *run_desk(void *arg)
{
	struct desk *desk = arg;
	const struct timespec breather = {.tv_nsec = 1000000};

	while (!closing) {
		for (int i = 0; i < 100; i++)
			work_on_order(desk);
		nanosleep(&breather, NULL);
	}
	return NULL;
}

static void on_signal(int sig)
{
	closing = 1;
}

int main(int argc, char **argv)
{
	static struct desk desks[THREADS_MAX];
	double seconds = argc > 1 ? atof(argv[1]) : 0;
	int threads = argc > 2 ? atoi(argv[2]) : 2;
	unsigned long shipped = 0;

	if (argc > 3 || seconds < 0 || threads < 1 || threads > THREADS_MAX) {
		fprintf(stderr, "usage: orders [SECONDS [THREADS]]\n");
		return 2;
	}
	for (unsigned i = 0; i < ITEMS; i++)
		prices[i] = 99 + 100 * i;
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	for (int i = 0; i < threads; i++) {
		desks[i].seed = (unsigned)i;
		if (pthread_create(&desks[i].thread, NULL, run_desk, &desks[i])) {
			fprintf(stderr, "orders: cannot start thread %d\n", i);
			return 1;
		}
	}
	for (double waited = 0; !closing && (seconds == 0 || waited < seconds); waited += 0.05)
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	closing = 1;
	for (int i = 0; i < threads; i++) {
		pthread_join(desks[i].thread, NULL);
		shipped += desks[i].shipped;
	}
	printf("%lu orders shipped\n", shipped);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of packets, and the threads that fill them.
 */
#include "analysis/read/kernel_readahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

/* Packets that wait in all queues, as long as each queue may have two. */
#define WAITING_MOST 64u
/* Of more streams than any machine has, packets that wait would take gigabytes: they are read one
 * by one. */
#define STREAMS_MOST 4096u
#define QUEUE_MOST   8u

struct item {
	struct ip_kernel_packet packet;
	int got;     /* what ip_kernel_packets_next() returned */
	char *error; /* of got -1 */
};

struct queue {
	struct ip_kernel_packets *stream;
	struct item *items; /* a ring */
	size_t first, n;
	bool claimed; /* somebody reads the stream */
	bool over;    /* it has been read to its end */
};

struct ip_kernel_readahead {
	pthread_mutex_t lock;
	pthread_cond_t room;  /* a queue has room, or it all ends */
	pthread_cond_t ready; /* a claim is over */
	struct queue *queues;
	size_t n, limit; /* items of a queue */
	pthread_t *threads;
	size_t nthreads;
	bool ending;
};

/* The queue with the fewest packets that may be filled. NULL: there is none now. */
static struct queue *find_work(const struct ip_kernel_readahead *a, bool *ret_over)
{
	struct queue *found = NULL;

	*ret_over = true;
	for (size_t i = 0; i < a->n; i++) {
		struct queue *q = &a->queues[i];

		if (q->over)
			continue;
		*ret_over = false;
		if (!q->claimed && q->n < a->limit && (!found || q->n < found->n))
			found = q;
	}
	return found;
}

/* Reads one packet. The lock is held, but not meanwhile. */
static void fill(struct ip_kernel_readahead *a, struct queue *q)
{
	struct item *item = &q->items[(q->first + q->n) % a->limit];

	q->claimed = true;
	pthread_mutex_unlock(&a->lock);
	item->got = ip_kernel_packets_next(q->stream, &item->packet);
	item->error = item->got < 0 ? strdup(ip_error_message()) : NULL;
	pthread_mutex_lock(&a->lock);
	q->claimed = false;
	q->over = item->got <= 0;
	q->n++;
	pthread_cond_signal(&a->ready); /* one waits at most */
}

static void *run(void *context)
{
	struct ip_kernel_readahead *a = context;
	bool over = false;

	pthread_mutex_lock(&a->lock);
	while (!a->ending && !over) {
		struct queue *q = find_work(a, &over);

		if (q)
			fill(a, q);
		else if (!over)
			pthread_cond_wait(&a->room, &a->lock);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

int ip_kernel_readahead_use(struct ip_kernel_readahead *a, size_t threads)
{
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	sigset_t all, before;

	if (a->n > STREAMS_MOST)
		return 0;
	free(a->threads);
	a->threads = calloc(threads + 1, sizeof(*a->threads));
	if (!a->threads)
		return ip_error("out of memory");
	/* signals are for the caller's thread, but for those of a crash: they give the terminal
	 * back */
	sigfillset(&all);
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigdelset(&all, crashes[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	/* fewer threads do, too */
	while (a->nthreads < threads && pthread_create(&a->threads[a->nthreads], NULL, run, a) == 0)
		a->nthreads++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return 0;
}

struct ip_kernel_readahead *ip_kernel_readahead_begin(struct ip_kernel_packets *const *streams,
						      size_t n)
{
	struct ip_kernel_readahead *a = calloc(1, sizeof(*a));

	if (!a) {
		ip_error("out of memory");
		return NULL;
	}
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->room, NULL);
	pthread_cond_init(&a->ready, NULL);
	a->limit = n && WAITING_MOST / n < QUEUE_MOST ? WAITING_MOST / n : QUEUE_MOST;
	if (a->limit < 2)
		a->limit = 2;
	a->queues = calloc(n + 1, sizeof(*a->queues));
	for (size_t i = 0; a->queues && i < n; i++) {
		struct queue *q = &a->queues[a->n++];

		q->stream = streams[i];
		q->over = !streams[i];
		q->items = calloc(a->limit, sizeof(*q->items));
		if (!q->items)
			break;
	}
	if (!a->queues || (n && !a->queues[n - 1].items)) {
		ip_kernel_readahead_end(a);
		ip_error("out of memory");
		return NULL;
	}
	return a;
}

/* Takes the first item of a queue, in exchange for what *packet was. */
static int take(struct ip_kernel_readahead *a, struct queue *q, struct ip_kernel_packet *packet)
{
	struct item *item = &q->items[q->first];
	const struct ip_kernel_packet given = *packet;

	*packet = item->packet;
	item->packet = given;
	q->first = (q->first + 1) % a->limit;
	q->n--;
	if (item->got < 0)
		ip_error("%s", item->error ? item->error : "out of memory");
	free(item->error);
	item->error = NULL;
	/* threads that sleep are woken for several packets, not for each */
	if (q->n == a->limit / 2)
		pthread_cond_broadcast(&a->room);
	return item->got;
}

int ip_kernel_readahead_next(struct ip_kernel_readahead *a, size_t i,
			     struct ip_kernel_packet *packet)
{
	struct queue *q = &a->queues[i];
	int got = 0;

	pthread_mutex_lock(&a->lock);
	while (!q->n && q->claimed)
		pthread_cond_wait(&a->ready, &a->lock);
	if (q->n) {
		got = take(a, q, packet);
	} else if (!q->over) {
		q->claimed = true;
		pthread_mutex_unlock(&a->lock);
		got = ip_kernel_packets_next(q->stream, packet);
		pthread_mutex_lock(&a->lock);
		q->claimed = false;
		q->over = got <= 0;
		pthread_cond_broadcast(&a->room); /* somebody may have waited for this stream */
	}
	pthread_mutex_unlock(&a->lock);
	return got;
}

void ip_kernel_readahead_end(struct ip_kernel_readahead *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->ending = true;
	pthread_cond_broadcast(&a->room);
	pthread_mutex_unlock(&a->lock);
	while (a->nthreads)
		pthread_join(a->threads[--a->nthreads], NULL);
	for (size_t i = 0; i < a->n; i++) {
		for (size_t k = 0; a->queues[i].items && k < a->limit; k++) {
			ip_kernel_packet_clear(&a->queues[i].items[k].packet);
			free(a->queues[i].items[k].error);
		}
		free(a->queues[i].items);
	}
	free(a->queues);
	free(a->threads);
	pthread_cond_destroy(&a->ready);
	pthread_cond_destroy(&a->room);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

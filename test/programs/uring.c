/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose bytes are moved by io_uring's workers: threads of the kernel's own in this
 * process.
 *
 *   uring WORKERS
 *
 * Prints "ready N", N the threads of its own, once WORKERS calls of splice() from empty pipes wait
 * in a worker each, and as many reads of such. Beside them a
 * thread of the kernel's polls the queue of a second ring, and one that this program has made takes
 * a worker's name, blocks all signals and calls step() without end. Each line of stdin lets one
 * round of operations have their bytes and begins the next; prints "good N", N operations so far,
 * or the first wrong result. Ends when stdin is closed; with 77 where there is no io_uring.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN	__attribute__((no_instrument_function))
#define ENTRIES 64u

struct ring {
	int fd;
	_Atomic uint32_t *sq_tail, *cq_head, *cq_tail;
	uint32_t sq_mask, cq_mask, *sq_array;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

static volatile unsigned steps;
static int pipes[ENTRIES][2], sinks[ENTRIES][2];
static char bytes[ENTRIES];

__attribute__((noinline)) static void step(void)
{
	steps++;
}

HIDDEN static void *pose(void *unused)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	pthread_setname_np(pthread_self(), "iou-wrk-1");
	for (;;) {
		step();
		usleep(100);
	}
	return unused;
}

HIDDEN static int make_ring(struct ring *r, unsigned flags)
{
	struct io_uring_params p = {.flags = flags, .sq_thread_idle = 60000};
	char *sq, *cq;

	r->fd = syscall(SYS_io_uring_setup, ENTRIES, &p);
	if (r->fd < 0)
		return -1;
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * sizeof(uint32_t), PROT_READ | PROT_WRITE,
		  MAP_SHARED, r->fd, IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
		  PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_CQ_RING);
	r->sqes = mmap(NULL, p.sq_entries * sizeof(*r->sqes), PROT_READ | PROT_WRITE, MAP_SHARED,
		       r->fd, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || r->sqes == MAP_FAILED)
		return -1;
	r->sq_tail = (void *)(sq + p.sq_off.tail);
	r->sq_mask = *(uint32_t *)(sq + p.sq_off.ring_mask);
	r->sq_array = (void *)(sq + p.sq_off.array);
	r->cq_head = (void *)(cq + p.cq_off.head);
	r->cq_tail = (void *)(cq + p.cq_off.tail);
	r->cq_mask = *(uint32_t *)(cq + p.cq_off.ring_mask);
	r->cqes = (void *)(cq + p.cq_off.cqes);
	return 0;
}

/* One byte out of an empty pipe: with splice() a worker has to wait for it. */
HIDDEN static void begin(struct ring *r, unsigned i)
{
	uint32_t tail = atomic_load(r->sq_tail), at = tail & r->sq_mask;

	r->sqes[at] = (struct io_uring_sqe){.opcode = IORING_OP_READ,
					    .flags = IOSQE_ASYNC,
					    .fd = pipes[i][0],
					    .addr = (uintptr_t)&bytes[i],
					    .len = 1,
					    .user_data = i};
	if (i % 2) {
		r->sqes[at].opcode = IORING_OP_SPLICE;
		r->sqes[at].fd = sinks[i][1];
		r->sqes[at].splice_fd_in = pipes[i][0];
		r->sqes[at].splice_off_in = r->sqes[at].off = -1;
	}
	r->sq_array[at] = at;
	atomic_store(r->sq_tail, tail + 1);
	while (syscall(SYS_io_uring_enter, r->fd, 1, 0, 0, NULL, 0) < 0 && errno == EINTR)
		;
}

/* The results of a round, which are 1 each. */
HIDDEN static void take_results(struct ring *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint32_t head = atomic_load(r->cq_head);

		while (atomic_load(r->cq_tail) == head)
			syscall(SYS_io_uring_enter, r->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
		if (r->cqes[head & r->cq_mask].res != 1) {
			printf("operation %llu returned %d\n",
			       (unsigned long long)r->cqes[head & r->cq_mask].user_data,
			       r->cqes[head & r->cq_mask].res);
			fflush(stdout);
			exit(1);
		}
		atomic_store(r->cq_head, head + 1);
	}
}

HIDDEN int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? atoi(argv[1]) : 4;
	struct ring ring, polled;
	unsigned long done = 0;
	pthread_t thread;
	char line[64];

	n *= 2;
	if (n > ENTRIES)
		return 2;
	if (make_ring(&ring, 0) < 0) {
		perror("io_uring");
		return 77;
	}
	pthread_create(&thread, NULL, pose, NULL);
	make_ring(&polled, IORING_SETUP_SQPOLL); /* needs a privilege in some kernels */
	for (unsigned i = 0; i < n; i++) {
		if (pipe(pipes[i]) < 0 || pipe(sinks[i]) < 0)
			return 1;
		begin(&ring, i);
	}
	usleep(100000);
	printf("ready 2\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (unsigned i = 0; i < n; i++)
			if (write(pipes[i][1], "x", 1) != 1)
				return 1;
		take_results(&ring, n);
		for (unsigned i = 1; i < n; i += 2)
			if (read(sinks[i][0], line, sizeof(line)) != 1)
				return 1;
		done += n;
		for (unsigned i = 0; i < n; i++)
			begin(&ring, i);
		printf("good %lu\n", done);
		fflush(stdout);
	}
	return 0;
}

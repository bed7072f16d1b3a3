/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon with privilege separation: it calls work() all the time. For each line that it reads it
 * has a child: "fork" or "clone" (the system call by itself, which no C library knows of) that
 * becomes nobody where it may, calls work() itself, and says how many mappings and descriptors of
 * ring memory it has; "handler": the child is forked by a signal handler that comes amid calls of
 * work(); "return N": N such children, one after the other, return from the handler into what it
 * interrupted, call work() themselves, and end; "keep": the child stays who it is; "stay": it
 * becomes nobody, and goes on until it has no ring memory any more, or for five seconds; "thread
 * N": it has N threads, of which the last becomes nobody, alone, by a system call of its own, and
 * goes on likewise; "scribble": it becomes nobody, and writes wherever ring memory is, or is in its
 * parent.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWN_SIZE (4u << 20)

static volatile unsigned long worked;
static volatile unsigned handled, died;
static volatile int is_child;
static char *volatile own; /* what a child has mapped */

__attribute__((noinline)) void work(void)
{
	worked++;
}

__attribute__((noinline)) void forked_amid(int number)
{
	pid_t pid = fork();
	int status;

	(void)number;
	if (pid == 0) {
		/* where the kernel likes: nobody else writes there */
		own = mmap(NULL, OWN_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);
		is_child = 1;
		return;
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		fprintf(stderr, "a child ended with %#x\n", status);
		died++;
	}
	handled++;
}

static void end_child(void)
{
	for (unsigned i = 0; i < 100; i++)
		work();
	for (unsigned i = 0; i < OWN_SIZE; i++)
		if (own[i])
			_exit(5);
	_exit(0);
}

static void *go_on(void *data)
{
	for (;;) {
		work();
		if (is_child)
			end_child();
		if (!data && worked % 1000 == 0)
			usleep(100);
	}
	return data;
}

static void have_children_that_return(unsigned n)
{
	static pthread_t busy;

	if (!busy && pthread_create(&busy, NULL, go_on, (void *)&own))
		exit(1);
	died = handled = 0;
	for (unsigned i = 0; i < n; i++) {
		pthread_kill(busy, SIGUSR2);
		while (handled <= i)
			usleep(100 + i % 50);
	}
	printf("%u of %u died\n", died, n);
}

/* Of ring memory, not of its parts. */
static unsigned mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[4096];
	unsigned n = 0;

	while (file && fgets(line, sizeof(line), file))
		n += strstr(line, "memfd:iprobe") != NULL;
	if (file)
		fclose(file);
	return n;
}

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	unsigned n = 0;

	while (dir && (entry = readdir(dir))) {
		char path[300], name[256];
		ssize_t got;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		got = readlink(path, name, sizeof(name) - 1);
		name[got > 0 ? got : 0] = '\0';
		n += strstr(name, "memfd:iprobe") != NULL;
	}
	if (dir)
		closedir(dir);
	return n;
}

__attribute__((format(printf, 1, 0))) static void say(const char *what, unsigned a, unsigned b)
{
	char text[100];
	int n = snprintf(text, sizeof(text), what, a, b);

	_exit(write(STDOUT_FILENO, text, n) == n ? 0 : 4);
}

static void become_nobody(void)
{
	if (getuid() == 0 &&
	    (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
		_exit(3);
}

static void stay(void)
{
	unsigned left = 5000;

	become_nobody();
	for (; left && mappings(); left--) {
		work();
		usleep(1000);
	}
	for (unsigned i = 0; i < 1000; i++)
		work();
	say("child %u mappings %u descriptors\n", mappings(), descriptors());
}

static volatile unsigned changed;

/* What setresuid() of the C library would have all threads do. */
static void *one_of_many(void *last)
{
	if (last && getuid() == 0 &&
	    (syscall(SYS_setresgid, 65534, 65534, 65534) ||
	     syscall(SYS_setresuid, 65534, 65534, 65534)))
		_exit(3);
	if (last)
		changed = 1;
	for (;;) {
		work();
		usleep(last ? 1000 : 1000000);
	}
	return NULL;
}

static void have_threads(unsigned n)
{
	unsigned left = 20000;
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (unsigned i = 1; i <= n; i++)
		if (pthread_create(&thread, &attr, one_of_many, i == n ? &changed : NULL))
			_exit(6);
	while (!changed)
		usleep(1000);
	for (; left && mappings(); left--) {
		work();
		usleep(1000);
	}
	say("child %u mappings %u descriptors\n", mappings(), descriptors());
}

static struct {
	unsigned long start, end;
} areas[64];
static unsigned nareas;

static void note_areas(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[4096];

	nareas = 0;
	while (file && nareas < 64 && fgets(line, sizeof(line), file))
		if (strstr(line, "memfd:iprobe") &&
		    sscanf(line, "%lx-%lx", &areas[nareas].start, &areas[nareas].end) == 2)
			nareas++;
	if (file)
		fclose(file);
}

/* Words that were written to memory that others have, too; in others of its own. */
static void scribble(void)
{
	unsigned long shared = 0, junk = 0x5555555500000007;
	struct iovec from = {&junk, sizeof(junk)}, to = {NULL, sizeof(junk)};
	char name[100], line[4096];
	FILE *file;

	become_nobody();
	for (unsigned i = 0; i < nareas; i++)
		for (unsigned long at = areas[i].start;
		     at < areas[i].end && at < areas[i].start + (4 << 20); at += 1000) {
			to.iov_base = (void *)(at & ~7ul);
			syscall(SYS_process_vm_writev, getpid(), &from, 1, &to, 1, 0);
			to.iov_base = (void *)(at & ~7ul);
			syscall(SYS_process_vm_writev, getppid(), &from, 1, &to, 1, 0);
		}
	for (int fd = 3; fd < 1024; fd++) {
		struct stat st;

		if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink)
			continue;
		shared += pwrite(fd, &junk, sizeof(junk), 64) > 0;
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		int again = open(name, O_RDWR | O_CLOEXEC);

		shared += pwrite(again, &junk, sizeof(junk), 64) > 0;
		close(again);
	}
	file = fopen("/proc/self/maps", "re");
	while (file && fgets(line, sizeof(line), file)) {
		unsigned long start, end;
		char mode[8];

		if (sscanf(line, "%lx-%lx %7s", &start, &end, mode) != 3 || mode[3] != 's')
			continue;
		to.iov_base = (void *)start;
		shared += syscall(SYS_process_vm_writev, getpid(), &from, 1, &to, 1, 0) > 0;
	}
	say("child %u shared words\n", shared, 0);
}

static void child(bool drops)
{
	if (drops)
		become_nobody();
	for (int i = 0; i < 1000; i++)
		work();
	say("child %u mappings %u descriptors\n", mappings(), descriptors());
}

static void wait_for(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		printf("child ended with %#x\n", status);
	else
		printf("child ended well\n");
}

static void handle(int number)
{
	pid_t pid = fork();

	(void)number;
	if (pid == 0)
		child(true);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	pthread_t thread;
	char line[100];

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGUSR1, handle);
	signal(SIGUSR2, forked_amid);
	if (pthread_create(&thread, NULL, go_on, NULL))
		return 1;
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		pid_t pid;

		if (!strncmp(line, "return ", 7)) {
			have_children_that_return(atoi(line + 7));
			continue;
		}
		if (!strcmp(line, "handler\n")) {
			raise(SIGUSR1);
			printf("child ended well\n");
			continue;
		}
		note_areas();
		pid = strcmp(line, "clone\n") ? fork() : syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (pid == 0 && !strcmp(line, "stay\n"))
			stay();
		if (pid == 0 && !strncmp(line, "thread ", 7))
			have_threads(atoi(line + 7));
		if (pid == 0 && !strcmp(line, "scribble\n"))
			scribble();
		if (pid == 0)
			child(strcmp(line, "keep\n"));
		wait_for(pid);
	}
	return 0;
}

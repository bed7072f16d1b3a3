/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps through stubs and hooks, one instruction at a time, and lets libgcc unwind from each: the
 * processor's trap flag raises a SIGTRAP behind every instruction of a call of each function of
 * unwind_sites.c, and the handler must find the function, `middle` with its stack pointer and
 * registers, `outer` and `main`, whatever stands on top of them.
 *
 *   unwind_steps [ROUNDS]   prints "STEPS steps, OUTSIDE outside, PLACES places": all, those
 *                           outside of the program's own code, and their different addresses; ends
 *                           with 1 at the first wrong one, and tells its address
 *   unwind_steps wait       says "ready" and calls the functions until stdin is closed, for
 *                           somebody else to look
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#define QUIET __attribute__((no_instrument_function))

extern void middle(void (*f)(void));
extern uint64_t middle_sp, middle_return;
extern void first_entry(void), last_return(void), tail_jump(void), tail_return(void),
	tail_return_6(void), own_return(void), own_jump(void), call_entry(void), call_exit_6(void),
	all_entry(void), all_exit_6(void), jumping_entry(void), jumping_exit_6(void),
	library_call(void);

static const struct probed {
	const char *name;
	void (*call)(void);
	/* the function has a frame of its own under the hook: 0 where its site is jumped from */
	int in_frame;
	int stack;    /* bytes on the stack at its site, below its return address */
	uint64_t rbx; /* there */
} probed[] = {
	{"first_entry", first_entry, 1, 0, 0x33},
	{"last_return", last_return, 1, 0, 0x33},
	{"tail_jump", tail_jump, 1, 0, 0x33},
	{"tail_return", tail_return, 0, 0, 0},
	{"tail_return_6", tail_return_6, 0, 0, 0},
	{"own_return", own_return, 0, 0, 0},
	{"own_jump", own_jump, 0, 0, 0},
	{"call_entry", call_entry, 1, 8, 0x77},
	{"call_exit_6", call_exit_6, 1, 8, 0x77},
	{"all_entry", all_entry, 1, 8, 0x77},
	{"all_exit_6", all_exit_6, 1, 8, 0x77},
	{"jumping_entry", jumping_entry, 1, 8, 0x77},
	{"jumping_exit_6", jumping_exit_6, 1, 8, 0x77},
	{"library_call", library_call, 0, 0, 0},
};

static const struct probed *now;
static const char *library;  /* the file that the functions are in */
static const void *own_base; /* of this program */
static uint64_t outer_start, far_start, main_start;
static unsigned long steps, outside, nplaces;
static uint64_t places[8192];
static volatile int stepping;

struct walk {
	uint64_t trap; /* where the trap came */
	/* 0 in the handler, 1 at or above the trap, 2 function seen, 3 middle seen, 4 outer seen, 5
	 * done */
	int state;
	int depth;
	char problem[200];
};

/* In one of the probed functions; not in the room for stubs of their library. */
QUIET static int is_in_function(uint64_t pc)
{
	Dl_info info;

	return dladdr((void *)pc, &info) && info.dli_sname && !strcmp(info.dli_fname, library) &&
	       strcmp(info.dli_sname, "middle") != 0;
}

/* Behind the site at the first instruction of a function, if it has one. */
QUIET static uint64_t entered_at(uint64_t pc)
{
	Dl_info info;

	return dladdr((void *)pc, &info) ? (uint64_t)info.dli_saddr + 5 : 0;
}

/* On the way to or from the probed function: in this program, in middle, in the PLT of its library,
 * which lies in front of its functions, in the C library, in the dynamic linker. */
QUIET static int is_on_the_way(uint64_t pc)
{
	Dl_info info;

	return !middle_sp ||
	       (dladdr((void *)pc, &info) &&
		(info.dli_fbase == own_base ||
		 (!strcmp(info.dli_fname, library) && pc < (uint64_t)first_entry) ||
		 strstr(info.dli_fname, "/libc.so") || strstr(info.dli_fname, "/ld-linux") ||
		 (info.dli_sname && !strcmp(info.dli_sname, "middle"))));
}

QUIET static uint64_t start_of(uint64_t pc)
{
	return (uint64_t)_Unwind_FindEnclosingFunction((void *)pc);
}

QUIET static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *data)
{
	struct walk *w = data;
	uint64_t pc = _Unwind_GetIP(context), sp = _Unwind_GetCFA(context);

	w->depth++;
	if (w->state == 0) {
		if (pc != w->trap)
			return _URC_NO_REASON;
		w->state = 1;
		if (is_in_function(pc))
			w->state = 2;
	} else if (w->state == 1 && is_in_function(pc - 1)) {
		w->state = 2;
		if (pc == entered_at(pc - 1)) {
			if (sp != middle_sp - 8 || _Unwind_GetGR(context, 3) != 0x33)
				snprintf(w->problem, sizeof(w->problem),
					 "%#lx has sp %#lx at its entry", pc, sp);
		} else if (!now->in_frame || sp != middle_sp - 8 - now->stack ||
			   _Unwind_GetGR(context, 3) != now->rbx)
			snprintf(w->problem, sizeof(w->problem),
				 "%s at %#lx has sp %#lx (middle %#lx) and rbx %#lx", now->name, pc,
				 sp, middle_sp, (uint64_t)_Unwind_GetGR(context, 3));
	} else if (w->state <= 2 && pc == middle_return) {
		static const uint64_t registers[][2] = {{3, 0x33},    {6, 0x66},    {12, 0x1212},
							{13, 0x1313}, {14, 0x1414}, {15, 0x1515}};

		if (w->state == 1 && now->in_frame)
			snprintf(w->problem, sizeof(w->problem), "middle follows without %s",
				 now->name);
		w->state = 3;
		if (sp != middle_sp)
			snprintf(w->problem, sizeof(w->problem), "middle has sp %#lx, not %#lx", sp,
				 middle_sp);
		for (int i = 0; i < 6; i++)
			if (_Unwind_GetGR(context, registers[i][0]) != registers[i][1])
				snprintf(w->problem, sizeof(w->problem),
					 "register %lu of middle is %#lx", registers[i][0],
					 (uint64_t)_Unwind_GetGR(context, registers[i][0]));
	} else if (w->state == 3) {
		w->state = start_of(pc - 1) == outer_start ? 4 : 9;
	} else if (w->state == 4 && start_of(pc - 1) == far_start) {
		w->depth++;
	} else if (w->state == 4) {
		w->state = start_of(pc - 1) == main_start ? 5 : 9;
	} else if (w->state == 2) {
		snprintf(w->problem, sizeof(w->problem), "%#lx calls %s", pc, now->name);
	}
	return *w->problem || w->state == 5 || w->state == 9 || w->depth > 64 ? _URC_END_OF_STACK
									      : _URC_NO_REASON;
}

QUIET static void on_trap(int sig, siginfo_t *info, void *data)
{
	ucontext_t *context = data;
	struct walk w = {.trap = context->uc_mcontext.gregs[REG_RIP]};
	unsigned long i;

	(void)sig;
	(void)info;
	if (!stepping)
		return;
	steps++;
	if (is_on_the_way(w.trap))
		return;
	_Unwind_Backtrace(visit, &w);
	if (w.state != 5) {
		Dl_info in = {0};

		dladdr((void *)w.trap, &in);
		printf("wrong at %#lx (%s+%#lx), round of %s, after %d frames, state %d: %s\n",
		       w.trap, in.dli_fname ? in.dli_fname : "?", w.trap - (uint64_t)in.dli_fbase,
		       now->name, w.depth, w.state, w.problem);
		fflush(stdout);
		_exit(1);
	}
	if (is_in_function(w.trap))
		return;
	outside++;
	for (i = 0; i < nplaces && places[i] != w.trap; i++)
		;
	if (i == nplaces && nplaces < sizeof(places) / sizeof(*places))
		places[nplaces++] = w.trap;
}

QUIET static inline void trap_flag(int on)
{
	stepping = on;
	if (on)
		__asm__ volatile(
			"sub $128, %%rsp; pushf; orl $0x100, (%%rsp); popf; add $128, %%rsp"
			:
			:
			: "cc", "memory");
	else
		__asm__ volatile(
			"sub $128, %%rsp; pushf; andl $~0x100, (%%rsp); popf; add $128, %%rsp"
			:
			:
			: "cc", "memory");
}

QUIET __attribute__((noinline)) static void outer(const struct probed *f, int step)
{
	now = f;
	middle_sp = 0;
	if (step)
		trap_flag(1);
	middle(f->call);
	if (step)
		trap_flag(0);
	__asm__ volatile("");
}

/* The next event's stack pointer is far from the last one's: records take their slow way. */
QUIET __attribute__((noinline)) static void far(const struct probed *f, int step)
{
	volatile char room[20000];

	room[0] = 0;
	room[sizeof(room) - 1] = 0;
	outer(f, step);
}

QUIET int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	size_t n = sizeof(probed) / sizeof(*probed);
	Dl_info info;

	outer_start = (uint64_t)outer;
	far_start = (uint64_t)far;
	main_start = (uint64_t)main;
	if (!dladdr((void *)middle, &info))
		return 2;
	library = info.dli_fname;
	if (!dladdr((void *)main, &info))
		return 2;
	own_base = info.dli_fbase;
	if (argc > 1 && !strcmp(argv[1], "wait")) {
		struct pollfd in = {.fd = 0, .events = POLLIN};

		puts("ready");
		fflush(stdout);
		while (poll(&in, 1, 1) == 0)
			for (size_t i = 0; i < n; i++)
				outer(&probed[i], 0);
		return 0;
	}
	sigaction(SIGTRAP, &action, NULL);
	for (int round = 0; round < (argc > 1 ? atoi(argv[1]) : 4); round++)
		for (size_t i = 0; i < n; i++)
			outer(&probed[i], 1);
	/* each on the slow way */
	for (size_t i = 0; i < n; i++) {
		far(&probed[i], 1);
		outer(&probed[i], 1);
	}
	printf("%lu steps, %lu outside, %lu places\n", steps, outside, nplaces);
	return 0;
}

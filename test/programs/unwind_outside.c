/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps a process that runs unwind_steps, and unwinds it from outside behind each instruction that
 * lies in a stub, a hook or a probed function, by libdw and by libunwind. (Not by libunwind in the
 * stubs themselves: from outside it knows no code in memory without a file behind it. No frame but
 * the innermost is ever in a stub.)
 *
 *   unwind_outside PID STEPS STUBS    prints "UNWOUND unwound, PLACES places, STUBS in stubs"; ends
 *                                     with 1 at the first wrong one
 *
 * It steps until it has seen STUBS instructions in stubs, ten times STEPS at most: how many steps a
 * hook takes depends on what it has to do, a new sub-buffer say.
 */
#define _GNU_SOURCE
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <libunwind-ptrace.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#define FRAMES 64
/* of stubs and hooks, at most: of a hook that records a long gap in a new sub-buffer five */
#define HOOK_FRAMES 8

static const char *const probed[] = {
	"first_entry", "last_return", "tail_jump",  "tail_return",   "tail_return_6", "call_entry",
	"call_exit_6", "all_entry",   "all_exit_6", "jumping_entry", "jumping_exit_6"};
static const char *const callers[] = {"middle", "outer", "main"};

static char *debug_info;
static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
					 .find_debuginfo = dwfl_standard_find_debuginfo,
					 .debuginfo_path = &debug_info};
static Dwfl *dwfl;

struct chain {
	uint64_t pcs[FRAMES]; /* inside of the instruction */
	int n;
};

static const char *name_of(uint64_t pc)
{
	Dwfl_Module *module = dwfl_addrmodule(dwfl, pc);
	const char *name = module ? dwfl_module_addrname(module, pc) : NULL;

	return name ? name : "?";
}

static bool is_probed(const char *name)
{
	for (size_t i = 0; i < sizeof(probed) / sizeof(*probed); i++)
		if (!strcmp(name, probed[i]))
			return true;
	return false;
}

/* In executable memory without a file. */
static bool is_anonymous(pid_t pid, uint64_t pc)
{
	static struct {
		uint64_t start, end;
	} ranges[64];
	static int n = -1;
	char path[64], line[512], mode[8];
	FILE *maps;

	if (n < 0) {
		snprintf(path, sizeof(path), "/proc/%d/maps", pid);
		maps = fopen(path, "r");
		n = 0;
		while (maps && n < 64 && fgets(line, sizeof(line), maps))
			if (sscanf(line, "%lx-%lx %4s", &ranges[n].start, &ranges[n].end, mode) ==
				    3 &&
			    mode[2] == 'x' && !strchr(line, '/'))
				n++;
		fclose(maps);
	}
	for (int i = 0; i < n; i++)
		if (pc >= ranges[i].start && pc < ranges[i].end)
			return true;
	return false;
}

/*
 * The process's modules for libdw, stubs included: those lie in memory without a file, behind the
 * file's own mappings, where libdw counts them as the module's by accident only. The list it reads
 * has the file's name in those lines too.
 */
static int report_modules(pid_t pid)
{
	char path[64], line[4352], file[4352] = "";
	char *text = NULL;
	size_t size;
	uint64_t start, end, last = 0;
	FILE *maps, *out = open_memstream(&text, &size);
	int at, ret;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	while (maps && out && fgets(line, sizeof(line), maps)) {
		at = 0;
		if (sscanf(line, "%lx-%lx %*s %*s %n", &start, &end, &at) < 2 || !at)
			continue;
		if (strchr(line, '/'))
			strcpy(file, line + at);
		else if (start == last && *file)
			strcpy(line + at, file);
		else
			*file = '\0';
		last = end;
		fputs(line, out);
	}
	if (!maps || !out || fclose(out) || fclose(maps) || !(maps = fmemopen(text, size, "r")))
		return -1;
	ret = dwfl_linux_proc_maps_report(dwfl, maps);
	fclose(maps);
	free(text);
	return ret;
}

static int visit(Dwfl_Frame *frame, void *data)
{
	struct chain *c = data;
	Dwarf_Addr pc;
	bool exact;

	if (!dwfl_frame_pc(frame, &pc, &exact))
		return DWARF_CB_ABORT;
	c->pcs[c->n++] = pc - !exact;
	return c->n == FRAMES ? DWARF_CB_ABORT : DWARF_CB_OK;
}

static void unwind_by_libunwind(unw_addr_space_t space, void *upt, struct chain *c)
{
	unw_cursor_t cursor;

	if (unw_init_remote(&cursor, space, upt) < 0)
		return;
	do {
		unw_word_t pc;

		if (unw_get_reg(&cursor, UNW_REG_IP, &pc) < 0 || !pc)
			return;
		c->pcs[c->n] = pc - (c->n && !unw_is_signal_frame(&cursor));
		c->n++;
	} while (c->n < FRAMES && unw_step(&cursor) > 0);
}

/* First come stubs and hooks, if any, then a probed function, if its site is not one that is jumped
 * from, then its callers. */
static bool is_right(const struct chain *c)
{
	int i = 0, k = 0;

	while (i < c->n && strcmp(name_of(c->pcs[i]), "middle") != 0 &&
	       !is_probed(name_of(c->pcs[i])))
		i++;
	if (i > HOOK_FRAMES)
		return false;
	if (i < c->n && is_probed(name_of(c->pcs[i])))
		i++;
	for (; k < 3 && i < c->n; i++, k++)
		if (strcmp(name_of(c->pcs[i]), callers[k]) != 0)
			return false;
	return k == 3;
}

static int complain(const char *who, const struct chain *c)
{
	printf("%s is wrong:", who);
	for (int i = 0; i < c->n; i++)
		printf(" %#lx=%s", c->pcs[i], name_of(c->pcs[i]));
	printf("\n");
	return 1;
}

int main(int argc, char **argv)
{
	pid_t pid = argc > 3 ? atoi(argv[1]) : 0;
	unw_addr_space_t space = unw_create_addr_space(&_UPT_accessors, 0);
	void *upt = _UPT_create(pid);
	long nplaces = 0, nstubs = 0, unwound = 0, steps = argc > 3 ? atol(argv[2]) : 0;
	long wanted = argc > 3 ? atol(argv[3]) : 0, limit = 10 * steps;
	static uint64_t places[16384];
	int status, ret = 0;
	bool in_middle = false, is_new;
	struct user_regs_struct regs;

	if (ptrace(PTRACE_SEIZE, pid, 0, 0) < 0 || ptrace(PTRACE_INTERRUPT, pid, 0, 0) < 0 ||
	    waitpid(pid, &status, 0) < 0) {
		perror("ptrace");
		return 2;
	}
	dwfl = dwfl_begin(&callbacks);
	if (report_modules(pid) || dwfl_report_end(dwfl, NULL, NULL) ||
	    dwfl_linux_proc_attach(dwfl, pid, true)) {
		fprintf(stderr, "libdw: %s\n", dwfl_errmsg(-1));
		return 2;
	}
	/* Ends in middle: a pushf that was stepped over has put the trap flag on the stack,
	 * where a popf finds it. The kernel takes it for the program's own then. */
	while ((steps-- > 0 || (nstubs < wanted && limit + steps > 0) || !in_middle) && ret == 0) {
		struct chain by_dw = {0}, by_unwind = {0};
		uint64_t pc;
		const char *name;
		long i;

		if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) < 0 || waitpid(pid, &status, 0) < 0 ||
		    !WIFSTOPPED(status)) {
			perror("step");
			return 2;
		}
		pc = ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, rip), 0);
		name = name_of(pc);
		in_middle = !strcmp(name, "middle");
		if (!is_probed(name)) {
			/* Stubs and hooks: the rooms for stubs and the runtime. */
			Dwfl_Module *module = dwfl_addrmodule(dwfl, pc);
			const char *file = module ? dwfl_module_info(module, NULL, NULL, NULL, NULL,
								     NULL, NULL, NULL)
						  : "";

			if (in_middle ||
			    !(strstr(file, "libiprobe-rt") || strstr(file, "libunwind_sites")))
				continue;
		}
		for (i = 0; i < nplaces && places[i] != pc; i++)
			;
		/* libunwind reads the files anew each time: once for each place */
		is_new = i == nplaces && nplaces < 16384;
		if (is_new)
			places[nplaces++] = pc, nstubs += is_anonymous(pid, pc);
		unwound++;
		dwfl_getthread_frames(dwfl, pid, visit, &by_dw);
		if (!is_right(&by_dw))
			ret = complain("libdw", &by_dw);
		if (!is_new || is_anonymous(pid, pc))
			continue;
		unwind_by_libunwind(space, upt, &by_unwind);
		if (!is_right(&by_unwind))
			ret = complain("libunwind", &by_unwind);
	}
	printf("%ld unwound, %ld places, %ld in stubs\n", unwound, nplaces, nstubs);
	dwfl_end(dwfl);
	_UPT_destroy(upt);
	unw_destroy_addr_space(space);
	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	regs.eflags &= ~0x100ull;
	ptrace(PTRACE_SETREGS, pid, 0, &regs);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	return ret;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What options of other tools do here. A line is for those commands that do not have the option
 * themselves: getopt_long() takes an option that there is.
 */
#include "cli/args/suggest_options.h"

#include <stdbool.h>
#include <string.h>

#define RECORDING " attach run "
#define TRACES	  " report graph hist dump export tui info trim split "
#define TABLES	  " report graph hist dump export tui "
#define PROCESSES " status detach snapshot doctor "

static const struct {
	const char *commands, *options; /* each between blanks; NULL: all commands */
	const char *instead;
} habits[] = {
	{RECORDING, " e event events x ",
	 "-f 'GLOB' chooses functions; hardware events are counted by fperf -e"},
	{RECORDING, " F freq frequency ",
	 "-f 'GLOB' chooses functions; nothing is sampled by time, --sample N records one call in "
	 "N"},
	{RECORDING, " g k call-graph stack-trace stack-traces backtrace ",
	 "callers are recorded anyway, iprobe graph shows them; --callsite adds the place of each "
	 "call"},
	{" run ", " a all all-cpus ",
	 "iprobe attach --name GLOB chooses running processes; --args records arguments"},
	{" attach ", " a all all-cpus ",
	 "--name GLOB, --unit UNIT or --cgroup PATH chooses processes; --args records arguments"},
	{RECORDING, " t T threads tids timestamps time-filter ",
	 "--tid LIST chooses threads, --min-duration T leaves out shorter calls; times are "
	 "recorded anyway"},
	{" attach ", " d data dir timeout ",
	 "--duration 5s ends it after 5 s, -o DIR names the trace"},
	{" run ", " d data dir timeout ",
	 "--duration 5s records for 5 s only, -o DIR names the trace"},
	{RECORDING, " i input ",
	 "-o DIR names the trace that is written; iprobe report DIR shows it"},
	{RECORDING, " c count period summary summary-only ",
	 "--payload count counts calls only, --sample N records one in N; iprobe run starts a "
	 "command"},
	{RECORDING, " s string-max ", "--string-limit N is the length of recorded strings"},
	{RECORDING, " D max-stack ", "--depth N leaves out what is called deeper"},
	{RECORDING, " A R argument ", "--args records arguments, --retval what functions return"},
	{RECORDING, " N U notrace unpatch exclude ", "-f '!GLOB' takes functions away"},
	{RECORDING, " P S patch trace filter trigger symbol symbols function func ",
	 "-f 'GLOB' chooses functions; --when EXPR chooses calls by a value"},
	{RECORDING, " L l library lib dso libcall ",
	 "-f 'lib:GLOB' chooses the functions of a library"},
	{RECORDING, " b m buffer mmap-pages kernel-buffer ",
	 "--memory SIZE is the memory of the rings"},
	{RECORDING, " z compression-level ", "--compress compresses the trace"},
	{" attach ", " C G u uid user ",
	 "--cgroup PATH, --unit UNIT or --name GLOB chooses processes, --tid LIST threads"},
	{" run ", " C G u uid user cgroup unit name ",
	 "a command is run as you are; iprobe attach chooses processes by --name, --unit and "
	 "--cgroup"},
	{" attach ", " pids process ", "-p PID,... or the operand PID chooses processes"},
	{RECORDING, " snapshot ", "--overwrite keeps the newest, iprobe snapshot writes it"},
	{" run ", " children inherit ", "--follow-fork records forked children too"},
	{" attach ", " ff follow-forks inherit ",
	 "--follow-fork records children from now on, --children those that there are too"},
	{" list run attach detach status fperf ",
	 " debug-dir debug-directory debug-file-directory debuginfo symfs symdir ",
	 "--list names debug information that lies elsewhere: a file, or a folder of such by "
	 "build-id"},
	{RECORDING, " v verbose debug ",
	 "iprobe doctor PID tells what goes and why not, iprobe attach --dry-run what would be "
	 "patched"},

	{TABLES, " time since start begin end time-range tail ",
	 "iprobe trim --from T --to T writes that part of a trace as a trace"},
	{" trim ", " since start begin end until duration time-range tail ",
	 "--from T and --to T choose a time since the start of the recording"},
	{" split ", " time duration interval ", "--every T makes a part for each so long"},
	{" report graph ", " stdio tui gtk pager no-pager no-children children ",
	 "report has self and total time of each function on stdout; iprobe tui has keys"},
	{" report graph dump ", " flame flame-graph flamegraph html chrome perfetto folded gprof ",
	 "iprobe export --format NAME writes html, chrome, perfetto, folded..."},
	{TRACES, " i d input data dir ", "the trace is an operand, such as iprobe report DIR"},
	{" report ", " g G call-graph callers callees tree ",
	 "iprobe graph shows callers and callees, --by-caller a line for each caller"},
	{" report ", " F fields field ", "--columns LIST chooses columns, -f 'GLOB' functions"},
	{" report ", " t T threads tids comms comm ",
	 "--by thread has a line for each thread; iprobe trim --tid TID writes the trace of one"},
	{" report ", " D depth max-stack ", "iprobe graph --depth N cuts the tree"},
	{" report ", " x field-separator ", "--csv writes columns for other programs"},
	{" report ", " min-duration time-filter ",
	 "iprobe dump --min-duration T lists calls, report --slowest N the longest ones"},
	{" report ", " percent-limit min-percent r top ", "-n N is the number of lines"},
	{" report ", " bottom-up ", "iprobe graph --bottom-up has it"},
	{" report hist graph dump tui export ",
	 " S C N P dsos dso symbol symbols symbol-filter "
	 "filter notrace exclude ",
	 "-f 'GLOB' chooses functions, '!GLOB' takes them away, lib:GLOB are those of a library"},
	{" report graph hist ", " o output ",
	 "the table goes to stdout: > FILE; --json has it for programs"},
	{" dump ", " o output ", "the lines go to stdout: > FILE; --json has them for programs"},
	{" info tui ", " o output ", "iprobe export -o FILE writes a page, iprobe trim a trace"},
	{" report dump graph hist info ", " format ",
	 "iprobe export --format writes pages and files of other tools; --json has it as JSON"},
	{" graph ", " g G call-graph ",
	 "the tree is what is shown anyway; --bottom-up begins at the callees"},
	{" graph ", " D max-stack ", "--depth N cuts the tree"},
	{" graph ", " t T threads tids ", "--by thread has a tree for each thread, --tid TID one"},
	{" graph ", " percent-limit n limit threshold ",
	 "--min-percent P leaves out small branches"},
	{" graph ", " callers callees ", "--of FUNC shows callers and callees of a function"},
	{" graph ", " s sort ", "iprobe report --sort sorts functions in a table"},
	{" graph ", " csv ", "--json has the tree for programs"},
	{" hist dump ", " csv ", "--json has it for programs; iprobe report --csv has columns"},
	{" dump ", " F fields field ", "-f 'GLOB' chooses functions; the columns are fixed"},
	{" dump ", " D max-stack ", "--depth N leaves out what is deeper"},
	{" dump ", " t T threads tids time-filter ",
	 "--tid TID chooses a thread, --min-duration T leaves out shorter calls"},
	{" dump ", " g G call-graph ", "iprobe graph shows callers and callees"},
	{" dump ", " n limit head ", "the lines go to stdout: | head; --around T chooses a moment"},
	{" hist ", " t T ", "--tid TID chooses a thread"},
	{" hist ", " i I delay ", "--over-time shows heat maps, --interval T their steps"},
	{" hist ", " d ", "the process or trace is an operand; --interval T is for --over-time"},
	{" export ", " F ", "--format NAME (html, chrome, folded...), -f 'GLOB' chooses functions"},
	{" export ",
	 " output-format to type to-ctf to-json to-html svg "
	 "t T html chrome perfetto folded flame-graph flamegraph callgrind json csv ",
	 "--format NAME chooses what is written: html, chrome, folded..."},
	{" tui ", " g G call-graph ", "--view graph begins with the tree, g in it goes there"},
	{" trim ", " t time ", "--from T and --to T choose a time, --tid TID a thread"},
	{" trim ", " last n ", "--newest keeps the end, --from T --to T a time"},
	{" split ", " n t s b ", "--every T, --size SIZE or --by thread tells how it is cut"},
	{" info ", " v verbose header I ", "iprobe info shows all; --json has it for programs"},

	{" top ", " e event events ",
	 "-f 'GLOB' chooses functions; hardware events are counted by fperf -e"},
	{" top ", " F g a K U call-graph freq all-cpus ",
	 "-f 'GLOB' chooses functions; for callers: iprobe attach, then iprobe graph"},
	{" top ", " H t tid threads per-thread ", "--by thread has a line for each thread"},
	{" top ", " u C G uid user ",
	 "--cgroup PATH, --unit UNIT or --name GLOB chooses processes"},
	{" top ", " i I interval ", "-d T is the time between two pictures"},
	{" top ", " o fields sort-by k ", "-s COLUMN sorts"},
	{" top ", " E entries l rows ", "--limit N is the number of lines"},
	{" top ", " r refresh c ", "-n N is the number of pictures, -d T the time between them"},
	{" top ", " output w ", "-b or --json writes to stdout: > FILE"},
	{" top ", " csv ", "--json has it for programs"},

	{" syscalls ", " c C S summary summary-only summary-sort-by ",
	 "sums are what it shows, the longest time first; --list has calls one by one"},
	{" syscalls ", " t tt ttt T y yy ff r relative-timestamps decode-fds syscall-times ",
	 "--list has time, duration and what descriptors are, of all threads"},
	{" syscalls ", " Z z failed-only ", "--failed shows calls that returned an error"},
	{" syscalls ", " trace expr ", "-e SET chooses system calls: -e openat,%network"},
	{" syscalls ", " k stack-trace ",
	 "--by function, or --list, names the function that made them"},
	{" syscalls ", " s string-limit v x ",
	 "what lies in the memory of the process (paths, buffers) is not recorded"},

	{" list ", " a all l F funcs probes symbols syms sites ",
	 "iprobe list FILE (or PID) shows all functions with probes; -f 'GLOB' chooses"},
	{" list ", " L x exec target library lib ",
	 "the file is an operand: iprobe list FILE; -f 'lib:GLOB' chooses a library of a process"},
	{" list ", " n s v verbose limit sort ",
	 "--by-function has a line for each function; | sort, | head"},
	{" status ", " watch w interval d ",
	 "watch iprobe status PID shows it again and again; iprobe top PID shows functions"},
	{PROCESSES, " a all A ",
	 "without a PID, iprobe status shows all processes; iprobe status --name GLOB some of "
	 "them"},
	{" detach ", " f force k 9 ",
	 "iprobe detach PID puts back what any iprobe left live; iprobe doctor PID tells what is "
	 "in the way"},
	{" status doctor ", " f functions v verbose l ",
	 "iprobe list PID shows functions; --json has all details"},
	{" doctor ", " fix repair apply ",
	 "doctor changes nothing; its lines marked bad say what is in the way, and what to do"},
	{" snapshot ", " f functions ",
	 "a snapshot has all that is recorded; iprobe trim -f GLOB writes a part of it"},
	{" snapshot ", " d dir a ", "-o DIR names the trace that is written"},

	{" fperf ", " I ", "--duration T ends it; a table is shown while it runs"},
	{" fperf ", " r repeat d detailed ",
	 "counts are per call and by samples: -e LIST names events, --duration T lets it run "
	 "longer"},
	{" fperf ", " x field-separator ", "--csv writes columns for other programs"},
	{" fperf ", " a A C all-cpus cpu G u uid user ",
	 "--cgroup PATH, --unit UNIT or --name GLOB chooses processes"},
	{" fperf ", " t tid per-thread threads ", "functions of all threads are counted together"},
	{" fperf ", " F c freq count period ",
	 "--budget B says how much sampling may cost (2%, 1000/s)"},
	{" fperf ", " g call-graph ", "for callers: iprobe attach, then iprobe graph"},
	{" fperf ", " event ", "-e LIST names events; fperf list-events shows them"},
	{" fperf ", " l list ", "fperf list-events shows the events"},
	{" fperf ", " timeout ", "--duration T counts for T only"},

	{" list doctor status snapshot detach info trim split ", " csv ",
	 "--json has it for programs"},
	{NULL, " V version ", "iprobe --version tells the version"},
};

static bool has(const char *words, const char *word, size_t n)
{
	for (const char *at = words; (at = strchr(at, ' ')); at++)
		if (!strncmp(at + 1, word, n) && at[1 + n] == ' ')
			return true;
	return false;
}

const char *cli_option_habit(const char *command, const char *name, size_t n)
{
	if (!n || memchr(name, ' ', n))
		return NULL;
	for (size_t i = 0; i < sizeof(habits) / sizeof(*habits); i++)
		if ((!habits[i].commands || has(habits[i].commands, command, strlen(command))) &&
		    has(habits[i].options, name, n))
			return habits[i].instead;
	return NULL;
}

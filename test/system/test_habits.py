# SPDX-License-Identifier: Apache-2.0
"""
The command line as people type it out of habit: -p PID, commands and options of other tools,
mistyped ones, a forgotten -f. What cannot be done is one line that says what was most likely meant.
"""

import json
import os
import signal

import pytest

from iptest import memory
from iptest.actor import last_words, one_line


def refused(me, *words, code=2):
    done = me.iprobe(*words)
    lines = done.stderr.splitlines()
    assert done.returncode == code and len(lines) == 1 and not done.stdout, repr(done)
    return lines[0]


@pytest.mark.parametrize(
    "word,meant",
    [
        ("record", "'attach'"),
        ("record", "'run'"),
        ("trace", "'attach'"),
        ("log", "'attach'"),
        ("stop", "'detach'"),
        ("stat", "'report'"),
        ("script", "'dump'"),
        ("flamegraph", "'export'"),
        ("diff", "'report --diff'"),
        ("strace", "'syscalls'"),
        ("probe", "'list'"),
        ("list-events", "fperf list-events"),
        ("atach", "'attach'"),
        ("atatch", "'attach'"),
        ("attahc", "'attach'"),
        ("reprot", "'report'"),
        ("snap", "'snapshot'"),
        ("1234", "iprobe attach 1234"),
        ("/bin/true", "iprobe run /bin/true"),
        ("-q", "name the command first"),
    ],
)
def test_commands(me, word, meant):
    said = refused(me, word)
    assert meant in said and word in said


@pytest.mark.parametrize("word", ["xyzzy", "", "\n", "a" * 5000, "%s%n", "\x1b[31m"])
def test_no_command_comes_near(me, word):
    said = refused(me, word)
    assert "do you mean" not in said and "\x1b" not in said


@pytest.mark.parametrize(
    "words,meant",
    [
        (["attach", "12,13"], "PIDs have blanks between them; or -p 12,13"),
        (["attach", "--durtion", "3", "1"], "no option --durtion: do you mean --duration?"),
        (["attach", "--durtion=3", "1"], "no option --durtion: do you mean --duration?"),
        (["attach", "--xyzzyx", "1"], "no option --xyzzyx ("),
        (["attach", "--s", "3", "1"], "option --s may be --stop, --string-limit, --sample"),
        (["attach", "--json=3", "1"], "option --json takes no value"),
        (["attach", "1", "--duration"], "option --duration needs a time, such as 200ms"),
        (["attach", "1", "--dura"], "option --duration needs a time, such as 200ms"),
        (["attach", "-f"], "option -f (--functions) needs a selection"),
        (["attach", "-z", "1"], "no option -z"),
        (["attach", "--json", "-qz", "1"], "no option -z"),
        (["status", "-j", "1"], "no option -j: do you mean --json?"),
        (["report", "--fuctions", "x"], "no option --fuctions: do you mean --functions?"),
        (["report", "-p", "1"], "no option -p: this command takes no process"),
        (["report", "--from", "1s"], "no option --from: iprobe trim --from T --to T writes"),
        (["report", "--tid=7"], "no option --tid: iprobe trim --tid TID writes"),
        (["report", "--sort", "x"], "there is no column 'x', but calls, total, self"),
        (["report", "--where", "p98>1ms"], "there is no column 'p98', but calls, total, self"),
        (["export", "--format", "svg"], "html, chrome, perfetto"),
        (["run", "-p", "77"], "iprobe attach 77"),
        (["run", "77"], "iprobe attach 77"),
        (["attach", "--name"], "option --name needs the name of a program"),
        (["top", "-d"], "option -d (--delay) needs a time"),
    ],
)
def test_options(me, words, meant):
    assert meant in refused(me, *words)


@pytest.mark.parametrize(
    "words,meant",
    [
        # strace
        (["syscalls", "-c", "1"], "--list has calls one by one"),
        (["syscalls", "-tt", "1"], "--list has time, duration"),
        (["syscalls", "-Z", "1"], "--failed shows calls"),
        # perf
        (["attach", "-e", "cycles", "1"], "-f 'GLOB' chooses functions; hardware events"),
        (["attach", "--event=cycles", "1"], "hardware events are counted by fperf -e"),
        (["attach", "-F", "99", "1"], "nothing is sampled by time"),
        (["attach", "--call-graph", "dwarf", "1"], "iprobe graph shows them"),
        (["attach", "--debug-dir", "/usr/lib/debug", "1"], "--list names debug information"),
        (["list", "--debug-dir=x", "/bin/true"], "--list names debug information"),
        (["attach", "-qg", "1"], "no option -g: callers are recorded anyway"),
        (["attach", "-t", "7"], "--tid LIST"),
        (["run", "-a", "true"], "--name GLOB"),
        (["report", "-i", "perf.data"], "the trace is an operand, such as iprobe report DIR"),
        (["report", "--input=perf.data"], "the trace is an operand"),
        (["report", "-g"], "iprobe graph"),
        (["report", "-S", "main"], "-f 'GLOB' chooses functions"),
        (["top", "-e", "cycles"], "fperf -e"),
        # uftrace
        (["attach", "-d", "5", "1"], "--duration 5s ends it after 5 s, -o DIR"),
        (["attach", "-D", "3", "1"], "--depth N"),
        (["run", "-N", "main", "true"], "-f '!GLOB' takes functions away"),
        (["dump", "-F", "main"], "-f 'GLOB' chooses functions"),
        (["graph", "-D", "3"], "--depth N"),
        # strace, top, and what means nothing to any
        (["attach", "-s", "200", "1"], "--string-limit N"),
        (["attach", "-c", "1"], "--payload count"),
        (["top", "-H", "1"], "--by thread"),
        (["status", "-a"], "without a PID"),
        (["detach", "--all"], "without a PID"),
        (["dump", "--time", "1,2"], "iprobe trim --from T --to T"),
        (["trim", "--start", "1s"], "--from T and --to T"),
        (["report", "--no-children"], "self and total time"),
        (["export", "--html"], "--format NAME"),
        (["list", "--symbols", "x"], "iprobe list FILE"),
        (["status", "--watch"], "watch iprobe status"),
        (["attach", "-Z", "1"], "no option -Z ("),
    ],
)
def test_options_of_other_tools(me, words, meant):
    assert meant in refused(me, *words)


@pytest.mark.parametrize(
    "words,meant",
    [
        (["attach", "-p", "1", "--", "sleep", "5"], "--duration 5s ends it"),
        (["attach", "1", "--", "sleep", "5"], "--duration 5s ends it"),
        (["attach", "-p", "1", "sleep", "0.5"], "--duration 0.5s ends it"),
        (["top", "-p", "1", "--", "sleep", "5m"], "--duration 5m ends it"),
        (["attach", "-p", "1", "--", "make"], "make: a command behind -- is started by iprobe run"),
        (["detach", "-p", "1", "--", "make"], "is started by iprobe run"),
        (["attach", "sleep"], "--name sleep"),
    ],
)
def test_a_command_beside_a_process(me, words, meant):
    assert meant in refused(me, *words)


@pytest.mark.parametrize(
    "words,meant",
    [
        (["--bugdet", "2%", "-p", "1"], "do you mean --budget?"),
        (["-I", "1000", "-p", "1"], "no option -I: --duration T ends it"),
        (["-p", "1", "--", "sleep", "5"], "--duration 5s ends it"),
        (["-p", "1", "make"], "-p PID and a command: one of them ("),
        (["stat", "-p", "1"], "leave 'stat' out: fperf -p PID"),
        (["record", "make"], "leave 'record' out"),
        (["list"], "fperf list-events?"),
        (["list-event"], "fperf list-events?"),
        (["-p", "nginx"], "fperf: 'nginx' is no process id: --name nginx"),
    ],
)
def test_options_of_fperf(me, words, meant):
    done = me.run([me.builddir / "cli" / "fperf", *words])
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and len(lines) == 1 and meant in lines[0], repr(done)


@pytest.mark.parametrize(
    "words,meant",
    [
        (["attach", "123", "parse_*"], "functions are chosen by -f 'parse_*'"),
        (["attach", "123", "main"], "functions are chosen by -f 'main'"),
        (["attach", "ns::f"], "functions are chosen by -f 'ns::f'"),
        (["top", "123", "main"], "functions are chosen by -f 'main'"),
        (["attach", "nginx"], "--name nginx"),
        (["status", "nginx"], "--name nginx"),
        (["top", "nginx"], "pgrep -x nginx"),
        (["detach", ""], "did pidof"),
        (["attach", "-p", ""], "did pidof"),
        (["attach", "-p", " , "], "did pidof"),
        (["attach"], "which process?"),
        (["attach", "/bin/true"], "/bin/true is a file"),
        (["attach", "/"], "/ is a directory"),
        (["attach", "99999999999"], "is no process id"),
        (["run", "record", "./t"], "iprobe run records what it starts: iprobe run ./t"),
        (["attach", "1", "--retval", "f"], "it is --retval 'f(retval)'; of all"),
        (["attach", "1", "-f", "x", "--args", "f"], "such as -f f --args"),
        (["doctor", "--fix"], "doctor changes nothing"),
        (["doctor", "1", "nginx"], "pgrep -x nginx"),
        (["fperf", "-p", "1"], "type 'fperf' without iprobe in front"),
        (["report", "a.data", "x*"], "functions are chosen by -f"),
        (["list", "/bin/true", "x"], "functions are chosen by -f"),
    ],
)
def test_operands(me, words, meant):
    assert meant in refused(me, *words)


def test_what_is_no_trace(me):
    here = me.dir()
    for words, meant in [
        (["report"], "there is no trace iprobe.data here"),
        (["graph", "x*"], "functions are chosen by -f 'x*'"),
        (["report", os.getpid()], f"iprobe attach {os.getpid()} records it"),
        (["report", "/bin/true"], "iprobe list shows"),
        (["list", "nginx"], "pgrep -x nginx"),
    ]:
        done = me.iprobe(*words, cwd=here)
        assert done.returncode == 1 and meant in one_line(done), repr(done)
    # a trace where a process is meant
    (here / "t" / "iprobe").mkdir(parents=True)
    done = me.iprobe("attach", "t", cwd=here)
    assert done.returncode == 2 and "iprobe report t shows the trace" in done.stderr, repr(done)


def test_help(me):
    for name in ("attach", "report", "trim"):
        done = me.iprobe("help", name)
        assert done.returncode == 0 and done.stdout == me.iprobe(name, "--help").stdout, repr(done)
    assert me.iprobe("help").stdout == me.iprobe("--help").stdout == me.iprobe("help", "-h").stdout
    assert "'attach'" in refused(me, "help", "atach")


@pytest.mark.parametrize("form", [["-p", "PID"], ["-pPID"], ["--pid", "PID"], ["--pid=PID"]])
def test_attach_by_option(me, programs, targets, form):
    """Without a command, too; and wherever the option stands."""
    target = targets.start(me, [programs.simple("count"), "-w", "-t", "2", "-n", "2000"])
    words = [word.replace("PID", str(target.pid)) for word in form]
    for command in (["attach", "-f", "leaf", *words], [*words, "-f", "leaf"]):
        directory = me.dir() / "trace"
        done = me.iprobe(*command, "--json", "--duration", "50ms", "-o", directory)
        assert done.returncode == 0, repr(done)
        assert json.loads(done.stdout)["pid"] == target.pid
    memory.assert_untouched(target.pid)
    target.say()
    target.finish()


def test_the_other_commands_by_option(me, programs, targets):
    target = targets.start(me, [programs.simple("count"), "-w", "-t", "2", "-n", "2000"])
    pid = target.pid
    session = me.start_iprobe(
        "attach", "-p", pid, "--json", "--payload", "hist", "-o", me.dir() / "trace"
    )
    memory.wait_until_live(pid, session)
    for words in (
        ["status", "--json"],
        ["top", "--json", "-n", "1", "-d", "50ms"],
        ["doctor", "--json"],
        ["list", "--json"],
    ):
        done = me.iprobe(*words, "-p", pid)
        assert done.stdout.startswith(("{", "[")), repr(done)
        assert me.iprobe(*words, pid).returncode == done.returncode
    # what the process has no data for is refused for that reason, not for the option
    assert "has ended yet" in one_line(me.iprobe("hist", "-p", pid))
    assert "--overwrite" in one_line(me.iprobe("snapshot", "-p", pid))
    done = me.iprobe("detach", "--json", "-p", pid)
    assert done.returncode == 0 and json.loads(done.stdout)["pid"] == pid, repr(done)
    last_words(session)
    memory.assert_untouched(pid)
    target.say()
    target.finish()


def test_the_end_of_a_process_is_told(me, programs, targets):
    """A recording that ends since its target did is not to be taken for one of full length."""
    target = targets.start(me, [programs.simple("waits"), "busy"])
    session = me.start_iprobe("attach", target.pid, "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, session)
    os.kill(target.pid, signal.SIGALRM)
    said = last_words(session).stderr
    assert f"pid {target.pid} has ended\n" in said, said
    assert last_words(target.proc).stdout == "good\n"
    target = targets.start(me, [programs.simple("waits"), "busy"])
    done = me.iprobe("attach", target.pid, "--duration", "20ms", "-o", me.dir() / "trace")
    assert done.returncode == 0 and "has ended" not in done.stderr, repr(done)
    os.kill(target.pid, signal.SIGALRM)
    assert last_words(target.proc).stdout == "good\n"


def test_what_may_not_be_read_is_no_other_thing(root, user, programs):
    """A trace of another user is a trace."""
    program = programs.simple("waits")
    closed = root.dir() / "closed"
    closed.mkdir()
    assert root.iprobe("run", "-q", "-o", closed / "trace", "--", program, "poll").returncode == 0
    closed.chmod(0o700)
    for command in ("report", "info", "dump"):
        done = user.iprobe(command, closed / "trace")
        assert done.returncode == 1 and "ermission denied" in one_line(done), repr(done)
    done = user.iprobe("run", "-o", closed / "new", "--", program, "poll")
    assert done.returncode == 1 and "ermission denied" in one_line(done), repr(done)


def test_what_a_killed_iprobe_left_is_told(me, programs, targets):
    target = targets.start(me, [programs.simple("waits"), "busy"])
    # what leaves nothing out has nothing filtered
    done = me.iprobe("attach", target.pid, "--callsite", "--duration", "20ms", "-o", me.dir() / "a")
    assert done.returncode == 0 and "filtered" not in done.stderr, repr(done)
    session = me.start_iprobe("attach", target.pid, "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, session)
    assert "no iprobe records it" not in me.iprobe("status", target.pid).stdout
    session.kill()
    session.wait()
    said = me.iprobe("status", target.pid).stdout
    assert f"no iprobe records it any more: iprobe detach {target.pid} puts" in said, said
    done = me.iprobe("attach", target.pid, "--resume", "--duration", "20ms")
    assert done.returncode == 0, repr(done)
    assert "no iprobe records it" not in me.iprobe("status", target.pid).stdout
    os.kill(target.pid, signal.SIGALRM)
    assert last_words(target.proc).stdout == "good\n"


@pytest.mark.parametrize("command", ["report", "graph", "hist", "dump"])
def test_a_function_in_the_place_of_a_trace(me, command):
    said = one_line(me.iprobe(command, "h1_send"))
    assert "there is no trace 'h1_send'" in said and "chosen by -f h1_send" in said

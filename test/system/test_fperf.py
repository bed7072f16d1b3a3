# SPDX-License-Identifier: Apache-2.0
"""
fperf: page faults of functions of which they are known, the budget, and targets that do to us
what targets do.
"""

import contextlib
import csv
import fcntl
import io
import json
import os
import re
import signal
import struct
import subprocess
import termios
import time

import pytest

from iptest import actor as actors
from iptest import memory

FAULTS = "perf::PAGE-FAULTS"
EXACT = {"none": 0, "three": 3, "eleven": 11, "outer": 6}


def fperf_path(actor):
    return actor.builddir / "cli" / "fperf"


def own_counts(stdout):
    """(calls, pages) by function, as the program printed them."""
    return {
        w[1]: (int(w[2]), int(w[3]))
        for w in map(str.split, stdout.splitlines())
        if w[:1] == ["function"]
    }


def patched(actor, pid):
    done = actor.iprobe("status", "--json", pid)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)["patched"]


def start_fperf(actor, target, *options, env=None):
    # one that is killed cannot remove its directory
    proc = actor.popen(
        [fperf_path(actor), "-q", "--json", *options, "-p", target.pid],
        env={"TMPDIR": str(actor.top), **(env or {})},
    )
    memory.wait_for(
        "fperf does not go live",
        lambda: proc.poll() is not None or patched(actor, target.pid) > 0,
        60,
        0.05,
    )
    assert proc.poll() is None, repr(actors.last_words(proc))
    return proc


def count_around_the_work(actor, targets, program, args, options, env=None):
    """(what fperf says, what the program says)."""
    target = targets.start(actor, [program, *args])
    proc = start_fperf(actor, target, *options, env=env)
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    assert said.returncode == 0, repr(said)
    assert patched(actor, target.pid) == 0
    target.say()
    return json.loads(said.stdout), own_counts(target.finish().stdout)


def by_name(result):
    return {f["function"]: f for f in result["functions"]}


def check_exact(functions, own, exact_calls=True):
    for name, pages in EXACT.items():
        f = functions[name]
        counter = f["counters"][FAULTS]
        assert f["samples"] >= 2, f
        assert abs(counter["per_call"] - pages) <= counter["ci95"] + 1e-9 + 2 / f["samples"], f
        if exact_calls:
            assert f["calls"] == own[name][0], f


@pytest.mark.parametrize("placement", ["fentry", "instrument"])
def test_known_page_faults(actor, programs, targets, placement):
    """Without a budget each call is a sample."""
    result, own = count_around_the_work(
        actor,
        targets,
        programs.simple("paging", placement=placement),
        ["-n", 300],
        ["--budget", "none"],
    )
    functions = by_name(result)
    assert result["budget"] is None and FAULTS in result["events"]
    check_exact(functions, own)
    for name in EXACT:
        assert functions[name]["samples"] == own[name][0]
    some = functions["some"]
    assert abs(some["counters"][FAULTS]["per_call"] * some["samples"] - own["some"][1]) <= 2


@pytest.mark.parametrize(
    "extra",
    [["-t", 4], ["-c"], ["-t", 4, "-c"], ["-j"], ["-f"]],
    ids=["threads", "closes descriptors", "threads that close descriptors", "longjmp", "forks"],
)
def test_what_targets_do(me, programs, targets, extra):
    result, own = count_around_the_work(
        me, targets, programs.simple("paging"), ["-n", 200, *extra], []
    )
    functions = by_name(result)
    check_exact(functions, own, exact_calls=False)
    if "-j" in extra:
        assert functions["jumped"]["samples"] == 0 and functions["jumped"]["calls"] > 0
    if "-f" in extra:  # the child's calls are not ours
        assert functions["three"]["calls"] == own["three"][0]


def test_budget(me, programs, targets):
    """A function that takes all of the time there is; what the advance allows comes on top."""
    result, own = count_around_the_work(
        me, targets, programs.simple("paging"), ["-s", 3000, "-l"], ["--budget", "2%"]
    )
    functions = by_name(result)
    assert result["overhead"] <= 0.02 + 0.05 / result["run_s"], {
        k: v for k, v in result.items() if k != "functions"
    }
    assert (result["changes_failed"] == 0) == (result["change_failure"] is None), result
    check_exact(functions, own, exact_calls=False)
    hot = functions["hot"]
    assert hot["samples"] >= 2 and hot["live"] < 0.9, hot
    assert hot["counted"] <= own["hot"][0]
    # hooks are most of what it does while it has probes: no interval is claimed, and nothing that
    # is wildly wrong
    assert hot["calls_ci95"] is None, hot
    assert 0.1 < hot["calls"] / own["hot"][0] < 5, (hot, own)
    # an empty function: a sample that was open when its probes went must not end with the exit of a
    # later call
    assert hot["counters"][FAULTS]["per_call"] < 0.5
    assert hot["counters"]["perf::TASK-CLOCK"]["per_call"] < 20000, hot


def test_a_process_that_sleeps(me, programs, targets):
    """Stops take nothing away from who would not have run: they are no overhead of a hundred
    times its run time.
    """
    target = targets.start(
        me, [programs.simple("standing", placement="fentry"), "idle"], preload=False
    )
    time.sleep(1)  # of a process that has just begun nobody knows that it sleeps
    done = me.run([fperf_path(me), "-q", "--json", "--duration", "300ms", "-p", target.pid])
    assert done.returncode == 0, repr(done)
    result = json.loads(done.stdout)
    assert result["overhead"] is None or result["overhead"] < 20, result
    short = me.run([fperf_path(me), "--max-stop", "1us", "-p", target.pid])
    assert short.returncode == 2 and "200us" in short.stderr, repr(short)


def test_alternate(me, programs, targets):
    """Windows with and without: in those without, no function that was ever called has a probe."""
    target = targets.start(me, [programs.simple("serving", placement="fentry")], preload=False)
    proc = start_fperf(me, target, "--budget", "5%", "--alternate", "300ms", "--duration", "60s")

    def live():
        return len(memory.text_differences(target.pid))

    # main is never called: its sites may stay as they are
    most = live()
    memory.wait_for("there is no window without probes", lambda: live() <= 2, 60, 0.02)
    memory.wait_for("they do not come again", lambda: live() >= max(most, 8), 60, 0.02)
    memory.wait_for("nor go again", lambda: live() <= 2, 60, 0.02)
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    assert said.returncode == 0, repr(said)
    assert not memory.text_differences(target.pid)
    windows = [line.split("\t") for line in said.stderr.splitlines() if line.startswith("window\t")]
    assert len(windows) >= 3, repr(said)
    assert [w[1] for w in windows] == [
        "on" if i % 2 == 0 else "off" for i in range(len(windows))
    ], repr(said)
    assert by_name(json.loads(said.stdout))["handle"]["samples"] >= 2


def test_changes_that_fail(me, programs, targets):
    """A thread that nobody can stop: hot() keeps its probes, and the user is told how often that
    was tried, and why it failed.
    """
    target = targets.start(me, [programs.simple("paging"), "-s", 3000, "-l", "-v", 3000])
    output = me.top / "failing.json"
    proc = me.popen([fperf_path(me), "--json", "-o", output, "--max-stop", "5ms", "-p", target.pid])
    memory.wait_for(
        "fperf does not go live",
        lambda: proc.poll() is not None or patched(me, target.pid) > 0,
        60,
        0.05,
    )
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    result = json.loads(output.read_text(encoding="utf-8"))
    assert said.returncode == 0 and result["changes_failed"] >= 1, (said, result)
    assert (
        str(target.pid) in result["change_failure"] and "vfork" in result["change_failure"]
    ), result
    assert (
        f"{result['changes_failed']} change" in said.stderr
        and result["change_failure"] in said.stderr
    ), said.stderr
    assert patched(me, target.pid) == 0
    target.say()
    target.finish()


def test_samples_a_second(me, programs, targets):
    """Those of functions that have turns are among them."""
    result, own = count_around_the_work(
        me, targets, programs.simple("paging"), ["-s", 2000, "-l"], ["--budget", "50/s"]
    )
    functions = by_name(result)
    # two of each are free, and the interval that had begun
    assert result["samples"] <= 50 * result["duration_s"] + 5 + 2 * len(functions) + 10, result
    check_exact(functions, own, exact_calls=False)


def runs():
    return 200 if os.environ.get("IPROBE_TEST_FULL") == "1" else 5


@pytest.mark.parametrize("name, flags", [("some", ["-n", 3000]), ("phased", ["-p", "-n", 6000])])
def test_intervals_hold_the_truth(me, programs, targets, capsys, name, flags):
    """As often as they say: 95 of 100; of few runs, most. phased() is called often in one phase of
    the program, and faults rarely, and the other way round in the next: samples that are taken
    for all alike are off by far.
    """
    program, held, n = programs.simple("paging"), 0, runs()
    off, plain = [], []
    for seed in range(n):
        result, own = count_around_the_work(
            me, targets, program, ["-r", seed, *flags], ["--budget", "1%"]
        )
        function = by_name(result)[name]
        calls, pages = own[name]
        counter = function["counters"][FAULTS]
        held += abs(counter["per_call"] - pages / calls) <= counter["ci95"]
        off.append(counter["per_call"] / (pages / calls) - 1)
        plain.append(counter["ci95"] / (pages / calls))
    with capsys.disabled():
        print(
            f"\n{name}: {held} of {n} intervals hold the truth ({100 * held / n:.1f} %), off by "
            f"{100 * sum(off) / n:+.2f} % on average, "
            f"half as wide as {100 * sum(plain) / n:.2f} % of the mean"
        )
    assert held >= (0.9 if n >= 100 else 0.4) * n, f"{held} of {n}"


@pytest.mark.parametrize("placement", ["fentry", "instrument"])
def test_exclusive(me, programs, targets, placement):
    """outer() does nothing but call three() twice; without three() among the selected these
    calls are its own.
    """
    program = programs.simple("paging", placement=placement)
    result, own = count_around_the_work(
        me, targets, program, ["-n", 300], ["--budget", "none", "--exclusive"]
    )
    functions = by_name(result)
    assert result["exclusive"] and functions["outer"]["samples"] == own["outer"][0]
    for name, pages in {**EXACT, "outer": 0}.items():
        assert abs(functions[name]["counters"][FAULTS]["per_call"] - pages) < 0.05, functions[name]
    result, _ = count_around_the_work(
        me, targets, program, ["-n", 300], ["--budget", "none", "--exclusive", "-f", "outer,some"]
    )
    assert abs(by_name(result)["outer"]["counters"][FAULTS]["per_call"] - 6) < 0.05


def test_exclusive_within_a_budget(me, programs, targets):
    """Samples are of windows in which all have probes: hot() would take all that the budget
    allows.
    """
    result, own = count_around_the_work(
        me, targets, programs.simple("paging"), ["-s", 3000, "-l", "-j"], ["--exclusive"]
    )
    functions = by_name(result)
    for name, pages in {**EXACT, "outer": 0}.items():
        f = functions[name]
        if f["samples"]:  # where others have the CPU there may be none
            assert abs(f["counters"][FAULTS]["per_call"] - pages) <= 2 / f["samples"], f
        assert f["calls"] > 0 and f["counted"] <= own[name][0]
    assert functions["hot"]["live"] < 0.9


def test_threads_that_end_inside(me, programs, targets):
    """A sample that will never end is told as cut, and counts as open no more."""
    result, own = count_around_the_work(
        me, targets, programs.simple("paging"), ["-n", 200, "-e", 20], ["--budget", "none"]
    )
    ended = by_name(result)["ended"]
    assert (
        ended["calls"] == own["ended"][0] == 20 and ended["samples"] == 0 and ended["cut"] == 20
    ), ended
    check_exact(by_name(result), own)


def test_command(me, programs):
    done = me.run(
        [
            fperf_path(me),
            "-q",
            "--csv",
            "-o",
            me.top / "out.csv",
            "-f",
            "three,outer",
            "--",
            programs.simple("paging"),
            "-n",
            20,
        ],
        input="\n\n",
    )
    assert done.returncode == 0, repr(done)
    rows = {
        row["function"]: row
        for row in csv.DictReader(io.StringIO((me.top / "out.csv").read_text(encoding="utf-8")))
    }
    assert set(rows) == {"three", "outer"}
    own = own_counts(done.stdout)
    # and once before it counted
    assert float(rows["outer"]["calls"]) == own["outer"][0] + 1


def switches(pid):
    """How often its threads have gone to sleep."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8") as file:
            total += next(
                int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches")
            )
    return total


EXECUTING = {
    "by a shell": (["sh", "-c", "exec $0 -n 20"], 0),
    "by itself": (["$0", "-x", 30, "-n", 20], 30),
    "twice": (["sh", "-c", "exec env A=1 $0 -x 30 -n 20"], 30),
}


@pytest.mark.parametrize(
    "events", [FAULTS, "perf::PERF_COUNT_SW_PAGE_FAULTS"], ids=["getrusage", "descriptors"]
)
@pytest.mark.parametrize("how", EXECUTING)
def test_exec_by_a_command(me, programs, how, events):
    """What CMD executes is counted from its first call on, and what was counted before is kept."""
    words, before = EXECUTING[how]
    program = programs.simple("paging")
    command = [program if word == "$0" else word for word in words] + (
        [program] if "sh" in words else []
    )
    output = me.top / "exec.json"
    done = me.run(
        [
            fperf_path(me),
            "-q",
            "--json",
            "-o",
            output,
            "--budget",
            "none",
            "-e",
            events,
            "--",
            *command,
        ],
        input="\n\n",
    )
    assert done.returncode == 0 and not done.stderr, repr(done)
    result = json.loads(output.read_text(encoding="utf-8"))
    own = own_counts(done.stdout)
    for name, pages in {"three": 3, "eleven": 11}.items():
        f = by_name(result)[name]
        # and a round before it counts itself
        assert f["calls"] == own[name][0] // 20 * (20 + 1 + before), f
        assert f["samples"] == f["calls"], f
        # first calls find the stack and code not there
        assert abs(f["counters"][events]["per_call"] - pages) <= 0.5, f
    assert result["end"] == "target ended"


def test_children_of_a_command(me, programs):
    """They are not counted, which is said where there is nothing else."""
    done = me.run(
        [fperf_path(me), "-q", "--", "sh", "-c", "$0 -n 20; true", programs.simple("paging")],
        input="\n\n",
    )
    assert done.returncode == 1 and own_counts(done.stdout)["three"][0] == 60, repr(done)
    assert (
        len(done.stderr.splitlines()) == 1 and "what it forks is not counted" in done.stderr
    ), done.stderr


def test_exec_of_a_process(me, programs, targets):
    """Where fperf -p has come the session ends at an exec: with what was counted, and a line
    that says so.
    """
    target = targets.start(me, [programs.simple("exec_next")])
    proc = me.popen([fperf_path(me), "--json", "--budget", "none", "-p", target.pid])
    memory.wait_for(
        "fperf does not go live",
        lambda: proc.poll() is not None or patched(me, target.pid) > 0,
        60,
        0.05,
    )
    before = switches(target.pid)
    memory.wait_for("it does not work", lambda: switches(target.pid) > before + 20, 60, 0.05)
    target.say()
    assert target.proc.stdout.readline() == "ready\n"
    said = actors.last_words(proc)
    result = json.loads(said.stdout)
    assert said.returncode == 0 and result["end"] == "target exec'ed", repr(said)
    assert by_name(result)["step"]["samples"] > 0, result
    assert (
        f"pid {target.pid} has executed another program: that one is not counted" in said.stderr
    ), said.stderr


def test_exit_code_is_the_commands(me, programs):
    done = me.run([fperf_path(me), "-q", "--", programs.simple("paging"), "-?"])
    assert done.returncode == 2, repr(done)


def test_table(me, programs):
    done = me.run([fperf_path(me), "--", programs.simple("paging"), "-n", 20], input="\n\n")
    assert done.returncode == 0 and "PAGE-FAULTS" in done.stdout, repr(done)
    assert "samples in" in done.stderr


def test_output(me, programs, targets):
    """Where results cannot go nothing is counted for them, and what was there stays until there
    are new ones.
    """
    target = targets.start(me, [programs.simple("paging"), "-n", 10])
    kept = me.dir() / "kept"
    kept.write_text("earlier results, longer than what comes " * 1000, encoding="utf-8")
    if me.uid != os.getuid():
        os.chown(kept, me.uid, -1)
    run = [fperf_path(me), "-q", "--json", "--duration", "300ms", "-e", FAULTS]
    assert "/nowhere/at/all" in actors.one_line(
        me.run([*run, "-o", "/nowhere/at/all", "-p", target.pid])
    )
    assert "no such process" in actors.one_line(me.run([*run, "-o", kept, "-p", 2**22]))
    assert kept.read_text(encoding="utf-8").startswith("earlier")
    assert "no such process" in actors.one_line(
        me.run([*run, "-o", kept.parent / "new", "-p", 2**22])
    )
    assert not (kept.parent / "new").exists()
    assert "TMPDIR" in actors.one_line(
        me.run([*run, "-p", target.pid], env={"TMPDIR": "/nowhere/at/all"})
    )
    done = me.run([*run, "-o", kept, "-p", target.pid])
    assert (
        done.returncode == 0 and json.loads(kept.read_text(encoding="utf-8"))["functions"] == []
    ), repr(done)


def bytes_read(pid):
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return int(file.readline().split()[1])


def test_windows_tell_what_was_done_in_them(me, programs, targets):
    """What the process had read and written before is no window's."""
    target = targets.start(me, [programs.simple("paging"), "-s", 3000, "-l"])
    before = bytes_read(target.pid)
    assert before > 0
    target.say()
    done = me.run(
        [
            fperf_path(me),
            "-q",
            "--alternate",
            "100ms",
            "--duration",
            "1s",
            "-o",
            "/dev/null",
            "-p",
            target.pid,
        ]
    )
    windows = [line.split("\t") for line in done.stderr.splitlines() if line.startswith("window\t")]
    assert done.returncode == 0 and windows, repr(done)
    assert windows[0][1] == "on" and all(int(w[2]) > 0 for w in windows), windows
    assert sum(int(w[4]) for w in windows) <= bytes_read(target.pid) - before, windows


def on_terminal(actor, columns, rows, args):
    """All that a command writes to a terminal of that size."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    proc = actor.popen(args, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = b""
    with contextlib.suppress(OSError):  # the other end is closed: it has ended
        while data := os.read(ours, 65536):
            written += data
    os.close(ours)
    assert proc.wait(60) == 0, written
    return written.decode().replace("\r\n", "\n")


def test_table_on_a_terminal(me, programs, targets):
    """The table while it counts goes back over just the lines that it has written: none is
    broken at the edge, none is scrolled away.
    """
    target = targets.start(me, [programs.simple("paging"), "-n", 20000, "-l"])
    proc = me.popen([fperf_path(me), "-q", "-p", target.pid, "-o", "/dev/null"])
    memory.wait_for(
        "fperf does not go live",
        lambda: proc.poll() is not None or patched(me, target.pid) > 0,
        60,
        0.05,
    )
    proc.send_signal(signal.SIGINT)
    assert actors.last_words(proc).returncode == 0
    target.say()
    written = on_terminal(me, 60, 7, [fperf_path(me), "-p", target.pid, "--duration", "2500ms"])
    pictures = [part.split("\033[") for part in written.split("\033[J")[1:-1]]
    assert pictures, written
    for text, back in pictures:
        lines = text.splitlines()
        assert len(lines) < 7 and max(map(len, lines)) < 60 and back == f"{len(lines)}F", (
            lines,
            back,
        )
    assert pictures[-1][0].splitlines()[1].startswith("function ")
    # one without room for a single function
    written = on_terminal(me, 60, 4, [fperf_path(me), "-p", target.pid, "--duration", "1500ms"])
    assert not re.search("\033\\[[0-9]+F", written) and "samples in" in written, written


def test_long_names(me, programs):
    """Each is told from the others, in a table whose columns stand below each other."""
    done = me.run([fperf_path(me), "-q", "--", programs.simple("long_names"), "100"])
    head, *rows = done.stdout.splitlines()
    assert done.returncode == 0 and len(rows) >= 3, repr(done)
    names = {row.split()[0] for row in rows}
    assert {
        "a_name_of_which_the_beginning_says_nothing_at_all_one",
        "a_name_of_which_the_beginning_says_nothing_at_all_two",
    } <= names, done.stdout
    assert len({len(row) for row in (head, *rows) if not row.startswith("---")}) == 1, done.stdout


UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
LINE = re.compile(
    r"--- (\d+) functions? with too few samples to tell \(wider than \+-50 %\): fewer functions "
    r"\(-f\), more \(--budget\), "
    r"or longer \(--duration\) ---"
)


def is_known(row, half=0.5):
    """Of a line of the table whose first event is a time: calls, and time per call. half: what the
    interval may be at most, as a share. The table rounds, so it is known to a hundredth only.
    """
    calls, times = re.fullmatch(
        r"\S+ +\d+ +(\S+(?: \+-\S+)?) +(-|\S+ [num]?s \+-(?:\?|\S+ [num]?s))", row
    ).groups()
    if calls.startswith("~") and (
        calls.endswith("?")
        or number(calls.split(" +-")[1]) > half * number(calls.split(" +-")[0][1:])
    ):
        return False
    if times == "-" or times.endswith("?"):
        return False
    mean, width = (float(word.split()[0]) * UNITS[word.split()[1]] for word in times.split(" +-"))
    return width <= max(half * mean, 200)  # as good as the clock is


def number(text):
    units = {"k": 1e3, "M": 1e6, "G": 1e9}
    return float(text.rstrip("kMG")) * units.get(text[-1], 1)


@pytest.mark.parametrize(
    "limit, guesses",
    [([], 10), (["-n", "0"], 100), (["-n", "12"], 100)],
    ids=["default", "all", "12 rows"],
)
def test_guesses_stand_below_a_line(me, programs, limit, guesses):
    """What few samples say of functions whose calls differ by a thousand is no more than that,
    however long they seem to take.
    """
    command = [
        fperf_path(me),
        "-q",
        "--budget",
        "0.05%",
        "-e",
        "perf::TASK-CLOCK",
        *limit,
        "--",
        programs.simple("wide"),
        200,
    ]
    done = me.run(command)
    assert done.returncode == 0, repr(done)
    _, *rows = done.stdout.splitlines()
    lines = [i for i, row in enumerate(rows) if row.startswith("---")]
    assert len(lines) == 1 and LINE.fullmatch(rows[lines[0]]), done.stdout
    few = int(LINE.fullmatch(rows[lines[0]]).group(1))
    known, below = rows[: lines[0]], rows[lines[0] + 1 :]
    more = int(below.pop().split()[0][1:]) if below[-1].startswith("(") else 0
    assert all(is_known(row, 0.51) for row in known), done.stdout
    assert not any(is_known(row, 0.49) for row in below), done.stdout
    most = int(limit[1]) if limit and limit[1] != "0" else 100
    assert (
        len(below) == min(few, guesses, most - len(known)) and len(known) + len(below) + more == 26
    ), done.stdout
    assert few >= 15, done.stdout


def test_json_says_what_is_known(me, programs):
    """All rows are in it, whatever -n says."""
    output = me.top / "known.json"
    done = me.run(
        [
            fperf_path(me),
            "-q",
            "--json",
            "-n",
            1,
            "-o",
            output,
            "--budget",
            "0.05%",
            "-e",
            FAULTS,
            "--",
            programs.simple("wide"),
            200,
        ]
    )
    functions = by_name(json.loads(output.read_text(encoding="utf-8")))
    assert done.returncode == 0 and len(functions) == 26, repr(done)
    for f in functions.values():
        counter = f["counters"].get(FAULTS)
        within = (
            counter
            and counter["ci95"] is not None
            and counter["ci95"] <= 0.5 * max(counter["per_call"], 1)
        )
        assert f["known"] == bool(
            within and f["calls_ci95"] is not None and f["calls_ci95"] <= 0.5 * f["calls"]
        ), f
    assert not functions["main"]["known"] and functions["main"]["samples"] == 0
    done = me.run(
        [
            fperf_path(me),
            "-q",
            "--json",
            "-o",
            output,
            "--budget",
            "none",
            "-e",
            FAULTS,
            "--",
            programs.simple("wide"),
            20,
        ]
    )
    functions = by_name(json.loads(output.read_text(encoding="utf-8")))
    assert done.returncode == 0 and {name for name, f in functions.items() if not f["known"]} == {
        "main"
    }, functions


def test_killed(actor, programs, targets):
    """A killed fperf leaves a process that is none the worse, and that iprobe detach clears."""
    target = targets.start(actor, [programs.simple("paging"), "-n", 2000, "-l"])
    proc = start_fperf(actor, target)
    target.say()
    proc.send_signal(signal.SIGKILL)
    proc.wait()
    done = actor.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    assert patched(actor, target.pid) == 0
    assert target.proc.stdout.readline() == "done\n"
    target.say()
    assert own_counts(target.finish().stdout)["three"][0] == 3 * 2000


ANCHORS_FPERF_ABI = 348  # struct ip_rt_anchor


def test_a_runtime_of_another_version(me, programs, targets):
    """Its hooks would count nothing, and say nothing. Other sessions go on in it."""
    target = targets.start(me, [programs.simple("paging"), "-n", 10])
    symbols = subprocess.run(
        ["nm", "-D", me.runtime_path], capture_output=True, text=True, check=True
    ).stdout
    (anchor,) = [
        int(line.split()[0], 16)
        for line in symbols.splitlines()
        if line.endswith(" iprobe_rt_anchor")
    ]
    at = (
        min(m.start for m in memory.mappings(target.pid) if "libiprobe-rt" in m.path)
        + anchor
        + ANCHORS_FPERF_ABI
    )
    (abi,) = struct.unpack("I", memory.read_memory(target.pid, at, 4))
    assert 0 < abi < 1000, abi
    memory.write_memory(target.pid, at, struct.pack("I", abi - 1))
    command = [fperf_path(me), "-q", "-p", target.pid, "--duration", "100ms"]
    assert "another version of iprobe" in actors.one_line(me.run(command))
    assert patched(me, target.pid) == 0
    assert (
        me.iprobe(
            "attach", "-q", "--duration", "50ms", "-o", me.dir() / "trace", target.pid
        ).returncode
        == 0
    )
    memory.write_memory(target.pid, at, struct.pack("I", abi))
    done = me.run(command)
    assert done.returncode == 0, repr(done)


def test_one_session_at_a_time(me, programs, targets):
    target = targets.start(me, [programs.simple("paging"), "-n", 10])
    proc = start_fperf(me, target)
    assert "fperf needs one of its own" in actors.one_line(
        me.run([fperf_path(me), "-q", "-p", target.pid])
    )
    for command in (
        ["attach", target.pid, "-f", "three"],
        ["top", "-b", "-n", 1, target.pid],
        ["hist", target.pid],
        ["snapshot", target.pid],
    ):
        assert "that of an fperf" in actors.one_line(me.iprobe(*command))
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    assert by_name(json.loads(said.stdout))["three"]["calls"] == 30, repr(said)
    target.say()
    target.finish()


@pytest.mark.parametrize(
    "link", [[], ["-static"], ["-static-pie"]], ids=["shared", "static", "static-pie"]
)
def test_a_process_without_the_runtime(me, programs, targets, link):
    """It is put there, and counts."""
    target = targets.start(me, [programs.simple("paging", extra=link), "-n", 100], preload=False)
    proc = start_fperf(me, target, "--budget", "none")
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    assert said.returncode == 0, repr(said)
    target.say()
    check_exact(by_name(json.loads(said.stdout)), own_counts(target.finish().stdout))


def test_seccomp_is_refused(root, programs, targets):
    """The calls that read the counters might end it."""
    target = targets.start(
        root, [programs.simple("waits", extra=["-static"]), "seccomp"], preload=False
    )
    line = actors.one_line(root.run([fperf_path(root), "-q", "-p", target.pid]))
    assert "seccomp" in line
    assert patched(root, target.pid) == 0


@pytest.mark.parametrize("how", ["errno", "kill"])
def test_a_process_that_confines_itself(me, programs, how):
    """A call of the kernel that fails ends the samples; where the filter would kill for it there
    are none once fperf has seen it. main() is one that is open all the while: its exit makes no
    call either. (That of the function that sets the filter would come before anybody can know.)
    """
    output = me.top / f"{how}.json"
    proc = me.popen(
        [
            fperf_path(me),
            "-q",
            "--json",
            "-o",
            output,
            "-e",
            "perf::TASK-CLOCK",
            "--budget",
            "none",
            "-f",
            "step,main",
            "--",
            programs.simple("confining"),
            how,
        ]
    )

    def say(line, answer):
        proc.stdin.write(line + "\n")
        proc.stdin.flush()
        assert proc.stdout.readline() == answer + "\n", repr(actors.last_words(proc))

    assert proc.stdout.readline() == "ready\n"
    say("call", "called")
    say("confine", "confined")
    if how == "kill":
        time.sleep(3)  # what is not seen by then would be a defect even on a busy machine
    say("call", "called")
    proc.stdin.close()
    assert proc.wait(60) == 0
    result = json.loads(output.read_text(encoding="utf-8"))
    functions = by_name(result)
    assert result["confined"]
    assert functions["step"]["calls"] == 2000 and functions["step"]["samples"] == 1000, functions
    assert functions["main"]["samples"] == 0 and functions["main"]["cut"] == 1, functions


def test_unknown_and_absent_events(me, programs):
    done = me.run([fperf_path(me), "-e", "perf::NONSENSE", "-p", 1])
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, repr(done)
    line = actors.one_line(me.run([fperf_path(me), "-e", "PAPI_TOT_INS", "-p", 1]))
    assert "PAPI_TOT_INS" in line and ("PMU" in line or "perf_event" in line)
    for wrong in (
        ["--budget", "much"],
        ["--budget", "inf/s"],
        ["-n", "1.5"],
        ["-n", "-1"],
        ["-n", ""],
    ):
        done = me.run([fperf_path(me), *wrong, "-p", 1])
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, repr(done)
    assert me.run([fperf_path(me)]).returncode == 2
    for command in ([], ["list-events"], ["self-test"]):
        done = me.run([fperf_path(me), *command, "--help"])
        assert done.returncode == 0 and "usage: fperf" in done.stdout and not done.stderr, repr(
            done
        )


def test_profile(me, programs):
    (me.top / "probes").mkdir()
    (me.top / "probes" / "own.yaml").write_text(
        """
profiles:
  faults: {events: ['perf::PAGE-FAULTS'], functions: 'three,eleven', budget: 1%, interval: 50ms}
  chips: {events: [PAPI_TOT_INS]}
""",
        encoding="utf-8",
    )
    env = {"IPROBE_PROBES_D": str(me.top / "probes")}
    done = me.run(
        [
            fperf_path(me),
            "-q",
            "--json",
            "-o",
            me.top / "out.json",
            "--profile",
            "faults",
            "-f",
            "three",
            "--",
            programs.simple("paging"),
            "-n",
            20,
        ],
        input="\n\n",
        env=env,
    )
    assert done.returncode == 0, repr(done)
    result = json.loads((me.top / "out.json").read_text(encoding="utf-8"))
    assert (
        result["events"] == [FAULTS]
        and result["budget"] == 0.01
        and set(by_name(result)) == {"three"}
    )
    line = actors.one_line(me.run([fperf_path(me), "--profile", "chips", "-p", 1], env=env))
    assert "chips" in line and "PAPI_TOT_INS" in line
    assert "faults" in actors.one_line(
        me.run([fperf_path(me), "--profile", "fault", "-p", 1], env=env)
    )


def test_list_and_self_test(me):
    done = me.run([fperf_path(me), "list-events", "--json"])
    assert done.returncode == 0, repr(done)
    events = {e["name"]: e for e in json.loads(done.stdout)["events"]}
    assert events[FAULTS]["counts"] and not events["PAPI_TOT_INS"]["counts"]
    assert events["PAPI_TOT_INS"]["why_not"]
    done = me.run([fperf_path(me), "self-test"])
    assert done.returncode == 0 and FAULTS in done.stdout, repr(done)

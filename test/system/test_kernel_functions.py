# SPDX-License-Identifier: Apache-2.0
"""
--kernel-functions: functions of the kernel below those of the program.

Where the kernel has no kprobes, what is said of it; on one that has (the check's stage kernel-6.1):
counts, nesting and times against the program's own, and what is left behind.
"""

import collections
import json
import pathlib
import shutil
import signal
import subprocess

import pytest
from test_wait import instances

from iptest import memory

THREADS, ROUNDS = 2, 200
NAP = 20e6  # ns, in which blocks() of test/programs/kernel_calls.c waits at least
# function: the kernel's in it, how often it calls that in all
CALLS = {
    "reads_two": ("vfs_read [kernel]", 2 * THREADS * ROUNDS),
    "writes_once": ("vfs_write [kernel]", THREADS * ROUNDS),
    "blocks": ("vfs_read [kernel]", 1),
    "wake": ("vfs_write [kernel]", 1),
}


SAID = {}


def kernel_says(actor):
    """The line of doctor about functions of the kernel. It is asked once: in an emulator that takes
    half a minute.
    """
    if actor.name not in SAID:
        lines = actor.iprobe("doctor").stdout.splitlines()
        line = next(line for line in lines if "kernel functions" in line)
        SAID[actor.name] = " ".join(line.split())
    return SAID[actor.name]


def probes(pid=None):
    """Lines of kprobe_events, those of an iprobe or all, seen by a mount of our own."""
    command = "mount -t tracefs none /mnt && cat /mnt/kprobe_events"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command], capture_output=True, text=True, check=True
    )
    return [
        line
        for line in done.stdout.splitlines()
        if pid is None or f":iprobe_{pid}_" in line
    ]


def put_probe(line):
    """What another tool does."""
    command = 'mount -t tracefs none /mnt && echo "$0" >>/mnt/kprobe_events'
    subprocess.run(["unshare", "-m", "sh", "-c", command, line], check=True)


@pytest.fixture(scope="module")
def program(programs):
    """Compiled before anything is skipped: another kernel's emulator takes minutes for it."""
    return programs.simple("kernel_calls", placement="fentry")


@pytest.fixture
def tracer(program, root):
    """An actor that may record functions of the kernel."""
    said = kernel_says(root)
    if "can be recorded" not in said:
        pytest.skip(said)
    return root


def dumped(actor, trace):
    done = actor.iprobe("dump", "--json", trace)
    assert done.returncode == 0, repr(done)
    return [json.loads(line) for line in done.stdout.splitlines()]


def calls_of(events):
    """[(function, parent, duration, parent's duration)] of the calls, by a stack for each thread;
    checks that they nest.
    """
    stacks, calls = collections.defaultdict(list), []
    for e in events:
        stack = stacks[e["tid"]]
        if e["event"] == "entry":
            assert e["depth"] == len(stack), e
            if not e.get("end_unknown"):
                stack.append((e["function"], []))
        elif e["event"] == "exit":
            function, below = stack.pop()
            assert e["function"] == function and e["depth"] == len(stack), e
            calls += [(name, function, ns, e["duration_ns"]) for name, ns in below]
            if stack:
                stack[-1][1].append((function, e["duration_ns"]))
    return calls


def check_calls(events):
    """Counts are exact, and times lie within those of the functions around."""
    calls = calls_of(events)
    for function, (name, n) in CALLS.items():
        mine = [c for c in calls if c[0] == name and c[1] == function]
        assert len(mine) == n, (function, len(mine))
        assert all(0 < ns <= around for _, _, ns, around in mine), function
    assert not [c for c in calls if "vfs_write" in c[0] and c[1] in ("reads_two", "blocks")]
    (slept,) = [ns for name, parent, ns, _ in calls if parent == "blocks" and "read" in name]
    assert slept > 0.9 * NAP
    # time goes on in one thread
    for tid in {e["tid"] for e in events}:
        times = [e["ts"] for e in events if e["tid"] == tid]
        assert times == sorted(times)
    assert [e["ts"] for e in events] == sorted(e["ts"] for e in events)


def test_calls(tracer, program):
    """Exact, nested, within; of a child nothing; in all views; and nothing is left behind."""
    trace = tracer.dir() / "trace"
    proc = tracer.popen(
        [
            tracer.iprobe_path,
            *("run", "--json", "--kernel-buffer", "16M", "-o", trace),
            *("--kernel-functions", "vfs_read,vfs_write,no_such_function"),
            *("--", program, str(THREADS), str(ROUNDS)),
        ]
    )
    out, err = proc.communicate(timeout=600)
    assert proc.returncode == 0, err
    assert "no function is called no_such_function" in err, err
    kernel = json.loads(out.splitlines()[-1])["kernel"]
    assert kernel["functions"] == 2 and kernel["lost"] == 0 and kernel["missed_returns"] == 0
    assert not instances(proc.pid) and not probes(proc.pid)

    check_calls(dumped(tracer, trace))

    report = json.loads(tracer.iprobe("report", "--json", trace).stdout)
    rows = {row["function"]: row for row in report["functions"]}
    # main() opens and prints besides: by the C library, once or more
    reads, writes = rows["vfs_read [kernel]"], rows["vfs_write [kernel]"]
    assert reads["module"] == writes["module"] == "[kernel]"
    assert reads["calls"] == 2 * THREADS * ROUNDS + 1
    assert writes["calls"] >= THREADS * ROUNDS + 1
    assert rows["reads_two"]["total_ns"] >= rows["reads_two"]["self_ns"] + reads["min_ns"]
    graph = tracer.iprobe("graph", "--min-percent", "0", trace).stdout
    assert "vfs_read [kernel]" in graph.split("reads_two", 1)[1].split("\n")[1], graph
    only = tracer.iprobe("report", "-f", "vfs_read", "--json", trace).stdout
    assert [row["function"] for row in json.loads(only)["functions"]] == ["vfs_read [kernel]"]

    check_exports(tracer, trace)
    check_ctf(trace)


def check_exports(tracer, trace):
    folder = tracer.dir()
    for form in ("folded", "chrome", "html", "perfetto"):
        done = tracer.iprobe("export", "--format", form, "-o", folder / form, trace)
        assert done.returncode == 0, repr(done)
    assert "reads_two;vfs_read [kernel] " in (folder / "folded").read_text()
    assert (folder / "chrome").read_text().count('"vfs_write [kernel]"') >= 2 * THREADS * ROUNDS
    assert "vfs_read [kernel]" in (folder / "html").read_text()
    assert b"vfs_read [kernel]" in (folder / "perfetto").read_bytes()


def check_ctf(trace):
    """As LTTng's kretprobes: NAME_entry and NAME_exit, with ip and parent_ip."""
    if not shutil.which("babeltrace2"):
        return
    said = subprocess.run(
        ["babeltrace2", trace / "kernel"], capture_output=True, text=True, check=True
    ).stdout
    lines = [line for line in said.splitlines() if "vfs_read_" in line]
    entries = [line for line in lines if "vfs_read_entry: " in line]
    exits = [line for line in lines if "vfs_read_exit: " in line]
    assert len(entries) >= 2 * THREADS * ROUNDS + 1 and len(exits) >= len(entries) - 1

    def fields(line):
        return line.rsplit("{", 1)[1]

    # an entry has the address that the call returns to, though a return probe has changed it
    assert set(map(fields, entries)) >= set(map(fields, exits))


@pytest.mark.parametrize("by", ["attach", "detach"])
def test_probes_go_away(tracer, programs, targets, by):
    """Also those that an iprobe left which was killed; those of others stay."""
    target = targets.steady(tracer, programs.simple("steady"), "-t", "3", "-n")
    folder = tracer.dir()
    mine = f"p:kprobes/test_{target.pid} vfs_open"
    put_probe(mine)
    try:
        words = ("attach", str(target.pid), "--kernel-functions", "vfs_read", "-q")
        proc = tracer.start_iprobe(*words, "-o", folder / "killed")
        memory.wait_until_live(target.pid, proc)
        assert len(probes(proc.pid)) == 2 and len(instances(proc.pid)) == 2
        proc.send_signal(signal.SIGKILL)
        proc.wait()
        assert len(probes(proc.pid)) == 2
        if by == "attach":
            done = tracer.iprobe(*words, "--duration", "100ms", "-o", folder / "next")
        else:
            done = tracer.iprobe("detach", str(target.pid))
        assert done.returncode == 0, repr(done)
        assert not instances(proc.pid) and not probes(proc.pid)
        assert [line for line in probes() if f"test_{target.pid} " in line]
        assert not [line for line in probes() if ":iprobe_" in line and str(proc.pid) in line]
    finally:
        put_probe(f"-:kprobes/test_{target.pid}")


def test_snapshot(tracer, program):
    """It has their names, as the trace at the end has."""
    target = tracer.popen([program, "2", "100000000"], stdout=subprocess.DEVNULL)
    folder = tracer.dir()
    words = ("attach", str(target.pid), "--kernel-functions", "vfs_read", "--overwrite", "-q")
    proc = tracer.start_iprobe(*words, "-o", folder / "flight")
    memory.wait_until_live(target.pid, proc)
    done = tracer.iprobe("snapshot", "-o", folder / "moment", str(target.pid))
    assert done.returncode == 0, repr(done)
    proc.send_signal(signal.SIGINT)
    assert proc.wait(timeout=120) == 0
    for trace in ("moment", "flight"):
        done = tracer.iprobe("report", "--json", folder / trace)
        assert done.returncode == 0, repr(done)
        rows = {row["function"]: row for row in json.loads(done.stdout)["functions"]}
        assert rows["vfs_read [kernel]"]["calls"] > 0, rows.keys()


def test_not_with_resume(root):
    """The functions of the trace have their numbers already."""
    done = root.iprobe("attach", "1", "--kernel-functions", "vfs_*", "--resume")
    assert done.returncode == 2 and "does not go with --resume" in done.stderr, repr(done)


def test_losses(tracer, program):
    """What was open, or began, while events were lost has no end; nothing is longer than it was."""
    target = tracer.popen([program, "2", "100000000"], stdout=subprocess.DEVNULL)
    trace = tracer.dir() / "trace"
    done = tracer.iprobe(
        *("attach", str(target.pid), "--kernel-functions", "vfs_*", "--json", "-q"),
        *("--kernel-buffer", "64K", "--duration", "500ms", "-o", trace),
    )
    assert done.returncode == 0, repr(done)
    if not done.summary()["kernel"]["lost"]:
        pytest.skip("nothing was lost")
    done = tracer.iprobe("dump", "--json", trace)
    assert "of the kernel's events" in done.stderr and "LOST" in done.stderr, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    calls = [c for c in calls_of(events) if c[1] in ("reads_two", "writes_once")]
    assert calls and all(ns <= around for _, _, ns, around in calls)


def test_refused(program, root):
    """One line says what is missing; the command is not started, nothing is left."""
    said, trace = kernel_says(root), root.dir() / "trace"
    if "can be recorded" in said:
        pytest.skip("this kernel has kprobes")
    done = root.iprobe(
        *("run", "--kernel-functions", "vfs_*", "-o", trace, "--", program, "1", "1")
    )
    assert done.returncode == 1 and not done.stdout, repr(done)
    assert done.stderr.count("\n") == 1, done.stderr
    # what doctor says is what the command says
    assert done.stderr.split("iprobe: ", 1)[1].split(";")[0].strip() in said, (said, done.stderr)
    assert not trace.exists()


def test_refused_to_others(user, program):
    done = user.iprobe(
        *("run", "--kernel-functions", "vfs_*", "-o", user.dir() / "t", "--", program, "1", "1")
    )
    assert done.returncode == 1 and "tracefs" in done.stderr, repr(done)
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize(
    "words, why",
    [
        (["--kernel-functions", ""], "needs names or patterns"),
        (["--kernel-functions", "vfs_*", "--kernel-source", "perf"], "by probes of tracefs"),
        (["--kernel-functions", "vfs_*", "--time", "coarse"], "--kernel does not go with"),
    ],
)
def test_usage(me, words, why):
    done = me.iprobe("run", *words, "--", "true")
    assert done.returncode == 2 and why in done.stderr, repr(done)


@pytest.mark.parametrize(
    "patterns, why",
    [
        ("no_such_function", "no function is called no_such_function"),
        ("*", "at most 200 can be recorded at once"),
    ],
)
def test_none_to_record(tracer, program, patterns, why):
    trace = tracer.dir() / "trace"
    done = tracer.iprobe(
        *("run", "--kernel-functions", patterns, "-o", trace, "--", program, "1", "1")
    )
    assert done.returncode == 1 and why in done.stderr and not done.stdout, repr(done)
    assert done.stderr.count("\n") == 1 and not trace.exists(), done.stderr


def test_a_list_of_another(me, program):
    """A trace with a list that is none is refused; one whose kernel events are gone is read."""
    trace = me.dir() / "trace"
    assert me.iprobe("run", "-q", "-o", trace, "--", program, "1", "5").returncode == 0
    names = pathlib.Path(trace) / "iprobe" / "kernel_functions"
    names.write_text("vfs_read\t\n")
    report = json.loads(me.iprobe("report", "--json", trace).stdout)
    assert {row["function"] for row in report["functions"]} >= {"reads_two", "works"}
    names.write_text("vfs_read\x1b[2J\t\n")
    done = me.iprobe("report", trace)
    assert done.returncode == 1 and "is not a function of the kernel" in done.stderr, repr(done)
    assert "\x1b" not in done.stderr

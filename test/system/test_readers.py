# SPDX-License-Identifier: Apache-2.0
"""report, dump and info on traces whose contents are known (test/tracegen.py), and on such
traces with damage.
"""

import collections
import fcntl
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import termios

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest.actor import one_line  # noqa: E402

SEEDS = [1, 2, 3, 4, 5]
# std::vector<std::pair<int, std::string>>::push_back
PUSH_BACK = (
    "_ZNSt6vectorISt4pairIiNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEESaIS7_EE"
    "9push_backERKS7_"
)


def ns(trace, ticks):
    return (ticks * 1_000_000_000 + trace.hz // 2) // trace.hz


def report(me, directory, *options):
    done = me.iprobe("report", "--json", *options, directory)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def dump(me, directory, *options):
    done = me.iprobe("dump", "--json", *options, directory)
    assert done.returncode == 0, repr(done)
    return [json.loads(line) for line in done.stdout.splitlines()]


def rank(values, share):
    return sorted(values)[max(0, -(-int(share * 1000) * len(values) // 1000) - 1)]


def check_function(trace, shown, calls):
    """One row against the calls that the generator made."""
    ended = [c.end - c.start for c in calls if c.how != "unfinished"]
    assert shown["calls"] == len(calls)
    assert shown["unwound"] == sum(c.how == "unwound" for c in calls)
    assert shown["unfinished"] == sum(c.how == "unfinished" for c in calls)
    longest = max((ns(trace, c.end - c.start) for c in calls if c.how == "unfinished"), default=0)
    if ended and longest > ns(trace, max(ended)):
        assert shown["unfinished_max_ns"] == longest
    else:
        assert "unfinished_max_ns" not in shown
    assert shown["threads"] == len({c.tid for c in calls})
    assert shown["total_ns"] == ns(trace, sum(c.end - c.start for c in calls if c.outermost))
    assert shown["self_ns"] == ns(trace, sum(c.own for c in calls))
    if not ended:
        assert {
            shown[key]
            for key in (
                "min_ns",
                "avg_ns",
                "p50_ns",
                "p90_ns",
                "p99_ns",
                "p999_ns",
                "max_ns",
                "stddev_ns",
            )
        } == {None}
        return
    assert shown["min_ns"] == ns(trace, min(ended))
    assert shown["max_ns"] == ns(trace, max(ended))
    assert shown["avg_ns"] == pytest.approx(ns(trace, sum(ended) / len(ended)), abs=1)
    assert shown["stddev_ns"] == pytest.approx(
        statistics.pstdev(ended) * 1e9 / trace.hz, rel=1e-6, abs=0.01
    )
    for key, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999)):
        assert shown[key] == pytest.approx(ns(trace, rank(ended, share)), rel=0.01, abs=1), key


@pytest.mark.parametrize(
    "lines, length, part",
    [
        (["live 300", "idle 900"], 600, 151),
        (["live 300", "live 500", "idle 700", "idle 900"], 600, 151),  # resumed
        (["live 300"], 700, 151),  # killed
        (["idle 900"], 900, 451),
        (["live 5000", "idle 900"], 900, 451),  # what cannot be true is not believed
        (["live 300", "idle 200"], 700, 151),
        (["live 0", f"idle {2**64 - 1}"], 1000, 451),
    ],
)
def test_a_recording_lasts_while_probes_are_live(me, lines, length, part):
    trace = tracegen.Trace(hz=1_000_000_000)
    thread = trace.thread()
    thread.advance(400)
    thread.call("f")
    thread.advance(100)
    thread.ret()
    thread.advance(500)
    for line in lines:
        word, tsc = line.split()
        tsc = int(tsc) if int(tsc) > 10_000 or not int(tsc) else trace.start + int(tsc)
        trace.extra_lines.append(f"{word}\t{tsc}")
    directory = trace.write(me.dir() / "trace")
    for command in (("report",), ("report", "--slowest", 1), ("graph",), ("info",)):
        shown = json.loads(me.iprobe(*command, "--json", directory).stdout)
        assert shown["duration_ns"] == length, command
    # times are those since the start all the same
    events = me.iprobe("dump", "--json", directory).stdout.splitlines()
    assert [json.loads(line)["ts"] for line in events] == [400, 500]
    done = me.iprobe("trim", "--to", "450ns", "-o", directory.parent / "part", directory)
    assert done.returncode == 0, repr(done)
    assert report(me, directory.parent / "part")["duration_ns"] == part


def check_report(me, trace, directory):
    shown = report(me, directory)
    assert shown["events"] == trace.events
    assert shown["lost"] == trace.lost
    assert shown["orphan_exits"] == trace.orphans
    assert shown["threads"] == len(trace.threads)
    assert shown["duration_ns"] == ns(trace, trace.now - trace.start)
    by_name = collections.defaultdict(list)
    for call in trace.calls:
        by_name[call.name].append(call)
    assert {f["function"] for f in shown["functions"]} == set(by_name)
    assert len(shown["functions"]) == len(by_name)
    for function in shown["functions"]:
        check_function(trace, function, by_name[function["function"]])
    assert shown["functions"] == sorted(shown["functions"], key=lambda f: -f["total_ns"])
    return shown


def check_dump(me, trace, directory, one_clock=True):
    lines = dump(me, directory)
    for tid in {None} if one_clock else {l["tid"] for l in lines}:
        times = [l["ts"] for l in lines if tid in (None, l["tid"])]
        assert times == sorted(times), tid
    shown, made = collections.defaultdict(list), collections.defaultdict(list)
    for line in lines:
        shown[line["tid"]].append(
            (line["event"], line["function"], line["depth"], line["ts"], line.get("unwound", False))
        )
    for step in trace.steps:
        made[step.tid].append(
            (step.event, step.name, step.depth, ns(trace, step.ts - trace.start), step.unwound)
        )
    assert shown.keys() == made.keys()
    for tid, steps in made.items():
        assert shown[tid] == steps, tid


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("capacity", [40, 300, 4095])
def test_random_programs(me, seed, capacity):
    """Calls, returns, tail exits, recursion, alloca, inlining, longjmp; three streams, thread
    after thread.
    """
    trace = tracegen.random_trace(seed, capacity=capacity)
    directory = trace.write(me.dir() / "trace")
    check_report(me, trace, directory)
    check_dump(me, trace, directory)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_known_frame_sizes(me, seed):
    """Everything but jumps is exact without them too."""
    trace = tracegen.random_trace(seed, jumps=False)
    trace.frames_known = False
    directory = trace.write(me.dir() / "trace")
    check_report(me, trace, directory)
    check_dump(me, trace, directory)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("capacity", [40, 4095])
def test_clocks_of_processors_differ(me, seed, capacity):
    """Stamps run back when a thread comes to a processor whose clock is behind: its time stands
    still meanwhile.
    """
    trace = tracegen.random_trace(seed, capacity=capacity, skews=tracegen.SKEWS)
    directory = trace.write(me.dir() / "trace")
    check_report(me, trace, directory)
    check_dump(me, trace, directory, one_clock=False)


def test_a_function_that_has_not_ended_has_no_durations(me):
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    t.call("main")
    t.advance(500)
    directory = trace.write(me.dir() / "trace")
    check_report(me, trace, directory)
    head, row = (
        line.split(",") for line in me.iprobe("report", "--csv", directory).stdout.splitlines()
    )
    known = dict(zip(head, row))
    assert (
        known["total_ns"] == "500"
        and known["min_ns"] == known["max_ns"] == known["stddev_ns"] == ""
    )
    (line,) = [l for l in me.iprobe("report", directory).stdout.splitlines() if l.endswith(" main")]
    assert re.match(r"\s*1 +500 ns +500 ns( +-)+ +main$", line), line


def test_recursion_counts_the_outermost(me):
    trace = tracegen.Trace()
    t = trace.thread()
    for _ in range(2):
        for _ in range(10):
            t.call("fib")
            t.advance(100)
        for _ in range(10):
            t.advance(50)
            t.ret()
    shown = check_report(me, trace, trace.write(me.dir() / "trace"))
    assert shown["functions"][0]["total_ns"] == ns(trace, 2 * 1500)
    assert shown["functions"][0]["self_ns"] == ns(trace, 2 * 1500)


def test_attached_in_the_middle(me):
    """Exits of calls from before the recording."""
    trace = tracegen.Trace()
    t = trace.thread()
    t.call("leaf")
    t.advance(10)
    t.ret()
    t.orphan_exit("caller", 400)
    t.call("leaf")
    t.longjmp(0)
    t.advance(10)
    t.orphan_exit("callers_caller", 20000)
    directory = trace.write(me.dir() / "trace")
    check_report(me, trace, directory)
    lines = dump(me, directory)
    assert [l["event"] for l in lines] == ["entry", "exit", "exit", "entry", "exit", "exit"]
    assert [l.get("orphan", False) for l in lines] == [False, False, True, False, False, True]
    assert lines[4]["unwound"]


HANDLER_STACKS = {
    "far below": 0x5555_0000_0000,
    "far above": tracegen.STACK + (1 << 40),
    "just above": tracegen.STACK + 12288,
    "64 KiB below": tracegen.STACK - 65536,
    "2 MiB below": tracegen.STACK - (2 << 20),
    "16 MiB above": tracegen.STACK + (16 << 20),
}


@pytest.mark.parametrize("where", HANDLER_STACKS)
def test_handler_on_an_alternate_stack(me, where):
    """The interrupted frames are still there."""
    trace = tracegen.Trace()
    t = trace.thread()
    t.call("main")
    for i in range(3):
        t.call("work")
        t.call("deep")
        t.switch("alt", HANDLER_STACKS[where])
        before = t.believed
        t.advance(100)
        call = t.call("handler")
        call.depth = trace.steps[-1].depth = 3
        t.call("leaf")
        trace.steps[-1].depth = trace.calls[-1].depth = 4
        t.advance(30)
        t.ret()
        trace.steps[-1].depth = 4
        t.ret()
        trace.steps[-1].depth = 3
        t.switch("main")
        t.believed = before
        t.advance(7)
        t.ret()
        t.ret()
    t.ret()
    directory = trace.write(me.dir() / "trace")
    check_report(me, trace, directory)
    check_dump(me, trace, directory)


@pytest.mark.parametrize("where", HANDLER_STACKS)
def test_jump_out_of_a_handler(me, where):
    """siglongjmp from an alternate stack to a frame that was interrupted, or below it."""
    trace = tracegen.Trace()
    t = trace.thread()
    t.call("main")
    for i in range(4):
        t.call("work")
        t.call("deep")
        t.switch("alt", HANDLER_STACKS[where])
        t.advance(100)
        t.call("handler")
        t.advance(50)
        t.longjmp(0)
        t.switch("main")
        if i % 2:
            t.longjmp(2)
        t.advance(9)
        while len(t.frames) > 1:
            t.ret()
    t.ret()
    directory = trace.write(me.dir() / "trace")
    shown = {f["function"]: f for f in report(me, directory)["functions"]}
    assert shown["handler"]["calls"] == shown["handler"]["unwound"] == 4
    assert shown["handler"]["total_ns"] == pytest.approx(ns(trace, 4 * 59), abs=2)
    assert shown["deep"]["calls"] == 4 and shown["deep"]["unwound"] == 2
    assert shown["work"]["calls"] == 4 and shown["work"]["unwound"] == 0
    assert shown["main"]["unwound"] == shown["main"]["unfinished"] == 0
    lines = dump(me, directory)
    assert balanced(lines) == []


def balanced(lines):
    """Frames left open after all lines; each exit must close the innermost frame."""
    stack = []
    for line in lines:
        if line["event"] == "entry":
            assert line["depth"] == len(stack), line
            stack.append(line["function"])
        else:
            assert line["depth"] == len(stack) - 1 and stack.pop() == line["function"], line
    return stack


@pytest.mark.parametrize("gap", [16384, 65536, 1 << 20, 8 << 20])
@pytest.mark.parametrize("order", [1, -1])
def test_coroutines_pass_control_to_and_fro(me, gap, order):
    """Each call is counted once, with its right time, wherever the stacks lie."""
    trace = tracegen.Trace()
    t = trace.thread()
    base = 0x5555_0000_0000
    t.call("main")
    t.switch("a", base)
    t.call("routine_a")
    t.advance(10)
    t.switch("b", base + order * gap)
    t.call("routine_b")
    for i in range(5):
        for name in "ab":
            t.switch(name)
            t.call("inner_" + name)
            t.advance(100)
            t.ret()
    for name in "ab":
        t.switch(name)
        t.advance(5)
        t.ret()
    t.switch("main")
    t.advance(3)
    t.ret()
    directory = trace.write(me.dir() / "trace")
    shown = {f["function"]: f for f in report(me, directory)["functions"]}
    for name, calls in collections.Counter(c.name for c in trace.calls).items():
        own = [c for c in trace.calls if c.name == name]
        assert shown[name]["calls"] == calls
        assert shown[name]["unwound"] == shown[name]["unfinished"] == 0, name
        assert shown[name]["max_ns"] == ns(trace, max(c.end - c.start for c in own))
    lines = dump(me, directory)
    assert sum(l["event"] == "entry" for l in lines) == sum(l["event"] == "exit" for l in lines)


def test_large_frames_and_jumps_over_them(me):
    """Frames of 100 KiB each, left by a jump; and the same again."""
    trace = tracegen.Trace()
    trace.add("main", 64)
    trace.add("vast", 100 << 10)
    trace.add("small", 32)
    t = trace.thread()
    t.call("main")
    for depth in (30, 3, 60):
        for _ in range(depth):
            t.call("vast")
            t.advance(1)
        t.longjmp(1)
        t.advance(2)
        t.call("small")
        t.ret()
    t.ret()
    directory = trace.write(me.dir() / "trace")
    check_report(me, trace, directory)
    check_dump(me, trace, directory)


def test_losses_are_told_and_left_consistent(me):
    trace = tracegen.Trace()
    t = trace.thread()
    t.call("main")
    for i in range(50):
        t.call("work")
        t.advance(100)
        if i % 10 == 3:
            # the exit of this call and all of the next call but its exit
            t.lose(5)
        t.ret()
        t.advance(10)
    t.ret()
    directory = trace.write(me.dir() / "trace")
    done = me.iprobe("report", directory)
    assert (
        done.returncode == 0 and "25 EVENTS WERE LOST" in done.stderr and "25 LOST" in done.stdout
    )
    shown = report(me, directory)
    assert shown["lost"] == 25 and shown["events"] == trace.events
    by_name = {f["function"]: f for f in shown["functions"]}
    assert by_name["work"]["calls"] == 50
    assert by_name["work"]["max_ns"] == ns(trace, 100)
    assert balanced(dump(me, directory)) == []


def test_entries_and_exits_lost(me):
    """Random events are missing: nothing is counted twice, what is shown is balanced."""
    rng = random.Random(11)
    trace = tracegen.Trace()
    tracegen.declare(trace)
    t = trace.thread(capacity=50)
    record = t.record
    dropped = []

    def lossy(kind, number, sp, values=None):
        if rng.random() < 0.03:
            t.lose(1)
            dropped.append(kind)
        else:
            record(kind, number, sp, values)

    t.record = lossy
    tracegen.play(trace, t, rng, 3000)
    directory = trace.write(me.dir() / "trace")
    shown = report(me, directory)
    entries = len(trace.calls) - dropped.count(tracegen.ENTRY)
    assert shown["lost"] == len(dropped) > 30
    assert sum(f["calls"] for f in shown["functions"]) == entries
    lines = [l for l in dump(me, directory) if not l.get("orphan") and not l.get("resumed")]
    assert sum(l["event"] == "entry" for l in lines) == entries


def test_a_process_that_became_another(me):
    trace = tracegen.Trace()
    t = trace.thread()
    t.call("main")
    t.call("run_other")
    t.advance(100)
    t.flush()
    trace.extra_lines.append(f"exec\t1000\t{trace.now}")
    exec_at = trace.now
    t.advance(1000)
    t.switch("new", tracegen.STACK - 0x1230)
    t.call("main")
    t.advance(10)
    t.ret()
    directory = trace.write(me.dir() / "trace")
    lines = dump(me, directory)
    assert [(l["event"], l["function"], l["depth"]) for l in lines] == [
        ("entry", "main", 0),
        ("entry", "run_other", 1),
        ("entry", "main", 0),
        ("exit", "main", 0),
    ]
    shown = {f["function"]: f for f in report(me, directory)["functions"]}
    assert shown["run_other"]["total_ns"] == ns(trace, exec_at - trace.start)
    assert shown["main"]["calls"] == 2 and shown["main"]["unfinished"] == 1


def test_selection_sorting_and_limit(me):
    trace = tracegen.random_trace(7)
    directory = trace.write(me.dir() / "trace")
    whole = report(me, directory)["functions"]
    for column, key in (
        ("calls", "calls"),
        ("self", "self_ns"),
        ("p99", "p99_ns"),
        ("max", "max_ns"),
    ):
        shown = report(me, directory, "--sort", column)["functions"]
        # a call that has not finished took longer than it is known to have lasted
        open_ns = "unfinished_max_ns" if column == "max" else key
        largest = [max(f[key], f.get(open_ns, 0)) for f in shown]
        assert largest == sorted(largest, reverse=True)
        assert sorted(f[key] for f in shown) == sorted(f[key] for f in whole)
    assert [
        f["function"] for f in report(me, directory, "--sort", "function")["functions"]
    ] == sorted(f["function"] for f in whole)
    assert report(me, directory, "--limit", "2")["functions"] == whole[:2]
    assert [f["function"] for f in report(me, directory, "-f", "le*")["functions"]] == ["leaf"]
    assert [f for f in whole if f["function"] == "leaf"] == report(me, directory, "-f", "leaf")[
        "functions"
    ]
    only = dump(me, directory, "-f", "shop::*")
    assert only and {l["function"] for l in only} == {"shop::Basket::total"}
    assert only == [l for l in dump(me, directory) if l["function"] == "shop::Basket::total"]
    of_one = dump(me, directory, "--tid", "2010")
    assert of_one == [l for l in dump(me, directory) if l["tid"] == 2010] and of_one
    assert "leaf" in one_line(me.iprobe("report", "-f", "laef", directory))
    one_line(me.iprobe("dump", "--tid", "77", directory))
    for args in (["--sort", "nonsense"], ["--limit", "0"], ["--limit", "x"]):
        assert me.iprobe("report", *args, directory).returncode == 2


def test_the_table_fits(me):
    trace = tracegen.Trace()
    t = trace.thread()
    for name in (
        "plain",
        "a_function_with_a_name_that_is_longer_than_any_column_of_a_table_could_ever_be",
        PUSH_BACK,
        "_Z1fi",
        "_Z1fd",
        "\u00fcml\u00e4ut_" * 10,
    ):
        trace.add(name)
        t.call(name)
        t.advance(1 << 40)
        t.ret()
    directory = trace.write(me.dir() / "trace")
    shown = on_terminal(me, "report", directory, columns=100)
    assert max(len(line) for line in shown.splitlines()) <= 100, shown
    for text in ("plain", "push_back", "could_ever_be", "f(int)", "f(double)"):
        assert text in shown
    assert "a_function_with_a_name" not in shown
    assert "a_function_with_a_name" in on_terminal(me, "report", directory, columns=200)
    # what a script reads has them whole
    done = me.iprobe("report", directory)
    assert done.returncode == 0, repr(done)
    assert (
        "a_function_with_a_name" in done.stdout and "std::vector<std::pair<int, " in done.stdout
    ), done.stdout


def test_callers_fit(me):
    """The arrow in front of a caller is no bracket of a template."""
    trace = tracegen.Trace()
    t = trace.thread()
    for name in ("caller_of_it", PUSH_BACK):
        trace.add(name)
        t.call(name)
        t.advance(100)
    t.ret()
    t.ret()
    shown = on_terminal(me, "report", "--by-caller", trace.write(me.dir() / "trace"), columns=130)
    assert "std::vector<...>::push_back <- caller_of_it (around)" in shown, shown


def on_terminal(me, *args, columns):
    """What iprobe prints on a terminal so wide."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    proc = me.popen([me.iprobe_path, *args], stdout=slave)
    os.close(slave)
    shown = b""
    try:
        while piece := os.read(master, 65536):
            shown += piece
    except OSError:
        pass  # the other side has closed it
    os.close(master)
    assert proc.wait(timeout=60) == 0
    return shown.decode()


def test_selections_that_are_mistakes(me):
    """An item that matches nothing among others is told; an empty selection is refused."""
    trace = tracegen.random_trace(7)
    directory = trace.write(me.dir() / "trace")
    done = me.iprobe("report", "--json", "-f", "leaf,laef,lib:none", directory)
    assert done.returncode == 0 and "nothing matches laef, lib:none" in done.stderr, repr(done)
    done = me.iprobe("report", "--json", "-f", "le*,leaf,!main", directory)
    assert done.returncode == 0 and not done.stderr, repr(done)
    # several add up, also one that is a file
    together = me.iprobe("report", "--json", "-f", "le*,main", directory)
    items = me.dir() / "items"
    items.write_text("main\n")
    for apart in (["-f", "le*", "-f", "main"], ["-f", f"@{items}", "-f", "le*"]):
        done = me.iprobe("report", "--json", *apart, directory)
        assert done.returncode == 0 and done.stdout == together.stdout, repr(done)
    done = me.iprobe("report", "-f", "main", "-f", "@/nowhere", directory)
    assert done.returncode == 2 and "@/nowhere" in done.stderr, repr(done)
    for args in (
        ["report", "-f", ""],
        ["dump", "-f", " "],
        ["list", "-f", ""],
        ["attach", "-f", ""],
    ):
        done = me.iprobe(*args, directory)
        assert done.returncode == 2 and "-f is empty" in done.stderr, repr(done)


def test_info(me):
    trace = tracegen.random_trace(3)
    directory = trace.write(me.dir() / "trace")
    done = me.iprobe("info", "--json", directory)
    assert done.returncode == 0, repr(done)
    info = json.loads(done.stdout)
    assert (
        info["host"] == "test\thost" and info["command"] == "./demo --now" and info["pid"] == 1000
    )
    assert (
        info["events"] == trace.events
        and info["lost"] == 0
        and info["threads"] == len(trace.threads)
    )
    assert (
        info["tsc_hz"] == trace.hz
        and info["ended"]
        and info["end"] == "done"
        and not info["damaged"]
    )
    assert info["modules"][0]["build_id"] == "00aabbcc" and info["modules"][0]["functions"] == 8
    assert info["stops"] == [
        {"kind": "attach", "ts": 385, "stop_us": 345.678, "threads": 3, "pages": 7, "sites": 42}
    ]
    text = me.iprobe("info", directory).stdout
    for word in ("00aabbcc", "./demo --now", "2023-11-14T22:13:20.123456789Z", "346 us"):
        assert word in text


def test_a_recording_that_was_cut_off(me):
    """No last lines, half a line, half a packet: what is there is shown, and that it was cut
    off.
    """
    trace = tracegen.random_trace(4)
    trace.ended = False
    directory = trace.write(me.dir() / "trace")
    whole = report(me, directory)
    assert whole["events"] == trace.events and not whole["ended"]
    assert ", none lost so far, " in me.iprobe("report", directory).stdout
    session = directory / "iprobe" / "session"
    session.write_text(session.read_text() + "function\t99")
    stream = directory / "stream-1"
    stream.write_bytes(stream.read_bytes()[:-1000])
    done = me.iprobe("report", "--json", directory)
    assert done.returncode == 0
    assert "cut off" in done.stderr and "stream-1" in done.stderr
    shown = json.loads(done.stdout)
    assert whole["events"] - 1000 / 8 <= shown["events"] < whole["events"] and shown["damaged"]


def test_a_reader_that_stops_reading(me):
    directory = tracegen.random_trace(5, steps=20000).write(me.dir() / "trace")
    command = me.argv([me.iprobe_path, "dump", directory])
    done = subprocess.run(
        ["sh", "-c", '"$@" 2>err | head -1; cat err', "sh", *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=me.dir(),
    )
    assert len(done.stdout.splitlines()) == 1 and not done.stderr


def damaged_copies(directory, where, rng, count):
    """Copies with a byte flipped, bytes overwritten, or cut off."""
    files = [p for p in directory.rglob("*") if p.is_file() and p.name != "metadata"]
    for n in range(count):
        copy = where / f"copy-{n}"
        shutil.copytree(directory, copy)
        path = copy / rng.choice(files).relative_to(directory)
        data = bytearray(path.read_bytes())
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        for _ in range(rng.choice([1, 1, 4, 40])):
            if data:
                at = rng.randrange(min(len(data), rng.choice([100, 400, len(data)])))
                data[at] = rng.choice(
                    [0, 255, data[at] ^ 1 << rng.randrange(8), rng.randrange(256)]
                )
        path.write_bytes(data)
        yield copy
        shutil.rmtree(copy)


@pytest.mark.parametrize("seed", SEEDS)
def test_damage(me, seed):
    rng = random.Random(seed)
    directory = tracegen.random_trace(seed, steps=60, capacity=30).write(me.dir() / "trace")
    for copy in damaged_copies(directory, me.dir(), rng, 40):
        for command in (["report"], ["report", "--json"], ["dump"], ["dump", "--json"], ["info"]):
            done = me.iprobe(*command, copy, timeout=20)
            if done.returncode:
                one_line(done)
            elif "--json" in command:
                for line in done.stdout.splitlines():
                    json.loads(line)

# SPDX-License-Identifier: Apache-2.0
"""
Calls that were open when their thread ended count until then, in every view: on traces whose
calls are known (test/tracegen.py; its random ones, which the other tests read, have such
threads, too), and on threads that end in the middle of their calls.
"""

import json
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402

SECOND = 1_000_000_000
NESTED = ["b1", "b2", "b3", "b4", "b5"]


def short_life(ends=True, unseen=3000):
    """
    A recording of 60 s by a clock of 1 GHz: a thread works all the time; another one makes five
    nested calls, 100 ns each, is seen 2 us later for the last time, and is known to be gone 3 us
    after that.
    """
    trace = tracegen.Trace(hz=SECOND)
    trace.ends = ends
    steady = trace.thread(0, 1000)
    steady.call("main")
    trace.now += SECOND
    short = trace.thread(1, 2000, stack=tracegen.STACK - 0x1000000)
    for name in NESTED:
        short.call(name)
        trace.now += 100
    trace.now += 1900
    if ends:
        short.die(unseen)
    else:
        short.finish(short.last_ts)
    for _ in range(59):
        steady.advance(SECOND)
        steady.call("work")
        steady.advance(100)
        steady.ret()
    return trace


LENGTHS = {name: 2400 - 100 * i for i, name in enumerate(NESTED)}


def json_of(me, command, directory, *options):
    done = me.iprobe(command, "--json", *options, directory)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def totals(me, directory, *options):
    return {
        f["function"]: f["total_ns"]
        for f in json_of(me, "report", directory, *options)["functions"]
    }


def export(me, directory, form):
    done = me.iprobe("export", "--format", form, directory)
    assert done.returncode == 0, repr(done)
    return done.stdout


def check_views(me, directory, lengths, until):
    """lengths: of the nested calls. until: how long after its call main goes on."""
    shown = totals(me, directory)
    assert {name: shown[name] for name in NESTED} == lengths
    assert shown["main"] == until
    rows = json_of(me, "report", directory, "--by", "thread")["rows"]
    assert {r["tid"]: r["total_ns"] for r in rows} == {1000: until, 2000: lengths["b1"]}
    nodes = json_of(me, "graph", directory)["nodes"]
    assert {n["function"]: n["total_ns"] for n in nodes if n["function"] in lengths} == lengths
    assert (
        me.iprobe("dump", "-f", "b*", "--min-duration", f"{lengths['b1'] + 1}ns", directory).stdout
        == ""
    )
    assert (
        len(
            me.iprobe(
                "dump", "-f", "b*", "--min-duration", f"{lengths['b3']}ns", directory
            ).stdout.splitlines()
        )
        == 3
    )
    assert not {f["function"] for f in json_of(me, "hist", directory)["functions"]} & set(NESTED)
    open_since, chrome = {}, {}
    for e in json.loads(export(me, directory, "chrome"))["traceEvents"]:
        if e["ph"] == "B":
            open_since[e["name"]] = e["ts"]
        elif e["ph"] == "E":
            chrome[e["name"]] = round(1000 * (e["ts"] - open_since[e["name"]]))
    assert {name: chrome[name] for name in NESTED} == lengths
    own = {name: 100 for name in NESTED} | {"b5": lengths["b5"]}
    own = {name: ns for name, ns in own.items() if ns}
    folded = [line.rpartition(" ") for line in export(me, directory, "folded").splitlines()]
    assert {way.rpartition(";")[2]: int(ns) for way, _, ns in folded if way.startswith("b1")} == own
    page = export(me, directory, "html")
    data = json.loads(
        re.findall(
            r'<script type="application/json" id="data">\n(.*?)\n</script>', page, re.DOTALL
        )[0]
    )
    bars = {
        data["functions"][row["stays"][i + 2]]["name"]: row["stays"][i + 1]
        for row in data["timeline"]["rows"]
        for i in range(0, len(row["stays"]), 3)
    }
    assert {name: bars[name] for name in NESTED} == lengths


def test_a_short_life_in_a_long_recording(me):
    trace = short_life()
    directory = trace.write(me.dir() / "trace")
    check_views(me, directory, LENGTHS, trace.now - trace.start)
    info = json_of(me, "info", directory)
    assert (info["threads"], info["threads_ended"], info["threads_ended_within_ns"]) == (2, 1, 3000)
    assert "when is known to within 3.00 us" in me.iprobe("info", directory).stdout
    text = me.iprobe("report", directory).stdout
    assert (
        "6 calls had not finished when their thread or the recording ended" in text
        and "up to 3.00 us before" in text
    )


def test_a_trace_that_does_not_tell_of_ends(me):
    """One of an older iprobe: up to the last event of each thread."""
    trace = short_life(ends=False)
    directory = trace.write(me.dir() / "trace")
    check_views(
        me,
        directory,
        {name: 400 - 100 * i for i, name in enumerate(NESTED)},
        trace.threads[0].last_ts - trace.start,
    )
    assert "threads_ended" not in json_of(me, "info", directory)
    assert "does not tell when threads ended" in me.iprobe("report", directory).stdout


def test_the_footer_is_about_what_is_shown(me):
    directory = short_life().write(me.dir() / "trace")
    for selection, unfinished in (("main", 1), ("b*", 5), ("b1,main", 2), ("work", 0)):
        for options in ([], ["--by", "thread"], ["--by-caller"]):
            assert (
                json_of(me, "report", directory, "-f", selection, *options)["unfinished"]
                == unfinished
            ), (selection, options)
            assert (
                "had not finished"
                in me.iprobe("report", "-f", selection, *options, directory).stdout
            ) == bool(unfinished)


def test_an_id_is_used_again_in_the_same_stream(me):
    trace = tracegen.Trace(hz=SECOND)
    for _ in range(3):
        thread = trace.thread(0, 1234)
        thread.call("life")
        trace.now += 1000
        thread.die(50)
        trace.now += SECOND
    trace.thread(1, 1).call("main")
    trace.now += 7
    directory = trace.write(me.dir() / "trace")
    assert totals(me, directory) == {"life": 3000, "main": 7}
    info = json_of(me, "info", directory)
    assert (info["threads"], info["threads_ended"], info["threads_ended_within_ns"]) == (2, 3, 50)


def test_an_end_that_is_told_twice(me):
    """By an iprobe that was killed behind it, and by the one that went on."""
    trace = tracegen.Trace(hz=SECOND)
    thread = trace.thread(0, 1234)
    thread.call("life")
    trace.now += 1000
    thread.die(50)
    trace.packet(0, [], trace.now, trace.now + 90, thread.pid, thread.tid)
    trace.now += SECOND
    trace.thread(1, 1).call("main")
    trace.now += 7
    directory = trace.write(me.dir() / "trace")
    assert totals(me, directory) == {"life": 1000, "main": 7}
    info = json_of(me, "info", directory)
    assert (info["threads"], info["threads_ended"], info["threads_ended_within_ns"]) == (2, 1, 90)


def test_parts_keep_the_ends(me):
    folder = me.dir()
    for ends in (True, False):
        trace = short_life(ends)
        directory = trace.write(folder / f"trace-{ends}")
        lengths = totals(me, directory)
        (whole,) = json_of(me, "trim", directory, "-o", folder / f"whole-{ends}")["parts"]
        assert totals(me, whole["dir"]) == lengths
        # in the middle of the thread's life: it goes on there, though its own last event may lie
        # before
        json_of(me, "trim", directory, "--to", f"{SECOND + 349}ns", "-o", folder / f"begin-{ends}")
        shown = totals(me, folder / f"begin-{ends}")
        assert [shown[name] for name in NESTED[:4]] == [350, 250, 150, 50]
        json_of(me, "trim", directory, "--from", f"{SECOND + 250}ns", "-o", folder / f"rest-{ends}")
        shown = totals(me, folder / f"rest-{ends}")
        assert [shown[name] for name in NESTED[3:]] == [lengths["b4"], lengths["b5"]]


CASES = {
    "thread": [],
    "leader": [],
    "child": ["--follow-fork"],
    "killed": ["--follow-fork"],
    "exec": [],
}
WAYS = {
    "": [],
    "compressed": ["--compress"],
    "rotated": ["--rotate", "4"],
    "overwritten": ["--overwrite"],
}


@pytest.mark.parametrize(
    "how, way", [(how, "") for how in CASES] + [("thread", way) for way in WAYS if way]
)
def test_a_thread_that_ends_in_its_calls(actor, programs, how, way):
    directory = actor.dir() / "trace"
    done = actor.iprobe(
        "run", "-q", *CASES[how], *WAYS[way], "-o", directory, "--", programs.simple("ends"), how
    )
    assert done.returncode == 0, repr(done)
    life = int(re.search(r"life (\d+)", done.stdout)[1])
    shown = json_of(actor, "report", directory)
    found = {f["function"]: f for f in shown["functions"]}
    calls = [found[name] for name in ("outmost", "second", "third", "fourth", "inmost")]
    assert shown["unfinished"] == 5 and all(f["unfinished"] == f["calls"] == 1 for f in calls)
    times = [f["total_ns"] for f in calls]
    assert times == sorted(times, reverse=True)
    # it was in the inmost one for 300 ms; how long is known by when it was seen last
    assert times[0] <= life < shown["duration_ns"] - 400_000_000
    assert times[-1] > 0
    info = json_of(actor, "info", directory)
    assert info["threads_ended"] >= 1

# SPDX-License-Identifier: Apache-2.0
"""
The flight recorder: the newest events are kept, what they have replaced is counted exactly, a
snapshot is a trace like any other, and a target that crashes leaves its last moments.
"""

import json
import re
import signal

import pytest

from iptest import ctf, memory
from iptest.actor import last_words, one_line
from test_counting import own_counts


def info_of(actor, directory):
    done = actor.iprobe("info", "--json", directory)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def check_trace(actor, directory, summary):
    """Both readers find what was said to be there."""
    info = info_of(actor, directory)
    assert info["events"] == summary["events"] and info["overwritten"] == summary["overwritten"], (
        info,
        summary,
    )
    assert not info["damaged"]
    seen, _ = ctf.read_events(directory)
    assert sum(seen.values()) == summary["events"]
    report = actor.iprobe("report", "--json", directory)
    assert report.returncode == 0, repr(report)
    return seen


@pytest.mark.parametrize("threads,memory_size", [(1, "256K"), (2, "1M"), (8, "2M"), (8, "64K")])
def test_everything_is_accounted_for(actor, programs, threads, memory_size):
    directory = actor.dir() / "trace"
    done = actor.iprobe(
        "run",
        "--json",
        "--overwrite",
        "--memory",
        memory_size,
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-t",
        threads,
        "-n",
        400000 // threads,
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    _, total = own_counts(done.stdout)
    assert summary["events"] + summary["overwritten"] + summary["lost"] == 2 * total
    assert summary["events"] > 0 and summary["overwritten"] > 0
    if threads == 1:
        assert summary["lost"] == 0
    check_trace(actor, directory, summary)
    # the newest events are of a part of the time, which each view tells
    report = json.loads(actor.iprobe("report", "--json", directory).stdout)
    assert 0 < report["kept_ns"] < report["duration_ns"]
    for command in ("report", "graph", "info"):
        text = actor.iprobe(command, directory).stdout
        assert re.search(r" [0-9.]+ [mu]?s, the last [0-9.]+ [mu]?s kept\b", text), text
    if report["orphan_exits"]:
        told = actor.iprobe("report", directory).stdout
        assert re.search(r"exits? of calls that began before what is kept (is|are) not", told), told
    if threads == 1:
        steps = actor.iprobe("dump", "--json", directory).stdout.splitlines()
        info = json.loads(actor.iprobe("info", "--json", directory).stdout)
        first = min(json.loads(step)["ts"] for step in steps)
        assert info["kept_ns"] < info["duration_ns"] and info["kept_ns"] == report["kept_ns"]
        last = max(json.loads(step)["ts"] for step in steps)
        assert last - first <= report["kept_ns"]


def test_nothing_is_overwritten_where_all_fits(me, programs):
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--json",
        "--overwrite",
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-t",
        2,
        "-n",
        2000,
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    calls, total = own_counts(done.stdout)
    assert (summary["events"], summary["overwritten"], summary["lost"]) == (2 * total, 0, 0)
    seen = check_trace(me, directory, summary)
    for function, n in calls.items():
        assert seen["func_entry", "count", function] == n


def test_snapshots_while_it_goes_on(actor, programs, targets):
    """Each is a trace; the program computes on; the session ends as ever, with the last window."""
    target = targets.steady(actor, programs.simple("steady"))
    directory = actor.dir() / "trace"
    session = actor.start_iprobe(
        "attach", target.pid, "--json", "--overwrite", "--memory", "1M", "-o", directory
    )
    memory.wait_until_live(target.pid, session)
    target.wait_for_progress()
    before = 0
    for _ in range(3):
        target.wait_for_progress()
        place = actor.dir() / "snapshot"
        done = actor.iprobe("snapshot", "--json", "-o", place, target.pid)
        assert done.returncode == 0, repr(done)
        snapshot = json.loads(done.stdout)
        assert snapshot["events"] > 0 and snapshot["overwritten"] >= before
        before = snapshot["overwritten"]
        check_trace(actor, place, snapshot)
    target.wait_for_progress()
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["overwritten"] >= before
    check_trace(actor, directory, summary)
    memory.assert_untouched(target.pid)
    target.finish()


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT], ids=lambda n: n.name
)
def test_a_crash_leaves_the_last_moments(me, programs, targets, number):
    target = targets.steady(me, programs.simple("steady"))
    directory = me.dir() / "trace"
    session = me.start_iprobe(
        "attach", target.pid, "--json", "--overwrite", "--memory", "1M", "-o", directory
    )
    memory.wait_until_live(target.pid, session)
    target.wait_for_progress()
    target.proc.send_signal(number)
    target.proc.wait()
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["events"] > 0
    check_trace(me, directory, summary)


def test_what_a_snapshot_needs(me, programs, targets):
    """No session; one that keeps everything; the session's own directory."""
    target = targets.steady(me, programs.simple("steady"))
    one_line(me.iprobe("snapshot", "-o", me.dir() / "none", target.pid))
    directory = me.dir() / "trace"
    for options, place, why in (
        ([], me.dir() / "snapshot", "keeps everything"),
        (["--overwrite"], directory, "itself writes"),
    ):
        session = me.start_iprobe("attach", target.pid, *options, "-o", directory)
        memory.wait_until_live(target.pid, session)
        done = me.iprobe("snapshot", "-o", place, target.pid)
        one_line(done)
        assert done.returncode == 1 and why in done.stderr, repr(done)
        session.send_signal(signal.SIGINT)
        assert last_words(session).returncode == 0
        memory.assert_untouched(target.pid)
    target.finish()

# SPDX-License-Identifier: Apache-2.0
"""iprobe hist PID: histograms of a session that goes on, against a program that counts its own
calls.
"""

import json
import pathlib
import signal

import pytest

from iptest import memory
from iptest.actor import last_words, one_line

from test_counting import own_counts


@pytest.fixture
def start(actor, programs, targets):
    """A recorded target; its session."""
    sessions = []

    def attach(*options):
        target = targets.start(actor, [programs.simple("count"), "-w", "-t", "2", "-n", "20000"])
        session = actor.start_iprobe(
            "attach", target.pid, "--json", *options, "-o", actor.dir() / "trace"
        )
        sessions.append(session)
        memory.wait_until_live(target.pid, session)
        return target, session

    yield attach
    for session in sessions:
        if session.poll() is None:
            session.send_signal(signal.SIGINT)
            last_words(session)


def work(target):
    """The program does its work; what it says that it called."""
    target.say()
    lines = []
    while not lines or not lines[-1].startswith("calls "):
        lines.append(target.proc.stdout.readline())
        assert lines[-1], "the target ended early"
    return {f: n for f, n in own_counts("".join(lines))[0].items() if n}


def end(target, session):
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    target.say()
    target.finish()


def test_up_to_now(actor, start):
    """Not up to when counts were last written: what has returned when we ask is there."""
    target, session = start("--payload", "hist")
    assert "has ended yet" in one_line(actor.iprobe("hist", target.pid))
    calls = work(target)
    done = actor.iprobe("hist", "--json", target.pid)
    assert done.returncode == 0, repr(done)
    shown = json.loads(done.stdout)
    assert shown["pid"] == target.pid and shown["dir"].endswith("/trace") and shown["ts"] > 0
    assert {f["function"]: f["calls"] for f in shown["functions"]} == calls
    for f in shown["functions"]:
        assert f["payload"] == "hist" and sum(b["calls"] for b in f["buckets"]) == f["calls"]
        assert f["min_ns"] <= f["max_ns"]
    done = actor.iprobe("hist", "-f", "leaf,half", target.pid)
    assert (
        done.returncode == 0 and done.stdout.count(" in the mean") == 2 and "< peak" in done.stdout
    )
    assert session.poll() is None
    end(target, session)
    assert "no such process" in one_line(actor.iprobe("hist", target.pid))


def test_again_and_again(actor, start):
    """One document each time; the end of the session is no error."""
    target, session = start("--payload", "hist")
    calls = work(target)
    watcher = actor.start_iprobe("hist", "--json", "--interval", "20ms", target.pid)
    for _ in range(3):
        assert {
            f["function"]: f["calls"] for f in json.loads(watcher.stdout.readline())["functions"]
        } == calls
    end(target, session)
    assert last_words(watcher).returncode == 0


def test_interval_by_interval(actor, targets, programs):
    """Each document has the calls that ended in its interval, all together those of the program;
    what became slow is told when it does.
    """
    program = programs.simple("changing_latency", placement="fentry")
    target = targets.start(actor, [program, "-w", "15000", "2000"])
    session = actor.start_iprobe(
        "attach", target.pid, "-q", "--payload", "hist", "-o", actor.dir() / "trace"
    )
    memory.wait_until_live(target.pid, session)
    words = ["hist", target.pid, "--interval", "500ms", "--over-time", "-f", "handle,steady"]
    watcher = actor.start_iprobe(*words, "--json")
    lines = actor.start_iprobe(*words)
    first = json.loads(watcher.stdout.readline())
    assert not first["functions"] and first["pid"] == target.pid  # it waits for stdin
    target.say()
    said = json.loads(target.proc.stdout.readline())
    target.finish()
    assert last_words(session).returncode == 0
    done = last_words(watcher)
    assert done.returncode == 0, repr(done)
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    calls = {"handle": 0, "steady": 0}
    changes = []
    for document in documents:
        # the last one ends with the session
        assert document is documents[-1] or document["interval_ns"] > 400e6
        for f in document["functions"]:
            calls[f["function"]] += f["calls"]
            assert f["calls"] == sum(b["calls"] for b in f["buckets"])
            if f["function"] == "handle":
                changes.append((f["changed"], f["distance_bins"], f["calls"]))
    assert calls["steady"] == said["steady"]
    assert calls["handle"] == said["reads"] + said["fast_writes"] + said["slow_writes"]
    # half of the calls move by five bins
    assert any(changed and distance > 1 for changed, distance, _ in changes), changes
    assert [ts["ts"] for ts in documents] == sorted(ts["ts"] for ts in documents)
    done = last_words(lines)
    assert done.returncode == 0 and "in bins" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.endswith((" handle", " steady"))]
    # this one may have begun to look when some had been made
    shown = sum(int(line.split()[2].replace(",", "")) for line in rows)
    assert 0 < shown <= sum(calls.values())


def test_refusals(actor, start, targets, programs):
    target = targets.start(actor, [programs.simple("count"), "-w"])
    assert "has no session" in one_line(actor.iprobe("hist", target.pid))
    target, session = start()
    assert "keeps no histograms" in one_line(actor.iprobe("hist", target.pid))
    work(target)
    end(target, session)
    assert actor.iprobe("hist", 2**22 + 1).returncode == 1


def test_counts_are_saved_as_often_as_is_asked_for(actor, start):
    """Without the option there is a second between them at least."""
    target, session = start("--payload", "hist", "--save-counts", "50ms")
    work(target)
    shown = json.loads(actor.iprobe("hist", "--json", target.pid).stdout)
    counts = pathlib.Path(shown["dir"], "iprobe", "counts")
    times = [counts.stat().st_mtime_ns]

    def soon_after_each_other():
        now = counts.stat().st_mtime_ns
        if now != times[-1]:
            times.append(now)
        return any(b - a < 500e6 for a, b in zip(times[1:], times[2:]))

    memory.wait_for("they are not saved", soon_after_each_other, 30)
    end(target, session)


@pytest.mark.parametrize(
    "options",
    [["--save-counts", "50ms"], ["--payload", "hist", "--save-counts", "1ms"]],
    ids=["what counts", "too often"],
)
def test_saving_that_is_refused(me, options):
    assert me.iprobe("attach", *options, "1").returncode == 2


@pytest.mark.parametrize(
    "args",
    [["--interval", "0", "1"], ["--over-time", "1"], ["--tid", "3", "1"], ["--diff", "x", "1"]],
    ids=" ".join,
)
def test_wrong_usage(me, args):
    assert me.iprobe("hist", *args).returncode == 2

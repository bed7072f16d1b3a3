# SPDX-License-Identifier: Apache-2.0
"""iprobe top --kernel: what functions wait for, live."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from test_wait import instances, skip_without_events

from iptest import memory
from iptest.actor import last_words
from iptest.terminal import Terminal


@pytest.fixture
def traced(root):
    """An actor that may record kernel events."""
    skip_without_events(root)
    return root


@pytest.fixture
def waiting(targets, traced, programs):
    return targets.start(traced, [programs.simple("open_waits", placement="fentry")], preload=False)


def top(actor, target, *options):
    done = actor.iprobe("top", "--kernel", "-d", "500ms", *options, target.pid)
    assert done.returncode == 0, repr(done)
    return done


def functions(line):
    return {f["function"]: f for f in line["functions"]}


def is_of(f, kind, name):
    """The longest wait is for that. A busy machine may have it wait longer for a CPU."""
    longest = [o for o in f["wait"]["for"] if o["kind"] != "runqueue"][0]
    return longest["kind"] == kind and longest["object"].startswith(name)


def check(line):
    """Each function waits for what it is known to wait for; the parts sum up."""
    found = functions(line)
    kernel = line["kernel"]
    assert kernel["lost"] == 0 and kernel["without"] == 0
    assert 0 < kernel["kept_ns"] <= line["interval_ns"]
    for f in found.values():
        w = f["wait"]
        assert w["unknown_ns"] == 0, f
        assert abs(w["cpu_ns"] + w["waited_ns"] - w["elapsed_ns"]) <= 1000, f
        assert sum(o["ns"] for o in w["for"]) <= w["waited_ns"] + 1000, f
        assert sum(o["idle_ns"] for o in w["for"]) <= w["idle_ns"] + 1000, f
        assert w["idle_ns"] <= w["waited_ns"] + 1000, f
    assert is_of(found["want"], "futex", "&db") and found["want"]["wait"]["percent"] > 95
    assert is_of(found["hold"], "timer", "clock_nanosleep")
    assert is_of(found["look"], "timer", "poll") and found["look"]["wait"]["percent"] > 80
    # it asks for work; the others wait for something that work needs
    look = found["look"]["wait"]
    queued = sum(o["ns"] for o in look["for"] if o["kind"] == "runqueue")
    assert look["idle_ns"] > 0.8 * (look["waited_ns"] - queued), look
    assert not found["want"]["wait"]["idle_ns"]
    # it computes: what it waits for, if for anything, is a CPU
    assert {o["kind"] for o in found["work"]["wait"]["for"]} <= {"runqueue", "fault"}
    return found


def test_what_each_waits_for(traced, waiting):
    done = top(traced, waiting, "--json", "-n", "3")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 3
    for line in lines:
        found = check(line)
        for name in ("want", "hold", "look", "work"):
            f = found[name]
            assert f["calls"] > 0 and f["total_ns"] > 0 and line["logged"] == 0
        # two ways to measure the same: calls that end in the interval, and all of it
        assert 0.5 < found["look"]["total_ns"] / found["look"]["wait"]["elapsed_ns"] < 2
        kept = line["kernel"]["kept_ns"]
        assert 0.8 * kept < found["look"]["wait"]["elapsed_ns"] <= kept + 1000
    memory.assert_untouched(waiting.pid)


def test_a_call_that_does_not_end(traced, waiting):
    proc = traced.start_iprobe(
        *("top", "--kernel", "--json", "-d", "300ms", "-f", "stuck,look", waiting.pid)
    )
    try:
        memory.wait_until_live(waiting.pid, proc)
        assert "stuck" not in functions(json.loads(proc.stdout.readline()))
        waiting.proc.send_signal(signal.SIGUSR1)
        seen = 0
        for line in map(json.loads, proc.stdout):
            stuck = functions(line).get("stuck")
            seen += bool(stuck)
            # it neither begins nor ends in this one
            if seen == 2:
                break
    finally:
        proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    assert stuck["wait"]["open"] == 1 and stuck["wait"]["percent"] > 99
    assert abs(stuck["wait"]["elapsed_ns"] - line["interval_ns"]) < 1000
    assert is_of(stuck, "signal", "pause")


def test_as_a_table(traced, waiting):
    done = top(traced, waiting, "-b", "-n", "2", "--sort", "wait")
    head, *rows = done.stdout.split("\n\n")[-1].splitlines()[1:]
    assert "%WAIT" in head and "*FOR" in head and head.endswith("FUNCTION"), head
    found = {row.split("  ")[-1].split()[0]: row for row in rows}
    assert "futex &db" in found["want"] and "idle: timer poll" in found["look"], rows
    assert any("(1 open)" in row for row in rows), rows
    assert rows.index(found["want"]) < rows.index(found["look"]), rows
    done = top(traced, waiting, "-b", "-n", "2", "--sort", "wait", "--idle")
    rows = done.stdout.split("\n\n")[-1].splitlines()[2:]
    assert "idle" not in done.stdout and rows[-1].split("  ")[-1].split()[0] == "work", rows
    # a line of its own for each that is missing
    done = traced.iprobe("top", "--sort", "wait", waiting.pid)
    assert done.returncode == 2 and "add --kernel" in done.stderr
    done = traced.iprobe("top", "--idle", waiting.pid)
    assert done.returncode == 2 and "add that option" in done.stderr
    done = traced.iprobe("top", "--kernel-buffer", "1M", waiting.pid)
    assert done.returncode == 2 and "add that option" in done.stderr
    done = traced.iprobe("top", "--kernel", "--kernel-buffer", "1", waiting.pid)
    assert done.returncode == 2 and "from 64K to 1G" in done.stderr


def test_the_screen(traced, waiting):
    t = Terminal(traced, "top", "--kernel", "-d", "300ms", waiting.pid)
    try:
        t.wait_text("%WAIT")
        t.wait_text("futex &db")
        for _ in range(6):
            t.press("s")
        t.wait_text("*FOR")
        t.press("t")  # since the beginning: nothing of that is known
        t.wait("still there", lambda _: "%WAIT" not in "\n".join(t.rows))
        t.press("t")
        t.wait_text("%WAIT")
        t.press("T")
        t.wait("still there", lambda _: "%WAIT" not in "\n".join(t.rows))
        t.press("q")
        assert t.wait_end()[0] == 0
    finally:
        t.close()
    memory.assert_untouched(waiting.pid)


def test_the_screen_without(traced, waiting):
    """Its keys pass over a column that is not there."""
    t = Terminal(traced, "top", "-d", "300ms", waiting.pid)
    try:
        t.wait_text("*SELF")
        t.press("S")
        t.press("S")
        t.press("S")
        t.wait_text("*FUNCTION")
        t.press("S")
        t.wait_text("*MAX")
        t.press("q")
        assert t.wait_end()[0] == 0
    finally:
        t.close()


def test_several_processes(traced, targets, programs, waiting):
    other = targets.start(
        traced, [programs.simple("open_waits", placement="fentry")], preload=False
    )
    options = ("top", "--kernel", "--json", "-d", "500ms", "-n", "2")
    done = traced.iprobe(*options, waiting.pid, other.pid)
    assert done.returncode == 0, repr(done)
    line = json.loads(done.stdout.splitlines()[-1])
    found = check(line)
    assert found["look"]["wait"]["elapsed_ns"] > 1.5 * line["interval_ns"]
    assert len([o for o in found["want"]["wait"]["for"] if o["kind"] == "futex"]) == 1
    done = traced.iprobe(*options, "--by", "process", waiting.pid, other.pid)
    assert done.returncode == 0, repr(done)
    line = json.loads(done.stdout.splitlines()[-1])
    own = [f for f in line["functions"] if f["function"] == "look"]
    assert {f["pid"] for f in own} == {waiting.pid, other.pid}
    for f in own:
        assert f["wait"]["elapsed_ns"] <= line["interval_ns"] and is_of(f, "timer", "poll")
    for pid in (waiting.pid, other.pid):
        memory.assert_untouched(pid)


def test_a_session_of_another_command(traced, waiting):
    directory = traced.dir() / "trace"
    session = traced.start_iprobe(
        *("attach", waiting.pid, "-q", "--payload", "hist", "-o", directory)
    )
    memory.wait_until_live(waiting.pid, session)
    done = top(traced, waiting, "--json", "-n", "2")
    assert done.stderr.count("1 process without waits: the session was begun by another") == 1
    for line in map(json.loads, done.stdout.splitlines()):
        assert line["joined"] and line["functions"]
        assert all("wait" not in f for f in line["functions"])
    session.send_signal(signal.SIGINT)
    assert last_words(session).returncode == 0


def test_without_the_right(user, targets, programs):
    """One line says what is missing, and the rest is there."""
    target = targets.start(user, [programs.simple("open_waits", placement="fentry")], preload=False)
    done = user.iprobe("top", "--kernel", "-b", "-n", "1", "-d", "300ms", target.pid)
    assert done.returncode == 0, repr(done)
    told = [line for line in done.stderr.splitlines() if "no waits are shown" in line]
    assert len(told) == 1, done.stderr
    assert "%WAIT" not in done.stdout and "look" in done.stdout
    memory.assert_untouched(target.pid)


def child_of(pid):
    """The process of the session."""
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    found = [int(p) for p in text.split() if instances(int(p))]
    assert len(found) == 1, text
    return found[0]


def test_lost_events_are_not_nothing(traced, waiting):
    """Its session cannot read them for a while."""
    proc = traced.start_iprobe(
        *("top", "--kernel", "--kernel-buffer", "64K", "--json", "-d", "1s", waiting.pid)
    )
    try:
        memory.wait_until_live(waiting.pid, proc)
        session = child_of(proc.pid)
        first = json.loads(proc.stdout.readline())
        assert first["kernel"]["lost"] == 0
        os.kill(session, signal.SIGSTOP)
        # so much happens meanwhile that the room is filled several times
        with subprocess.Popen(["sh", "-c", "while :; do /bin/true; done"]) as busy:
            time.sleep(3)
            busy.kill()
        os.kill(session, signal.SIGCONT)
        lines = []
        for line in map(json.loads, proc.stdout):
            lines.append(line)
            if line["kernel"]["lost"] or len(lines) > 20:
                break
    finally:
        proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    assert lines[-1]["kernel"]["lost"] > 0, lines
    look = functions(lines[-1])["look"]["wait"]
    assert look["unknown_ns"] > 0 and "percent" not in look, look
    memory.assert_untouched(waiting.pid)


def test_it_is_killed(traced, waiting):
    proc = traced.start_iprobe("top", "--kernel", "--json", "-d", "200ms", waiting.pid)
    memory.wait_until_live(waiting.pid, proc)
    session = child_of(proc.pid)
    proc.kill()
    proc.wait()
    limit = time.monotonic() + 30
    while instances(session) or pathlib.Path(f"/proc/{session}").exists():
        assert time.monotonic() < limit
        time.sleep(0.1)
    memory.assert_untouched(waiting.pid)

# SPDX-License-Identifier: Apache-2.0
"""Events of the kernel in traces that keep their newest part: --rotate, --overwrite, snapshots."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from test_wait import instances, skip_without_events, source  # noqa: F401

from iptest import memory
from iptest.actor import last_words, one_line
from iptest.server import Server


@pytest.fixture
def traced(root, source):
    """An actor that may record kernel events, from each of their sources."""
    skip_without_events(root, source)
    return root


@pytest.fixture
def waiting(targets, traced, programs):
    return targets.start(traced, [programs.simple("open_waits", placement="fentry")], preload=False)


def record(actor, target, directory, *options):
    proc = actor.start_iprobe(
        *("attach", target.pid, "--json", "-q", "--kernel", "-o", directory, *options)
    )
    memory.wait_until_live(target.pid, proc)
    return proc


def size_for(actor, pid, least):
    """KiB that keep some seconds of this machine's events, whatever else runs and makes more of
    them: what is kept may be of the time behind the last call otherwise.
    """
    known = actor.dir() / "known"
    done = actor.iprobe(
        *("attach", pid, "--json", "-q", "--kernel", "--duration", "400ms", "-o", known)
    )
    assert done.returncode == 0, repr(done)
    return max(least, int(done.summary()["kernel"]["bytes"] / 0.4 * 5) >> 10)


def end(proc):
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    return done.summary()


def document(actor, *words):
    done = actor.iprobe(words[0], "--json", *words[1:])
    assert done.returncode == 0 and not done.stderr, repr(done)
    return json.loads(done.stdout)


def rows(actor, directory):
    return {f["function"]: f for f in document(actor, "wait", directory)["functions"]}


def segments(directory):
    """The numbers of the segments, by stream."""
    found = {}
    for path in (directory / "kernel").iterdir():
        match = re.fullmatch(r"((?:all|target|state)_\d+)-(\d+)", path.name)
        if match:
            found.setdefault(match[1], set()).add(int(match[2]))
    return found


def newest(directory):
    """On a busy machine a segment may be gone soon: which is the newest one?"""
    return max(segments(directory).get("state_0", ()), default=0)


def check_segments(directory):
    """They follow each other, and a stream that has begun is in each later one. The first one."""
    found = segments(directory)
    numbers = set().union(*found.values())
    assert numbers == set(range(min(numbers), max(numbers) + 1)), found
    for stream, own in found.items():
        assert own == set(range(min(own), max(numbers) + 1)), (stream, found)
    described = {int(path.name.split("-")[1]) for path in directory.glob("iprobe/descriptors-*")}
    assert described == numbers
    return min(numbers)


def count_events(directory):
    """As an independent reader counts them, which has nothing to complain of."""
    done = subprocess.run(
        ["babeltrace2", directory / "kernel"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.count("\n")


def parts(row):
    return (
        row["cpu_ns"]
        + row["runqueue_ns"]
        + row["unknown_ns"]
        + sum(b["ns"] for b in row["blocked"])
    )


def is_untold(blocked):
    """A wait in a call that began before its events are there."""
    return "was not recorded" in blocked["object"] or blocked["object"] == "futex"


def known_ns(row):
    """Of a function that waits for a lock: where the machine is busy, it waits for a CPU, too."""
    untold = sum(b["ns"] for b in row["blocked"] if is_untold(b))
    return row["elapsed_ns"] - row["unknown_ns"] - row["runqueue_ns"] - untold


def check_waits(actor, directory):
    """What is unknown lies before the first segment: behind it each wait is named. Its figures."""
    info = document(actor, "info", directory)
    assert info["kernel_events"]["lost"] == 0, info["kernel_events"]
    found = rows(actor, directory)
    for row in found.values():
        assert abs(parts(row) - row["elapsed_ns"]) <= max(1000, row["elapsed_ns"] / 1000), row
    want = found["want"]
    known = known_ns(want)
    futex = [b for b in want["blocked"] if b["kind"] == "futex" and not is_untold(b)]
    assert len(futex) == 1 and futex[0]["object"].startswith("&db"), want
    assert futex[0]["ns"] >= 0.8 * known > 0, want
    # it has waited since before the first segment began, and for what is told by its states
    stuck = found["stuck"]
    assert [(b["kind"], b["object"]) for b in stuck["blocked"]] == [("signal", "pause")], stuck
    return found


def wait_for(condition, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.1)


def get_stuck(target):
    """Its thread comes to wait within a function that records."""
    target.proc.send_signal(signal.SIGUSR1)
    time.sleep(0.3)


def test_rotated(traced, waiting):
    directory = traced.dir() / "trace"
    most = size_for(traced, waiting.pid, 1024)
    proc = record(traced, waiting, directory, "--rotate", "3", "--max-size", f"{most}K")
    get_stuck(waiting)
    wait_for(lambda: newest(directory) >= 4)
    summary = end(proc)
    assert summary["kernel"]["dropped"] > 0 and summary["kernel"]["lost"] == 0
    assert check_segments(directory) > 0
    size = sum(path.stat().st_size for path in directory.glob("kernel/[ats]*_*"))
    assert size < 1.5 * most * 1024
    found = check_waits(traced, directory)
    assert found["want"]["unknown_ns"] > 0
    assert count_events(directory) == summary["kernel"]["events"]
    assert summary["kernel"]["source"] == os.environ["IPROBE_KERNEL_SOURCE"]
    memory.assert_untouched(waiting.pid)
    assert not instances(proc.pid)


def test_each_segment_by_itself(traced, waiting):
    """Those before it are removed by hand: nothing of it becomes lost, or known less well."""
    directory = traced.dir() / "trace"
    most = size_for(traced, waiting.pid, 1024)
    proc = record(traced, waiting, directory, "--rotate", "4", "--max-size", f"{most}K")
    get_stuck(waiting)
    wait_for(lambda: len(segments(directory).get("state_0", ())) >= 3)
    end(proc)
    last = max(segments(directory)["state_0"])
    whole = rows(traced, directory)
    for number in range(check_segments(directory), last - 1):
        for path in directory.glob(f"kernel/*-{number}"):
            path.unlink()
        (directory / "iprobe" / f"descriptors-{number}").unlink()
        left = check_waits(traced, directory)
        assert left["want"]["unknown_ns"] > whole["want"]["unknown_ns"]
        whole = left
    # one that is left of older ones does not count
    before = document(traced, "wait", directory)
    stray = directory / "kernel" / f"all_0-{last - 3}"
    stray.write_bytes((directory / "kernel" / f"all_0-{last}").read_bytes())
    assert document(traced, "wait", directory) == before
    # a stream that misses one is read up to there: behind it nothing is known
    stray.unlink()
    missing = directory / "kernel" / f"all_0-{last - 1}"
    if missing.exists():
        missing.rename(directory / "iprobe" / "session.new")
        done = traced.iprobe("wait", directory)
        assert done.returncode == 0, repr(done)


def test_flight_recorder(traced, waiting):
    """A snapshot, another one, and what is written at the end have the newest events alone."""
    directory, first, second = (traced.dir() / name for name in ("trace", "first", "second"))
    most = size_for(traced, waiting.pid, 512)
    proc = record(traced, waiting, directory, "--overwrite", "--memory", f"{most}K")
    get_stuck(waiting)
    assert traced.iprobe("snapshot", waiting.pid, "-o", first).returncode == 0
    start = check_segments(first)
    check_waits(traced, first)
    told = document(traced, "info", first)["kernel_events"]["source"]
    assert told == os.environ["IPROBE_KERNEL_SOURCE"]
    wait_for(lambda: not segments(directory))

    def is_newer():
        shutil.rmtree(second, ignore_errors=True)
        assert traced.iprobe("snapshot", waiting.pid, "-o", second).returncode == 0
        return check_segments(second) > start

    wait_for(is_newer)
    found = check_waits(traced, second)
    assert found["want"]["unknown_ns"] > 0
    # nothing behind its beginning is unknown: the newest call of want is known whole
    slow = document(traced, "wait", "--of", "want", second)["calls"]
    assert slow
    assert segments(directory) == {}
    summary = end(proc)
    assert summary["kernel"]["dropped"] > 0 and summary["kernel"]["lost"] == 0
    assert check_segments(directory) >= check_segments(second)
    check_waits(traced, directory)
    assert count_events(directory) == summary["kernel"]["events"]
    assert summary["kernel"]["bytes"] <= 1.2 * most * 1024
    # a trace of that kind is recognized where it is replaced
    for _ in range(2):
        assert traced.iprobe("snapshot", waiting.pid, "-o", second).returncode == 1
        proc = record(traced, waiting, directory, "--overwrite", "--memory", "512K")
        end(proc)
    memory.assert_untouched(waiting.pid)


@pytest.fixture
def several(targets, traced, programs):
    program = programs.simple("open_waits", placement="fentry")
    return [targets.start(traced, [program], preload=False) for _ in range(2)]


def record_all(actor, several, directory, *options):
    proc = actor.start_iprobe(
        *("attach", *(target.pid for target in several), "--json", "--kernel"),
        *("-o", directory, *options),
    )
    for target in several:
        memory.wait_until_live(target.pid, proc)
        get_stuck(target)
    return proc


def check_waits_of_each(actor, directory, several):
    """As check_waits(). Both have waited since before the first segment began."""
    info = document(actor, "info", directory)
    assert info["kernel_events"]["lost"] == 0, info["kernel_events"]
    for target in several:
        told = document(actor, "wait", "--process", target.pid, directory)
        found = {f["function"]: f for f in told["functions"]}
        for row in found.values():
            assert abs(parts(row) - row["elapsed_ns"]) <= max(1000, row["elapsed_ns"] / 1000), row
        want = found["want"]
        known = known_ns(want)
        futex = [b for b in want["blocked"] if b["kind"] == "futex" and not is_untold(b)]
        assert len(futex) == 1 and futex[0]["object"].startswith("&db"), want
        assert futex[0]["ns"] >= 0.8 * known > 0, want
        assert want["unknown_ns"] > 0
        blocked = [(b["kind"], b["object"]) for b in found["stuck"]["blocked"]]
        assert blocked == [("signal", "pause")], found["stuck"]


def test_rotated_of_several(traced, several):
    """They are recorded once, in pieces of their own; each process keeps its own."""
    directory = traced.dir() / "trace"
    most = size_for(traced, several[0].pid, 2048)  # half of it is for events of the kernel
    proc = record_all(traced, several, directory, "--rotate", "3", "--max-size", f"{2 * most}K")
    wait_for(lambda: newest(directory) >= 4)
    summary = end(proc)
    assert summary["processes"] == 2
    assert summary["kernel"]["dropped"] > 0 and summary["kernel"]["lost"] == 0
    assert check_segments(directory) > 0
    size = sum(path.stat().st_size for path in directory.glob("kernel/[ats]*_*"))
    assert size < 1.25 * most * 1024
    check_waits_of_each(traced, directory, several)
    assert count_events(directory) == summary["kernel"]["events"]
    assert all((path / "iprobe" / "pieces").exists() for path in directory.glob("open_waits-*"))
    for target in several:
        memory.assert_untouched(target.pid)
    assert not instances(proc.pid)


def test_too_small_pieces_of_several(traced, several):
    directory = traced.dir() / "trace"
    words = ("--kernel", "--rotate", "8", "--max-size", "3M", "-o", directory)
    done = traced.iprobe("attach", *(target.pid for target in several), *words)
    line = one_line(done)
    assert "events of the kernel have 1572864 bytes in 8 pieces" in line, line
    assert not (directory / "kernel").exists()


def test_flight_recorder_of_several(traced, several):
    """What is written at the end has the newest events; nothing is written before."""
    directory = traced.dir() / "trace"
    most = size_for(traced, several[0].pid, 1024)
    proc = record_all(traced, several, directory, "--overwrite", "--memory", f"{most}K")
    time.sleep(8)
    assert segments(directory) == {}
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    assert "are in the trace at the end, and not in what iprobe snapshot writes" in done.stderr
    summary = done.summary()
    assert summary["kernel"]["dropped"] > 0 and summary["kernel"]["lost"] == 0, summary
    assert summary["kernel"]["bytes"] <= 1.2 * most * 1024
    assert check_segments(directory) > 0
    check_waits_of_each(traced, directory, several)
    assert count_events(directory) == summary["kernel"]["events"]
    assert not instances(proc.pid)


def test_a_child(traced, programs, targets):
    """Of what the target has forked, each later segment has the states, too."""
    server = Server(traced, programs, targets, workers=1)
    directory = traced.dir() / "trace"
    options = ("--follow-fork", "--rotate", "3", "--max-size", "1M")
    proc = traced.start_iprobe(
        *("attach", server.pid, "-q", "--json", "--kernel", "-o", directory, *options)
    )
    memory.wait_until_live(server.pid, proc)
    assert server.say("fork") is not None
    wait_for(lambda: newest(directory) >= 3)
    summary = end(proc)
    assert summary["kernel"]["lost"] == 0
    check_segments(directory)


def kill(proc):
    proc.kill()
    proc.wait()


def resume(actor, target, directory):
    """It goes on after a while; its first events are there."""
    time.sleep(1.5)
    before = segments(directory)
    proc = actor.start_iprobe(
        *("attach", target.pid, "--json", "-q", "--resume", "--kernel", "-o", directory)
    )
    wait_for(lambda: segments(directory).get("state_0", set()) > before.get("state_0", set()))
    time.sleep(2)
    assert proc.poll() is None, last_words(proc)
    return proc


def test_resumed(traced, waiting):
    """Between the one that was killed and the one that goes on nothing is known. Twice."""
    directory = traced.dir() / "trace"
    proc = record(traced, waiting, directory)
    get_stuck(waiting)
    time.sleep(2)
    first = proc.pid
    for n in range(2):
        kill(proc)
        proc = resume(traced, waiting, directory)
        assert not instances(first)
        assert segments(directory)["state_0"] == set(range(n + 1))
    summary = end(proc)
    assert summary["kernel"]["lost"] == 0 and summary["kernel"]["events"] > 0
    found = check_waits(traced, directory)
    for name in ("look", "want", "stuck"):
        row = found[name]
        # both gaps, and what had not been written yet
        assert 3e9 <= row["unknown_ns"] < 3e9 + 6e9, row
        assert row["elapsed_ns"] - row["unknown_ns"] > 3.5e9, row
    assert [b["count"] for b in found["stuck"]["blocked"]] >= [3], found["stuck"]
    # what was lost, and what is damaged, is another matter: no stream but one that was cut off
    done = traced.iprobe("wait", directory)
    assert done.returncode == 0 and "LOST" not in done.stdout
    memory.assert_untouched(waiting.pid)
    assert not instances(proc.pid)


def test_resumed_in_pieces(traced, waiting):
    directory = traced.dir() / "trace"
    most = size_for(traced, waiting.pid, 1024)
    proc = record(traced, waiting, directory, "--rotate", "4", "--max-size", f"{most}K")
    get_stuck(waiting)
    wait_for(lambda: len(segments(directory).get("state_0", ())) >= 2)
    kill(proc)
    proc = resume(traced, waiting, directory)
    summary = end(proc)
    assert summary["kernel"]["lost"] == 0
    check_segments(directory)
    check_waits(traced, directory)
    memory.assert_untouched(waiting.pid)


def test_resumed_flight_recorder(traced, waiting):
    directory, snapshot = traced.dir() / "trace", traced.dir() / "snapshot"
    most = size_for(traced, waiting.pid, 1024)
    proc = record(traced, waiting, directory, "--overwrite", "--memory", f"{most}K")
    get_stuck(waiting)
    kill(proc)
    proc = traced.start_iprobe(
        *("attach", waiting.pid, "--json", "-q", "--resume", "--kernel", "-o", directory)
    )
    limit = time.monotonic() + 60
    while traced.iprobe("snapshot", waiting.pid, "-o", snapshot).returncode:
        assert time.monotonic() < limit
        time.sleep(0.2)
    time.sleep(2)
    assert traced.iprobe("snapshot", waiting.pid, "-o", snapshot).returncode == 0
    check_waits(traced, snapshot)
    end(proc)
    check_waits(traced, directory)
    memory.assert_untouched(waiting.pid)


def test_what_is_refused(traced, waiting):
    for words, said in (
        (("--rotate", "3", "--overwrite"), "one of them"),
    ):
        done = traced.iprobe("attach", waiting.pid, "--kernel", *words)
        assert done.returncode == 2 and said in done.stderr, repr(done)
    memory.assert_untouched(waiting.pid)

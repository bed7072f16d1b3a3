# SPDX-License-Identifier: Apache-2.0
"""--time coarse: nothing is missing, the order is exact, and each event's true time lies where
the trace says it does.
"""

import bisect
import json
import os
import pathlib
import signal
import struct
import subprocess
import time

import pytest

from iptest import memory
from iptest.actor import last_words
from test_resume import is_live, kill, listens

CALLS = 100_000
HEADER = 80  # of a packet (common/trace/trace_format.h)
TIME_BITS = 29
# What a processor reads ahead: rdtsc is not held up by what stands in front of it, nor is the load
# of a stamp.
SLACK = 2_000


def records(stream):
    """(stamp, event id, number) of all records of one stream file."""
    data, at, found = pathlib.Path(stream).read_bytes(), 0, []
    while at < len(data):
        (bits,) = struct.unpack_from("<Q", data, at + 40)
        words = struct.unpack_from(f"<{bits // 64 - HEADER // 8}Q", data, at + HEADER)
        at += bits // 8
        i, time = 0, 0
        while i < len(words):
            word = words[i]
            event = word & 7
            if event == 7:
                event = (word >> 3 & (1 << TIME_BITS) - 1) - 16
                time = word >> 32 | (words[i + 1] & 0xFFFFFFFF) << 32
                number = words[i + 1] >> 32 & 0x1FFFFF
                i += 3
            else:
                time = time >> TIME_BITS << TIME_BITS | word >> 3 & (1 << TIME_BITS) - 1
                number = word >> 32 & 0x1FFFFF
                i += 1
            found.append((time, event, number))
    return found


def numbers(directory):
    """{function: its number}"""
    lines = [l.split("\t") for l in (directory / "iprobe/session").read_text().splitlines()]
    return {l[3]: int(l[1]) for l in lines if l[0] == "function"}


def runs_of(directory):
    """What is said of stamps: (FROM, TO, WIDTH) each, in their order."""
    runs = [
        tuple(map(int, line.split()))
        for line in (directory / "iprobe/stamps").read_text().splitlines()
    ]
    begins = [run[0] for run in runs]
    assert begins == sorted(begins) and all(a[1] < b[0] for a, b in zip(runs, runs[1:]))
    # an event happened before the next stamp
    assert all(b[0] <= a[1] + a[2] for a, b in zip(runs, runs[1:]))
    return runs


def check_intervals(directory, times):
    """Of the program's calls, whose times are (before, after) each. What is said of stamps."""
    runs = runs_of(directory)
    begins = [run[0] for run in runs]
    (stream,) = directory.glob("stream-*")
    found = records(stream)
    assert [r[0] for r in found] == sorted(r[0] for r in found)

    number = numbers(directory)["stamped"]
    own = [r for r in found if r[2] == number]
    assert [r[1] == 1 for r in own] == [True, False] * len(times)  # some end in a tail exit
    for (stamp, event, _), (before, after) in zip(own, [t for t in times for _ in (1, 2)]):
        begin, end, width = runs[bisect.bisect(begins, stamp) - 1]
        assert begin <= stamp <= end, "a stamp that the clock has never had"
        assert stamp <= after + SLACK and stamp + width + SLACK >= before, (
            stamp,
            event,
            width,
            before,
            after,
        )
    return runs


@pytest.mark.parametrize("placement", ["fentry", "instrument"])
def test_true_intervals(me, programs, placement):
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--json",
        "--time",
        "coarse",
        "-o",
        directory,
        "--",
        programs.simple("stamped", placement=placement),
        CALLS,
    )
    assert done.returncode == 0, repr(done)
    *lines, interruptions, summary = done.stdout.splitlines()
    assert json.loads(summary)["lost"] == 0
    assert json.loads(summary)["events"] == 2 * CALLS + 2 * int(interruptions)
    check_intervals(directory, [tuple(map(int, line.split())) for line in lines])

    info = json.loads(me.iprobe("info", "--json", directory).stdout)
    assert info["time"] == "coarse" and 0 < info["late_ns"] <= info["latest_ns"]
    report = me.iprobe("report", directory)
    assert report.returncode == 0 and "coarse" in report.stderr, repr(report)


def test_true_intervals_of_a_clock_that_was_killed(me, programs, targets):
    """iprobe is killed and gone on with, several times: time stands still meanwhile, and what is
    said of it is true all the same.
    """
    calls, pauses = 40_000, [0, 0.05, 0.2, 0.01, 0.4]
    target = targets.start(me, [programs.simple("stamped"), "-w", "-s", 4, calls])
    directory = me.dir() / "trace"
    stamps = directory / "iprobe/stamps"
    proc = me.start_iprobe("attach", target.pid, "--time", "coarse", "-o", directory)
    is_live(me, target)
    target.say()
    stood = []
    for pause in pauses:
        time.sleep(0.3)
        assert kill(proc), repr(last_words(proc))
        began, size = time.monotonic_ns(), stamps.stat().st_size
        time.sleep(pause)
        stood.append(time.monotonic_ns() - began)
        proc = me.start_iprobe("attach", "--resume", target.pid, "--json", "-o", directory)
        memory.wait_for(
            "its clock is not gone on with",
            lambda: stamps.stat().st_size > size or proc.poll() is not None,
            60,
        )
    times = []
    for line in target.proc.stdout:
        times.append(tuple(map(int, line.split())))
        if len(times[-1]) == 1:
            break
    (interruptions,) = times.pop()
    assert len(times) == calls
    memory.wait_for("iprobe does not catch SIGINT", lambda: listens(proc), 30, 0.01)
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert (summary["events"], summary["lost"]) == (2 * calls + 2 * interruptions, 0)
    runs = check_intervals(directory, times)
    # while it stood still there was one stamp, and that is told of
    info = json.loads(me.iprobe("info", "--json", directory).stdout)
    widths = sorted(run[2] for run in runs)[-len(pauses) :]
    assert all(
        width * 1.001 >= ns * info["tsc_hz"] / 1e9 for width, ns in zip(widths, sorted(stood))
    ), (widths, stood)
    assert info["time"] == "coarse" and info["latest_ns"] * 1.001 >= max(stood)
    memory.assert_untouched(target.pid)
    target.say()
    target.finish()


def test_a_busy_machine_is_left_alone(me, programs):
    """Where no CPU idles the clock takes a hundredth of one, and what it says of itself is still
    true.
    """
    directory = me.dir() / "trace"
    hogs = [
        subprocess.Popen(["timeout", "60", "sh", "-c", "while :; do :; done"])
        for _ in range(2 * os.cpu_count())
    ]
    try:
        done = me.iprobe(
            "run",
            "--json",
            "--time",
            "coarse",
            "-o",
            directory,
            "--",
            programs.simple("count"),
            "-r",
            100_000,
            "-s",
            2,
        )
    finally:
        for hog in hogs:
            hog.terminate()
            hog.wait()
    assert done.returncode == 0, repr(done)
    *_, calls, summary = done.stdout.splitlines()
    assert json.loads(summary)["events"] + json.loads(summary)["lost"] == 2 * int(calls.split()[1])
    info = json.loads(me.iprobe("info", "--json", directory).stdout)
    lines = [line.split("\t") for line in (directory / "iprobe/session").read_text().splitlines()]
    _late, latest, refreshes, cpu = next(
        map(int, line[1:]) for line in lines if line[0] == "coarse" and line[3] != "0"
    )
    assert latest and refreshes > 10 and info["latest_ns"]
    # a hundredth, and what it takes to learn that the machine is busy
    assert cpu <= 0.015 * info["duration_ns"] + 20e6, (cpu, refreshes, info)


def test_wrong_word(me):
    done = me.iprobe("run", "--time", "fine", "--", "/bin/true")
    assert done.returncode == 2 and "--time" in done.stderr, repr(done)

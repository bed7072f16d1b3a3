# SPDX-License-Identifier: Apache-2.0
"""
Threads that come and go, forks, signals, slow disks: every event that the program counts is in the
trace, or counted as lost (test/programs/churn.c).

IPROBE_TEST_FULL=1: 100,000 threads instead of 10,000, and half an hour of the server instead of 15
seconds.
IPROBE_TEST_SERVE: so many seconds of the server.
"""

import json
import os
import re
import time

import pytest

from iptest import memory
from iptest.actor import last_words

FULL = os.environ.get("IPROBE_TEST_FULL") == "1"
LIVES, CALLS = (100000, 5) if FULL else (10000, 5)
SOAK_SECONDS = int(os.environ.get("IPROBE_TEST_SERVE", 1800 if FULL else 15))
LONG = SOAK_SECONDS * 3 + 300
MIB = 1 << 20


@pytest.fixture
def churn(programs):
    return programs.simple("churn", placement="fentry", extra=["-lrt"])


def begin(me, targets, program, *options, wrapper=()):
    """A target that waits for its start, and an iprobe that records it: (target, process,
    trace).
    """
    target = targets.start(me, program)
    directory = me.dir() / "trace"
    proc = me.popen(
        [*wrapper, me.iprobe_path, "attach", target.pid, "--json", "-o", directory, *options]
    )

    def patched():
        assert proc.poll() is None, repr(last_words(proc))
        done = me.iprobe("status", target.pid, "--json")
        return done.returncode == 0 and json.loads(done.stdout)["patched"] > 0

    memory.wait_for("the probes do not go live", patched, 60)
    return target, proc, directory


def calls_of(target):
    for line in target.proc.stdout:
        if line.startswith("calls "):
            return int(line.split()[1])
    raise AssertionError(f"the target died: {target.proc.wait()} {target.proc.stderr.read()}")


def finish(target, proc, timeout=120):
    """Lets the program end; iprobe's summary."""
    target.say()
    target.finish(timeout)
    done = last_words(proc, timeout)
    assert done.returncode == 0, repr(done)
    return done.summary()


def check(me, directory, summary, calls):
    assert summary["events"] + summary["lost"] == 2 * calls, summary
    streams = sorted(directory.glob("stream-*"))
    done = me.run([me.builddir / "test" / "soak" / "soak-order", *streams], timeout=300)
    assert done.returncode == 0, repr(done)
    assert json.loads(done.stdout)["events"] == summary["events"]
    done = me.iprobe("info", "--json", directory, timeout=300)
    info = json.loads(done.stdout)
    assert (info["events"], info["lost"]) == (summary["events"], summary["lost"])
    return info


@pytest.mark.parametrize("options", [[], ["--compress"]], ids=["plain", "compressed"])
def test_short_lives(me, targets, churn, options):
    """Rings of threads that have ended are used again."""
    target, proc, directory = begin(
        me, targets, [churn, "lives", LIVES, CALLS], "--memory", "200M", *options
    )
    target.say()
    calls = calls_of(target)
    assert calls == LIVES * CALLS
    summary = finish(target, proc)
    info = check(me, directory, summary, calls)
    # how fast they come is the machine's affair; that rings are used again is ours: there are 8192,
    # and numbers of threads are, too
    assert summary["events"] >= calls, summary
    assert info["threads"] > min(LIVES / 3, 16384) and info["streams"] <= 8192


def rss(pid, name):
    """Resident memory of the mappings with that name, bytes."""
    total, ours = 0, False
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as file:
        for line in file:
            head = re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+ *(.*)", line)
            if head:
                ours = name in head[1]
            elif ours and line.startswith("Rss:"):
                total += int(line.split()[1]) * 1024
    return total


def test_idle_threads_take_little_memory(me, targets, churn):
    """1000 threads with a ring each: within the default of --memory."""
    target, proc, directory = begin(me, targets, [churn, "idle", 1000])
    target.say()
    calls = calls_of(target)
    assert calls == 2000
    used = rss(target.pid, "iprobe")
    assert 0 < used <= 64 * MIB, f"{used / MIB:.1f} MiB"
    summary = finish(target, proc)
    check(me, directory, summary, calls)
    assert summary["lost"] == 0, summary


def test_two_recordings_side_by_side(me, targets, churn):
    both = [begin(me, targets, [churn, "lives", 300, 1000]) for _ in range(2)]
    for target, _, _ in both:
        target.say()
    counts = [calls_of(target) for target, _, _ in both]
    for (target, proc, directory), calls in zip(both, counts):
        summary = finish(target, proc)
        check(me, directory, summary, calls)
        assert summary["pid"] == target.pid


@pytest.mark.parametrize("options", [[], ["--compress"]], ids=["plain", "compressed"])
def test_slow_disk(me, targets, programs, options):
    """Each write takes 50 ms: losses are counted, and the target does not wait for it."""
    count = programs.simple("count", opt="-O0")
    slow = ["strace", "-o", "/dev/null", "--trace=writev", "--inject=writev:delay_enter=50000"]
    target, proc, directory = begin(
        me,
        targets,
        [count, "-w", "-t", "2", "-n", "400000"],
        "--memory",
        "1M",
        *options,
        wrapper=slow,
    )
    target.say()
    began = time.monotonic()
    calls = calls_of(target)
    took = time.monotonic() - began
    summary = finish(target, proc)
    check(me, directory, summary, calls)
    packets = 2 * calls / 4095
    assert summary["lost"] > 0 or options, summary
    assert (
        took < packets * 0.05 / 2
    ), f"the target waited: {took:.1f} s for what takes {packets * 0.05:.1f} s to write"


def status_kib(pid, key):
    return int(memory.status_field(pid, key).split()[0])


def test_server(me, targets, churn):
    """Every event accounted for, stamps in order, no memory growth."""
    target, proc, directory = begin(
        me,
        targets,
        [churn, "serve", SOAK_SECONDS],
        "--follow-fork",
        "--compress",
        "--max-size",
        "8G",
    )
    target.say()
    time.sleep(SOAK_SECONDS / 3)
    early = (status_kib(proc.pid, "VmRSS"), status_kib(target.pid, "VmRSS"))
    time.sleep(SOAK_SECONDS / 2)
    late = (status_kib(proc.pid, "VmRSS"), status_kib(target.pid, "VmRSS"))
    calls = calls_of(target)
    summary = finish(target, proc, LONG)
    info = check(me, directory, summary, calls)
    assert summary["events"] > calls, summary  # more than half of them
    assert summary["processes"] > SOAK_SECONDS and info["threads"] > 10 * SOAK_SECONDS
    # rings are touched one after the other: up to what --memory allows
    assert late[0] - early[0] < 48 * 1024 and late[1] - early[1] < 72 * 1024, f"KiB: {early} {late}"

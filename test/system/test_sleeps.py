# SPDX-License-Identifier: Apache-2.0
"""Since when threads have been waiting is found out without going to the CPUs where they fell
asleep.
"""

import os
import subprocess
import sys
import time

import pytest

SECONDS = 4.0
HOG_SECONDS = 2.5
HOG = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    pass
"""


def start_sleepers(actor, programs, targets, seconds=SECONDS):
    return targets.start(actor, [programs.simple("sleepers"), seconds])


def attach(actor, target, *before):
    began = time.monotonic()
    done = actor.run(
        [
            *before,
            actor.iprobe_path,
            "attach",
            target.pid,
            "--duration",
            "20ms",
            "-f",
            "tick",
            "--json",
            "-o",
            actor.dir() / "trace",
        ]
    )
    assert done.returncode == 0, repr(done)
    return time.monotonic() - began, done.summary()


def check_ends(target, seconds=SECONDS):
    """Each wait has lasted as long as was asked for; what is late is the machine's. How late
    they were, in milliseconds.
    """
    rows = [target.proc.stdout.readline().split() for _ in os.sched_getaffinity(0)]
    assert {(row[1], row[2]) for row in rows} == {("0", "0")}, rows
    assert min(float(row[3]) for row in rows) >= seconds * 1e3 - 1, rows
    target.finish()
    return [float(row[3]) - seconds * 1e3 for row in rows]


def test_we_keep_our_affinity(root, programs, targets):
    """One that moved would be seen on an isolated CPU."""
    target = start_sleepers(root, programs, targets)
    log = root.dir() / "strace"
    attach(root, target, "strace", "-f", "-o", log, "--trace=sched_setaffinity,ptrace")
    calls = log.read_text()
    assert "PTRACE_SEIZE" in calls and "sched_setaffinity" not in calls
    check_ends(target)


def test_limits_are_kept(actor, programs, targets):
    """One that began anew would be late by more than half of its length."""
    target = start_sleepers(actor, programs, targets)
    time.sleep(SECONDS * 0.6)
    renewed = sum(attach(actor, target)[1]["renewed_calls"] for _ in range(3))
    late = check_ends(target)
    assert renewed or max(late) < SECONDS * 300, f"{late} ms late, none is said to have begun anew"


@pytest.mark.parametrize("cpu", sorted(os.sched_getaffinity(0))[:2])
def test_a_real_time_hog_delays_nothing(root, programs, targets, cpu):
    """Who goes to its CPU gets there when the hog has ended, or is throttled."""
    target = start_sleepers(root, programs, targets, 6)
    alone = min(attach(root, target)[0] for _ in range(3))
    with subprocess.Popen(
        [sys.executable, "-c", HOG, str(cpu), str(HOG_SECONDS)], stdout=subprocess.PIPE, text=True
    ) as hog:
        try:
            assert hog.stdout.readline() == "ready\n"
            beside = min(attach(root, target)[0] for _ in range(2))
            assert hog.poll() is None, "the hog has ended too soon to show anything"
        finally:
            hog.kill()
    assert beside < 3 * alone + 0.4, f"{beside:.2f} s beside the hog, {alone:.2f} s without"
    check_ends(target, 6)

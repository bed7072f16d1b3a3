# SPDX-License-Identifier: Apache-2.0
"""
A recording that is longer than it was to be, and events that are lost: the summary tells whether
busy CPUs are the cause, or the rings were too small.
"""

import json
import os
import re
import signal
import time

import pytest

from iptest import memory
from iptest.actor import end, last_words

ONE_CPU = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
ATTACH = ["attach", "-f", "leaf", "--memory", "1M", "--duration", "300ms", "--max-stop", "2s"]
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}


def seconds(text):
    number, unit = text.split()
    return float(number) * UNITS[unit]


def busy_target(actor, programs, targets, before=()):
    program = programs.simple("count", placement="fentry")
    target = targets.start(
        actor, [*before, program, "-w", "-t", "2", "-n", str(10**12)], preload=False
    )
    target.say()
    return target


def test_busy_cpus_are_told(user, programs, targets):
    """iprobe has a part of one CPU, and may not take more."""
    target = busy_target(user, programs, targets, ONE_CPU)
    hogs = [user.popen([*ONE_CPU, "sh", "-c", "while :; do :; done"]) for _ in range(3)]
    done = user.run([*ONE_CPU, user.iprobe_path, *ATTACH, "-o", user.dir() / "t", target.pid])
    for hog in hogs:
        end(hog)
    assert done.returncode == 0, repr(done)
    assert "lost (the rings were full while iprobe waited for a CPU, for " in done.stderr
    assert "busy CPUs, no CAP_SYS_NICE: select fewer functions)" in done.stderr, repr(done)
    assert "--memory" not in done.stderr, repr(done)
    took = seconds(re.search(r"threads?\) in ([\d.]+ \w+)", done.stderr)[1])
    told = re.search(r"the end took ([\d.]+ \w+): .*\n", done.stderr)
    assert told or took < 0.3 + 0.35, repr(done)
    # what comes after the last event that could be recorded is no part of the recording
    noticed = re.search(r"([\d.]+ \w+) until iprobe saw that the time was over", done.stderr)
    late = seconds(noticed[1]) if noticed else 0
    assert abs(0.3 + late - took) < 0.1 + took / 5, repr(done)
    memory.assert_untouched(target.pid)
    end(target.proc)


def test_small_rings_are_told(root, programs, targets):
    """iprobe waits for no CPU, but comes too late; and the end is told by its parts."""
    target = busy_target(root, programs, targets)
    proc = root.start_iprobe(*ATTACH, "--json", "-o", root.dir() / "t", target.pid)
    memory.wait_until_live(target.pid, proc)
    proc.send_signal(signal.SIGSTOP)
    time.sleep(0.15)
    proc.send_signal(signal.SIGCONT)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["lost"], summary
    assert "(the rings were full: select fewer functions, or give" in done.stderr, repr(done)
    parts = [summary[f"end_{part}_ns"] for part in ("noticed", "restored", "written")]
    assert all(part > 0 for part in parts), summary
    assert abs(300_000_000 + parts[0] - summary["duration_ns"]) < 50_000_000, summary
    end(target.proc)


@pytest.mark.parametrize("options", [[], ["--overwrite"]], ids=["", "overwrite"])
def test_a_late_end_is_no_part_of_the_recording(root, programs, targets, options):
    """Another iprobe puts the sites back, long before the session's own can notice that: the
    recording and its open calls have ended then."""
    program = programs.simple("held_call", placement="fentry")
    target = root.popen([program])
    assert target.stdout.readline() == "ready\n"
    trace = root.dir() / "t"
    begun = time.monotonic()
    proc = root.start_iprobe("attach", "--json", *options, "-f", "held", "-o", trace, target.pid)
    memory.wait_until_live(target.pid, proc)
    target.stdin.write("\n")
    target.stdin.flush()
    time.sleep(0.3)
    proc.send_signal(signal.SIGSTOP)
    detach = root.start_iprobe("detach", "--json", target.pid)
    memory.wait_for("the sites are live", lambda: not memory.live_text(target.pid))
    most = (time.monotonic() - begun) * 1e9
    time.sleep(1.2)
    assert detach.poll() is None
    proc.send_signal(signal.SIGCONT)
    detached = last_words(detach)
    assert (detached.returncode, detached.stderr) == (0, ""), repr(detached)
    assert json.loads(detached.stdout)["written"] is True
    assert "\nend\t" in (trace / "iprobe/session").read_text()
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    assert 0.3e9 < done.summary()["duration_ns"] < most, (most, repr(done))
    report = json.loads(root.iprobe("report", "--json", trace).stdout)
    assert 0.3e9 < report["duration_ns"] < most, (most, report)
    (held,) = report["functions"]
    assert held["calls"] == 1 and 0.25e9 < held["total_ns"] < most, held
    end(target)


def test_who_still_writes_is_told(root, programs, targets):
    """iprobe detach does not wait for ever, and the next attach tells the same."""
    program = programs.simple("held_call", placement="fentry")
    target = root.popen([program])
    assert target.stdout.readline() == "ready\n"
    proc = root.start_iprobe("attach", "-o", root.dir() / "t", target.pid)
    memory.wait_until_live(target.pid, proc)
    proc.send_signal(signal.SIGSTOP)
    line = f"pid {target.pid}: its iprobe (pid {proc.pid}) is still writing what it has recorded"
    detached = root.iprobe("detach", target.pid)
    assert (detached.returncode, detached.stderr) == (0, f"iprobe: {line}\n"), repr(detached)
    refused = root.iprobe("attach", "-o", root.dir() / "other", target.pid)
    assert refused.returncode == 1, repr(refused)
    assert refused.stderr == f"iprobe: {line}: try again when it has ended\n", repr(refused)
    next_one = root.start_iprobe(
        "attach", "--duration", "50ms", "-o", root.dir() / "other", target.pid
    )
    time.sleep(0.3)
    proc.send_signal(signal.SIGCONT)
    for each in (proc, next_one):
        done = last_words(each)
        assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    end(target)

# SPDX-License-Identifier: Apache-2.0
"""
A target that checks its own arithmetic lives through attach and detach on random selections of
functions that are running, records each time, and has every executable byte back afterwards.
"""

import json
import random
import shutil
import time

import pytest

from iptest import memory

BUSY = [f"step_{i}{j}" for i in range(1, 9) for j in range(8)] + [
    "by_double",
    "by_long_double",
    "by_vector",
    "by_int128",
    "by_pair",
    "by_mixed",
    "by_large",
    "by_stack",
    "by_dots",
    "by_errno",
    "by_rounding",
    "by_recursion",
    "by_inlining",
    "by_locals",
]

QUICK_CYCLES = 15


def assert_status_clean(actor, pid):
    done = actor.iprobe("status", "--json", pid)
    assert done.returncode == 0, repr(done)
    status = json.loads(done.stdout)
    assert status["pid"] == pid
    assert status["patched"] == 0
    assert status["modules"]
    for module in status["modules"]:
        assert module["patched"] == 0 and module["text_matches_file"] is True, module


def cycle(actor, target, directory, rng):
    """One attach and detach; its summary."""
    chosen = rng.sample(BUSY, rng.choice([1, 2, 5, 20, len(BUSY)]))
    done = actor.iprobe(
        "attach",
        target.pid,
        "-f",
        ",".join(chosen),
        "--duration",
        "20ms",
        "--json",
        "-o",
        directory,
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["functions"] == len(chosen), (chosen, summary)
    assert summary["pid"] == target.pid
    shutil.rmtree(directory)
    return summary


def survive(actor, targets, program, count, flags, seed):
    target = targets.steady(actor, program, *flags)
    directory = actor.dir() / "trace"
    rng = random.Random(seed)
    events = 0  # of all cycles: on a busy machine the target may get no CPU in one that lasts 20 ms
    for n in range(count):
        events += cycle(actor, target, directory, rng)["events"]
        assert target.alive(), f"cycle {n}: {target.proc.returncode} {target.proc.stderr.read()}"
        if n % 50 == 0 or n == count - 1:
            assert memory.text_differences(target.pid) == [], f"after cycle {n}"
            target.wait_for_progress()
    assert events > 0
    assert_status_clean(actor, target.pid)
    memory.assert_untouched(target.pid)
    target.wait_for_progress()
    target.finish()


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags,share",
    [([], 1), (["-c"], 1), (["-c", "-i"], 0.1), (["-c", "-x"], 0.02)],
    ids=["steady", "churn", "signals", "hogs"],
)
def test_hundreds_of_cycles(me, programs, targets, cycles, flags, share):
    """Without and with threads that come and go; some cycles more under signals and on a machine
    without a free moment.
    """
    survive(me, targets, programs.simple("steady"), max(int(cycles * share), 3), flags, seed=1)


@pytest.mark.parametrize("flags", [[], ["-c"], ["-i", "-c"]], ids=["steady", "churn", "signals"])
def test_some_cycles(actor, programs, targets, flags):
    survive(actor, targets, programs.simple("steady"), QUICK_CYCLES, flags, seed=2)


@pytest.mark.parametrize("compiler,opt", [("gcc", "-O0"), ("clang", "-O2")])
def test_some_cycles_otherwise_built(me, programs, targets, compiler, opt):
    survive(me, targets, programs.simple("steady", compiler, opt), QUICK_CYCLES, ["-c"], seed=3)


def test_idle_target_computes_right(me, programs, targets):
    """Without any session, with and without the runtime."""
    for preload in (False, True):
        target = targets.steady(me, programs.simple("steady"), "-c", "-i", preload=preload)
        target.wait_for_progress()
        target.finish()


@pytest.mark.slow
def test_a_long_session_under_everything(me, programs, targets):
    """Sites live for seconds, threads coming and going, signals, rings overflowing."""
    target = targets.steady(me, programs.simple("steady"), "-c", "-i", "-x")
    started = time.monotonic()
    done = me.iprobe(
        "attach",
        target.pid,
        "-f",
        "step_1*,by_recursion,by_dots",
        "--duration",
        "4s",
        "--memory",
        "1M",
        "--max-size",
        "4G",
        "--json",
        "-o",
        me.dir() / "trace",
    )
    assert done.returncode == 0, repr(done)
    assert time.monotonic() - started >= 4
    assert done.summary()["events"] > 1000000
    target.wait_for_progress()
    assert_status_clean(me, target.pid)
    memory.assert_untouched(target.pid)
    target.finish()

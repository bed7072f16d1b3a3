# SPDX-License-Identifier: Apache-2.0
"""Rules of probes.d: what their conditions find."""

import os
import pathlib
import signal
import time

import pytest

from iptest import memory, time_scale
from iptest.rules import (  # noqa: F401
    LATENCY,
    Rules,
    WAIT,
    idle,
    program,
    pytestmark,
    report,
    rule,
    rules,
    serving,
    wait_until_idle,
    wait_until_live,
)


def test_latency_finds_the_culprit(rules, serving, me):
    rules.start(rule(LATENCY, more="for: 1s\n    at_most: 1 per 1h"))
    rules.wait_log("is watched: p99>10ms/1s:handle")
    wait_until_live(serving.pid)
    time.sleep(1.5)
    assert "fires" not in rules.log()
    os.kill(serving.pid, signal.SIGUSR1)
    assert "p99 of handle was " in rules.wait_log("fires: ")
    (path,) = rules.recorded("r")
    functions = report(me, path)
    assert {"handle", "parse", "look_up", "reply"} <= set(functions)
    self_ns = {name: f["self_ns"] for name, f in functions.items() if name != "main"}
    assert max(self_ns, key=self_ns.get) == "look_up"
    assert functions["look_up"]["p50_ns"] > 10e6
    why = (path / "why.txt").read_text()
    assert (
        f"pid      {serving.pid}\n" in why
        and "why      p99 of handle was " in why
        and "rule     r\n" in why
    )
    wait_until_idle(serving.pid)
    time.sleep(2)  # once in an hour: it is not watched any more
    assert rules.log().count("fires") == 1 and idle(serving.pid) and serving.alive()


def test_one_slow_call(rules, serving):
    """A rule is not fired by what comes first, but by a single call."""
    rules.start(
        rule("{latency: {functions: handle, max: '> 400ms'}}", "{hist: handle}", more="for: 100ms")
    )
    rules.wait_log("is watched: max>400ms/1s:handle")
    wait_until_live(serving.pid)
    time.sleep(0.5)
    assert "fires" not in rules.log()
    os.kill(serving.pid, signal.SIGHUP)
    assert "max of handle was " in rules.wait_log("fires: ")


def test_of_two_limits_the_one_that_is_passed(rules, serving):
    """Two rules with a latency watch by one session."""
    rules.start(
        "rules:\n"
        "  never: {match: {exe: PROGRAM}, when: {latency: {functions: 'parse,reply', mean: '> "
        "10s'}}, do: trace}\n"
        "  calls: {match: {exe: PROGRAM}, when: {latency: {functions: handle, calls: '> 20'}}, do: "
        "{hist: handle}, for: 300ms}\n"
    )
    assert "handle was called " in rules.wait_log("rule calls:", "fires: ")
    assert "waits" not in rules.log() and "rule never: fires" not in rules.log()
    path = rules.recorded("calls")[0]
    assert (path / "trace" / "iprobe" / "counts").exists()


def test_cpu(rules, serving):
    much = round(time_scale.FACTOR * 4)  # per cent: what it takes at rest is more on a slow machine
    rules.start(rule(f"{{cpu: '> {much}% for 1s'}}", more="for: 100ms\n    at_most: 1 per 1h"))
    rules.wait_log("1 carried out")
    time.sleep(2)
    assert "fires" not in rules.log()
    os.kill(serving.pid, signal.SIGUSR2)
    line = rules.wait_log("fires: it takes ")
    assert float(line.split("it takes ")[1].split()[0]) >= much
    rules.recorded("r")


def test_memory_and_every(rules, targets, me, program):
    big, small = (targets.start(me, [program, "grow", n], preload=False) for n in (64, 1))
    rules.start(
        "rules:\n"
        "  big: {match: {exe: PROGRAM}, when: {memory: '> 40M'}, do: trace, for: 50ms, at_most: 1 "
        "per 1h}\n"
        f"  often: {{match: {{cmdline: 'PROGRAM grow 1'}}, when: {{every: 1s}}, do: {{trace: "
        f"handle}}, for: 50ms}}\n"
    )
    assert f" pid {big.pid} " in rules.wait_log("rule big:", "fires: it has ", "more than 40.0 MiB")
    rules.recorded("often", 3)
    assert all(
        f" pid {small.pid} " in line
        for line in rules.log().splitlines()
        if "rule often:" in line and "fires" in line
    )
    assert rules.log().count("rule big:") >= 1 and f"rule big: pid {small.pid}" not in rules.log()


@pytest.fixture
def cgroup(root):
    """A cgroup of version 2 with a test's own process in it that is held up for the CPU, where
    that can be had.
    """
    mounts = [
        line.split()[1]
        for line in open("/proc/self/mounts", encoding="utf-8")
        if line.split()[2] == "cgroup2"
    ]
    if not mounts or not os.path.exists("/proc/pressure/cpu"):
        pytest.skip("no cgroup of version 2 with pressure here")
    path = pathlib.Path(mounts[0]) / f"iprobe-test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as e:
        pytest.skip(f"no cgroup can be made: {e}")
    if not (path / "cpu.pressure").exists():
        path.rmdir()
        pytest.skip("this kernel tells no pressure of cgroups")
    yield path
    memory.wait_for(
        "the cgroup stays", lambda: not (path / "cgroup.procs").read_text().strip(), WAIT
    )
    path.rmdir()


def test_pressure(root, targets, program, cgroup):
    """Six that compute on one CPU."""
    rules = Rules(root, root.dir(), program)
    several = [
        targets.start(root, ["taskset", "-c", "0", program], preload=False) for _ in range(6)
    ]
    for t in several:
        (cgroup / "cgroup.procs").write_text(str(t.pid))
        os.kill(t.pid, signal.SIGUSR2)
    rules.start(
        rule(
            "{pressure: {cpu: '> 20% for 1s'}}",
            match=f"{{cgroup: '/{cgroup.name}', unit: {cgroup.name}}}",
            do="{trace: handle}",
            more="for: 50ms\n    at_most: 1 per 1h",
        )
    )
    rules.wait_log("fires: its cgroup has waited for cpu in ")
    rules.recorded("r")
    assert rules.daemon.end() == 0
    for t in several:
        t.proc.terminate()


def test_start_and_signal(rules, targets, me, program):
    before = targets.start(me, [program], preload=False)
    rules.start(rule("{start: true, signal: USR1}", more="for: 100ms"))
    rules.wait_log("1 carried out")
    memory.wait_for("the process is not found", lambda: rules.listed()["r"]["processes"], WAIT)
    later = targets.start(me, [program], preload=False)
    assert f" pid {later.pid} " in rules.wait_log("fires: it has started")
    rules.recorded("r")
    assert f"pid {before.pid} ({program}): fires" not in rules.log()
    os.kill(rules.daemon.proc.pid, signal.SIGUSR2)  # somebody else's
    os.kill(rules.daemon.proc.pid, signal.SIGUSR1)
    rules.wait_log(f"pid {before.pid} ", "fires: signal USR1 to iprobed")
    rules.wait_log(f"pid {later.pid} ", "fires: signal USR1 to iprobed")
    rules.recorded("r", 3)
    assert rules.log().count("USR2") == 0

# SPDX-License-Identifier: Apache-2.0
"""
fperf as it is, but for its policy (test/policies.c): the controller, the probes and the process
are real. What must hold with every policy holds, and that each is obeyed shows.
"""

import json
import os
import signal

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.fperf import by_name

BUDGET = 0.02


@pytest.fixture
def plugged(me):
    path = me.builddir / "test" / "fperf-plugged"
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return sum(map(int, f.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def count(me, targets, programs, plugged, policy, seconds):
    """What fperf says of hot(), whose functions would take much of its time with probes, after
    so many seconds of its CPU time.
    """
    program = programs.simple("hot", placement="fentry")
    target = targets.start(me, [program, 1000], preload=False, wait=False)
    memory.wait_for(
        "the program does not start",
        lambda: os.readlink(f"/proc/{target.pid}/exe") == str(program),
        120,
    )
    proc = me.popen(
        [
            plugged,
            "-q",
            "--json",
            "--budget",
            f"{BUDGET:%}",
            "-f",
            "tiny,small,middle,large",
            "-p",
            target.pid,
        ],
        env={"TMPDIR": str(me.top), "IPROBE_TEST_POLICY": policy},
    )

    def until(what, condition):
        memory.wait_for(what, lambda: proc.poll() is not None or condition(), 120, 0.05)
        assert proc.poll() is None, repr(actors.last_words(proc))

    until(
        "fperf does not begin",
        lambda: any("memfd:iprobe" in m.path for m in memory.mappings(target.pid)),
    )
    before = cpu_seconds(target.pid)
    until("the program does not run", lambda: cpu_seconds(target.pid) - before > seconds)
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    assert said.returncode == 0 and target.alive(), repr(said)
    assert not memory.text_differences(target.pid)
    return json.loads(said.stdout)


@pytest.mark.parametrize("policy", ["rounds", "rate", "spendthrift", "miser"])
def test_policies(me, targets, programs, plugged, policy):
    result = count(me, targets, programs, plugged, policy, 1.2)
    functions = by_name(result)
    # whichever it is: what can be saved up, and an interval in which all are live, come on top
    assert result["overhead"] <= BUDGET + 0.15 / result["run_s"], result
    if (
        policy
        == "miser"
        # before its first decision, some milliseconds after the start, there is little time to be
        # called
    ):
        assert (
            max((f["samples"] for f in functions.values()), default=0) <= 2
            and result["changes"] == 1
        ), result
        return
    assert (
        set(functions) == {"tiny", "small", "middle", "large"}
        and min(f["samples"] for f in functions.values()) >= 2
    ), result
    assert functions["tiny"]["live"] < 0.9, result
    if policy == "rounds":
        # eight samples a turn, of each alike
        assert (
            min(functions[name]["samples"] for name in ("tiny", "small", "middle")) > 8
            and result["changes"] > 2
        ), result
    elif policy == "rate":
        assert functions["large"]["live"] > functions["tiny"]["live"] and functions["large"][
            "samples"
        ] < 40 * (result["duration_s"] + 1), result


def test_a_policy_that_fails(me, targets, programs, plugged):
    """What it has decided before stays: here, nothing. The probes stay live, and fperf ends as
    it should.
    """
    result = count(me, targets, programs, plugged, "none of these", 0.3)
    assert result["changes"] == 0 and by_name(result)["large"]["samples"] >= 2, result

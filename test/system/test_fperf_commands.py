# SPDX-License-Identifier: Apache-2.0
"""fperf on a command: what it executes, what it forks, and its exit code."""

import json
import os

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.fperf import FAULTS, by_name, fperf_path, own_counts, patched, rows_of_command


def test_command(me, programs):
    command = [programs.simple("paging"), "-n", 20]
    stdout, rows = rows_of_command(me, command, "-f", "three,outer")
    assert set(rows) == {"three", "outer"}
    own = own_counts(stdout)
    # and once before it counted
    assert float(rows["outer"]["calls"]) == own["outer"][0] + 1


def switches(pid):
    """How often its threads have gone to sleep."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8") as file:
            total += next(
                int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches")
            )
    return total


EXECUTING = {
    "by a shell": (["sh", "-c", "exec $0 -n 20"], 0),
    "by itself": (["$0", "-x", 30, "-n", 20], 30),
    "twice": (["sh", "-c", "exec env A=1 $0 -x 30 -n 20"], 30),
}


@pytest.mark.parametrize(
    "events", [FAULTS, "perf::PERF_COUNT_SW_PAGE_FAULTS"], ids=["getrusage", "descriptors"]
)
@pytest.mark.parametrize("how", EXECUTING)
def test_exec_by_a_command(me, programs, how, events):
    """What CMD executes is counted from its first call on, and what was counted before is kept."""
    words, before = EXECUTING[how]
    program = programs.simple("paging")
    command = [program if word == "$0" else word for word in words] + (
        [program] if "sh" in words else []
    )
    output = me.top / "exec.json"
    done = me.run(
        [
            fperf_path(me),
            "-q",
            "--json",
            "-o",
            output,
            "--budget",
            "none",
            "-e",
            events,
            "--",
            *command,
        ],
        input="\n\n",
    )
    assert done.returncode == 0 and not done.stderr, repr(done)
    result = json.loads(output.read_text(encoding="utf-8"))
    own = own_counts(done.stdout)
    for name, pages in {"three": 3, "eleven": 11}.items():
        f = by_name(result)[name]
        # and a round before it counts itself
        assert f["calls"] == own[name][0] // 20 * (20 + 1 + before), f
        assert f["samples"] == f["calls"], f
        # first calls find the stack and code not there
        assert abs(f["counters"][events]["per_call"] - pages) <= 0.5, f
    assert result["end"] == "target ended"


def test_children_of_a_command(me, programs):
    """They are not counted, which is said where there is nothing else."""
    done = me.run(
        [fperf_path(me), "-q", "--", "sh", "-c", "$0 -n 20; true", programs.simple("paging")],
        input="\n\n",
    )
    assert done.returncode == 1 and own_counts(done.stdout)["three"][0] == 60, repr(done)
    assert (
        len(done.stderr.splitlines()) == 1 and "what it forks is not counted" in done.stderr
    ), done.stderr


def test_exec_of_a_process(me, programs, targets):
    """Where fperf -p has come the session ends at an exec: with what was counted, and a line
    that says so.
    """
    target = targets.start(me, [programs.simple("exec_next")])
    proc = me.popen([fperf_path(me), "--json", "--budget", "none", "-p", target.pid])
    memory.wait_for(
        "fperf does not go live",
        lambda: proc.poll() is not None or patched(me, target.pid) > 0,
        60,
        0.05,
    )
    before = switches(target.pid)
    memory.wait_for("it does not work", lambda: switches(target.pid) > before + 20, 60, 0.05)
    target.say()
    assert target.proc.stdout.readline() == "ready\n"
    said = actors.last_words(proc)
    result = json.loads(said.stdout)
    assert said.returncode == 0 and result["end"] == "target exec'ed", repr(said)
    assert by_name(result)["step"]["samples"] > 0, result
    assert (
        f"pid {target.pid} has executed another program: that one is not counted" in said.stderr
    ), said.stderr


def test_exit_code_is_the_commands(me, programs):
    done = me.run([fperf_path(me), "-q", "--", programs.simple("paging"), "-?"])
    assert done.returncode == 2, repr(done)

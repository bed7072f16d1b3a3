# SPDX-License-Identifier: Apache-2.0
"""
iprobe wait: who ended the waits of a function, and who had the CPU that it waited for.
"""

import json
import os
import subprocess

import pytest

from test_wait import blocked, planted, row, skip_without_events  # noqa: F401


def test_all_of_it_is_somebodys(planted):  # noqa: F811
    """Parts of a wait are the wait, whoever ended them; nobody is one of them."""
    _, document, _, _ = planted
    for f in document["functions"]:
        for wait in f["blocked"]:
            assert abs(sum(c["ns"] for c in wait["by"]) - wait["ns"]) <= len(wait["by"]), f
        said = sum(c["ns"] for c in f["cpu_had"])
        assert abs(said - f["runqueue_ns"]) <= len(f["cpu_had"]) + 1, f


@pytest.mark.parametrize("function", ["on_futex", "on_pipe", "on_child"])
def test_who_ended_it(planted, function):  # noqa: F811
    """Another thread, or a child, which the program has told to do so. (What comes through the
    loopback interface an interrupt brings.)
    """
    truth, document, _, _ = planted
    if function not in truth:
        pytest.skip("this kernel does not let the program do that")
    by = row(document, function)["blocked"][0]["by"][0]
    own = row(document, "on_timer")["blocked"][0]["by"]
    assert by["tid"] and by["thread"] == "wait_kinds", by
    # a clock is nobody
    assert own[0]["tid"] is None and own[0]["thread"] is None, own


def test_who_had_the_cpu(root, programs):
    """A program with a higher priority on the only CPU that the target may use."""
    skip_without_events(root)
    cpu = str(min(os.sched_getaffinity(0)))
    trace = root.dir() / "trace"
    hog = subprocess.Popen(
        ["nice", "-n", "-5", "taskset", "-c", cpu, "yes"], stdout=subprocess.DEVNULL
    )
    try:
        program = programs.simple("count", placement="fentry")
        options = ("--kernel=sched", "-q", "-o", trace)
        done = root.iprobe(
            *("run", *options, "--", "taskset", "-c", cpu, program, "-n", "1000000"), timeout=120
        )
    finally:
        hog.kill()
        hog.wait()
    assert done.returncode == 0, repr(done)
    document = json.loads(root.iprobe("wait", "--json", trace).stdout)
    assert not any(blocked(f) for f in document["functions"]), document
    had = {}
    for function in document["functions"]:
        for who in function["cpu_had"]:
            had[who["thread"]] = had.get(who["thread"], 0) + who["ns"]
    # what else the machine has to do may take as much of its time
    assert had["yes"] > 1e6, had
    lines = root.iprobe("wait", trace).stdout.splitlines()
    assert any("the CPU had " in line for line in lines), lines


def test_who_held_the_lock(root, programs):
    """And in which function it was when the wait began."""
    skip_without_events(root)
    trace = root.dir() / "trace"
    program = programs.simple("held_lock", placement="fentry")
    done = root.iprobe("run", "--kernel", "-q", "-o", trace, "--", program, "8")
    assert done.returncode == 0, repr(done)
    said = row(json.loads(root.iprobe("wait", "--json", trace).stdout), "request")
    lock = said["blocked"][0]
    assert lock["object"] == "&table_lock" and lock["count"] == 8, said
    (by,) = lock["by"]
    assert (by["thread"], by["function"]) == ("compactor", "compact"), said
    lines = root.iprobe("wait", "-f", "request", trace).stdout.splitlines()
    assert any(
        "futex &table_lock (8 times), held by compactor (" in line
        and line.endswith(") in compact")
        for line in lines
    ), lines


def test_who_held_it_from_all_that_wait(root, programs):
    """Those behind the first in the queue are woken by each other; they waited for the same one."""
    skip_without_events(root)
    trace = root.dir() / "trace"
    program = programs.simple("held_lock", placement="fentry")
    done = root.iprobe("run", "--kernel", "-q", "-o", trace, "--", program, "8", "6")
    assert done.returncode == 0, repr(done)
    said = row(json.loads(root.iprobe("wait", "--json", trace).stdout), "request")
    lock = said["blocked"][0]
    assert lock["object"] == "&table_lock" and lock["count"] >= 40, said
    first = lock["by"][0]
    assert (first["thread"], first["function"]) == ("compactor", "compact"), said
    # the others have it for a moment each; a busy machine may take their CPU away meanwhile
    assert first["ns"] > 0.8 * lock["ns"], said
    assert abs(sum(by["ns"] for by in lock["by"]) - lock["ns"]) < 1000, said

# SPDX-License-Identifier: Apache-2.0
"""Calls that end, or go on, in ways that no exit probe sees, in every placement: each is counted
once and closed.
"""

import collections
import json
import re

import pytest

from iptest import trees


@pytest.fixture(params=["instrument", "fentry", "inline"])
def placement(request):
    return request.param


@pytest.fixture(params=["-O0", "-O2"])
def opt(request):
    return request.param


def record(actor, *command, options=()):
    """(summary, what the program said, the trace, calls by function as the report counts them)"""
    directory = actor.dir() / "trace"
    done = actor.iprobe(
        "run", "--json", "--memory", "256M", *options, "-o", directory, "--", *command
    )
    assert done.returncode == 0, repr(done)
    report = actor.iprobe("report", "--json", directory)
    assert report.returncode == 0, repr(report)
    calls = {
        trees.without_arguments(f["function"]): f["calls"]
        for f in json.loads(report.stdout)["functions"]
    }
    return done.summary(), done.stdout, directory, calls


@pytest.mark.parametrize(
    "program, suffix, extra",
    [("coroutines", "c", ()), ("coroutines_cxx", "cc", ("-std=c++20", "-fcoroutines"))],
)
def test_coroutines(me, programs, placement, opt, program, suffix, extra):
    """On stacks of their own, and those of C++20, whose frames are on the heap."""
    path = programs.simple(program, "gcc", opt, extra=extra, placement=placement, suffix=suffix)
    summary, said, directory, calls = record(me, path)
    assert summary["lost"] == 0
    wanted = {name: int(n) for name, n in re.findall(r"function (\w+) (\d+)", said)}
    assert len(wanted) >= 4 and {name: calls.get(name) for name in wanted} == wanted
    (steps,) = trees.read_dump(me.iprobe("dump", "--json", directory).stdout).values()
    entries = collections.Counter(s.name for s in steps if s.event == "entry")
    exits = collections.Counter(s.name for s in steps if s.event == "exit")
    assert entries == exits
    for name, n in wanted.items():
        # a frame that was left and comes back is shown anew
        assert entries[name] > n if name in ("nested", "body") else entries[name] == n, name


def test_cancelled_anywhere(me, programs, placement):
    """Asynchronous cancellation: the unwinder starts at any instruction, most of them in a hook.
    The event in flight may be lost.
    """
    threads = 40
    path = programs.simple("cancel", "gcc", "-O2", placement=placement)
    summary, said, _, calls = record(me, path, threads, options=["-f", "spin,leaf"])
    assert f"cancelled {threads} cleaned {3 * threads}\n" in said and "wrong" not in said
    assert summary["lost"] <= threads
    assert calls["spin"] == 3 * threads
    assert calls["leaf"] > threads


def test_entries_alone(me, programs, builddir):
    """Functions without exit probes: calls are counted, none is said to last."""
    path = programs.simple(
        "count",
        "gcc",
        "-O2",
        prepared=False,
        extra=["-fpatchable-function-entry=5", "-fno-inline", "-fno-optimize-sibling-calls"],
    )
    done = me.run([builddir / "coldpatch" / "coldpatch", "-o", me.dir() / "count", path])
    assert done.returncode == 0, repr(done)
    directory = me.dir() / "trace"
    done = me.iprobe("run", "--json", "-o", directory, "--", done.args[2], "-n", 300)
    assert done.returncode == 0 and done.summary()["lost"] == 0, repr(done)
    truth = {name: int(n) for name, n in re.findall(r"function (\w+) (\d+)", done.stdout)}
    report = me.iprobe("report", "--json", directory)
    functions = {f["function"]: f for f in json.loads(report.stdout)["functions"]}
    assert len(truth) >= 8
    for name, calls in truth.items():
        assert functions[name]["calls"] == calls and not functions[name]["total_ns"], functions[
            name
        ]
    lines = [
        json.loads(line) for line in me.iprobe("dump", "--json", directory).stdout.splitlines()
    ]
    assert lines and all(line["event"] == "entry" and line["entry_only"] for line in lines)

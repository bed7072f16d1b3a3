# SPDX-License-Identifier: Apache-2.0
"""
Random C++20 programs with exceptions, coroutines, templates and the library (proof/cxx.py): the
same checksum plain, idle, and with every probe recording, in each placement at -O0, -O2 and -O3;
and a trace whose frames nest and are all closed at the end.

One again:  IPROBE_TEST_FULL=1 /usr/bin/python3 -m pytest test/compilers/test_cxx.py -k 'seed7-'
"""

import json
import shutil
import subprocess

import pytest

from conftest import FULL
from iptest import time_scale, trees
from proof import matrix
from proof.cxx import Program
from proof.shop import Shop

PROGRAMS = 100 if FULL else 8
LEVELS = ["-O0", "-O2", "-O3"]
# Sums may run over: what matters is that they do so in one way.
FLAGS = ["-std=c++20", "-fwrapv", "-w"]


def ways(number):
    """(compiler, placement, level): all of them in a full run; else two for each program, so
    that all come round.
    """
    everything = [
        (c, p, o)
        for c in ("gcc", "clang")
        if shutil.which(c)
        for p in matrix.placements(c)
        for o in LEVELS
    ]
    return (
        everything
        if FULL
        else [
            everything[2 * number % len(everything)],
            everything[(2 * number + 1) % len(everything)],
        ]
    )


def run(shop):
    return subprocess.run(
        [shop.folder / "program"],
        cwd=shop.folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=time_scale.scaled(60),
    )


def check_trace(me, directory, where):
    """Each exit closes the frame on top, each entry has its exit, and main's is at depth 0."""
    dump = me.iprobe("dump", "--json", directory)
    assert dump.returncode == 0, f"{where}: {dump!r}"[:2000]
    steps = [
        trees.Step(e["event"], e["function"], e["depth"])
        for e in map(json.loads, dump.stdout.splitlines())
    ]
    begin = next(i for i, step in enumerate(steps) if step.name.split("(")[0] == "main")
    trees.assert_consistent(steps, where)
    end = max(i for i, step in enumerate(steps) if step.name.split("(")[0] == "main")
    assert (steps[begin].event, steps[begin].depth, steps[end].event, steps[end].depth) == (
        "entry",
        0,
        "exit",
        0,
    ), where
    # a frame that an exception left has no event for it, but is shown as closed where it was
    assert sum(step.event == "entry" for step in steps) * 2 == len(steps), where
    return len(steps)


def test_generated_programs_differ():
    sources = {Program(seed).source() for seed in range(30)}
    assert len(sources) == 30 and Program(4).source() == Program(4).source()
    for what in (
        "co_await",
        "co_yield",
        "noexcept",
        "throw;",
        "catch (...)",
        "virtual",
        "std::sort",
        "Half v",
        "twice(v",
    ):
        assert (
            sum(
                what in source.partition("static int f0")[2] or what in source for source in sources
            )
            > 5
        ), what


@pytest.mark.parametrize("number", range(PROGRAMS), ids=lambda n: f"seed{n}-")
def test_same_checksum(number, me, tools):
    base = Shop(me.dir(), tools)
    source = base.write(f"seed{number}.cc", Program(number).source())
    base.ok("g++", *FLAGS, "-O1", source, "-o", "program")
    plain = run(base)
    assert plain.returncode == 0 and plain.stdout.startswith(
        "checksum = "
    ), "the program itself is broken"
    for compiler, placement, level in ways(number):
        shop = Shop(base.folder / f"{compiler}-{placement}{level}", tools, placement, compiler)
        where = f"{source.name} by {compiler}, {placement} {level}"
        shop.ok(*shop.cxx, *FLAGS, level, source, "-o", "program")
        idle = run(shop)
        assert (idle.returncode, idle.stdout, idle.stderr) == (
            plain.returncode,
            plain.stdout,
            plain.stderr,
        ), where
        live = me.iprobe(
            "run",
            "--json",
            "--memory",
            "64M",
            "-o",
            shop.folder / "trace",
            "--",
            shop.folder / "program",
            cwd=shop.folder,
        )
        output, _, _ = live.stdout.rstrip("\n").rpartition("\n")
        assert (live.returncode, output + "\n") == (
            plain.returncode,
            plain.stdout,
        ), f"{where}: {live!r}"
        assert live.summary()["lost"] == 0, where
        assert (
            check_trace(me, shop.folder / "trace", where) >= live.summary()["events"] > 100
        ), where
        shutil.rmtree(shop.folder)

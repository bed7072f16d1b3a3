# SPDX-License-Identifier: Apache-2.0
"""The statistics of benchmarks/paired.py, on windows whose slow-down is known; and what other
benchmarks count.
"""

import importlib.machinery
import importlib.util
import math
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import paired  # noqa: E402


def run(rng, slow, burst):
    """96 windows by turns on a machine that drifts and is disturbed. burst: the slow-down is in
    every third window alone, three times as much.
    """
    speed, windows = 0, []
    for i in range(96):
        speed = 0.9 * speed + rng.gauss(0, 0.01)
        cost = speed + rng.gauss(0, 0.005)
        if rng.random() < 0.08:
            cost += abs(rng.gauss(0, 0.1))
        on = i % 2 == 0
        if on and burst:
            cost += 3 * slow if rng.random() < 1 / 3 else 0
        elif on:
            cost += slow
        windows.append((on, math.exp(cost)))
    return windows


@pytest.mark.parametrize(
    "slow,burst,runs", [(0, 0, 2), (0.01, 0, 2), (0.01, 0, 6), (0.005, 0.015, 6)]
)
def test_intervals_hold_the_truth(slow, burst, runs):
    """150 times; of as many, fewer than 134 come out of 95 % once in a thousand times."""
    rng, held, found = random.Random(7), 0, []
    for _ in range(150):
        ratios = [paired.ratios(run(rng, slow, burst)) for _ in range(runs)]
        mean, half, number = paired.slow_down(ratios, burst)
        assert number == 94 * runs
        held += abs(math.log1p(mean) - slow) <= half
        found.append(mean)
    assert held >= 134
    # nothing is lost of what comes in bursts
    assert abs(sum(found) / len(found) - slow) < 0.0005


def test_a_trimmed_mean_would_miss_bursts():
    """What comes in every twelfth window alone is a burst, and no noise."""
    rng = random.Random(3)
    values = [(0.24 if i % 12 == 0 else 0) + rng.gauss(0, 0.002) for i in range(240)]
    assert sum(paired.draw_in(values, 0.25)) / 240 == pytest.approx(0.02, abs=0.001)
    assert sum(paired.draw_in(values, 0)) / 240 < 0.002


def test_windows_without_units_and_out_of_turn_count_for_nothing():
    windows = [(True, 2.0), (False, 1.0), (True, None), (False, 1.0), (False, 1.0), (True, 2.0)]
    assert paired.ratios(windows) == pytest.approx([])
    assert paired.ratios([(False, 1.0), (True, 2.0), (False, 1.0)]) == pytest.approx([math.log(2)])
    assert paired.ratios([(True, 2.0), (False, 1.0), (True, 2.0)]) == pytest.approx([math.log(2)])
    assert paired.slow_down([[0.0] * 23], 0) is None


def test_more_looks_make_wider_intervals():
    ratios = [paired.ratios(run(random.Random(1), 0, 0))]
    assert paired.slow_down(ratios, 0, 6)[1] > 1.3 * paired.slow_down(ratios, 0)[1]


@pytest.mark.parametrize(
    "slow,besides,verdict",
    [
        ((0.008, 0.001, 90), 0, "within"),
        ((0.008, 0.001, 90), 0.002, "unresolved"),
        ((0.012, 0.001, 90), 0, "over"),
        ((0.0095, 0.001, 90), 0, "unresolved"),
        ((-0.02, 0.001, 90), 0, "unresolved"),
        (None, 0, "unresolved"),
    ],
)
def test_verdicts(slow, besides, verdict):
    assert paired.judge(slow, besides, 0.01) == verdict


def program(name):
    """A benchmark's functions."""
    loader = importlib.machinery.SourceFileLoader(f"benchmark_{name}", str(BENCHMARKS / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    write, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = write
    return module


def test_cpu_time_of_those_that_ended():
    """It is not taken off that of the others."""
    watch = program("watch")
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert watch.cpu_s(process.pid) is None and watch.cpu_s(os.getpid()) > 0
    at_first = {1: 5.0, 2: 70.0, 3: None, 4: 0.0}
    assert watch.spent_of(at_first, {1: 6.5, 2: None, 3: None, 4: 0.0}) == {1: 1.5, 4: 0.0}


def test_shared_memory_counts_once(monkeypatch):
    goals, rows = program("goals"), []
    row = {
        "processes": 3,
        "live_s": 1,
        "iprobe_bytes": 10 << 20,
        "shared_bytes": 8 << 20,
        "server_bytes": 7 << 20,  # 5 of the shared ones
        "server_rings": 5 << 20,
        "idle_cpu_percent": 1,
    }
    monkeypatch.setattr(goals, "rows_of", lambda *_: [row])
    monkeypatch.setattr(goals.os, "getuid", lambda: 0)

    class Table:
        def add(self, *what):
            rows.append(what)

    goals.rules_that_wait(Table(), [])
    assert [value for what, value, *_ in rows if "MiB" in what] == [20]


def test_a_goal_that_is_missed_names_where_that_is_told(root):
    """Each heading is one of docs/performance.md."""
    goals = program("goals")
    headings = set(re.findall(r"^#+ (.+)$", (root / "docs/performance.md").read_text(), re.M))
    assert set(goals.SECTIONS.values()) <= headings


def test_rows_stand_beside_those_of_an_earlier_version(capsys):
    table = program("goals").Table()
    table.name, table.earlier = "read", {"one": 4.0}
    table.add("one", 5.0, None, 3, "command")
    table.add("two", 5.0, 3, None, "command")
    table.add("three", None, 3, None, "command")
    assert [(r["verdict"], r.get("before"), r["of"]) for r in table.rows] == [
        ("MISSED", 4.0, "read"),
        ("met", None, "read"),
        ("not had", None, "read"),
    ]
    assert "command (before: 4.00)" in capsys.readouterr().out

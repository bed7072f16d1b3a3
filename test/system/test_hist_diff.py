# SPDX-License-Identifier: Apache-2.0
"""iprobe hist --diff: how far the latency profiles of two traces are apart, against distances that
are known, and what is said where there are too few calls to tell.
"""

import json
import math
import pathlib
import random
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest.actor import one_line  # noqa: E402


def make(me, rows, seed=1, hz=1_000_000_000):
    """rows: (function, ns, calls); the calls come in random order. rows may have values as
    (function, ns, calls, value).
    """
    rng = random.Random(seed)
    trace = tracegen.Trace(hz=hz)
    t = trace.thread()
    number = trace.signature("u8:n") if any(len(row) > 3 for row in rows) else 0
    calls = [row for row in rows for _ in range(row[2])]
    rng.shuffle(calls)
    for name, ns, _, *value in calls:
        t.call(name, values=(number, 0, value) if value else None)
        t.advance(ns * hz // 1_000_000_000)
        t.ret()
        t.advance(100)
    return trace.write(me.dir() / "trace")


def distance(first, second):
    """As it is defined, of calls by bin."""
    n1, n2, sum1, sum2, work = sum(first), sum(second), 0, 0, 0
    for a, b in zip(first, second):
        sum1, sum2 = sum1 + a, sum2 + b
        work += abs(sum1 / n1 - sum2 / n2)
    return work


def diff(me, before, after, *options):
    done = me.iprobe("hist", "--diff", before, "--json", *options, after)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


BEFORE = [
    ("same", 100, 500),
    ("edge", 126, 500),
    ("slow", 100, 400),
    ("fast", 6_400, 400),
    ("cache", 100, 950),
    ("cache", 10_000, 50),
    ("gone", 100, 50),
    ("rare", 10, 5),
    ("wide", 10, 13),
    ("wide", 100_000, 12),
]
AFTER = [
    ("same", 100, 700),
    ("edge", 129, 500),
    ("slow", 800, 400),
    ("fast", 100, 100),
    ("fast", 6_400, 300),
    ("cache", 100, 950),
    ("cache", 80_000, 30),
    ("cache", 10_000, 20),
    ("fresh", 100, 50),
    ("rare", 100, 50),
    ("wide", 10, 12),
    ("wide", 100_000, 13),
]


def test_known_distances(me):
    before, after = make(me, BEFORE), make(me, AFTER, 2)
    document = diff(me, before, after)
    assert [document[key]["dir"] for key in ("before", "after")] == [str(before), str(after)]
    rows = {f["function"]: f for f in document["functions"]}
    found = {name: (f["verdict"], f["distance_bins"], f["shift_bins"]) for name, f in rows.items()}
    known = {
        "slow": ("differs", 3, 3),  # all of them from 64.. to 512..
        "fast": ("differs", 0.25 * 6, -0.25 * 6),  # a quarter, from 4096.. to 64..
        "cache": ("differs", 0.03 * 3, 0.03 * 3),  # a new peak, however small the distance
        "fresh": ("new", None, None),
        "gone": ("gone", None, None),
        "edge": ("alike", 1, 1),
        "same": ("alike", 0, 0),
        "wide": ("unsure", 13 / 25, 13 / 25),
        "rare": ("few", 3, 3),
    }
    assert set(found) == set(known)
    for name, (verdict, *bins) in known.items():
        assert found[name][0] == verdict, (name, rows[name])
        for got, wanted in zip(found[name][1:], bins):
            assert (got is None) == (wanted is None), name
            if name != "wide" and wanted is not None:
                assert got == pytest.approx(wanted, abs=1e-9), name
    assert found["wide"][1] == pytest.approx(13 / 25, abs=0.2)
    # what differs most comes first, then what is only in one of them
    order = [f["function"] for f in document["functions"]]
    assert order[:3] == ["slow", "fast", "cache"] and set(order[3:5]) == {"fresh", "gone"}
    # a narrow peak that crosses the edge of a bin is far by bins, and not by finer ones
    assert rows["edge"]["fine_distance_bins"] == pytest.approx(math.log2(129 / 126), abs=0.03)
    assert rows["slow"]["fine_distance_bins"] == pytest.approx(3, abs=0.03)
    assert rows["fresh"]["before"] is None and rows["fresh"]["after"]["calls"] == 50
    assert rows["slow"]["before"]["calls"] == rows["slow"]["after"]["calls"] == 400


def peaks(f):
    return [[p["from_ns"] for p in f[key]] for key in ("peaks_came", "peaks_went")]


def test_peaks_that_came_and_went(me):
    before, after = make(me, BEFORE), make(me, AFTER, 2)
    rows = {f["function"]: f for f in diff(me, before, after)["functions"]}
    assert peaks(rows["slow"]) == [[512], [64]]
    assert peaks(rows["fast"]) == [[64], []]
    assert peaks(rows["cache"]) == [[65_536], []]
    for name in ("same", "edge", "wide", "rare", "fresh", "gone"):
        assert peaks(rows[name]) == [[], []], name
    rows = {f["function"]: f for f in diff(me, after, before)["functions"]}
    assert peaks(rows["cache"]) == [[], [65_536]]
    assert rows["slow"]["shift_bins"] == pytest.approx(-3)


def test_for_people(me):
    before, after = make(me, BEFORE), make(me, AFTER, 2)
    text = me.iprobe("hist", "--diff", before, after).stdout
    rows = [line.split() for line in text.splitlines()]
    table = [row for row in rows if row and row[0] in ("differs", "new", "gone", "alike", "few")]
    assert [row[-1] for row in table[:3]] == ["slow", "fast", "cache"]
    assert table[0][1] == "3.00" and table[0][3] == "+3.00" and table[1][3] == "-1.50"
    assert text.count("peak came") == 3 and text.count("peak went") == 1
    assert "edge" not in text and "2 alike" in text and "1 unsure" in text and "1 few" in text
    # by name, those that do not differ are shown, too
    text = me.iprobe("hist", "--diff", before, "-f", "edge,rare", after).stdout
    assert re.search(r"^alike .* edge$", text, re.M) and re.search(r"^few .* rare$", text, re.M)
    text = me.iprobe("hist", "--diff", before, "-n", "1", after).stdout
    assert "... and 4 more that differ" in text
    none = me.iprobe("hist", "--diff", before, before).stdout
    assert "(none)" in none and "differs" not in none


def test_by_value(me):
    """The value that got slower is found; the other one is alike."""
    before = make(me, [("work", 100, 300, 1), ("work", 100, 300, 2), ("work", 100, 30, 3)])
    after = make(me, [("work", 100, 300, 1), ("work", 400, 300, 2), ("work", 100, 30, 4)], 2)
    document = diff(me, before, after, "--by", "value:n")
    assert document["by"] == "value:n"
    assert {(r["value"], r["verdict"]) for r in document["rows"]} == {
        (1, "alike"),
        (2, "differs"),
        (3, "gone"),
        (4, "new"),
    }
    assert document["rows"][0]["distance_bins"] == pytest.approx(2)
    text = me.iprobe("hist", "--diff", before, "--by", "value:n", after).stdout
    assert re.search(r"^differs .* work  n=2$", text, re.M), text


def test_other_clocks(me):
    """Bins are in nanoseconds, whatever the clocks of the machines."""
    rows = [("work", 1_000, 300), ("work", 50_000, 40)]
    before, after = make(me, rows), make(me, rows, 2, hz=2_500_000_000)
    (work,) = diff(me, before, after)["functions"]
    assert work["verdict"] == "alike" and work["distance_bins"] == 0


def test_one_behaviour_is_alike(me):
    """Functions that do the same in both, with long tails: hardly any is said to differ."""
    rng = random.Random(5)

    def one(seed):
        own = random.Random(seed)
        trace = tracegen.Trace(hz=1_000_000_000)
        t = trace.thread()
        for i in range(60):
            for _ in range(own.randrange(50, 400)):
                t.call(f"f{i}")
                t.advance(int(own.lognormvariate(4 + i / 10, 0.3 + i / 40)) + 1)
                t.ret()
        return trace.write(me.dir() / "trace")

    document = diff(me, one(rng.random()), one(rng.random()))
    verdicts = [f["verdict"] for f in document["functions"]]
    assert len(verdicts) == 60 and verdicts.count("differs") <= 1, verdicts


def test_what_all_have_in_common(me):
    """Everything takes twice as long: a line says that it may be the machine."""
    names = [f"f{i}" for i in range(12)]
    before = make(me, [(name, 100, 50) for name in names])
    after = make(me, [(name, 200, 50) for name in names], 2)
    document = diff(me, before, after)
    assert document["median_shift_bins"] == pytest.approx(1)
    assert "shifted by +1.00" in me.iprobe("hist", "--diff", before, after).stdout
    # one of twelve, and too few to have something in common
    after = make(me, [(name, 200 if name == "f3" else 100, 50) for name in names], 2)
    assert diff(me, before, after)["median_shift_bins"] == 0
    assert "shifted by" not in me.iprobe("hist", "--diff", before, after).stdout
    assert diff(me, before, after, "-f", "f3,f4")["median_shift_bins"] is None


def test_measured_in_the_process(me, programs):
    """Histograms of --payload hist are compared with such ones, and not with logged calls."""
    program = programs.simple("changing_latency", placement="fentry")
    traces = []
    for rounds, payload in (
        (("4000", "0"), "hist"),
        (("600", "700"), "hist"),
        (("600", "300"), "log"),
    ):
        directory = me.dir() / "trace"
        done = me.iprobe(
            "run", "-q", "--payload", payload, "-o", directory, "--", program, *rounds
        )
        assert done.returncode == 0, repr(done)
        traces.append(directory)
    rows = {f["function"]: f for f in diff(me, traces[0], traces[1])["functions"]}
    assert rows["handle"]["verdict"] == "differs" and rows["handle"]["distance_bins"] > 0.2
    assert rows["handle"]["fine_distance_bins"] is None
    assert rows["handle"]["before"]["payload"] == "hist"
    rows = {f["function"]: f for f in diff(me, traces[0], traces[2])["functions"]}
    assert rows["handle"]["verdict"] == "not tested" and rows["handle"]["distance_bins"] is None
    assert "not tested" in me.iprobe("hist", "--diff", traces[0], traces[2]).stdout


def test_a_program_that_changes(me, programs):
    """25 us and 800 us are five bins apart; by how much they are, the program has measured."""
    program = programs.simple("changing_latency", placement="fentry")
    traces, said = [], []
    for rounds in (("4000", "0"), ("0", "400")):
        directory = me.dir() / "trace"
        done = me.iprobe("run", "-q", "--args", "-o", directory, "--", program, *rounds)
        assert done.returncode == 0, repr(done)
        said.append(json.loads(done.stdout.splitlines()[-1]))
        traces.append(directory)
    document = diff(me, *traces, "--by", "value:kind")
    rows = {r["value"]: r for r in document["rows"]}
    assert rows["write"]["before"]["calls"] == said[0]["fast_writes"]
    assert rows["write"]["after"]["calls"] == said[1]["slow_writes"]
    assert rows["write"]["verdict"] == "differs"
    # now and then the thread loses its CPU between the program's clock and the probe's
    known = distance(said[0]["profile"][0], said[1]["profile"][1])
    assert known > 4 and rows["write"]["distance_bins"] == pytest.approx(known, abs=0.3)
    assert rows["write"]["shift_bins"] == pytest.approx(rows["write"]["distance_bins"], abs=0.1)
    assert document["rows"][0]["value"] == "write"
    assert abs(rows["read"]["distance_bins"]) < 1


def test_lost_events_are_told(me):
    before = make(me, BEFORE)
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    for i in range(50):
        t.call("same")
        t.advance(100)
        if i == 30:
            t.lose(3)
        t.ret()
    after = trace.write(me.dir() / "trace")
    done = me.iprobe("hist", "--diff", before, after)
    assert done.returncode == 0 and "LOST" in done.stderr and "3 lost" in done.stdout
    document = diff(me, before, after)
    assert (document["before"]["lost"], document["after"]["lost"]) == (0, 3)


def test_wrong_usage(me):
    before = make(me, [("work", 100, 30)])
    for options in (
        ["--over-time"],
        ["--interval", "1s"],
        ["--tid", "1000"],
        ["--by", "function"],
    ):
        assert me.iprobe("hist", "--diff", before, *options, before).returncode == 2, options
    assert me.iprobe("hist", "--diff", before, "1").returncode == 2
    assert "nowhere" in one_line(me.iprobe("hist", "--diff", "/nowhere", before))
    other = make(me, [("else", 100, 30)])
    assert me.iprobe("hist", "--diff", before, "-f", "work", other).returncode == 1

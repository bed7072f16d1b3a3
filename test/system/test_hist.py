# SPDX-License-Identifier: Apache-2.0
"""iprobe hist on traces whose calls are known (test/tracegen.py)."""

import collections
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest.actor import one_line  # noqa: E402


def hist(me, directory, *options):
    done = me.iprobe("hist", "--json", *options, directory)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def ns(trace, ticks):
    return (ticks * 1_000_000_000 + trace.hz // 2) // trace.hz


@pytest.mark.parametrize(
    "made",
    [{"seed": 1}, {"seed": 2}, {"seed": 3}, {"seed": 1, "skews": tracegen.SKEWS}],
    ids=["1", "2", "3", "clocks"],
)
def test_each_call_is_in_its_bucket(me, made):
    trace = tracegen.random_trace(**made)
    directory = trace.write(me.dir() / "trace")
    durations, ticks = collections.defaultdict(list), collections.Counter()
    for call in trace.calls:
        if call.how != "unfinished":
            durations[call.name].append((ns(trace, call.end - call.start), call.start))
            ticks[call.name] += call.end - call.start
    document = hist(me, directory, "--over-time")
    assert [f["function"] for f in document["functions"]] == sorted(
        durations, key=lambda name: -ticks[name]
    )
    for f in document["functions"]:
        known = durations[f["function"]]
        buckets = collections.Counter(d.bit_length() for d, _ in known)
        assert {(b["from_ns"], b["to_ns"]): b["calls"] for b in f["buckets"]} == {
            (1 << b >> 1, 1 << b): n for b, n in buckets.items()
        }
        assert (f["calls"], f["min_ns"], f["max_ns"], f["total_ns"]) == (
            len(known),
            min(known)[0],
            max(known)[0],
            ns(trace, ticks[f["function"]]),
        )
        slices = collections.Counter(
            (ns(trace, start - trace.start) // document["slice_ns"], d.bit_length())
            for d, start in known
        )
        assert {
            (s["begin_ns"] // document["slice_ns"], s["from_ns"]): s["calls"]
            for s in f["over_time"]
        } == {(s, 1 << b >> 1): n for (s, b), n in slices.items()}


def with_durations(me, durations):
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    t.call("main")
    for ticks, n in durations:
        for _ in range(n):
            t.call("work")
            t.advance(ticks)
            t.ret()
    t.ret()
    return trace.write(me.dir() / "trace")


@pytest.mark.parametrize(
    "durations,peaks",
    [
        ([(100, 50)], [64]),
        ([(100, 500), (100_000, 20)], [64, 65536]),  # a cache that misses now and then
        ([(100, 500), (200, 300), (400, 100)], [64]),  # one slope
        ([(100, 300), (200, 160), (400, 290)], [64]),  # a dent is no valley
        ([(100, 300), (200, 140), (400, 290)], [64, 256]),
        ([(100, 290), (200, 160), (400, 300)], [256]),
        ([(100, 500), (100_000, 4)], [64]),  # too few
        ([(0, 10), (100, 500)], [0, 64]),
    ],
)
def test_peaks(me, durations, peaks):
    directory = with_durations(me, durations)
    (f,) = hist(me, directory, "-f", "work")["functions"]
    assert [b["from_ns"] for b in f["buckets"] if b["peak"]] == peaks
    text = me.iprobe("hist", "-f", "work", directory).stdout
    assert text.count("< peak") == len(peaks) and f"work: {f['calls']:,} calls" in text


def test_for_people(me):
    directory = with_durations(me, [(100, 500), (100_000, 20)])
    text = me.iprobe("hist", directory).stdout
    assert [l.split(":")[0] for l in text.splitlines() if " calls," in l or " call," in l] == [
        "main",
        "work",
    ]
    (row,) = [l for l in text.splitlines() if l.endswith("# < peak") and " 500 " in l]
    assert row.split()[:5] == ["64.0", "ns", "-", "128", "ns"] and row.count("#") == 50
    assert me.iprobe("hist", "-n", "1", directory).stdout.count(" in the mean") == 1
    heat = me.iprobe("hist", "--over-time", "-f", "work", directory).stdout.splitlines()
    rows = [l for l in heat if l.endswith("|")]
    assert (
        rows[0].split("|")[0].strip() == "65.5 us" and rows[-1].split("|")[0].strip() == "64.0 ns"
    )
    # the fast ones come first, the slow ones after them
    assert rows[-1].split("|")[1].startswith("+") and len(rows[-1].split("|")[1].strip()) <= 2
    assert len(rows[0].split("|")[1].strip()) > 40
    assert "no events of a thread 77" in one_line(me.iprobe("hist", "--tid", "77", directory))


@pytest.mark.parametrize(
    "args", [["-n", "0"], ["--tid", "x"], ["-f", ""], ["--nonsense"], ["a", "b"]], ids=" ".join
)
def test_wrong_usage(me, args):
    assert me.iprobe("hist", *args).returncode == 2

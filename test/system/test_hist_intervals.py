# SPDX-License-Identifier: Apache-2.0
"""iprobe hist by intervals: of traces whose calls are known, and of a program whose latency changes
at a time that it knows.
"""

import collections
import json
import pathlib
import random
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest import memory  # noqa: E402
from iptest.actor import last_words, one_line  # noqa: E402
from iptest.terminal import Terminal  # noqa: E402

from test_hist_diff import distance  # noqa: E402

FAST, SLOW = 16_384, 524_288  # the bins of 25 us and of 800 us: five apart
BINS = 65
FEW, ALIKE = 20, 0.1


def hist(actor, *options):
    done = actor.iprobe("hist", "--json", *options)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def ns(trace, ticks):
    return (ticks * 1_000_000_000 + trace.hz // 2) // trace.hz


def by_bin(counter):
    return [counter.get(b, 0) for b in range(BINS)]


@pytest.mark.parametrize(
    "made",
    [{"seed": 1}, {"seed": 2}, {"seed": 1, "skews": tracegen.SKEWS}],
    ids=["1", "2", "clocks"],
)
def test_each_call_is_in_its_interval(me, made):
    trace = tracegen.random_trace(**made)
    directory = trace.write(me.dir() / "trace")
    length = max(call.end for call in trace.calls) - trace.start
    interval = max(1, ns(trace, length) // 40)
    document = hist(me, "--interval", f"{interval}ns", directory)
    assert document["interval_ns"] == interval and document["lost"] == trace.lost
    known = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    for call in trace.calls:
        if call.how != "unfinished":
            known[call.name][ns(trace, call.start - trace.start) // interval][
                ns(trace, call.end - call.start).bit_length()
            ] += 1
    assert {f["function"] for f in document["functions"]} == set(known)
    for f in document["functions"]:
        assert {
            i["begin_ns"] // interval: {(b["from_ns"], b["calls"]) for b in i["buckets"]}
            for i in f["intervals"]
        } == {
            number: {(1 << b >> 1, n) for b, n in counts.items()}
            for number, counts in known[f["function"]].items()
        }
        before, now = None, collections.Counter()
        for i in f["intervals"]:
            assert i["calls"] == sum(b["calls"] for b in i["buckets"])
            now += known[f["function"]][i["begin_ns"] // interval]
            if sum(now.values()) < FEW or not before:
                assert i["distance_bins"] is None and not i["changed"]
            else:
                assert i["distance_bins"] == pytest.approx(
                    distance(by_bin(before), by_bin(now)), abs=1e-9
                )
                assert i["changed"] == (
                    i["distance_bins"] >= ALIKE and i["distance_bins"] > i["by_chance_bins"]
                )
            if sum(now.values()) >= FEW:
                before, now = now, collections.Counter()


def phases(me, *durations):
    """work() in phases of (ticks, calls), 1 us between calls; 1 tick is 1 ns."""
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    t.call("main")
    for ticks, n in durations:
        for _ in range(n):
            t.call("work")
            t.advance(ticks)
            t.ret()
            t.advance(1000)
    t.ret()
    return trace, trace.write(me.dir() / "trace")


def lines_of(text):
    """[(from, calls, distance, cells, changed)]"""
    return [
        re.fullmatch(r" *([0-9.]+) s +([0-9,]+) +(-|[0-9.]+) \|(.*)\|( changed)?", line).groups()
        for line in text.splitlines()
        if line.endswith(("|", " changed"))
    ]


def test_for_people(me):
    """100 ns for 1 ms, 3,000 ns from then on: five bins more."""
    _, directory = phases(me, (100, 950), (3_000, 250))
    text = me.iprobe("hist", "-f", "work", "--interval", "100us", directory).stdout
    rows = lines_of(text)
    assert [float(row[0]) for row in rows[:3]] == [0, 0.0001, 0.0002]
    assert sum(int(row[1].replace(",", "")) for row in rows) == 1200
    assert [row[2] for row in rows[:3]] == ["-", "0.00", "0.00"]
    changed = [i for i, row in enumerate(rows) if row[4]]
    # the interval in which it changed is between the two, and the next one is all slow
    assert changed[0] == 10 and changed[-1] <= changed[0] + 1
    assert sum(float(rows[i][2]) for i in changed) == pytest.approx(5, abs=0.02)
    assert all(row[3].strip() == row[3][: len(row[3].strip())] for row in rows[: changed[0]])
    assert all(row[3].endswith(row[3].strip()) for row in rows[changed[-1] :])
    assert "calls in a cell" in text and "in bins" in text
    # the same with --over-time, which goes with it
    assert me.iprobe("hist", "-f", "work", "--interval", "100us", "--over-time", directory).stdout
    # a pipe has lines of one width, and nothing but ASCII
    assert text.isascii() and len({len(row[3]) for row in rows}) == 1


def test_pauses_and_few_calls(me):
    trace, directory = phases(me, (100, 140), (1_000_000, 1), (100, 12), (150_000, 1), (3_000, 12))
    rows = hist(me, "-f", "work", "--interval", "100us", directory)["functions"][0]["intervals"]
    text = me.iprobe("hist", "-f", "work", "--interval", "100us", directory).stdout
    assert re.search(r"^ +0\.0002 s +-  \(no calls until 0\.0011 s\)$", text, re.MULTILINE), text
    assert sum(i["calls"] for i in rows) == 166
    # so few go with the next interval that has calls
    first, second = (i for i in rows if i["begin_ns"] >= 1_100_000)
    assert first["calls"] == 13 and first["distance_bins"] is None and not first["changed"]
    # before: some 49 fast ones and that of a millisecond
    both = by_bin({(100).bit_length(): 12, (150_000).bit_length(): 1, (3_000).bit_length(): 12})
    before = next(i for i in rows if i["begin_ns"] == 100_000)
    assert before["calls"] >= 20 and second["calls"] == 12
    assert second["distance_bins"] == pytest.approx(
        distance(
            by_bin({b["to_ns"].bit_length() - 1: b["calls"] for b in before["buckets"]}), both
        )
    )
    assert trace.lost == 0


def test_width_of_a_terminal(me):
    """As many columns as there are: neither more nor far fewer."""
    _, directory = phases(me, (100, 900), (3_000, 250))
    for columns in (70, 120, 200):
        shown = on_terminal(me, columns, "hist", "-f", "work", "--interval", "100us", directory)
        rows = [line for line in shown if line.endswith(("|", " changed"))]
        # six bins, each as wide as there is room for
        cells = {len(row[3]) for row in lines_of("\n".join(shown))}
        assert cells == {min(4, (columns - 48) // 6) * 6} and max(map(len, rows)) <= columns
        heat = on_terminal(me, columns, "hist", "-f", "work", "--over-time", directory)
        widths = {len(line) for line in heat if line.endswith("|")}
        assert widths == {columns}, (columns, widths)


def on_terminal(me, columns, *words):
    """What it prints on a terminal: [line]."""
    terminal = Terminal(me, *words, columns=columns)
    try:
        code, said = terminal.wait_end()
        assert code == 0, said
        return terminal.scrolled().splitlines()
    finally:
        terminal.close()


def test_lost_events_are_told(me):
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    for i in range(200):
        t.call("work")
        t.advance(100)
        if i == 100:
            t.lose(1)
        t.ret()
        t.advance(1000)
    directory = trace.write(me.dir() / "trace")
    done = me.iprobe("hist", "--interval", "50us", "--json", directory)
    document = json.loads(done.stdout)
    assert document["lost"] == 1 and "LOST" in done.stderr
    (work,) = document["functions"]
    # the call during which one was lost may be another one: it is in no interval
    assert work["calls"] == sum(i["calls"] for i in work["intervals"]) == 199


def test_too_many_intervals(me):
    _, directory = phases(me, (100, 900))
    trace, long = phases(me, (1_000_000_000, 10))
    assert "choose fewer functions, or longer intervals" in one_line(
        me.iprobe("hist", "--interval", "1ns", long)
    )
    assert trace and me.iprobe("hist", "--interval", "1s", directory).returncode == 0
    page = me.dir() / "page.html"
    assert "longer ones (--interval)" in one_line(
        me.iprobe("export", "--format", "html", "-o", page, "--interval", "1us", long)
    )
    assert not page.exists()


@pytest.mark.parametrize(
    "options",
    [
        ["hist", "--interval", "0"],
        ["hist", "--interval", "x"],
        ["hist", "--interval", "1s", "--diff", "other"],
        ["export", "--format", "folded", "--interval", "1s"],
        ["export", "--format", "html", "--interval", "0"],
    ],
    ids=" ".join,
)
def test_wrong_usage(me, options):
    assert me.iprobe(*options).returncode == 2


def test_a_program_that_changes(me, programs):
    """The time at which it has changed is found, in the function and in the value that did."""
    program = programs.simple("changing_latency", placement="fentry")
    directory = me.dir() / "trace"
    done = me.iprobe("run", "-q", "--args", "-o", directory, "--", program, "5000", "500")
    assert done.returncode == 0, repr(done)
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["reads"], said["fast_writes"], said["slow_writes"]) == (5500, 5000, 500)
    dumped = me.iprobe("dump", "--json", "-f", "handle", directory).stdout.splitlines()
    writes = [e["ts"] for e in map(json.loads, dumped) if e.get("args") == {"kind": "write"}]
    changed_at, T = writes[5000], 100_000_000
    document = hist(me, "--by", "value:kind", "--interval", "100ms", directory)
    rows = {r["value"]: r for r in document["rows"]}
    assert (rows["read"]["calls"], rows["write"]["calls"]) == (5500, 5500)
    intervals = rows["write"]["intervals"]
    assert {i["begin_ns"]: i["calls"] for i in intervals} == collections.Counter(
        ts // T * T for ts in writes
    )
    # no call after the change is shorter than it can be, and most of those before are
    after = [i for i in intervals if i["begin_ns"] >= changed_at]
    assert all(b["from_ns"] >= SLOW for i in after for b in i["buckets"])
    before = [b for i in intervals if i["begin_ns"] + T <= changed_at for b in i["buckets"]]
    assert sum(b["calls"] for b in before if b["from_ns"] == FAST) > sum(
        b["calls"] for b in before if b["from_ns"] >= SLOW
    )
    # the change is found in the interval of the change, or when the next ones have 20 calls
    compared = [
        i
        for i in intervals
        if i["begin_ns"] + T > changed_at and i["distance_bins"] is not None
    ]
    assert any(i["changed"] and i["distance_bins"] > 0.5 for i in compared[:3]), compared[:3]
    text = me.iprobe("hist", "--by", "value:kind", "--interval", "100ms", directory).stdout
    assert text.count("calls in a cell") == 1 and 'kind="write"' in text and "changed" in text
    # the picture by value, too
    over_time = hist(me, "--by", "value:kind", "--over-time", directory)
    for row in over_time["rows"]:
        assert sum(c["calls"] for c in row["over_time"]) == row["calls"]


def test_of_several_processes(actor, targets, programs):
    """Calls of all of them are in each interval; --process chooses one."""
    program = programs.simple("changing_latency", placement="fentry")
    some = [targets.start(actor, [program, "-w", "2000", "200"]) for _ in range(2)]
    directory = actor.dir() / "trace"
    session = actor.start_iprobe("attach", *(t.pid for t in some), "-q", "-o", directory)
    for target in some:
        memory.wait_until_live(target.pid, session)
        target.say()
    said = [json.loads(target.proc.stdout.readline()) for target in some]
    for target in some:
        target.finish()
    assert last_words(session).returncode == 0
    total = sum(s["steady"] for s in said)
    (steady,) = hist(actor, "-f", "steady", "--interval", "50ms", directory)["functions"]
    assert steady["calls"] == sum(i["calls"] for i in steady["intervals"]) == total
    (one,) = hist(
        actor, "-f", "steady", "--interval", "50ms", "--process", some[0].pid, directory
    )["functions"]
    assert sum(i["calls"] for i in one["intervals"]) == said[0]["steady"]


def test_random_calls_are_no_changes(me):
    """Intervals of one behaviour: hardly any is called changed."""
    rng = random.Random(11)
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    for _ in range(20_000):
        t.call("work")
        t.advance(int(rng.lognormvariate(6, 1.5)) + 1)
        t.ret()
    directory = trace.write(me.dir() / "trace")
    (work,) = hist(me, "--interval", "200us", directory)["functions"]
    compared = [i for i in work["intervals"] if i["distance_bins"] is not None]
    assert len(compared) > 100 and sum(i["changed"] for i in compared) <= len(compared) // 100

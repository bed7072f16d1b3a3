# SPDX-License-Identifier: Apache-2.0
"""Figures by recorded values: report --by value:NAME, --slowest and --value, hist --by and dump
--value, on traces whose calls are known (test/tracegen.py) and on a program that times itself.
"""

import collections
import csv
import fnmatch
import io
import json
import os
import pathlib
import random
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest.actor import one_line  # noqa: E402
from test_report import check_row, ns, rank, report  # noqa: E402

CUT, UNREADABLE, NULL = 1 << 63, 1 << 62, 1 << 61
URIS = ["/", "/index.html", "/\x1b[2Jcl\n", 'quo"te\\', "ü" * 20]
SEEDS = [1, 2, 3]


def string(text, flags=0):
    data = text.encode()
    padded = data + bytes(-len(data) % 8)
    return [flags | len(data)] + [
        int.from_bytes(padded[i : i + 8], "little") for i in range(0, len(padded), 8)
    ]


def word(n):
    return n & (1 << 64) - 1


def valued_trace(seed, steps=1500):
    """handle(n, uri) with results, recursive at times; other() has another value, plain() none. In
    some calls handle() comes without values, or one of them could not be read. Calls have args (n,
    uri) and result; None where they are not recorded.
    """
    trace, rng = tracegen.Trace(), random.Random(seed)
    entry, leave = trace.signature("i4:n s:uri"), trace.signature("i8")
    other = trace.signature("u4:port")
    for i in range(3):
        thread = trace.thread(i)
        thread.call("main")
        for _ in range(steps):
            thread.advance(rng.choice([1, 9, 130, 2100, 70_000]))
            p, depth = rng.random(), len(thread.frames)
            if (p < 0.5 and depth < 12) or depth < 2:
                name = rng.choice(["handle", "handle", "other", "plain"])
                n, uri = rng.choice([-5, 0, 1, 3, 1000]), rng.choice(URIS)
                args, missing, values = (None, None), 0, None
                if name == "handle" and rng.random() < 0.9:
                    missing = rng.choice([0, 0, 0, 0, 1, 2])
                    values = (
                        entry,
                        missing,
                        [0 if missing & 1 else word(n)]
                        + (string("", NULL) if missing & 2 else string(uri)),
                    )
                    args = None if missing & 1 else n, None if missing & 2 else uri
                elif name == "other":
                    values = (other, 0, [n & 0xFFFFFFFF])
                call = thread.call(name, values=values)
                call.args, call.result = args, None
            elif p < 0.93:
                call = thread.frames[-1]
                if call.name == "handle":
                    tail = rng.random() < 0.1
                    if not tail:
                        call.result = rng.choice([-1, 0, 7])
                    thread.ret(tail, None if tail else (leave, 0, [word(call.result)]))
                elif call.name != "main":
                    thread.ret()
            elif depth > 3:
                thread.longjmp(rng.randrange(2, depth))
    return trace


def calls_of(trace, name="handle"):
    return [c for c in trace.calls if c.name == name]


def above(call):
    call = call.parent
    while call:
        yield call
        call = call.parent


def check_rows(trace, document, value_of, is_outermost):
    """Rows against the calls of the trace, by what value_of() makes of them."""
    groups = collections.defaultdict(list)
    for call in calls_of(trace):
        groups[value_of(call)].append(call)
    rows = {None if row["value_is"] == "missing" else row["value"]: row for row in document["rows"]}
    assert len(rows) == len(document["rows"])
    assert rows.keys() == groups.keys()
    for value, row in rows.items():
        assert row["function"] == "handle" and row["module"] == "demo"
        assert row["value_is"] in ("value", "missing", "range")
        # by the tail exits a call has ended, too
        check_row(trace, row, groups[value], is_outermost)
    assert document["without_value"] == sum(c.name != "handle" for c in trace.calls)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["n", "uri", "arg1"])
def test_by_argument(me, seed, name):
    trace = valued_trace(seed)
    directory = trace.write(me.dir() / "trace")
    place = 1 if name == "uri" else 0
    document = report(me, directory, "--by", f"value:{name}", "-f", "!other")
    assert document["by"] == f"value:{name}" and document["other_values"] == 0

    def is_outermost(call):
        return all(c.name != "handle" or c.args[place] != call.args[place] for c in above(call))

    trace.calls = [c for c in trace.calls if c.name != "other"]
    check_rows(trace, document, lambda c: c.args[place], is_outermost)


@pytest.mark.parametrize("seed", SEEDS)
def test_by_result(me, seed):
    """A call that has not returned, or ended by a jump, has no result."""
    trace = valued_trace(seed)
    directory = trace.write(me.dir() / "trace")

    check_rows(
        trace,
        report(me, directory, "--by", "value:retval"),
        lambda c: c.result,
        lambda c: c.outermost,
    )


def test_powers_of_two(me):
    trace = valued_trace(4)
    directory = trace.write(me.dir() / "trace")
    ranges = {-5: "-7..-4", 0: 0, 1: 1, 3: "2..3", 1000: "512..1023", None: None}
    document = report(me, directory, "--by", "value:n/log2", "-s", "value", "-f", "handle")
    assert document["by"] == "value:n/log2"
    rows = document["rows"]
    assert [row["value"] for row in rows] == ["512..1023", "2..3", 1, 0, "-7..-4", None]
    assert [row["value_is"] for row in rows] == ["range"] * 2 + ["value", "value"] + [
        "range",
        "missing",
    ]
    assert [(row["value_from"], row["value_to"]) for row in rows] == [
        (512, 1023),
        (2, 3),
        (None, None),
        (None, None),
        (-7, -4),
        (None, None),
    ]
    counts = collections.Counter(ranges[c.args[0]] for c in calls_of(trace))
    assert {row["value"]: row["calls"] for row in rows} == counts
    # strings are no numbers, and stay as they are
    plain, log2 = (
        report(me, directory, "--by", by)["rows"] for by in ("value:uri", "value:uri/log2")
    )
    assert plain == log2


def test_rows_are_chosen_and_sorted_as_others(me):
    trace = valued_trace(5)
    directory = trace.write(me.dir() / "trace")
    rows = report(me, directory, "--by", "value:n")["rows"]
    assert rows == sorted(rows, key=lambda r: -r["total_ns"])
    by_calls = report(me, directory, "--by", "value:n", "-s", "calls")["rows"]
    assert [r["calls"] for r in by_calls] == sorted((r["calls"] for r in rows), reverse=True)
    least = sorted(r["calls"] for r in rows)[2]
    some = report(me, directory, "--by", "value:n", "--where", f"calls>{least}")["rows"]
    assert some == [r for r in rows if r["calls"] > least] and len(some) < len(rows)
    assert report(me, directory, "--by", "value:n", "-n", 2)["rows"] == rows[:2]
    text = me.iprobe("report", "--by", "value:n", "-s", "value", directory).stdout
    shown = re.findall(r"  handle  (-?\d+|\(none\))", text)
    assert shown == [str(n) for n in (1000, 3, 1, 0, -5)] + ["(none)"]
    texts = [r["value"] for r in report(me, directory, "--by", "value:uri", "-s", "value")["rows"]]
    assert texts == sorted(URIS, key=str.encode) + [None]
    assert "  function, n\n" in text
    assert "calls and points of functions that do not record n are not among these" in text


def test_csv_says_the_same(me):
    trace = valued_trace(6)
    directory = trace.write(me.dir() / "trace")
    for by in ("value:n", "value:n/log2", "value:uri", "value:retval"):
        rows = report(me, directory, "--by", by)["rows"]
        table = list(
            csv.DictReader(io.StringIO(me.iprobe("report", "--csv", "--by", by, directory).stdout))
        )
        assert len(table) == len(rows) > 2
        for row, line in zip(rows, table):
            said = row["value"]
            if isinstance(said, str):  # control characters are '?'
                said = "".join("?" if ord(c) < 32 else c for c in said)
            assert line["value"] == ("" if said is None else str(said))
            assert line["value_is"] == row["value_is"] and line["calls"] == str(row["calls"])
            assert line["value_from"] == str(row["value_from"] or "")


def test_hostile_values(me):
    """Whatever stands in a trace is shown harmlessly, and each value once."""
    trace = tracegen.Trace()
    thread = trace.thread()
    real, text = trace.signature("f8:v"), trace.signature("s:v")
    values = [
        (real, 0, [0x7FF8000000000000]),
        (real, 0, [0xFFF8000000000001]),  # another NaN
        (real, 0, [0x8000000000000000]),
        (real, 0, [0]),
        (real, 0, [0x7FF0000000000000]),
        (text, 0, string("\x1b]0;title\x07\u202e")),
        (text, 0, string("x" * 1024, CUT)),
        (text, 0, string("x" * 1024)),
        (text, 0, string("", NULL)),
        (text, 0, [UNREADABLE, 0x1234]),
        (text, 0, [UNREADABLE, 0x5678]),
        (text, 0, [5000]),  # longer than its record
        (text, 0, []),
        (99, 0, [1]),
    ]
    thread.call("main")
    for value in values:
        thread.call("f", values=value)
        thread.advance(100)
        thread.ret()
    directory = trace.write(me.dir() / "trace")
    rows = report(me, directory, "--by", "value:v")["rows"]
    # the document has no NaN: the text is the value
    assert sorted((str(r["value"]), r["value_is"], r["calls"]) for r in rows) == sorted(
        [
            ("nan", "value", 2),
            ("0", "value", 2),
            ("inf", "value", 1),
            ("\x1b]0;title\x07\u202e", "value", 1),
            ("x" * 1024, "cut", 1),
            ("x" * 1024, "value", 1),
            ("None", "null", 1),
            ("None", "missing", 5),
        ]
    )
    for command in (
        ("report", "--by", "value:v"),
        ("report", "--by", "value:v", "--csv"),
        ("report", "--slowest", 20),
        ("report", "--slowest", 20, "--csv"),
        ("hist", "--by", "value:v"),
        ("dump", "--value", "v=*"),
    ):
        out = me.iprobe(*command, directory).stdout
        assert "\x1b" not in out and "\x07" not in out and "\u202e" not in out, command
        assert "title" in out


def test_too_many_values(me):
    """The first 10,000 of a function have rows; the others are summed up, and that is told."""
    trace = tracegen.Trace()
    thread = trace.thread()
    n = trace.signature("u4:id")
    thread.call("main")
    for i in range(10_050):
        thread.call("f", values=(n, 0, [i]))
        thread.advance(1000)
        thread.ret()
    directory = trace.write(me.dir() / "trace")
    document = report(me, directory, "--by", "value:id", "-s", "calls")
    assert len(document["rows"]) == 10_001 and document["other_values"] == 50
    first = document["rows"][0]
    assert (first["value_is"], first["value"], first["calls"]) == ("others", None, 50)
    assert first["total_ns"] == ns(trace, 50 * 1000)
    assert {r["value"] for r in document["rows"][1:]} == set(range(10_000))
    text = me.iprobe("report", "--by", "value:id", "-s", "calls", "-n", 1, directory).stdout
    assert "f  (others)" in text and "(others): 50 calls or points" in text
    assert "--by value:NAME/log2 puts numbers together" in text
    assert "(others): 50 calls" in me.iprobe("hist", "--by", "value:id", "-n", 1, directory).stdout


@pytest.mark.parametrize("text", [False, True])
def test_values_that_have_rows_are_the_first_of_the_order(me, text):
    """Of 12,000 keys the slowest come last, and one key's many short calls are spread over all."""
    trace = tracegen.Trace()
    thread = trace.thread()
    key = trace.signature("s:key" if text else "u4:key")
    thread.call("main")

    def call(n, duration):
        thread.call("f", values=(key, 0, string(str(n)) if text else [n]))
        thread.advance(duration)
        thread.ret()

    for i in range(12_000):
        call(i, 50 + 10 * i)
        if i >= 11_000 and i % 100 == 0:
            call(90_000, 15_000)
    directory = trace.write(me.dir() / "trace")

    def rows(by, n=4):
        document = report(me, directory, "--by", "value:key", "-s", by)
        assert len(document["rows"]) == 10_001 and document["other_values"] > 2000
        own = [r for r in document["rows"] if r["value_is"] == "value"]
        assert sum(r["calls"] for r in document["rows"]) == 12_010
        return [(int(r["value"]), r["calls"]) for r in own[:n]]

    slowest = [(11_999, 1), (11_998, 1), (11_997, 1), (11_996, 1)]
    for by in ("max", "min", "avg", "p99"):
        assert rows(by) == slowest, by
    assert rows("total") == [(90_000, 10), *slowest[:3]] == rows("self")
    assert rows("calls", 1) == [(90_000, 10)]
    if not text:
        assert rows("value") == [(90_000, 10), *slowest[:3]]
    said = me.iprobe("report", "--by", "value:key", "-s", "max", "-n", 1, directory).stdout
    assert "By max the first 10,000 values of a function are shown, 50,000 of all." in said
    by_value = me.iprobe("report", "--by", "value:key", "-s", "value", "-n", 1, directory).stdout
    assert ("By value the first 10,000" in by_value) != text
    assert ("10,000 values of a function that were recorded first" in by_value) == text
    assert "iprobe report --slowest N shows single calls" in said
    assert ("/log2 puts numbers together" in said) != text
    document = json.loads(me.iprobe("hist", "--json", "--by", "value:key", directory).stdout)
    shown = {r["value"] for r in document["rows"]}
    assert len(shown) == 10_001 and document["other_values"] == 2001
    assert {"90000", "11999"} <= {str(value) for value in shown}


def test_lost_events(me):
    """A call that may be several taken for one is in calls, but not in min to max; the values of
    events that are not there are missed by nobody.
    """
    trace = tracegen.Trace()
    thread = trace.thread()
    n = trace.signature("i4:n")
    thread.call("main")
    for i in range(20):
        thread.call("f", values=(n, 0, [i % 2]))
        thread.advance(1000)
        if i == 7:
            thread.lose(40)
            thread.advance(1_000_000)
        thread.ret()
    directory = trace.write(me.dir() / "trace")
    rows = report(me, directory, "--by", "value:n", "-f", "f")["rows"]
    assert {r["value"]: r["calls"] for r in rows} == {0: 10, 1: 10}
    assert all(r["max_ns"] == ns(trace, 1000) for r in rows)
    document = report(me, directory, "--slowest", 30, "-f", "f")
    assert document["suspect"] == 1 and len(document["slowest"]) == 19
    assert "may be several taken for one" in me.iprobe("report", "--slowest", 3, directory).stdout
    rows = json.loads(me.iprobe("hist", "--json", "--by", "value:n", directory).stdout)["rows"]
    assert {r["value"]: r["calls"] for r in rows} == {0: 10, 1: 9}


def test_points(me):
    trace = tracegen.Trace()
    thread = trace.thread()
    n = trace.signature("u8 s")
    thread.call("main")
    for i in range(30):
        thread.point("seen", values=(n, 0, [i % 3, *string("ab"[i % 2])]))
    directory = trace.write(me.dir() / "trace")
    rows = report(me, directory, "--by", "value:arg1", "-s", "value")["rows"]
    assert [(r["function"], r["value"], r["calls"], r["points"]) for r in rows] == [
        ("seen", i, 10, 10) for i in (2, 1, 0)
    ]
    done = me.iprobe("report", "--slowest", 3, "-s", "value:arg1", directory)
    assert "'arg1' came with points, which are no calls: iprobe report --by 'value:arg1'" in (
        one_line(done)
    )
    for words, chosen in ((["--value", "arg2=b"], 15), (["-f", "seen"], 30)):
        done = me.iprobe("report", "--slowest", 3, *words, directory)
        assert done.returncode == 0, repr(done)
        assert f": the options choose {chosen} points and no calls: " in done.stderr, repr(done)
    done = me.iprobe("report", "--slowest", 3, "--value", "arg2=c", directory)
    assert "nothing meets 'arg2=c'" in done.stderr, repr(done)
    done = me.iprobe("hist", "--by", "value:arg2", directory)
    assert "points have no time: iprobe report --by 'value:arg2'" in one_line(done), repr(done)
    rows = report(me, directory, "--by", "value:arg2")["rows"]
    assert {r["value"]: r["points"] for r in rows} == {"a": 15, "b": 15}
    events = [
        json.loads(line)
        for line in me.iprobe("dump", "--json", "--value", "arg2=b", directory).stdout.splitlines()
    ]
    assert len(events) == 15 and all(e["args"]["arg2"] == "b" for e in events)


@pytest.mark.parametrize("seed", SEEDS)
def test_histograms(me, seed):
    trace = valued_trace(seed)
    directory = trace.write(me.dir() / "trace")
    for name, value_of in (
        ("n", lambda c: c.args[0]),
        ("uri", lambda c: c.args[1]),
        ("retval", lambda c: c.result),
    ):
        durations = collections.defaultdict(list)
        for c in calls_of(trace):
            if c.how != "unfinished":
                durations[value_of(c)].append(c.end - c.start)
        document, reported = (
            json.loads(me.iprobe(view, "--json", "--by", f"value:{name}", directory).stdout)
            for view in ("hist", "report")
        )
        assert document["by"] == f"value:{name}"
        rows = {r["value"]: r for r in document["rows"]}
        assert rows.keys() == durations.keys() and len(rows) == len(document["rows"])
        for value, row in rows.items():
            known = [ns(trace, ticks) for ticks in durations[value]]
            assert (row["calls"], row["min_ns"], row["max_ns"], row["total_ns"]) == (
                len(known),
                min(known),
                max(known),
                ns(trace, sum(durations[value])),
            )
            assert {b["from_ns"]: b["calls"] for b in row["buckets"]} == collections.Counter(
                1 << d.bit_length() >> 1 for d in known
            )
            for key, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99)):
                assert row[key] == pytest.approx(rank(known, share), rel=0.01, abs=1), key
        # the same calls have the same percentiles in both views
        keys = ("p50_ns", "p90_ns", "p99_ns", "p999_ns")
        same = {r["value"]: [r[key] for key in keys] for r in reported["rows"]}
        for value, row in rows.items():
            assert [row[key] for key in keys] == same[value], value


def as_shown(trace, call):
    return {
        "ts": ns(trace, call.start - trace.start),
        "duration_ns": ns(trace, call.end - call.start),
        "self_ns": ns(trace, call.own),
        "tid": call.tid,
        "function": call.name,
        "end": {"exit": "exit"}.get(call.how, call.how),
    }


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("by", ["duration", "self", "time"])
def test_slowest(me, seed, by):
    trace = valued_trace(seed)
    trace.extra_lines.append("thread\t1001\tworker")
    directory = trace.write(me.dir() / "trace")
    for n in (1, 7, 100):
        calls = calls_of(trace)
        found = report(me, directory, "--slowest", n, "-f", "handle", "-s", by)["slowest"]
        key = (lambda c: c.own) if by == "self" else (lambda c: c.end - c.start)
        calls.sort(key=key, reverse=True)
        assert len(found) == n
        shown = [as_shown(trace, c) for c in calls]
        got = [{key: row[key] for key in shown[0]} for row in found]
        assert all(row in shown for row in got)
        field = "self_ns" if by == "self" else "duration_ns"
        assert sorted(row[field] for row in got) == sorted(row[field] for row in shown[:n])
        order = [row["ts" if by == "time" else field] for row in got]
        assert order == sorted(order, reverse=by != "time")
        known = collections.defaultdict(list)  # some calls are shorter than a nanosecond
        for c in calls:
            known[c.tid, ns(trace, c.start - trace.start), c.depth].append(c)
        for row in found:
            args = row.get("args", {"n": None, "uri": None})
            # a call that was unwound or has jumped away has returned nothing
            call = next(
                c
                for c in known[row["tid"], row["ts"], row["depth"]]
                if (c.args, c.result) == ((args["n"], args["uri"]), row.get("retval"))
            )
            assert row["caller"] == call.parent.name and row["caller_from"] == "frame"
            assert row["thread"] == (
                "worker" if row["tid"] == 1001 else {1000: "demo main"}.get(row["tid"])
            )


def test_slowest_that_are_around_others(me):
    """One incident may fill the list: that is told, and where its own time is listed."""
    trace = tracegen.Trace()
    for tid in (1000, 1001):
        thread = trace.thread(0, tid)
        for name, ticks in (("main", 500), ("serve", 400), ("handle", 300), ("parse", 9000)):
            thread.call(name)
            thread.advance(ticks)
        for _ in range(4):
            thread.ret()
    directory = trace.write(me.dir() / "trace")
    said = "out, -s self lists the calls that took the time themselves."
    around = "around others of these; --innermost leaves"
    for n, note in (
        (8, f"6 of these are {around} them {said}"),
        (3, f"1 of these is {around} it {said}"),
    ):
        done = me.iprobe("report", "--slowest", n, directory)
        assert note in done.stdout, done.stdout
    for options in (["-f", "parse"], ["-s", "self"]):
        done = me.iprobe("report", "--slowest", 8, *options, directory)
        assert done.returncode == 0 and "around others" not in done.stdout, done.stdout
    # a place that becomes free is taken by the next, until there are as many as are wanted
    for n, rows, outer in ((1, ["main"], 0), (2, ["main"] * 2, 0), (3, ["parse"] * 2, 6)):
        words = ["report", "--slowest", n, "--innermost"]
        found = json.loads(me.iprobe(*words, "--json", directory).stdout)
        assert [r["function"] for r in found["slowest"]] == rows and found["outer"] == outer, n
        text = me.iprobe(*words, directory).stdout
        assert ("6 calls are around others of these: not among these" in text) == (outer > 0), text
    by_self = me.iprobe("report", "--slowest", 9, "--innermost", "-s", "self", "--json", directory)
    assert [r["function"] for r in json.loads(by_self.stdout)["slowest"]] == ["parse"] * 2
    for words in (["--innermost"], ["--slowest", 1001, "--innermost"]):
        assert me.iprobe("report", *words, directory).returncode == 2, words


CHOSEN = {
    ("n>0",): lambda c: (c.args[0] or 0) > 0,
    ("uri=/*",): lambda c: fnmatch.fnmatchcase(c.args[1] or "", "/*"),
    ("uri!=/", "n<=1", "n>=0"): lambda c: c.args[1] not in (None, "/") and c.args[0] in (0, 1),
    ("retval=7",): lambda c: c.result == 7,
    ("retval!=7", "n=-5"): lambda c: c.result in (0, -1) and c.args[0] == -5,
}


@pytest.mark.parametrize("texts", CHOSEN)
def test_reports_of_chosen_values(me, texts):
    """Each view that adds up calls takes those that are chosen, and each of them whole."""
    trace = valued_trace(7)
    directory = trace.write(me.dir() / "trace")
    options = [word for text in texts for word in ("--value", text)]
    wanted = [c for c in calls_of(trace) if CHOSEN[texts](c)]
    ended = [c for c in wanted if c.how != "unfinished"]

    (row,) = report(me, directory, *options)["functions"]
    assert row["function"] == "handle"
    check_row(trace, row, wanted, lambda c: True)
    threads = report(me, directory, "--by", "thread", *options)["rows"]
    assert {r["tid"] for r in threads} == {c.tid for c in wanted}
    for r in threads:
        check_row(trace, r, [c for c in wanted if c.tid == r["tid"]], lambda c: True)
    callers = report(me, directory, "--by", "caller", *options)["rows"]
    assert sum(r["calls"] for r in callers) == len(wanted)
    values = report(me, directory, "--by", "value:n", *options)["rows"]
    by_value = {None if r["value_is"] == "missing" else r["value"]: r["calls"] for r in values}
    assert by_value == collections.Counter(c.args[0] for c in wanted)

    (shown,) = json.loads(me.iprobe("hist", "--json", *options, directory).stdout)["functions"]
    assert (shown["calls"], shown["total_ns"]) == (
        len(ended),
        ns(trace, sum(c.end - c.start for c in ended)),
    )
    by = me.iprobe("hist", "--json", "--by", "value:n", *options, directory)
    assert {r["value"]: r["calls"] for r in json.loads(by.stdout)["rows"]} == collections.Counter(
        c.args[0] for c in ended
    )
    text = me.iprobe("hist", *options, directory).stdout
    assert text.startswith(f"handle: {len(ended):,} calls, "), text


def test_values_that_nothing_has(me):
    directory = valued_trace(7).write(me.dir() / "trace")
    other = valued_trace(8).write(me.dir() / "other")
    done = me.iprobe("hist", "--value", "n=77", "--value", "uri=/", directory)
    assert done.returncode == 1, repr(done)
    assert "no call that ended meets 'n=77' and the other conditions" in one_line(done)
    assert "iprobe report --by 'value:n'" in done.stderr
    done = me.iprobe("report", "--value", "n=77", directory)
    assert done.returncode == 0 and "nothing meets 'n=77'" in done.stderr, repr(done)
    for view in ("hist", "report"):
        done = me.iprobe(view, "--value", "nothing=1", directory)
        assert done.returncode == 1 and "'nothing'" in one_line(done), repr(done)
        assert me.iprobe(view, "--value", "n", directory).returncode == 2
        # the names are found in each of two traces
        words = [view, "--json", "--value", "n>0", "--diff", other, directory]
        done = me.iprobe(*words)
        assert done.returncode == 0, repr(done)
    done = me.iprobe("hist", "--value", "n=1", os.getpid())
    assert done.returncode == 2 and "--value is for traces" in done.stderr


def test_slowest_of_chosen_values(me):
    trace = valued_trace(7)
    directory = trace.write(me.dir() / "trace")
    for texts, holds in CHOSEN.items():
        options = [word for text in texts for word in ("--value", text)]
        found = report(me, directory, "--slowest", 10_000, *options)["slowest"]
        wanted = [as_shown(trace, c) for c in calls_of(trace) if holds(c)]
        assert len(wanted) > 10
        assert sorted(str({k: r[k] for k in wanted[0]}) for r in found) == sorted(map(str, wanted))
        # dump shows the same calls: both ends where their entries tell, else their exits
        events = [
            json.loads(line)
            for line in me.iprobe("dump", "--json", *options, directory).stdout.splitlines()
        ]
        exits = [e for e in events if e["event"] == "exit"]
        assert len(exits) == sum(r["end"] != "unfinished" for r in wanted)
        entries = [e for e in events if e["event"] == "entry"]
        at_exit = any(text.startswith("retval") for text in texts)
        assert len(entries) == (0 if at_exit else len(wanted))


@pytest.mark.parametrize("name", ["n", "retval"])
def test_slowest_by_a_recorded_number(me, name):
    """A server that measures its requests by itself passes the latency as a value."""
    trace = valued_trace(9)
    directory = trace.write(me.dir() / "trace")

    def number(call):
        return call.args[0] if name == "n" else call.result

    document = report(me, directory, "--slowest", 40, "-f", "handle", "-s", f"value:{name}")
    having = [c for c in calls_of(trace) if number(c) is not None]
    wanted = sorted((number(c) for c in having), reverse=True)[:40]
    assert document["without_value"] == len(calls_of(trace)) - len(having) > 0
    found = document["slowest"]
    assert [c["value"] for c in found] == wanted
    for c in found:
        assert (c["args"]["n"] if name == "n" else c["retval"]) == c["value"]
    # of equal numbers the earlier call is kept
    assert len({(c["tid"], c["ts"], c["depth"]) for c in found}) == 40
    options = ("report", "--slowest", 3, "-f", "handle", "-s", f"value:{name}")
    lines = me.iprobe(*options, directory).stdout.splitlines()
    assert lines[0].split()[:5] == ["when", "duration", "self", name, "thread"]
    column = lines[0].index(f" {name} ") + 1 + len(name)
    assert [line[:column].split()[-1] for line in lines[1:4]] == [str(n) for n in wanted[:3]]
    assert f"calls have recorded no number {name}: not among these" in lines[-1]
    table = list(csv.DictReader(io.StringIO(me.iprobe(*options, "--csv", directory).stdout)))
    assert [row["value"] for row in table] == [str(n) for n in wanted[:3]]
    some = report(
        me, directory, "--slowest", 9, "-s", f"value:{name}", "--value", f"{name}<3", "-f", "handle"
    )["slowest"]
    assert [c["value"] for c in some] == sorted(
        (number(c) for c in having if number(c) < 3), reverse=True
    )[:9]


def test_slowest_by_numbers_of_all_kinds(me):
    """They are compared as what they are: 2^64 - 1 is the largest, -1 the least, NaN is none."""
    trace = tracegen.Trace()
    thread = trace.thread()
    signed, unsigned, real, text = (trace.signature(f"{t}:t") for t in ("i8", "u8", "f8", "s"))
    values = [
        (signed, 0, [word(-1)]),
        (unsigned, 0, [word(-1)]),
        (unsigned, 0, [word(-2)]),
        (real, 0, [0x4004000000000000]),  # 2.5
        (real, 0, [0x7FF8000000000000]),  # NaN
        (text, 0, string("99")),
        (signed, 0, [3]),
    ]
    thread.call("main")
    for value in values:
        thread.call("f", values=value)
        thread.advance(100)
        thread.ret()
    directory = trace.write(me.dir() / "trace")
    document = report(me, directory, "--slowest", 9, "-s", "value:t")
    assert [c["value"] for c in document["slowest"]] == [word(-1), word(-2), 3, 2.5, -1]
    assert document["without_value"] == 3  # main, a text and NaN
    assert [
        c["value"] for c in report(me, directory, "--slowest", 1, "-s", "value:t")["slowest"]
    ] == [word(-1)]


def test_call_that_hangs(me):
    """What was not finished at the end is the slowest, and is marked."""
    trace = tracegen.Trace()
    thread = trace.thread()
    n = trace.signature("s:uri")
    for i in range(5):
        thread.call("serve", values=(n, 0, string(f"/{i}")))
        thread.advance(1000)
        thread.ret()
    thread.call("serve", values=(n, 0, string("/hangs")))
    thread.advance(5000)
    directory = trace.write(me.dir() / "trace")
    first = report(me, directory, "--slowest", 1)["slowest"][0]
    assert first["end"] == "unfinished" and first["args"] == {"uri": "/hangs"}
    text = me.iprobe("report", "--slowest", 2, directory).stdout
    assert 'serve(uri="/hangs")  (not finished)' in text
    (line,) = csv.DictReader(
        io.StringIO(me.iprobe("report", "--slowest", 1, "--csv", directory).stdout)
    )
    assert line["args"] == 'uri="/hangs"' and line["end"] == "unfinished"


@pytest.mark.parametrize("stops", ["detach", "attach", "detach attach", "attach detach"])
def test_call_under_way_when_sites_became_idle(me, stops):
    """It lasts until then, not until the trace was written; but it goes on where sites became live
    again.
    """
    trace = tracegen.Trace()
    thread = trace.thread()
    thread.call("serve")
    for kind in stops.split():
        thread.advance(10_000)
        trace.extra_lines.append(f"stop\t{kind}\t{trace.now}\t1000\t1\t1\t1")
    idle = trace.now
    thread.advance(1_000_000)
    directory = trace.write(me.dir() / "trace")
    end = idle if stops.endswith("detach") else trace.now
    took = ns(trace, end - trace.start)
    (call,) = report(me, directory, "--slowest", 1)["slowest"]
    assert (call["duration_ns"], call["self_ns"], call["end"]) == (took, took, "unfinished")
    (row,) = report(me, directory)["functions"]
    assert row["total_ns"] == row["self_ns"] == took
    assert report(me, directory)["duration_ns"] == ns(trace, trace.now - trace.start)


def test_values_of_the_event_that_shows_a_jump(me):
    """A function jumps to one that never comes: the next call, which shows it, has values, and they
    are no result of the one that has jumped.
    """
    trace = tracegen.Trace()
    thread = trace.thread()
    first = trace.add("jumps")
    trace.add("jumps", number=2)
    trace.add("never", number=3)
    trace.functions["jumps", False] = first
    n = trace.signature("i4")
    thread.call("main")
    call = thread.call("jumps")
    thread.advance(100)
    thread.record(tracegen.TAIL_EXIT, 2, call.cfa)
    thread.frames.pop()
    thread.end(call, "exit")
    thread.advance(100)
    thread.call("other", values=(n, 0, [42]))
    thread.advance(100)
    thread.ret(values=(n, 0, [7]))
    thread.ret()
    directory = trace.write(me.dir() / "trace")
    session = directory / "iprobe" / "session"
    lines = session.read_text().splitlines()
    lines = [line.replace("\t-\t", "\tj\t") if "function\t2\t" in line else line for line in lines]
    session.write_text("\n".join(lines[:-4] + ["jump\t2\t3"] + lines[-4:]) + "\n")
    events = [
        json.loads(line) for line in me.iprobe("dump", "--json", directory).stdout.splitlines()
    ]
    exits = {e["function"]: e for e in events if e["event"] == "exit"}
    assert exits["jumps"]["until_tail_call"] and "retval" not in exits["jumps"]
    assert exits["other"]["retval"] == 7
    calls = {c["function"]: c for c in report(me, directory, "--slowest", 9)["slowest"]}
    assert "retval" not in calls["jumps"] and calls["other"]["retval"] == 7
    document = me.iprobe("export", "--format", "chrome", directory).stdout
    assert document.count('"retval"') == 1
    rows = report(me, directory, "--by", "value:retval")["rows"]
    assert [(r["function"], r["value"]) for r in rows] == [("other", 7)]


def test_messages(me):
    trace = valued_trace(8, steps=30)
    directory = trace.write(me.dir() / "trace")
    for command in (
        ("report", "--by", "value:urj"),
        ("hist", "--by", "value:urj"),
        ("report", "--slowest", 1, "--value", "urj=1"),
        ("report", "--slowest", 1, "-s", "value:urj"),
        ("dump", "--value", "urj=1"),
    ):
        done = me.iprobe(*command, directory)
        assert done.returncode == 1 and done.stdout == ""
        assert "no function records a value 'urj'; the nearest are: uri; there are: n, uri" in (
            one_line(done)
        )
    for by in ("uri", "n/log2", "arg2"):
        done = me.iprobe("report", "--by", by, "-s", "value", directory)
        assert done.returncode == 2 and done.stdout == "", repr(done)
        assert f"--by '{by}': did you mean --by 'value:{by}'?" in done.stderr
        done = me.iprobe("hist", "--by", by, directory)
        assert done.returncode == 2 and f"is 'value:{by}' meant?" in done.stderr
    for by in ("urj", "/log2", "caller,thread", "value:"):
        done = me.iprobe("report", "--by", by, directory)
        assert done.returncode == 2 and f"not '{by}'" in done.stderr, repr(done)
    done = me.iprobe("report", "--by", "uri", me.dir() / "nothing")
    assert done.returncode == 2 and "not 'uri'" in done.stderr, repr(done)
    done = me.iprobe("report", "--by", "value:port", "-f", "handle", directory)
    assert "no call of these functions has recorded the value 'port'" in one_line(done)
    done = me.iprobe("report", "--slowest", 3, "-s", "value:port", "-f", "handle", directory)
    assert "none of the chosen calls has recorded a number 'port'" in one_line(done)
    done = me.iprobe("report", "--slowest", 3, "-s", "value:uri", directory)
    assert "the value 'uri' is text, and --slowest sorts by numbers" in one_line(done)
    assert done.returncode == 1 and done.stdout == ""
    done = me.iprobe("hist", "--by", "value:port", "-f", "handle", directory)
    assert "has recorded the value 'port'" in one_line(done)
    for usage in (
        ("report", "--by", "value:"),
        ("report", "--by", "value"),
        ("report", "-s", "value"),
        ("report", "--slowest", "0"),
        ("report", "--slowest", "-1"),
        ("report", "--slowest", "100001"),
        ("report", "--slowest", "3", "--by", "thread"),
        ("report", "--slowest", "3", "--by", "value:n"),
        ("report", "--slowest", "3", "-n", "3"),
        ("report", "--slowest", "3", "-w", "calls>1"),
        ("report", "--slowest", "3", "-s", "p99"),
        ("report", "--slowest", "3", "-s", "value"),
        ("report", "--slowest", "3", "-s", "value:"),
        ("report", "-s", "value:n"),
        ("report", "--slowest", "3", "--value", "n"),
        ("report", "--diff", directory, "--by", "value:n"),
        ("hist", "--by", "n"),
        ("hist", "--by", "value:n", "--interval", "0"),
        ("dump", "--value", "n>x"),
    ):
        done = me.iprobe(*usage, directory)
        assert done.returncode == 2, (usage, done)
    empty = tracegen.Trace()
    empty.thread().call("f")
    directory = empty.write(me.dir() / "empty")
    done = me.iprobe("report", "--by", "value:n", directory)
    assert done.returncode == 1 and "no values were recorded" in one_line(done)


def test_requests_of_a_program(me, programs):
    """A server's requests by their keys: each percentile is what the server's own clock says."""
    include = pathlib.Path(__file__).resolve().parents[2] / "include"
    program = programs.simple("keyed_requests", placement="fentry", extra=(f"-I{include}",))
    directory = me.dir() / "trace"
    done = me.iprobe("run", "-o", directory, "--args", "--retval", "--", program, 400)
    assert done.returncode == 0, repr(done)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    uris = ["/fast", "/slow", "/nested", "/\x1b[31mred", None]
    # the recorded time lies between what the two clocks say, whatever else the machine does
    inside, around = ({uri: [] for uri in uris} for _ in range(2))
    for request in said:
        inside[uris[request["kind"]]].append(request["inside"])
        around[uris[request["kind"]]].append(request["around"])
    rows = {
        r["value"]: r for r in report(me, directory, "--by", "value:uri", "-f", "serve")["rows"]
    }
    assert rows.keys() == {*uris, "/hangs"}
    assert rows["/hangs"]["unfinished"] == 1 and rows["/hangs"]["p50_ns"] is None
    for uri in uris:
        assert rows[uri]["calls"] == len(inside[uri]) * (2 if uri == "/nested" else 1)
        assert sum(inside[uri]) <= rows[uri]["total_ns"] <= sum(around[uri])
        if uri == "/nested":
            continue
        for key, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("max_ns", 1)):
            bounds = rank(inside[uri], share), rank(around[uri], share)
            assert 0.99 * bounds[0] <= rows[uri][key] <= 1.01 * bounds[1], (uri, key)
    by_size = report(me, directory, "--by", "value:size/log2", "-f", "serve", "-s", "value")["rows"]
    assert [r["value"] for r in by_size] == [
        "65536..131071",
        "4096..8191",
        "64..127",
        "2..3",
        1,
        0,
    ]
    # the point's second value is the URI, too
    points = {
        r["value"]: r for r in report(me, directory, "--by", "value:arg2", "-f", "parsed")["rows"]
    }
    assert points["/nested"]["points"] == 160 and points[None]["points"] == 80
    # who ends by a jump has no result; done(), which it jumps to, has one
    results = report(me, directory, "--by", "value:retval")["rows"]
    assert {r["function"] for r in results} == {"serve", "done"}
    counts = collections.Counter(r["status"] for r in said)
    for row in results:
        if row["function"] == "serve" and row["value"] is not None and row["value"] != -1:
            assert row["calls"] == counts[row["value"]]
    slow = report(me, directory, "--slowest", 80, "--value", "uri=/slow")["slowest"]
    assert len(slow) == 80
    own = zip(sorted(inside["/slow"], reverse=True), sorted(around["/slow"], reverse=True))
    for call, (least, most) in zip(slow, own):
        assert least <= call["duration_ns"] <= most
        assert call["args"]["method"] == "PUT" and call["retval"] == 5000 % 7 - 3

# SPDX-License-Identifier: Apache-2.0
"""report --by, --where, --columns and --csv on traces whose calls are known (test/tracegen.py)."""

import collections
import csv
import io
import json
import pathlib
import statistics
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402

SEEDS = [1, 2, 3]


def ns(trace, ticks):
    return (ticks * 1_000_000_000 + trace.hz // 2) // trace.hz


def report(me, directory, *options):
    done = me.iprobe("report", "--json", *options, directory)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def rank(values, share):
    return sorted(values)[max(0, -(-int(share * 1000) * len(values) // 1000) - 1)]


def modular_trace(seed):
    """Functions in two modules and three files; leaf is in both files of one name in both
    modules.
    """
    trace = tracegen.random_trace(seed)
    trace.modules.append("/usr/lib/libother.so")
    for f in trace.order:
        name = f.linker_name.split(".")[0]
        f.module = int(name in ("leaf", "lookup", "roomy"))
        f.file = {"leaf": "/src/shared.c", "sort": "/src/shared.c", "lookup": "/src/other.c"}.get(
            name, "/src/demo.c"
        )
    trace.extra_lines += [f"thread\t{t.tid}\tworker-{t.tid}" for t in trace.threads]
    return trace


def check_row(trace, row, calls, is_outermost):
    ended = [c.end - c.start for c in calls if c.how != "unfinished"]
    assert row["calls"] == len(calls)
    assert row["threads"] == len({c.tid for c in calls})
    assert row["total_ns"] == ns(trace, sum(c.end - c.start for c in calls if is_outermost(c)))
    assert row["self_ns"] == ns(trace, sum(c.own for c in calls))
    if not ended:
        return
    assert (row["min_ns"], row["max_ns"]) == (ns(trace, min(ended)), ns(trace, max(ended)))
    assert row["avg_ns"] == pytest.approx(ns(trace, sum(ended) / len(ended)), abs=1)
    assert row["stddev_ns"] == pytest.approx(
        statistics.pstdev(ended) * 1e9 / trace.hz, rel=1e-6, abs=0.01
    )
    for key, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999)):
        assert row[key] == pytest.approx(ns(trace, rank(ended, share)), rel=0.01, abs=1), key


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", ["module", "file", "thread", "caller"])
def test_groups(me, seed, what):
    trace = modular_trace(seed)
    directory = trace.write(me.dir() / "trace")
    group_of = {"module": lambda f: trace.modules[f.module], "file": lambda f: f.file}.get(what)
    groups = collections.defaultdict(list)
    for c in trace.calls:
        groups[
            (
                c.name,
                c.above[-1]
                and tracegen.READABLE.get(
                    c.above[-1].linker_name.split(".")[0], c.above[-1].linker_name.split(".")[0]
                )
                if c.above
                else None,
            )
            if what == "caller"
            else c.tid
            if what == "thread"
            else group_of(c.function)
        ].append(c)

    def is_outermost(call):
        if what == "caller":
            return call.outermost
        if what == "thread":
            return not call.above
        return all(group_of(f) != group_of(call.function) for f in call.above)

    document = report(me, directory, "--by", what)
    assert document["by"] == what and document["events"] == trace.events
    rows = document["rows"]
    assert rows == sorted(rows, key=lambda r: -r["total_ns"])
    key = {
        "module": lambda r: r["module"],
        "file": lambda r: r["file"],
        "thread": lambda r: r["tid"],
        "caller": lambda r: (r["function"], r["caller"]),
    }[what]
    assert sorted(map(key, rows), key=str) == sorted(groups, key=str)
    for row in rows:
        check_row(trace, row, groups[key(row)], is_outermost)
        if what == "thread":
            assert row["pid"] == 1000 and row["name"] == f"worker-{row['tid']}"
        if what == "module":
            assert row["build_id"].endswith("aabbcc")


@pytest.mark.parametrize("what", ["module", "file", "thread", "caller"])
def test_selected_functions_only(me, what):
    trace = modular_trace(4)
    directory = trace.write(me.dir() / "trace")
    calls = [c for c in trace.calls if c.name in ("leaf", "eval")]
    rows = report(me, directory, "--by", what, "-f", "leaf,eval")["rows"]
    assert sum(r["calls"] for r in rows) == len(calls)
    assert sum(r["self_ns"] for r in rows) == pytest.approx(
        ns(trace, sum(c.own for c in calls)), abs=len(rows)
    )


def test_csv_says_the_same(me):
    trace = modular_trace(5)
    directory = trace.write(me.dir() / "trace")
    for what in ("function", "caller", "callsite", "thread", "module", "file"):
        rows = report(me, directory, "--by", what)["functions" if what == "function" else "rows"]
        table = list(
            csv.DictReader(
                io.StringIO(me.iprobe("report", "--csv", "--by", what, directory).stdout)
            )
        )
        assert len(table) == len(rows) > 1
        for row, line in zip(rows, table):
            assert None not in line and None not in line.values()
            for key, value in line.items():
                said = row.get(key)  # what is only of some rows is left out of the others
                if key == "stddev_ns" and said is not None:
                    assert float(value) == pytest.approx(said, rel=1e-5)
                else:
                    assert value == ("" if said is None else str(said)), key


def test_csv_quotes(me):
    trace = tracegen.Trace()
    t = trace.thread()
    t.call('odd,"name"')
    t.ret()
    trace.functions['odd,"name"', False].linker_name = 'odd,"name"'
    directory = trace.write(me.dir() / "trace")
    (line,) = csv.DictReader(io.StringIO(me.iprobe("report", "--csv", directory).stdout))
    assert line["function"] == 'odd,"name"' and line["calls"] == "1"


def test_where(me):
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    t.call("main")
    for name, ticks, n in (("quick", 100, 50), ("slow", 5_000_000, 3), ("rare", 2000, 2)):
        for _ in range(n):
            t.call(name)
            t.advance(ticks)
            t.ret()
    t.ret()
    directory = trace.write(me.dir() / "trace")

    def names(where):
        return {f["function"] for f in report(me, directory, "--where", where)["functions"]}

    assert names("calls>2") == {"quick", "slow"}
    assert names("calls>=2") == {"quick", "slow", "rare"}
    assert names("max>1ms") == {"slow", "main"}
    assert names("calls>1,max<=2us") == {"quick", "rare"}
    assert names("p99.9<200ns") == {"quick"}
    assert names("total>1h") == set()
    text = me.iprobe(
        "report", "-w", "calls>2", "--columns", "threads,stddev,calls", directory
    ).stdout
    head = next(line for line in text.splitlines() if line.endswith("function"))
    assert head.split() == ["threads", "stddev", "calls", "function"] and "rare" not in text
    head = next(
        l
        for l in me.iprobe("report", "--columns", "all", directory).stdout.splitlines()
        if l.endswith("function")
    )
    assert (
        head.split()
        == "calls total self min avg p50 p90 p99 p99.9 max stddev threads function".split()
    )


def test_what_is_not_known(me):
    """A call that has not ended has a total, and no minimum; a point has no time at all."""
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    trace.add("here")
    trace.add("bell\x07", linker_name="bell\\x07")
    t.call("open")
    t.point("here")
    t.call("bell\x07")
    t.advance(100)
    t.ret()
    directory = trace.write(me.dir() / "trace")
    for where, names in (
        ("min<1s", {"bell\x07"}),
        ("total<1s", {"bell\x07", "open"}),
        ("calls>0", {"bell\x07", "open", "here"}),
        ("stddev<1s", {"bell\x07"}),
    ):
        assert {f["function"] for f in report(me, directory, "-w", where)["functions"]} == names
    lines = {
        l["function"]: l
        for l in csv.DictReader(io.StringIO(me.iprobe("report", "--csv", directory).stdout))
    }
    assert (
        lines["open"]["total_ns"],
        lines["open"]["min_ns"],
        lines["open"]["p50_ns"],
        lines["open"]["stddev_ns"],
    ) == ("100", "", "", "")
    assert (lines["here"]["calls"], lines["here"]["total_ns"], lines["here"]["threads"]) == (
        "1",
        "",
        "1",
    )
    assert lines["bell?"]["max_ns"] == "100"


def test_same_names_are_told_apart(me):
    """Each of the rows of two functions of one name says which of them it is."""
    trace = tracegen.Trace()
    t = trace.thread()
    for number, linker_name in enumerate(("_Z1fi", "_Z1fd")):
        trace.add(f"f{number}", linker_name=linker_name)
    for caller in ("a", "b", "c"):
        t.call(caller)
        for callee in ("f0", "f1"):
            t.call(callee)
            t.ret()
        t.ret()
    shown = me.iprobe("report", "--by-caller", trace.write(me.dir() / "trace")).stdout
    for caller in "abc":
        for function in ("f(int)", "f(double)"):
            assert f"{function} [demo] <- {caller} (around)" in shown, shown


@pytest.mark.parametrize(
    "args",
    [
        ["--by", "nothing"],
        ["--where", "calls"],
        ["--where", "calls>many"],
        ["--where", "speed>3"],
        ["--where", "function>3"],
        ["--where", "max>1 parsec"],
        ["--columns", "speed"],
        ["-n", "0"],
        ["--where", ",".join(["calls>1"] * 17)],
        ["--columns", ",".join(["calls"] * 13)],
    ],
    ids=" ".join,
)
def test_wrong_usage(me, args):
    done = me.iprobe("report", *args)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "--help" in done.stderr


def test_lost_time_is_nobodys(me):
    """Between the events around a loss open calls may have ended and begun again."""
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    t.call("main")
    t.advance(10)
    t.call("work")
    t.advance(100)
    t.call("leaf")
    t.advance(5)
    t.ret()
    t.lose(4)
    t.advance(1000)
    t.call("leaf")
    t.advance(7)
    t.ret()
    t.advance(20)
    t.ret()
    t.call("work")
    t.advance(30)
    t.ret()
    t.ret()
    directory = trace.write(me.dir() / "trace")
    rows = {f["function"]: f for f in report(me, directory)["functions"]}
    assert (
        rows["work"]["total_ns"] == 100 + 5 + 7 + 20 + 30
        and rows["work"]["self_ns"] == 100 + 20 + 30
    )
    assert rows["main"]["total_ns"] == 10 + 132 + 30 and rows["main"]["self_ns"] == 10
    assert rows["leaf"]["total_ns"] == 12 and rows["work"]["max_ns"] == 30
    tree = json.loads(me.iprobe("graph", "--json", directory).stdout)
    assert tree["total_ns"] == 172

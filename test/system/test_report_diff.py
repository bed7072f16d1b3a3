# SPDX-License-Identifier: Apache-2.0
"""report --diff on pairs of generated traces: what differs is known."""

import csv
import io
import json
import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest.actor import one_line  # noqa: E402

CALLS = 600


def make(me, name, functions, seed, hz=1_000_000_000, threads=2):
    """functions: name -> (calls, duration of a call by rng). Calls come in the order of chance."""
    rng = random.Random(seed)
    trace = tracegen.Trace(hz=hz)
    for number in range(threads):
        t = trace.thread(number, stack=tracegen.STACK - number * 0x1000000)
        t.call("main")
        todo = [n for n, (calls, _) in functions.items() for _ in range(calls // threads)]
        rng.shuffle(todo)
        for n in todo:
            t.call(n)
            t.advance(round(functions[n][1](rng) * hz / 1e9))
            t.ret()
        t.ret()
        t.flush()
    return trace.write(me.dir() / name)


def latency(middle):
    return lambda rng: rng.lognormvariate(0, 0.6) * middle


def diff(me, before, after, *options):
    done = me.iprobe("report", "--json", "--diff", before, *options, after)
    assert done.returncode == 0, repr(done)
    document = json.loads(done.stdout)
    return document, {f["function"]: f for f in document["functions"]}


def test_nothing_differs(me):
    """Thirty functions, nothing but chance: at most one is called different."""
    functions = {f"f{i}": (CALLS, latency(300 + 100 * i)) for i in range(30)}
    before, after = make(me, "before", functions, 1), make(me, "after", functions, 2)
    _, rows = diff(me, before, after)
    assert sum(r["verdict"] != "same" for n, r in rows.items() if n != "main") <= 1
    assert all(
        r["p"] is not None and r["tail_p"] is not None for n, r in rows.items() if n != "main"
    )
    assert (
        sum(r["p"] < 0.05 for n, r in rows.items() if n != "main") <= 6
    )  # that would be chance too
    assert rows["main"]["verdict"] == "few" and rows["main"]["q"] is None
    _, same = diff(me, before, before)
    assert {r["verdict"] for r in same.values()} == {"same", "few"}
    assert all(r["superior"] == 0.5 and r["p"] == 1 for n, r in same.items() if n != "main")
    text = me.iprobe("report", "--diff", before, before).stdout
    assert (
        "(none)" in text
        and "30 functions show no difference" in text
        and "1 more: too few calls" in text
    )


CHANGED = {
    "slow": "slower",
    "quick": "faster",
    "stuck": "tail up",
    "often": "calls",
    "added": "new",
    "dropped": "gone",
}


def changed(me, **more):
    steady = {f"f{i}": (CALLS, latency(500 + 10 * i)) for i in range(12)}
    old = steady | {
        "slow": (CALLS, latency(2000)),
        "quick": (CALLS, latency(1000)),
        "stuck": (2 * CALLS, latency(400)),
        "often": (CALLS, latency(700)),
        "dropped": (40, latency(900)),
    }
    new = steady | {
        "slow": (CALLS, latency(2600)),
        "quick": (CALLS, latency(700)),
        "often": (2 * CALLS, latency(700)),
        "stuck": (2 * CALLS, lambda rng: latency(400)(rng) * (60 if rng.random() < 0.03 else 1)),
        "added": (40, latency(100)),
    }
    return make(me, "before", old, 3), make(me, "after", new, 4, **more)


def test_what_differs_is_found(me):
    before, after = changed(me)
    document, rows = diff(me, before, after)
    assert document["before"]["dir"] == str(before) and document["significance"] == 0.05
    assert {
        n: r["verdict"] for n, r in rows.items() if r["verdict"] not in ("same", "few")
    } == CHANGED
    slow = rows["slow"]
    assert slow["q"] < 1e-6 and 0.55 < slow["superior"] < 0.75 and slow["calls_change"] == 0
    assert slow["p50_change_ns"] == slow["after"]["p50_ns"] - slow["before"]["p50_ns"] > 300
    assert slow["self_change_ns"] == slow["total_change_ns"] > 0
    assert (
        rows["stuck"]["tail_q"] < 1e-3
        and rows["stuck"]["tail_after"] > rows["stuck"]["tail_before"]
    )
    assert (
        rows["often"]["calls_change"] == CALLS
        and rows["added"]["before"] is None
        and rows["dropped"]["after"] is None
    )
    # what is certain comes first, by its own time
    order = [f["verdict"] not in ("same", "few") for f in document["functions"]]
    assert order == sorted(order, reverse=True)
    own = [abs(f["self_change_ns"]) for f in document["functions"][: len(CHANGED)]]
    assert own == sorted(own, reverse=True)


def test_faster_with_a_slower_tail_is_mixed(me):
    """Most calls got faster, a few so much slower that the sum rose; and the reverse."""

    def rare(rng):
        return latency(700)(rng) * (100 if rng.random() < 0.05 else 1)

    before = make(me, "before", {"f": (2 * CALLS, latency(1000))}, 5)
    after = make(me, "after", {"f": (2 * CALLS, rare)}, 6)
    for one, other, slower in ((before, after, False), (after, before, True)):
        f = diff(me, one, other)[1]["f"]
        assert f["verdict"] == "mixed"
        assert (f["superior"] > 0.5) == slower == (f["total_change_ns"] < 0)
        assert max(f["q"], f["tail_q"]) <= 0.05
        assert (f["tail_after"] < f["tail_before"]) == slower
    assert "\nmixed " in me.iprobe("report", "--diff", before, after).stdout


def test_figures_are_those_of_the_reports(me):
    before, after = changed(me)
    _, rows = diff(me, before, after)
    for side, directory in (("before", before), ("after", after)):
        for f in json.loads(me.iprobe("report", "--json", directory).stdout)["functions"]:
            for key in ("calls", "total_ns", "self_ns", "avg_ns", "p50_ns", "p99_ns", "max_ns"):
                assert rows[f["function"]][side][key] == f[key], (f["function"], key)
    table = list(
        csv.DictReader(io.StringIO(me.iprobe("report", "--csv", "--diff", before, after).stdout))
    )
    assert [line["function"] for line in table] == list(rows)
    for line in table:
        row = rows[line["function"]]
        assert line["verdict"] == row["verdict"]
        for side in ("before", "after"):
            for key in ("calls", "total_ns", "p99_ns"):
                assert line[f"{side}_{key}"] == ("" if row[side] is None else str(row[side][key]))


def test_for_people(me):
    before, after = changed(me)
    text = me.iprobe("report", "--diff", before, after).stdout
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("verdict"))
    shown = {line.split()[-1]: line for line in lines[head + 1 : head + 1 + len(CHANGED)]}
    assert {n: line[:9].strip() for n, line in shown.items()} == CHANGED
    assert (
        all(len(line) <= 100 for line in lines[head:]) and "12 functions show no difference" in text
    )
    assert (
        me.iprobe("report", "--diff", before, "-n", "2", after).stdout.count("... and 4 more") == 1
    )
    # asked for by name it is shown whatever it is
    assert "\nsame " in me.iprobe("report", "--diff", before, "-f", "f*", after).stdout
    lines = me.iprobe("report", "--diff", before, "-s", "function", after).stdout.splitlines()
    assert [line.split()[-1] for line in lines[head + 1 : head + 1 + len(CHANGED)]] == sorted(
        CHANGED
    )


def test_clocks_of_different_frequency(me):
    """One duration is one duration."""
    before, after = changed(me, hz=2_345_678_901)
    _, rows = diff(me, before, after)
    assert {
        n: r["verdict"] for n, r in rows.items() if r["verdict"] not in ("same", "few")
    } == CHANGED
    for f in json.loads(me.iprobe("report", "--json", after).stdout)["functions"]:
        side = rows[f["function"]]["after"]
        assert (side["calls"], side["total_ns"], side["self_ns"]) == (
            f["calls"],
            f["total_ns"],
            f["self_ns"],
        )
        assert side["p50_ns"] == pytest.approx(f["p50_ns"], rel=0.02)


def test_module_that_was_renamed(me):
    """A version in the file's name does not make new functions; two modules with one function
    are told apart.
    """
    functions = {"f": (CALLS, latency(500))}
    before = make(me, "before", functions, 1)
    after = make(me, "after", functions, 2)
    session = after / "iprobe" / "session"
    session.write_text(session.read_text().replace("/usr/bin/demo\t", "/usr/bin/demo-2.0\t"))
    _, rows = diff(me, before, after)
    assert rows["f"]["verdict"] == "same" and rows["f"]["module"] == "demo-2.0" and len(rows) == 2


def test_modules_of_one_name(me):
    """Two libraries of one file name: each is compared with itself, in whatever order they were
    found.
    """
    traces = []
    for name, modules in (
        ("before", ("/a/lib.so", "/b/lib.so")),
        ("after", ("/b/lib.so", "/a/lib.so")),
    ):
        trace = tracegen.Trace(hz=1_000_000_000)
        trace.modules = list(modules)
        t = trace.thread()
        for module, path in enumerate(modules):
            trace.add(path, module=module, linker_name="run")
            for _ in range(20):
                t.call(path)
                t.advance(100 if path == "/a/lib.so" else 5000)
                t.ret()
        traces.append(trace.write(me.dir() / name))
    document, _ = diff(me, *traces)
    assert len(document["functions"]) == 2
    for f in document["functions"]:
        assert (
            f["verdict"] == "same"
            and f["before"]["total_ns"] == f["after"]["total_ns"]
            and f["total_change_ns"] == 0
        )
    page = me.dir() / "page.html"
    done = me.iprobe("export", "--format", "html", "-o", page, "--diff", *traces)
    assert done.returncode == 0, repr(done)
    nodes = json.loads(page.read_text().split('id="data">\n')[1].split("\n</script>")[0])["tree"]
    assert nodes["width"] == 7 and len(nodes["nodes"]) == 14
    assert all(nodes["nodes"][i + 3] == nodes["nodes"][i + 5] for i in (0, 7))


def test_points_are_not_tested(me):
    traces = []
    for name in ("before", "after"):
        trace = tracegen.Trace(hz=1_000_000_000)
        t = trace.thread()
        trace.add("here")
        t.call("main")
        for _ in range(20):
            t.point("here")
            t.advance(10)
        traces.append(trace.write(me.dir() / name))
    _, rows = diff(me, *traces)
    assert rows["here"]["verdict"] == "not tested" and rows["main"]["verdict"] == "few"
    for side in ("before", "after"):
        assert rows["here"][side]["calls"] == 20 and rows["here"][side]["total_ns"] is None
        assert rows["main"][side]["total_ns"] == 200 and rows["main"][side]["p50_ns"] is None
    (line,) = csv.DictReader(
        io.StringIO(
            me.iprobe("report", "--diff", traces[0], "--csv", "-f", "main", traces[1]).stdout
        )
    )
    assert line["before_total_ns"] == "200" and line["before_p50_ns"] == ""
    shown = me.iprobe("report", "--diff", traces[0], "-f", "main", traces[1]).stdout
    assert "main" in shown and "(none)" not in shown
    shown = me.iprobe("report", "--diff", *traces).stdout
    assert "(none)" in shown and "1 more: too few calls" in shown and "1 more: not tested" in shown


@pytest.mark.parametrize(
    "args",
    [["--by", "thread"], ["--where", "calls>3"], ["-s", "max"], ["--columns", "calls"]],
    ids=" ".join,
)
def test_wrong_usage(me, args):
    done = me.iprobe("report", "--diff", "other", *args)
    assert done.returncode == 2 and "--diff" in done.stderr


def test_other_is_no_trace(me):
    trace = make(me, "trace", {"f": (10, latency(10))}, 1)
    assert "nowhere" in one_line(me.iprobe("report", "--diff", "nowhere", trace))
    assert "nowhere" in one_line(me.iprobe("report", "--diff", trace, "nowhere"))

# SPDX-License-Identifier: Apache-2.0
"""iprobe graph on traces whose calls are known (test/tracegen.py)."""

import collections
import json
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest.actor import one_line  # noqa: E402

SEEDS = [1, 2, 3]


def graph(me, directory, *options):
    done = me.iprobe("graph", "--json", *options, directory)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def by_path(document):
    """{(function, ...): node} of the JSON."""
    nodes = {n["id"]: n for n in document["nodes"]}
    paths = {}

    def path(i):
        n = nodes[i]
        return (path(n["parent"]) if n["parent"] else ()) + (n["function"],)

    for i, n in nodes.items():
        assert path(i) not in paths, "two nodes for one way"
        paths[path(i)] = n
    return paths


def known_paths(trace):
    """[(path, call)] of every call, by the order of the trace's own account."""
    stacks, found, calls = collections.defaultdict(list), [], iter(trace.calls)
    for step in trace.steps:
        stack = stacks[step.tid]
        if step.event == "entry":
            del stack[step.depth :]
            stack.append(step.name)
            found.append((tuple(stack), next(calls)))
        elif step.event == "exit":
            del stack[step.depth :]
    assert next(calls, None) is None
    return found


def ns(trace, ticks):
    return (ticks * 1_000_000_000 + trace.hz // 2) // trace.hz


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "how", [{"jumps": False}, {}, {"skews": tracegen.SKEWS}], ids=["straight", "jumps", "clocks"]
)
def test_every_way_of_calls(me, seed, how):
    trace = tracegen.random_trace(seed, **how)
    directory = trace.write(me.dir() / "trace")
    calls, total, own = collections.Counter(), collections.Counter(), collections.Counter()
    for path, call in known_paths(trace):
        calls[path] += 1
        total[path] += call.end - call.start
        own[path] += call.own
    document = graph(me, directory)
    shown = by_path(document)
    assert {p: n["calls"] for p, n in shown.items()} == calls
    assert {p: n["self_ns"] for p, n in shown.items()} == {p: ns(trace, own[p]) for p in calls}
    assert {p: n["total_ns"] for p, n in shown.items()} == {p: ns(trace, total[p]) for p in calls}
    assert document["total_ns"] == ns(trace, sum(t for p, t in total.items() if len(p) == 1))
    assert document["events"] == trace.events and document["lost"] == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_folded(me, seed):
    """A function occurs once on each way; its time is that of the outermost of its frames there."""
    trace = tracegen.random_trace(seed)
    directory = trace.write(me.dir() / "trace")
    calls, total = collections.Counter(), collections.Counter()
    for path, call in known_paths(trace):
        folded, open_nodes = (), []
        for name in path:
            folded = folded[: folded.index(name) + 1] if name in folded else folded + (name,)
            open_nodes.append(folded)
        calls[folded] += 1
        if open_nodes.count(folded) == 1:
            total[folded] += call.end - call.start
    shown = by_path(graph(me, directory, "--fold"))
    assert {p: n["calls"] for p, n in shown.items()} == calls
    assert {p: n["total_ns"] for p, n in shown.items()} == {p: ns(trace, total[p]) for p in calls}


@pytest.mark.parametrize("seed", SEEDS)
def test_bottom_up(me, seed):
    trace = tracegen.random_trace(seed)
    directory = trace.write(me.dir() / "trace")
    calls, own = collections.Counter(), collections.Counter()
    for path, call in known_paths(trace):
        for n in range(1, len(path) + 1):
            calls[path[::-1][:n]] += 1
            own[path[::-1][:n]] += call.own
    shown = by_path(graph(me, directory, "--bottom-up"))
    assert {p: n["calls"] for p, n in shown.items()} == calls
    assert {p: n["self_ns"] for p, n in shown.items()} == {p: ns(trace, own[p]) for p in calls}
    only = by_path(graph(me, directory, "--bottom-up", "-f", "leaf"))
    assert only == {
        p: {**n, "id": only[p]["id"], "parent": only[p]["parent"]}
        for p, n in shown.items()
        if p[0] == "leaf"
    }


def test_roots_and_threads(me):
    trace = tracegen.random_trace(5)
    directory = trace.write(me.dir() / "trace")
    known = known_paths(trace)
    shown = by_path(graph(me, directory, "-f", "eval"))
    wanted = collections.Counter(p[p.index("eval") :] for p, _ in known if "eval" in p)
    assert {p: n["calls"] for p, n in shown.items()} == wanted
    shown = by_path(graph(me, directory, "--tid", "2010"))
    assert {p: n["calls"] for p, n in shown.items()} == collections.Counter(
        p for p, c in known if c.tid == 2010
    )
    assert "no events of a thread 77; its threads are 2" in one_line(
        me.iprobe("graph", "--tid", "77", directory)
    )


def small(me):
    """main calls parse (twice, 10 us each) and eval, which calls parse (5 us) and itself (1 us)."""
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()

    def call(name, ticks, inner=()):
        t.call(name)
        t.advance(ticks)
        for args in inner:
            call(*args)
        t.ret()

    call(
        "main",
        1000,
        [("parse", 10_000), ("parse", 10_000), ("eval", 2000, [("parse", 5000), ("eval", 1000)])],
    )
    return trace.write(me.dir() / "trace")


def test_the_tree_for_people(me):
    directory = small(me)
    done = me.iprobe("graph", directory)
    assert done.returncode == 0, repr(done)
    rows = done.stdout.splitlines()[3:]
    assert [r.split("  ")[-1].strip(" |`-\u2502\u251c\u2514\u2500") for r in rows] == [
        "function",
        "main",
        "parse",
        "eval",
        "parse",
        "eval",
    ]
    assert re.match(r" 29\.0 us  100\.0  1\.00 us +1  main$", rows[1]), rows[1]
    assert re.match(r" 20\.0 us   69\.0  20\.0 us +2  \S\S parse$", rows[2]), rows[2]
    assert all(len(r) <= 100 for r in rows)
    cut = me.iprobe("graph", "--depth", "2", "--min-percent", "30", directory).stdout
    assert "eval" not in cut and "3 ways of calls are not shown" in cut, cut
    plain = me.iprobe("graph", directory, env={"LC_ALL": "C"}).stdout
    assert "|- parse" in plain and plain.isascii(), plain


def test_callers_and_callees(me):
    """Rows above a function are its callers, below it what it calls; a recursion's time is the
    outermost call's.
    """
    done = me.iprobe("graph", "--of", "eval", small(me))
    assert done.returncode == 0, repr(done)
    rows = [tuple(re.split(r" {2,}", r.strip())) for r in done.stdout.splitlines()[3:]]
    assert rows == [
        ("0 ns", "1.00 us", "1", "eval"),
        ("8.00 us", "2.00 us", "1", "main"),
        ("8.00 us", "3.00 us", "2", "eval"),
        ("5.00 us", "5.00 us", "1", "parse"),
        ("0 ns", "1.00 us", "1", "eval"),
    ]


def test_dot(me):
    done = me.iprobe("graph", "--dot", small(me))
    assert done.returncode == 0, repr(done)
    names = dict(re.findall(r'^\t(f\d+) \[label="(\w+)"', done.stdout, re.M))
    edges = {
        (names[a], names[b], label)
        for a, b, label in re.findall(
            r'^\t(f\d+) -> (f\d+) \[label="([^"]*)"\];', done.stdout, re.M
        )
    }
    assert edges == {
        ("main", "parse", r"2\n20.0 us"),
        ("main", "eval", r"1\n8.00 us"),
        ("eval", "parse", r"1\n5.00 us"),
        ("eval", "eval", r"1\n0 ns"),
    }
    assert done.stdout.startswith("digraph calls {") and done.stdout.endswith("}\n")


def test_a_deep_recursion(me):
    """No walk over the tree recurses."""
    trace = tracegen.Trace()
    trace.add("down", 16)
    t = trace.thread()
    for _ in range(5_000):
        t.call("down")
        t.advance(10)
    while t.frames:
        t.ret()
    directory = trace.write(me.dir() / "trace")
    document = graph(me, directory)
    assert len(document["nodes"]) == 5_000 and all(n["calls"] == 1 for n in document["nodes"])
    done = me.iprobe("graph", "--min-percent", "0", directory)
    assert done.returncode == 0 and done.stdout.count("down") == 5_000, done.stderr
    folded = graph(me, directory, "--fold")
    assert [(n["function"], n["calls"]) for n in folded["nodes"]] == [("down", 5_000)]
    callers = graph(me, directory, "--bottom-up")["nodes"]
    assert [n["calls"] for n in callers] == [5_000 - level for level in range(513)]


@pytest.mark.parametrize(
    "args",
    [
        ["--depth", "0"],
        ["--min-percent", "101"],
        ["--dot", "--bottom-up"],
        ["--json", "--dot"],
        ["-f", ""],
        ["--nonsense"],
        ["a", "b"],
    ],
    ids=" ".join,
)
def test_wrong_usage(me, args):
    assert me.iprobe("graph", *args).returncode == 2

# SPDX-License-Identifier: Apache-2.0
"""
iprobe wait on random graphs of threads that wait for each other (test/programs/wait_graph.c): each
wait, the sums of each call and the critical path of each graph, against what the program tells of
itself and against an independent reading of the kernel's events.

  IPROBE_TEST_GRAPHS  how many graphs (default 40; IPROBE_TEST_FULL=1: 1000)
"""

import bisect
import collections
import json
import os
import re
import shutil
import subprocess

import pytest

from iptest import actor as actors
from iptest.kernel_text import Threads
from iptest.wait_truth import ALONE, LOCKS, Truth

GRAPHS = os.environ.get("IPROBE_TEST_GRAPHS") or (
    "1000" if os.environ.get("IPROBE_TEST_FULL") == "1" else "40"
)
BORDER = 5e3  # ns: between the program's clock and the kernel's event
LOOSE = 10e3  # ns: of the length of a wait


class Recorded:
    """A recording of the program, with all that is known of it."""

    def __init__(self, actor, program):
        folder = actor.dir()
        trace = folder / "trace"
        events = ("--kernel=sched,syscalls,faults", "--kernel-buffer", "64M")  # none is lost
        record = ["run", "-q", *events, "-o", trace, "--"]
        done = actor.iprobe(*record, program, "1", GRAPHS, folder / "log")
        assert done.returncode == 0, repr(done)
        info = json.loads(actor.iprobe("info", "--json", trace).stdout)
        self.start, self.hz = info["tsc_start"], info["tsc_hz"]
        said = actor.iprobe(
            *("wait", "--json", "--slowest", "1000000"),
            *("--of", "graph_run,worker_run,wait_*", trace),
        )
        assert said.returncode == 0, repr(said)
        document = json.loads(said.stdout)
        assert document["kernel_lost"] == 0, document["kernel_lost"]
        self.calls = collections.defaultdict(list)
        for call in document["calls"]:
            self.calls[call["function"]].append(call)
        self.program, self.folder = program, folder
        self.truth, self.threads, self.actor = Truth(folder / "log"), Threads(trace), actor
        self.trace = trace
        # descriptors whose names iprobe came too late for: where others want the CPU
        lines = (trace / "iprobe" / "descriptors").read_text().splitlines()
        self.noted = {int(line.split("\t")[2]) for line in lines}

    def was_stopped(self, begin, end):
        """Whether iprobe stopped the program meanwhile, of which the program does not know."""
        i = bisect.bisect_left(self.threads.stops, (begin, 0))
        return i < len(self.threads.stops) and self.threads.stops[i][0] <= end

    def ns(self, tsc):
        return (tsc - self.start) * 1e9 / self.hz

    def tsc(self, ns):
        return self.start + ns * self.hz / 1e9

    def waits(self):
        """Pairs of what the program tells of a wait and the call of it."""
        by_tid = collections.defaultdict(list)
        for name, calls in self.calls.items():
            for call in calls if name.startswith("wait_") else []:
                by_tid[call["tid"]].append(call)
        for calls in by_tid.values():
            calls.sort(key=lambda call: call["from_ns"])
        for tid, waits in self.truth.by_tid.items():
            assert len(waits) == len(by_tid[tid]), (tid, len(waits), len(by_tid[tid]))
            yield from zip(waits, by_tid[tid])


@pytest.fixture(scope="module")
def recorded(top, builddir, programs):
    if os.getuid() != 0:
        pytest.skip("not root")
    actor = actors.Actor("root", 0, top, builddir)
    said = actor.iprobe("doctor").stdout
    said = next(line for line in said.splitlines() if "kernel events" in line)
    if "can be recorded" not in said:
        pytest.skip(" ".join(said.split()))
    yield Recorded(actor, programs.simple("wait_graph", placement="fentry"))
    actor.cleanup()


def blocked(call):
    return sum(item["ns"] for item in call["blocked"])


def test_each_wait(recorded):
    """Its length lies between the clock inside and the one outside; what it was for, and who ended
    it.
    """
    wrong, seen = [], collections.Counter()
    for wait, call in recorded.waits():
        outer, begin, end, after = map(recorded.ns, wait[4:8])
        said = (wait, {key: call[key] for key in call if key != "critical_path"})
        until = call["from_ns"] + call["elapsed_ns"]
        if call["function"] != f"wait_{wait.kind}":
            wrong.append(("function", said))
        if not (outer - 2 <= call["from_ns"] <= begin + 2 and end - 2 <= until <= after + 2):
            wrong.append(("times", said))
        # a page fault may have to wait for a thread that is being made
        items = [item for item in call["blocked"] if item["kind"] != "fault"]
        if sum(item["ns"] for item in items) < LOOSE:
            continue
        if recorded.was_stopped(wait.before, wait.end):
            continue
        seen[wait.kind] += 1
        longest = items[0]
        kind, name = recorded.truth.shown(wait)
        if wait.kind == "condition" and ".guard" in longest["object"]:
            name = ".guard"  # it was signalled, but not yet let go
        if longest["object"].startswith("descriptor "):
            if int(longest["object"].split()[1]) in recorded.noted:
                wrong.append(("object", kind, name, said))
        elif longest["kind"] != kind or name not in longest["object"]:
            wrong.append(("object", kind, name, said))
        ender = recorded.truth.enders[wait]
        if wait.kind in ALONE and "holder" in longest:
            wrong.append(("holder", said))
        if not ender or wait.kind == "condition" or wait in recorded.truth.ambiguous:
            continue
        if longest.get("holder", {}).get("tid") != ender.tid:
            wrong.append(("holder", ender, said))
        # what it was not blocked, it ran or waited for a CPU
        least = recorded.ns(ender.before) - begin - call["cpu_ns"] - call["runqueue_ns"]
        if wait.kind != "child" and blocked(call) < least - 2:
            wrong.append(("length", ender, said))
    assert not wrong, f"{len(wrong)}: {wrong[:2]}"
    assert len(seen) == 16, seen  # all kinds


def test_the_parts_of_each_call(recorded):
    """They sum to its length, and are those that an independent reading of the events gives."""
    calls = [call for calls in recorded.calls.values() for call in calls]
    for call in calls:
        near = max(1000, 0.001 * call["elapsed_ns"])
        whole = call["cpu_ns"] + call["runqueue_ns"] + call["unknown_ns"] + blocked(call)
        assert abs(whole - call["elapsed_ns"]) <= near, call
        begin = recorded.tsc(call["from_ns"])
        end = recorded.tsc(call["from_ns"] + call["elapsed_ns"])
        parts = recorded.threads.parts(call["tid"], begin, end)
        parts["B"] += parts.pop("W", 0)
        ns = {state: ticks * 1e9 / recorded.hz for state, ticks in parts.items()}
        for state, told in (
            ("R", call["cpu_ns"]),
            ("Q", call["runqueue_ns"]),
            ("B", blocked(call)),
            ("?", call["unknown_ns"]),
        ):
            assert abs(ns.get(state, 0) - told) <= near, (state, ns, call)
        assert call["unknown_ns"] == 0, call
    assert len(calls) > 10 * int(GRAPHS)


def differences(recorded, graph, call):
    """Where the path of a graph is another one than the program's: (ns, ours, theirs)."""
    truth, threads = recorded.truth, recorded.threads
    steps = [
        (recorded.tsc(s["from_ns"]), recorded.tsc(s["to_ns"]), s["tid"])
        for s in call["critical_path"]
    ]
    assert all(a[1] == b[0] for a, b in zip(steps, steps[1:])), "a gap, or an overlap"
    borders = {time for step in steps for time in step[:2]}
    borders.update(t for t in truth.borders(graph.seed) if steps[0][0] < t < steps[-1][1])
    borders = sorted(borders)
    unsure, near = truth.unsure(graph.seed), BORDER * recorded.hz / 1e9
    found, at = [], 0
    for begin, end in zip(borders, borders[1:]):
        middle = (begin + end) / 2
        while steps[at][1] <= middle:
            at += 1
        if any(before - near <= middle <= after + near for before, after in unsure):
            continue
        there = truth.who(graph, middle, lambda tid, tsc: threads.at(tid, tsc) == "B")
        if there != steps[at][2]:
            found.append(((end - begin) * 1e9 / recorded.hz, steps[at][2], there, middle))
    return found


def test_the_critical_path(recorded):
    """Of each graph: it is the one that brute force finds in the program's own words."""
    calls = sorted(recorded.calls["graph_run"], key=lambda call: call["from_ns"])
    graphs = sorted(recorded.truth.graphs, key=lambda graph: graph.begin)
    assert len(calls) == len(graphs) == int(GRAPHS)
    wrong, n = {}, 0
    for graph, call in zip(graphs, calls):
        path = call["critical_path"]
        length = path[-1]["to_ns"] - path[0]["from_ns"]
        assert abs(length - call["elapsed_ns"]) <= 2, call
        if recorded.was_stopped(graph.begin, graph.end):
            continue
        n += 1
        found = [d for d in differences(recorded, graph, call) if d[0] > BORDER]
        if found:
            wrong[graph.seed] = found
    assert not wrong, (len(wrong), list(wrong.items())[:5])
    assert n > 0.25 * int(GRAPHS)


def test_locks_were_held(recorded):
    """Who is told to have held a lock had it when the wait for it ended."""
    n = 0
    for wait, call in recorded.waits():
        items = [item for item in call["blocked"] if item["kind"] == "futex"]
        if wait.kind not in LOCKS or not items or items[0]["ns"] < LOOSE:
            continue
        if recorded.was_stopped(wait.before, wait.end):
            continue
        holds = recorded.truth.holds[wait.seed, wait.slot]
        tids = {h.tid for h in holds if wait.begin <= h.after and h.before <= wait.end}
        assert items[0]["holder"]["tid"] in tids - {wait.tid}, (wait, call, holds)
        n += 1
    assert n > int(GRAPHS) / 4


def test_the_tree(recorded):
    """Its paths are those of the program, and their sums those of the single calls."""
    said = recorded.actor.iprobe("wait", "--tree", "--json", recorded.trace)
    nodes = {node["id"]: node for node in json.loads(said.stdout)["nodes"]}
    inside = collections.defaultdict(list)
    for node in nodes.values():
        inside[node["parent"]].append(node)
    paths = {
        node["function"]: nodes.get(node["parent"], {}).get("function") for node in nodes.values()
    }
    assert paths.pop("graph_run") is None and paths.pop("worker_run") is None
    # that of main() is in graph_run()
    assert sorted(n["function"] for n in inside[0]) == ["graph_run", "worker_run"]
    assert set(paths) == {name for name in recorded.calls if name.startswith("wait_")}
    for node in nodes.values():
        own = sum(item["ns"] for item in node["self_blocked"])
        near = max(1000, 0.001 * node["elapsed_ns"])
        waits = own + sum(child["blocked_ns"] for child in inside[node["id"]])
        assert abs(waits - node["blocked_ns"]) <= near, (node, waits)
        parts = sum(node[key + "_ns"] for key in ("cpu", "runqueue", "blocked", "unknown"))
        assert abs(parts - node["elapsed_ns"]) <= near, node
    for name, calls in recorded.calls.items():
        of_name = [node for node in nodes.values() if node["function"] == name]
        assert sum(node["calls"] for node in of_name) == len(calls)
        for key in ("elapsed_ns", "cpu_ns", "runqueue_ns"):
            there = sum(node[key] for node in of_name)
            assert abs(there - sum(call[key] for call in calls)) <= len(calls) + 1, (name, key)


def test_the_locks(recorded):
    """For how long each was waited for, and what is known of the time that it was had."""
    said = recorded.actor.iprobe("wait", "--locks", "--json", recorded.trace)
    locks = {lock["object"]: lock for lock in json.loads(said.stdout)["locks"]}
    waits, ns = collections.Counter(), collections.Counter()
    had, least, most = collections.Counter(), collections.Counter(), collections.Counter()
    unlocks = {
        (hold.tid, hold.begin): hold for holds in recorded.truth.holds.values() for hold in holds
    }
    for wait, call in recorded.waits():
        if wait.kind not in LOCKS:
            continue
        name = recorded.truth.shown(wait)[1]
        hold = unlocks[wait.tid, wait.end]
        items = [item for item in call["blocked"] if item["kind"] == "futex"]
        for item in items:
            assert item["object"] == name, (wait, call)
            waits[name] += item["count"]
            ns[name] += item["ns"]
        if items:  # who waited has it from the end of that, or a moment before
            had[name] += 1
            before = call["elapsed_ns"] - sum(item["ns"] for item in items)
            least[name] += recorded.ns(hold.before) - recorded.ns(wait.end)
            most[name] += recorded.ns(hold.after) - recorded.ns(wait.end) + before
    assert set(waits) == {name for name in locks if name.endswith((".mutex", ".pi"))}
    for name, lock in locks.items():
        if name not in waits:
            continue  # a lock of a condition or of the C library
        assert lock["kind"] == "futex" and lock["waits"] == waits[name], (name, lock)
        assert abs(lock["wait_ns"] - ns[name]) <= waits[name] + 1, (name, lock)
        assert lock["held_whole"] == had[name], (name, lock, had)
        assert least[name] - 2 <= lock["held_whole_ns"] <= most[name] + 2, (name, lock)
        assert lock["held"] > lock["held_whole"] and lock["held_max_ns"] <= lock["held_ns"], lock
        assert lock["wait_max_ns"] <= lock["wait_ns"], lock
        for key in ("waits", "wait_ns", "held", "held_ns", "held_whole"):
            parts = sum(function[key] for function in lock["functions"])
            assert abs(parts - lock[key]) <= len(lock["functions"]) + 1, (key, lock)
        kind = name.rpartition(".")[2]
        of_waits = [f for f in lock["functions"] if f["waits"]]
        assert [f["function"] for f in of_waits] == [f"wait_{kind}"], lock


TIMEHIST = re.compile(r"\s*[\d.]+ \[\d+\]\s+\S.*?\[(\d+)(?:/\d+)?\]" + r"\s+([\d.]+)" * 3)


def intervals(threads, tid, ns):
    """Of each time that a thread had a CPU: (off it before, ready for it before, on it)."""
    found, left, ready = [], None, None
    states = threads.states[tid]
    for (tsc, state), (end, _) in zip(states, states[1:]):
        if state == "W" or (state == "Q" and ready is None):
            ready = tsc if not states or left != tsc else None  # it was not preempted
        if state == "R":
            found.append(
                (ns(tsc - left) if left else 0, ns(tsc - ready) if ready else 0, ns(end - tsc))
            )
            left, ready = end, None
    return found


@pytest.mark.skipif(os.environ.get("IPROBE_TEST_FULL") != "1", reason="IPROBE_TEST_FULL=1 runs it")
def test_sums_are_those_of_perf(recorded):
    """perf sched timehist, of the same run: wait time, sch delay and run time of the threads."""
    if not shutil.which("perf"):
        pytest.skip("no perf")
    folder = recorded.folder / "perf"
    folder.mkdir()
    command = ["perf", "sched", "record", "-q", "-m", "8192", "-o", folder / "data", "--"]
    command += [recorded.actor.iprobe_path, "run", "-q", "--kernel=sched", "--kernel-buffer", "64M"]
    command += ["-o", folder / "trace", "--", recorded.program, "1", "20", folder / "log"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"perf does not record here: {done.stderr}")
    said = subprocess.run(
        ["perf", "sched", "timehist", "-i", folder / "data"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    theirs = collections.defaultdict(list)
    for found in filter(None, map(TIMEHIST.match, said.splitlines())):
        theirs[int(found[1])].append([float(found[i]) * 1e6 for i in (2, 3, 4)])
    threads, truth = Threads(folder / "trace"), Truth(folder / "log")
    sums, n = [[0, 0, 0], [0, 0, 0]], 0
    for tid in {tid for born in truth.born.values() for tid in born}:
        ours = intervals(threads, tid, lambda ticks: ticks * 1e9 / recorded.hz)
        # perf does not show how threads end
        for pair in zip(ours, theirs[tid]):
            n += 1
            for side in (0, 1):
                sums[side] = [a + b for a, b in zip(sums[side], pair[side])]
    assert n > 100
    for ours, there in zip(*sums):
        assert abs(ours - there) <= 0.002 * there + 1e3 * n, (sums, n)  # it shows whole us

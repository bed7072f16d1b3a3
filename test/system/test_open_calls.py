# SPDX-License-Identifier: Apache-2.0
"""The calls that are open when a recording begins: each view begins at the threads' first
functions, and the calls end when they return.
"""

import collections
import json
import re
import time

import pytest

from iptest import actor as actors
from iptest import memory

DEEP = ["run"] + ["deep"] * 31 + ["spin"]
TRUTH = {
    "deep": DEEP,
    "jumps": ["run", "outer", "last", "spin"],  # the frame of jumps() is gone
    "handler": ["run", "raises", "handler", "spin"],
}
# What cannot be known whole: the copy of a stack and a walk are bounded; of "broken", nothing.
PARTLY = {"large": ["run"] + ["large"] * 41 + ["spin"], "very_deep": ["run"] + ["deep"] * 3001}
BUILDS = {
    "fentry": {"placement": "fentry"},
    "instrument": {"placement": "instrument"},
    "inline": {"placement": "inline"},
    "unoptimised": {"placement": "fentry", "opt": "-O0", "extra": ("-DWITH_FRAME_POINTER",)},
    "frame-pointers": {
        "placement": "fentry",
        "extra": ("-fno-omit-frame-pointer", "-DWITH_FRAME_POINTER"),
    },
    "clang": {"placement": "fentry", "compiler": "clang"},
    "c++": {"placement": "fentry", "extra": ("-x", "c++")},
}
RETURNS = ("unoptimised", "instrument", "inline")  # where no function ends by a jump


class Recorded:
    """The program, attached to while its threads stand in calls, from which they then return."""

    def __init__(self, me, program, names, selection="*", options=()):
        self.me, self.dir, self.tids = me, me.dir() / "trace", {}
        proc = me.popen([program, *names])
        self.pid = proc.pid
        for line in iter(proc.stdout.readline, "ready\n"):
            name, tid = line.split()
            self.tids[name] = int(tid)
        assert set(self.tids) == set(names)
        iprobe = me.start_iprobe("attach", proc.pid, "-f", selection, "-o", self.dir, *options)
        memory.wait_until_live(proc.pid, iprobe)
        time.sleep(0.3)
        proc.stdin.write("\n")
        proc.stdin.flush()
        assert actors.last_words(proc).returncode == 0
        self.done = actors.last_words(iprobe)
        assert self.done.returncode == 0, repr(self.done)

    def text(self, *args):
        done = self.me.iprobe(*args, self.dir)
        assert done.returncode == 0, repr(done)
        return done.stdout

    def steps(self):
        return [json.loads(line) for line in self.text("dump", "--json").splitlines()]

    def opened(self):
        """{thread's name: the functions that were open, outermost first}"""
        names = {tid: name for name, tid in {**self.tids, "main": self.pid}.items()}
        found = collections.defaultdict(list)
        for step in self.steps():
            if step["event"] == "entry" and step.get("earlier"):
                stack = found[names[step["tid"]]]
                assert step["depth"] == len(stack), step
                stack.append(plain(step["function"]))
        return found


def plain(name):
    """Without the arguments of C++, and without what the compiler adds."""
    return re.sub(r"[(.].*", "", name)


def record(me, programs, build, names, **options):
    how = {"opt": "-O2", **BUILDS[build]}
    return Recorded(me, programs.simple("open_calls", **how), names, **options)


def assert_all_return(recorded, truth):
    """Each frame ends by its own exit: its stack pointer was right."""
    ended = collections.Counter(
        step["tid"]
        for step in recorded.steps()
        if step["event"] == "exit" and step.get("earlier") and not step.get("unwound")
    )
    for name, tid in recorded.tids.items():
        assert ended[tid] == len(truth[name]), (name, ended)


@pytest.mark.parametrize("build", BUILDS)
def test_calls_are_those_of_the_program(me, programs, build):
    recorded = record(me, programs, build, list(TRUTH))
    truth = {**TRUTH, "main": ["main"]}
    if build in RETURNS:
        truth["jumps"] = ["run", "outer", "jumps", "last", "spin"]
    assert recorded.opened() == truth
    assert_all_return(recorded, truth)
    report = json.loads(recorded.text("report", "--json"))
    assert report["orphan_exits"] == 0
    assert report["earlier"] == sum(map(len, truth.values()))


def test_times_count_from_the_attach_on(me, programs):
    recorded = record(me, programs, "fentry", ["deep"])
    rows = {
        row["function"]: row for row in json.loads(recorded.text("report", "--json"))["functions"]
    }
    assert rows["leaf"]["calls"] > 20 and "earlier" not in rows["leaf"]
    for name, n in collections.Counter(DEEP).items():
        row = rows[name]
        assert row["calls"] == 0 and row["earlier"] == n and row["max_ns"] is None, row
        assert 0.28e9 < row["total_ns"] < 3e9, row
    assert rows["run"]["self_ns"] < 0.05e9 < 0.2e9 < rows["spin"]["self_ns"]
    text = recorded.text("report")
    assert "34 calls were open already when the recording began" in text
    assert "spin {  (open before the recording)" in recorded.text("dump")
    assert re.search(r"\} spin  >= [0-9.]+ m?s", recorded.text("dump"))


def test_views_begin_at_the_first_function(me, programs):
    recorded = record(me, programs, "fentry", ["deep"])
    folded = recorded.text("export", "--format", "folded")
    assert all(line.startswith(("run", "main")) for line in folded.splitlines()), folded
    assert ";".join(DEEP + ["leaf"]) in folded
    graph = recorded.text("graph")
    assert re.search(r"^.* 0  run\n.* └─ deep\n", graph, re.M), graph
    events = json.loads(recorded.text("export", "--format", "chrome"))["traceEvents"]
    begins = [e["name"] for e in events if e["ph"] == "B" and e["tid"] == recorded.tids["deep"]]
    assert begins[: len(DEEP)] == DEEP
    assert min(e["ts"] for e in events if e["ph"] == "B") >= 0
    page = recorded.text("export", "--format", "html")
    assert '"run"' in page
    assert "not among these" in recorded.text("report", "--slowest", "3")


def test_callers_of_open_calls(me, programs):
    """A function whose only calls were open has its row wherever others have theirs."""
    recorded = record(me, programs, "fentry", ["deep"])
    spin = {
        row["function"]: row for row in json.loads(recorded.text("report", "--json"))["functions"]
    }["spin"]
    assert spin["calls"] == 0
    rows = [
        re.split(r" {2,}", r.strip()) for r in recorded.text("graph", "--of", "spin").splitlines()
    ]
    rows = rows[[row[-1] for row in rows].index("function") + 1 :]
    assert [row[2:] for row in rows] == [["0", "deep"], ["0", "spin"], [rows[2][2], "leaf"]]
    assert rows[0][:2] == rows[1][:2] and int(rows[2][2].replace(",", "")) > 20
    up = json.loads(recorded.text("graph", "--bottom-up", "--json"))
    self_ns = {n["function"]: n["self_ns"] for n in up["nodes"] if n["parent"] == 0}
    assert self_ns["spin"] == spin["self_ns"]
    assert abs(sum(self_ns.values()) - up["total_ns"]) <= len(self_ns)
    dot = recorded.text("graph", "--dot", "--min-percent", "0")
    for name in ("run", "deep", "spin"):
        assert re.search(rf'^\tf\d+ \[label="{name}"', dot, re.M), dot
    callgrind = recorded.text("export", "--format", "callgrind")
    number = re.search(r"fn=\((\d+)\) spin$", callgrind, re.M).group(1)
    assert re.search(rf"^cfn=\({number}\).*\ncalls=0 ", callgrind, re.M), callgrind
    page = recorded.text("export", "--format", "html")
    shown = json.loads(re.search(r'\{"name":"spin"[^}]*\}', page).group())
    assert shown["self"] == spin["self_ns"] and shown["calls"] == 0 and "max" not in shown
    done = recorded.me.iprobe("graph", "--of", "raises", recorded.dir)
    assert (done.returncode, done.stdout) == (0, "") and "choose none of" in done.stderr


def test_a_handler_on_a_stack_of_its_own(me, programs):
    """What it has interrupted lies on another stack, of which there is no copy."""
    recorded = record(me, programs, "fentry", ["other_stack"])
    assert recorded.opened() == {"other_stack": ["handler", "spin"], "main": ["main"]}
    assert json.loads(recorded.text("report", "--json"))["orphan_exits"] == 2
    told = "2 exits of calls that began before the recording of their thread are not counted."
    assert told in recorded.text("report").splitlines()


def test_only_selected_functions(me, programs):
    recorded = record(me, programs, "fentry", ["deep"], selection="run,spin,leaf,main")
    assert recorded.opened() == {"deep": ["run", "spin"], "main": ["main"]}


def test_bounds(me, programs):
    """A stack beyond the copy, and one with more frames than a walk takes: the inner part."""
    recorded = record(me, programs, "fentry", list(PARTLY))
    opened = recorded.opened()
    assert 10 < len(opened["large"]) < 20
    assert set(opened["large"][:-1]) == {"large"} and opened["large"][-1] == "spin"
    assert 900 < len(opened["very_deep"]) <= 1024
    assert set(opened["very_deep"][:-1]) == {"deep"} and opened["very_deep"][-1] == "spin"


def test_a_destroyed_stack(me, programs):
    """Whatever it claims, a walk ends, and the recording has the events of all threads."""
    recorded = record(me, programs, "fentry", ["broken", "deep"])
    opened = recorded.opened()
    assert opened["deep"] == DEEP
    assert len(opened["broken"]) <= 1024
    calls = collections.Counter(s["tid"] for s in recorded.steps() if s["function"] == "leaf")
    assert set(calls) == set(recorded.tids.values()), calls
    assert min(calls.values()) > 20


def test_a_part_of_the_time_has_none(me, programs):
    recorded = record(me, programs, "fentry", ["deep"])
    part = me.dir() / "part"
    done = me.iprobe("trim", recorded.dir, "-o", part, "--from", "100ms")
    assert done.returncode == 0, repr(done)
    assert json.loads(me.iprobe("report", "--json", part).stdout)["earlier"] == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--no-stop"],
        ["--overwrite"],
        ["--depth", "50"],
        ["--sample", "2:spin"],
        ["--min-duration", "1us"],
    ],
)
def test_where_events_do_not_tell_their_ends(me, programs, options):
    recorded = record(me, programs, "fentry", ["deep"], options=options)
    assert recorded.opened() == {}
    assert json.loads(recorded.text("info", "--json"))["events"] > 0


def test_views_of_one_thread(me, programs):
    recorded = record(me, programs, "fentry", ["deep", "jumps"], options=["--callsite"])
    assert recorded.opened()["deep"] == DEEP
    tid = str(recorded.tids["jumps"])
    steps = [json.loads(x) for x in recorded.text("dump", "--json", "--tid", tid).splitlines()]
    assert [s["function"] for s in steps[:4]] == TRUTH["jumps"]
    assert [s["depth"] for s in steps[:5]] == [0, 1, 2, 3, 4]
    graph = json.loads(recorded.text("graph", "--json", "--tid", tid))
    assert json.dumps(graph).count('"run"') == 1


def test_of_several_processes(me, programs):
    program = programs.simple("open_calls", placement="fentry")
    procs = [me.popen([program, "deep"]) for _ in range(2)]
    for proc in procs:
        while proc.stdout.readline() != "ready\n":
            pass
    pids, trace = [proc.pid for proc in procs], me.dir() / "trace"
    done = me.iprobe("attach", *pids, "-f", "*", "--duration", "500ms", "-o", trace)
    assert done.returncode == 0, repr(done)
    found = collections.defaultdict(list)
    for line in me.iprobe("dump", "--json", trace).stdout.splitlines():
        step = json.loads(line)
        if step["event"] == "entry" and step.get("earlier"):
            found[step["pid"]].append(step["function"])
    assert found == {pid: DEEP for pid in pids}

# SPDX-License-Identifier: Apache-2.0
"""What the processes of a recording are called: children rename themselves after they were forked.
"""

import json
import os
import pathlib
import re
import signal
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest import memory  # noqa: E402
from test_members import list_members  # noqa: E402

ROOM = "room-for-a-title-" * 4
SETTLED = 0.7  # seconds: a new name is noticed within half a second
TITLE = "saver: dump *:6379"
HELPER = "helper\x1b[1m"


def said(target):
    what, *numbers = target.proc.stdout.readline().split()
    return what, *map(int, numbers)


def fork(target, what):
    """The pids of the new process, and of who has forked it."""
    target.say(what)
    lines = [said(target)]
    assert lines[0][0] == what
    return lines[0][1:]


def read(actor, command, directory, *options):
    done = actor.iprobe(command, "--json", *options, directory)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


@pytest.fixture(params=["--follow-fork", "--children"])
def recorded(request, actor, programs, targets):
    """A recording of all four kinds of children: its directory, and pids by what they are."""
    target = targets.start(actor, [programs.simple("renamed"), ROOM], preload=False)
    directory = actor.dir() / "trace"
    proc = actor.start_iprobe("attach", target.pid, request.param, "-q", "-o", directory)
    memory.wait_until_live(target.pid, proc)
    pids = {"first": target.pid}
    for what in ("title", "name", "same", "below"):
        pids[what], parent = fork(target, what)
        pids[what + " of"] = parent
    time.sleep(SETTLED)
    proc.send_signal(signal.SIGTERM)
    out, err = proc.communicate(timeout=60)
    assert proc.returncode == 0, (out, err)
    assert pids["below of"] not in (target.pid, pids["below"])
    target.finish()
    return directory, pids


def test_names_and_parents(actor, recorded):
    directory, pids = recorded
    processes = read(actor, "report", directory)["processes"]
    # a session of its own may have begun for a child when its parent's ended: it is listed again
    found = {p["pid"]: p for p in processes if p["pid"] in pids.values()}
    assert len(found) == 6, processes
    assert {what: found[pids[what]]["name"] for what in ("first", "title", "name", "same")} == {
        "first": "renamed",
        "title": "saver",
        "name": HELPER,
        "same": "renamed",
    }
    assert found[pids["below"]]["name"] == "saver"
    assert found[pids["title"]]["command"] == TITLE
    assert found[pids["same"]]["command"].endswith("renamed " + ROOM)
    for what in ("title", "name", "same", "below"):
        process = found[pids[what]]
        assert process["forked_from"] == process["parent_pid"] == pids[what + " of"], what
        assert sum(p["events"] for p in processes if p["pid"] == process["pid"]) > 0, what
    assert "forked_from" not in found[pids["first"]]
    assert found[pids["first"]]["parent_pid"] > 0

    text = actor.iprobe("info", directory).stdout
    assert f"process    {pids['title']} saver, forked from {pids['first']}: " in text
    assert f"process    {pids['below']} saver, forked from {pids['below of']}: " in text
    assert "\x1b" not in text
    assert f"process    {pids['first']} renamed: " in text


def test_views_choose_by_the_new_name(actor, recorded):
    directory, pids = recorded
    savers = {pids["title"], pids["below"]}
    document = read(actor, "report", directory, "--process", "saver*")
    assert {p["name"] for p in document["processes"]} == {"saver"}
    assert savers <= {p["pid"] for p in document["processes"]}
    rows = read(actor, "report", directory, "--by", "process", "--process", "saver")["rows"]
    assert savers <= {row["pid"] for row in rows}
    assert pids["first"] not in {row["pid"] for row in rows}
    nodes = read(actor, "graph", directory, "--by", "process", "--process", "sav*")["nodes"]
    assert savers <= {n["pid"] for n in nodes if not n["parent"]}
    assert pids["first"] not in {n.get("pid") for n in nodes}
    done = actor.iprobe("dump", "--json", "--process", "saver", directory)
    assert {json.loads(line)["tid"] for line in done.stdout.splitlines()} == savers
    folded = actor.iprobe("export", "--format", "folded", "--by", "process", directory).stdout
    assert f"process {pids['title']} saver;" in folded
    done = actor.iprobe("report", "--process", "nobody*", directory)
    assert done.returncode == 1 and f"saver ({pids['title']})" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_part_of_the_trace_has_the_names(actor, recorded):
    directory, pids = recorded
    part = actor.dir() / "part"
    done = actor.iprobe("trim", "--process", "saver", "-o", part, directory)
    if done.returncode == 2:
        done = actor.iprobe("trim", "--pid", pids["title"], "-o", part, directory)
    assert done.returncode == 0, repr(done)
    names = {p["pid"]: p["name"] for p in read(actor, "report", part)["processes"]}
    assert names[pids["title"]] == "saver"


def test_a_recording_from_the_first_instruction(actor, programs):
    """The command is that of the user; what it forks has names of its own."""
    directory = actor.dir() / "trace"
    proc = actor.popen(
        [actor.iprobe_path, "run", "-q", "--follow-fork", "-o", directory, "--"]
        + [programs.simple("renamed"), ROOM],
    )
    assert proc.stdout.readline() == "ready\n"
    pids = {}
    for what in ("title", "same"):
        proc.stdin.write(what + "\n")
        proc.stdin.flush()
        told, pid, parent = proc.stdout.readline().split()
        assert told == what
        pids[what] = int(pid)
    time.sleep(SETTLED)
    proc.communicate(timeout=60)
    assert proc.returncode == 0
    found = {p["pid"]: p for p in read(actor, "report", directory)["processes"]}
    (first,) = found.keys() - set(pids.values())
    assert found[first]["name"] == "renamed" and "parent_pid" not in found[first]
    assert found[pids["title"]]["name"] == "saver" and found[pids["same"]]["name"] == "renamed"
    assert found[pids["title"]]["forked_from"] == found[pids["same"]]["forked_from"] == first


@pytest.mark.parametrize("name", ["becoming", "serving"])
def test_a_target_that_executes_another_program(actor, programs, targets, name):
    """It keeps the name of the program that was recorded, and so does its first thread, whether it
    has recorded or not.
    """
    program = programs.simple(name, extra=("-pthread",))
    words = [program] + ["become"] * (name == "serving") + ["/bin/cat"]
    target = targets.start(actor, words, preload=False)
    directory = actor.dir() / "trace"
    proc = actor.start_iprobe("attach", target.pid, "-q", "-o", directory)
    memory.wait_until_live(target.pid, proc)
    time.sleep(SETTLED)
    if name == "serving":
        os.kill(target.pid, signal.SIGUSR2)
    else:
        target.say("x")
    out, err = proc.communicate(timeout=60)
    assert proc.returncode == 0, (out, err)
    (process,) = read(actor, "report", directory)["processes"]
    assert process["name"] == name and name in process["command"], process
    info = actor.iprobe("info", directory).stdout
    assert set(re.findall(r"^thread +[0-9]+ ([a-z]+)", info, re.M)) == {name}, info


def one(directory, pid, lines, forked=()):
    """A trace of a process and of children of it, each with a call."""
    trace = tracegen.Trace(hz=1_000_000_000)
    for number in (pid, *forked):
        thread = trace.thread(tid=number, pid=number, stream=number)
        thread.call("work")
        thread.advance(1000)
        thread.ret()
    part = trace.write(directory)
    session = part / "iprobe" / "session"
    text = session.read_text()
    session.write_text(text.replace("pid\t1000\n", f"pid\t{pid}\n") + "".join(lines))
    return part


def test_the_last_line_of_a_process_counts(me):
    directory = one(
        me.dir() / "trace",
        70,
        [
            "process\t71\t70\tf\told\told name\n",
            "process\t71\t70\tf\tnew\tnew name\n",
            "process\t70\t1\t-\tserver\t./server\n",
            "process\t99\t98\tf\tnobody\tnobody\n",  # it has recorded nothing
        ],
        forked=(71, 72),
    )
    found = {p["pid"]: p for p in read(me, "report", directory)["processes"]}
    assert {pid: p["name"] for pid, p in found.items()} == {70: "server", 71: "new", 72: "demo"}
    assert found[71]["command"] == "new name" and found[71]["forked_from"] == 70
    assert found[70]["parent_pid"] == 1 and "forked_from" not in found[70]
    assert "parent_pid" not in found[72]


def test_parents_among_several_recordings(me):
    """A process with a recording of its own was forked by one that has another. Numbers of a pid
    namespace are shown as those outside, as those of processes are.
    """
    directory = me.dir() / "trace"
    one(directory / "demo-100", 100, ["process\t100\t1\t-\tmaster\tmaster\n"])
    one(directory / "demo-200", 200, ["process\t200\t100\t-\tworker\tworker\n"])
    one(
        directory / "demo-300",
        1,
        ["process\t1\t100\t-\tinit\tinit\n", "process\t7\t1\tf\tchild\tchild\n"],
        forked=(7,),
    )
    # in another namespace 7 is another process
    one(directory / "demo-400", 1, ["process\t7\t1\tf\tother\tother\n"], forked=(7,))
    list_members(directory, [(f"demo-{pid}", pid) for pid in (100, 200, 300, 400)])
    found = read(me, "report", directory)["processes"]
    assert [(p["name"], p.get("forked_from")) for p in found] == [
        ("master", None),
        ("worker", 100),
        ("init", 100),
        ("child", 300),
        ("demo", None),
        ("other", 400),
    ]
    assert [p["pid"] for p in found][:4] == [100, 200, 300, 7] and found[5]["pid"] > 7


@pytest.mark.parametrize(
    "line", ["process\n", "process\tx\t1\t-\tn\tc\n", "process\t1\t99999999999\t-\tn\tc\n"]
)
def test_damaged_lines(me, line):
    directory = one(me.dir() / "trace", 70, [line])
    done = me.iprobe("report", directory)
    assert done.returncode == 1 and "the trace is damaged" in done.stderr, repr(done)


def test_lines_that_are_short(me):
    """What is missing is not known."""
    directory = one(me.dir() / "trace", 70, ["process\t70\t0\n"])
    (process,) = read(me, "report", directory)["processes"]
    assert process["name"] == "demo" and "parent_pid" not in process

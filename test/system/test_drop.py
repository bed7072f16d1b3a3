# SPDX-License-Identifier: Apache-2.0
"""
--drop-hot: of a program with functions of all temperatures those that are called often and last
no longer than their probes lose these while it runs, and no others; what was recorded plus what
was counted is what the program knows.
"""

import csv
import io
import json
import re
import signal
import sys
import time

import pytest

from iptest import ctf, memory
from iptest.actor import last_words
from test_counting import own_counts


def readers_agree(actor, directory):
    """(rows by function, info) of a trace in which calls are under way when their probes go."""
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    report = json.loads(done.stdout)
    if report["lost"]:
        pytest.skip(
            "the machine is too busy to record all events: their number cannot be held against the "
            "truth"
        )
    # one a thread and function at most is open in the moment that it is dropped
    assert report["unfinished"] <= 2 and report["orphan_exits"] == 0 and report["suspect"] == 0
    assert sum(ctf.read_events(directory)[0].values()) == report["events"]
    done = actor.iprobe("info", "--json", directory)
    assert done.returncode == 0, repr(done)
    return {f["function"]: f for f in report["functions"]}, json.loads(done.stdout)


def check_calls(functions, dropped, calls):
    for name, d in dropped.items():
        assert (
            functions[name]["dropped_after_ns"] == d["ts"]
            and functions[name]["counted_since"] == d["counted"]
        )
        if d[
            "counted"
        ]:  # logged until then, counted from then on: no call is missing, none is there twice
            assert (
                functions[name]["payload"] == "log+count"
                and functions[name]["calls"] == calls[name]
            )
        else:
            assert (
                functions[name]["payload"] == "log" and 0 < functions[name]["calls"] < calls[name]
            )


def check(actor, directory, calls, stderr):
    functions, info = readers_agree(actor, directory)
    dropped = {d["function"]: d for d in info["dropped"]}
    assert {"tiny", "small"} == set(dropped) == set(re.findall(r"iprobe: (\w+) dropped: ", stderr))
    assert dropped["small"]["counted"] and all(d["probes_percent"] >= 30 for d in dropped.values())
    check_calls(functions, dropped, calls)
    assert {f: functions[f]["calls"] for f in ("middle", "large")} == {
        f: calls[f] for f in ("middle", "large")
    }
    assert "dropped_after_ns" not in functions["middle"]
    assert any(s["kind"] == "drop" for s in info["stops"])
    text = actor.iprobe("report", directory).stdout
    assert "small after " in text and "calls are all that were made" in text
    check_marks(actor, directory, dropped)


def check_marks(actor, directory, dropped):
    """In every view it is said that figures of a function are those until it was dropped, and of
    no other.
    """
    mark = r" \[(times )?until dropped at [0-9.]+ (ms|s)\]"
    for view, marks in (
        (["report"], mark),
        (["report", "--by", "caller"], mark),
        (["graph", "--min-percent", "0"], mark),
        (["graph", "--dot", "--min-percent", "0"], mark),
        (["hist"], mark),
        (["export", "--format", "folded"], mark),
        (["export", "--format", "callgrind"], mark),
        (["export", "--format", "html"], mark),
    ):
        done = actor.iprobe(*view, directory)
        assert done.returncode == 0, repr(done)
        text = done.stdout
        for name in dropped:
            assert re.search(rf"\b{name}( <- \w+( \(around\))?)?{marks}", text), (
                view,
                name,
                done.stdout[:3000],
            )
        assert not re.search(r"(middle|large) \[", text), view
    for view, key in ((["graph"], "nodes"), (["hist"], "functions"), (["report"], "functions")):
        done = actor.iprobe(*view, "--json", directory)
        rows = [r for r in json.loads(done.stdout)[key] if "dropped_after_ns" in r]
        assert {r["function"]: r["dropped_after_ns"] for r in rows} == {
            n: d["ts"] for n, d in dropped.items()
        }, view
    rows = json.loads(actor.iprobe("report", "--json", "--diff", directory, directory).stdout)[
        "functions"
    ]
    for key in ("before_dropped_after_ns", "after_dropped_after_ns"):
        assert {r["function"]: r[key] for r in rows if key in r} == {
            n: d["ts"] for n, d in dropped.items()
        }
    table = list(csv.DictReader(io.StringIO(actor.iprobe("report", "--csv", directory).stdout)))
    assert {r["function"]: int(r["dropped_after_ns"]) for r in table if r["dropped_after_ns"]} == {
        n: d["ts"] for n, d in dropped.items()
    }


OPTIONS = ["--drop-hot=30", "--memory", "192M"]


@pytest.mark.parametrize("placement", ["fentry", "instrument"])
def test_run(me, programs, placement):
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--json",
        *OPTIONS,
        "-o",
        directory,
        "--",
        programs.simple("hot", placement=placement),
        1,
    )
    assert done.returncode == 0, repr(done)
    calls, _ = own_counts(done.stdout)
    assert done.summary()["dropped"] == 2
    check(me, directory, calls, done.stderr)


def test_attach(actor, programs, targets):
    """The sites are NOPs again as soon as their function is dropped, and all of them in the end."""
    target = targets.start(actor, [programs.simple("hot", placement="fentry"), "-w", 2])
    directory = actor.dir() / "trace"
    session = actor.start_iprobe("attach", target.pid, "--json", *OPTIONS, "-o", directory)
    memory.wait_until_live(target.pid, session)

    def live():
        done = actor.iprobe("status", "--json", target.pid)
        assert done.returncode == 0, repr(done)
        return json.loads(done.stdout)["patched"]

    before = live()
    target.say()
    memory.wait_for("nothing is dropped", lambda: live() <= before - 2, 60, 0.05)
    lines = []
    while not lines or not lines[-1].startswith("calls "):
        lines.append(target.proc.stdout.readline())
        assert lines[-1], "the target ended early"
    # of small its entry is left, of tiny that or nothing
    assert before - live() in (2, 3)
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    calls, _ = own_counts("".join(lines))
    check(actor, directory, calls, done.stderr)
    memory.assert_untouched(target.pid)
    target.say()
    target.finish()


def test_what_is_not_hot_stays(me, programs):
    """The same functions, above a threshold that none of them reaches; and large ones by
    themselves.
    """
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--json",
        "--drop-hot=1",
        "-f",
        "large",
        "-o",
        directory,
        "--",
        programs.simple("hot"),
        0.5,
    )
    assert done.returncode == 0, repr(done)
    assert done.summary()["dropped"] == 0 and "dropped" not in done.stderr
    _, info = readers_agree(me, directory)
    assert info["dropped"] == []


@pytest.mark.parametrize(
    "options,words",
    [
        (["--drop-hot=0"], "from 1 to 99 per cent"),
        (["--drop-hot=x"], "from 1 to 99 per cent"),
        (["--drop-hot", "--time", "coarse"], "does not go with --time coarse"),
        (["--drop-hot", "--overwrite"], "does not go with"),
        (["--drop-hot", "--depth", "3"], "nor with filters"),
    ],
)
def test_wrong_usage(me, options, words):
    done = me.iprobe("run", *options, "--", "true")
    assert done.returncode == 2 and words in done.stderr, repr(done)


# Seizes a process until its stdin ends, so that nobody else can stop it.
SEIZE = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
print("seized" if libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) == 0 else f"errno {ctypes.get_errno()}", flush=True)
sys.stdin.read()
"""


def test_while_nothing_can_be_stopped(me, programs, targets):
    """Another tracer has the target: functions are dropped all the same, and lose their probes
    when it is gone. No call is missing, none is there twice.
    """
    target = targets.start(me, [programs.simple("hot", placement="fentry"), "-w", 60])
    directory = me.dir() / "trace"
    session = me.start_iprobe("attach", target.pid, "--json", *OPTIONS, "-o", directory)
    memory.wait_until_live(target.pid, session)
    with me.popen([sys.executable, "-c", SEIZE, target.pid]) as tracer:
        said = tracer.stdout.readline().strip()
        if said != "seized":
            pytest.skip(f"cannot trace the target: {said}")
        target.say()
        session_file = directory / "iprobe" / "session"
        # what a call costs is measured: how soon both are known to be hot depends on who else has
        # the CPU
        memory.wait_for(
            "nothing is dropped",
            lambda: session_file.read_text().count("\ndropped\t") == 2,
            60,
            0.05,
        )
        time.sleep(0.2)
        target.say()
        lines = []
        while not lines or not lines[-1].startswith("calls "):
            lines.append(target.proc.stdout.readline())
            assert lines[-1], "the target ended early"
        tracer.stdin.close()
        tracer.wait()
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    assert "are tried again" in done.stderr, repr(done)
    calls, _ = own_counts("".join(lines))
    functions, info = readers_agree(me, directory)
    dropped = {d["function"]: d for d in info["dropped"]}
    assert {"tiny", "small"} == set(dropped) and dropped["small"]["counted"]
    check_calls(functions, dropped, calls)
    memory.assert_untouched(target.pid)
    target.say()
    target.finish()

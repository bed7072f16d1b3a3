# SPDX-License-Identifier: Apache-2.0
"""
--payload count and hist: a program that counts its own calls against what was counted in it,
without an event; different payloads in one session; what is left when somebody is killed;
mistakes.
"""

import json
import re
import signal
import time

import pytest

from iptest import memory
from iptest.actor import last_words, one_line

from test_counting import attach_around_the_work, own_counts, record


def report_of(actor, directory):
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    report = json.loads(done.stdout)
    return report, {f["function"]: f for f in report["functions"]}


def nonzero(calls):
    return {f: n for f, n in calls.items() if n}


def check_histogram(function):
    """What a histogram says must agree with itself."""
    assert function["payload"] == "hist"
    assert function["min_ns"] <= function["avg_ns"] <= function["max_ns"]
    assert function["self_ns"] <= function["total_ns"] and function["p50_ns"] is None
    last = 0
    for key in ("p50_bounds_ns", "p90_bounds_ns", "p99_bounds_ns", "p999_bounds_ns"):
        low, high = function[key]
        assert function["min_ns"] <= low <= high <= function["max_ns"], (key, function)
        assert low >= last, (key, function)
        last = low


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("payload", ["count", "hist"])
def test_every_call_is_counted(actor, programs, threads, payload):
    """Threads end while the session goes on: what they counted stays."""
    directory, summary, calls, total = record(
        actor, programs.simple("count"), ["-t", threads, "-n", 20000], ["--payload", payload]
    )
    assert summary["events"] == 0 and summary["lost"] == 0
    assert summary["counted"] == total
    report, functions = report_of(actor, directory)
    assert {f: row["calls"] for f, row in functions.items()} == nonzero(calls)
    assert report["counted"] == total
    if payload == "count":
        order = [row["calls"] for row in report["functions"]]
        assert order == sorted(order, reverse=True)  # there is no time to sort by
    for row in functions.values():
        assert row["payload"] == payload
        if payload == "hist":
            assert row["unmeasured"] == 0
            check_histogram(row)
        else:
            assert row["total_ns"] is None and row["min_ns"] is None and row["max_ns"] is None


@pytest.mark.parametrize("payload", ["count", "hist"])
def test_readers_of_events_tell_what_shows_it(me, programs, payload):
    folder = me.dir()
    done = me.iprobe(
        *("run", "-o", "trace", "--payload", payload),
        *("--", programs.simple("count"), "-t", 1, "-n", 50),
        cwd=folder,
    )
    assert done.returncode == 0, repr(done)
    shows = "iprobe report and iprobe hist show it" if payload == "hist" else "iprobe report shows"
    was = "measured" if payload == "hist" else "counted"
    for command in (
        ("dump",),
        ("graph",),
        ("report", "--slowest", 2),
        ("export", "--format", "folded"),
        ("export", "--format", "html", "-o", "page.html"),
        ("trim", "-o", "part"),
    ):
        done = me.iprobe(*command, "trace", cwd=folder)
        assert done.returncode == 0, repr(done)
        assert f"what was {was} instead of logged (--payload) has no events: {shows}" in done.stderr
    done = me.iprobe("hist", "trace", cwd=folder)
    if payload == "hist":
        assert done.returncode == 0 and done.stdout, repr(done)
    else:
        assert "--payload count has no times; iprobe report shows" in one_line(done)


@pytest.mark.parametrize("placement", ["fentry", "instrument"])
def test_placements(me, programs, placement):
    program = programs.simple("count", placement=placement)
    directory, _, calls, _ = record(
        me, program, ["-t", 2, "-n", 5000], ["--payload", "hist", "--payload", "count:mix"]
    )
    _, functions = report_of(me, directory)
    # of others gcc may make loops, or inline them: there placement fentry sees no call
    names = ("leaf", "mix", "half", "chain_inner", "chain_middle", "chain_outer")
    assert {f: functions[f]["calls"] for f in names} == {f: calls[f] for f in names}
    assert functions["mix"]["payload"] == "count"


def test_count_leaves_exits_idle(me, programs):
    options = ["-f", "leaf"]
    _, whole, _, _ = record(me, programs.simple("count"), ["-n", 100], options)
    _, counted, _, _ = record(
        me, programs.simple("count"), ["-n", 100], [*options, "--payload", "count"]
    )
    assert counted["sites"] == 1 < whole["sites"]


def test_different_payloads_in_one_session(actor, programs):
    directory, summary, calls, _ = record(
        actor,
        programs.simple("count"),
        ["-t", 2, "-n", 20000],
        ["--payload", "count", "--payload", "hist:chain_*", "--payload", "log:half,count_down"],
    )
    logged = calls["half"] + calls["count_down"]
    assert summary["lost"] == 0 and summary["events"] == 2 * logged
    _, functions = report_of(actor, directory)
    assert {f: row["calls"] for f, row in functions.items()} == nonzero(calls)
    for name, row in functions.items():
        expected = (
            "hist"
            if name.startswith("chain_")
            else "log"
            if name in ("half", "count_down")
            else "count"
        )
        assert row["payload"] == expected, name
    inner, middle, outer = (functions[f"chain_{name}"] for name in ("inner", "middle", "outer"))
    assert outer["total_ns"] > inner["total_ns"] > 0
    # the three are called by each other and by nobody else
    assert inner["self_ns"] == inner["total_ns"]
    for caller, callee in ((middle, inner), (outer, middle)):
        assert abs(caller["self_ns"] - (caller["total_ns"] - callee["total_ns"])) <= 2


def test_selections_of_payloads_are_the_selection(me, programs):
    directory, summary, calls, _ = record(
        me,
        programs.simple("count"),
        ["-n", 5000],
        ["--payload", "hist:chain_*", "--payload", "log:half"],
    )
    assert summary["functions"] == 4
    _, functions = report_of(me, directory)
    chosen = ("chain_inner", "chain_middle", "chain_outer", "half")
    assert {f: row["calls"] for f, row in functions.items()} == {f: calls[f] for f in chosen}


def test_attach(actor, programs, targets):
    directory, _, calls, _ = attach_around_the_work(
        actor,
        targets,
        programs.simple("count"),
        ["-t", 2, "-n", 20000],
        ["--payload", "hist", "--payload", "count:leaf"],
    )
    _, functions = report_of(actor, directory)
    assert {f: row["calls"] for f, row in functions.items()} == nonzero(calls)
    assert functions["leaf"]["payload"] == "count"
    info = json.loads(actor.iprobe("info", "--json", directory).stdout)
    assert info["payloads"] == {"log": 0, "count": 1, "hist": info["functions"] - 1, "user": 0}
    assert "payload    count: 1 function\n" in actor.iprobe("info", directory).stdout


def test_hist_shows_it(me, programs):
    directory, _, calls, _ = record(
        me,
        programs.simple("count"),
        ["-n", 20000],
        ["--payload", "hist:half", "--payload", "log:leaf"],
    )
    done = me.iprobe("hist", "--json", directory)
    assert done.returncode == 0, repr(done)
    functions = {f["function"]: f for f in json.loads(done.stdout)["functions"]}
    assert set(functions) == {"half", "leaf"}
    assert functions["half"]["payload"] == "hist" and functions["leaf"]["payload"] == "log"
    half = functions["half"]
    assert half["calls"] == calls["half"] == sum(b["calls"] for b in half["buckets"])
    assert half["min_ns"] < half["buckets"][0]["to_ns"]
    assert half["max_ns"] >= half["buckets"][-1]["from_ns"]
    done = me.iprobe("hist", "-f", "half", directory)
    assert done.returncode == 0 and "half: " in done.stdout and "< peak" in done.stdout
    done = me.iprobe("report", directory)
    assert done.returncode == 0 and "calls counted" in done.stdout and " <" in done.stdout


def test_calls_that_have_not_finished(me, programs):
    """They are counted, and have no duration: iprobe hist says how many there are."""
    directory = me.dir() / "trace"
    target = me.popen([programs.simple("own_and_callee")])  # serve() waits all the time
    try:
        proc = me.start_iprobe(
            *("attach", target.pid, "-q", "-f", "serve", "--payload", "hist", "-o", directory)
        )
        memory.wait_until_live(target.pid, proc)
        time.sleep(0.5)
        proc.send_signal(signal.SIGINT)
        assert proc.wait(60) == 0
    finally:
        target.kill()
        target.wait()
    _, rows = report_of(me, directory)
    said = me.iprobe("hist", directory).stdout.splitlines()[0]
    ended, more = re.match(r"serve: (\d+) calls, .*; (\d+) more had not finished$", said).groups()
    assert rows["serve"]["calls"] == int(ended) + int(more) and int(more) == 1, said


def test_room_follows_what_is_needed(actor, programs, targets):
    """The session begins with one function, and four thousand are added to it: each is counted,
    in memory that was there.
    """
    target = targets.start(actor, [programs.simple("many")])
    directory = actor.dir() / "trace"
    session = actor.start_iprobe(
        "attach",
        target.pid,
        "--json",
        "-f",
        "f_000",
        "--payload",
        "count",
        "--payload",
        "hist:f_0*",
        "-o",
        directory,
    )
    memory.wait_until_live(target.pid, session)

    def call():
        target.say()
        assert target.proc.stdout.readline() == "called\n"

    call()
    done = actor.iprobe("attach", target.pid, "-f", "f_*")
    assert done.returncode == 0, repr(done)
    call()
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    _, functions = report_of(actor, directory)
    assert len(functions) == 4096
    assert {f: row["calls"] for f, row in functions.items() if row["calls"] != 1} == {"f_000": 4}
    assert sum(row["payload"] == "hist" for row in functions.values()) == 256
    assert all(row["unmeasured"] == 0 for row in functions.values() if row["payload"] == "hist")
    target.finish()


def test_traces_without_events_say_so(me, programs):
    directory, summary, _, _ = record(
        me, programs.simple("count"), ["-t", 4, "-n", 1000], ["--payload", "hist"]
    )
    assert summary["threads"] == 4
    for command in (["dump"], ["graph"], ["export", "--format", "folded"]):
        done = me.iprobe(*command, directory)
        assert done.returncode == 0, repr(done)
        assert (
            done.stderr.count("\n") == 1 and "iprobe report and iprobe hist show it" in done.stderr
        ), repr(done)
    done = me.iprobe("hist", "--over-time", directory)
    assert done.returncode == 0 and "--payload hist keeps no times" in done.stderr, repr(done)
    done = me.iprobe("hist", "--tid", "1", directory)
    assert done.returncode == 1 and "does not tell threads apart" in done.stderr, repr(done)


def wait_for_counts(directory, session):
    deadline = time.monotonic() + 60
    path = directory / "iprobe" / "counts"
    while not path.exists() or not any(
        line.startswith("count\t") and not line.endswith("\t0")
        for line in path.read_text().splitlines()
    ):
        assert session.poll() is None and time.monotonic() < deadline, "no counts were saved"
        time.sleep(0.05)


def test_of_a_killed_iprobe_the_last_state_is_left(me, programs, targets):
    target = targets.start(me, [programs.simple("count"), "-w", "-r", "20000", "-s", "600"])
    directory = me.dir() / "trace"
    session = me.start_iprobe("attach", target.pid, "--payload", "count", "-o", directory)
    memory.wait_until_live(target.pid, session)
    target.say()
    wait_for_counts(directory, session)
    session.kill()
    session.wait()
    _, functions = report_of(me, directory)
    assert functions["leaf"]["calls"] > 0
    done = me.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)


def test_of_a_killed_target_everything_is_left(me, programs, targets):
    target = targets.start(me, [programs.simple("count"), "-w", "-t", "2", "-n", "20000"])
    directory = me.dir() / "trace"
    session = me.start_iprobe("attach", target.pid, "--json", "--payload", "count", "-o", directory)
    memory.wait_until_live(target.pid, session)
    target.say()
    lines = []
    while not lines or not lines[-1].startswith("calls "):
        lines.append(target.proc.stdout.readline())
        assert lines[-1], "the target ended early"
    calls, _ = own_counts("".join(lines))
    target.proc.send_signal(signal.SIGKILL)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    _, functions = report_of(me, directory)
    assert {f: row["calls"] for f, row in functions.items()} == nonzero(calls)


@pytest.mark.parametrize(
    "options,code,words",
    [
        (["--payload", "count:lea*", "--payload", "hist:leaf"], 1, "both name leaf"),
        (["--payload", "count:leef"], 1, "nearest: leaf"),
        (["-f", "half", "--payload", "count:leaf"], 1, "none of the selected functions"),
        (["--payload", "kount"], 2, "there are log, count and hist"),
        (["--payload", "count", "--payload", "hist"], 2, "everything else already"),
        (["--payload", "count:"], 2, "a selection is missing"),
    ],
)
def test_mistakes(me, programs, options, code, words):
    done = me.iprobe(
        "run", *options, "-o", me.dir() / "trace", "--", programs.simple("count"), "-n", "10"
    )
    assert done.returncode == code, repr(done)
    assert words in done.stderr, repr(done)

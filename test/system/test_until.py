# SPDX-License-Identifier: Apache-2.0
"""
attach --until: a session that ends when a function's latency passes a limit, and a flight
recorder that does.
"""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from iptest import memory

WAIT = 90


def cpu_seconds(pid):
    """CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def serving(targets, me, programs):
    return targets.start(me, [programs.simple("serving", placement="fentry")], preload=False)


def start(me, target, *options):
    return me.start_iprobe("attach", "--json", *options, target.pid)


def begin(me, target, *options):
    session = start(me, target, *options)
    memory.wait_until_live(target.pid, session)
    return session


def end(session, target):
    out, err = session.communicate(timeout=WAIT)
    assert session.returncode == 0, err
    assert not memory.text_differences(target.pid) and target.alive()
    return json.loads(out)


def functions(me, directory):
    done = me.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    return {f["function"]: f for f in json.loads(done.stdout)["functions"]}


def test_conditions_that_are_for_no_function(me, serving):
    """The object on stdout says which; the process is as it was."""
    conditions = ("max>1h:hndle", "max>1h:handle", "p99>1h:file:nope.c")
    session = start(me, serving, *(w for text in conditions for w in ("--until", text)))
    out, err = session.communicate(timeout=WAIT)
    assert session.returncode == 1 and "--until max>1h:hndle is for none of" in err, err
    assert json.loads(out) == {
        "pid": serving.pid,
        "until_absent": [
            {"condition": 1, "nearest": "handle"},
            {"condition": 3, "nearest": ""},
        ],
    }
    assert not memory.text_differences(serving.pid)


def test_ends_when_it_is_met(me, serving):
    directory = me.dir() / "t"
    session = begin(
        me, serving, "-o", directory, "--until", "p50>1h:handle", "--until", "p99>10ms/200ms:handle"
    )
    time.sleep(1)
    assert session.poll() is None
    os.kill(serving.pid, signal.SIGUSR1)
    summary = end(session, serving)
    assert summary["until"] == 2 and summary["end"] == summary["until_met"], summary
    assert summary["until_function"] == "handle", summary
    said = re.fullmatch(
        r"p99 of handle was (\S+ m?s) in the last (\S+) (m?s) \(\d+ calls\)", summary["until_met"]
    )
    assert said, summary
    judged = float(said[2]) * {"ms": 1e6, "s": 1e9}[said[3]]
    # the time that was judged is not that of the session
    assert 190e6 <= judged < summary["until_met_after_ns"], summary
    assert 1e9 < summary["until_met_after_ns"] <= summary["duration_ns"], summary
    assert summary["events"] == 0 and summary["counted"] > 10  # a histogram is all there is


@pytest.mark.parametrize("cond", ["mean>1ns/800ms:handle", "p50>1ns/800ms:handle"])
def test_whole_periods_are_judged(me, serving, cond):
    """What is met from the first call on is met when a period has passed; the time that is told is
    that which was judged.
    """
    session = begin(me, serving, "-o", me.dir() / "t", "--until", cond)
    summary = end(session, serving)
    over, unit = summary["until_met"].split(" in the last ")[1].split()[:2]
    span = float(over) * {"ms": 1e6, "s": 1e9}[unit]
    # three figures are shown
    assert (
        summary["duration_ns"] > 0.8e9 and 0.799e9 < span < 1.01 * summary["duration_ns"]
    ), summary


def test_calls_are_judged_at_once(me, serving):
    session = begin(me, serving, "-o", me.dir() / "t", "--until", "calls>9/8s:handle")
    summary = end(session, serving)
    assert summary["duration_ns"] < 8e9 and " last 8.0" not in summary["until_met"], summary


@pytest.mark.parametrize(
    "overwrite", [(), ("--overwrite", "-f", "reply")], ids=["hist", "overwrite"]
)
def test_one_slow_call_among_many(me, serving, overwrite):
    os.kill(serving.pid, signal.SIGUSR2)  # it calls without a pause
    directory = me.dir() / "t"
    session = begin(
        me,
        serving,
        "-o",
        directory,
        *overwrite,
        "--until",
        "p999>400ms:handle",
        "--until",
        "max>1h/100ms:handle",  # is looked at more often than the next one
        "--until",
        "max>400ms/10s:handle",
    )
    time.sleep(1)
    assert session.poll() is None
    os.kill(serving.pid, signal.SIGHUP)
    summary = end(session, serving)
    assert summary["until"] == 3 and summary["until_met"].startswith("max of handle was "), summary
    value, unit = summary["until_met"].split(" was ")[1].split()[:2]
    assert (unit, float(value) >= 600) == ("ms", True) or unit == "s", summary
    calls = int(summary["until_met"].split("(")[1].split()[0].replace(",", ""))
    assert calls > 1000, summary
    found = functions(me, directory)["handle"]
    assert found["max_ns"] >= 600e6 and found["calls"] > 1000, found


def test_conditions_that_are_not_met(me, serving):
    options = (
        "--duration",
        "1500ms",
        *("--until", "mean>1h/300ms:handle"),
        *("--until", "max>20m/60s:handle,reply"),
        *("--until", "calls>1000000:handle"),
        *("--until", "p99>1s/60s:handle"),
        *("--until", "p50>2:reply"),
    )
    done = me.iprobe("attach", "--json", "-o", me.dir() / "t", *options, serving.pid)
    assert done.returncode == 0, repr(done)
    assert "--until p50>2:reply: the limit is 2.00 s, since it has no unit" in done.stderr
    summary = json.loads(done.stdout)
    assert "until" not in summary and summary["end"] == "duration over", summary
    mean, longest, calls, early, reply = summary["until_unmet"]
    assert (mean["condition"], mean["function"]) == ("mean>1h/300ms:handle", "handle")
    assert 0 < mean["highest_ns"] < 1e9 and 300e6 <= mean["span_ns"] < 1.5e9, mean
    assert mean["text"].startswith("the highest mean of handle was ")
    assert mean["text"].endswith(", the limit is 3600 s")
    # reply is part of handle
    assert longest["function"] == "handle" and longest["highest_ns"] > mean["highest_ns"], longest
    assert calls["highest_calls"] >= 10 and " in " in calls["text"], calls
    assert early["text"] == "p99 of handle is judged over 60.0 s, which have not passed"
    assert "function" not in early and "highest_ns" not in early
    assert reply["text"].endswith(", the limit is 2.00 s"), reply
    options = (*options[:4], "--until", "max>1h:handle")  # of the same function
    done = me.iprobe("attach", "-o", me.dir() / "u", *options, serving.pid)
    assert "nothing matches" not in done.stderr, repr(done)
    assert done.stderr.count("--until was not met: ") == 2, repr(done)
    assert "iprobe: --until was not met: the highest mean of handle was " in done.stderr, repr(done)


def test_flight_recorder(me, serving):
    """What came before the moment is there, and what came after it, of the function that is
    watched, too, which -f does not name.
    """
    directory = me.dir() / "t"
    session = begin(
        me,
        serving,
        "-o",
        directory,
        "--overwrite",
        "-f",
        "look_up,reply",
        "--until",
        "p99>10ms/200ms:handle",
        "--linger",
        "1s",
    )
    time.sleep(1)
    os.kill(serving.pid, signal.SIGUSR1)
    summary = end(session, serving)
    assert summary["until"] == 1 and summary["end"] == summary["until_met"], summary
    assert summary["duration_ns"] - summary["until_met_after_ns"] >= 1e9, summary
    assert "counted" not in summary and summary["events"] > 100, summary
    found = functions(me, directory)
    assert set(found) == {"handle", "look_up", "reply"}
    for name in ("handle", "look_up"):
        assert found[name]["min_ns"] < 8e6 and found[name]["max_ns"] > 16e6, found
    # ten slow calls at the least until it was seen; and for a second more of 20 ms each, if the
    # machine is not busy
    assert found["look_up"]["total_ns"] > 0.5e9, found


def test_flight_recorder_of_all(me, serving):
    directory = me.dir() / "t"
    session = start(me, serving, "-o", directory, "--overwrite", "--until", "calls>5/100ms:handle")
    summary = end(session, serving)
    assert summary["until"] == 1
    # a session that is younger than the time has judged no more than it has seen
    told = re.search(r" in the last ([0-9.]+) ms$", summary["until_met"])
    assert told and float(told[1]) * 1e6 <= summary["duration_ns"] + 1e6, summary
    assert {"handle", "look_up", "reply", "parse"} <= set(functions(me, directory))


def test_another_end_while_it_lingers(me, serving):
    session = begin(
        me,
        serving,
        "-o",
        me.dir() / "t",
        "--overwrite",
        "--until",
        "calls>5/100ms:handle",
        "--linger",
        "1h",
    )
    time.sleep(2)
    os.kill(serving.pid, signal.SIGKILL)
    out, err = session.communicate(timeout=WAIT)
    summary = json.loads(out)
    assert (session.returncode, summary["end"]) == (0, "target ended"), err
    assert summary["until"] == 1 and summary["until_met"].startswith("handle was called "), summary


def test_it_sleeps_while_it_lingers(me, serving):
    """A session for a rule, which writes no events, is calm by the time its condition is met."""
    session = begin(
        me,
        serving,
        *("-q", "--yield", "-o", me.dir() / "t"),
        *("--until", "p99>10ms/200ms:handle", "--linger", "3s"),
    )
    memory.wait_for(
        "the session is not calm",
        lambda: not Path(f"/proc/{session.pid}/task/{session.pid}/children").read_text(),
        WAIT,
    )
    before = cpu_seconds(session.pid)
    os.kill(serving.pid, signal.SIGUSR1)
    time.sleep(3)
    used = cpu_seconds(session.pid) - before
    out, err = session.communicate(timeout=WAIT)
    assert session.returncode == 0, err
    summary = json.loads(out.splitlines()[-1])  # the first one tells that it is live
    assert summary["duration_ns"] - summary["until_met_after_ns"] >= 3e9, summary
    assert used < 0.7


def test_is_added_to_a_recorder(me, serving):
    """Functions that a second attach adds are only recorded: conditions are as they were."""
    session = begin(
        me,
        serving,
        "-o",
        me.dir() / "t",
        "--overwrite",
        "-f",
        "reply",
        "--until",
        "p99>10ms/200ms:look_up",
    )
    done = me.iprobe("attach", "--json", "-f", "handle", serving.pid)
    assert done.returncode == 0, repr(done)
    shot = me.iprobe("snapshot", "-o", me.dir() / "s", serving.pid)
    assert shot.returncode == 0, repr(shot)
    os.kill(serving.pid, signal.SIGUSR1)
    assert end(session, serving)["until"] == 1


@pytest.mark.parametrize(
    "options, message",
    [
        (("--linger", "1s"), "needs --until"),
        (("--linger", "x", "--until", "p99>1ms:f"), "'x'"),
        (
            ("--overwrite", "--until", "p99>1ms:f", "--payload", "count:g"),
            "--overwrite does not go with",
        ),
        (
            (
                "--overwrite",
                "--payload",
                "hist:g",
                *("--until", "max>1ms:f", "--until", "p99>1s:f"),
            ),
            "--overwrite does not go with",
        ),
        (("--until", "p98>1ms:f"), "there are p50"),
    ],
)
def test_usage(me, options, message):
    done = me.iprobe("attach", *options, "1")
    assert done.returncode == 2 and message in done.stderr, repr(done)

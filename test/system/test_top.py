# SPDX-License-Identifier: Apache-2.0
"""
iprobe top: its figures against a program whose functions have known durations and that counts
its calls; the sessions that it begins and joins; every way in which it may end.
"""

import json
import os
import pathlib
import signal
import time

import pytest

from iptest import memory
from iptest.actor import last_words, one_line

MS = 1000000


@pytest.fixture
def busy(programs, targets):
    def start(actor, placement="fentry"):
        return targets.start(actor, [programs.simple("busy", placement=placement)])

    return start


@pytest.fixture
def place(actor):
    """Where top makes its directory: nothing may be left in it."""
    path = actor.dir()
    yield {"TMPDIR": str(path)}
    memory.wait_for("a directory of iprobe top is left", lambda: not list(path.iterdir()))


def finish(target):
    """Ends the program; what it says that it has called."""
    words = target.finish().stdout.split()
    return {name: int(n) for name, n in zip(words[::2], words[1::2])}


def of(lines, name):
    """The figures of a function in each object, where it was called."""
    return [f for line in lines for f in line["functions"] if f["function"] == name]


def sum_of(rows, key):
    return sum(row[key] for row in rows)


def check_line(line):
    assert line["interval_ns"] > 0 and line["joined"] is False
    for f in line["functions"]:
        assert f["calls"] > 0 and f["all_calls"] >= f["calls"]
        assert abs(f["rate"] * line["interval_ns"] / 1e9 - f["calls"]) < 1e-3 * f["calls"]
        # figures are read while calls end: one call may be in one sum already, and in the other by
        # the next line
        assert f["self_ns"] <= f["total_ns"] + f["max_ns"]
        for key in ("p50_bounds_ns", "p99_bounds_ns"):
            assert f[key][0] <= f[key][1] <= f["max_ns"]
        assert f["p50_bounds_ns"][0] <= f["p99_bounds_ns"][0]


def test_figures(actor, busy, place):
    """What is known of the program is on the right side of each bound, however loaded the
    machine is.
    """
    target = busy(actor)
    top = actor.start_iprobe(
        "top", "--json", "-d", "200ms", "-n", "5", "-f", "outer,inner,tiny", target.pid, env=place
    )
    memory.wait_until_live(target.pid, top)
    target.say()
    done = last_words(top)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    assert "every byte is back" in done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["iteration"] for line in lines] == [1, 2, 3, 4, 5]
    for line in lines:
        check_line(line)
        assert {f["function"] for f in line["functions"]} <= {"outer", "inner", "tiny"}
        own = [f["self_ns"] for f in line["functions"]]
        assert own == sorted(own, reverse=True)
    outer, inner, tiny = (of(lines, name) for name in ("outer", "inner", "tiny"))
    calls = sum_of(outer, "calls")
    # but for those that had not ended at the beginning, or at the end
    assert calls and abs(sum_of(inner, "calls") - 2 * calls) <= 2
    assert abs(sum_of(tiny, "calls") - 100 * calls) <= 100
    for f in inner:
        assert f["avg_ns"] >= MS and f["p50_bounds_ns"][0] >= 0.99 * MS
    for f in outer:
        assert (
            f["avg_ns"] >= 4 * MS
            and f["p99_bounds_ns"][1] >= 4 * MS
            and f["self_ns"] >= 2 * MS * f["calls"]
        )
    gap = sum_of(outer, "self_ns") - (sum_of(outer, "total_ns") - sum_of(inner, "total_ns"))
    assert abs(gap) <= 2 * max(f["max_ns"] for f in inner) + len(lines) * 4
    assert sum_of(inner, "self_ns") == sum_of(inner, "total_ns")
    finish(target)


def test_until_the_process_ends(actor, busy, place):
    """The last object has every call."""
    target = busy(actor)
    top = actor.start_iprobe("top", "--json", "-d", "100ms", target.pid, env=place)
    memory.wait_until_live(target.pid, top)
    target.say()
    assert json.loads(top.stdout.readline())["pid"] == target.pid
    calls = finish(target)
    done = last_words(top)
    assert done.returncode == 0, repr(done)
    last = {}
    for line in done.stdout.splitlines():
        last.update({f["function"]: f["all_calls"] for f in json.loads(line)["functions"]})
    assert last["inner"] == calls["inner"] and last["tiny"] == calls["tiny"]


def test_batch(me, busy):
    """Where stdout is no terminal; sorted as asked for; as many rows as asked for."""
    target = busy(me)
    target.say()
    done = me.iprobe("top", "-d", "200ms", "-n", "2", "-s", "rate", "--limit", "2", target.pid)
    assert done.returncode == 0, repr(done)
    first, second = done.stdout.split("\n\n")
    for picture in (first, second):
        lines = picture.splitlines()
        assert (
            len(lines) == 5
            and lines[4] == "4 more functions (--limit)"
            and "calls/s of" in lines[0]
            and "*RATE/s" in lines[1]
            and "P99" in lines[1]
        ), picture
        assert lines[2].endswith("  tiny") and lines[3].endswith("  inner"), picture
    # a second later it is another program's terminal: nothing of control sequences
    assert "\x1b" not in done.stdout
    done = me.iprobe("top", "--duration", "300ms", "-d", "10s", "-f", "inner", target.pid)
    assert done.returncode == 0 and done.stdout.count("inner") == 1, repr(done)
    finish(target)


def test_signals_end_it(actor, busy, place):
    target = busy(actor)
    target.say()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        top = actor.start_iprobe("top", "-b", "-d", "100ms", target.pid, env=place)
        memory.wait_until_live(target.pid, top)
        top.send_signal(number)
        done = last_words(top)
        assert done.returncode == 0, repr(done)
        memory.assert_untouched(target.pid)
    finish(target)


def session_of(top):
    """The process that has the session, once it is live."""
    children = (
        pathlib.Path(f"/proc/{top.pid}/task/{top.pid}/children").read_text(encoding="ascii").split()
    )
    keeper, session = map(int, children)
    return session


def test_killed_when_its_session_has_ended(actor, busy):
    """Whoever ends last: the recording's directory goes."""
    target = busy(actor)
    target.say()
    place = actor.dir()
    top = actor.start_iprobe(
        "top", "-b", "-d", "100ms", "--duration", "1s", target.pid, env={"TMPDIR": str(place)}
    )
    memory.wait_until_live(target.pid, top)
    session = session_of(top)
    os.kill(top.pid, signal.SIGSTOP)
    memory.wait_for("the session goes on", lambda: memory.status_field(session, "State")[0] == "Z")
    assert len(list(place.iterdir())) == 1
    top.kill()
    top.wait()
    memory.wait_for("the directory is left", lambda: not list(place.iterdir()))
    memory.assert_untouched(target.pid)
    finish(target)


def test_killed(actor, busy, place):
    """Its session notices, and puts every byte back by itself."""
    target = busy(actor)
    target.say()
    for wait in (0, 0.01, 0.05, None):
        if wait is None:  # not a session that is about to end
            memory.wait_for("sites are live", lambda: not memory.text_differences(target.pid))
            memory.wait_for(
                "the session lives",
                lambda: "has no session" in actor.iprobe("hist", target.pid).stderr,
            )
        top = actor.start_iprobe("top", "-b", "-d", "100ms", target.pid, env=place)
        if wait is None:
            memory.wait_until_live(target.pid, top)
        else:
            time.sleep(wait)
        top.kill()
        top.wait()
    # the session may be about to begin just now; detach waits for nobody
    memory.wait_for("sites are live", lambda: not memory.text_differences(target.pid))
    done = actor.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    memory.wait_for(
        "the session goes on",
        lambda: actor.iprobe(
            "top", "--json", "-n", "1", "-d", "50ms", target.pid, env=place
        ).returncode
        == 0,
    )
    memory.assert_untouched(target.pid)
    finish(target)


def test_killed_with_its_session(actor, busy):
    """Nobody is left who could put anything back: iprobe detach does."""
    target = busy(actor)
    target.say()
    top = actor.start_iprobe(
        "top", "-b", "-d", "100ms", target.pid, env={"TMPDIR": str(actor.dir())}
    )
    memory.wait_until_live(target.pid, top)
    session = session_of(top)
    os.kill(session, signal.SIGKILL)
    top.kill()
    top.wait()
    assert memory.text_differences(target.pid)
    done = actor.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    finish(target)


def test_its_session_is_killed(actor, busy, place):
    target = busy(actor)
    target.say()
    top = actor.start_iprobe("top", "-b", "-d", "100ms", "--duration", "1m", target.pid, env=place)
    memory.wait_until_live(target.pid, top)
    os.kill(session_of(top), signal.SIGKILL)
    done = last_words(top)
    assert f"iprobe detach {target.pid} puts every byte back" in one_line(done)
    assert actor.iprobe("detach", target.pid).returncode == 0
    memory.assert_untouched(target.pid)
    finish(target)


def test_joins_a_session(actor, busy, place):
    """Shows what it measures, and leaves it as it is."""
    target = busy(actor)
    session = actor.start_iprobe(
        "attach",
        target.pid,
        "--json",
        "--payload",
        "hist:inner",
        "--payload",
        "log:outer",
        "-o",
        actor.dir() / "trace",
    )
    memory.wait_until_live(target.pid, session)
    target.say()
    done = actor.iprobe("top", "--json", "-d", "100ms", "-n", "2", target.pid, env=place)
    assert done.returncode == 0 and done.stderr == "", repr(done)
    for line in map(json.loads, done.stdout.splitlines()):
        assert line["joined"] is True and line["measured"] == 1 and line["logged"] == 1
        assert [f["function"] for f in line["functions"]] == ["inner"]
    assert session.poll() is None and memory.text_differences(target.pid)
    # its end is no error
    top = actor.start_iprobe("top", "--json", "-d", "50ms", target.pid, env=place)
    assert json.loads(top.stdout.readline())["joined"] is True
    session.send_signal(signal.SIGINT)
    assert last_words(session).returncode == 0
    assert last_words(top).returncode == 0
    memory.assert_untouched(target.pid)
    finish(target)


def test_refusals(actor, busy, place):
    target = busy(actor)
    session = actor.start_iprobe("attach", target.pid, "--json", "-o", actor.dir() / "trace")
    memory.wait_until_live(target.pid, session)
    assert "keeps no histograms" in one_line(actor.iprobe("top", target.pid, env=place))
    session.send_signal(signal.SIGINT)
    assert last_words(session).returncode == 0
    assert "inner" in one_line(actor.iprobe("top", "-f", "iner", target.pid, env=place))
    assert "no such process" in one_line(actor.iprobe("top", 2**22 + 1, env=place))
    memory.assert_untouched(target.pid)


def test_nobody_reads(me, busy):
    """iprobe top | head: the session ends properly."""
    target = busy(me)
    target.say()
    top = me.start_iprobe("top", "--json", "-d", "50ms", target.pid)
    top.stdout.readline()
    top.stdout.close()
    memory.wait_for("it goes on", lambda: top.poll() is not None, timeout=60)
    memory.assert_untouched(target.pid)
    finish(target)


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["x"],
        ["1", "two"],
        ["-s", "size", "1"],
        ["-d", "0", "1"],
        ["-n", "0", "1"],
        ["--limit", "x", "1"],
        ["--duration", "0", "1"],
        ["-f", "", "1"],
        ["--bogus", "1"],
    ],
    ids=" ".join,
)
def test_wrong_usage(me, args):
    assert me.iprobe("top", *args).returncode == 2

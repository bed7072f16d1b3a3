# SPDX-License-Identifier: Apache-2.0
"""iprobe top of a process that waits: functions that only wait do not hide those that work."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from iptest import memory
from iptest.actor import last_words
from iptest.terminal import Terminal

FUNCTIONS = "handle,look_up,parse,reply"
HOG = [sys.executable, "-c", "while True: pass"]


@pytest.fixture
def waiting(targets, me, programs):
    """Its look_up sleeps for 20 ms in each call, and all that it calls takes next to nothing."""
    target = targets.start(me, [programs.simple("serving", placement="fentry")], preload=False)
    os.kill(target.pid, signal.SIGUSR1)
    return target


def start(me, target, *options):
    return me.start_iprobe("top", "-d", "300ms", *options, target.pid)


def lines_until(top, condition):
    """The objects up to the first for which the condition holds."""
    for line in top.stdout:
        found = {f["function"]: f for f in json.loads(line)["functions"]}
        if condition(found):
            return json.loads(line)
    raise AssertionError(last_words(top))


def test_what_sleeps_is_marked(me, waiting):
    """In JSON rows stand by time, as ever."""
    top = start(me, waiting, "--json", "-f", FUNCTIONS)
    line = lines_until(top, lambda found: found.get("look_up", {}).get("waits"))
    top.send_signal(signal.SIGINT)
    assert last_words(top).returncode == 0
    assert line["cpu_ns"] < line["interval_ns"] / 2
    assert line["functions"][0]["function"] == "look_up"
    assert [f["function"] for f in line["functions"] if f["waits"]] == ["look_up"]
    memory.assert_untouched(waiting.pid)


def pictures(me, target, *options):
    """The names below each other in the last of some pictures, and its first line."""
    done = last_words(start(me, target, "-n", "4", "-f", FUNCTIONS, *options))
    assert done.returncode == 0, repr(done)
    sums, _, *rows = done.stdout.split("\n\n")[-1].splitlines()
    return sums, [row.split("  ")[-1] for row in rows]


def test_where_it_stands(me, waiting):
    sums, names = pictures(me, waiting)
    assert names[-1] == "look_up [waits]" and len(names) == 4
    assert "% CPU" in sums and "of 4 of 4 functions" in sums
    # the first picture tells it, too
    _, names = pictures(me, waiting, "-n", "1")
    assert names[-1] == "look_up [waits]"
    # where it has no row, a line tells of it
    sums, names = pictures(me, waiting, "--limit", "2")
    assert re.search(r"% self \(\d+\.\d% work, \d+\.\d% wait\)", sums), sums
    assert len(names) == 3, names
    done = last_words(start(me, waiting, "-n", "2", "-f", FUNCTIONS, "--limit", "2"))
    assert re.search(
        r"^2 more functions \(--limit\); 1 that waits: look_up \d+\.\d% self \(--waits among\)$",
        done.stdout,
        re.M,
    ), done.stdout
    line = json.loads(
        last_words(start(me, waiting, "-n", "1", "-f", FUNCTIONS, "--limit", "2", "--json")).stdout
    )
    assert line["more"] == 2 and 0 < line["waits_ns"] <= 2 * line["interval_ns"]
    sums, names = pictures(me, waiting, "--waits", "among")
    assert names[0] == "look_up [waits]"
    # another order is what it says
    _, names = pictures(me, waiting, "-s", "p99", "--waits", "below")
    assert {"handle", "look_up [waits]"} == set(names[:2])
    sums, names = pictures(me, waiting, "--waits", "hide", "-s", "total")
    assert names[0] == "handle" and "look_up" not in " ".join(names)
    assert sums.endswith("; hidden: 1 that waits")
    # what goes on for ever into a file says so; what somebody has limited does not
    endless = start(me, waiting, "-f", FUNCTIONS)
    assert "iprobe: top goes on until Ctrl-C" in endless.stderr.readline()
    endless.send_signal(signal.SIGINT)
    last_words(endless)
    limited = last_words(start(me, waiting, "-n", "1", "-f", FUNCTIONS))
    assert "goes on" not in limited.stderr and limited.returncode == 0
    done = me.iprobe("top", "--waits", "somewhere", waiting.pid)
    assert done.returncode == 2 and "--waits is below, hide or among" in done.stderr


def test_the_key(me, waiting):
    t = Terminal(me, "top", "-d", "200ms", "-f", FUNCTIONS, waiting.pid)
    try:
        names = lambda: [row.split("  ")[-1].strip() for row in t.rows[4:-1] if row.strip()]
        t.wait("not below", lambda _: names()[-1:] == ["look_up [waits]"])
        t.press("w")
        t.wait_text("functions that wait: hidden")
        t.wait("not hidden", lambda _: len(names()) == 3)
        t.press("w")
        t.wait_text("functions that wait: among the others")
        t.wait("not among them", lambda _: names()[:1] == ["look_up [waits]"])
        t.press("w")
        t.wait_text("functions that wait: below the others")
        t.press("q")
        assert t.wait_end()[0] == 0
    finally:
        t.close()


def test_what_waits_for_a_cpu_works(me, targets, programs):
    """outer computes all the time. Where others take most of the CPU from it, it is not marked."""
    target = targets.start(me, [programs.simple("busy", placement="fentry")])
    cpu = min(os.sched_getaffinity(0))
    hogs = [subprocess.Popen(HOG) for _ in range(3)]
    try:
        for pid in (target.pid, *(hog.pid for hog in hogs)):
            os.sched_setaffinity(pid, [cpu])
        top = me.start_iprobe("top", "--json", "-d", "500ms", "-n", "5", "-f", "outer", target.pid)
        memory.wait_until_live(target.pid, top)
        target.say()
        done = last_words(top)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert done.returncode == 0, repr(done)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    seen = [f for line in lines for f in line["functions"]]
    # it had less than half of a CPU, and without what it waited for would have been marked
    assert sum(line["cpu_ns"] for line in lines) < 0.5 * sum(f["self_ns"] for f in seen)
    assert seen and not any(f["waits"] for f in seen), seen

# SPDX-License-Identifier: Apache-2.0
"""Rules that wait: what their sessions take, and that they wake up in time."""

import os
import signal
import time
from pathlib import Path

import pytest

from iptest import memory, time_scale
from iptest.rules import (  # noqa: F401
    WAIT,
    Rules,
    pytestmark,
    rule,
    rules,
    wait_until_idle,
    wait_until_live,
)

WATCH = "{latency: {functions: handle, p99: '> 10ms', over: 1s}}"


@pytest.fixture
def program(programs):
    return programs.simple("on_demand", placement="fentry", extra=("-pthread",))


@pytest.fixture
def waiting(targets, me, program):
    return targets.start(me, [program], preload=False)


def session_of(rules):
    """The iprobe that watches."""
    path = Path(f"/proc/{rules.rules_pid()}/task/{rules.rules_pid()}/children")
    return int(path.read_text().split()[0])


def status(pid, key):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    raise AssertionError(key)


def children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def wait_until_calm(pid):
    """Its guard has ended, which it does then."""
    memory.wait_for("the session is not calm", lambda: not children(pid), WAIT)


def area_of(pid):
    """Bytes of memory of the area of a process."""
    for link in Path(f"/proc/{pid}/map_files").iterdir():
        if "/memfd:iprobe" in os.readlink(link):
            return os.stat(link).st_blocks * 512
    raise AssertionError("no area")


def tell(target, line):
    target.say(line)
    assert target.proc.stdout.readline() == "done\n"


def test_it_sleeps_and_wakes_up(rules, waiting):
    """A session that waits wakes up less than once in a period of its rule; when the function is
    called again after that, it judges it as ever.
    """
    watch = WATCH.replace("1s", "500ms")
    rules.start(rule(watch, do="{hist: handle}", more="for: 100ms\n    at_most: 1 per 1h"))
    wait_until_live(waiting.pid)
    pid = session_of(rules)
    wait_until_calm(pid)
    time.sleep(3)  # then its looks are rarer
    before = status(pid, "voluntary_ctxt_switches")
    time.sleep(3)
    assert session_of(rules) == pid
    assert status(pid, "voluntary_ctxt_switches") - before <= 4
    if os.geteuid() == 0:
        assert area_of(waiting.pid) < 800 << 10
    tell(waiting, "call 20 15")
    assert "p99 of handle was " in rules.wait_log("fires: ")
    wait_until_idle(waiting.pid)


@pytest.mark.parametrize("how", ["detach", "attach", "reload", "end"])
def test_it_makes_way_at_once(rules, waiting, me, how):
    """However long it would sleep, who asks waits for no more than a moment."""
    rules.start(rule(WATCH.replace("1s", "60s")))
    wait_until_live(waiting.pid)
    wait_until_calm(session_of(rules))
    pid, began = session_of(rules), time.monotonic()
    if how == "detach":
        done = me.iprobe("detach", waiting.pid)
        assert done.returncode == 0 and "still writing" not in done.stderr, repr(done)
    elif how == "attach":
        done = me.iprobe(
            *("attach", "-q", "-f", "handle", "--duration", "10ms"),
            *("-o", me.dir() / "t", waiting.pid),
        )
        assert done.returncode == 0, repr(done)
    elif how == "reload":
        rules.daemon.proc.send_signal(signal.SIGHUP)
    else:
        os.kill(pid, signal.SIGTERM)
    memory.wait_for(
        "the session goes on", lambda: not os.path.exists(f"/proc/{pid}"), WAIT, step=0.01
    )
    assert time.monotonic() - began < time_scale.scaled(2)


def test_threads_that_come(rules, waiting, root):
    """A watch has memory for the threads that there were, and for more of them. Of a process that
    comes to have many it begins anew: each of them is measured.
    """
    rules.start(
        rule("{latency: {functions: handle, calls: '> 20', over: 1s}}", do="{hist: handle}")
    )
    wait_until_live(waiting.pid)
    first = session_of(rules)
    wait_until_calm(first)
    tell(waiting, "threads 20")
    memory.wait_for(
        "it does not begin anew", lambda: not os.path.exists(f"/proc/{first}"), WAIT, step=0.01
    )
    wait_until_live(waiting.pid)
    time.sleep(time_scale.scaled(1))
    assert "fires: " not in rules.log()
    # no more than twice as many as before: it goes on, and all 41 have their blocks
    tell(waiting, "threads 21")
    assert "handle was called " in rules.wait_log("fires: ")

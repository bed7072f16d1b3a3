# SPDX-License-Identifier: Apache-2.0
"""
A recording without events says why, at its end and in each view of the trace: one line for each
reason, and only what is proved.
"""

import json
import os
import signal

import pytest

from iptest import actor as actors
from iptest import memory

# what busy() of waits.c does not call, and what it calls all the time
IDLE, BUSY = "judge", "next"


@pytest.fixture
def busy(me, programs, targets):
    target = targets.start(me, [programs.simple("waits"), "busy"])
    yield target
    os.kill(target.pid, signal.SIGALRM)
    actors.last_words(target.proc)


def attach(actor, pid, *options, duration="100ms"):
    out = actor.dir() / "trace"
    done = actor.iprobe("attach", pid, "--duration", duration, "-o", out, *options)
    assert done.returncode == 0, repr(done)
    return done, out


def reasons(actor, pid, *options, expected=None):
    """What the recording says, once the words are those that are expected: where others keep the
    CPUs busy, a process may get none for a while, and it takes one that sleeps a while to sleep
    again behind a stop.
    """
    for duration in ("100ms", "300ms", "1s", "3s"):
        said = said_by_all(actor, pid, *options, duration=duration)
        if expected is None or list(said) == expected:
            break
    return said


def said_by_all(actor, pid, *options, **kw):
    """What the JSON of the recording, of report and of info say; it is the same, and on stderr."""
    done, out = attach(actor, pid, "--json", *options, **kw)
    said = done.summary().get("no_events", [])
    for command in ("report", "info"):
        shown = actor.iprobe(command, "--json", out)
        assert json.loads(shown.stdout).get("no_events", []) == said
        for reason in said:
            assert f"iprobe: no events: {reason['text']}\n" in shown.stderr, repr(shown)
    return {reason["why"]: reason["text"] for reason in said}


def test_it_slept(me, programs, targets):
    target = targets.start(me, [programs.simple("waits"), "read"])
    memory.wait_for("does not wait", lambda: "S" in memory.status_field(target.pid, "State"))
    said = reasons(me, target.pid, expected=["slept"])
    assert list(said) == ["slept"] and said["slept"].startswith("the process slept: from "), said
    done, _ = attach(me, target.pid, duration="200ms")
    assert done.stderr.count("iprobe: no events: ") == 1, repr(done)
    target.proc.stdin.write("x")
    assert actors.last_words(target.proc).stdout == "good\n"


def test_it_is_stopped(me, programs, targets):
    target = targets.start(me, [programs.simple("waits"), "busy"])
    os.kill(target.pid, signal.SIGSTOP)
    memory.wait_for("does not stop", lambda: "T" in memory.status_field(target.pid, "State"))
    said = reasons(me, target.pid, expected=["stopped"])
    assert list(said) == ["stopped"] and f"kill -CONT {target.pid}" in said["stopped"], said
    assert "T" in memory.status_field(target.pid, "State")
    os.kill(target.pid, signal.SIGCONT)
    os.kill(target.pid, signal.SIGALRM)
    assert actors.last_words(target.proc).stdout == "good\n"


def test_nothing_was_called(me, busy):
    said = reasons(me, busy.pid, "-f", IDLE, expected=["not_called"])
    assert list(said) == ["not_called"]
    assert said["not_called"].startswith("the function was not called; the process used "), said


def test_events_need_no_reason(me, busy):
    assert reasons(me, busy.pid, "-f", BUSY, expected=[]) == {}
    # calls are counted, and there are no events on purpose
    assert reasons(me, busy.pid, "--payload", "count", "-f", BUSY, expected=[]) == {}


def test_filters(me, busy):
    said = reasons(me, busy.pid, "-f", BUSY, "--min-duration", "1m", expected=["filtered"])
    assert list(said) == ["filtered"]
    assert said["filtered"].endswith(" events that happened (min-duration 1m)"), said
    said = reasons(me, busy.pid, "-f", BUSY, "--thread", "nobody", expected=["filtered"])
    assert list(said) == ["filtered"]
    said = reasons(me, busy.pid, "-f", f"{BUSY},{IDLE}", "--start-on", IDLE)
    assert said == {
        "start_on": f"--start-on {IDLE}: that call did not come, and nothing is recorded before it"
    }
    # the filter has left nothing out
    said = reasons(me, busy.pid, "-f", IDLE, "--min-duration", "1m", expected=["not_called"])
    assert list(said) == ["not_called"]


def test_children(me, programs, targets):
    """The children of its program count, at any depth; others do not."""
    target = targets.start(me, [programs.simple("blocked"), "poll"])
    said = reasons(me, target.pid)
    assert said["children"] == "its child process runs the same program: add --children"
    target.say("go on")
    assert actors.last_words(target.proc).stdout == "good\n"
    shell = targets.start(
        me, ["sh", "-c", f"echo ready; {programs.simple('waits')} read"], preload=True
    )
    children = f"/proc/{shell.pid}/task/{shell.pid}/children"
    memory.wait_for("no child", lambda: open(children, encoding="ascii").read().split())
    child = int(open(children, encoding="ascii").read())
    memory.wait_for("does not wait", lambda: memory.status_field(child, "State")[0] == "S")
    assert "children" not in reasons(me, child)
    shell.proc.stdin.write("x")
    actors.last_words(shell.proc)


def test_inlined_functions(me, programs, targets):
    """A function is called all the time, where its code has no probe."""
    target = targets.start(me, [programs.simple("inlined", placement="fentry")])
    both = ["not_called", "inlined"]
    said = reasons(me, target.pid, "-f", "helper", expected=both)
    assert list(said) == both, said
    assert said["inlined"].startswith("the compiler has inlined helper into callers as well")
    said = reasons(me, target.pid, "-f", "helper,never_called", expected=both)
    assert "has inlined 1 of the functions into callers as well (helper)" in said["inlined"]
    said = reasons(me, target.pid, "-f", "never_called", expected=["not_called"])
    assert list(said) == ["not_called"]
    target.finish()
    # placement inline sees these calls
    target = targets.start(me, [programs.simple("inlined", placement="inline")])
    assert reasons(me, target.pid, "-f", "helper", "--payload", "count", expected=[]) == {}
    target.finish()


def test_no_cpu_is_no_sleep(root, programs, targets):
    """A process that would run, and gets no CPU, does not sleep: it has the lowest priority there
    is beside others that never rest.
    """
    cpu = min(os.sched_getaffinity(0))
    hog = targets.start(root, [programs.simple("waits"), "busy"])
    target = targets.start(root, [programs.simple("waits"), "busy"])
    for task in os.listdir(f"/proc/{hog.pid}/task"):
        os.sched_setaffinity(int(task), {cpu})
        os.sched_setscheduler(int(task), os.SCHED_FIFO, os.sched_param(1))
    os.sched_setaffinity(target.pid, {cpu})
    said = reasons(root, target.pid, "-f", IDLE, expected=["no_cpu"])
    for process in (hog, target):
        os.sched_setscheduler(process.pid, os.SCHED_OTHER, os.sched_param(0))
        os.kill(process.pid, signal.SIGALRM)
        actors.last_words(process.proc)
    assert list(said) in (["no_cpu"], ["not_called"]), said  # some machines give it a share
    assert "slept" not in said

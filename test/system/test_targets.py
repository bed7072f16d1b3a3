# SPDX-License-Identifier: Apache-2.0
"""Targets in unusual states: they fork, exec, wait where nothing can stop them, have lost their
first thread, live in namespaces. Each is worked on, or refused in one line, and is as it was
afterwards.
"""

import os
import re
import shutil
import signal
import time

import pytest

from iptest import memory
from iptest.actor import end, last_words, one_line
from iptest.target import BEATS


@pytest.fixture
def steady(actor, programs, targets):
    return targets.steady(actor, programs.simple("steady"))


def attach_some(actor, pid, *options, **kw):
    return actor.iprobe(
        "attach",
        pid,
        "-f",
        "step_1*,by_*",
        "--duration",
        "50ms",
        "--json",
        "-o",
        actor.dir() / "trace",
        *options,
        **kw,
    )


def begin_session(actor, pid, selection="step_1*,by_*"):
    return actor.start_iprobe("attach", pid, "-f", selection, "--json", "-o", actor.dir() / "trace")


def start_session(actor, target):
    session = begin_session(actor, target.pid)
    memory.wait_until_live(target.pid, session)
    return session


def attach_for_a_round(actor, target, pid, seen_by=None, **kw):
    """A session that may be refused; else it lasts until each thread of the target has done one
    more round, since on a busy machine a process may get no CPU for longer than a session of a
    fixed length lasts. seen_by: the thread by which the memory can be read. Its Result.
    """
    session = begin_session(actor, pid, **kw)
    memory.wait_for(
        "neither live nor refused",
        lambda: session.poll() is not None or memory.live_text(seen_by or pid),
    )
    if session.poll() is None:
        target.wait_for_progress()
        session.send_signal(signal.SIGINT)
    done = last_words(session)
    if done.returncode == 0:
        assert done.summary()["events"] > 0, repr(done)
    return done


def works_as_ever(actor, target):
    """An ordinary session, to the end."""
    done = attach_for_a_round(actor, target, target.pid)
    assert done.returncode == 0, repr(done)
    target.wait_for_progress()
    memory.assert_untouched(target.pid)


def test_fork_during_a_session(actor, steady):
    """The child has live sites at first, records nothing, computes right, and is put back while
    the session goes on.
    """
    session = start_session(actor, steady)
    steady.say("f")
    child = int(re.fullmatch(r"child (\d+)\n", steady.proc.stdout.readline()).group(1))
    steady.beating = [*steady.beating, BEATS - 2]
    steady.wait_for_progress()
    memory.wait_for("the child keeps its live sites", lambda: memory.text_differences(child) == [])
    assert memory.text_differences(steady.pid) != [], "the case is not what it is meant to be"
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(steady.pid)
    steady.wait_for_progress()
    cleaned = actor.iprobe("detach", child)
    assert cleaned.returncode == 0, repr(cleaned)
    memory.assert_untouched(child)
    steady.wait_for_progress()
    works_as_ever(actor, steady)
    steady.finish()


def test_attach_to_a_forked_child(actor, steady):
    """A child that shares its runtime's memory with its parent: it can be attached to as any
    process, or is refused.
    """
    steady.say("f")
    child = int(re.fullmatch(r"child (\d+)\n", steady.proc.stdout.readline()).group(1))
    steady.beating = [*steady.beating, BEATS - 2]
    done = attach_for_a_round(actor, steady, child)
    if done.returncode != 0:
        one_line(done)
    steady.wait_for_progress()
    memory.assert_untouched(child)
    works_as_ever(actor, steady)
    steady.finish()


def test_exec_during_a_session(actor, steady):
    """The program that was attached to is gone: the session ends by itself or by Ctrl-C, the new
    one is untouched.
    """
    session = start_session(actor, steady)
    steady.wait_for_progress()
    steady.say("e")
    assert steady.proc.stdout.readline() == "ready\n"
    steady.wait_for_progress()
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    assert done.summary()["events"] > 0
    memory.assert_untouched(steady.pid)
    works_as_ever(actor, steady)
    steady.finish()


def test_a_thread_that_nothing_can_stop(actor, steady):
    """A thread in vfork() does not stop: refused within the deadline, nothing changed; later it
    works.
    """
    steady.say("v")
    assert steady.proc.stdout.readline() == "waiting\n"
    began = time.monotonic()
    done = attach_some(actor, steady.pid, "--max-stop", "20ms")
    took = time.monotonic() - began
    if done.returncode != 0:
        assert str(steady.pid) in one_line(done)
        assert took < 10
    assert memory.text_differences(steady.pid) == []
    steady.wait_for_progress()
    time.sleep(max(0, 2.5 - took))
    works_as_ever(actor, steady)
    steady.finish()


def test_a_deadline_that_nobody_can_keep(actor, steady):
    """--max-stop is kept: done within it, or given up with nothing changed."""
    done = attach_some(actor, steady.pid, "--max-stop", "1us")
    if done.returncode != 0:
        one_line(done)
    steady.wait_for_progress()
    memory.assert_untouched(steady.pid)
    works_as_ever(actor, steady)
    steady.finish()


def test_the_first_thread_has_ended(actor, steady):
    """A zombie leader: /proc/PID/mem and maps are empty there, the other threads go on."""
    tid = next(int(t) for t in os.listdir(f"/proc/{steady.pid}/task") if int(t) != steady.pid)
    steady.say("z")
    memory.wait_for("no zombie", lambda: memory.status_field(steady.pid, "State").startswith("Z"))
    assert memory.text_differences(tid) == []
    done = attach_for_a_round(actor, steady, steady.pid, tid)
    if done.returncode != 0:
        assert str(steady.pid) in one_line(done)
    steady.wait_for_progress()
    assert memory.text_differences(tid) == []
    assert memory.status_field(steady.pid, "TracerPid", tid) == "0"


@pytest.mark.parametrize(
    "spaces",
    [["--mount"], ["--pid", "--fork", "--mount-proc"], ["--mount", "--uts", "--ipc", "--net"]],
    ids=["mount", "pid", "several"],
)
def test_target_in_namespaces(root, programs, targets, spaces):
    """A program that is seen under another path, or has another pid there than here."""
    where = root.dir()
    (where / "real").mkdir()
    (where / "view").mkdir()
    shutil.copy(programs.simple("steady"), where / "real")
    beats = root.dir() / "beats"
    script = (
        f'mount --bind {where}/real {where}/view && exec env LD_PRELOAD={root.runtime_path} "$@"'
    )
    target = targets.start(
        root,
        ["unshare", *spaces, "sh", "-c", script, "sh", where / "view" / "steady", "-b", beats],
        preload=False,
        wait=False,
        beats=beats,
    )
    line = target.proc.stdout.readline()
    if line != "ready\n":
        pytest.skip(f"no namespaces here: {target.proc.stderr.read().strip()}")
    if "--fork" in spaces:
        with open(f"/proc/{target.pid}/task/{target.pid}/children", encoding="ascii") as f:
            target.pid = int(f.read().split()[0])
    assert not (where / "view" / "steady").exists()
    target.beating = range(8)
    target.wait_for_progress()
    works_as_ever(root, target)
    target.finish()


def test_a_target_that_ends_at_once(actor, programs, targets):
    """It ends while we are about to attach, again and again: a session or one line, never a
    hang.
    """
    for n in range(10):
        target = targets.start(actor, [programs.simple("count"), "-w", "-n", "1000"])
        session = actor.start_iprobe("attach", target.pid, "-o", actor.dir() / "trace")
        time.sleep(n * 0.002)
        end(target.proc)
        done = last_words(session)
        assert done.returncode in (0, 1), repr(done)
        if done.returncode == 1:
            one_line(done)


def test_one_selection_after_the_other(me, programs, targets):
    """Selections are added and taken away by sessions one after the other while threads are
    created.
    """
    target = targets.steady(me, programs.simple("steady"), "-c")
    for selection in ("*", "step_*", "by_*,!by_stack", "file:steady.c", "lib:steady", "!step_*"):
        done = attach_for_a_round(me, target, target.pid, selection=selection)
        assert done.returncode == 0, repr(done)
        memory.assert_untouched(target.pid)
    target.wait_for_progress()
    target.finish()

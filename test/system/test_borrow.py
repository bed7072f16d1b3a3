# SPDX-License-Identifier: Apache-2.0
"""
Waking the runtime of a static program by one of its own threads: whatever that thread was doing
goes on as if nothing had happened, also where iprobe is killed at any of the steps.
"""

import json
import os
import re
import signal
import time

import pytest

from iptest import actor as actors
from iptest import memory

CALLS = ["read", "epoll", "thread", "nanosleep", "poll", "select", "futex", "wait", "pause", "busy"]


def start(targets, actor, programs, how, static="-static"):
    target = targets.start(actor, [programs.simple("waits", extra=[static]), how], preload=False)
    if how != "busy":
        # until it is in the call
        memory.wait_for("does not wait", lambda: "S" in memory.status_field(target.pid, "State"))
    return target


def finish(target, how):
    if how in ("read", "epoll", "thread"):
        target.proc.stdin.write("x")
        target.proc.stdin.flush()
    elif how == "busy":
        os.kill(target.pid, signal.SIGALRM)
    done = actors.last_words(target.proc)
    assert (done.returncode, done.stdout) == (0, "good\n"), repr(done)


def signals_blocked(pid):
    return {memory.status_field(pid, "SigBlk", tid) for tid in os.listdir(f"/proc/{pid}/task")}


def assert_free(target):
    memory.assert_untouched(target.pid)
    # a thread that was borrowed at the end puts its mask back when it has a CPU again
    memory.wait_for("signals stay blocked", lambda: signals_blocked(target.pid) == {"0" * 16})


@pytest.mark.parametrize("how", CALLS)
def test_the_thread_goes_on(me, programs, targets, how):
    target = start(
        targets, me, programs, how, "-static-pie" if how in ("poll", "busy") else "-static"
    )
    done = me.iprobe("attach", target.pid, "--duration", "50ms", "--json", "-o", me.dir() / "trace")
    assert done.returncode == 0, repr(done)
    assert len(done.stops()) == 3, "the hold of the thread, going live, going idle"
    if how in (
        "read",
        "epoll",
        "thread",
        "busy",
    ):  # the others may have ended by now, each by itself
        assert_free(target)
    finish(target, how)


def test_an_ordinary_user(user, programs, targets):
    target = start(targets, user, programs, "read")
    done = user.iprobe("attach", target.pid, "--duration", "50ms", "-o", user.dir() / "trace")
    assert done.returncode == 0, repr(done)
    assert_free(target)
    finish(target, "read")


def test_once_only(me, programs, targets):
    target = start(targets, me, programs, "read")
    for stops in (3, 2):
        done = me.iprobe(
            "attach", target.pid, "--duration", "20ms", "--json", "-o", me.dir() / "trace"
        )
        assert done.returncode == 0, repr(done)
        assert len(done.stops()) == stops
    finish(target, "read")


def test_nothing_but_attach_wakes_it(me, programs, targets):
    target = start(targets, me, programs, "read")
    before = [(m.start, m.end, m.perms) for m in memory.mappings(target.pid)]
    assert me.iprobe("attach", "--dry-run", target.pid).returncode == 0
    assert json.loads(me.iprobe("status", "--json", target.pid).stdout)["runtime"] is True
    assert me.iprobe("detach", target.pid).returncode == 0
    assert me.iprobe("list", target.pid).returncode == 0
    assert [(m.start, m.end, m.perms) for m in memory.mappings(target.pid)] == before
    finish(target, "read")


def test_a_stopped_process_is_refused(me, programs, targets):
    target = start(targets, me, programs, "read")
    os.kill(target.pid, signal.SIGSTOP)
    memory.wait_for("does not stop", lambda: memory.status_field(target.pid, "State")[0] == "T")
    actors.one_line(me.iprobe("attach", target.pid, "--duration", "20ms", "-o", me.dir() / "trace"))
    # let go it wakes, in the kernel, to stop again
    memory.wait_for("runs", lambda: memory.status_field(target.pid, "State")[0] == "T")
    os.kill(target.pid, signal.SIGCONT)
    finish(target, "read")


def test_seccomp(actor, programs, targets):
    """Its filter is suspended for the thread, which takes a privilege."""
    target = targets.start(
        actor, [programs.simple("waits", extra=["-static"]), "seccomp"], preload=False
    )
    memory.wait_for("no filter", lambda: memory.status_field(target.pid, "Seccomp") == "2")
    done = actor.iprobe("attach", target.pid, "--duration", "20ms", "-o", actor.dir() / "trace")
    if actor.is_root:
        assert done.returncode == 0, repr(done)
    else:
        assert "seccomp" in actors.one_line(done)
    finish(target, "seccomp")


def test_two_at_once(me, programs, targets):
    target = start(targets, me, programs, "read")
    both = [
        me.start_iprobe("attach", target.pid, "--duration", "100ms", "-o", me.dir() / "trace")
        for _ in range(2)
    ]
    codes = sorted(actors.last_words(proc).returncode for proc in both)
    assert codes in ([0, 0], [0, 1]), codes
    assert_free(target)
    finish(target, "read")


def requests(actor, target, directory):
    """How many ptrace requests the borrowing takes: up to the first DETACH."""
    log = directory / "strace"
    done = actor.run(
        [
            "strace",
            "-o",
            log,
            "--trace=ptrace",
            actor.iprobe_path,
            "attach",
            target.pid,
            "--duration",
            "20ms",
            "-o",
            directory / "trace",
        ]
    )
    assert done.returncode == 0, repr(done)
    calls = re.findall(r"^ptrace\((\w+)", log.read_text(errors="replace"), re.M)
    return calls.index("PTRACE_DETACH") + 1


def killed(actor, targets, programs, how, when, directory):
    """iprobe is killed at its `when`-th ptrace request; what follows works, and the thread goes
    on.
    """
    target = start(targets, actor, programs, how)
    done = actor.run(
        [
            "strace",
            "-o",
            directory / "strace",
            "--trace=ptrace",
            f"--inject=ptrace:signal=SIGKILL:when={when}",
            actor.iprobe_path,
            "attach",
            target.pid,
            "--duration",
            "20ms",
            "-o",
            directory / "trace",
        ]
    )
    assert done.returncode in (-9, 137), f"{when}: {done!r}"
    memory.wait_for(
        f"{when}: signals stay blocked", lambda: signals_blocked(target.pid) == {"0" * 16}
    )
    done = actor.iprobe("attach", target.pid, "--duration", "20ms", "-o", directory / "trace")
    if how == "nanosleep" and "has ended" in done.stderr:  # its second was over: a busy machine
        finish(target, how)
        return
    assert done.returncode == 0, f"{when}: {done!r}"
    assert_free(target)
    finish(target, how)


def test_killed_at_each_step(me, programs, targets):
    directory = me.dir()
    target = start(targets, me, programs, "read")
    last = requests(me, target, directory)
    finish(target, "read")
    for when in range(1, last + 1):
        killed(me, targets, programs, "read", when, directory)


@pytest.mark.parametrize("how, whens", [("busy", (8, 9, 10)), ("nanosleep", (8, 9, 10, 11))])
def test_killed_while_the_thread_is_away(me, programs, targets, how, whens):
    for when in whens:
        killed(me, targets, programs, how, when, me.dir())


def test_under_signals_and_threads(me, programs, targets):
    """A handler every millisecond, threads that come and go: each new process is woken once."""
    for _ in range(3):
        beats = me.dir() / "beats"
        target = targets.start(
            me,
            [programs.simple("steady", extra=["-static"]), "-b", beats, "-i", "-c"],
            preload=False,
            beats=beats,
        )
        target.wait_for_progress()
        done = me.iprobe("attach", target.pid, "--duration", "50ms", "-o", me.dir() / "trace")
        assert done.returncode == 0, repr(done)
        target.wait_for_progress()
        memory.assert_untouched(target.pid)
        time.sleep(0.01)
        target.finish()


@pytest.mark.parametrize("how", ["sigsuspend", "ppoll", "pselect", "epoll_pwait"])
@pytest.mark.parametrize("link", ["-static", "-no-pie"])
def test_masks_of_calls(me, programs, targets, how, link):
    """A call that waits under a mask of its own does so again when its thread is back, and puts
    the other one back as ever.
    """
    target = targets.start(me, [programs.simple("masks", extra=[link]), how], preload=False)
    during = f"{1 << (signal.SIGUSR2 - 1):016x}"
    memory.wait_for("does not wait", lambda: memory.status_field(target.pid, "SigBlk") == during)
    done = me.iprobe("attach", target.pid, "--duration", "20ms", "--json", "-o", me.dir() / "trace")
    assert done.returncode == 0 and len(done.summary()["stop_us"]) >= 3, repr(done)
    # asleep: one that has not had a CPU since the stop would take the signal before its call starts
    # again, as after any SIGCONT
    memory.wait_for(
        "waits under another mask",
        lambda: memory.status_field(target.pid, "SigBlk") == during
        and memory.status_field(target.pid, "State")[0] == "S",
    )
    os.kill(target.pid, signal.SIGUSR2)  # has to wait
    time.sleep(0.05)
    assert memory.status_field(target.pid, "ShdPnd") == during, "the mask of the call is lost"
    os.kill(target.pid, signal.SIGUSR1)
    done = actors.last_words(target.proc)
    assert (done.returncode, done.stdout) == (0, "-1 EINTR, 1 1, 1 0\n"), repr(done)


LIMITED = ["sigtimedwait", "epoll_wait_limit", "semtimedop", "io_getevents_limit"]
NAP = re.compile(r"^clock_nanosleep\(CLOCK_REALTIME, 0, \{tv_sec=0, tv_nsec=2000000\}", re.M)


def start_blocked(targets, actor, program, call):
    target = targets.start(actor, [program, call], preload=False)
    memory.wait_for("does not wait", lambda: "S" in memory.status_field(target.pid, "State"))
    return target


def is_good(target):
    target.say("go on")
    done = actors.last_words(target.proc)
    assert (done.returncode, done.stdout) == (0, "good\n"), repr(done)


def test_waiting_calls_are_borrowed_at_once(me, programs, targets):
    """A thread that waits is taken at the first look, in whatever call, and the call ends as it
    does without iprobe. A call whose limit begins anew is taken later than others, but long before
    one that would be disturbed. The tracer's naps tell, which a busy machine does not make more of.
    """
    program, directory = programs.simple("blocked"), me.dir()
    calls = me.run([program, "list"]).stdout.split()
    assert len(calls) >= 29 and set(LIMITED) < set(calls)
    wrong = {}
    for call in calls:
        target = start_blocked(targets, me, program, call)
        done = me.run(
            ["strace", "-o", directory / "strace", "--trace=ptrace,clock_nanosleep"]
            + [me.iprobe_path, "attach", target.pid, "--duration", "5ms"]
            + ["-q", "-o", directory / "trace"]
        )
        assert done.returncode == 0, (call, done)
        log = (directory / "strace").read_text(errors="replace")
        naps = len(NAP.findall(log.split("PTRACE_SETREGS")[0]))
        if not (0 < naps <= 51 if call in LIMITED else naps == 0):
            wrong[call] = naps
        is_good(target)
    assert not wrong


def test_signals_that_come_while_its_thread_is_away(me, programs, targets):
    """sigsuspend is left by the signal that it waits for, and by it alone, whenever that comes."""
    program = programs.simple("blocked")
    for i in range(12):
        target = start_blocked(targets, me, program, "rt_sigsuspend")
        iprobe = me.start_iprobe(
            "attach", target.pid, "--duration", "5ms", "-o", me.dir() / "trace"
        )
        time.sleep(0.004 * i)
        is_good(target)
        actors.last_words(iprobe)  # the target may have ended first

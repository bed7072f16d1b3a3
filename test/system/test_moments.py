# SPDX-License-Identifier: Apache-2.0
"""
The target is killed, crashes, ends, executes another program, or is frozen at random moments of
attach and of recording: iprobe ends cleanly and in time, nobody is left behind, and a target
that lives is as it was. Seeds are fixed.
"""

import json
import os
import random
import shutil
import signal
import time

import pytest

from iptest import actor as actors
from iptest import memory

ROUNDS = 3
LONGEST = 0.08  # by then it records


def kill(target):
    target.proc.kill()


def crash(target):
    os.kill(target.pid, signal.SIGSEGV)


def end(target):
    target.proc.stdin.close()
    target.proc.stdin = None


def execute(target):
    target.say("e")


def freeze(target):
    os.kill(target.pid, signal.SIGSTOP)


def freeze_and_thaw(target):
    os.kill(target.pid, signal.SIGSTOP)
    time.sleep(0.01)
    os.kill(target.pid, signal.SIGCONT)


DEADLY = [kill, crash, end]
HARMLESS = [execute, freeze, freeze_and_thaw]


def children_of(pid):
    """Zombies included."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as f:
                    fields = f.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append((int(entry), fields[0]))
    return found


def state(pid, tid):
    try:
        return memory.status_field(pid, "State", tid)[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"  # it has ended meanwhile


def one_moment(actor, target, happen, delay):
    """Its Result: exit 0, or 1 with one line, without hanging (a Result takes at most a minute)."""
    directory = actor.dir() / "trace"
    proc = actor.start_iprobe("attach", target.pid, "--duration", "150ms", "-q", "-o", directory)
    time.sleep(delay)
    happen(target)
    # its guard may just be ending
    memory.wait_for(
        "it leaves a zombie", lambda: all(state != "Z" for _, state in children_of(proc.pid))
    )
    done = actors.last_words(proc)
    what = f"{happen.__name__} after {delay * 1e3:.1f} ms: {done!r}"
    assert done.returncode in (0, 1), what
    if done.returncode == 1:
        assert done.stderr.strip(), what
    shutil.rmtree(directory, ignore_errors=True)
    return what


@pytest.mark.parametrize("happen", DEADLY, ids=lambda f: f.__name__)
def test_the_target_ends(me, programs, targets, happen):
    rng = random.Random(happen.__name__)
    for _ in range(ROUNDS):
        target = targets.steady(me, programs.simple("steady"), "-n", "-c")
        what = one_moment(me, target, happen, rng.uniform(0, LONGEST))
        memory.wait_for(f"the target stays: {what}", lambda: target.proc.poll() is not None)
        assert not os.path.exists(f"/proc/{target.pid}"), what
        assert target.proc.returncode in (0, -signal.SIGKILL, -signal.SIGSEGV), what


@pytest.mark.parametrize("happen", HARMLESS, ids=lambda f: f.__name__)
def test_the_target_lives(me, programs, targets, happen):
    rng = random.Random(happen.__name__)
    # the kernel makes no threads (EAGAIN) while another thread executes a program
    target = targets.steady(
        me, programs.simple("steady"), "-n", *([] if happen is execute else ["-c"])
    )
    for _ in range(ROUNDS):
        what = one_moment(me, target, happen, rng.uniform(0, LONGEST))
        if happen is freeze:
            memory.wait_for(
                f"it is not frozen any more: {what}",
                lambda: all(
                    state(target.pid, tid) in "TZX"
                    for tid in os.listdir(f"/proc/{target.pid}/task")
                ),
            )
        memory.thaw(target.pid)
        assert target.alive(), f"{what}: {target.proc.returncode} {target.proc.stderr.read()}"
        target.wait_for_progress()
        assert me.iprobe("detach", target.pid).returncode == 0, what
        memory.assert_untouched(target.pid)
    target.finish()


@pytest.mark.parametrize("placement", ["fentry", "instrument"])
def test_the_target_ends_as_soon_as_it_is_live(actor, programs, targets, placement):
    """Behind the stop, while iprobe still looks whether all was written: what it did is
    recorded.
    """
    if not shutil.which("strace"):
        pytest.skip("no strace")
    target = targets.start(actor, [programs.simple("finish", placement=placement), "live", 10])
    directory = actor.dir() / "trace"
    done = actor.run(
        [
            "strace",
            "-o",
            "/dev/null",
            "--inject=pread64:delay_enter=2ms",
            "-e",
            "trace=pread64",
            actor.iprobe_path,
            "attach",
            target.pid,
            "-f",
            "finish_step",
            "--max-stop",
            "5s",
            "--json",
            "-o",
            directory,
        ]
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert (summary["events"], summary["lost"], summary["end"]) == (20, 0, "target ended"), summary
    shown = actor.iprobe("report", "--json", directory)
    assert [(f["function"], f["calls"]) for f in json.loads(shown.stdout)["functions"]] == [
        ("finish_step", 10)
    ]
    assert target.finish().returncode == 0

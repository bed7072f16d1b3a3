# SPDX-License-Identifier: Apache-2.0
"""
What the kernel does not tell counts as the worst: its answers are taken away, one at a time, by
a seccomp filter that iprobe runs beneath.
"""

import pytest

from iptest import actor as actors
from iptest import memory, time_scale

TRIES = 3


def beneath(actor, programs, question, *args):
    """iprobe, of which that question is refused."""
    return actor.run(
        [programs.simple("refusing", prepared=False), question, actor.iprobe_path, *args]
    )


def words(target):
    """Ends it; what it said."""
    target.proc.stdin.close()
    out = target.proc.stdout.read()
    assert (
        target.proc.wait(timeout=time_scale.scaled(60)) == 0
    ), f"the target ended with {target.proc.returncode}"
    return out


@pytest.mark.parametrize("told", [True, False], ids=["told", "untold"])
@pytest.mark.parametrize("preload", [True, False], ids=["preloaded", "injected"])
@pytest.mark.parametrize("how", ["handled", "blocked"])
def test_threads_that_dispatch_their_calls(actor, programs, targets, how, preload, told):
    """No call of ours is made in one: not where the kernel says that it does (6.4), and not
    where it does not say (5.11 to 6.3).
    """
    target = targets.start(actor, [programs.simple("dispatching"), how], preload=preload)
    # to put the runtime there iprobe looks for a thread to borrow for two seconds: each try has
    # hundreds of looks
    for _ in range(TRIES if preload else 1):
        args = "attach", target.pid, "--duration", "50ms", "-q", "-o", actor.dir() / "trace"
        done = actor.iprobe(*args) if told else beneath(actor, programs, "dispatch", *args)
        assert target.alive(), repr(done)
        if done.returncode:
            actors.one_line(done)
        memory.assert_untouched(target.pid)
    assert words(target) == "strays 0 wrong 0\n"


def test_processes_that_share_memory(actor, programs, targets):
    """Who might share the target's memory and cannot be told apart is not taken for a stranger."""
    target = targets.start(actor, [programs.simple("shared_mm")])
    other = int(target.proc.stdout.readline())
    for _ in range(TRIES):
        done = beneath(
            actor,
            programs,
            "kcmp",
            "attach",
            target.pid,
            "--duration",
            "50ms",
            "-q",
            "-o",
            actor.dir() / "trace",
        )
        assert done.returncode == 1, repr(done)
        for line in done.stderr.splitlines():
            assert "kcmp" in line and str(other) in line, line
        assert target.alive()
        assert memory.text_differences(target.pid) == [] and memory.text_differences(other) == []
    target.finish()


def test_others_are_told_apart_without_it(actor, programs, targets):
    """A process whose memory nobody shares is served all the same: the refusal above is no
    accident.
    """
    target = targets.start(actor, [programs.simple("count"), "-w"])
    done = beneath(
        actor,
        programs,
        "kcmp",
        "attach",
        target.pid,
        "--duration",
        "50ms",
        "-q",
        "-o",
        actor.dir() / "trace",
    )
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)

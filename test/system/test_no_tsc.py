# SPDX-License-Identifier: Apache-2.0
"""Threads that are ended for reading the processor's clock: refused before anything is live,
however the process came to its runtime.
"""

import pytest

from iptest import actor as actors
from iptest import memory

WAYS = {"injected": ([], False), "static": (["-static"], False), "preloaded": ([], True)}


def refused(actor, target, word):
    """Each time: the second attach finds what the first has left."""
    for _ in range(2):
        done = actor.iprobe("attach", target.pid, "--duration", "50ms", "-o", actor.dir() / "trace")
        line = actors.one_line(done)
        assert word in line and str(target.pid) in line
        memory.assert_untouched(target.pid)
        target.say("call")
        assert target.proc.stdout.readline() == "called\n", "it was ended"
    target.finish()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how, word", [("set", "PR_SET_TSC"), ("strict", "strict seccomp")])
def test_refused(actor, programs, targets, how, word, way):
    flags, preload = WAYS[way]
    target = targets.start(actor, [programs.simple("no_tsc", extra=flags), how], preload=preload)
    refused(actor, target, word)


@pytest.mark.parametrize("way", WAYS)
def test_forbidden_when_the_runtime_is_there(actor, programs, targets, way):
    """What a thread was asked when the runtime was set up is not true for ever."""
    flags, preload = WAYS[way]
    target = targets.start(
        actor, [programs.simple("no_tsc", extra=flags), "later"], preload=preload
    )
    done = actor.iprobe("attach", target.pid, "--duration", "50ms", "-o", actor.dir() / "trace")
    assert done.returncode == 0, repr(done)
    target.say("forbid")
    assert target.proc.stdout.readline() == "called\n"
    refused(actor, target, "PR_SET_TSC")


def test_inherited_by_what_is_launched(me, programs):
    """The C library's loader ends a dynamic program for that by itself; a static one runs, and
    is not recorded.
    """
    static = programs.simple("no_tsc", extra=["-static"])
    done = me.run(
        [me.iprobe_path, "run", "-o", me.dir() / "trace", "--", static, "exec", static],
        input="call\n",
    )
    assert done.stdout == "ready\ncalled\n", repr(done)

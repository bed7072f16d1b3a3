# SPDX-License-Identifier: Apache-2.0
"""Threads that are ended for reading the processor's clock: refused before anything is live."""

import pytest

from iptest import actor as actors
from iptest import memory


@pytest.mark.parametrize("static", [[], ["-static"]], ids=["injected", "static"])
@pytest.mark.parametrize("how, word", [("set", "PR_SET_TSC"), ("strict", "strict seccomp")])
def test_refused(actor, programs, targets, how, word, static):
    """Each time: the second attach finds what the first has left."""
    target = targets.start(actor, [programs.simple("no_tsc", extra=static), how], preload=False)
    for _ in range(2):
        done = actor.iprobe("attach", target.pid, "--duration", "50ms", "-o", actor.dir() / "trace")
        line = actors.one_line(done)
        assert word in line and str(target.pid) in line
        memory.assert_untouched(target.pid)
        target.say("call")
        assert target.proc.stdout.readline() == "called\n", "it was ended"
    target.finish()

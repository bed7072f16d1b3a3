# SPDX-License-Identifier: Apache-2.0
"""Live logs (--stream) of the program last_calls: what tests of them share."""

import json

import pytest

FUNCTIONS = "step,hang,work"


def last(actor, log, *options):
    done = actor.iprobe("last", "--json", *options, log)
    assert done.returncode == 0 and not done.stderr, repr(done)
    return json.loads(done.stdout)


@pytest.fixture
def target(me, programs, targets):
    """Two threads that call step() with short pauses."""
    program = programs.simple("last_calls", placement="fentry")
    return targets.start(me, [program, me.dir() / "notes", 2, 300])


def attach(me, target, place, *options, seconds="400ms"):
    return me.iprobe(
        *("attach", target.pid, "--json", "--stream", place, "-f", FUNCTIONS),
        *("--duration", seconds, "-o", me.dir() / "trace", *options),
    )


def summary_of(done):
    """All that was recorded was put into the log, or is counted."""
    assert done.returncode == 0, repr(done)
    summary = json.loads(done.stdout)
    log = summary["stream"]
    assert summary["events"] == log["records"] + log["dropped"], summary
    return summary

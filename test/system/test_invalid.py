# SPDX-License-Identifier: Apache-2.0
"""
Words in rings that were no records are said wherever losses are: recorded + lost + invalid is
what happened, in each mode and view.
"""

import json

import pytest

from iptest import area, memory
from iptest.actor import last_words

CALLS = 1500
SPOILED = 100
MEMORY = 1 << 20
MODES = {
    "log": [],
    "overwrite": ["--overwrite"],
    "coarse": ["--time", "coarse"],
    "compressed": ["--compress"],
    "rotated": ["--rotate", "3"],
}


def made(target):
    """Lets it work; how many calls it made, in rings that nobody reads before they are full."""
    target.say()
    while True:
        line = target.proc.stdout.readline()
        assert line, "the target has ended"
        if line.startswith("calls "):
            return int(line.split()[1])


def spoiled(actor, target, options, trace):
    """(the summary, what was said) of a recording in which SPOILED records were written over,
    and the calls there were.
    """
    session = actor.start_iprobe(
        "attach", target.pid, "--json", "--memory", "1M", *options, "-o", trace
    )
    memory.wait_until_live(target.pid, session)
    calls = made(target)
    shared = area.mapped(target.pid)
    area.spoil(shared, MEMORY // area.SUBBUF_SIZE, SPOILED)
    shared.close()
    return session, calls


def seen(actor, *args):
    done = actor.iprobe(*args)
    assert done.returncode == 0, repr(done)
    return done


@pytest.mark.parametrize("mode", MODES)
def test_recorded_and_lost_and_invalid_is_what_happened(actor, programs, targets, mode):
    target = targets.start(actor, [programs.simple("count", opt="-O0"), "-w", "-n", CALLS])
    trace = actor.dir() / "trace"
    session, calls = spoiled(actor, target, MODES[mode], trace)
    if mode == "overwrite":
        snap = actor.dir() / "snap"
        taken = json.loads(seen(actor, "snapshot", target.pid, "--json", "-o", snap).stdout)
        assert (
            taken["invalid"] == SPOILED and taken["events"] + taken["lost"] + SPOILED == 2 * calls
        ), taken
        assert json.loads(seen(actor, "info", "--json", snap).stdout)["invalid"] == SPOILED
        assert (
            f"{SPOILED} words were no records"
            in seen(actor, "snapshot", target.pid, "-o", actor.dir() / "said").stdout
        )
    session.send_signal(2)
    done = last_words(session)
    summary = done.summary()
    assert done.returncode == 0 and f"{SPOILED} words were no records" in done.stderr, repr(done)
    assert (
        summary["invalid"] == SPOILED and summary["events"] + summary["lost"] + SPOILED == 2 * calls
    ), repr(done)

    for view in ("info", "report", "graph", "hist"):
        shown = json.loads(seen(actor, view, "--json", trace).stdout)
        assert shown["invalid"] == SPOILED, view
        assert shown["events"] + shown["lost"] + shown["invalid"] == 2 * calls, view
        said = seen(actor, view, trace)
        assert f"{SPOILED} WORDS WERE NO RECORDS" in said.stderr, repr(said)
        if view != "hist":
            assert f", {SPOILED} invalid" in said.stdout.lower(), repr(said)
    compared = seen(actor, "report", "--diff", trace, trace)
    assert compared.stdout.count(f", {SPOILED} invalid") == 2, repr(compared)
    compared = json.loads(seen(actor, "report", "--json", "--diff", trace, trace).stdout)
    assert [compared[side]["invalid"] for side in ("before", "after")] == [SPOILED, SPOILED]
    for form in "chrome", "html":
        file = actor.dir() / form
        seen(actor, "export", "--format", form, "-o", file, trace)
        assert f'"invalid":{SPOILED}' in file.read_text(), form
    memory.assert_untouched(target.pid)


def test_a_part_of_the_trace(me, programs, targets):
    """Of a part nobody knows; of the whole it is as it was."""
    target = targets.start(me, [programs.simple("count", opt="-O0"), "-w", "-n", CALLS])
    trace, whole, part = me.dir() / "trace", me.dir() / "whole", me.dir() / "part"
    session, calls = spoiled(me, target, [], trace)
    session.send_signal(2)
    assert last_words(session).returncode == 0
    seen(me, "trim", "-o", whole, trace)
    shown = json.loads(seen(me, "report", "--json", whole).stdout)
    assert shown["invalid"] == SPOILED and shown["events"] + shown["lost"] + SPOILED == 2 * calls
    seen(me, "trim", "-f", "leaf", "-o", part, trace)
    assert json.loads(seen(me, "report", "--json", part).stdout)["invalid"] == 0


def test_no_word_of_it_where_there_is_none(me, programs):
    trace = me.dir() / "trace"
    done = me.iprobe(
        "run", "--json", "-o", trace, "--", programs.simple("count", opt="-O0"), "-n", CALLS
    )
    assert done.summary()["invalid"] == 0 and "no records" not in done.stderr, repr(done)
    for view in ("info", "report", "graph", "hist"):
        said = seen(me, view, trace)
        assert "invalid" not in (said.stdout + said.stderr).lower(), repr(said)
        assert json.loads(seen(me, view, "--json", trace).stdout)["invalid"] == 0

# SPDX-License-Identifier: Apache-2.0
"""
Somebody else has changed the text: breakpoints, uprobes, other patchers. What is theirs is left
as it is, at attach and at detach, and the rest is recorded.
"""

import json

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.uprobe import TRAP, Site, Uprobe

FUNCTIONS = "step_11,step_12,step_13"


@pytest.fixture
def steady(me, programs, targets):
    target = targets.steady(me, programs.simple("steady", placement="fentry"))
    yield target
    if target.alive():
        target.wait_for_progress()
        target.finish()


def attach(me, target, functions, *more):
    return me.iprobe(
        "attach",
        target.pid,
        "-f",
        functions,
        "--duration",
        "50ms",
        "--json",
        "-o",
        me.dir() / "trace",
        *more,
    )


def status(me, target):
    done = me.iprobe("status", "--json", target.pid)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)["modules"][0]


def left_live(me, target, functions):
    """A session that was killed: its sites stay live."""
    proc = me.start_iprobe("attach", target.pid, "-f", functions, "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, proc)
    proc.kill()
    actors.end(proc)


@pytest.mark.parametrize("kind", ["entry", "exit"])
@pytest.mark.parametrize("what", ["breakpoint", "bytes"])
def test_a_changed_site_is_left_out(me, steady, kind, what):
    """With it the other sites of its function; the rest goes live."""
    site = Site(me, steady, "by_dots", kind)
    memory.freeze(steady.pid)  # nobody may run into what is written now
    theirs = bytes([TRAP]) + site.idle[1:] if what == "breakpoint" else bytes.fromhex("660f1f0000")
    site.write(theirs[: site.length])
    done = attach(me, steady, f"by_dots,{FUNCTIONS}")
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["foreign"] == 1 and summary["functions"] == 3, summary
    said = [line for line in done.stderr.splitlines() if "somebody else" in line]
    assert (
        len(said) == 1
        and "by_dots" in said[0]
        and f"{site.address:#x}" in said[0]
        and "1 function left out" in said[0]
    )
    assert site.bytes() == theirs
    assert status(me, steady)["foreign"] == 1
    site.write(site.idle)
    memory.thaw(steady.pid)
    memory.assert_untouched(steady.pid)


def test_nothing_left_is_an_error(me, steady):
    sites = [Site(me, steady, name) for name in FUNCTIONS.split(",")]
    memory.freeze(steady.pid)
    for site in sites:
        site.write(bytes([TRAP]) + site.idle[1:])
    line = actors.one_line(attach(me, steady, FUNCTIONS))
    assert (
        "each selected function" in line
        and f"{sites[0].address:#x}" in line
        and "breakpoint" in line
    )
    for site in sites:
        site.write(site.idle)
    memory.thaw(steady.pid)
    memory.assert_untouched(steady.pid)


@pytest.mark.parametrize("hit", [True, False], ids=["hit", "unhit"])
def test_a_uprobe_that_was_there_before(root, programs, targets, hit):
    """Its function is left out, it works on, and leaves the NOP when it goes."""
    target = targets.steady(root, programs.simple("steady", placement="fentry"))
    site = Site(root, target, "step_11")
    uprobe = Uprobe(root, programs, target, site)
    if not hit:
        memory.freeze(target.pid)
    assert uprobe.toggle() == "on"
    if hit:
        target.wait_for_progress()
    theirs = site.bytes()
    assert theirs != site.idle and (hit or theirs[0] == TRAP)
    done = attach(root, target, FUNCTIONS)
    assert done.returncode == 0, repr(done)
    assert done.summary()["foreign"] == 1 and done.summary()["functions"] == 2
    assert "uprobe" in done.stderr
    assert site.bytes() == theirs
    done = root.iprobe("detach", target.pid)  # nothing of ours is there: no failure
    assert done.returncode == 0 and "left alone" in done.stderr, repr(done)
    assert site.bytes() == theirs
    assert uprobe.toggle() == "off"
    assert site.is_idle()
    memory.thaw(target.pid)
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    target.finish()


@pytest.mark.parametrize("kind", ["entry", "exit"])
def test_detach_below_a_uprobe(root, programs, targets, kind):
    """The uprobe came on a live site and was not hit: it stays, below it is the NOP again."""
    target = targets.steady(root, programs.simple("steady", placement="fentry"))
    site = Site(root, target, "step_11", kind)
    left_live(root, target, FUNCTIONS)
    uprobe = Uprobe(root, programs, target, site)
    memory.freeze(target.pid)
    assert site.is_live()
    uprobe.toggle()
    assert site.bytes()[0] == TRAP and site.bytes()[1:] != site.idle[1:]
    assert status(root, target)["patched"] == 6
    done = root.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    assert site.bytes() == bytes([TRAP]) + site.idle[1:]
    memory.thaw(target.pid)
    target.wait_for_progress()
    uprobe.toggle()
    assert site.is_idle()
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    target.finish()


@pytest.mark.parametrize("kind", ["entry", "exit"])
def test_detach_where_a_uprobe_has_gone(root, programs, targets, kind):
    """It came and went on a live site, unhit: what it leaves is mostly an invalid instruction.
    Ours; it becomes the NOP.
    """
    target = targets.steady(root, programs.simple("steady", placement="fentry"))
    site = Site(root, target, "step_11", kind)
    left_live(root, target, FUNCTIONS)
    uprobe = Uprobe(root, programs, target, site)
    memory.freeze(target.pid)
    live = site.bytes()
    uprobe.toggle()
    uprobe.toggle()
    if site.bytes() == live:
        pytest.skip("this kernel puts back what it has found")
    assert site.bytes() == site.idle[:1] + live[1:]
    done = root.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    assert site.is_idle()
    memory.thaw(target.pid)
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    target.finish()

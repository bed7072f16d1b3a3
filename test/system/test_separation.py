# SPDX-License-Identifier: Apache-2.0
"""
Privilege separation of a target is as strong with iprobe as without: a child that gives up
privileges has nothing of the memory that its parent's hooks follow, and calls functions with
live probes without it.
"""

import json

import pytest

from iptest import memory
from iptest.actor import last_words


def say(target, what):
    target.proc.stdin.write(f"{what}\n")
    target.proc.stdin.flush()


def attached(actor, target, *options):
    session = actor.start_iprobe("attach", target.pid, "-q", *options, "-o", actor.dir() / "trace")

    def patched():
        return (
            session.poll() is not None
            or json.loads(actor.iprobe("status", target.pid, "--json").stdout)["patched"] > 0
        )

    memory.wait_for("nothing goes live", patched, 60)
    return session


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--payload", "hist"],
        ["--payload", "count"],
        ["--time", "coarse"],
        ["--depth", "5"],
        ["--overwrite"],
    ],
    ids=lambda o: " ".join(o) or "log",
)
@pytest.mark.parametrize("preload", [True, False], ids=["preloaded", "injected"])
def test_a_child_gets_no_ring_memory(actor, programs, targets, options, preload):
    target = targets.start(actor, [programs.simple("separation")], preload=preload)
    session = attached(actor, target, *options)
    for how in ("fork", "clone") * 3:
        say(target, how)
        assert target.proc.stdout.readline().startswith("child 0 mappings "), how
        assert target.proc.stdout.readline() == "child ended well\n", how
    session.send_signal(2)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    target.proc.kill()


def test_no_descriptor_either(root, programs, targets):
    target = targets.start(root, [programs.simple("separation")])
    session = attached(root, target)
    say(target, "fork")
    assert target.proc.stdout.readline() == "child 0 mappings 0 descriptors\n"
    session.send_signal(2)
    assert last_words(session).returncode == 0
    target.proc.kill()


def followed(who, target):
    """A session that follows, and has a child."""
    session = attached(who, target, "--follow-fork")
    say(target, "keep")
    assert int(target.proc.stdout.readline().split()[1]) > 0
    assert target.proc.stdout.readline() == "child ended well\n"
    return session


def test_what_was_followed_is_kept_from_children_afterwards(actor, programs, targets):
    target = targets.start(actor, [programs.simple("separation")])
    session = followed(actor, target)
    session.send_signal(2)
    assert last_words(session).returncode == 0
    session = attached(actor, target)
    say(target, "fork")
    assert target.proc.stdout.readline().startswith("child 0 mappings ")
    session.send_signal(2)
    assert last_words(session).returncode == 0
    target.proc.kill()


@pytest.mark.parametrize("preload", [True, False], ids=["preloaded", "injected"])
def test_following_stops_at_a_change_of_credentials(root, programs, targets, preload):
    """The child loses the ring memory, its sites and its place in the trace; the others go on."""
    target = targets.start(root, [programs.simple("separation")], preload=preload)
    session = followed(root, target)
    say(target, "stay")
    assert target.proc.stdout.readline() == "child 0 mappings 0 descriptors\n"
    assert target.proc.stdout.readline() == "child ended well\n"
    say(target, "keep")
    assert int(target.proc.stdout.readline().split()[1]) > 0, "others are followed"
    assert target.proc.stdout.readline() == "child ended well\n"
    session.send_signal(2)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    assert (
        done.stderr.count(
            f"forked from pid {target.pid}, has other credentials than that: it is not recorded "
            f"any more"
        )
        == 1
    )
    memory.assert_untouched(target.pid)
    target.proc.kill()


@pytest.mark.parametrize("threads", [1, 2, 1000])
def test_following_stops_at_a_change_in_one_thread(root, programs, targets, threads):
    """By a system call of that thread, which is not the child's first: the kernel keeps
    credentials by thread.
    """
    target = targets.start(root, [programs.simple("separation")])
    session = followed(root, target)
    say(target, f"thread {threads}")
    assert target.proc.stdout.readline() == "child 0 mappings 0 descriptors\n"
    assert target.proc.stdout.readline() == "child ended well\n"
    say(target, "keep")
    assert int(target.proc.stdout.readline().split()[1]) > 0, "others are followed"
    assert target.proc.stdout.readline() == "child ended well\n"
    session.send_signal(2)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    assert (
        done.stderr.count(
            f"forked from pid {target.pid}, has other credentials than that: it is not recorded "
            f"any more"
        )
        == 1
    )
    memory.assert_untouched(target.pid)
    target.proc.kill()


@pytest.mark.parametrize(
    "options", [[], ["--payload", "hist"], ["--depth", "5"]], ids=lambda o: " ".join(o) or "log"
)
@pytest.mark.parametrize("preload", [True, False], ids=["preloaded", "injected"])
def test_a_child_that_scribbles(root, programs, targets, options, preload):
    """It has nothing that it could write to but what is its own, and its parent's events are
    what they were.
    """
    target = targets.start(root, [programs.simple("separation")], preload=preload)
    session = attached(root, target, *options)
    for _ in range(3):
        say(target, "scribble")
        assert target.proc.stdout.readline() == "child 0 shared words\n"
        assert target.proc.stdout.readline() == "child ended well\n"
    session.send_signal(2)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    assert "invalid" not in done.stderr, done.stderr
    memory.assert_untouched(target.pid)
    target.proc.kill()


MODES = {"log": [], "coarse": ["--time", "coarse"], "overwrite": ["--overwrite"]}


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
@pytest.mark.parametrize("preload", [True, False], ids=["preloaded", "injected"])
def test_a_child_returns_from_a_handler_into_a_hook(me, programs, targets, options, preload):
    """A handler that interrupts a hook forks: in the child the rest of the hook finds memory,
    which is nobody else's.
    """
    target = targets.start(me, [programs.simple("separation")], preload=preload)
    session = attached(me, target, *options)
    say(target, "return 300")
    assert target.proc.stdout.readline() == "0 of 300 died\n"
    session.send_signal(2)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    target.proc.kill()

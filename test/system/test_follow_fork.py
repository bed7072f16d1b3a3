# SPDX-License-Identifier: Apache-2.0
"""Processes that the target forks: silent, and put back when the session ends."""

import time

import pytest

from iptest import memory


@pytest.fixture
def flag(actor):
    """A file; the daemon ends when it is gone."""
    path = actor.dir() / "go-on"
    path.touch()
    path.chmod(0o644)
    yield path
    path.unlink(missing_ok=True)


def wait_for_end(pid):
    """A zombie has ended too: who reaps orphans here may do so later."""

    def ended():
        try:
            return memory.status_field(pid, "State")[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    memory.wait_for("the daemon goes on", ended)


def test_a_daemon_gets_its_nops_back(actor, programs, flag):
    directory = actor.dir() / "trace"
    done = actor.iprobe("run", "--json", "-o", directory, "--", programs.simple("daemon"), flag)
    assert done.returncode == 3, repr(done)
    daemon = int(done.stdout.split("\n")[0])
    assert done.summary()["children_restored"] == 1, repr(done)
    memory.assert_untouched(daemon)
    # main's entry and exit, and one step: the daemon's steps are its own
    assert done.summary()["events"] == 4
    flag.unlink()
    wait_for_end(daemon)


def test_detach_of_a_child_leaves_its_parents_session_alone(actor, programs, targets):
    parent = targets.start(actor, [programs.simple("forking")])
    child = int(parent.proc.stdout.readline())
    session = actor.start_iprobe("attach", parent.pid, "--json", "-q", "-o", actor.dir() / "trace")
    memory.wait_until_live(parent.pid, session)
    done = actor.iprobe("detach", child)
    assert done.returncode == 0, repr(done)
    time.sleep(0.3)
    assert session.poll() is None, "the parent's session ended"
    session.terminate()
    assert session.wait(30) == 0
    memory.assert_untouched(parent.pid)
    memory.assert_untouched(child)
    parent.finish()


def test_a_child_that_ends_executes_nothing(actor, programs):
    """Its memory is gone a moment before it has ended, as that of one that executes a program."""
    directory = actor.dir() / "trace"
    program = programs.simple("short_lives")
    done = actor.iprobe("run", "-q", "--follow-fork", "-o", directory, "--", program, "60")
    assert done.returncode == 0, repr(done)
    told = actor.iprobe("info", directory).stdout
    assert "exec" not in told, told
    calls = actor.iprobe("report", "--json", "-f", "in_a_child", directory).stdout
    assert '"calls":60' in calls.replace(" ", ""), calls

# SPDX-License-Identifier: Apache-2.0
"""
Faults at some system calls of attach and detach, spread over each command (iptest/faults.py).
Whatever becomes of iprobe, the target goes on computing right, with the scheduling and the
signal masks it had, no thread stopped; its text is its own or, as `iprobe status` can tell,
partly live; and the next `iprobe detach` brings all of it back. test/soak/faults.py takes all of
them.
"""

import shutil

import pytest

from iptest import faults, memory

SAMPLE = 12


@pytest.fixture(params=faults.COMMANDS.values(), ids=lambda command: command.name)
def command(request):
    return request.param


@pytest.fixture
def new_target(me, programs, targets, command):
    """() -> the target for the next run: the same again where the command does all its work
    again on it.
    """
    if not shutil.which("strace"):
        pytest.skip("no strace")
    kept = []

    def end():
        target = kept.pop()
        memory.assert_untouched(target.pid)
        target.finish()

    def target():
        if kept and command.once:
            end()
        if not kept:
            kept.append(faults.start_target(me, programs, targets, command))
        return kept[0]

    yield target
    end()


def spread(items, n):
    return [items[(2 * i + 1) * len(items) // (2 * n)] for i in range(n)]


def run_some(me, command, new_target, choose, fault_of, request=""):
    calls = choose(faults.calls_of(me, new_target(), command, request))
    for i, (call, when) in enumerate(spread(calls, SAMPLE)):
        target = new_target()
        faults.run_one(me, target, faults.scheduling(target.pid), command, fault_of(i), call, when)


def test_killed_at_some_calls(me, command, new_target):
    run_some(me, command, new_target, list, lambda i: "signal=SIGKILL")


def test_some_calls_fail(me, command, new_target):
    run_some(
        me,
        command,
        new_target,
        faults.own_calls,
        lambda i: f"error={faults.ERRORS[i % len(faults.ERRORS)]}",
    )


def test_letting_go_fails(me, command, new_target):
    """A thread that the kernel does not let go at once is not left standing: nobody could stop
    it again, to put the sites back.
    """
    run_some(
        me,
        command,
        new_target,
        list,
        lambda i: f"error={faults.ERRORS[i % len(faults.ERRORS)]}",
        "PTRACE_DETACH",
    )

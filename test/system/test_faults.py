# SPDX-License-Identifier: Apache-2.0
"""
Faults at every system call of the shipped binary: strace kills it there, or lets the call fail. Whatever becomes of iprobe, the
target goes on computing right, with the scheduling and the signal masks it had, no thread stopped; its text is its own or, as
`iprobe status` can tell, partly live; and the next `iprobe detach` brings all of it back.

By default some calls, spread over attach and detach; all of them with IPROBE_TEST_FULL=1 (some thousands of runs).
"""

import json
import os
import re
import shutil

import pytest

from iptest import actor as actors
from iptest import memory

FULL = os.environ.get("IPROBE_TEST_FULL") == "1"
SAMPLE = 12
ERRORS = ["EIO", "EPERM", "ENOMEM", "EINTR", "ESRCH"]
PATIENCE = 60
# Nothing can be learnt there: they end the program, or return an address and no error (brk).
NOT_THESE = {"execve", "exit_group", "exit", "rt_sigreturn", "restart_syscall", "brk"}


def attach_args(me, target, directory):
    return [me.iprobe_path, "attach", target.pid, "--duration", "20ms", "-o", directory]


def detach_args(me, target, directory):
    return [me.iprobe_path, "detach", target.pid]


def scheduling(pid):
    """{tid: (policy, real-time priority, nice value, blocked signals)}."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        found[tid] = (fields[38], fields[37], fields[16], memory.status_field(pid, "SigBlk", tid))
    return found


def leave_live(me, target):
    """A session that was killed, for detach to clean up after."""
    directory = me.dir() / "live"
    proc = me.start_iprobe("attach", target.pid, "-o", directory)
    memory.wait_until_live(target.pid, proc)
    proc.kill()
    actors.end(proc)
    shutil.rmtree(directory, ignore_errors=True)


def calls_in_order(me, args):
    """[(system call, how many of them came before it + 1)] of one good run."""
    log = me.dir() / "strace"
    done = me.run(["strace", "-f", "-o", log, *args], timeout=PATIENCE)
    assert done.returncode == 0, repr(done)
    calls, counts, first = [], {}, None
    for line in log.read_text(errors="replace").splitlines():
        match = re.match(r"(\d+) +(\w+)\(", line)
        if not match or match[2] in NOT_THESE:
            continue
        first = first or match[1]
        if match[1] == first:  # strace counts in each thread by itself
            counts[match[2]] = counts.get(match[2], 0) + 1
            calls.append((match[2], counts[match[2]]))
    assert {"ptrace", "pwrite64", "wait4"} <= set(counts), counts
    return calls


def check(me, target, before, what):
    """All that must hold after each fault; then it is cleaned up."""
    assert target.alive(), f"{what}: {target.proc.returncode} {target.proc.stderr.read()}"
    memory.wait_for(f"{what}: a thread stays stopped or traced", lambda: all(
        memory.status_field(target.pid, "State", tid)[0] in "RSD" and
        memory.status_field(target.pid, "TracerPid", tid) == "0" for tid in os.listdir(f"/proc/{target.pid}/task")))
    memory.wait_for(f"{what}: scheduling or signal masks have changed: {before} {scheduling(target.pid)}",
                    lambda: scheduling(target.pid) == before, 5)
    status = me.iprobe("status", "--json", target.pid)
    assert status.returncode == 0, f"{what}: {status!r}"
    for module in json.loads(status.stdout)["modules"]:
        assert module["foreign"] == 0, f"{what}: {module}"
        assert module["text_matches_file"] or module["patched"] > 0, f"{what}: {module}"
    target.wait_for_progress()
    done = me.iprobe("detach", target.pid)
    assert done.returncode == 0, f"{what}: {done!r}"
    assert memory.text_differences(target.pid) == [], what
    target.wait_for_progress()


def some(items, n):
    return items if FULL or len(items) <= n else [items[(2 * i + 1) * len(items) // (2 * n)] for i in range(n)]


def inject(me, target, make_args, fault, call, when):
    """One run with one fault. Not strace -f: the guard, a child of iprobe's, is to outlive it."""
    directory = me.dir()
    done = me.run(["strace", "-o", "/dev/null", f"--trace={call}", f"--inject={call}:{fault}:when={when}",
                   *make_args(me, target, directory / "trace")], timeout=PATIENCE)
    shutil.rmtree(directory, ignore_errors=True)
    return done


@pytest.fixture(params=["attach", "detach"])
def command(request):
    return request.param


@pytest.fixture
def steady(me, programs, targets):
    if not shutil.which("strace"):
        pytest.skip("no strace")
    target = targets.steady(me, programs.simple("steady"), "-t", "3", "-n")
    yield target
    memory.assert_untouched(target.pid)
    target.finish()


def calls_of(me, steady, command):
    make_args = {"attach": attach_args, "detach": detach_args}[command]
    if command == "detach":
        leave_live(me, steady)
    directory = me.dir()
    calls = calls_in_order(me, make_args(me, steady, directory / "trace"))
    shutil.rmtree(directory, ignore_errors=True)
    return make_args, calls


def test_killed_at_each_call(me, steady, command):
    before = scheduling(steady.pid)
    make_args, calls = calls_of(me, steady, command)
    for call, when in some(calls, SAMPLE):
        if command == "detach":
            leave_live(me, steady)
        done = inject(me, steady, make_args, "signal=SIGKILL", call, when)
        what = f"{command} killed at {call} number {when}"
        assert done.returncode in (0, -9, 137), f"{what}: {done!r}"
        check(me, steady, before, what)


def test_each_call_fails(me, steady, command):
    """It ends by itself, in words if it could not do it: never by a signal, never hanging."""
    before = scheduling(steady.pid)
    make_args, calls = calls_of(me, steady, command)
    own = calls[calls.index(("munmap", 1)) + 1:]  # the dynamic linker's last; a failure of its calls is not ours
    for i, (call, when) in enumerate(some(own, SAMPLE)):
        for error in ERRORS if FULL else [ERRORS[i % len(ERRORS)]]:
            if command == "detach":
                leave_live(me, steady)
            done = inject(me, steady, make_args, f"error={error}", call, when)
            what = f"{command}, {call} number {when} failed by {error}"
            assert done.returncode in (0, 1, 127), f"{what}: {done!r}"
            if done.returncode == 1 and (call, error) != ("write", "EIO"):
                assert done.stderr.strip(), f"{what}: {done!r}"
            check(me, steady, before, what)

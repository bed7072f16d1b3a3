# SPDX-License-Identifier: Apache-2.0
"""
Faults at the system calls of the shipped binary: strace kills it there, or lets the call fail;
and what must hold whatever becomes of it. test_faults.py takes some of the calls,
test/soak/faults.py all of them.
"""

import dataclasses
import json
import os
import re
import shutil

from . import actor as actors
from . import memory

ERRORS = ["EIO", "EPERM", "ENOMEM", "EINTR", "ESRCH"]
PATIENCE = 60  # seconds, on a machine of usual speed
# Nothing can be learnt there: they end the program, or return an address and no error (brk).
NOT_THESE = {"execve", "exit_group", "exit", "rt_sigreturn", "restart_syscall", "brk"}


@dataclasses.dataclass(frozen=True)
class Command:
    """One command of iprobe's under test."""

    name: str
    args: object  # (actor, target, directory) -> arguments
    preload: bool = True  # the target has the runtime from the start
    live: bool = False  # a session that was killed is there, to clean up after
    once: bool = False  # only the first of these in the life of a target does all of it


def attach_args(me, target, directory):
    return [me.iprobe_path, "attach", target.pid, "--duration", "20ms", "-o", directory]


def detach_args(me, target, directory):
    return [me.iprobe_path, "detach", target.pid]


COMMANDS = {
    "attach": Command("attach", attach_args),
    "detach": Command("detach", detach_args, live=True),
    # The runtime is brought into a process that has not got it.
    "load": Command("load", attach_args, preload=False, once=True),
}


def start_target(me, programs, targets, command):
    return targets.steady(me, programs.simple("steady"), "-t", "3", "-n", preload=command.preload)


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


def calls_of(me, target, command, request=""):
    """[(system call, how many of them came before it + 1)] of one good run, in order; request:
    of those whose arguments begin so.
    """
    if command.live:
        leave_live(me, target)
    directory = me.dir()
    args = command.args(me, target, directory / "trace")
    done = me.run(["strace", "-f", "-o", directory / "strace", *args], timeout=PATIENCE)
    assert done.returncode == 0, repr(done)
    calls, counts, first = [], {}, None
    for line in (directory / "strace").read_text(errors="replace").splitlines():
        match = re.match(r"(\d+) +(\w+)\((.*)", line)
        if not match or match[2] in NOT_THESE:
            continue
        first = first or match[1]
        if match[1] == first:  # strace counts in each thread by itself
            counts[match[2]] = counts.get(match[2], 0) + 1
            if match[3].startswith(request):
                calls.append((match[2], counts[match[2]]))
    shutil.rmtree(directory, ignore_errors=True)
    assert {"ptrace", "pwrite64", "wait4"} <= set(counts), counts
    return calls


def own_calls(calls):
    """Without those of the dynamic linker, whose failures are not ours: its last one unmaps its
    cache.
    """
    return calls[calls.index(("munmap", 1)) + 1 :]


def check(me, target, before, what):
    """All that must hold after each fault; then it is cleaned up."""
    assert target.alive(), f"{what}: {target.proc.returncode} {target.proc.stderr.read()}"
    memory.wait_for(
        f"{what}: a thread stays stopped or traced",
        lambda: all(
            memory.status_field(target.pid, "State", tid)[0] in "RSD"
            and memory.status_field(target.pid, "TracerPid", tid) == "0"
            for tid in os.listdir(f"/proc/{target.pid}/task")
        ),
    )
    memory.wait_for(
        f"{what}: scheduling or signal masks have changed: {before} {scheduling(target.pid)}",
        lambda: scheduling(target.pid) == before,
        5,
    )
    status = me.iprobe("status", "--json", target.pid)
    assert status.returncode == 0, f"{what}: {status!r}"
    for module in json.loads(status.stdout)["modules"]:
        assert module["foreign"] == 0, f"{what}: {module}"
        assert module["text_matches_file"] or module["patched"] > 0, f"{what}: {module}"
    target.wait_for_progress()
    done = me.iprobe("detach", target.pid)
    assert done.returncode == 0, f"{what}: {done!r}"
    differences = memory.text_differences(target.pid)
    assert not differences, f"{what}: {differences[:4]}"
    target.wait_for_progress()


def run_one(me, target, before, command, fault, call, when):
    """
    One run with one fault ("signal=SIGKILL" or "error=E..."), and all that must hold after it.
    Not strace -f: the guard, a child of iprobe's, is to outlive it.
    """
    what = f"{command.name}: {call} number {when}, {fault}"
    if command.live:
        leave_live(me, target)
    directory = me.dir()
    done = me.run(
        [
            "strace",
            "-o",
            "/dev/null",
            f"--trace={call}",
            f"--inject={call}:{fault}:when={when}",
            *command.args(me, target, directory / "trace"),
        ],
        timeout=PATIENCE,
    )
    shutil.rmtree(directory, ignore_errors=True)
    if fault == "signal=SIGKILL":
        assert done.returncode in (0, -9, 137), f"{what}: {done!r}"
    else:  # it ends by itself, in words if it could not do it: never by a signal, never hanging
        assert done.returncode in (0, 1, 127), f"{what}: {done!r}"
        if done.returncode == 1 and (call, fault) != ("write", "error=EIO"):
            assert done.stderr.strip(), f"{what}: {done!r}"
    check(me, target, before, what)

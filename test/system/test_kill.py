# SPDX-License-Identifier: Apache-2.0
"""
iprobe is killed by SIGKILL at any moment of attach: the target runs on correctly, and `iprobe
detach` restores all that was left. Kills come from outside after a random time, and by strace at
a system call of the shipped binary.
"""

import json
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from iptest import actor as actors
from iptest import impostor, memory

PROGRAMS = pathlib.Path(__file__).parent.parent / "programs"
QUICK_KILLS = 12
CALLS = [
    "pwrite64",
    "ptrace",
    "wait4",
    "openat",
    "read",
    "pread64",
    "mmap",
    "munmap",
    "close",
    "write",
    "fcntl",
    "sched_setscheduler",
    "kill",
    "clock_nanosleep",
    "poll",
    "ftruncate",
    "newfstatat",
    "rt_sigaction",
    "process_vm_readv",
    "mkdir",
    "rename",
    "getdents64",
    "pwritev",
    "writev",
    "futex",
]


def check_and_restore(actor, target, what):
    """The target runs on whatever was left; detach then brings everything back."""
    assert target.alive(), f"{what}: {target.proc.returncode} {target.proc.stderr.read()}"
    target.wait_for_progress()
    done = actor.iprobe("detach", target.pid)
    assert done.returncode == 0, f"{what}: {done!r}"
    assert memory.text_differences(target.pid) == [], what
    memory.assert_untouched(target.pid)


def kill_after(actor, target, directory, delay):
    """Whether it was still at work when it was killed."""
    proc = actor.start_iprobe("attach", target.pid, "--duration", "40ms", "-o", directory)
    time.sleep(delay)
    early = proc.poll() is None
    proc.kill()
    actors.end(proc)
    shutil.rmtree(directory, ignore_errors=True)
    return early


def calls_made(actor, target, directory):
    """{system call: how often} one whole attach makes them, of those in CALLS."""
    log = actor.dir() / "strace"
    done = actor.run(
        [
            "strace",
            "-o",
            log,
            actor.iprobe_path,
            "attach",
            target.pid,
            "--duration",
            "30ms",
            "-o",
            directory,
        ]
    )
    assert done.returncode == 0, repr(done)
    shutil.rmtree(directory, ignore_errors=True)
    counts = {}
    for line in log.read_text(errors="replace").splitlines():
        match = re.match(r"(\w+)\(", line)
        if match and match.group(1) in CALLS:
            counts[match.group(1)] = counts.get(match.group(1), 0) + 1
    assert "ptrace" in counts, counts
    return counts


def kill_at(actor, target, directory, call, when):
    """Whether the call was reached. Not strace -f: the guard, a child of iprobe's, is to outlive
    it.
    """
    log = actor.dir() / "strace"
    done = actor.run(
        [
            "strace",
            "-o",
            log,
            f"--trace={call}",
            f"--inject={call}:signal=SIGKILL:when={when}",
            actor.iprobe_path,
            "attach",
            target.pid,
            "--duration",
            "30ms",
            "-o",
            directory,
        ]
    )
    shutil.rmtree(directory, ignore_errors=True)
    assert done.returncode in (0, -9, 137), repr(done)
    return done.returncode != 0


def kill_many(actor, targets, program, count, seed):
    rng = random.Random(seed)
    target = targets.steady(actor, program)
    directory = actor.dir() / "trace"
    counts = calls_made(actor, target, directory)
    check_and_restore(actor, target, "before any kill")
    early, tries = 0, 0
    while early < count:
        tries += 1
        assert tries <= 3 * count, f"only {early} of {tries} kills came while iprobe was at work"
        if rng.random() < 0.5:
            delay = rng.uniform(0, 0.06)
            what = f"try {tries}: killed after {delay * 1e3:.1f} ms"
            early += kill_after(actor, target, directory, delay)
        else:
            call = rng.choice(sorted(counts))
            when = rng.randint(1, counts[call])
            what = f"try {tries}: killed at {call} number {when}"
            early += kill_at(actor, target, directory, call, when)
        check_and_restore(actor, target, what)
    # And the target can be worked on as ever.
    done = actor.iprobe("attach", target.pid, "--duration", "50ms", "--json", "-o", directory)
    assert done.returncode == 0, repr(done)
    assert done.summary()["events"] > 0
    memory.assert_untouched(target.pid)
    target.finish()


@pytest.mark.slow
def test_killed_at_any_moment(me, programs, targets, kills):
    kill_many(me, targets, programs.simple("steady"), kills, seed=4)


def test_killed_at_some_moments(actor, programs, targets):
    kill_many(actor, targets, programs.simple("steady"), QUICK_KILLS, seed=5)


@pytest.mark.slow
def test_killed_at_each_ptrace_request(me, programs, targets):
    """Every request of the stops, one after the other: the moments that matter most."""
    target = targets.steady(me, programs.simple("steady"), "-t", "2")
    directory = me.dir() / "trace"
    count = calls_made(me, target, directory)["ptrace"]
    for when in range(1, min(count, 40) + 1):
        kill_at(me, target, directory, "ptrace", when)
        assert target.alive(), when
        target.wait_for_progress()
        done = me.iprobe("detach", target.pid)
        assert done.returncode == 0, f"ptrace number {when}: {done!r}"
        memory.assert_untouched(target.pid)
    target.finish()


def test_live_sites_of_a_dead_session_do_no_harm(actor, programs, targets):
    """The rings are full and nobody empties them: the target goes on, and a second detach has
    nothing to do.
    """
    target = targets.steady(actor, programs.simple("steady"))
    proc = actor.start_iprobe("attach", target.pid, "--memory", "1M", "-o", actor.dir() / "trace")
    memory.wait_until_live(target.pid, proc)
    proc.kill()
    actors.end(proc)
    assert memory.text_differences(target.pid) != []
    for _ in range(5):
        target.wait_for_progress()
    done = actor.iprobe("status", "--json", target.pid)
    assert done.returncode == 0, repr(done)
    assert json.loads(done.stdout)["patched"] > 0
    check_and_restore(actor, target, "a session that was killed")
    again = actor.iprobe("detach", target.pid)
    assert again.returncode == 0, repr(again)
    memory.assert_untouched(target.pid)
    target.finish()


def test_attach_after_a_kill(actor, programs, targets):
    """A new session may take over what a dead one left, or refuse in one line; detach clears it
    in any case.
    """
    target = targets.steady(actor, programs.simple("steady"))
    proc = actor.start_iprobe("attach", target.pid, "-f", "step_1*", "-o", actor.dir() / "trace")
    memory.wait_until_live(target.pid, proc)
    proc.kill()
    actors.end(proc)
    done = actor.iprobe(
        "attach",
        target.pid,
        "-f",
        "step_2*",
        "--duration",
        "50ms",
        "--json",
        "-o",
        actor.dir() / "trace",
    )
    if done.returncode == 0:
        assert done.summary()["events"] > 0
    else:
        actors.one_line(done)
    check_and_restore(actor, target, "a session after a killed one")
    target.finish()


@pytest.mark.parametrize("options", [[], ["--no-stop"]], ids=["stop", "no-stop"])
def test_leftovers_wait_for_who_patches(actor, programs, targets, options):
    """What a killed iprobe left live is put back under the patch lock, as `iprobe detach` does."""
    target = targets.steady(actor, programs.simple("steady"))
    proc = actor.start_iprobe("attach", target.pid, "-f", "step_1*", "-o", actor.dir() / "trace")
    memory.wait_until_live(target.pid, proc)
    proc.kill()
    actors.end(proc)

    def live():
        return json.loads(actor.iprobe("status", "--json", target.pid).stdout)["patched"]

    def attach():
        return actor.iprobe(
            *("attach", target.pid, "-f", "step_2*", "--duration", "50ms", *options),
            *("--json", "-o", actor.dir() / "trace"),
        )

    left = live()
    assert left > 0
    with impostor.patch_lock(target.pid):
        assert "is being patched by another iprobe" in actors.one_line(attach())
        assert live() == left, "put back beside the holder of the lock"
    done = attach()
    assert done.returncode == 0, repr(done)
    assert "that an earlier iprobe had left live" in done.stderr, repr(done)
    memory.assert_untouched(target.pid)
    target.finish()


def test_killed_while_another_iprobe_has_injected(me, programs, targets):
    """One iprobe injects the runtime, and another is the first to have a session in it, and is
    killed. The first has planned before; it still puts back what the other has left.
    """
    stopper = me.dir() / "at_lock.so"
    subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", "-o", stopper, PROGRAMS / "at_lock.c", "-ldl"],
        check=True,
    )
    target = targets.steady(me, programs.simple("steady"), preload=False)
    directory = me.dir() / "trace"
    first = me.popen(
        [me.iprobe_path, "attach", target.pid, "-f", "step_1*", "-o", directory]
        + ["--duration", "200ms", "--json"],
        env={"LD_PRELOAD": str(stopper)},
    )
    memory.wait_for(
        "does not stop at its lock",
        lambda: first.poll() is not None or memory.status_field(first.pid, "State")[0] == "T",
    )
    second = me.start_iprobe("attach", target.pid, "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, second)
    second.kill()
    actors.end(second)
    first.send_signal(signal.SIGCONT)
    done = actors.last_words(first)
    assert done.returncode == 0, repr(done)
    assert "that an earlier iprobe had left live" in done.stderr, repr(done)
    assert done.summary()["foreign"] == 0
    report = json.loads(me.iprobe("report", "--json", directory).stdout)
    assert {f["function"].startswith("step_1") for f in report["functions"]} == {True}
    memory.assert_untouched(target.pid)
    target.finish()


def test_target_killed_while_attached(actor, programs, targets):
    """kill -9 of the target: what it recorded is kept, exit 0, nothing hangs."""
    target = targets.steady(actor, programs.simple("steady"))
    directory = actor.dir() / "trace"
    proc = actor.start_iprobe("attach", target.pid, "--json", "-o", directory)
    memory.wait_until_live(target.pid, proc)
    time.sleep(0.1)
    target.proc.kill()
    target.proc.wait()
    done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["events"] > 0
    report = actor.iprobe("report", "--json", directory)
    assert report.returncode == 0, repr(report)
    assert json.loads(report.stdout)["events"] == summary["events"]

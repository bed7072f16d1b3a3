# SPDX-License-Identifier: Apache-2.0
"""
The target executes another program in the midst of what iprobe does to it, at whatever step:
exactly at iprobe's call of ptrace() of some number, or as soon as its first thread is seen to
stand, and some microseconds later. That program checks itself from its first instruction
(test/programs/intact.c): registers, stack, arithmetics, waits.

  IPROBE_TEST_FULL      1: 10,000 tries instead of 200, shared by the tests
"""

import contextlib
import os
import random
import shutil
import subprocess

import pytest

from iptest import memory
from iptest.actor import ORDINARY_UID, OTHER_UID, last_words
from iptest.daemon import Daemon

TRIES = 10000 if os.environ.get("IPROBE_TEST_FULL") == "1" else 200
LATEST = 600  # microseconds: about the length of a stop
PROGRAMS = os.path.join(os.path.dirname(__file__), "..", "programs")

pytestmark = pytest.mark.skipif(
    "ASAN_OPTIONS" in os.environ, reason="a sanitizer's runtime comes before all others"
)


@pytest.fixture(scope="module")
def intact(top):
    """The program that checks itself."""
    path = top / "intact"
    subprocess.run(
        [
            "gcc",
            "-O2",
            "-static",
            "-nostdlib",
            "-fno-stack-protector",
            "-mno-red-zone",
            "-o",
            path,
            f"{PROGRAMS}/intact.c",
        ],
        check=True,
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def setuid(root, intact):
    """The same, of another user."""
    path = root.dir() / "intact-setuid"
    shutil.copy2(intact, path)
    os.chown(path, OTHER_UID, OTHER_UID)
    path.chmod(0o4755)
    return path


@pytest.fixture(scope="module")
def at_call(top):
    path = top / "at_call.so"
    subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", "-o", path, f"{PROGRAMS}/at_call.c", "-ldl"], check=True
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def program(programs):
    return programs.simple("execing", placement="fentry")


class Ours:
    """iprobe as somebody runs it on processes of his own."""

    def __init__(self, actor):
        self.actor = actor

    def start(self, tool, *args, pid, env=None):
        return self.actor.popen([self.actor.builddir / "cli" / tool, *args, pid], env=env)


class Worker(Ours):
    """iprobe as iprobed starts it for an ordinary user: with the user's ids, CAP_SYS_PTRACE and
    a permit.
    """

    def __init__(self, root, user):
        super().__init__(root)
        self.user = user

    def start(self, tool, *args, pid, env=None):
        held = os.pidfd_open(pid)
        caps = "+sys_ptrace,+sys_nice"
        try:
            return self.actor.popen(
                [
                    "setpriv",
                    f"--reuid={ORDINARY_UID}",
                    f"--regid={ORDINARY_UID}",
                    "--clear-groups",
                    f"--inh-caps={caps}",
                    f"--ambient-caps={caps}",
                    "env",
                    *[f"{k}={v}" for k, v in (env or {}).items()],
                    f"IPROBE_PERMIT=own:{held}",
                    self.actor.builddir / "cli" / tool,
                    *args,
                    pid,
                ],
                pass_fds=[held],
                cwd=self.user.top,
            )
        finally:
            os.close(held)


class Asked(Ours):
    """iprobe of an ordinary user, who asks iprobed."""

    def __init__(self, user, daemon):
        super().__init__(user)
        self.daemon = daemon

    def start(self, tool, *args, pid, env=None):
        return self.actor.popen(
            [self.actor.builddir / "cli" / tool, *args, pid], env={**(env or {}), **self.daemon.env}
        )


def wait_until_live(first, pid):
    """Or until it is over, or has become another program in the midst of it."""

    def over():
        try:
            return first.poll() is not None or any(any(d[3]) for d in memory.text_differences(pid))
        except OSError:
            return True

    with contextlib.suppress(AssertionError):
        memory.wait_for("nothing goes live", over, 3)


def attach(how, out, pid, env, *options, tool="iprobe"):
    last_words(
        how.start(
            tool,
            "attach",
            "-f",
            "tick",
            "-q",
            "--duration",
            "10ms",
            "-o",
            out / "trace",
            *options,
            pid=pid,
            env=env,
        )
    )


def change(how, out, pid, env):
    """A second attach changes the session of the first."""
    first = how.start(
        "iprobe",
        "attach",
        "-f",
        "tick",
        "-q",
        "--duration",
        "150ms",
        "-o",
        out / "trace",
        pid=pid,
        env=env,
    )
    wait_until_live(first, pid)
    last_words(
        how.start(
            "iprobe", "attach", "-f", "tick", "--duration", "50ms", "-o", out / "second", pid=pid
        )
    )
    last_words(first)


def detach(how, out, pid, env):
    """Of what an iprobe has left that was killed."""
    first = how.start("iprobe", "attach", "-f", "tick", "-q", "-o", out / "trace", pid=pid)
    wait_until_live(first, pid)
    first.kill()
    last_words(first)
    last_words(how.start("iprobe", "detach", pid=pid, env=env))


def without_stop(how, out, pid, env):
    attach(how, out, pid, env, "--no-stop")


def without_stop_unasked(how, out, pid, env):
    attach(how, out, pid, env, "--payload", "count")


def fperf(how, out, pid, env):
    last_words(
        how.start("fperf", "-q", "--duration", "100ms", "-f", "tick", "-p", pid=pid, env=env)
    )


def snapshot(how, out, pid, env):
    first = how.start(
        "iprobe",
        "attach",
        "-q",
        "--overwrite",
        "--duration",
        "60ms",
        "-o",
        out / "trace",
        pid=pid,
        env=env,
    )
    last_words(how.start("iprobe", "snapshot", pid=pid))
    last_words(first)


# what is done, how many stops that takes, how many calls of ptrace()
WAYS = {
    "attach": (attach, 2, 90),
    "change": (change, 4, 90),
    "detach": (detach, 3, 60),
    "no-stop": (without_stop, 6, 60),
    "count": (without_stop_unasked, 6, 60),
    "fperf": (fperf, 6, 200),
    "snapshot": (snapshot, 2, 90),
}
SHARE = TRIES // (4 * len(WAYS))  # of one test


def outcome(target, what, may_be_interrupted):
    """Whether it executed the other program; which must have found nothing wrong with itself."""
    if target.alive() and target.proc.stdin:
        target.proc.stdin.close()
        target.proc.stdin = None
    done = last_words(target.proc)
    # of the thread that reads the end of its input, and the one that executes, both may come
    # through
    good = ["intact\n", "not executed\n", "not executed\nintact\n"] + [
        "interrupted\n"
    ] * may_be_interrupted
    assert done.returncode == 0 and done.stdout in good, f"{what}: {done!r}"
    return done.stdout != "not executed\n"


def exec_at_calls(
    how, owner, targets, program, victim, at_call, way, preload, may_be_interrupted=False
):
    """How often it was executed."""
    command, _, calls = WAYS[way]
    rng = random.Random(f"{way} {preload}")
    executed = 0
    for i in range(SHARE):
        out = owner.dir()
        fifo = out / "fifo"
        os.mkfifo(fifo)
        os.chown(fifo, owner.uid, owner.uid)
        target = targets.start(owner, [program, victim, fifo], preload=preload)
        # each of the first ones, where the threads are found and stopped; then any
        number = 1 + i if i < SHARE // 2 else rng.randrange(1, calls)
        command(
            how,
            out,
            target.pid,
            {"LD_PRELOAD": at_call, "AT_CALL": str(number), "AT_CALL_FIFO": str(fifo)},
        )
        executed += outcome(target, f"{way}, at call {number}", may_be_interrupted)
    return executed


def exec_in_stops(how, owner, targets, program, victim, way, preload, may_be_interrupted=False):
    """The same, as soon as the first thread stands; most of them early, while the first ones
    stand.
    """
    command, stops, _ = WAYS[way]
    rng = random.Random(f"{way} {preload}")
    executed = 0
    for i in range(SHARE):
        number, us = 1 + i % stops, int(LATEST * rng.random() ** 2)
        target = targets.start(owner, [program, victim, number, us], preload=preload)
        command(how, owner.dir(), target.pid, None)
        executed += outcome(target, f"{way}, stop {number}, {us} us", may_be_interrupted)
    return executed


@pytest.mark.parametrize("way", WAYS)
def test_another_program_at_a_call(me, targets, program, intact, at_call, way):
    executed = sum(
        exec_at_calls(Ours(me), me, targets, program, intact, at_call, way, preload)
        for preload in (True, False)
    )
    assert executed >= SHARE // 2


@pytest.mark.parametrize("way", WAYS)
def test_a_program_with_a_runtime_of_its_own_at_a_call(
    me, targets, programs, program, at_call, way
):
    """What was opened of the old image is not taken for the new one's: its shared memory is
    another.
    """
    reborn = programs.simple("reborn", placement="fentry")
    executed = exec_at_calls(Ours(me), me, targets, program, reborn, at_call, way, True)
    assert executed >= SHARE // 4


@pytest.mark.parametrize("way", WAYS)
def test_a_setuid_program_at_a_call(root, user, targets, program, setuid, at_call, way):
    """What may not be traced is left as it is: a wait that was broken off is, as by SIGSTOP."""
    executed = exec_at_calls(
        Worker(root, user),
        user,
        targets,
        program,
        setuid,
        at_call,
        way,
        True,
        may_be_interrupted=True,
    )
    assert executed >= SHARE // 4


def test_a_setuid_program_in_a_stop(root, user, targets, program, setuid):
    daemon = Daemon(root, root.dir()).start()
    executed = 0
    for way in WAYS:
        # injected, more is live than what the first stop has made so
        preload = way in ("change", "detach")
        executed += exec_in_stops(
            Asked(user, daemon),
            user,
            targets,
            program,
            setuid,
            way,
            preload,
            may_be_interrupted=True,
        )
    daemon.end()
    assert executed >= 2

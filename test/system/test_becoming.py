# SPDX-License-Identifier: Apache-2.0
"""
A process becomes undumpable, or another program, while a session goes on, or while it is being
put back: that process, its forked children that are followed, and the targets of rules.
"""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest

from iptest import memory
from iptest.actor import OTHER_UID, last_words
from iptest.daemon import Daemon

TRIES = 400 if os.environ.get("IPROBE_TEST_FULL") == "1" else 12
PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "programs"

pytestmark = pytest.mark.skipif(
    "ASAN_OPTIONS" in os.environ, reason="a sanitizer's runtime makes calls that filters forbid"
)


@pytest.fixture
def program(programs):
    return programs.simple("becoming", placement="fentry")


@pytest.fixture
def setuid(root):
    """A program that checks itself from its first instruction, of another user."""
    path = root.dir() / "intact"
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
            PROGRAMS / "intact.c",
        ],
        check=True,
    )
    os.chown(path, OTHER_UID, OTHER_UID)
    path.chmod(0o4755)
    return path


@pytest.fixture
def daemon(root):
    path = root.dir()
    path.chmod(0o755)
    made = Daemon(root, path).start()
    yield made
    made.end()


def tell(target, letter):
    target.proc.stdin.write(letter)
    target.proc.stdin.flush()
    assert target.proc.stdout.readline() == f"done {letter}\n"


def idle(pid):
    return not memory.text_differences(pid)


def children(pid):
    return [
        int(c)
        for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children")
        .read_text(encoding="utf-8")
        .split()
    ]


@pytest.mark.parametrize("preload", [True, False], ids=["preloaded", "injected"])
@pytest.mark.parametrize(
    "options", [[], ["--overwrite"], ["--payload", "hist"]], ids=["plain", "overwrite", "hist"]
)
def test_undumpable_in_a_session(daemon, user, targets, program, options, preload):
    """Its user could not trace it any more; it is not left with live sites."""
    target = targets.start(user, [program], preload=preload)
    proc = daemon.start_attach(user, target.pid, *options, cwd=user.dir())
    memory.wait_until_live(target.pid, proc)
    tell(target, "d")
    assert daemon.attach(user, target.pid, "-f", "main", cwd=user.dir()).returncode == 1
    proc.send_signal(signal.SIGINT)
    last_words(proc)
    memory.wait_for("sites stay live", lambda: idle(target.pid), 20)
    assert target.alive() and memory.status_field(target.pid, "TracerPid") == "0"
    assert daemon.attach(
        user, target.pid, "--duration", "10ms", cwd=user.dir()
    ).returncode == 1 and idle(target.pid)
    target.proc.stdin.close()
    target.proc.stdin = None
    assert last_words(target.proc).stdout == "good\n"


@pytest.mark.parametrize("preload", [True, False], ids=["preloaded", "injected"])
def test_undumpable_when_the_worker_is_killed(daemon, root, user, targets, program, preload):
    """iprobed cleans up with the rights of who asked, who has none any more: it says so, the
    target goes on, and root can put it back.
    """
    target = targets.start(user, [program], preload=preload)
    proc = daemon.start_attach(user, target.pid, cwd=user.dir())
    memory.wait_until_live(target.pid, proc)
    tell(target, "d")
    (worker,) = daemon.workers()
    os.kill(worker, signal.SIGKILL)
    last_words(proc)
    memory.wait_for(
        "iprobed does not say that it cannot",
        lambda: "has made itself undumpable" in daemon.log(),
        60,
    )
    memory.wait_for("it is held", lambda: memory.status_field(target.pid, "TracerPid") == "0", 60)
    assert target.alive() and not idle(target.pid)
    done = root.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    assert idle(target.pid)
    memory.assert_untouched(target.pid)
    target.proc.stdin.close()
    target.proc.stdin = None
    assert last_words(target.proc).stdout == "good\n"


def test_a_child_becomes_undumpable(daemon, user, targets, program):
    target = targets.start(user, [program])
    proc = daemon.start_attach(user, target.pid, "--follow-fork", cwd=user.dir())
    memory.wait_until_live(target.pid, proc)
    tell(target, "f")
    (child,) = children(target.pid)
    tell(target, "d")
    proc.send_signal(signal.SIGINT)
    last_words(proc)
    memory.wait_for("sites stay live", lambda: idle(target.pid), 20)
    for pid in (target.pid, child):
        assert (
            memory.status_field(pid, "TracerPid") == "0"
            and memory.status_field(pid, "State")[0] in "RS"
        )
    target.proc.stdin.close()
    target.proc.stdin = None
    assert last_words(target.proc).stdout == "good 0\n"


@pytest.mark.parametrize("who", ["root", "user"])
def test_a_child_executes_another_program(root, user, daemon, targets, program, setuid, who):
    """Just when what it has live is put back: what it has become is not touched."""
    caller = root if who == "root" else user
    rng = random.Random(3)
    for _ in range(TRIES):
        target = targets.start(user, [program, setuid])
        proc = caller.start_iprobe(
            "attach",
            "-q",
            "--follow-fork",
            "-o",
            caller.dir() / "trace",
            target.pid,
            env=daemon.env if caller is user else None,
        )
        memory.wait_until_live(target.pid, proc)
        tell(target, "f")
        if rng.random() < 0.5:
            memory.wait_for(
                "the child has nothing live",
                lambda: not all(idle(c) for c in children(target.pid)),
                5,
            )
        delay = rng.random() * 0.02
        for step in rng.sample(["end", "exec"], 2):
            if step == "end":
                proc.send_signal(signal.SIGINT)
            else:
                tell(target, "x")
            time.sleep(delay)
        last_words(proc)
        target.proc.stdin.close()
        target.proc.stdin = None
        done = last_words(target.proc)
        lines = sorted(done.stdout.splitlines())
        assert (
            lines[0] == "good 0"
            and lines[1:] in (["intact"], ["interrupted"])
            and done.returncode == 0
        ), repr(done)


def test_rules_and_a_program_that_executes_another(root, user, targets, programs, setuid):
    """As soon as its first thread stands for the session of a rule."""
    path = root.dir()
    path.chmod(0o755)
    program = programs.simple("execing", placement="fentry")
    (path / "probes.d").mkdir()
    (path / "probes.d" / "r.yaml").write_text(
        f"rules: {{r: {{match: {{exe: {program}}}, when: start, do: {{trace: tick}}, for: 20ms, "
        f"at_most: 1000 per 1h}}}}\n"
    )
    shutil.chown(setuid, "root", "root")
    setuid.chmod(0o4755)
    daemon = Daemon(root, path).start("--probes-d", path / "probes.d", "--traces", path / "traces")
    memory.wait_for("no rule is carried out", lambda: "carried out" in daemon.log(), 20)
    assert "1 carried out" in daemon.log(), daemon.log()
    time.sleep(1)  # what its first look finds has been there before
    rng = random.Random(5)
    executed = 0
    for i in range(4 * TRIES):  # a busy machine has the program miss the moment more often
        if i >= TRIES and executed >= TRIES // 12:
            break
        target = targets.start(
            user,
            [program, setuid, 1 + (i % 4 == 3), int(600 * rng.random() ** 2)],
            preload=i % 3 == 0,
        )
        memory.wait_for(
            "the rule does not fire", lambda pid=target.pid: f"pid {pid} " in daemon.log(), 30
        )
        time.sleep(0.3)
        target.proc.stdin.close()
        target.proc.stdin = None
        done = last_words(target.proc)
        assert done.returncode == 0 and done.stdout in (
            "intact\n",
            "interrupted\n",
            "not executed\n",
        ), f"{done!r}\n{daemon.log()}"
        executed += done.stdout != "not executed\n"
    assert executed >= TRIES // 12
    assert daemon.end() == 0

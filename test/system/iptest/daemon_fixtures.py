# SPDX-License-Identifier: Apache-2.0
"""An iprobed, its callers, and a process of one of them: fixtures of test_iprobed*.py."""

import os
import socket

import pytest

from . import memory
from .actor import ORDINARY_UID, OTHER_UID
from .daemon import GROUP, MEMBER_UID, Caller, Daemon

pytestmark = pytest.mark.skipif(
    "ASAN_OPTIONS" in os.environ,
    reason="a sanitizer's runtime makes calls that the filter of the socket's side forbids",
)
POLICY = f"members:\n  - users: [{ORDINARY_UID}]\n    programs: ['/*/standing*']\n"


@pytest.fixture
def daemon(root):
    path = root.dir()
    path.chmod(0o755)
    made = Daemon(root, path, POLICY).start()
    yield made
    made.end()


@pytest.fixture
def other(top, builddir):
    who = Caller("other", OTHER_UID, top, builddir)
    yield who
    who.cleanup()


@pytest.fixture
def member(top, builddir):
    who = Caller("member", MEMBER_UID, top, builddir, [GROUP])
    yield who
    who.cleanup()


@pytest.fixture
def program(programs):
    return programs.simple("standing", placement="fentry")


@pytest.fixture
def target(targets, user, program):
    return targets.start(user, [program, "plain"], preload=False)


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)


def idle(pid):
    return not memory.text_differences(pid)


def is_live(pid):
    """Not what an injection puts behind the code for a moment, where the file has zeros."""
    return any(any(d[3]) for d in memory.text_differences(pid))


def wait_until_live(pid):
    memory.wait_for("nothing goes live", lambda: is_live(pid), 60)


def wait_until_idle(pid):
    memory.wait_for("sites stay live", lambda: idle(pid), 60)


def wait_until_recorded(directory):
    """Something has come through to a stream."""

    def streams():
        return [
            p
            for p in directory.glob("*")
            if p.is_file() and p.name != "metadata" and p.stat().st_size
        ]

    memory.wait_for("nothing is recorded", streams, 60)


def until_recorded(attach):
    """What one says that recorded something, or was refused: on a busy machine the target may
    not have run in a short time.
    """
    for duration in ("50ms", "500ms", "5s"):
        done = attach("--json", "--duration", duration)
        if done.returncode or done.summary()["events"]:
            break
    return done


# What it is sent


def talk(daemon, packet, fds=()):
    """All that is answered."""
    answers = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(str(daemon.socket))
        s.settimeout(30)
        try:
            if fds:
                socket.send_fds(s, [packet], list(fds))
            else:
                s.send(packet)
            while answer := s.recv(4096).decode():
                answers.append(answer)
        except (ConnectionResetError, BrokenPipeError):
            pass
    return answers


def ask(daemon, packet, fds=()):
    """What is answered when it is over."""
    return (talk(daemon, packet, fds) or [""])[-1]

# SPDX-License-Identifier: Apache-2.0
"""Requests to iprobed: those that are malformed, and connections that say nothing."""

import os
import signal
import socket
from random import Random

import pytest

from iptest import memory
from iptest.actor import last_words, one_line
from iptest.daemon_fixtures import (  # noqa: F401
    ask,
    daemon,
    idle,
    other,
    program,
    pytestmark,
    status_of,
    talk,
    target,
    wait_until_live,
)
from iptest.fuse import StickyFiles


def test_the_socket_side_has_nothing(daemon):
    """Neither the process that waits for the next connection nor one that has one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(str(daemon.socket))
        memory.wait_for("no process at the connection", lambda: len(daemon.fronts()) == 2, 30)
        for front in daemon.fronts():
            memory.wait_for(
                "a process is not confined", lambda: status_of(front)["Seccomp"] == "2", 30
            )
            status = status_of(front)
            assert status["NoNewPrivs"] == "1"
            assert set(status["Uid"].split()) == {"65534"} and status["Groups"].strip() == ""
            assert int(status["CapPrm"], 16) == int(status["CapEff"], 16) == 0
            # standard input, output, error; orders, words, and the connection
            assert {int(fd) for fd in os.listdir(f"/proc/{front}/fd")} <= set(range(6))


def test_malformed_requests(daemon, user, target):
    good = b"iprobe 1\nattach %d\n" % target.pid
    bad = [
        b"x",
        b"iprobe 2\nattach 1\n",
        b"iprobe 1\n",
        b"iprobe 1\nattach 0\n",
        b"iprobe 1\nattach 1\nattach 1\n",
        good + b"\0",
        good,
        good + b"directory ../x\n",
        good + b"directory a/b\n",
        good + b"option --list=/etc/passwd\n",
        good + b"option -o/tmp\n",
        good + b"option --functions=@/etc/passwd\n",
        good + b"option --sample=2:@/etc/passwd\n",
        good + b"option --payload=user:/x\n",
        good + b"option --json=1\n",
        good + b"option --duration\n",
        good + b"option --no-such\n",
        good + b"nonsense\n",
        b"\n\n",
        b"\xff" * 60000,
        b"iprobe 1\nattach 1\n" + b"option --json\n" * 100,
        b"A" * 66000,
    ]
    with open("/dev/null", "r+b") as null:
        for packet in bad:
            assert ask(daemon, packet).startswith("refused "), packet[:80]
            assert ask(daemon, packet, [null.fileno()] * 2).startswith("refused "), packet[:80]
        # a directory that is none, and one that is sent where there is no room for it
        said = talk(daemon, good, [null.fileno()] * 3)[-1]
        assert said.startswith("failed cannot start a worker: the directory that was sent: ")
        ask(daemon, good, [null.fileno()] * 20)
    assert daemon.attach(user, target.pid, "-q", "--duration", "50ms").returncode == 0
    assert idle(target.pid)


def test_requests_of_random_words(daemon, user, target):
    random = Random(7)
    words = [
        b"iprobe 1\n",
        b"attach ",
        b"detach ",
        b"status ",
        b"snapshot ",
        b"top ",
        b"fperf ",
        b"--output=",
        b"/x",
        b"--delay=1",
        str(daemon.proc.pid).encode(),
        b"\n",
        b"leave\n",
        b"directory ",
        b"option ",
        b"--json\n",
        b"--functions=",
        b"\0",
        b"\xff",
        b"x" * 3000,
    ]
    with open("/dev/null", "r+b") as null:
        for _ in range(1000):
            packet = b"".join(random.choice(words) for _ in range(random.randrange(1, 12)))
            answer = ask(daemon, packet, [null.fileno()] * random.randrange(6))
            # iprobed itself is among what is asked for; it has nothing to be seen
            assert answer == "" or answer.startswith(("refused ", "ended ")), (packet, answer)
    memory.wait_for("processes stay", lambda: len(daemon.children()) == 1, 30)
    assert len(os.listdir(f"/proc/{daemon.proc.pid}/fd")) < 16
    assert daemon.attach(user, target.pid, "-q", "--duration", "50ms").returncode == 0


def test_connections_that_say_nothing(daemon, user, target):
    """They are closed, and other users are served meanwhile."""
    with_nothing = []
    for _ in range(40):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(30)
        s.connect(str(daemon.socket))
        with_nothing.append(s)
    assert daemon.attach(user, target.pid, "-q", "--duration", "50ms").returncode == 0
    answers = [s.recv(4096) for s in with_nothing]
    assert (
        sum(a.startswith(b"refused too many") for a in answers) >= 20 and answers.count(b"") >= 10
    )
    for s in with_nothing:
        s.close()


@pytest.fixture
def sticky(root):
    try:
        made = StickyFiles(root.dir())
    except OSError as error:
        pytest.skip(f"no file system of our own (FUSE) here: {error}")
    yield made
    made.end()


STICKY_CLIENT = """
import os, socket, sys
held = []
for i in range(int(sys.argv[3])):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(30)
    s.connect(sys.argv[1])
    fd = os.open(sys.argv[2], os.O_RDWR)
    try:
        socket.send_fds(s, [b"nonsense" if i % 2 else sys.argv[4].encode()], [fd, fd, fd])
    except OSError:
        pass  # turned away already
    held.append(s)
print("sent", flush=True)
sys.stdin.read()
"""


def test_descriptors_that_cannot_be_closed(daemon, user, other, targets, program, target, sticky):
    """Who sends such has iprobed's processes for his own connections hang, and is soon told that
    he has too many. Nobody else notices.
    """
    theirs = targets.start(other, [program, "plain"], preload=False)
    session = daemon.start_attach(other, theirs.pid, cwd=other.dir())
    wait_until_live(theirs.pid)
    request = f"iprobe 1\nattach {target.pid}\ndirectory x\n"
    client = user.popen(
        ["/usr/bin/python3", "-c", STICKY_CLIENT, daemon.socket, sticky.path, 60, request]
    )
    assert client.stdout.readline() == "sent\n"
    memory.wait_for("nothing hangs", lambda: len(sticky.held) >= 8, 60)
    one = targets.start(other, [program, "plain"], preload=False)
    done = daemon.attach(other, one.pid, "-q", "--duration", "50ms", cwd=other.dir())
    assert done.returncode == 0, repr(done)
    assert "too many connections" in one_line(daemon.attach(user, target.pid, "--duration", "50ms"))
    # 16 connections and their workers, one that waits, the other's two, and what closes those that
    # were turned away
    assert len(daemon.children()) <= 16 + 8 + 1 + 4 + 8, daemon.children()
    assert not idle(theirs.pid) and session.poll() is None
    session.send_signal(signal.SIGINT)
    assert last_words(session).returncode == 0 and idle(theirs.pid)
    sticky.release()
    client.stdin.close()
    client.wait(timeout=60)
    memory.wait_for("processes stay", lambda: len(daemon.children()) == 1, 60)
    assert (
        daemon.attach(user, target.pid, "-q", "--duration", "50ms", cwd=user.dir()).returncode == 0
    )
    assert idle(target.pid) and target.alive()

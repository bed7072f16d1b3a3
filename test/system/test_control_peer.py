# SPDX-License-Identifier: Apache-2.0
"""
Both ends of the control socket believe the kernel, not a name: somebody who poses as a session
is not believed, keeps nobody from recording, and has nothing printed; and a session obeys no
program but iprobe.
"""

import json
import os
import pathlib
import shutil
import struct

import pytest

from iptest import impostor, memory
from iptest.actor import end, last_words, one_line


@pytest.fixture
def steady(actor, targets, programs):
    return targets.steady(actor, programs.simple("steady"), "-t", "2")


@pytest.fixture
def posing(actor, steady):
    """Starts the impostor as the target's user."""
    script = actor.dir() / "impostor.py"
    shutil.copy(pathlib.Path(impostor.__file__), script)
    script.chmod(0o644)
    started = []

    def start(how, *command):
        proc = actor.popen(["/usr/bin/python3", script, steady.pid, how, *command])
        started.append(proc)
        assert proc.stdout.readline() == "listens\n", proc.stderr.read()
        return proc

    yield start
    for proc in started:
        end(proc)


def assert_nothing_forged(done):
    text = done.stdout + done.stderr
    assert (
        "FORGED" not in text
        and "all is well" not in text
        and "\x1b" not in text
        and "\x07" not in text
    ), repr(done)
    assert "77 function" not in text, repr(done)


def live(me, target):
    done = me.iprobe("status", "--json", target.pid)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)["patched"]


@pytest.mark.parametrize("how", ["listen", "lock"])
def test_who_poses_is_not_believed(root, actor, steady, posing, how):
    """By root, whoever's process it is, and by its own user."""
    posing(how)
    for asker in {root, actor}:
        for words in (
            ["snapshot", "-o", asker.dir() / "s"],
            ["hist"],
            ["attach", "--dry-run", "-f", "step_11"],
        ):
            done = asker.iprobe(*words, steady.pid)
            assert_nothing_forged(done)
            if words[0] != "attach" or how == "lock":
                one_line(done)
    if how == "lock":
        done = root.iprobe(
            "attach", "-f", "step_11", "--duration", "100ms", "-o", root.dir() / "t", steady.pid
        )
        assert_nothing_forged(done)
        assert "is not believed" in one_line(done) or "locked" in done.stderr
        assert "iprobe pid 77" not in done.stderr


def test_who_takes_the_name_keeps_nobody_away(root, actor, steady, posing):
    """The session listens all the same, and who asks finds it."""
    posing("listen")
    directory = root.dir() / "trace"
    session = root.start_iprobe("attach", "--json", "-f", "step_11", "-o", directory, steady.pid)
    memory.wait_until_live(steady.pid, session)
    done = root.iprobe("attach", "-f", "step_22", "--json", steady.pid)
    assert_nothing_forged(done)
    assert (
        done.returncode == 0
        and done.summary()["functions"] == 2
        and done.summary()["dir"] == str(directory)
    ), repr(done)
    session.send_signal(2)
    done = last_words(session)
    assert done.returncode == 0 and done.summary()["functions"] == 2, repr(done)
    memory.assert_untouched(steady.pid)


def test_a_descriptor_that_was_handed_on(root, actor, steady, posing):
    """What listens executes iprobe, which has the session; its child, which still has the
    socket, answers.
    """
    posing(
        "handed",
        actor.iprobe_path,
        "attach",
        "-f",
        "step_11",
        "-o",
        actor.dir() / "trace",
        steady.pid,
    )
    memory.wait_until_live(steady.pid)
    for asker in {root, actor}:
        done = asker.iprobe("snapshot", "-o", asker.dir() / "s", steady.pid)
        assert_nothing_forged(done)
        one_line(done)


ASK = """
import socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(20)
s.connect(sys.argv[1].replace("@", chr(0)))
s.send(struct.pack("<QIIIIQ", int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), 64, 0, 50000000) + sys.argv[5].encode())
answer = s.recv(1 << 17)
print(struct.unpack_from("<QI", answer)[1], answer[struct.calcsize("<QII") + 8 * 33:].decode(errors="replace"))
"""


def test_a_session_obeys_iprobe_alone(actor, targets, programs):
    """Another program of the same user changes nothing, and writes nowhere through it; that is
    for the target itself, too.
    """
    target = targets.steady(actor, programs.simple("steady"), "-t", "2")
    session = actor.start_iprobe(
        "attach", "-f", "step_11", "--overwrite", "-o", actor.dir() / "trace", target.pid
    )
    memory.wait_until_live(target.pid, session)
    before = live(actor, target)
    written = actor.dir() / "written"
    name = impostor.name_of(impostor.area_of(target.pid)).replace("\0", "@")
    for flags, text in ((0, "step_22"), (8, written)):
        done = actor.run(
            ["/usr/bin/python3", "-c", ASK, name, impostor.MAGIC, flags, target.pid, text]
        )
        assert done.stdout.startswith("1 ") and "no iprobe" in done.stdout, repr(done)
    assert live(actor, target) == before and not written.exists()
    session.send_signal(2)
    assert last_words(session).returncode == 0


def test_the_area_does_not_say_whom_to_blame(root, user, targets, programs):
    """Which process is said to have the session is what the kernel says, not what the target has
    written.
    """
    target = targets.steady(user, programs.simple("steady"), "-t", "2")
    session = root.start_iprobe("attach", "-f", "step_11", "-o", root.dir() / "trace", target.pid)
    memory.wait_until_live(target.pid, session)
    assert (
        json.loads(root.iprobe("status", "--json", target.pid).stdout)["session"]["iprobe"]
        == session.pid
    )
    with open(impostor.area_of(target.pid), "r+b") as f:
        data = f.read(4096)
        at = [i for i in range(0, 4092, 4) if struct.unpack_from("<I", data, i) == (session.pid,)]
        assert len(at) == 1
        f.seek(at[0])
        f.write(struct.pack("<I", os.getpid()))
    assert json.loads(root.iprobe("status", "--json", target.pid).stdout)["session"]["iprobe"] == 0
    with open(impostor.area_of(target.pid), "r+b") as f:
        f.seek(at[0])
        f.write(struct.pack("<I", session.pid))
    session.send_signal(2)
    assert last_words(session).returncode == 0

# SPDX-License-Identifier: Apache-2.0
"""Where a live log goes (--stream): files, devices and connections, and whoever takes it."""

import fcntl
import json
import os
import select
import socket
import stat
import threading
import time

import pytest

from iptest.actor import one_line
from iptest.stream_log import FUNCTIONS, attach, last, summary_of, target  # noqa: F401


class Receiver(threading.Thread):
    """Takes one connection, as nc -l does, and its bytes up to a number; then it closes, or with
    hold waits until it is ended.
    """

    def __init__(self, most=None, hold=False):
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.port = self.server.getsockname()[1]
        self.most, self.hold, self.data = most, hold, b""
        self.ended = threading.Event()
        self.start()

    def run(self):
        connection, _ = self.server.accept()
        self.server.close()
        with connection:
            while self.most is None or len(self.data) < self.most:
                part = connection.recv(65536)
                self.data += part
                if not part:
                    return
            if self.hold:
                self.ended.wait(60)

    def finish(self):
        self.ended.set()
        self.join(30)
        return self.data


@pytest.mark.parametrize("options", [[], ["--args"], ["--args", "hang(us)"]])
def test_connection(me, target, options):
    """There is one, although the options are checked before."""
    receiver = Receiver()
    summary = summary_of(attach(me, target, f"127.0.0.1:{receiver.port}", *options))
    data = receiver.finish()
    assert summary["stream"]["bytes"] == len(data) and summary["stream"]["bytes_not_taken"] == 0
    path = me.dir() / "log"
    path.write_bytes(data)
    found = last(me, path)
    assert found["end"] and found["records"] == summary["events"]


def test_dry_run(me, target):
    """It makes no file."""
    path = me.dir() / "log"
    done = me.iprobe("attach", target.pid, "--dry-run", "--stream", path, "-f", FUNCTIONS)
    assert done.returncode == 0 and not path.exists(), repr(done)


def test_nobody_takes_it(me, target):
    """That is told before the process is touched."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    line = one_line(attach(me, target, f"127.0.0.1:{port}"))
    assert f"127.0.0.1:{port}" in line and "refused" in line
    assert json.loads(me.iprobe("status", "--json", target.pid).stdout)["patched"] == 0


def test_an_attach_that_fails(me, target):
    """The log was begun: the error is told, and nothing else happens."""
    path = me.dir() / "log"
    line = one_line(attach(me, target, path, "--stop", "--max-stop", "1us"))
    assert "--stream" not in line and target.alive()
    found = last(me, path)
    assert found["end"] is None and found["threads"] == []
    assert json.loads(me.iprobe("status", "--json", target.pid).stdout)["patched"] == 0


def test_receiver_goes_away(me, target):
    """The log ends, which is told; the recording goes on."""
    receiver = Receiver(most=4000)
    done = attach(me, target, f"127.0.0.1:{receiver.port}", seconds="1s")
    summary = summary_of(done)
    receiver.finish()
    assert summary["stream"]["error"] and summary["stream"]["dropped"] > 0
    assert "the live log ends here, the recording goes on" in done.stderr, repr(done)
    assert summary["lost"] == 0 and summary["end"] == "duration over"


def test_receiver_is_stuck(me, programs, targets):
    """Nobody waits for it: what finds no room is dropped and counted, in the log as well."""
    program = programs.simple("last_calls")
    target = targets.start(me, [program, me.dir() / "notes", 1, 0])
    receiver = Receiver(most=20000, hold=True)
    began = time.monotonic()
    done = attach(
        *(me, target, f"127.0.0.1:{receiver.port}", "--max-size", "4G"), seconds="1500ms"
    )
    assert time.monotonic() - began < 30
    summary = summary_of(done)
    receiver.finish()
    assert summary["stream"]["dropped"] > 0 and summary["stream"]["bytes_not_taken"] > 0
    assert target.alive()


def test_slow_receiver_hears_of_it(me, programs, targets):
    """It gets what had room, and how much had none."""
    program = programs.simple("last_calls")
    target = targets.start(me, [program, me.dir() / "notes", 1, 0])
    path = me.dir() / "pipe"
    os.mkfifo(path)
    os.chmod(path, 0o666)
    data, go = [], threading.Event()

    def read():
        with open(path, "rb") as pipe:
            go.wait(60)
            data.append(pipe.read())

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(0.1)
    proc = me.start_iprobe(
        *("attach", target.pid, "--json", "--stream", path, "-f", FUNCTIONS),
        *("--duration", "1500ms", "-o", me.dir() / "trace", "--max-size", "4G"),
    )
    time.sleep(1.2)
    go.set()
    out, err = proc.communicate(timeout=60)
    reader.join(30)
    summary = json.loads(out)
    assert summary["stream"]["dropped"] > 0, (out, err)
    log = me.dir() / "log"
    log.write_bytes(data[0])
    found = last(me, log)
    assert found["end"] and found["dropped"] == summary["stream"]["dropped"]
    assert found["records"] == summary["stream"]["records"]
    # the call that was open while records were dropped may be another one by then
    opened = [call for t in found["threads"] for call in t["open"]]
    assert all(call.get("unsure") for call in opened if call["function"] == "work") and opened


def test_places_that_are_refused(me, target):
    """Nothing that is there is written over by mistake."""
    there, link, folder = me.dir() / "there", me.dir() / "link", me.dir()
    there.write_text("precious")
    there.chmod(0o666)
    link.symlink_to(me.dir() / "elsewhere")
    pipe = me.dir() / "pipe"
    os.mkfifo(pipe)
    os.chmod(pipe, 0o666)
    for place, why in (
        (there, "the file is there already"),
        (link, "neither a regular file nor a pipe"),
        (folder, "neither a regular file nor a pipe"),
        (pipe, "nobody reads this pipe"),
        ("/dev/null", "named as device:/dev/null"),
        (f"device:{there}", "it is no device"),
        ("device:/dev/no-such", "cannot open it"),
        ("/no-such/log", "cannot open it"),
        ("no.such.host.invalid:5000", "no.such.host.invalid:5000"),
    ):
        line = one_line(attach(me, target, place))
        assert why in line, line
    assert there.read_text() == "precious" and not os.path.exists(me.dir() / "elsewhere")
    summary_of(attach(me, target, "device:/dev/null"))


def test_files_that_others_may_use(me, target):
    """An empty file is taken if it is ours alone."""
    for mode in (0o604, 0o640, 0o620, 0o602):
        place = me.dir() / "log"
        place.touch()
        place.chmod(mode)
        assert "other users may use the file" in one_line(attach(me, target, place))
    place, other = me.dir() / "log", me.dir() / "other"
    place.touch()
    place.chmod(0o600)
    other.hardlink_to(place)
    assert "another name" in one_line(attach(me, target, place))
    other.unlink()
    with open(place) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another program writes to it" in one_line(attach(me, target, place))
    assert place.stat().st_size == 0
    summary_of(attach(me, target, place))


def test_a_pipe_that_is_no_device(me, target):
    """It is not opened: whoever reads it would take that for the log's end."""
    pipe = me.dir() / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert "it is no device" in one_line(attach(me, target, f"device:{pipe}"))
        # POLLHUP: there was a writer, and it is gone
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        assert poll.poll(0) == []
    finally:
        os.close(reader)


@pytest.fixture
def disk(root):
    """(a block device of 4 MiB, its image)"""
    image = root.dir() / "image"
    image.write_bytes(bytes(4 << 20))
    made = root.run(["losetup", "-f", "--show", image])
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    yield made.stdout.strip(), image
    assert root.run(["losetup", "-d", made.stdout.strip()]).returncode == 0


def test_block_device(root, programs, targets, disk):
    """It is written from its start; one that is mounted or in use is refused; what an earlier log
    has left there is not read.
    """
    device, image = disk
    program = programs.simple("last_calls")
    target = targets.start(root, [program, root.dir() / "notes", 2, 300])
    assert f"named as device:{device}" in one_line(attach(root, target, device))
    for seconds in ("600ms", "300ms"):
        summary = summary_of(attach(root, target, f"device:{device}", seconds=seconds))
        assert "error" not in summary["stream"] and summary["stream"]["longest_sync_ns"] > 0
        for path in (device, image):
            found = last(root, path)
            assert found["end"] and found["records"] == summary["stream"]["records"], found
            assert not found["missing_batches"]
    # the disk ends: the log ends with it, which is told
    fast = targets.start(root, [program, root.dir() / "notes", 1, 0])
    done = attach(root, fast, f"device:{device}", "--max-size", "4G", seconds="1s")
    assert "No space left on device" in summary_of(done)["stream"]["error"]
    found = last(root, device)
    assert found["end"] is None and 0 < found["records"] < json.loads(done.stdout)["events"]
    held = os.open(device, os.O_RDONLY | os.O_EXCL)
    try:
        assert "another program has it" in one_line(attach(root, target, f"device:{device}"))
    finally:
        os.close(held)
    made = root.run(["mkfs.ext2", "-q", device])
    assert made.returncode == 0, repr(made)
    folder = root.dir()
    mounted = root.run(["mount", device, folder])
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.strip()}")
    try:
        assert "it is mounted" in one_line(attach(root, target, f"device:{device}"))
    finally:
        assert root.run(["umount", folder]).returncode == 0
    assert root.run(["e2fsck", "-fn", device]).returncode == 0


def test_as_an_ordinary_user(user, root, programs, targets):
    """Their own process, into their own file; none of another user's, though all may write it."""
    program = programs.simple("last_calls")
    target = targets.start(user, [program, user.dir() / "notes", 2, 300])
    path = user.dir() / "log"
    summary = summary_of(attach(user, target, path))
    assert last(user, path)["records"] == summary["stream"]["records"] > 0
    status = path.stat()
    assert status.st_uid == user.uid and stat.S_IMODE(status.st_mode) == 0o600
    others = root.dir() / "empty"
    others.touch()
    others.chmod(0o666)
    root.top.chmod(0o755)
    others.parent.chmod(0o755)
    assert "it is another user's" in one_line(attach(user, target, others))
    # their own may be there, as long as it is empty
    own = user.dir() / "own"
    assert user.run(["install", "-m", "600", "/dev/null", own]).returncode == 0
    summary_of(attach(user, target, own))

# SPDX-License-Identifier: Apache-2.0
"""A worker of iprobed that the kernel kills for want of memory, in a control group, while its
target has live sites.
"""

import contextlib
import errno
import os
import pathlib
import signal
import time

import pytest

from iptest import memory
from iptest.actor import last_words
from iptest.daemon import Daemon

LEAST = 64 << 10  # bytes: less than any change of a session takes

pytestmark = pytest.mark.skipif(
    "ASAN_OPTIONS" in os.environ,
    reason="a sanitizer's runtime makes calls that the filter of the socket's side forbids",
)


class Group:
    """A control group with a memory controller, of version 2 or 1."""

    def __init__(self):
        unified = next(
            (
                p
                for p in (pathlib.Path("/sys/fs/cgroup"), pathlib.Path("/sys/fs/cgroup/unified"))
                if (p / "cgroup.controllers").exists()
            ),
            None,
        )
        old = pathlib.Path("/sys/fs/cgroup/memory")
        self.new = (
            unified is not None
            and "memory" in (unified / "cgroup.subtree_control").read_text(encoding="utf-8").split()
        )
        if not self.new and not (old / "memory.limit_in_bytes").exists():
            pytest.skip(
                "no memory controller: neither in cgroup.subtree_control of version 2 nor mounted "
                "at /sys/fs/cgroup/memory"
            )
        self.path = (unified if self.new else old) / f"iprobe-test-{os.getpid()}"
        try:
            self.path.mkdir()
            self.write("memory.max" if self.new else "memory.limit_in_bytes", 1 << 30)
        except OSError as e:
            pytest.skip(f"no control group of ours can be made: {e}")

    def write(self, name, what):
        (self.path / name).write_text(str(what), encoding="utf-8")

    def add(self, pid):
        self.write("cgroup.procs", pid)

    def limit(self, size):
        """To that, or to what is used: of more than the limit version 1 says EBUSY, where
        nothing can be given back.
        """
        for _ in range(100):
            try:
                self.write("memory.max" if self.new else "memory.limit_in_bytes", size)
                break
            except OSError as e:
                if self.new or e.errno != errno.EBUSY:
                    raise
                size = int((self.path / "memory.usage_in_bytes").read_text(encoding="utf-8"))
        with contextlib.suppress(OSError):
            self.write(
                "memory.swap.max" if self.new else "memory.memsw.limit_in_bytes",
                0 if self.new else size,
            )

    def kills(self):
        name = "memory.events" if self.new else "memory.oom_control"
        words = dict(
            line.split() for line in (self.path / name).read_text(encoding="utf-8").splitlines()
        )
        return int(words["oom_kill"])

    def remove(self):
        with contextlib.suppress(OSError):
            memory.wait_for(
                "the group has processes",
                lambda: not (self.path / "cgroup.procs").read_text(encoding="utf-8"),
                10,
            )
            self.path.rmdir()


@pytest.fixture
def group(root):
    if os.getuid():
        pytest.skip("not root")
    made = Group()
    yield made
    made.remove()


@pytest.mark.parametrize(
    "options", [[], ["--overwrite"], ["--payload", "hist"]], ids=["plain", "overwrite", "hist"]
)
def test_killed_for_want_of_memory(root, user, targets, programs, group, options):
    """The target lives, and every byte is put back, by iprobed."""
    path = root.dir()
    path.chmod(0o755)
    daemon = Daemon(root, path).start()
    target = targets.start(user, [programs.simple("serving", placement="fentry")], preload=False)
    before = memory.text_differences(target.pid)
    proc = daemon.start_attach(user, target.pid, *options, cwd=user.dir())
    memory.wait_for("nothing goes live", lambda: memory.text_differences(target.pid) != before, 60)
    (worker,) = daemon.workers()
    group.add(worker)
    group.limit(LEAST)
    until = time.monotonic() + 60
    while not group.kills():
        assert time.monotonic() < until, daemon.log()
        # a change, which takes memory of the worker's; where that is gone already, it is a session
        # of its own, without an end
        change = user.start_iprobe(
            "attach",
            "-f",
            ["handle", "parse", "*"][int(time.monotonic() * 10) % 3],
            target.pid,
            env=daemon.env,
        )
        memory.wait_for(
            "the change does not end", lambda: change.poll() is not None or group.kills(), 60, 0.01
        )
        if change.poll() is None:
            change.send_signal(signal.SIGINT)
        last_words(change)
    proc.communicate(timeout=60)
    assert proc.returncode != 0
    memory.wait_for("sites stay live", lambda: memory.text_differences(target.pid) == before, 60)
    memory.wait_for(
        "notes stay", lambda: [p.name for p in daemon.state.iterdir()] in ([], ["sock"]), 60
    )
    assert "its worker was killed by signal 9" in daemon.log()
    assert target.alive() and memory.status_field(target.pid, "TracerPid") == "0"
    assert (
        daemon.attach(user, target.pid, "-q", "--duration", "50ms", cwd=user.dir()).returncode == 0
    )
    assert daemon.end() == 0

# SPDX-License-Identifier: Apache-2.0
"""What the first hours on servers of several processes share: Debian's sources, who runs the
server, and a recording of a whole service beside the test.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "system"))

from iptest import memory, time_scale  # noqa: E402
from iptest.actor import ORDINARY_UID, Actor  # noqa: E402

BUILD = Path(os.environ.get("IPROBE_BUILD", ROOT / "build")).resolve()
IPROBE_CC = BUILD / "coldpatch" / "iprobe-cc"


def sh(command, cwd, timeout=600, check=True, **env):
    """Runs a step of a build; its output is in the assertion where it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C.UTF-8", **env},
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert (
        not check or done.returncode == 0
    ), f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done


def fetch(package, folder):
    done = sh([ROOT / "scripts" / "fetch-source", package, folder], ROOT, check=False)
    if done.returncode:
        pytest.skip(done.stderr.strip())


def folder_for_all():
    """A folder that other users may enter; the caller removes it."""
    folder = Path(tempfile.mkdtemp(prefix="iprobe-server-"))
    folder.chmod(0o755)
    return folder


def ordinary(top):
    """An ordinary user: the one who runs the tests, or one that root becomes."""
    return Actor("user", ORDINARY_UID if os.getuid() == 0 else os.getuid(), top, BUILD)


@contextlib.contextmanager
def slow_disk(folder, rate):
    """A folder on a file system of its own, by FUSE. rate: how slow it is, as bindfs has it."""
    if not shutil.which("bindfs") or not os.path.exists("/dev/fuse"):
        pytest.skip("no bindfs here (scripts/install-deps test), or no FUSE")
    real, mounted = folder / "real", folder / "disk"
    real.mkdir()
    mounted.mkdir()
    sh(["bindfs", rate, real, mounted], folder)
    try:
        yield real, mounted
    finally:
        sh(["umount", mounted], folder)


@contextlib.contextmanager
def busy_cpu(cpu):
    """A program with a higher priority has a CPU: yes."""
    hog = subprocess.Popen(
        ["nice", "-n", "-20", "taskset", "-c", cpu, "yes"], stdout=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        hog.kill()
        hog.wait()


def cpu_was_taken(said):
    """Whether what iprobe wait says has busy_cpu()'s program among the three that had the CPU for
    longest: others of the machine may want it, too."""
    return re.search(r"the CPU had .*\byes \(\d+\)", said)


def hold_lock(folder):
    """The library that holds a lock of a program too long (test/programs/hold_lock.c)."""
    library = folder / "hold.so"
    source = ROOT / "test" / "programs" / "hold_lock.c"
    sh([IPROBE_CC, "-O2", "-g", "-fPIC", "-shared", "-pthread", source, "-o", library], ROOT)
    return library


def first_lines(said):
    """The three lines that iprobe wait says first, without what heads columns."""
    lines = [line for line in said.splitlines() if line and not line.startswith("#")]
    return "\n".join(lines[lines[0].split()[0] == "CALLS" :][:3])


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


class Recording:
    """iprobe attach on a service, begun when each process of live has live sites."""

    def __init__(self, actor, words, live, *options, text=False):
        self.actor, self.dir = actor, actor.dir() / "trace"
        form = [] if text else ["--json", "-q"]
        self.proc = actor.start_iprobe("attach", *words, *form, "-o", self.dir, *options)
        self.join(live)

    def join(self, pids, begun=False):
        """Waits until they have live sites; begun: in a session of their own, which those that
        they were forked with are not.
        """
        try:
            for pid in pids:
                if begun:
                    memory.wait_for(
                        f"{pid} has no session",
                        lambda pid=pid: any(self.dir.glob(f"*-{pid}/metadata")),
                        30,
                    )
                memory.wait_until_live(pid, self.proc, timeout=30)
        except AssertionError as error:
            self.proc.send_signal(signal.SIGINT)
            raise AssertionError(f"{error}\n{self.proc.communicate(timeout=60)}") from None

    def wait(self, code=0):
        """What it said at its end: stdout and stderr."""
        out, err = self.proc.communicate(timeout=120)
        assert self.proc.returncode == code, err
        return out, err

    def end(self):
        """The summary."""
        self.proc.send_signal(signal.SIGINT)
        return json.loads(self.wait()[0])

    def member(self, pid):
        """The trace of the session that began with a process."""
        (found,) = [path for path in self.dir.iterdir() if path.name.endswith(f"-{pid}")]
        return found

    def rows(self, *options, trace=None):
        """Rows of the report by their function."""
        done = self.actor.iprobe("report", "--json", *options, trace or self.dir, timeout=120)
        assert done.returncode == 0, repr(done)
        return {row["function"]: row for row in json.loads(done.stdout)["functions"]}

    def calls_by_process(self, function):
        done = self.actor.iprobe(
            "report", "--json", "--by", "process", "-f", function, self.dir, timeout=120
        )
        assert done.returncode == 0, repr(done)
        return {row["pid"]: row["calls"] for row in json.loads(done.stdout)["rows"]}

    def members(self):
        return sorted(path.parent for path in self.dir.glob("*-*/metadata"))

    def events(self, *options, trace=None):
        done = self.actor.iprobe("dump", "--json", *options, trace or self.dir, timeout=120)
        assert done.returncode == 0, repr(done)
        return [json.loads(line) for line in done.stdout.splitlines()]


def nothing_is_left(actor, pids):
    """Each byte is what it was: by iprobe's own look, and by another one."""
    done = actor.iprobe("status", "--json", *pids)
    assert done.returncode == 0, repr(done)
    told = json.loads(done.stdout)
    for status in told if isinstance(told, list) else [told]:
        assert status["patched"] == 0, status
        assert all(module["text_matches_file"] for module in status["modules"]), status
    for pid in pids:
        memory.assert_untouched(pid)

# SPDX-License-Identifier: Apache-2.0
"""
Who runs a command: root, or an ordinary user on that user's own processes.

Every process is started with IPROBE_TEST_MARK in its environment, so that one that is left
behind is found, and in a process group of its own, so that it is ended without touching anything
else. Not in a session of its own: the kernel schedules sessions as groups, and under thread
churn was seen to leave a group of one process waiting for seconds.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from . import time_scale

MARK = f"IPROBE_TEST_MARK={os.getpid()}"
ORDINARY_UID = 64231  # nobody's: no account has it, so that counts of processes by user are ours
OTHER_UID = 64232

# A command that has not ended after this time hangs.
PATIENCE = time_scale.scaled(60)


def stops_of(summary):
    """Lengths of the stops that changed something: where the machine is busy there are others."""
    return [s["stop_us"] for s in summary["stops"] if not s.get("failed")]


class Result:
    """What a finished command said."""

    def __init__(self, args, returncode, stdout, stderr):
        self.args, self.returncode, self.stdout, self.stderr = args, returncode, stdout, stderr

    def summary(self):
        """The JSON that `run` and `attach` print last."""
        return json.loads(self.stdout.rstrip().rsplit("\n", 1)[-1])

    def stops(self):
        return stops_of(self.summary())

    def __repr__(self):
        return (
            f"{' '.join(map(str, self.args))}\n  exit {self.returncode}\n  stdout: "
            f"{self.stdout[-2000:]!r}\n"
            f"  stderr: {self.stderr[-2000:]!r}"
        )


def last_words(proc, timeout=60):
    """Waits for a Popen that has pipes; a Result."""
    timeout = time_scale.scaled(timeout)
    try:
        out, err = proc.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(proc.pid, signal.SIGKILL)
        out, err = proc.communicate()
        raise AssertionError(f"hangs: {Result(proc.args, None, out, err)!r}") from None
    return Result(proc.args, proc.returncode, out, err)


class Actor:
    """A user id that commands and targets run under; `dir()` gives directories that it may write
    to.
    """

    def __init__(self, name, uid, top, builddir):
        self.name, self.uid, self.builddir = name, uid, pathlib.Path(builddir)
        self.top = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=top))
        self.top.chmod(0o755)
        if uid != os.getuid():
            os.chown(self.top, uid, uid)
        self.procs = []

    def __str__(self):
        return self.name

    @property
    def is_root(self):
        return self.uid == 0

    def dir(self):
        path = pathlib.Path(tempfile.mkdtemp(dir=self.top))
        path.chmod(0o755)
        if self.uid != os.getuid():
            os.chown(path, self.uid, self.uid)
        return path

    def argv(self, args):
        args = [str(a) for a in args]
        if self.uid != os.getuid():
            args = [
                "setpriv",
                f"--reuid={self.uid}",
                f"--regid={self.uid}",
                "--clear-groups",
                *args,
            ]
        return args

    def popen(self, args, env=None, **kw):
        """Starts a command; the caller's fixture ends it with end_all()."""
        name, value = MARK.split("=")
        full = {
            **os.environ,
            name: value,
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.top),
            **(env or {}),
        }
        for key in ("stdin", "stdout", "stderr"):
            kw.setdefault(key, subprocess.PIPE)
        kw.setdefault("cwd", self.top)
        kw.setdefault("text", True)
        proc = subprocess.Popen(self.argv(args), env=full, process_group=0, **kw)
        self.procs.append(proc)
        return proc

    def run(self, args, timeout=60, input="", **kw):
        timeout = time_scale.scaled(timeout)
        proc = self.popen(args, **kw)
        try:
            out, err = proc.communicate(input=input, timeout=timeout)
        except subprocess.TimeoutExpired:
            end(proc)
            out, err = "", ""
            raise AssertionError(f"hangs after {timeout} s: {' '.join(map(str, args))}") from None
        finally:
            if proc.poll() is not None and proc in self.procs:
                self.procs.remove(proc)
        return Result(args, proc.returncode, out or "", err or "")

    @property
    def iprobe_path(self):
        return self.builddir / "cli" / "iprobe"

    @property
    def runtime_path(self):
        return self.builddir / "runtime" / "libiprobe-rt.so"

    def iprobe(self, *args, **kw):
        return self.run([self.iprobe_path, *args], **kw)

    def start_iprobe(self, *args, **kw):
        return self.popen([self.iprobe_path, *args], **kw)

    def end_all(self):
        for proc in self.procs:
            end(proc)
        self.procs.clear()

    def cleanup(self):
        self.end_all()
        shutil.rmtree(self.top, ignore_errors=True)


def end(proc):
    """Ends a process that we started and those it started, whatever state they are in."""
    if proc.poll() is None:
        # Not yet waited for, so the number still means the group that popen() made.
        os.killpg(proc.pid, signal.SIGKILL)
    try:
        proc.wait(timeout=time_scale.scaled(10))
    except subprocess.TimeoutExpired:
        print(f"cannot be ended: {proc.args}", file=sys.stderr)
    for stream in (proc.stdin, proc.stdout, proc.stderr):
        if stream:
            try:
                stream.close()
            except OSError:
                pass


def marked_processes():
    """(pid, command line) of each process that any test started and that still lives."""
    found = []
    mark = MARK.encode()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(
                    (
                        int(entry.name),
                        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(),
                    )
                )
        except OSError:
            continue
    return found


def one_line(result):
    """The promise for every refusal: exit 1 and exactly one line on stderr. Returns the line."""
    assert result.returncode == 1, repr(result)
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].strip(), repr(result)
    return lines[0]

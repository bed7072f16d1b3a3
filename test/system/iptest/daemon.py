# SPDX-License-Identifier: Apache-2.0
"""An iprobed of the test's own, and callers of it."""

import os
import pathlib
import socket
import subprocess

from . import actor as actors
from . import memory

GROUP = 64300
MEMBER_UID = 64233


class Caller(actors.Actor):
    """A user who asks; groups: supplementary ones."""

    def __init__(self, name, uid, top, builddir, groups=()):
        super().__init__(name, uid, top, builddir)
        self.groups = groups

    def argv(self, args):
        args = [str(a) for a in args]
        if self.uid != os.getuid():
            groups = (
                [f"--groups={','.join(map(str, self.groups))}"]
                if self.groups
                else ["--clear-groups"]
            )
            args = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", *groups, *args]
        return args


class Daemon:
    def __init__(self, actor, top, policy=""):
        self.actor, self.top = actor, pathlib.Path(top)
        self.socket, self.state, self.log_path = (
            self.top / "sock",
            self.top / "state",
            self.top / "log",
        )
        self.policy = self.top / "policy.yaml"
        self.policy.write_text(policy)
        self.policy.chmod(0o644)
        self.proc = None

    def start(self, *options, before=(), env=None):
        """before: a command in front of it. Rules of this machine are not for tests."""
        if not any(str(option).startswith(("--rule", "--probes-d")) for option in options):
            options = ("--no-rules", *options)
        with open(self.log_path, "a", encoding="utf-8") as log:
            self.proc = self.actor.popen(
                [
                    *before,
                    self.actor.builddir / "cli" / "iprobed",
                    "--socket",
                    self.socket,
                    "--state",
                    self.state,
                    "--policy",
                    self.policy,
                    "--group",
                    GROUP,
                    *options,
                ],
                stderr=log,
                env=env,
            )
        memory.wait_for(
            "iprobed does not serve", lambda: self.proc.poll() is not None or self.answers(), 30
        )
        assert self.proc.poll() is None, self.log()
        return self

    def answers(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            try:
                s.connect(str(self.socket))
            except OSError:
                return False
            return True

    def log(self):
        return self.log_path.read_text(encoding="utf-8")

    @property
    def env(self):
        return {"IPROBE_SOCKET": str(self.socket), "IPROBE_DAEMON": "always"}

    def children(self):
        done = subprocess.run(
            ["ps", "-o", "pid=,comm=", "--ppid", str(self.proc.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        return {int(line.split()[0]): line.split()[1] for line in done.stdout.splitlines()}

    def fronts(self):
        """At connections, and the one that waits for the next."""
        return [pid for pid, name in self.children().items() if name == "iprobed-socket"]

    def taken(self):
        """Those at connections: they have one more descriptor."""
        return [pid for pid in self.fronts() if os.path.exists(f"/proc/{pid}/fd/5")]

    def workers(self):
        return [pid for pid, name in self.children().items() if name == "iprobe"]

    def attach(self, who, pid, *options, directory="trace", **kw):
        return who.iprobe("attach", "-o", directory, *options, pid, env=self.env, **kw)

    def start_attach(self, who, pid, *options, directory="trace", **kw):
        return who.start_iprobe("attach", "-o", directory, *options, pid, env=self.env, **kw)

    def end(self):
        if self.proc and self.proc.poll() is None:
            self.proc.terminate()
        return self.proc.wait(timeout=actors.PATIENCE)

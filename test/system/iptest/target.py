# SPDX-License-Identifier: Apache-2.0
"""Targets: programs started with the runtime preloaded, which say "ready" and then live until
their stdin is closed.
"""

import fcntl
import os
import struct
import tempfile

from . import actor as actors
from . import memory

BEATS = 65  # as in steady.c


def runtime_for(actor, program):
    """The runtime of the program's class: that for 32 bits lies in a folder beside the other."""
    try:
        with open(program, "rb") as f:
            bits = {1: 32, 2: 64}.get(f.read(5)[4])
    except (OSError, IndexError):
        bits = 64  # a command out of PATH
    return (
        actor.runtime_path.parent / "32" / actor.runtime_path.name
        if bits == 32
        else actor.runtime_path
    )


class Target:
    """One running program. `pid` is that of the program itself: setpriv and the like have been
    replaced by exec.
    """

    def __init__(self, proc, program, beats=None):
        self.proc, self.pid, self.program, self.beats_path = proc, proc.pid, program, beats
        self.beating = range(8)  # of the beats, those that move

    def alive(self):
        return self.proc.poll() is None

    def beats(self):
        """Rounds of checks that each thread has done so far."""
        data = self.beats_path.read_bytes()
        return struct.unpack(f"<{BEATS}Q", data)

    def wait_for_progress(self, timeout=30):
        """Each checking thread does one more round; a wrong result would have ended the program."""
        before = self.beats()

        def all_moved():
            assert (
                self.alive()
            ), f"the target died: {self.proc.returncode} {self.proc.stderr.read()}"
            now = self.beats()
            return all(now[i] > before[i] for i in self.beating)

        memory.wait_for("a thread of the target makes no progress", all_moved, timeout, 0.002)

    def say(self, line=""):
        self.proc.stdin.write(line + "\n")
        self.proc.stdin.flush()

    def finish(self, timeout=60):
        """Closes stdin and waits for a good end."""
        result = actors.last_words(self.proc, timeout)
        assert result.returncode == 0, repr(result)
        return result


class Targets:
    """Ends what it has started."""

    def __init__(self):
        self.made = []
        self.alone = -1

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for target in self.made:
            actors.end(target.proc)
        if self.alone >= 0:
            os.close(self.alone)

    def churn_alone(self):
        """Two programs that make threads all the time keep everybody else from the CPUs, for a
        minute even (Linux 6.18): of tests that run beside each other one has such a program at a
        time.
        """
        if self.alone < 0:
            self.alone = os.open(tempfile.gettempdir(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self.alone, fcntl.LOCK_EX)

    def start(self, actor, args, preload=True, wait=True, beats=None, env=None, **kw):
        env = dict(env or {})
        if preload:
            env["LD_PRELOAD"] = str(runtime_for(actor, args[0]))
        # LD_PRELOAD must not reach setpriv: a set of variables for the program alone.
        args = ["env", *[f"{k}={v}" for k, v in env.items()], *map(str, args)]
        program = args[1 + len(env)]
        proc = actor.popen(args, **kw)
        target = Target(proc, program, beats)
        self.made.append(target)
        if wait:
            line = proc.stdout.readline()
            assert (
                line == "ready\n"
            ), f"{args} said {line!r}, {proc.stderr.read() if not line else ''}"
        return target

    def steady(self, actor, program, *flags, preload=True):
        """The program that checks its own arithmetic, with all of its threads under way."""
        if "-c" in flags:
            self.churn_alone()
        beats = actor.dir() / "beats"
        target = self.start(actor, [program, "-b", beats, *flags], preload, beats=beats)
        threads = int(flags[flags.index("-t") + 1]) if "-t" in flags else 8
        target.beating = [*range(threads), *([BEATS - 1] if "-c" in flags else [])]
        target.wait_for_progress()
        return target

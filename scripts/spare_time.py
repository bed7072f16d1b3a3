# SPDX-License-Identifier: Apache-2.0
"""Stages of scripts/check.py that run in the CPU time that others leave.

Tests of live processes wait for much of their time, compilers never do. So builds and tests of
compilers run beside earlier stages, one after the other, as SCHED_IDLE: whatever a test wants to
run takes the CPU from them at once. When their turn comes they have the machine to themselves; what
they printed is shown then, and counts as it would otherwise.
"""

import contextlib
import os
import signal
import subprocess
import time

POLL_S = 0.1
ROUNDS = 20  # of killing a session
GRACE_S = 30  # from being interrupted to being killed


def give_way():
    """In the child: everybody else comes first. A kernel may schedule each session as a group
    (autogroup), among which SCHED_IDLE says nothing. Ctrl-C is not ignored, whoever started us.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):
        with open("/proc/self/autogroup", "w", encoding="ascii") as group:
            group.write("19")


def members(session):
    """Pids of a session."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ProcessLookupError):
            if os.getsid(int(entry)) == session:
                yield int(entry)


def take_turn(session):
    """Ends giving way, as far as the caller may: others may use the machine as well."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{session}/autogroup", "w", encoding="ascii") as group:
            group.write("0")
    for pid in members(session):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def kill(process):
    """With its session: ninja's compilers are in process groups of their own."""
    for _ in range(ROUNDS):  # until nobody starts another one
        for pid in members(process.pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)
        if process.poll() is not None and not list(members(process.pid)):
            return


class SpareTime:
    """Runs stages in their order, each when the one before it has ended; poll() moves on.

    folder: where their output is kept.
    """

    def __init__(self, stages, env, folder, cwd):
        self.waiting = list(stages)
        self.env, self.folder, self.cwd = env, folder, cwd
        self.started = {}  # name -> (process, path of its output)
        self.current = None

    def _start(self, stage):
        path = os.path.join(self.folder, f"spare-time-{len(self.started)}.log")
        with open(path, "wb") as out:
            self.current = subprocess.Popen(
                stage.command,
                cwd=self.cwd,
                env={**self.env, **stage.env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=give_way,
            )
        self.started[stage.name] = self.current, path

    def poll(self):
        if (self.current is None or self.current.poll() is not None) and self.waiting:
            self._start(self.waiting.pop(0))

    def pid(self):
        """Of the program that runs; None: there is none, or its end has been seen."""
        running = self.current and self.current.returncode is None
        return self.current.pid if running else None

    def has(self, stage):
        return stage.name in self.started or stage in self.waiting

    def finish(self, stage, beat):
        """Waits for a stage, calls beat(seconds) meanwhile; (exit code, or None after its timeout;
        its output).
        """
        while stage.name not in self.started:  # those before it have ended
            self.poll()
            time.sleep(POLL_S)
        process, path = self.started[stage.name]
        start = time.monotonic()
        timed_out = False
        if process.poll() is None:
            take_turn(process.pid)
        while process.poll() is None:
            time.sleep(POLL_S)
            beat(time.monotonic() - start)
            if time.monotonic() - start > stage.timeout + timed_out * GRACE_S:
                # one that is interrupted still writes what it knows
                if timed_out:
                    kill(process)
                    break
                os.kill(process.pid, signal.SIGINT)
                timed_out = True
        with open(path, encoding="utf-8", errors="replace") as log:
            return None if timed_out else process.returncode, log.read()

    def stop(self):
        self.waiting.clear()
        if self.pid():
            kill(self.current)

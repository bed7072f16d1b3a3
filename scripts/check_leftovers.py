# SPDX-License-Identifier: Apache-2.0
"""Processes and mounts that a stage of ./check leaves behind.

Whoever imports this is the "child subreaper": orphans of a stage become its children.
"""

import os
import signal
import time

import spare_time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# what runs beside the stages
beside = spare_time.SpareTime([], {}, None, None)


def is_early(pid):
    """Whether a process is of what runs beside the stages: its orphans are our children, too."""
    try:
        return pid == beside.pid() or (beside.pid() and os.getsid(pid) == beside.pid())
    except ProcessLookupError:
        return False


def children():
    """Processes whose parent we are, without what runs beside the stages: pid -> name."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                text = stat.read()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1 :].rsplit(")", 1)
        state, parent = rest.split()[:2]
        if int(parent) == os.getpid() and state != "Z" and not is_early(int(entry)):
            found[int(entry)] = name
    return found


def reap(spare=None):
    """Takes note of the end of adopted processes, as init would, and of what runs beside the
    stages; spare: a child that somebody else waits for.
    """
    beside.poll()
    try:
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in (spare, beside.pid()):
                return
            os.waitpid(ended.si_pid, os.WNOHANG)
    except ChildProcessError:
        pass


def end_leftovers(result, stage):
    """Ends what a stage left running; each such process is a failure."""
    deadline = time.monotonic() + 3
    while children() and time.monotonic() < deadline:
        reap()
        time.sleep(0.05)
    left = children()
    for pid, name in left.items():
        result.fail(f"{stage}: left process {pid} ({name}) running")
    while left:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.1)
        reap()
        left = children()  # their children are ours now
    reap()


def mounts(env):
    """Of ours: what is mounted elsewhere meanwhile is somebody else's."""
    ours = tuple(os.path.realpath(folder) + "/" for folder in (ROOT, env.get("TMPDIR", ROOT)))
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as info:
        return {path for path in (line.split()[4] for line in info) if path.startswith(ours)}

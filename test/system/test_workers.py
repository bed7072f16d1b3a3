# SPDX-License-Identifier: Apache-2.0
"""Threads of a process in which only the kernel runs, io_uring's workers: they are left alone,
and their operations end as ever.
"""

import os
import pathlib
import re

import pytest

from iptest import memory

WORKERS = 6
KERNEL = 0x10 | 0x4000  # PF_IO_WORKER, PF_USER_WORKER


@pytest.fixture
def uring(me, programs, targets):
    disabled = pathlib.Path("/proc/sys/kernel/io_uring_disabled")
    target = targets.start(me, [programs.simple("uring"), WORKERS], wait=False)
    line = target.proc.stdout.readline()
    if not line and target.proc.wait(10) == 77:
        state = disabled.read_text().strip() if disabled.exists() else "unknown"
        pytest.skip(
            f"no io_uring here (kernel.io_uring_disabled: {state}): {target.proc.stderr.read()}"
        )
    assert line == "ready 2\n"
    workers = kernel_workers(target.pid)
    assert len(workers) >= WORKERS
    return target


def kernel_workers(pid):
    found = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        if int(fields[6]) & KERNEL:
            found.add(int(task.name))
    return found


def round_of_reads(target, so_far):
    target.say("go")
    assert target.proc.stdout.readline() == f"good {so_far + 2 * WORKERS}\n"
    return so_far + 2 * WORKERS


@pytest.mark.parametrize(
    "how", [[], ["--no-stop"], ["--payload", "count"]], ids=["stop", "no-stop", "count"]
)
def test_what_they_do_ends_as_ever(me, uring, how):
    reads = 0
    for _ in range(4):
        done = me.iprobe(
            "attach",
            uring.pid,
            "--duration",
            "30ms",
            "--json",
            "-o",
            me.dir() / "trace",
            "-f",
            "step",
            *how,
        )
        assert done.returncode == 0, repr(done)
        assert done.summary()["threads"] == 2, "a worker is no thread of the program"
        reads = round_of_reads(uring, reads)
    memory.assert_untouched(uring.pid)
    uring.finish()


def test_nothing_is_done_to_them(root, programs, targets):
    target = targets.start(root, [programs.simple("uring"), WORKERS], wait=False)
    if not target.proc.stdout.readline():
        pytest.skip("no io_uring here")
    log = root.dir() / "strace"
    done = root.run(
        [
            "strace",
            "-f",
            "-o",
            log,
            "--trace=ptrace,sched_setscheduler",
            root.iprobe_path,
            "attach",
            target.pid,
            "--duration",
            "30ms",
            "-f",
            "step",
            "-o",
            root.dir() / "trace",
        ]
    )
    assert done.returncode == 0, repr(done)
    touched = {
        int(tid)
        for tid in re.findall(r"(?:PTRACE_\w+|sched_setscheduler\()[, ]*(\d+)", log.read_text())
    }
    poser = (
        {int(t) for t in os.listdir(f"/proc/{target.pid}/task")}
        - kernel_workers(target.pid)
        - {target.pid}
    )
    assert (
        poser <= touched and len(poser) == 1
    ), "the program's own thread with a worker's name has to be stopped"
    assert not touched & kernel_workers(target.pid)
    round_of_reads(target, 0)
    target.finish()


def test_while_they_work(me, uring):
    """Operations end and begin while stops are under way."""
    reads = 0
    for _ in range(15):
        proc = me.start_iprobe(
            "attach", uring.pid, "--duration", "10ms", "-q", "-o", me.dir() / "trace", "-f", "step"
        )
        while proc.poll() is None:
            reads = round_of_reads(uring, reads)
        assert proc.returncode == 0, proc.stderr.read()
    memory.assert_untouched(uring.pid)
    uring.finish()

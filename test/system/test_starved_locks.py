# SPDX-License-Identifier: Apache-2.0
"""
A thread in uninterruptible sleep waits for a lock which a thread holds that gets no CPU: iprobe
lends the holder priority, and gives it back.
"""

import os
import random
import time

import pytest

from iptest import memory
from iptest.actor import end

CPU = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]


@pytest.fixture
def target(root, programs, targets):
    hogs = [root.popen([*CPU, "sh", "-c", "while :; do :; done"]) for _ in range(4)]
    target = targets.start(root, [*CPU, programs.simple("starved_lock"), 32, 2])
    memory.wait_for(
        "threads of the lowest priority",
        lambda: sorted(nice for _, nice in scheduling(target.pid).values()) == [0, 19, 19, 19],
    )
    finish = target.finish

    def finish_alone():
        for hog in hogs:
            end(hog)
        finish()

    target.finish = finish_alone
    yield target
    for hog in hogs:
        end(hog)


def scheduling(pid):
    return {
        tid: (os.sched_getscheduler(int(tid)), os.getpriority(os.PRIO_PROCESS, int(tid)))
        for tid in os.listdir(f"/proc/{pid}/task")
    }


def is_asleep(pid):
    return any(
        memory.status_field(pid, "State", tid).startswith("D")
        for tid in os.listdir(f"/proc/{pid}/task")
    )


def test_attach(root, target):
    """Without the priority most are refused."""
    before = scheduling(target.pid)
    for _ in range(5):
        memory.wait_for("nobody waits for the lock", lambda: is_asleep(target.pid), 10, 0.001)
        done = root.iprobe(
            "attach", target.pid, "--duration", "20ms", "--json", "-o", root.dir() / "trace"
        )
        assert done.returncode == 0, repr(done)
        assert scheduling(target.pid) == before
    memory.assert_untouched(target.pid)
    target.finish()


def test_killed_while_priority_is_lent(root, target):
    before = scheduling(target.pid)
    rng = random.Random(3)
    lent = 0
    for _ in range(8):
        proc = root.start_iprobe("attach", target.pid, "-o", root.dir() / "trace")
        limit = time.monotonic() + rng.uniform(0.05, 0.2)
        while time.monotonic() < limit and scheduling(target.pid) == before:
            pass
        lent += scheduling(target.pid) != before
        end(proc)
        memory.wait_for("scheduling as before", lambda: scheduling(target.pid) == before, 10)
    assert lent, "it was never killed while a thread had priority"
    done = root.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    assert memory.text_differences(target.pid) == []
    target.finish()

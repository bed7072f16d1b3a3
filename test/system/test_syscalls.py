# SPDX-License-Identifier: Apache-2.0
"""System calls of the target that a stop breaks off: each returns what it would have without us,
and when.
"""

import shutil
import threading
import time

import pytest

from iptest import memory, time_scale

SECONDS = time_scale.scaled(3.0)
LATE = time_scale.scaled(
    1.2
    # the first stop; a time limit that begins anew then is longer by that, one that does at each by
    # far more
)
# Calls that neither a stop nor we make longer: as late as they are all others may be, and a little.
RULERS = ["nanosleep", "clock_nanosleep", "usleep", "poll", "futex", "read_timerfd"]
PATIENCE = time_scale.scaled(0.3)
NO_LIMIT = ["cpu_timer", "queued_signals", "send"]  # the CPU they need comes on top


def test_endless_waits_go_on(actor, programs, targets):
    target = targets.start(actor, [programs.simple("endless")])
    events = 0
    for round_number in range(10):
        done = actor.iprobe(
            "attach",
            target.pid,
            "--duration",
            "20ms",
            "-f",
            "tick",
            "--json",
            "-q",
            "-o",
            actor.dir() / f"trace-{round_number}",
        )
        assert done.returncode == 0, repr(done)
        events += done.summary()["events"]
    assert events > 0
    memory.assert_untouched(target.pid)
    target.say("wake")
    result = target.finish()
    assert result.stdout.split("\n")[:4] == [
        "epoll_wait good",
        "epoll_pwait good",
        "semop good",
        "sigwaitinfo good",
    ], repr(result)


class Table:
    """The program that waits in all kinds of calls; what it says is read as it comes."""

    def __init__(self, targets, actor, program, *names, seconds=SECONDS):
        self.target = targets.start(actor, [program, str(seconds), *names])
        self.started = time.monotonic()
        self.rows, self.counts, self.over = {}, None, threading.Event()
        self.said = []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.target.proc.stdout:
            words = line.split()
            if len(words) == 4:
                self.rows[words[0]] = (int(words[1]), words[2], float(words[3]) / 1e3)
            elif words[0] == "handled":
                self.counts = tuple(map(int, words[1:]))
                break
            else:
                self.rows[line] = None
        self.over.set()

    def attach_until_over(self, actor, names="tick"):
        """Attaches again and again. How often."""
        n = 0
        out = actor.dir() / "trace"
        while not self.over.is_set():
            done = actor.iprobe(
                "attach", self.target.pid, "--duration", "20ms", "-f", names, "-o", out
            )
            assert done.returncode == 0 or self.over.wait(
                time_scale.scaled(2)
            ), f"{done!r}, the target: {self.target.proc.poll()}"
            n += done.returncode == 0
            self.said.append(done.stderr)
        return n

    def finish(self):
        assert self.over.wait(time_scale.scaled(40)), f"still waiting: {self.rows}"
        self.reader.join()
        self.target.proc.stdin.close()
        assert self.target.proc.wait(timeout=time_scale.scaled(20)) == 0
        return self.rows


@pytest.fixture(scope="module")
def undisturbed():
    return {}


def test_calls_end_as_without_us(actor, programs, targets, undisturbed):
    """The first stop comes late, so that what is left then is less than half."""
    program = programs.simple("table")
    if not undisturbed:
        undisturbed.update(Table(targets, actor, program, seconds=0.5).finish())
    table = Table(targets, actor, program)
    time.sleep(LATE)
    stops = 2 * table.attach_until_over(actor)
    rows = table.finish()
    assert len(rows) >= 60 and rows.keys() == undisturbed.keys()
    wrong = {
        name: (row, undisturbed[name])
        for name, row in rows.items()
        if row[:2] != undisturbed[name][:2]
    }
    assert not wrong
    early = {name: row for name, row in rows.items() if row[2] < SECONDS - 0.01}
    assert not early
    ruler = max(rows[name][2] for name in RULERS) - SECONDS
    if ruler > LATE / 4 or stops < 4:
        pytest.skip(
            f"the machine is too busy to measure: a nap took {ruler:.1f} s longer, {stops} stops"
        )
    late = {
        name: row
        for name, row in rows.items()
        if name not in NO_LIMIT
        and row[2] > SECONDS + 2 * ruler + PATIENCE + (name == "connect") * PATIENCE
    }
    assert not late, (late, table.said[:1])


def test_threads_that_stop_late(actor, programs, targets):
    """What was not seen to stop within the deadline is let go later, when it has: its calls go
    on, too.
    """
    if not shutil.which("strace"):
        pytest.skip("no strace")
    target = targets.start(actor, [programs.simple("endless")])
    for first in (1, 3, 6):
        done = actor.run(
            [
                "strace",
                "-o",
                "/dev/null",
                "--trace=wait4",
                f"--inject=wait4:error=EINTR:delay_exit=60000:when={first}..{first + 3}",
                actor.iprobe_path,
                "attach",
                target.pid,
                "--duration",
                "10ms",
                "-q",
                "-f",
                "tick",
                "-o",
                actor.dir() / "trace",
            ]
        )
        assert done.returncode == 0, repr(done)
    target.say("wake")
    assert target.finish().stdout.count(" good\n") >= 4


@pytest.mark.parametrize("preload", [True, False], ids=["loaded", "injected"])
def test_nothing_below_the_stack_is_written(actor, programs, targets, preload):
    """Threads whose stacks have no room below their pointers, in calls with time limits."""
    target = targets.start(
        actor, [programs.simple("below", placement="fentry"), "2"], preload=preload
    )
    out, events = actor.dir() / "trace", 0
    while target.alive():
        done = actor.iprobe(
            "attach", target.pid, "--duration", "20ms", "-f", "tick", "-q", "--json", "-o", out
        )
        assert done.returncode == 0 or not target.alive() or target.proc.wait(5) == 0, repr(done)
        events += done.summary()["events"] if done.returncode == 0 else 0
    assert events > 0 and target.finish().stdout == "untouched\n"


def test_nothing_below_the_stack_is_written_of_32_bit_programs(me, programs, targets):
    """The same: its code in the runtime holds all that it needs. Limits hold, whether one stop
    falls into a wait or several.
    """
    if not (me.runtime_path.parent / "32" / me.runtime_path.name).exists():
        pytest.skip("built without a runtime for 32-bit programs")
    target = targets.start(
        me, [programs.simple("below", extra=("-m32",), placement="instrument"), "2"]
    )
    out, events, renewed = me.dir() / "trace", 0, 0
    while target.alive():
        done = me.iprobe(
            "attach", target.pid, "--duration", "20ms", "-f", "tick", "-q", "--json", "-o", out
        )
        assert done.returncode == 0 or not target.alive() or target.proc.wait(5) == 0, repr(done)
        if done.returncode == 0:
            events += done.summary()["events"]
            renewed += done.summary()["renewed_calls"]
    assert events > 0 and target.finish().stdout == "untouched\n"
    assert renewed <= 4


def test_time_limits_of_32_bit_programs(me, programs, targets):
    if not (me.runtime_path.parent / "32" / me.runtime_path.name).exists():
        pytest.skip("built without a runtime for 32-bit programs")
    program = programs.simple("table", extra=("-m32",), placement="instrument")
    table = Table(targets, me, program, "epoll_wait", "epoll_pwait", "nanosleep", "jump", "cancel")
    time.sleep(LATE)
    stops = 2 * table.attach_until_over(me)
    rows = table.finish()
    assert {name: row[:2] for name, row in rows.items()} == {
        "epoll_wait": (0, "-"),
        "epoll_pwait": (0, "-"),
        "nanosleep": (0, "-"),
        "jump": (1, "-"),
        "cancel": (1, "-"),
    }
    assert min(row[2] for row in rows.values()) >= SECONDS - 0.01
    ruler = rows["nanosleep"][2] - SECONDS
    if ruler > LATE / 4 or stops < 4:
        pytest.skip(
            f"the machine is too busy to measure: a nap took {ruler:.1f} s longer, {stops} stops"
        )
    assert rows["epoll_wait"][2] <= SECONDS + 2 * ruler + PATIENCE


# What returns EINTR from a handler, with or without SA_RESTART.
ALWAYS = [
    "epoll_wait",
    "epoll_pwait2",
    "semtimedop",
    "sigtimedwait",
    "io_getevents",
    "recv",
    "read_socket",
    "accept",
    "ppoll",
    "select",
    "nanosleep",
    "poll",
    "usleep",
    "msgrcv",
]
UNLESS_RESTARTED = [
    "read_pipe",
    "read_eventfd",
    "flock",
    "fcntl",
    "mq_timedreceive",
    "accept_endless",
    "wait4",
]


@pytest.mark.parametrize("stops", [False, True], ids=["without-us", "stopped"])
def test_handlers_end_calls_as_ever(actor, programs, targets, stops):
    """Signals with handlers, while the thread waits in our code or in its own."""
    table = Table(
        targets,
        actor,
        programs.simple("table"),
        *ALWAYS,
        *UNLESS_RESTARTED,
        seconds=time_scale.scaled(4),
    )
    if stops:
        for _ in range(4):
            done = actor.iprobe(
                "attach",
                table.target.pid,
                "--duration",
                "20ms",
                "-f",
                "tick",
                "-q",
                "-o",
                actor.dir() / "trace",
            )
            assert done.returncode == 0, repr(done)
    else:
        time.sleep(0.5)
    assert not table.rows
    half = ALWAYS[::2] + UNLESS_RESTARTED
    for name in half:
        table.target.say(f"restart {name}")
    time.sleep(0.1)
    for name in ALWAYS[1::2] + UNLESS_RESTARTED[::2]:
        table.target.say(f"handler {name}")
    rows = table.finish()
    assert {name for name, row in rows.items() if row[1] == "EINTR"} == {
        *ALWAYS,
        *UNLESS_RESTARTED[::2],
    }
    assert table.counts == (len(half), len(ALWAYS[1::2] + UNLESS_RESTARTED[::2]))

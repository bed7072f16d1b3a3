# SPDX-License-Identifier: Apache-2.0
"""
Going live and idle without a stop: pages are switched under threads that execute the sites and
check their own results; one blocked thread is held. Whatever kills iprobe, and wherever: the
target runs on, and its text is put back.
"""

import collections
import ctypes
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from iptest import actor as actors
from iptest import memory

FULL = os.environ.get("IPROBE_TEST_FULL") == "1"
STOPS = 3  # holds: two to go live, one to go idle


def layout(target, program=None):
    """The mappings of the program's own file (of any file): what perf and gdb resolve addresses
    by.
    """
    return [
        (m.start, m.end, m.perms, m.offset, m.path)
        for m in memory.mappings(target.pid)
        if (m.path == str(program) if program else m.path.startswith("/"))
    ]


def attach(actor, target, *options, events=True):
    """The summary of one that recorded something: on a busy machine the target may not have run
    in a short time.
    """
    for duration in ("40ms", "400ms", "4s"):
        done = actor.iprobe(
            "attach",
            target.pid,
            "--no-stop",
            "--duration",
            duration,
            "--json",
            "-o",
            actor.dir() / "trace",
            *options,
        )
        assert done.returncode == 0, repr(done)
        if not events or done.summary()["events"]:
            break
    return done.summary()


def test_live_and_idle(actor, programs, targets):
    target = targets.steady(actor, programs.simple("steady"))
    before = layout(target)
    for _ in range(3):
        summary = attach(actor, target)
        assert summary["events"] > 0 and summary["sites"] > 100 and summary["unswitched"] == 0
        assert len(actors.stops_of(summary)) == STOPS, "of one thread: staged, switched, and back"
        target.wait_for_progress()
        memory.assert_untouched(target.pid)
        assert layout(target) == before
    target.finish()


@pytest.mark.parametrize(
    "flags", [("-i", "-c"), ("-t", "64")], ids=["signals-and-threads", "64-threads"]
)
def test_under_load(me, programs, targets, flags):
    target = targets.steady(me, programs.simple("steady"), *flags)
    for _ in range(3):
        assert attach(me, target)["events"] > 0
        target.wait_for_progress()
        memory.assert_untouched(target.pid)
    target.finish()


@pytest.mark.parametrize("placement", ["fentry", "inline"])
def test_placements(me, programs, targets, placement):
    target = targets.steady(me, programs.simple("steady", placement=placement))
    assert attach(me, target)["events"] > 0
    memory.assert_untouched(target.pid)
    target.finish()


def test_only_the_borrowed_thread_is_traced(me, programs, targets):
    """By the requests that iprobe makes: one thread after the other is tried, and never all are
    held.
    """
    target = targets.steady(me, programs.simple("steady"), "-t", "16")
    log = me.dir() / "strace"
    done = me.run(
        [
            "strace",
            "-o",
            log,
            "--trace=ptrace",
            me.iprobe_path,
            "attach",
            target.pid,
            "--no-stop",
            "--duration",
            "30ms",
            "-o",
            me.dir() / "trace",
        ]
    )
    assert done.returncode == 0, repr(done)
    held = set()
    for line in log.read_text(errors="replace").splitlines():
        match = re.match(r"ptrace\(PTRACE_(SEIZE|DETACH), (\d+)", line)
        if not match:
            continue
        (held.add if match.group(1) == "SEIZE" else held.discard)(match.group(2))
        assert len(held) <= 3, line  # one that was too late to stop is let go a little later
    assert not held
    target.finish()


def test_values_and_selections(me, programs, targets):
    target = targets.steady(me, programs.simple("steady", placement="fentry", extra=["-g"]))
    summary = attach(me, target, "--args", "--retval", "-f", "step_1*")
    assert summary["events"] > 0 and 0 < summary["functions"] < 20
    lines = [
        json.loads(line) for line in me.iprobe("dump", "--json", summary["dir"]).stdout.splitlines()
    ]
    assert any(line.get("args") for line in lines) and any("retval" in line for line in lines)
    memory.assert_untouched(target.pid)
    target.finish()


def test_exact_events(me, programs, targets):
    """Each call that began after attach and ended before detach is there: entries and exits of
    every thread pair up.
    """
    target = targets.steady(me, programs.simple("steady"), "-t", "2")
    summary = attach(me, target, "-f", "step_21,step_22", "--memory", "200M")
    assert summary["lost"] == 0
    depth, wrong, events = {}, 0, 0
    done = me.iprobe("dump", "--json", summary["dir"])
    assert done.returncode == 0, repr(done)
    for line in done.stdout.splitlines():
        event = json.loads(line)
        if "function" not in event:
            continue
        events += 1
        stack = depth.setdefault(event["tid"], [])
        if event["event"] == "entry":
            stack.append(event["function"])
        elif stack:
            wrong += stack.pop() != event["function"]
    assert events == summary["events"] > 0 and wrong == 0
    target.finish()


def test_addresses_resolve_while_live(me, programs, targets):
    """gdb reads maps, the text and its symbols of a process whose pages were switched."""
    if not shutil.which("gdb"):
        pytest.skip("no gdb")
    program = programs.simple("steady", extra=["-g"])
    target = targets.steady(me, program)
    proc = me.start_iprobe("attach", target.pid, "--no-stop", "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, proc)
    assert layout(target, program) and all("(deleted)" not in m[4] for m in layout(target, program))
    done = subprocess.run(
        [
            "gdb",
            "-nx",
            "-batch",
            "-p",
            str(target.pid),
            "-ex",
            "info symbol step_40",
            "-ex",
            "info line step_40",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert "step_40 in section .text" in done.stdout and "steady.c" in done.stdout, done
    proc.send_signal(signal.SIGINT)
    assert actors.last_words(proc).returncode == 0
    memory.assert_untouched(target.pid)
    target.finish()


def test_a_change_that_takes_a_stop_is_refused(me, programs, targets):
    """Sites on a page that stays live: the session goes on as it was, and nobody is stopped."""
    target = targets.steady(me, programs.simple("steady"))
    proc = me.start_iprobe(
        "attach", target.pid, "--no-stop", "-f", "step_1*", "--json", "-o", me.dir() / "trace"
    )
    memory.wait_until_live(target.pid, proc)
    before = memory.text_differences(target.pid)
    done = me.iprobe("attach", target.pid, "-f", "step_2*")
    actors.one_line(done)
    assert "--no-stop" in done.stderr
    assert memory.text_differences(target.pid) == before
    proc.send_signal(signal.SIGINT)
    done = actors.last_words(proc)
    assert done.returncode == 0 and len(done.stops()) == STOPS, repr(done)
    memory.assert_untouched(target.pid)
    target.finish()


def test_dry_run(me, programs, targets):
    target = targets.steady(me, programs.simple("steady"))
    done = me.iprobe("attach", "--dry-run", "--no-stop", "--json", target.pid)
    assert done.returncode == 0, repr(done)
    plan = json.loads(done.stdout)
    assert plan["pieces"] >= 1 and plan["unswitched"] == 0 and plan["expected_stop_us"] == 0
    done = me.iprobe("attach", "--dry-run", "--no-stop", target.pid)
    assert done.returncode == 0 and "nothing was changed" in done.stdout
    memory.assert_untouched(target.pid)
    target.finish()


def test_run_says_that_it_stops(me, programs):
    done = me.iprobe("run", "--no-stop", "-o", me.dir() / "trace", "--", "true")
    assert "--no-stop" in done.stderr


def test_pages_that_differ_from_the_file_stay(me, programs, targets):
    """Somebody's byte beside the sites: where there is no other page that is refused, and the
    byte is kept.
    """
    program = programs.simple("steady")
    target = targets.steady(me, program)
    text = next(m for m in memory.mappings(target.pid) if m.path == str(program) and "x" in m.perms)
    # the last bytes of a section's last page are nobody's: zeros behind the code
    address = text.end - 8
    page = memory.read_memory(target.pid, text.end - 4096, 4096)
    assert page[-8:] == bytes(8)
    memory.write_memory(target.pid, address, b"\xcc")
    done = me.iprobe(
        "attach", target.pid, "--no-stop", "--duration", "30ms", "--json", "-o", me.dir() / "trace"
    )
    if done.returncode == 0:
        assert "stay idle" in done.stderr and done.summary()["unswitched"] > 0
    else:
        actors.one_line(done)
        assert "not what its file holds" in done.stderr
    assert memory.read_memory(target.pid, address, 1) == b"\xcc"
    memory.write_memory(target.pid, address, b"\0")
    memory.assert_untouched(target.pid)
    assert attach(me, target)["unswitched"] == 0
    target.finish()


def test_nobody_to_borrow_is_refused(me, programs, targets):
    target = targets.start(me, [programs.simple("waits"), "busy"])
    done = me.iprobe(
        "attach", target.pid, "--no-stop", "--duration", "30ms", "-o", me.dir() / "trace"
    )
    actors.one_line(done)
    assert "--no-stop" in done.stderr and "borrowed" in done.stderr
    memory.assert_untouched(target.pid)
    os.kill(target.pid, signal.SIGALRM)
    assert actors.last_words(target.proc).stdout == "good\n"


def attach_waiting(actor, programs, targets, how):
    """To a program in that call. Some last a second, and on a busy machine that may be too short
    for us: once more then.
    """
    for _ in range(10):
        target = targets.start(actor, [programs.simple("waits"), how])
        memory.wait_for(
            "does not wait",
            lambda: not target.alive() or "S" in memory.status_field(target.pid, "State"),
        )
        done = actor.iprobe(
            "attach",
            target.pid,
            "--no-stop",
            "--duration",
            "10ms",
            "--json",
            "-o",
            actor.dir() / "trace",
        )
        if "has ended" not in done.stderr:
            break
        assert actors.last_words(target.proc).stdout == "good\n"
    return target, done


def test_seccomp_is_refused(me, programs, targets):
    target, done = attach_waiting(me, programs, targets, "seccomp")
    actors.one_line(done)
    assert "seccomp" in done.stderr
    assert actors.last_words(target.proc).stdout == "good\n"


@pytest.mark.parametrize(
    "how",
    [
        "read",
        "epoll",
        "thread",
        "nanosleep",
        "poll",
        "futex",
        "select",
        "epoll_wait",
        "epoll_pwait",
    ],
)
def test_the_held_thread_goes_on(me, programs, targets, how):
    """A call whose time limit begins anew is broken off where no other one waits; it is told."""
    target, done = attach_waiting(me, programs, targets, how)
    assert done.returncode == 0, repr(done)
    assert len(done.stops()) == STOPS
    assert (done.summary()["renewed_calls"] > 0) == how.startswith("epoll_")
    if how in ("read", "epoll", "thread"):
        memory.assert_untouched(target.pid)
        target.say("x")
    done = actors.last_words(target.proc)
    assert (done.returncode, done.stdout) == (0, "good\n"), repr(done)


def test_a_static_program(me, programs, targets):
    target = targets.start(me, [programs.simple("waits", extra=["-static"]), "read"], preload=False)
    summary = attach(me, target, events=False)
    assert len(actors.stops_of(summary)) == 1 + STOPS, "its runtime is woken before"
    memory.assert_untouched(target.pid)
    target.say("x")
    assert actors.last_words(target.proc).stdout == "good\n"


def test_little_address_space_is_refused(me, programs, targets):
    """The staging mapping does not fit: nothing has happened."""
    target = targets.steady(me, programs.simple("steady"))
    limit = int(memory.status_field(target.pid, "VmSize").split()[0]) * 1024

    class Limit(ctypes.Structure):
        _fields_ = [("soft", ctypes.c_ulong), ("hard", ctypes.c_ulong)]

    libc = ctypes.CDLL(None, use_errno=True)
    old = Limit()
    assert (
        libc.prlimit(target.pid, 9, ctypes.byref(Limit(limit, 2**64 - 1)), ctypes.byref(old)) == 0
    )
    done = me.iprobe(
        "attach", target.pid, "--no-stop", "--duration", "30ms", "-o", me.dir() / "trace"
    )
    actors.one_line(done)
    assert "could not be moved" in done.stderr
    memory.assert_untouched(target.pid)
    assert libc.prlimit(target.pid, 9, ctypes.byref(old), None) == 0
    assert attach(me, target)["events"] > 0
    target.finish()


def test_locked_memory_is_refused(root, programs, targets):
    """Of text that mlockall() holds the file's pages would not be locked when they come back."""
    target = targets.start(root, [programs.simple("locked"), "wait"])
    done = root.iprobe(
        "attach", target.pid, "--no-stop", "--duration", "30ms", "-o", root.dir() / "trace"
    )
    actors.one_line(done)
    assert "locked" in done.stderr
    memory.assert_untouched(target.pid)
    target.finish()


def copies(target, program):
    """How often the program's text is mapped."""
    return sum(m.path == str(program) and "x" in m.perms for m in memory.mappings(target.pid))


def blocked(pid):
    return {memory.status_field(pid, "SigBlk", tid) for tid in os.listdir(f"/proc/{pid}/task")}


def check_and_restore(actor, target, program, before, what, *options):
    """It runs on; detach brings text and mappings back, whatever was staged."""
    assert target.alive(), f"{what}: {target.proc.returncode} {target.proc.stderr.read()}"
    target.wait_for_progress()
    memory.wait_for(f"{what}: signals stay blocked", lambda: blocked(target.pid) == {"0" * 16})
    done = actor.iprobe("detach", *options, target.pid)
    assert done.returncode == 0, f"{what}: {done!r}"
    memory.assert_untouched(target.pid)
    assert (
        copies(target, program) == 1 and layout(target, program) == before
    ), f"{what}: {layout(target, program)}"


CALLS = ("ptrace", "pwrite64", "pread64")
Step = collections.namedtuple("Step", "call number after")


def steps_of(actor, target):
    """The steps of one whole attach: each request, and each access to the target's memory (others,
    of traces and files, change nothing in it), by its number among those of its call, with the
    call of the step before.
    """
    log = actor.dir() / "strace"
    done = actor.run(
        [
            "strace",
            "-y",
            "-o",
            log,
            f"--trace={','.join(CALLS)}",
            actor.iprobe_path,
            "attach",
            target.pid,
            "--no-stop",
            "--duration",
            "20ms",
            "-o",
            actor.dir() / "trace",
        ]
    )
    assert done.returncode == 0, repr(done)
    numbers, steps = dict.fromkeys(CALLS, 0), []
    for call, path in re.findall(r"^(\w+)\((?:\d+<(.*?)>)?", log.read_text(errors="replace"), re.M):
        if call == "ptrace" or path == f"/proc/{target.pid}/mem":
            numbers[call] += 1
            steps.append(Step(call, numbers[call], steps[-1].call if steps else None))
    assert all(numbers.values()), numbers
    return steps


def kill_at(actor, target, step):
    only = [] if step.call == "ptrace" else ["-P", f"/proc/{target.pid}/mem"]
    done = actor.run(
        [
            "strace",
            "-o",
            actor.dir() / "strace",
            *only,
            f"--trace={step.call}",
            f"--inject={step.call}:signal=SIGKILL:when={step.number}",
            actor.iprobe_path,
            "attach",
            target.pid,
            "--no-stop",
            "--duration",
            "20ms",
            "-o",
            actor.dir() / "trace",
        ]
    )
    assert done.returncode in (0, -9, 137), repr(done)
    return done.returncode != 0


def kill_at_each(actor, targets, programs, choose):
    """Most of the steps are reached again: how often a stop is tried may differ."""
    program = programs.simple("steady")
    target = targets.steady(actor, program)
    before = layout(target, program)
    chosen = choose(steps_of(actor, target))
    killed = 0
    for n, step in enumerate(chosen):
        killed += kill_at(actor, target, step)
        check_and_restore(
            actor, target, program, before, f"{step}", *(["--no-stop"] if n % 2 else [])
        )
    assert killed > len(chosen) / 2
    assert attach(actor, target)["events"] > 0
    memory.assert_untouched(target.pid)
    target.finish()


def test_killed_at_some_steps(me, programs, targets):
    rng = random.Random(4)

    def some(steps):
        by_call = [[step for step in steps if step.call == call] for call in CALLS]
        return [step for same in by_call for step in rng.sample(same, min(len(same), 7))]

    kill_at_each(me, targets, programs, some)


def test_killed_between_the_holds(me, programs, targets):
    """The text is mapped twice then. The next session stops the process, and has the copy unmapped
    all the same.
    """
    program = programs.simple("steady")
    target = targets.steady(me, program)
    found = 0
    for step in (step for step in steps_of(me, target) if step.call == "pwrite64"):
        kill_at(me, target, step)
        if copies(target, program) == 1:
            continue
        found += 1
        done = me.iprobe("attach", target.pid, "--duration", "40ms", "-o", me.dir() / "trace")
        assert done.returncode == 0, repr(done)
        assert copies(target, program) == 1, step
        memory.assert_untouched(target.pid)
    assert found
    target.finish()


@pytest.mark.slow
def test_killed_at_every_step(me, programs, targets):
    """Of reads in a row, which leave the target as the first one found it, the first and each
    tenth: all of them by IPROBE_TEST_FULL=1.
    """

    def each(steps):
        return [
            step
            for step in steps
            if FULL or step.call != "pread64" or step.after != "pread64" or step.number % 10 == 0
        ]

    kill_at_each(me, targets, programs, each)


def test_killed_while_live(actor, programs, targets):
    """Either way of putting back serves what the other has left."""
    program = programs.simple("steady")
    target = targets.steady(actor, program)
    before = layout(target, program)
    for attached, detached in (
        (["--no-stop"], []),
        ([], ["--no-stop"]),
        (["--no-stop"], ["--no-stop"]),
    ):
        proc = actor.start_iprobe(
            "attach", target.pid, *attached, "--memory", "1M", "-o", actor.dir() / "trace"
        )
        memory.wait_until_live(target.pid, proc)
        proc.kill()
        actors.end(proc)
        check_and_restore(actor, target, program, before, f"{attached} {detached}", *detached)
    target.finish()


def test_a_new_session_after_a_killed_one(me, programs, targets):
    program = programs.simple("steady")
    target = targets.steady(me, program)
    proc = me.start_iprobe("attach", target.pid, "-f", "step_1*", "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, proc)
    proc.kill()
    actors.end(proc)
    assert attach(me, target, "-f", "step_2*")["events"] > 0
    memory.assert_untouched(target.pid)
    target.finish()


@pytest.mark.slow
def test_many_flips(me, programs, targets):
    """For twenty seconds, one after the other, under threads that come and go and a handler
    every millisecond.
    """
    program = programs.simple("steady")
    target = targets.steady(me, program, "-i", "-c")
    before = layout(target, program)
    end, cycles, events = time.monotonic() + 20, 0, 0
    while time.monotonic() < end:
        done = me.iprobe(
            "attach",
            target.pid,
            "--no-stop",
            "--duration",
            "5ms",
            "--json",
            "-o",
            me.dir() / "trace",
        )
        assert done.returncode == 0, repr(done)
        events += done.summary()["events"]
        cycles += 1
    assert cycles > 5 and events
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    assert layout(target, program) == before
    target.finish()

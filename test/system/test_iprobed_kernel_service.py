# SPDX-License-Identifier: Apache-2.0
"""Events of the kernel of several processes by iprobed: recorded once, of the caller's alone."""

import json
import os
import signal

import pytest

from iptest import kernel_streams, memory
from iptest.actor import last_words, one_line
from iptest.daemon_fixtures import (  # noqa: F401
    POLICY,
    ask,
    daemon,
    idle,
    member,
    other,
    pytestmark,
    wait_until_idle,
    wait_until_live,
)
from iptest.daemon_kernel import (  # noqa: F401
    ALLOWS,
    WITHOUT_NAMES,
    allowing,
    calling,
    check_nobody_else,
    instances,
    numbers,
    setuid,
    skip_without_events,
    threads_of,
    until_no_instance,
)

GROUPS = "--kernel=sched,syscalls,irq,faults"


@pytest.fixture
def two(targets, user, calling):
    return [targets.start(user, [calling, "own"], preload=False) for _ in range(2)]


def pids(targets):
    return [target.pid for target in targets]


def attach(daemon, who, *words, cwd):
    return who.iprobe("attach", "-o", "trace", *words, env=daemon.env, cwd=cwd)


def callers(events):
    """Threads that have made the calls of "own"."""
    return {
        event["tid"]
        for event in events
        if event["event"] == "syscall_entry_getpgid" and event["fields"]["pid"] == 0x600D
    }


def test_own_events_and_no_more(allowing, user, other, targets, calling, two):
    """Another user's threads run and wake each other all the time."""
    strange = targets.start(other, [calling, "strange"], preload=False)
    folder = user.dir()
    done = attach(
        allowing, user, "--json", GROUPS, "--duration", "1s", *pids(two), cwd=folder
    )
    assert done.returncode == 0, repr(done) + allowing.log()
    summary = done.summary()
    assert summary["processes"] == 2 and summary["kernel"]["events"] > 100, summary
    trace = folder / "trace"
    own = set().union(*(threads_of(pid) for pid in pids(two)))
    events = check_nobody_else(trace, own)
    assert callers(events) == set(pids(two))
    assert 0x5EC2E7 not in numbers(events)
    assert not threads_of(strange.pid) & kernel_streams.ids(events)
    # the one's switches have the other's name, where both were on one CPU: they are not others
    assert set(pids(two)) <= {
        event["fields"]["next_tid"] for event in events if event["event"] == "sched_switch"
    }
    assert not [path for path in trace.glob("*/kernel") if path.parent != trace]
    for path in [trace / "kernel", *(trace / "kernel").iterdir()]:
        assert path.stat().st_uid == user.uid, path
    said = user.iprobe("wait", "--json", "--by", "process", "trace", cwd=folder)
    assert said.returncode == 0, repr(said)
    for pid in pids(two):
        said = user.iprobe("wait", "--json", "--process", pid, "trace", cwd=folder)
        row = next(f for f in json.loads(said.stdout)["functions"] if f["function"] == "work")
        assert row["cpu_ns"] > 0 and row["unknown_ns"] < row["elapsed_ns"] / 10, row
    said = user.iprobe("syscalls", "--json", "trace", cwd=folder)
    assert "getpgid" in {c["name"] for c in json.loads(said.stdout)["syscalls"]}, repr(said)
    assert allowing.log().count("and reader of kernel events") == 1, allowing.log()
    until_no_instance(allowing)
    assert all(idle(pid) for pid in pids(two))


def test_by_name_with_processes_of_others(allowing, user, other, targets, calling, two):
    """Whoever may not be traced is told, and is not among the events."""
    strange = targets.start(other, [calling, "strange"], preload=False)
    folder = user.dir()
    done = attach(
        allowing,
        user,
        *("--json", "--kernel", "--duration", "1s"),
        *(strange.pid, *pids(two)),
        cwd=folder,
    )
    assert done.returncode == 1, repr(done) + allowing.log()
    assert f"pid {strange.pid}" in done.stderr and "belongs to another user" in done.stderr
    assert done.summary()["processes"] == 2, done.summary()
    own = set().union(*(threads_of(pid) for pid in pids(two)))
    assert callers(check_nobody_else(folder / "trace", own)) == set(pids(two))
    until_no_instance(allowing)


def test_processes_of_others_alone(allowing, user, other, targets, calling):
    strange = [targets.start(other, [calling, "strange"], preload=False) for _ in range(2)]
    folder = user.dir()
    line = one_line(attach(allowing, user, "--kernel", *pids(strange), cwd=folder))
    assert "iprobed refuses: " in line and "belongs to another user" in line, line
    assert not (folder / "trace" / "kernel").exists()


def test_children_that_join(allowing, user, targets, calling):
    """A child executes a plain program while its parent is recorded, and joins."""
    target = targets.start(user, [calling, "own", calling], preload=False)
    folder = user.dir()
    proc = user.start_iprobe(
        *("attach", "-o", "trace", "--json", "--kernel", "--duration", "4s", "--children"),
        target.pid,
        env=allowing.env,
        cwd=folder,
    )
    wait_until_live(target.pid)
    target.say("exec")
    assert target.proc.stdout.readline() == "ready\n"
    with open(f"/proc/{target.pid}/task/{target.pid}/children", encoding="utf-8") as f:
        (child,) = map(int, f.read().split())
    memory.wait_for("it does not join", lambda: not idle(child), 30)
    done = last_words(proc)
    assert done.returncode == 0, repr(done) + allowing.log()
    children = threads_of(child)
    os.kill(child, signal.SIGKILL)
    events = kernel_streams.read(folder / "trace")
    ids = {tid for tid in kernel_streams.ids(events) if tid and tid < kernel_streams.OTHER}
    assert ids == children | threads_of(target.pid), (ids, children)
    assert callers(events) == {target.pid}
    # its program is the same user's, and calls in both of its threads
    assert len(children) == 2
    for tid in children:
        assert 0x5EC2E7 in numbers(e for e in events if e["tid"] == tid), tid
    until_no_instance(allowing)


def test_a_child_that_executes_a_setuid_program(allowing, user, targets, calling, setuid, two):
    """What it does then is not the user's any more; the others go on."""
    target = targets.start(user, [calling, "own", setuid], preload=False)
    folder = user.dir()
    proc = user.start_iprobe(
        *("attach", "-o", "trace", "--json", "--kernel", "--duration", "3s"),
        *(target.pid, *pids(two)),
        env=allowing.env,
        cwd=folder,
    )
    for pid in (target.pid, *pids(two)):
        wait_until_live(pid)
    target.say("become")
    assert target.proc.stdout.readline() == "ready\n"
    done = last_words(proc)
    own = set().union(*(threads_of(pid) for pid in pids(two))) | {target.pid}
    events = check_nobody_else(folder / "trace", own, "kernel")
    assert 0x5EC2E7 not in numbers(events), repr(done)
    assert callers(events) == {target.pid, *pids(two)}
    # the others were recorded to the end
    last = {pid: max(e["tsc"] for e in events if e["tid"] == pid) for pid in own}
    assert all(last[pid] > last[target.pid] for pid in pids(two)), last
    until_no_instance(allowing)
    assert target.alive()


def test_off_by_default(daemon, root, user, two):
    skip_without_events(root)
    folder = user.dir()
    line = one_line(attach(daemon, user, "--kernel", *pids(two), cwd=folder))
    assert f"the policy gives uid {user.uid} no events of the kernel" in line, line
    done = attach(
        daemon,
        user,
        *("--json", "--kernel=optional", "--duration", "300ms", *pids(two)),
        cwd=folder,
    )
    assert done.returncode == 0, repr(done)
    assert done.stderr.count("recording goes on without events of the kernel") == 1, repr(done)
    assert done.summary()["processes"] == 2
    assert "the policy gives" in done.summary()["kernel"]["missing"], done.summary()
    assert all(idle(pid) for pid in pids(two))


def test_of_a_policy_that_lists_the_processes(allowing, member, two):
    allowing.policy.write_text(f"{POLICY}kernel: all\n")
    folder = member.dir()
    done = attach(
        allowing, member, "--json", "--kernel", "--duration", "1s", *pids(two), cwd=folder
    )
    assert done.returncode == 0, repr(done) + allowing.log()
    own = set().union(*(threads_of(pid) for pid in pids(two)))
    assert callers(check_nobody_else(folder / "trace", own)) == set(pids(two))
    assert done.stderr.count(WITHOUT_NAMES) == 2, repr(done)


def test_wait_for_processes(allowing, user, two):
    """iprobe wait PID PID asks iprobed, as iprobe attach --kernel does."""
    done = user.iprobe(
        *("wait", "--json", "--by", "process", "--duration", "500ms", *pids(two)),
        env=allowing.env,
        cwd=user.dir(),
    )
    assert done.returncode == 0, repr(done) + allowing.log()
    told = json.loads(done.stdout)["processes"]
    assert {p["pid"] for p in told} == set(pids(two)), told
    for process in told:
        assert "work" in {f["function"] for f in process["functions"]}, process
    until_no_instance(allowing)
    assert all(idle(pid) for pid in pids(two))


def test_requests(allowing, two):
    """What asks for a reader asks for events, and has no descriptors."""
    pid = two[0].pid
    first = f"iprobe 1\nkernel {pid}\n"
    assert "kernel lacks the option --kernel" in ask(allowing, first.encode())
    assert "is not taken by iprobed" in ask(allowing, f"{first}option --functions=x\n".encode())
    with open("/dev/null", encoding="utf-8") as null:
        said = ask(allowing, f"{first}option --kernel\n".encode(), [null.fileno()])
    assert "not the descriptors that it needs" in said
    # root has them; the descriptor is not taken, so the reader ends
    assert ask(allowing, f"{first}option --kernel\n".encode()) == "ended 0\n"
    until_quiet(allowing)


def until_quiet(daemon):
    memory.wait_for(
        "a session stays",
        lambda: not [n for n in daemon.children().values() if n != "iprobed-socket"],
        30,
    )


@pytest.mark.parametrize("who", ["reader", "command"])
def test_kills(allowing, user, two, who):
    proc = user.start_iprobe(
        *("attach", "-o", "trace", "--kernel", *pids(two)), env=allowing.env, cwd=user.dir()
    )
    for pid in pids(two):
        wait_until_live(pid)
    assert len(instances(allowing)) == 2
    (reader,) = [pid for pid, name in allowing.children().items() if name == "iprobed-kernel"]
    os.kill(reader if who == "reader" else proc.pid, signal.SIGKILL)
    done = last_words(proc)
    if who == "reader":
        assert done.returncode == 1, repr(done)
        assert "reader of kernel events has ended" in done.stderr, repr(done)
    until_no_instance(allowing)
    for pid in pids(two):
        wait_until_idle(pid)
    until_quiet(allowing)

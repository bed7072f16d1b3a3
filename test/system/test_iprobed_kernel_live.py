# SPDX-License-Identifier: Apache-2.0
"""Events of the kernel by iprobed, of which no trace is made: iprobe syscalls and top of a user."""

import json
import os
import signal
import sys
import time

import pytest
from test_top_kernel import check, functions, is_of

from iptest import memory
from iptest.actor import ORDINARY_UID, last_words, one_line
from iptest.daemon_fixtures import (  # noqa: F401
    POLICY,
    daemon,
    member,
    other,
    pytestmark,
    wait_until_idle,
)
from iptest.daemon_kernel import (  # noqa: F401
    allowing,
    instances,
    skip_without_events,
    until_no_instance,
)

CALLS = 500
# makes calls whose number is known, in two threads, behind a line; one of them fails each time
COUNTED = f"""
import os, sys, threading
def work():
    for i in range({CALLS}):
        os.getppid()
        try:
            os.rmdir("/nothing/there")
        except OSError:
            pass
print("ready", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=work) for _ in range(2)]
[t.start() for t in threads]; [t.join() for t in threads]
"""


def env(daemon):
    """iprobed is asked where that is needed, and not because the environment says so."""
    return {"IPROBE_SOCKET": str(daemon.socket)}


@pytest.fixture
def counted(user):
    started = []

    def start(who=user):
        started.append(who.popen([sys.executable, "-c", COUNTED]))
        # what a program calls while it is executed is withheld until it was looked at
        assert started[-1].stdout.readline() == "ready\n"
        return started[-1]

    yield start
    for proc in started:
        proc.kill()
        proc.wait()


def until_recorded(daemon, procs):
    """The kernel has their threads on its list."""

    def listed():
        for name in instances(daemon):
            with open(
                f"/sys/kernel/tracing/instances/{name}/set_event_pid", encoding="ascii"
            ) as f:
                if {proc.pid for proc in procs} <= {int(tid) for tid in f.read().split()}:
                    return True
        return False

    memory.wait_for("they are not recorded", lambda: "reader of" in daemon.log() and listed(), 30)
    # one that ends before the reader has answered counts as ended
    time.sleep(0.5)


@pytest.mark.parametrize("n", [1, 2])
def test_counts(allowing, user, counted, n):
    """Each call that was made, of one process and of several."""
    procs = [counted() for _ in range(n)]
    proc = user.start_iprobe(
        "syscalls", "--json", *(p.pid for p in procs), env=env(allowing), cwd=user.dir()
    )
    until_recorded(allowing, procs)
    for p in procs:
        p.stdin.write("go\n")
        p.stdin.flush()
        assert p.wait(timeout=60) == 0
    done = last_words(proc)
    assert done.returncode == 0, repr(done) + allowing.log()
    said = json.loads(done.stdout)
    rows = {row["name"]: row for row in said["syscalls"]}
    assert rows["getppid"]["calls"] == rows["rmdir"]["errors"] == 2 * CALLS * n, said
    assert said["kernel_lost"] == 0 and rows["getppid"]["total_ns"] > 0, said
    until_no_instance(allowing)


def test_lines_in_order(allowing, user, counted):
    """A line a call, of its own threads alone."""
    target, strange = counted(), counted()
    proc = user.start_iprobe(
        "syscalls", "--list", "--json", "-e", "getppid,rmdir", target.pid, env=env(allowing)
    )
    until_recorded(allowing, [target])
    for p in (strange, target):
        p.stdin.write("go\n")
        p.stdin.flush()
        assert p.wait(timeout=60) == 0
    done = last_words(proc)
    calls = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(calls) == 4 * CALLS and len({call["tid"] for call in calls}) == 2, repr(done)[:2000]
    assert strange.pid not in {call["tid"] for call in calls}
    ends = [call["ts"] + call["duration_ns"] for call in calls]
    assert all(before <= after + 1000 for before, after in zip(ends, ends[1:]))
    until_no_instance(allowing)


def test_what_the_policy_does_not_give(daemon, root, user, other, counted):
    skip_without_events(root)
    target = counted()
    say = ("syscalls", "--duration", "100ms")
    line = one_line(user.iprobe(*say, target.pid, env=env(daemon)))
    assert f"the policy gives uid {user.uid} no events of the kernel" in line, line
    assert str(daemon.policy) in line, line
    daemon.policy.write_text(f"{POLICY}kernel: all\n")
    line = one_line(user.iprobe(*say, counted(other).pid, env=env(daemon)))
    assert "another user" in line, line
    done = user.iprobe(*say, target.pid, env=env(daemon))
    assert done.returncode == 0, repr(done)
    assert daemon.end() == 0
    line = one_line(user.iprobe(*say, target.pid, env=env(daemon)))
    assert "an iprobed whose policy gives them to you" in line and "none is running" in line, line
    # root has them by itself
    assert root.iprobe(*say, target.pid, env=env(daemon)).returncode == 0
    until_no_instance(daemon)


LISTED = f"members:\n  - users: [{ORDINARY_UID}]\nkernel: all\n"


@pytest.mark.parametrize("n", [1, 2])
def test_of_a_policy_that_lists_the_processes(allowing, member, other, counted, n):
    """A member's calls of another user's processes: each, and of no other process."""
    allowing.policy.write_text(LISTED)
    procs, strange = [counted() for _ in range(n)], counted(other)
    proc = member.start_iprobe(
        *("syscalls", "--json", "--by", "process", *(p.pid for p in procs)),
        env=env(allowing),
        cwd=member.dir(),
    )
    until_recorded(allowing, procs)
    for p in (strange, *procs):
        p.stdin.write("go\n")
        p.stdin.flush()
        assert p.wait(timeout=60) == 0
    done = last_words(proc)
    assert done.returncode == 0, repr(done) + allowing.log()
    rows = json.loads(done.stdout)["syscalls"]
    assert {r["pid"]: r["calls"] for r in rows if r["name"] == "getppid"} == {
        p.pid: 2 * CALLS for p in procs
    }, rows
    assert {r["pid"] for r in rows} == {p.pid for p in procs}, rows
    until_no_instance(allowing)


def test_what_the_policy_does_not_list(allowing, member, user, other, counted):
    """It is told, and the others are counted; without iprobed nothing of another's is."""
    allowing.policy.write_text(LISTED)
    target, strange = counted(), counted(other)
    say = ("syscalls", "--json", "--duration", "300ms")
    line = one_line(member.iprobe(*say, strange.pid, env=env(allowing)))
    assert f"pid {strange.pid}" in line and "another user" in line, line
    for order in ((target, strange), (strange, target)):
        done = member.iprobe(*say, "--by", "process", *(p.pid for p in order), env=env(allowing))
        assert done.returncode == 1 and f"pid {strange.pid}" in done.stderr, repr(done)
        pids = {row["pid"] for row in json.loads(done.stdout)["syscalls"]}
        assert pids <= {target.pid}, repr(done)
    # who is no member has none of another's
    line = one_line(user.iprobe(*say, strange.pid, env=env(allowing)))
    assert "another user" in line, line
    assert allowing.end() == 0
    line = one_line(member.iprobe(*say, target.pid, env=env(allowing)))
    assert "it is another user's, or runs with other rights: root counts its calls" in line, line
    assert "an iprobed whose policy lists it" in line, line


def test_a_32_bit_program_of_another_user(allowing, member, other, user):
    """Its calls cannot be told apart, which iprobed says of what is listed, and of no other."""
    allowing.policy.write_text(LISTED)
    source, program = user.dir() / "old.c", user.dir() / "old"
    source.write_text("#include <unistd.h>\nint main(void) { pause(); return 0; }\n")
    if user.run(["gcc", "-m32", source, "-o", program]).returncode != 0:
        pytest.skip("gcc makes no 32-bit programs here")
    target, strange = user.popen([program]), other.popen([program])
    say = ("syscalls", "--duration", "300ms")
    line = one_line(member.iprobe(*say, target.pid, env=env(allowing)))
    assert "32-bit programs cannot be told apart" in line, line
    line = one_line(member.iprobe(*say, strange.pid, env=env(allowing)))
    assert "32-bit" not in line and "another user" in line, line
    line = one_line(user.iprobe(*say, target.pid, env=env(allowing)))
    assert "32-bit programs cannot be told apart" in line, line


@pytest.fixture
def waiting(targets, user, programs):
    return targets.start(user, [programs.simple("open_waits", placement="fentry")], preload=False)


def top(actor, daemon, *words, **more):
    done = actor.iprobe("top", "--kernel", "-d", "500ms", *words, env={**env(daemon), **more})
    assert done.returncode == 0, repr(done) + daemon.log()
    return done


@pytest.mark.parametrize("by", ["itself", "worker"])
def test_top(allowing, user, waiting, by):
    """What root's iprobe top shows: by a session of the user's own, or by one of iprobed's."""
    ask = {"IPROBE_DAEMON": "always"} if by == "worker" else {}
    done = top(user, allowing, "--json", "-n", "3", waiting.pid, **ask)
    assert "no waits" not in done.stderr, done.stderr
    assert ("worker" in allowing.log()) == (by == "worker"), allowing.log()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 3
    for line in lines:
        found = check(line)
        for name in ("want", "hold", "look", "work"):
            assert found[name]["calls"] > 0 and found[name]["total_ns"] > 0
        kept = line["kernel"]["kept_ns"]
        assert 0.8 * kept < found["look"]["wait"]["elapsed_ns"] <= kept + 1000
    memory.assert_untouched(waiting.pid)
    until_no_instance(allowing)


def test_top_of_a_wait_without_end(allowing, user, waiting):
    """It began before the oldest events that are kept."""
    proc = user.start_iprobe(
        *("top", "--kernel", "--memory", "1M", "--json", "-d", "500ms", "-n", "24", waiting.pid),
        env=env(allowing),
    )
    proc.stdout.readline()
    waiting.proc.send_signal(signal.SIGUSR1)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for line in lines[4:]:
        stuck = functions(line)["stuck"]
        assert stuck["wait"]["open"] == 1 and stuck["wait"]["unknown_ns"] == 0, line
        assert is_of(stuck, "signal", "pause"), stuck
    until_no_instance(allowing)


@pytest.mark.parametrize("by", ["itself", "worker"])
def test_top_that_the_policy_does_not_give(daemon, root, user, waiting, by):
    """The rest is shown, and one line says what is missing."""
    skip_without_events(root)
    ask = {"IPROBE_DAEMON": "always"} if by == "worker" else {}
    done = top(user, daemon, "-b", "-n", "1", waiting.pid, **ask)
    (line,) = [s for s in done.stderr.splitlines() if "no waits are shown" in s]
    assert "the policy gives uid" in line and "kernel in" in line, line
    assert "%WAIT" not in done.stdout and "look" in done.stdout
    done = top(user, daemon, "-b", "-n", "1", waiting.pid, waiting.pid, **ask)


def test_top_of_several(allowing, user, other, targets, programs, waiting):
    program = programs.simple("open_waits", placement="fentry")
    second = targets.start(user, [program], preload=False)
    words = ("--json", "-n", "2", "--by", "process", waiting.pid, second.pid)
    line = json.loads(top(user, allowing, *words).stdout.splitlines()[-1])
    assert line["kernel"]["without"] == 0, line
    own = [f for f in line["functions"] if f["function"] == "look"]
    assert {f["pid"] for f in own} == {waiting.pid, second.pid}
    for f in own:
        assert f["wait"]["elapsed_ns"] <= line["interval_ns"] and is_of(f, "timer", "poll")
    until_no_instance(allowing)


def test_top_of_several_not_given(daemon, root, user, targets, programs, waiting):
    skip_without_events(root)
    program = programs.simple("open_waits", placement="fentry")
    second = targets.start(user, [program], preload=False)
    done = top(user, daemon, "--json", "-n", "2", waiting.pid, second.pid)
    (line,) = [s for s in done.stderr.splitlines() if "no waits are shown" in s]
    assert "the policy gives uid" in line, line
    line = json.loads(done.stdout.splitlines()[-1])
    assert line["kernel"]["without"] == 2 and line["functions"], line


def test_top_of_another_users_process(allowing, member, user, waiting):
    """As the policy lists it: what its threads wait for, its files by number."""
    allowing.policy.write_text(LISTED)
    done = top(member, allowing, "--json", "-n", "2", waiting.pid)
    for line in map(json.loads, done.stdout.splitlines()):
        check(line)
    assert "without names" in done.stderr, done.stderr
    until_no_instance(allowing)


def until_quiet(daemon):
    memory.wait_for(
        "a session stays",
        lambda: not [n for n in daemon.children().values() if n != "iprobed-socket"],
        30,
    )


def test_top_is_killed(allowing, user, waiting):
    for victim in ("top", "reader"):
        proc = user.start_iprobe(
            *("top", "--kernel", "--json", "-d", "200ms", waiting.pid), env=env(allowing)
        )
        assert json.loads(proc.stdout.readline())["functions"]
        (reader,) = [p for p, name in allowing.children().items() if name == "iprobed-kernel"]
        os.kill(reader if victim == "reader" else proc.pid, signal.SIGKILL)
        done = last_words(proc)
        if victim == "reader":
            assert done.returncode == 0, repr(done)
            assert "iprobed's reader of kernel events has ended" in done.stderr, repr(done)
        until_no_instance(allowing)
        until_quiet(allowing)
        wait_until_idle(waiting.pid)

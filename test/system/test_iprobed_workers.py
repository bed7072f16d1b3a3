# SPDX-License-Identifier: Apache-2.0
"""Workers of iprobed: what they may do, whose they are, and how much they may take."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from iptest import memory
from iptest.actor import last_words, one_line
from iptest.daemon import Daemon
from iptest.daemon_fixtures import (  # noqa: F401
    daemon,
    idle,
    member,
    other,
    program,
    pytestmark,
    status_of,
    target,
    wait_until_live,
    wait_until_recorded,
)


def test_a_worker_has_two_capabilities_and_the_callers_ids(daemon, user, target):
    directory = user.dir()
    proc = daemon.start_attach(user, target.pid, cwd=directory)
    wait_until_recorded(directory / "trace")
    (worker,) = daemon.workers()
    status = status_of(worker)
    assert set(status["Uid"].split()) == {str(user.uid)} == set(status["Gid"].split())
    assert int(status["CapPrm"], 16) == 1 << 19 | 1 << 23
    assert status["Seccomp"] == "0" and status["NoNewPrivs"] == "1"
    # where it may not trace the target either (ptrace_scope 3) it must not ask iprobed in turn
    with open(f"/proc/{worker}/environ", encoding="utf-8") as f:
        assert "IPROBE_DAEMON=never" in f.read().split("\0")
    # its user cannot take them from it
    done = user.run(["cat", f"/proc/{worker}/maps"])
    assert done.returncode == 1 and "Permission denied" in done.stderr
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    assert idle(target.pid)


@pytest.mark.parametrize("how", ["both end", "one is killed"])
def test_the_sum_of_several_sessions(daemon, user, targets, target, program, how):
    """Their traces tell what they have recorded; one that has failed keeps its trace."""
    second = targets.start(user, [program, "plain"], preload=False)
    pids, directory = [target.pid, second.pid], user.dir()
    proc = daemon.start_attach(
        user, target.pid, second.pid, "--json", cwd=directory, stdout=subprocess.PIPE
    )
    for pid in pids:
        memory.wait_until_live(pid, proc)
    memory.wait_for("no two workers", lambda: len(daemon.workers()) == 2)
    time.sleep(0.5)  # until the events so far are in the traces
    if how == "one is killed":
        os.kill(daemon.workers()[0], signal.SIGKILL)
        memory.wait_for("it is not put back", lambda: any(idle(pid) for pid in pids), 30)
    proc.send_signal(signal.SIGINT)
    out, err = proc.communicate(timeout=60)
    done = json.loads(out)
    members = (directory / "trace/iprobe/members").read_text()
    assert all(f"\t{pid}" in members for pid in pids), members
    assert done["processes"] == 2, (done, err)
    assert done["stops"] >= 2 and done["longest_stop_us"] > 0, done
    if how == "both end":
        assert done["events"] == sum(m["events"] for m in done["members"]) > 0, done
    for pid in pids:
        memory.wait_for("it is not put back", lambda: idle(pid), 30)


def test_a_member_cannot_end_a_worker_by_force(daemon, member, target):
    """It may be in the middle of an errand in somebody else's process."""
    proc = daemon.start_attach(member, target.pid)
    wait_until_live(target.pid)
    (worker,) = daemon.workers()
    status = status_of(worker)
    assert status["Uid"].split() == ["65534", str(member.uid), "65534", str(member.uid)]
    assert (
        int(status["CapPrm"], 16)
        == int(status["CapInh"], 16)
        == 1 << 1 | 1 << 19 | 1 << 23 | 1 << 40
    )
    for word in ("KILL", "STOP"):
        done = member.run(["sh", "-c", f"kill -{word} {worker}"])
        assert done.returncode != 0 and "not permitted" in done.stderr, repr(done)
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    assert idle(target.pid) and target.alive()


@pytest.mark.parametrize("who", ["user", "member"])
def test_what_a_worker_is_belongs_to_nobody(daemon, user, member, target, who):
    """It has the caller's user, who could otherwise have the kernel kill it first, or let it
    oversleep.
    """
    who = user if who == "user" else member
    proc = daemon.start_attach(who, target.pid, cwd=who.dir())
    wait_until_live(target.pid)
    (worker,) = daemon.workers()
    for name, value in (
        ("oom_score_adj", "1000"),
        ("timerslack_ns", "4000000000"),
        ("coredump_filter", "0xff"),
        ("clear_refs", "1"),
        ("comm", "other"),
        ("autogroup", "19"),
    ):
        path = f"/proc/{worker}/{name}"
        if not os.path.exists(path):
            continue
        before = open(path, encoding="utf-8").read() if name != "clear_refs" else None
        done = who.run(["sh", "-c", f"echo {value} > {path}"])
        assert done.returncode != 0, (name, repr(done))
        assert before is None or open(path, encoding="utf-8").read() == before, name
    for name in ("fd", "environ", "mem", "io"):
        assert (
            who.run(
                ["sh", "-c", f"ls /proc/{worker}/{name}/ || head -c1 /proc/{worker}/{name}"]
            ).returncode
            != 0
        ), name
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    assert idle(target.pid)


@pytest.mark.parametrize("who", ["user", "member"])
def test_a_worker_is_nobodys_from_its_first_instruction(daemon, user, member, target, root, who):
    """Also between its exec and what it does first: whoever is quick could keep a descriptor of
    what /proc shows of it.
    """
    who, tries = user if who == "user" else member, 10
    racer = root.dir() / "racing_open"
    racer.parent.chmod(0o755)
    subprocess.run(
        [
            "gcc",
            "-O2",
            "-o",
            racer,
            pathlib.Path(__file__).resolve().parents[1] / "programs" / "racing_open.c",
        ],
        check=True,
    )
    proc = who.popen([racer, daemon.proc.pid])
    assert proc.stdout.readline() == "ready\n"
    for _ in range(tries):
        assert daemon.attach(who, target.pid, "--duration", "1ms", cwd=who.dir()).returncode == 0
    out, _ = proc.communicate("end\n", timeout=30)
    seen, *opened = out.split()
    # on a busy machine a worker comes and goes between two looks
    assert int(seen) > 0 and not opened, out


@pytest.mark.parametrize(
    "options", [[], ["--time", "coarse"], ["--overwrite"]], ids=["plain", "coarse", "overwrite"]
)
def test_a_worker_has_real_time_priority_in_stops_alone(daemon, user, target, options):
    proc = daemon.start_attach(user, target.pid, *options, cwd=user.dir())
    wait_until_live(target.pid)
    (worker,) = daemon.workers()
    time.sleep(0.3)  # the stop is over, and what comes behind it
    seen = {}
    for _ in range(60):
        for thread in os.listdir(f"/proc/{worker}/task"):
            policy = os.sched_getscheduler(int(thread)) & ~os.SCHED_RESET_ON_FORK
            seen.setdefault(policy, []).append(thread)
        time.sleep(0.01)
    assert set(seen) == {os.SCHED_OTHER}, {policy: len(threads) for policy, threads in seen.items()}
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    assert idle(target.pid)


@pytest.mark.slow
def test_many_targets(root, user, targets, program):
    """Sessions beside each other, and one after the other: iprobed's memory and descriptors come
    back, and processes with them.
    """
    count, at_once, logs = 200, 40, 10
    daemon = Daemon(root, root.dir()).start(
        "--sessions", at_once + 1, "--sessions-per-user", at_once + 1
    )
    directory = user.dir()

    def size():
        status = status_of(daemon.proc.pid)
        return int(status["VmRSS"].split()[0]), len(os.listdir(f"/proc/{daemon.proc.pid}/fd"))

    pids = [targets.start(user, [program, "idle"], preload=False).pid for _ in range(count)]
    for round_ in range(0, count, at_once):
        now = pids[round_ : round_ + at_once]
        for number, pid in enumerate(now):
            done = daemon.attach(
                user,
                pid,
                "--leave",
                "-q",
                # To look at 40 sets of rings is more than two processors can do.
                *(["--memory", "1M"] if number < logs else ["--payload", "count"]),
                directory=f"trace-{pid}",
                cwd=directory,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            assert done.returncode == 0, daemon.log()[-2000:]
        for pid in now:
            wait_until_live(pid)
        assert len(daemon.workers()) == at_once and len(list(daemon.state.iterdir())) == at_once
        memory_kb, descriptors = size()
        # each: pidfds of the target and of who asked, a pipe for what the worker says
        assert memory_kb < 16 << 10 and descriptors <= 3 * at_once + 20, (memory_kb, descriptors)
        for pid in now:
            done = user.iprobe("detach", pid, env=daemon.env)
            assert done.returncode == 0, repr(done)
        memory.wait_for(
            "workers stay", lambda: not daemon.workers() and not list(daemon.state.iterdir()), 60
        )
        assert all(idle(pid) for pid in now)
    memory.wait_for("processes stay", lambda: len(daemon.children()) == 1, 30)
    memory_kb, descriptors = size()
    assert memory_kb < 16 << 10 and descriptors <= 16, (memory_kb, descriptors)
    assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert daemon.end() == 0 and daemon.log().count("ended with code 0") == 2 * count, daemon.log()[
        -2000:
    ]


def test_what_keeps_a_worker_from_starting(root, user, target):
    """The caller is told, and the log: here of a /dev/null that the caller may not open."""
    path = root.dir()
    path.chmod(0o755)
    (path / "null").touch(0o600)
    daemon = Daemon(root, path)
    daemon.start(
        before=[
            *["unshare", "--mount", "sh", "-c"],
            'mount --bind "$0" /dev/null && exec "$@"',
            path / "null",
        ]
    )
    done = daemon.attach(user, target.pid, "--duration", "50ms", cwd=user.dir())
    why = "cannot start a worker: /dev/null: Permission denied"
    assert f"iprobe: iprobed {why}" == one_line(done), repr(done)
    assert why in daemon.log()
    assert daemon.end() == 0 and idle(target.pid)


def test_limits_of_the_caller_are_the_workers(daemon, user, target):
    directory = user.dir()
    proc = user.popen(
        [
            "prlimit",
            "--fsize=200000000",
            "--nproc=5000",
            user.iprobe_path,
            "attach",
            "-o",
            "trace",
            target.pid,
        ],
        env=daemon.env,
        cwd=directory,
    )
    wait_until_recorded(directory / "trace")
    (worker,) = daemon.workers()
    with open(f"/proc/{worker}/limits", encoding="utf-8") as f:
        limits = {line[:25].strip(): line[25:].split()[:2] for line in f}
    assert limits["Max file size"] == ["200000000"] * 2
    assert limits["Max processes"] == ["5000"] * 2
    assert limits["Max core file size"] == ["0"] * 2
    for name in ("Max address space", "Max data size"):
        assert all(int(n) <= 16 << 30 for n in limits[name]), limits
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0 and idle(target.pid)


def test_sessions_have_a_limit(root, user, targets, program):
    path = root.dir()
    daemon = Daemon(root, path).start("--sessions-per-user", "1")
    first = targets.start(user, [program, "plain"], preload=False)
    second = targets.start(user, [program, "plain"], preload=False)
    proc = daemon.start_attach(user, first.pid, cwd=user.dir())
    wait_until_live(first.pid)
    assert "has 1 session by iprobed" in one_line(
        daemon.attach(user, second.pid, "--duration", "50ms")
    )
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    assert daemon.end() == 0


def test_memory_has_a_limit(root, user, other, targets, program):
    """Of each user, by what all of his sessions may take; what puts bytes back needs none."""
    daemon = Daemon(root, root.dir()).start("--memory-per-user", "120M")
    first, second = (targets.start(user, [program, "plain"], preload=False) for _ in range(2))
    others = targets.start(other, [program, "plain"], preload=False)
    proc = daemon.start_attach(user, first.pid, "--memory", "16M", cwd=user.dir())
    wait_until_live(first.pid)
    for options in ((), ("--memory", "16M", "--memory", "64M"), ("--memory=500M",)):
        line = one_line(
            daemon.attach(user, second.pid, *options, "--duration", "50ms", cwd=user.dir())
        )
        assert "have 48.0 MiB of the 120.0 MiB" in line and idle(second.pid), line
    assert "of the 120.0 MiB" in one_line(
        user.iprobe("top", "-b", "-n", "1", second.pid, env=daemon.env)
    )
    done = daemon.attach(
        user, second.pid, "--memory", "1G", "--memory", "8M", "--duration", "50ms", cwd=user.dir()
    )
    assert done.returncode == 0, repr(done)
    assert daemon.attach(other, others.pid, "--duration", "50ms", cwd=other.dir()).returncode == 0
    assert user.iprobe("status", first.pid, env=daemon.env).returncode == 0
    assert user.iprobe("detach", first.pid, env=daemon.env).returncode == 0
    assert last_words(proc).returncode == 0
    # what has ended takes nothing
    assert (
        daemon.attach(
            user, second.pid, "--memory", "80M", "--duration", "50ms", cwd=user.dir()
        ).returncode
        == 0
    )
    assert daemon.end() == 0

# SPDX-License-Identifier: Apache-2.0
"""Events of the kernel by iprobed: to whom the policy gives them, and of what."""

import json
import os
import signal
import time

import pytest

from iptest import kernel_streams, memory
from iptest.actor import OTHER_UID, last_words, one_line
from iptest.daemon_fixtures import (  # noqa: F401
    POLICY,
    daemon,
    idle,
    member,
    other,
    program,
    pytestmark,
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

def test_own_events_and_no_more(allowing, user, other, targets, calling):
    """Another user's threads run and wake each other all the time."""
    strange = targets.start(other, [calling, "strange"], preload=False)
    target = targets.start(user, [calling, "own"], preload=False)
    folder = user.dir()
    groups = "--kernel=sched,syscalls,irq,faults"
    done = allowing.attach(
        user, target.pid, "--json", groups, "--duration", "1s", cwd=folder
    )
    assert done.returncode == 0, repr(done) + allowing.log()
    summary = done.summary()
    assert summary["events"] > 0 and summary["kernel"]["events"] > 100, summary
    trace = folder / "trace"
    assert WITHOUT_NAMES not in done.stderr, repr(done)
    assert "pipe" in (trace / "iprobe" / "descriptors").read_text()
    events = check_nobody_else(trace, threads_of(target.pid))
    own = [event for event in events if event["tid"] == target.pid]
    assert {"sched_switch", "syscall_entry_poll", "syscall_exit_poll", "sched_waking"} <= {
        event["event"] for event in events
    }
    assert 0x600D in numbers(own) and 0x5EC2E7 not in numbers(events)
    assert not threads_of(strange.pid) & kernel_streams.ids(events)
    assert "another process" in kernel_streams.names(events)
    for event in events:
        for field in ("hrtimer", "function"):
            assert not event["fields"].get(field), event
        assert not event["fields"].get("ip", 0) >> 63, event
    for path in [trace / "kernel", *(trace / "kernel").iterdir()]:
        assert path.stat().st_uid == user.uid, path
    said = user.iprobe("wait", "--json", "trace", cwd=folder)
    assert said.returncode == 0 and "trace/kernel/" not in said.stderr, repr(said)
    row = next(f for f in json.loads(said.stdout)["functions"] if f["function"] == "work")
    assert row["cpu_ns"] > 0 and row["unknown_ns"] < row["elapsed_ns"] / 10, row
    said = user.iprobe("syscalls", "--json", "trace", cwd=folder)
    assert "getpgid" in {c["name"] for c in json.loads(said.stdout)["syscalls"]}, repr(said)
    said = user.iprobe("wait", "trace", cwd=folder)
    if "the CPU had" in said.stdout:
        assert "another process on CPU " in said.stdout, said.stdout
    until_no_instance(allowing)
    assert idle(target.pid)


def test_off_by_default(daemon, root, user, member, targets, calling):
    skip_without_events(root)
    target = targets.start(user, [calling, "own"], preload=False)
    attach = ("--kernel", "--duration", "50ms")
    for who in (user, member):
        line = one_line(daemon.attach(who, target.pid, *attach, cwd=who.dir()))
        assert f"the policy gives uid {who.uid} no events of the kernel" in line, line
    daemon.policy.write_text(ALLOWS)  # is read at each request
    assert daemon.attach(user, target.pid, "-q", *attach, cwd=user.dir()).returncode == 0
    assert "no events of the kernel" in one_line(daemon.attach(member, target.pid, *attach))
    daemon.policy.write_text(f"{POLICY}kernel: {{groups: [{member.groups[0]}]}}\n")
    assert daemon.attach(member, target.pid, "-q", *attach, cwd=member.dir()).returncode == 0
    assert "no events of the kernel" in one_line(daemon.attach(user, target.pid, *attach))
    line = one_line(daemon.attach(user, target.pid, "--kernel", "--kernel-buffer", "32M"))
    assert "is more than iprobed gives" in line, line
    assert idle(target.pid)


def test_optional(daemon, root, user, targets, calling):
    """What the policy does not give is left out where the user has said so, with a line."""
    skip_without_events(root)
    target = targets.start(user, [calling, "own"], preload=False)
    folder = user.dir()
    attach = ("--kernel=optional", "--json", "--duration", "300ms")
    for policy, why in ((POLICY, f"the policy gives uid {user.uid} none"), ("kernel: 3\n", "")):
        daemon.policy.write_text(policy)
        done = daemon.attach(user, target.pid, *attach, cwd=folder)
        assert done.returncode == 0, repr(done) + daemon.log()
        (line,) = [s for s in done.stderr.splitlines() if "events of the kernel" in s]
        assert f"recording goes on without events of the kernel: {why}" in line, line
        assert str(daemon.policy) in line, line
        summary = done.summary()
        assert summary["events"] > 0 and summary["kernel"]["missing"] in line, summary
        assert not (folder / "trace" / "kernel").exists()
        assert f", without events of the kernel: {summary['kernel']['missing']}" in daemon.log()
        assert "reader of kernel events" not in daemon.log()
    done = daemon.attach(user, target.pid, *attach, "--dry-run", cwd=folder)
    said = done.summary()["kernel"]
    assert not said["recorded"] and str(daemon.policy) in said["missing"], repr(done)
    daemon.policy.write_text(ALLOWS)
    done = daemon.attach(user, target.pid, *attach, cwd=folder)
    assert done.returncode == 0 and done.summary()["kernel"]["events"] > 0, repr(done)
    until_no_instance(daemon)  # what the reader refuses is left out, too
    done = daemon.attach(
        user, target.pid, "--kernel=block,optional", *attach[1:], directory="block", cwd=folder
    )
    assert done.returncode == 0 and "group block" in done.summary()["kernel"]["missing"], repr(done)
    until_no_instance(daemon)
    assert idle(target.pid)


@pytest.mark.parametrize("several", [False, True])
def test_who_may_trace_alone(daemon, root, user, targets, calling, several):
    """Where Yama keeps nobody from his own processes, iprobed is asked for the kernel's events."""
    skip_without_events(root)
    daemon.policy.write_text(ALLOWS)
    target = targets.start(user, [calling, "own"], preload=False)
    some = [target.pid] + ([targets.start(user, [calling, "own"], preload=False).pid] * several)
    env = {**daemon.env, "IPROBE_DAEMON": "auto"}
    folder = user.dir()
    words = ("attach", *some, "--json", "--duration", "300ms", "-o", "trace")
    done = user.iprobe(*words, "--kernel", env=env, cwd=folder)
    assert done.returncode == 0, repr(done) + daemon.log()
    assert done.summary()["kernel"]["events"] > 0 and done.summary()["events"] > 0, repr(done)
    said = user.iprobe("wait", "trace", cwd=folder)
    assert said.returncode == 0 and "trace/kernel/" not in said.stderr, repr(said)
    until_no_instance(daemon)
    # what iprobed does not take is recorded without these events, where they are optional
    done = user.iprobe(*words, "--kernel=optional", "--rotate", "4", env=env, cwd=folder)
    assert done.returncode == 0 and done.summary()["events"] > 0, repr(done)
    nowhere = {**env, "IPROBE_SOCKET": str(folder / "nowhere")}
    done = user.iprobe(*words, "--kernel", env=nowhere, cwd=folder)
    assert done.returncode == 1, repr(done)
    assert "which takes root" in done.stderr, repr(done)
    done = user.iprobe("doctor", "--json", target.pid, env=nowhere)
    assert "which takes root" in done.stdout, repr(done)
    assert idle(target.pid)


def test_wait_for_a_process(allowing, user, targets, calling):
    """iprobe wait PID asks iprobed, as iprobe attach --kernel does."""
    target = targets.start(user, [calling, "own"], preload=False)
    done = user.iprobe(
        *("wait", "--json", "--duration", "500ms", target.pid), env=allowing.env, cwd=user.dir()
    )
    assert done.returncode == 0, repr(done) + allowing.log()
    assert "work" in {f["function"] for f in json.loads(done.stdout)["functions"]}, repr(done)
    until_no_instance(allowing)


@pytest.mark.parametrize("groups", ["block", "all"])
def test_requests_to_disks_are_refused(allowing, user, targets, calling, groups):
    """A thread that issues them may do so for another user's."""
    target = targets.start(user, [calling, "own"], preload=False)
    folder = user.dir()
    line = one_line(
        allowing.attach(
            user, target.pid, f"--kernel={groups}", "--duration", "50ms", cwd=folder
        )
    )
    assert "events of the group block" in line and "name sched, syscalls" in line, line
    assert not (folder / "trace").exists()
    until_no_instance(allowing)
    assert idle(target.pid)


def test_dry_run(allowing, user, targets, calling):
    """The reader tells what there would be, and makes nothing."""
    target = targets.start(user, [calling, "own"], preload=False)
    done = allowing.attach(user, target.pid, "--kernel", "--dry-run", "--json", cwd=user.dir())
    assert done.returncode == 0, repr(done)
    said = done.summary()["kernel"]
    assert said["recorded"] and said["groups"] == "sched,syscalls,irq,faults", said
    assert "root" not in said["missing"], said
    done = allowing.attach(user, target.pid, "--kernel=block", "--dry-run", cwd=user.dir())
    assert "no events of the kernel: --kernel: events of the group block" in done.stdout, repr(done)
    until_no_instance(allowing)


def test_targets_of_others(allowing, user, other, targets, calling):
    """Events of the kernel are asked for with a process that one may trace, or not at all."""
    target = targets.start(other, [calling, "strange"], preload=False)
    line = one_line(allowing.attach(user, target.pid, "--kernel", "--duration", "50ms"))
    assert "iprobed refuses: " in line and "belongs to another user" in line, line


def test_of_a_policy_that_lists_the_process(allowing, member, targets, user, calling):
    allowing.policy.write_text(f"{POLICY}kernel: all\n")
    target = targets.start(user, [calling, "own"], preload=False)
    folder = member.dir()
    done = allowing.attach(
        member, target.pid, "--json", "--kernel", "--duration", "500ms", cwd=folder
    )
    assert done.returncode == 0, repr(done) + allowing.log()
    events = check_nobody_else(folder / "trace", threads_of(target.pid))
    assert 0x600D in numbers(events)
    (line,) = [s for s in done.stderr.splitlines() if WITHOUT_NAMES in s]
    assert f"pid {target.pid} is another user's" in line, line
    assert (folder / "trace" / "iprobe" / "descriptors").read_text() == ""


def test_a_child_that_executes_a_setuid_program(allowing, user, targets, calling, setuid):
    """What it does then is not the user's any more; what the target does is, from start to end."""
    target = targets.start(user, [calling, "own", setuid], preload=False)
    folder = user.dir()
    proc = allowing.start_attach(
        user, target.pid, "--json", "--kernel", "--duration", "3s", cwd=folder
    )
    wait_until_live(target.pid)
    time.sleep(0.5)
    target.say("exec")
    assert target.proc.stdout.readline() == "ready\n"
    with open(f"/proc/{target.pid}/task/{target.pid}/children", encoding="utf-8") as f:
        (child,) = map(int, f.read().split())
    assert memory.status_field(child, "Uid").split()[1] == str(OTHER_UID)
    done = last_words(proc)
    assert done.returncode == 0, repr(done) + allowing.log()
    own = threads_of(target.pid) | {child}
    os.kill(child, signal.SIGKILL)
    events = check_nobody_else(folder / "trace", own)
    assert 0x5EC2E7 not in numbers(events)
    # nor how much that was: it makes thousands of calls
    assert 0 < done.summary()["kernel"]["lost"] < 100, done.summary()
    mine = [e for e in events if e["tid"] == target.pid and e["event"] == "syscall_entry_getpgid"]
    (fork,) = (e["tsc"] for e in events if e["fields"].get("child_tid") == child)
    assert mine[0]["tsc"] < fork < mine[-1]["tsc"]
    # not even the exec is told where it was seen only when it was over
    calls = [e["event"] for e in events if e["tid"] == child and e["event"].startswith("syscall_")]
    if any("exec" in name for name in calls):
        assert calls[-1].startswith("syscall_entry_exec"), calls


def test_a_child_that_executes_a_plain_program(allowing, user, targets, calling):
    """It is the user's still: its events are missing for a moment, which is told."""
    target = targets.start(user, [calling, "own", calling], preload=False)
    folder = user.dir()
    proc = allowing.start_attach(
        user, target.pid, "--json", "--kernel", "--duration", "3s", cwd=folder
    )
    wait_until_live(target.pid)
    target.say("exec")
    assert target.proc.stdout.readline() == "ready\n"
    done = last_words(proc)
    assert done.returncode == 0, repr(done) + allowing.log()
    assert 0x5EC2E7 in numbers(kernel_streams.read(folder / "trace"))
    assert done.summary()["kernel"]["lost"] > 0


@pytest.mark.parametrize("keeps", [(), ("--overwrite", "--memory", "512K")])
def test_a_target_that_executes_a_setuid_program(allowing, user, targets, calling, setuid, keeps):
    target = targets.start(user, [calling, "own", setuid], preload=False)
    folder = user.dir()
    proc = allowing.start_attach(user, target.pid, "--kernel", *keeps, cwd=folder)
    wait_until_live(target.pid)
    time.sleep(0.3)
    target.say("become")
    assert target.proc.stdout.readline() == "ready\n"
    done = last_words(proc)
    # the session reads in /proc, as everybody may, what the threads of its target are called
    events = check_nobody_else(folder / "trace", {target.pid}, "kernel")
    assert 0x600D in numbers(events) and 0x5EC2E7 not in numbers(events), repr(done)
    until_no_instance(allowing)
    assert target.alive()


def readers(daemon):
    return [pid for pid, name in daemon.children().items() if name == "iprobed-kernel"]


def test_the_reader_has_one_capability(allowing, user, targets, calling):
    target = targets.start(user, [calling, "own"], preload=False)
    proc = allowing.start_attach(user, target.pid, "--kernel", cwd=user.dir())
    wait_until_live(target.pid)
    (reader,) = readers(allowing)
    for field in ("CapPrm", "CapEff"):
        assert int(memory.status_field(reader, field), 16) == 1 << 19, field  # CAP_SYS_PTRACE
    assert memory.status_field(reader, "NoNewPrivs") == "1"
    assert memory.status_field(reader, "Seccomp") == "2"
    files = {os.readlink(f"/proc/{reader}/fd/{fd}") for fd in os.listdir(f"/proc/{reader}/fd")}
    outside = {
        name
        for name in files
        if not name.startswith(("socket:", "anon_inode:", "/sys/kernel/tracing"))
        and name not in ("/dev/null", str(allowing.log_path))
    }
    assert not outside, files
    (worker,) = allowing.workers()
    writing = [
        tid
        for tid in threads_of(worker)
        if int(memory.status_field(worker, "CapEff", tid), 16) == 0
    ]
    assert len(writing) == 1 and int(memory.status_field(worker, "CapEff"), 16)
    for pid in (reader, worker):
        assert user.run(["kill", "-STOP", reader]).returncode != 0
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    memory.wait_for("the reader stays", lambda: not readers(allowing), 30)


def has_memory(pid):
    try:
        with open(f"/proc/{pid}/status") as status:
            return "VmSize" in status.read()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("who", ["reader", "worker", "all"])
def test_kills(allowing, user, targets, calling, who):
    """Nothing stays in tracefs, whoever is killed."""
    target = targets.start(user, [calling, "own"], preload=False)
    proc = allowing.start_attach(user, target.pid, "--kernel", cwd=user.dir())
    wait_until_live(target.pid)
    assert len(instances(allowing)) == 2
    reader, worker = readers(allowing)[0], allowing.workers()[0]
    victims = {
        "reader": [reader],
        "worker": [worker],
        "all": [allowing.proc.pid, reader, worker],
    }[who]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    done = last_words(proc)
    assert done.returncode == 1, repr(done)
    if who == "reader":
        assert "reader of kernel events has ended" in done.stderr, repr(done)
        assert "a reader of kernel events was killed" in allowing.log()
    if who == "all":
        allowing.proc.wait()
        # who is dying still has its instances open
        memory.wait_for("the reader lives", lambda: not has_memory(reader), 60)
        allowing.start()
    until_no_instance(allowing)
    memory.wait_for("sites stay live", lambda: idle(target.pid), 30)

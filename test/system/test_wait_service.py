# SPDX-License-Identifier: Apache-2.0
"""iprobe wait on several processes that were recorded together, and on one in a container."""

import json
import os
import signal
import subprocess

import pytest
from test_wait import NAP, ROUNDS, WAITS, blocked, row, skip_without_events

from iptest import memory
from iptest.server import Server


@pytest.fixture
def traced(root):
    """An actor that may record kernel events."""
    skip_without_events(root)
    return root


def wait(actor, trace, *words):
    done = actor.iprobe("wait", "--json", *words, trace)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def record(actor, words, directory, live):
    more = ("--kernel", "--kernel-buffer", "64M", "--json", "-q", "-o", directory)
    proc = actor.start_iprobe("attach", *words, *more)
    for pid in live:
        memory.wait_until_live(pid, proc)
    return proc


def end(proc):
    proc.send_signal(signal.SIGTERM)
    out, err = proc.communicate(timeout=60)
    assert proc.returncode == 0, err
    return json.loads(out), err


def switches(pid):
    """How often it has given its CPU up, as it does for each nap."""
    return int(memory.status_field(pid, "voluntary_ctxt_switches"))


def is_live(actor, pid):
    """Whether a session of its own has made probes live."""
    done = actor.iprobe("status", "--json", pid)
    return done.returncode == 0 and json.loads(done.stdout)["patched"] > 0


def test_a_service(traced, programs, targets):
    """Events are recorded once, above the traces of the processes; also of one that joins late."""
    server = Server(traced, programs, targets, workers=1)
    directory = traced.dir() / "trace"
    proc = record(traced, [server.pid, "--children"], directory, server.everybody())
    # its parent's session does not follow one that is another user: it is a member of its own
    assert server.say("as 65534") == "done"
    late = server.fork()
    memory.wait_for("no session", lambda: any(directory.glob(f"*-{late}/metadata")))
    # not by its parent's probes, which it has copies of at first
    memory.wait_for("it is not live", lambda: is_live(traced, late))
    memory.wait_until_live(late, proc)
    server.go()
    for pid in server.workers:
        naps = switches(pid)
        memory.wait_for("it does not nap", lambda p=pid, n=naps: switches(p) > n + 100)
    done, _ = end(proc)
    assert done["kernel"]["events"] > 0 and done["kernel"]["lost"] == 0, done
    assert [path.parent for path in directory.rglob("kernel/metadata")] == [directory / "kernel"]
    info = json.loads(traced.iprobe("info", "--json", directory).stdout)
    assert "sched" in json.dumps(info["kernel_events"]), info
    both = wait(traced, directory, "--by", "process")
    named = {p["pid"]: p for p in both["processes"]}
    assert set(server.workers) <= set(named), named.keys()
    for pid in server.workers:
        tick = row(named[pid], "prefork_tick")
        assert [b["kind"] for b in tick["blocked"]][:1] == ["timer"], named[pid]
        assert blocked(tick) > 0.5e6 * tick["calls"] and tick["unknown_ns"] == 0, tick
        assert (
            wait(traced, directory, "--process", str(pid))["functions"] == named[pid]["functions"]
        )
    sums = row(wait(traced, directory), "prefork_tick")
    assert sums["calls"] == sum(
        f["calls"]
        for p in both["processes"]
        for f in p["functions"]
        if f["function"] == "prefork_tick"
    )
    server.finish()


def test_a_lock_of_each(traced, programs):
    """Two processes of a program that is mapped elsewhere in each: a lock has its name in both."""
    folder = traced.dir()
    program = programs.simple("wait_kinds", placement="fentry")
    procs = [
        traced.popen([program, str(ROUNDS), folder / f"lock{i}"], stdin=subprocess.PIPE)
        for i in range(2)
    ]
    for proc in procs:
        proc.stdout.readline()
        assert proc.stdout.readline() == "ready\n"
    pids = [proc.pid for proc in procs]
    attach = record(traced, pids, folder / "trace", pids)
    for proc in procs:
        proc.stdin.write("\n")
        proc.stdin.flush()
    for proc in procs:
        out, _ = proc.communicate(timeout=60)
        assert proc.returncode == 0 and out.endswith("done\n"), out
    out, err = attach.communicate(timeout=60)
    assert attach.returncode == 0, err
    for document in wait(traced, folder / "trace", "--by", "process")["processes"]:
        said = row(document, "on_futex")
        assert said["blocked"][0]["object"] == "&db.lock", said
        lock = f"lock{pids.index(document['pid'])}"
        assert lock in row(document, "on_flock")["blocked"][0]["object"]
    # one row of both
    locks = row(wait(traced, folder / "trace"), "on_futex")
    assert locks["calls"] == 2 * ROUNDS
    assert [b["object"] for b in locks["blocked"]].count("&db.lock") == 1, locks


def test_a_full_disk(traced, programs, small_disk):
    """The recording of the kernel's events ends all of it, and that is told once."""
    program = programs.simple("wait_kinds", placement="fentry")
    procs = [
        traced.popen([program, "1", traced.top / f"lock{i}"], stdin=subprocess.PIPE)
        for i in range(2)
    ]
    for proc in procs:
        proc.stdout.readline()
        assert proc.stdout.readline() == "ready\n"
    pids = [proc.pid for proc in procs]
    directory = small_disk / "trace"
    attach = record(traced, [*pids, "--max-size", "1G"], directory, pids)
    with open(small_disk / "filler", "wb", buffering=0) as filler:
        with pytest.raises(OSError, match="No space"):
            while True:
                filler.write(bytes(4096))
    out, err = attach.communicate(timeout=60)  # it ends by itself
    said = json.loads(out)
    assert attach.returncode == 0, err  # as without such events
    assert said["ended_early"] is True and said["end"] == "no space left", (out, err)
    assert said["kernel"]["events"] > 0, said
    assert err.count("no space left") == 1 and err.count("kernel") == 0, err


BY_PROCESS = ["syscalls", "--by", "process", "--json"]


def in_container(actor, *program):
    """Starts it in a pid and a mount namespace of its own. Returns unshare, and its pid here."""
    proc = actor.popen(
        ["unshare", "--pid", "--mount", "--fork", "--kill-child", *program], stdin=subprocess.PIPE
    )
    first = proc.stdout.readline()
    if not first:
        pytest.skip("no such namespaces here")
    with open(f"/proc/{proc.pid}/task/{proc.pid}/children", encoding="ascii") as f:
        return proc, int(f.read().split()[0]), first


def test_in_a_container(traced, programs):
    """Its threads have other ids there."""
    folder = traced.dir()
    program = programs.simple("wait_kinds", placement="fentry")
    proc, inside, line = in_container(traced, program, str(ROUNDS), folder / "lock")
    assert proc.stdout.readline() == "ready\n"
    attach = record(traced, [inside], folder / "trace", [inside])
    proc.stdin.write("\n")
    proc.stdin.flush()
    out, _ = proc.communicate(timeout=60)
    assert out.endswith("done\n"), out
    _, err = attach.communicate(timeout=60)
    assert attach.returncode == 0, err
    truth = {l.split()[0] for l in out.splitlines()[:-1]}
    values = {"port": line.split()[1], "lock": str(folder / "lock")}
    document = wait(traced, folder / "trace")
    assert document["unknown_threads"] == 0, document["unknown_threads"]
    for function in sorted(truth & set(WAITS)):
        kind, name = WAITS[function]
        said = row(document, function)
        assert said["calls"] == ROUNDS and said["unknown_ns"] == 0, said
        assert said["blocked"][0]["kind"] == kind, said
        assert name.format(**values) in said["blocked"][0]["object"], said
    assert blocked(row(document, "on_timer")) > 0.99 * ROUNDS * NAP
    calls = wait(traced, folder / "trace", "--of", "on_futex")["calls"]
    assert calls and all(call["tid"] == inside for call in calls), calls
    assert wait(traced, folder / "trace", "--tid", str(inside))["functions"]
    # system calls by process need its ids here alone; those by function are refused
    said = json.loads(traced.iprobe(*BY_PROCESS, folder / "trace").stdout)["syscalls"]
    pids = {row["pid"] for row in said if row["name"] == "futex"}
    assert pids == {inside}, said
    refused = traced.iprobe("syscalls", "--by", "function", folder / "trace")
    assert refused.returncode == 1 and "container" in refused.stderr, repr(refused)
    # the other views know its threads too
    words = ("--format", "folded", "--off-cpu", folder / "trace")
    folded = traced.iprobe("export", *words).stdout
    assert "on_futex;futex:&db.lock" in folded and "unknown" not in folded, folded


@pytest.mark.parametrize("where", ["here", "container"])
def test_threads_that_are_made_meanwhile(traced, programs, where):
    """And a child, by the ids that the kernel's events have."""
    program = programs.simple("late_naps")
    if where == "here":
        proc = traced.popen([program], stdin=subprocess.PIPE)
        pid, first = proc.pid, proc.stdout.readline()
    else:
        proc, pid, first = in_container(traced, program)
    assert first == "ready\n"
    trace = traced.dir() / "trace"
    attach = record(traced, [pid, "--follow-fork"], trace, [pid])
    for _ in range(2):
        proc.stdin.write("go\n")
        proc.stdin.flush()
        assert proc.stdout.readline() == "done\n"
    end(attach)
    proc.communicate(timeout=60)
    document = wait(traced, trace, "--by", "process")
    # how often each was called: the program's threads, and one child each time
    naps = sorted(row(process, "late_nap")["calls"] for process in document["processes"])
    assert naps == [5, 5, 20], document
    for process in document["processes"]:
        naps = row(process, "late_nap")
        assert naps["unknown_ns"] == 0 and process["unknown_threads"] == 0, process
        assert naps["blocked"][0]["kind"] == "timer", naps
        assert blocked(naps) >= 0.99 * 3e6 * naps["calls"], naps


@pytest.mark.parametrize("how", ["process", "service", "run"])
def test_events_that_cannot_be_written(traced, programs, targets, how):
    """Something lies where a stream belongs: told in one line, and the exit code is 1, of one
    process as of several; what was recorded until then is there.
    """
    if os.cpu_count() < 2:
        pytest.skip("one CPU")
    directory = traced.dir() / "trace"
    command = [programs.simple("standing", placement="fentry"), "plain"]
    options = ("--kernel", "--json", "-q", "-f", "main", "-o", directory)
    if how == "run":
        proc = traced.popen(
            ["taskset", "-c", "0", traced.iprobe_path, "run", *options, "--", *command],
            stdin=subprocess.PIPE,
        )
        memory.wait_for("no stream", lambda: list(directory.glob("kernel/target_0")))
        with open(f"/proc/{proc.pid}/task/{proc.pid}/children", encoding="utf-8") as f:
            pids = [
                int(pid)
                for pid in f.read().split()
                if os.readlink(f"/proc/{pid}/exe") == str(command[0])
            ]
    else:
        n = 1 if how == "process" else 2
        pids = [targets.start(traced, command, preload=False).pid for _ in range(n)]
        for pid in pids:
            os.sched_setaffinity(pid, {0})
        proc = traced.start_iprobe("attach", *options, *pids)
        memory.wait_for("no stream", lambda: list(directory.glob("kernel/target_0")))
    (directory / "kernel" / "target_1").write_text("")
    assert pids
    for pid in pids:
        os.sched_setaffinity(pid, {1})
    if how == "run":
        said = iter(proc.stderr.readline, "")
        assert next(line for line in said if "kernel/target_1: File exists" in line)
    out, err = proc.communicate("" if how == "run" else None, timeout=60)
    assert proc.returncode == 1, err
    assert json.loads(out.splitlines()[-1])["kernel"]["events"] > 0, out
    if how == "run":
        assert "not all events of the kernel could be recorded; the command ran" in err
    else:
        assert err.count("kernel/target_1: File exists") == 1, err

# SPDX-License-Identifier: Apache-2.0
"""iprobe wait on several processes that were recorded together."""

import json
import signal
import subprocess

import pytest
from test_wait import ROUNDS, blocked, row, skip_without_events

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
    proc = actor.start_iprobe("attach", *words, "--kernel", "--json", "-q", "-o", directory)
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


def test_a_service(traced, programs, targets):
    """Events are recorded once, above the traces of the processes; also of one that joins late."""
    server = Server(traced, programs, targets, workers=1)
    directory = traced.dir() / "trace"
    proc = record(traced, [server.pid, "--children"], directory, server.everybody())
    # its parent's session does not follow one that is another user: it is a member of its own
    assert server.say("as 65534") == "done"
    late = server.fork()
    memory.wait_for("no session", lambda: any(directory.glob(f"*-{late}/metadata")))
    memory.wait_until_live(late, proc)
    server.go()
    for pid in server.workers:
        naps = switches(pid)
        memory.wait_for("it does not nap", lambda p=pid, n=naps: switches(p) > n + 10)
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

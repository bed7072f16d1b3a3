# SPDX-License-Identifier: Apache-2.0
"""iprobe hist with several processes that are being recorded: histograms are added up."""

import json
import signal
import time

import pytest

from iptest import memory
from iptest.actor import last_words, one_line
from iptest.server import N

from test_top_service import SELECTION, pids_of


@pytest.fixture
def measured(actor, server):
    """A server that is recorded, each process by a session of its own."""
    words = [*server.everybody(), "-f", SELECTION, "--payload", "hist", "-q"]
    session = actor.start_iprobe("attach", *words, "-o", actor.dir() / "trace")
    for pid in server.everybody():
        memory.wait_until_live(pid, session)
    yield server
    session.send_signal(signal.SIGTERM)
    assert last_words(session).returncode == 0
    server.finish()


def test_hist(actor, measured):
    server = measured
    none = actor.iprobe("hist", *server.workers)
    assert "has ended yet" in one_line(none)
    server.go()
    first, second = server.workers
    for words in (
        server.workers,
        ["--children", server.pid],
        ["-p", ",".join(map(str, server.workers))],
    ):
        done = actor.iprobe("hist", "--json", *words)
        assert done.returncode == 0 and not done.stderr, repr(done)
        document = json.loads(done.stdout)
        found = {f["function"]: f for f in document["functions"]}
        assert found["prefork_answer"]["calls"] == found["prefork_hash"]["calls"] == 2 * N
        assert pids_of(document) >= {first, second}
    one = json.loads(actor.iprobe("hist", "--json", server.workers[0]).stdout)
    assert {f["calls"] for f in one["functions"]} == {N} and one["pid"] == server.workers[0]
    text = actor.iprobe("hist", "-f", "prefork_answer", *server.workers)
    assert text.returncode == 0 and "prefork_answer" in text.stdout
    # one that is not recorded was named: that is told, and the others are shown
    new = server.fork()
    part = actor.iprobe("hist", "--json", new, first, second)
    assert f"pid {new} has no session" in one_line(part)
    assert pids_of(json.loads(part.stdout)) == {first, second}


def test_hist_again(actor, measured):
    server = measured
    server.go()
    proc = actor.start_iprobe("hist", "--json", "--interval", "100ms", "--children", server.pid)
    lines = [json.loads(proc.stdout.readline())]
    server.go()
    deadline = time.monotonic() + 30
    while lines[-1]["functions"][0]["calls"] < 4 * N and time.monotonic() < deadline:
        lines.append(json.loads(proc.stdout.readline()))
    assert lines[-1]["functions"][0]["calls"] == 4 * N
    proc.send_signal(signal.SIGTERM)
    assert last_words(proc).returncode == 0


def test_interval_by_interval(actor, measured):
    """What ended in each interval, of all processes together; what was before is not in it."""
    server = measured
    server.go()
    words = ["--json", "--interval", "100ms", "--over-time", "--children", server.pid]
    proc = actor.start_iprobe("hist", *words)
    first = json.loads(proc.stdout.readline())
    assert not first["functions"] and pids_of(first) >= set(server.workers)
    server.go()
    calls = {"prefork_answer": 0, "prefork_hash": 0}
    deadline = time.monotonic() + 30
    while set(calls.values()) != {2 * N} and time.monotonic() < deadline:
        for f in json.loads(proc.stdout.readline())["functions"]:
            calls[f["function"]] = calls.get(f["function"], 0) + f["calls"]
    assert calls["prefork_answer"] == calls["prefork_hash"] == 2 * N, calls
    proc.send_signal(signal.SIGTERM)
    assert last_words(proc).returncode == 0


def test_hist_without_sessions(actor, server):
    done = actor.iprobe("hist", *server.workers)
    assert done.returncode == 1 and not done.stdout
    assert all(f"pid {pid}" in done.stderr for pid in server.workers)
    done = actor.iprobe("hist", "--children", server.pid)
    assert done.returncode == 1 and "--payload hist" in done.stderr, repr(done)
    server.finish()

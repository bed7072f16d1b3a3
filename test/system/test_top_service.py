# SPDX-License-Identifier: Apache-2.0
"""iprobe top with several processes: figures are added up by function, processes
come and go, and sessions of other commands are joined.
"""

import json
import os
import pathlib
import re
import signal
import time

import pytest

from iptest import memory
from iptest.actor import last_words, one_line
from iptest.server import N
from iptest.terminal import Terminal

SELECTION = "prefork_answer,prefork_hash"


@pytest.fixture
def place(actor):
    """Where top makes its directory: nothing may be left in it."""
    path = actor.dir()
    yield {"TMPDIR": str(path)}
    memory.wait_for("a directory of iprobe top is left", lambda: not list(path.iterdir()))


class Top:
    """iprobe top --json, whose lines are read as they come."""

    def __init__(self, actor, place, *words):
        self.proc = actor.start_iprobe(
            "top", "--json", "-d", "100ms", "-f", SELECTION, *words, env=place
        )

    def until(self, condition):
        """Reads lines until the condition holds for one."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            text = self.proc.stdout.readline()
            assert text, self.proc.stderr.read()
            line = json.loads(text)
            if condition(line):
                return line
        raise AssertionError(f"did not come: {line}")

    def shows(self, pids):
        return self.until(lambda line: pids_of(line) == set(pids))

    def end(self, code=0):
        self.proc.send_signal(signal.SIGTERM)
        done = last_words(self.proc)
        assert done.returncode == code, repr(done)
        return done


def children(pid):
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text(encoding="ascii").split()]


def wait_for_end(pids):
    """Of workers. The text of their targets is as on disk before that: they borrow a thread once
    more then, to give address space back.
    """

    def ended(pid):
        try:
            return memory.status_field(pid, "State")[0] in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return True

    for pid in pids:
        memory.wait_for("a worker goes on", lambda pid=pid: ended(pid))


def pids_of(line):
    return {p["pid"] for p in line["processes"]}


def calls_of(line, pid=None, key="all_calls"):
    """Of one function in a line. The calls of hash inside it are its callees'."""
    return sum(
        f[key]
        for f in line["functions"]
        if f["function"] == "prefork_answer" and (pid is None or f["pid"] == pid)
    )


def test_adds_up(actor, server, place):
    top = Top(actor, place, *server.workers)
    top.shows(server.workers)
    server.go()
    line = top.until(lambda line: calls_of(line) >= 2 * N)
    assert calls_of(line) == 2 * N and line["joined"] is False and "pid" not in line
    assert not any(p["joined"] or p["ended"] for p in line["processes"])
    assert len([f for f in line["functions"] if f["function"] == "prefork_answer"]) == 1
    server.go()
    line = top.until(lambda line: calls_of(line) == 4 * N)
    assert 0 < calls_of(line, key="calls") <= 2 * N, "the interval has only what came in it"
    done = top.end()
    assert "of 2 processes" in done.stderr and "every byte is back" in done.stderr
    server.finish()


def test_by_process(actor, server, place):
    top = Top(actor, place, "--by", "process", *server.workers)
    top.shows(server.workers)
    server.go()
    called = {}

    def all_called(line):
        # a picture has who made calls since the one before; they need not do so in the same one
        called.update({pid: calls_of(line, pid) or called.get(pid, 0) for pid in server.workers})
        return sum(called.values()) == 2 * N

    top.until(all_called)
    assert called == {pid: N for pid in server.workers}
    top.end()
    server.finish()


def test_text_by_process(actor, server, place):
    top = actor.start_iprobe(
        "top", "-b", "-d", "300ms", "-n", "2", "--by", "process", *server.everybody(), env=place
    )
    for pid in server.everybody():
        memory.wait_until_live(pid, top)
    server.go()
    done = last_words(top)
    assert done.returncode == 0, repr(done)
    names = {re.sub("^.*  ", "", line) for line in done.stdout.splitlines()}
    # it sleeps, which is told where its pauses were long enough
    names = {name.removesuffix(" [waits]") for name in names}
    assert {f"prefork_tick [{pid}]" for pid in server.workers} <= names, done.stdout
    server.finish()


def test_processes_come_and_go(actor, server, place):
    """One that has ended keeps what it had counted, so that sums do not shrink."""
    top = Top(actor, place, "--children", server.pid)
    top.shows(server.everybody())
    server.go()
    top.until(lambda line: calls_of(line) == 2 * N)
    new = server.fork()
    top.shows(server.everybody())
    memory.wait_until_live(new, top.proc)
    server.go()
    top.until(lambda line: calls_of(line) == 5 * N)
    os.kill(new, signal.SIGKILL)
    memory.wait_for("it lives", lambda: memory.status_field(new, "State")[0] == "Z")
    line = top.until(lambda line: any(p["ended"] for p in line["processes"]))
    assert [p["pid"] for p in line["processes"] if p["ended"]] == [new]
    server.workers.remove(new)
    after = [json.loads(top.proc.stdout.readline()) for _ in range(3)]
    assert all(calls_of(line) in (0, 5 * N) for line in after), "rows of busy intervals only"
    top.end()
    for pid in server.everybody():
        memory.assert_untouched(pid)


def test_joins_sessions(actor, server, place):
    """Those that there are are joined and left as they are; the others get one."""
    first, second = server.workers
    trace = actor.dir() / "trace"
    session = actor.start_iprobe(
        "attach", first, "-f", SELECTION, "--payload", "hist", "-q", "-o", trace
    )
    memory.wait_until_live(first, session)
    top = Top(actor, place, first, second)
    line = top.shows(server.workers)
    assert {p["pid"]: p["joined"] for p in line["processes"]} == {first: True, second: False}
    server.go()
    assert calls_of(top.until(lambda line: calls_of(line) >= 2 * N)) == 2 * N
    top.end()
    memory.assert_untouched(second)
    assert memory.text_differences(first) and session.poll() is None

    top = Top(actor, place, first)
    assert top.until(lambda line: True)["joined"] is True
    top.end()
    session.send_signal(signal.SIGTERM)
    assert last_words(session).returncode == 0
    server.finish()


def test_all_are_joined(actor, server, place):
    """A service that is recorded already: top measures nothing by itself, and sees who joins."""
    trace = actor.dir() / "trace"
    words = ["--children", server.pid, "-f", SELECTION, "--payload", "hist", "-q", "-o", trace]
    session = actor.start_iprobe("attach", *words)
    for pid in server.everybody():
        memory.wait_until_live(pid, session)
    top = Top(actor, place, *server.workers)
    assert top.shows(server.workers)["joined"] is True
    assert not children(top.proc.pid)
    server.go()
    assert calls_of(top.until(lambda line: calls_of(line) >= 2 * N)) == 2 * N
    session.send_signal(signal.SIGTERM)
    assert last_words(session).returncode == 0
    done = last_words(top.proc)
    assert done.returncode == 0, repr(done)
    server.finish()


def test_sessions_process_is_killed(actor, server, place):
    """The workers notice, and put every byte back by themselves."""
    top = Top(actor, place, *server.workers)
    top.shows(server.workers)
    _, service = children(top.proc.pid)
    workers = children(service)
    assert len(workers) == len(server.workers)
    os.kill(service, signal.SIGKILL)
    assert "was killed (signal 9)" in last_words(top.proc).stderr
    wait_for_end(workers)
    server.finish()


def test_top_is_killed(actor, server, place):
    top = Top(actor, place, *server.workers)
    top.shows(server.workers)
    _, service = children(top.proc.pid)
    workers = children(service)
    assert len(workers) == len(server.workers)
    top.proc.kill()
    top.proc.wait()
    wait_for_end(workers)
    server.finish()


def test_keys_act_on_all(actor, server, place):
    terminal = Terminal(actor, "top", "-d", "100ms", "-f", SELECTION, *server.workers, env=place)
    try:
        terminal.wait_text("2 processes, own sessions")
        server.go(3000)
        terminal.wait_text("prefork_answer")
        terminal.press("a")
        terminal.press("prefork_tick\r")
        terminal.wait_text("added in 2 processes")
        terminal.wait_text("prefork_tick")
        # the function at the cursor is not shown any more if it was not called of late
        terminal.press(b"\x1b[A")
        terminal.press("d")
        terminal.wait_text("NOPs again in 2 processes")
        terminal.press("q")
        code, said = terminal.wait_end()
        assert code == 0 and "every byte is back" in said, said
        assert terminal.is_restored()
    finally:
        terminal.close()
    server.finish()


def test_refusals(actor, server, place):
    done = actor.iprobe("top", "--name", "no-such-program", env=place)
    assert done.returncode == 1 and "no process matches" in one_line(done)
    done = actor.iprobe("top", "--by", "module", server.pid, env=place)
    assert done.returncode == 2 and "--by process" in done.stderr
    done = actor.iprobe("top", "-f", "no_such_function", *server.workers, env=place)
    assert done.returncode == 1 and "matches none" in done.stderr, repr(done)
    server.finish()

# SPDX-License-Identifier: Apache-2.0
"""Commands with several processes, of users who may not trace them: iprobed serves each process."""

import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from iptest import memory, time_scale
from iptest.actor import last_words
from iptest.daemon_fixtures import (  # noqa: F401
    daemon,
    idle,
    member,
    other,
    program,
    pytestmark,
    wait_until_idle,
)


@pytest.fixture
def two(targets, user, program):
    return [targets.start(user, [program, "plain"], preload=False).pid for _ in range(2)]


@pytest.fixture(params=["user", "member"])
def who(request):
    return request.getfixturevalue(request.param)


def test_top(daemon, who, two):
    done = who.iprobe(
        *("top", "--json", "-n", "3", "-d", "500ms", "-s", "calls", "--by", "process", "-f"),
        *("work", *two),
        env=daemon.env,
        cwd=who.dir(),
    )
    assert done.returncode == 0, f"{done!r}\n{daemon.log()}"
    pictures = list(map(json.loads, done.stdout.splitlines()))
    last = pictures[-1]
    # in any of them: a process may get no CPU for as long as one lasts
    called = [f for p in pictures for f in p["functions"] if f["function"] == "work" and f["calls"]]
    assert {f["pid"] for f in called} == set(two), pictures
    said = re.search(r"iprobe: ([\d,]+) calls of 2 processes; no stop longer than ", done.stderr)
    assert said and int(said[1].replace(",", "")) >= sum(
        f["all_calls"] for f in last["functions"]
    ), done.stderr
    for pid in two:
        wait_until_idle(pid)


def test_top_ends_its_sessions(daemon, user, two):
    proc = user.start_iprobe("top", "-b", "-f", "work", *two, env=daemon.env)
    for pid in two:
        memory.wait_until_live(pid, proc)
    proc.kill()
    for pid in two:
        wait_until_idle(pid)
    memory.wait_for("its notes stay", lambda: not list(daemon.state.iterdir()), 30)


def test_top_of_what_may_not_be_traced(daemon, other, two):
    done = other.iprobe("top", "--json", "-n", "1", "-d", "100ms", *two, env=daemon.env)
    assert done.returncode == 1 and done.stderr.count("iprobed refuses: ") == 2, repr(done)
    assert all(idle(pid) for pid in two)


@pytest.mark.parametrize(
    "name, form, output",
    [
        ("user", "json", "stdout"),
        ("user", "json", "file"),
        ("user", "table", "stdout"),
        ("user", "table", "file"),
        ("member", "json", "file"),
        ("member", "table", "stdout"),
    ],
)
def test_fperf(request, daemon, two, name, form, output):
    who = request.getfixturevalue(name)
    directory = who.dir()
    words = ["--json"] if form == "json" else []
    words += ["-o", "counts"] if output == "file" else []
    done = who.run(
        [
            *(who.builddir / "cli" / "fperf", "-p", f"{two[0]},{two[1]}", "-q", "-n", "5"),
            *("-e", "perf::TASK-CLOCK", "--duration", "500ms", *words),
        ],
        env=daemon.env,
        cwd=directory,
    )
    assert done.returncode == 0, repr(done)
    text = (directory / "counts").read_text() if output == "file" else done.stdout
    if form == "json":
        found = json.loads(text)["processes"]
        assert [p["pid"] for p in found] == sorted(two), found
        assert all(p["functions"] for p in found), found
    else:
        heads = re.findall(r"^pid (\d+) \(standing\)$", text, re.M)
        assert list(map(int, heads)) == sorted(two), text
        assert "work" in text
    if output == "file":
        assert not done.stdout and (directory / "counts").stat().st_uid == who.uid
    assert all(idle(pid) for pid in two)


def test_fperf_of_what_may_not_be_traced(daemon, other, two):
    directory = other.dir()
    (directory / "counts").write_text("earlier results")
    os.chown(directory / "counts", other.uid, -1)
    done = other.run(
        [
            *(other.builddir / "cli" / "fperf", "-p", f"{two[0]},{two[1]}", "-q"),
            *("--duration", "100ms", "-o", "counts"),
        ],
        env=daemon.env,
        cwd=directory,
    )
    assert done.returncode == 1 and done.stderr.count("iprobed refuses: ") == 2, repr(done)
    assert (directory / "counts").read_text() == "earlier results"


def test_each_process_is_told_by_its_number(daemon, who, two):
    done = daemon.attach(who, two[0], "-f", "work", "--duration", "100ms", two[1], cwd=who.dir())
    assert done.returncode == 0, repr(done)
    for pid in two:
        lines = [
            line
            for line in done.stderr.splitlines()
            if line.endswith(f"; trace in trace/standing-{pid}")
        ]
        assert len(lines) == 1 and lines[0].startswith(f"iprobe: pid {pid}: "), repr(done)


def test_lines_do_not_mix(daemon, user, two):
    """The worker of each process writes to the same file: whole lines, at once."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        words = ["-f", "work", "--duration", "100ms", two[1]]
        proc = daemon.start_attach(user, two[0], *words, cwd=user.dir(), stderr=theirs)
        assert proc.wait(timeout=time_scale.scaled(60)) == 0
        theirs.close()
        ours.settimeout(time_scale.scaled(20))
        written = list(iter(lambda: ours.recv(1 << 16).decode(), ""))
    assert sum("; trace in trace/standing-" in text for text in written) == 2, written
    assert all(text.endswith("\n") for text in written if text.startswith("iprobe: pid ")), written


def test_others(daemon, who, two):
    """attach, hist, snapshot, status, detach."""
    directory = who.dir()
    for words in (["--payload", "hist"], ["--overwrite", "--memory", "1M"]):
        proc = daemon.start_attach(who, two[0], *words, "-f", "work", two[1], cwd=directory)
        for pid in two:
            memory.wait_until_live(pid, proc)
        time.sleep(0.3)
        done = who.iprobe("status", "--json", *two, env=daemon.env, cwd=directory)
        assert done.returncode == 0, repr(done)
        assert [p["pid"] for p in json.loads(done.stdout)] == sorted(two)
        if "hist" in words:
            pids = two if who.name == "user" else ["trace"]

            def shown():
                done = who.iprobe("hist", "--json", *pids, env=daemon.env, cwd=directory)
                return done.returncode == 0 and '"work"' in done.stdout

            memory.wait_for("work in hist", shown)  # a target that gets no CPU has made no call yet
            if pids != two:
                # it may not ask the sessions, and is told what to do
                done = who.iprobe("hist", two[0], env=daemon.env, cwd=directory)
                assert done.returncode == 1 and "iprobe hist DIR shows" in done.stderr, repr(done)
                done = who.iprobe("hist", *two, env=daemon.env, cwd=directory)
                assert done.returncode == 1, repr(done)
                assert done.stderr.count("iprobe hist DIR shows") == 2, repr(done)
        else:
            done = who.iprobe("snapshot", "-o", "shot", *two, env=daemon.env, cwd=directory)
            assert done.returncode == 0, repr(done)
            done = who.iprobe("report", "--json", directory / "shot")
            assert {"work"} == {f["function"] for f in json.loads(done.stdout)["functions"]}
        done = who.iprobe("detach", *two, env=daemon.env, cwd=directory)
        assert done.returncode == 0, repr(done)
        assert last_words(proc).returncode == 0
        for pid in two:
            wait_until_idle(pid)

# SPDX-License-Identifier: Apache-2.0
"""The first hour with iprobe on memcached: Debian's sources, built with iprobe-cc by their own
build systems, under clients on the loopback interface. What iprobe has recorded is compared with
what the server itself counts (its command stats), exactly.

  IPROBE_TEST_MEMCACHED    a memcached that was built so: it is not built again
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import memcached
from memcached import CLIENTS, TRUTH, WORKERS
from servers import busy_cpu, cpu_was_taken, first_lines, hold_lock, sh, slow_disk

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("IPROBE_BUILD", ROOT / "build")).resolve()
IPROBE = BUILD / "cli" / "iprobe"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if os.environ.get("IPROBE_TEST_MEMCACHED"):
        return Path(os.environ["IPROBE_TEST_MEMCACHED"])
    return memcached.build(tmp_path_factory.mktemp("memcached"))


@pytest.fixture
def server(program, tmp_path):
    server = memcached.Server(program, tmp_path)
    yield server
    server.end()
    assert [client.error for client in server.clients] == [None] * CLIENTS


class Recording:
    """iprobe attach beside the test."""

    def __init__(self, server, folder, *options):
        self.dir, self.pid = folder / "trace", server.proc.pid
        self.proc = subprocess.Popen(
            [str(w) for w in (IPROBE, "attach", self.pid, "--json", "-o", self.dir, *options)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 60
        while not self.live():
            assert self.proc.poll() is None, self.proc.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def live(self):
        done = sh([IPROBE, "status", "--json", self.pid], ROOT, check=False)
        status = json.loads(done.stdout) if done.returncode == 0 else {}
        return "session" in status and status["patched"] > 0

    def end(self):
        self.proc.send_signal(signal.SIGINT)
        out, err = self.proc.communicate(timeout=60)
        assert self.proc.returncode == 0, err
        return json.loads(out.splitlines()[-1])


def calls(trace, *options):
    done = sh([IPROBE, "report", "--json", *options, trace], ROOT)
    return {row["function"]: row for row in json.loads(done.stdout)["functions"]}


def nothing_is_left(server):
    status = json.loads(sh([IPROBE, "status", "--json", server.proc.pid], ROOT).stdout)
    assert status["patched"] == 0 and all(m["text_matches_file"] for m in status["modules"])


def test_calls_are_the_commands_that_the_server_counts(server, tmp_path):
    """Attached to while clients work; between two marks each call is in the trace, and no other."""
    time.sleep(0.2)
    recording = Recording(server, tmp_path)
    time.sleep(0.3)
    before = server.pause()
    server.mark()
    server.work()
    time.sleep(1)
    after = server.pause()
    server.mark()
    server.work()
    time.sleep(0.2)
    summary = recording.end()
    assert summary["lost"] == 0 and summary["invalid"] == 0
    marks = [
        json.loads(line)["ts"]
        for line in sh(
            [IPROBE, "dump", "--json", "-f", TRUTH["incr_hits"], recording.dir], ROOT
        ).stdout.splitlines()
        if json.loads(line)["event"] == "entry"
    ]
    assert len(marks) == 2
    part = tmp_path / "between"
    times = ("--from", f"{marks[0]}ns", "--to", f"{marks[1]}ns")
    sh([IPROBE, "trim", *times, "-o", part, recording.dir], ROOT)
    between = calls(part)
    assert after["cmd_get"] - before["cmd_get"] > 500
    for stat in ("cmd_get", "cmd_set"):
        assert between[TRUTH[stat]]["calls"] == after[stat] - before[stat], stat
    # a set comes in two pieces, the command and its value
    assert between["complete_nread_ascii"]["calls"] == after["cmd_set"] - before["cmd_set"]
    nothing_is_left(server)


def test_counts_and_histograms_are_exact(server, tmp_path):
    """Measured in the process; the clients stand still when it begins and when it ends."""
    before = server.pause()
    wanted = ",".join(TRUTH.values())
    recording = Recording(server, tmp_path, "--payload", "hist", "-f", wanted)
    server.work()
    time.sleep(0.5)
    server.mark()
    after = server.pause()
    recording.end()
    measured = calls(recording.dir)
    for stat, function in TRUTH.items():
        assert measured[function]["calls"] == after[stat] - before[stat] > 0, stat
    nothing_is_left(server)


def test_the_workers_share_the_work(server, tmp_path):
    """Each worker has its connections; the thread that accepts them executes no command."""
    server.pause()
    recording = Recording(server, tmp_path, "-f", TRUTH["cmd_get"])
    server.work()
    time.sleep(0.5)
    server.pause()
    recording.end()
    done = sh([IPROBE, "report", "--json", "--by", "thread", recording.dir], ROOT)
    rows = json.loads(done.stdout)["rows"]
    working = {row["tid"]: row["name"] for row in rows if row["calls"]}
    assert len(working) == WORKERS and server.proc.pid not in working
    assert set(working.values()) == {"mc-worker"}
    nothing_is_left(server)


def test_requests_can_be_read(server, tmp_path):
    """The text of each command, as an argument of the function that takes it."""
    recording = Recording(server, tmp_path, "-f", "process_command_ascii", "--args")
    time.sleep(0.3)
    recording.end()
    done = sh([IPROBE, "dump", "--json", recording.dir], ROOT)
    texts = set()
    for event in map(json.loads, done.stdout.splitlines()):
        if event["event"] == "entry" and isinstance(event["args"].get("command"), str):
            texts.add(event["args"]["command"].split(" ")[0])
    assert texts == {"set", "get"}
    nothing_is_left(server)


def waits_of(function, server, folder):
    """What iprobe wait says first of a function, in two seconds."""
    data = folder / "waits"
    selection = f"{function},compact"
    options = ("--kernel", "--duration", "2s", "-q", "-o", data, "-f", selection)
    sh([IPROBE, "attach", server.proc.pid, *options], ROOT)
    return first_lines(sh([IPROBE, "wait", "-f", function, data], ROOT).stdout)


@pytest.fixture
def events():
    """Where the machine lets us record events of the kernel."""
    if os.getuid() != 0:
        pytest.skip("not root")
    doctor = sh([IPROBE, "doctor"], ROOT, check=False).stdout
    said = next(line for line in doctor.splitlines() if "kernel events" in line)
    if "can be recorded" not in said:
        pytest.skip(" ".join(said.split()))


def test_a_lock_that_is_held_too_long(program, events, tmp_path):
    """The lock is named, who has it, and the function in which it is held."""
    library = hold_lock(tmp_path)
    hold = {"LD_PRELOAD": str(library), "HOLD_LOCK": "lru_locks", "HOLD_LOCK_AT": "1"}
    server = memcached.Server(program, tmp_path, **hold)
    try:
        said = waits_of("complete_nread_ascii", server, tmp_path)
    finally:
        server.end()
    assert "futex" in said and "lru_locks" in said, said
    assert "held by compactor (" in said and ") in compact" in said, said


def test_a_cpu_that_another_program_has(program, events, tmp_path):
    """A program with a higher priority keeps the server from its CPU: it is named."""
    server = memcached.Server(program, tmp_path)
    cpu = str(min(os.sched_getaffinity(0)))
    try:
        sh(["taskset", "-acp", cpu, server.proc.pid], ROOT)
        with busy_cpu(cpu):
            said = waits_of("drive_machine", server, tmp_path)
    finally:
        server.end()
    assert cpu_was_taken(said), said


def test_a_slow_disk(program, events, tmp_path):
    """The file that the server writes its log into is named, and the program that is slow to take
    it."""
    with slow_disk(tmp_path, "--write-rate=50k") as (_, disk):
        with open(disk / "log", "wb") as log:
            server = memcached.Server(program, tmp_path, log=log)
        try:
            said = waits_of("process_command_ascii", server, tmp_path)
        finally:
            server.end()
    assert "file" in said and "/disk/log" in said and "bindfs (" in said, said

# SPDX-License-Identifier: Apache-2.0
"""The first hour with iprobe on memcached: Debian's sources, built with iprobe-cc by their own
build systems, under clients on the loopback interface. What iprobe has recorded is compared with
what the server itself counts (its command stats), exactly.

  IPROBE_TEST_MEMCACHED    a memcached that was built so: it is not built again
"""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("IPROBE_BUILD", ROOT / "build")).resolve()
IPROBE = BUILD / "cli" / "iprobe"
IPROBE_CC = BUILD / "coldpatch" / "iprobe-cc"
WORKERS = 3
CLIENTS = 6
# what the server counts -> the function that does it, once for each
TRUTH = {
    "cmd_get": "process_get_command",
    "cmd_set": "process_update_command",
    "incr_hits": "process_arithmetic_command",
}


def sh(command, cwd, timeout=300, check=True):
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert (
        not check or done.returncode == 0
    ), f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done


def fetch(package, folder):
    done = sh([ROOT / "scripts" / "fetch-source", package, folder], ROOT, check=False)
    if done.returncode:
        pytest.skip(done.stderr.strip())


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """memcached, with the event loop that it waits in: both have probes."""
    if os.environ.get("IPROBE_TEST_MEMCACHED"):
        return Path(os.environ["IPROBE_TEST_MEMCACHED"])
    folder = tmp_path_factory.mktemp("memcached")
    event, server = folder / "libevent", folder / "memcached"
    fetch("libevent", event)
    fetch("memcached", server)
    off = ("TESTS", "SAMPLES", "BENCHMARK", "REGRESS", "OPENSSL")
    sh(
        [
            *("cmake", "-B", "b", f"-DCMAKE_C_COMPILER={IPROBE_CC}"),
            *("-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DEVENT__LIBRARY_TYPE=STATIC"),
            *(f"-DEVENT__DISABLE_{what}=ON" for what in off),
        ],
        event,
    )
    sh(["cmake", "--build", "b", "-j2", "--target", "event_core_static"], event)
    (event / "b" / "lib" / "libevent.a").symlink_to("libevent_core.a")
    # no extra threads but the workers, and no library that is not here
    without = ("sasl", "tls", "docs", "extstore", "coverage")
    sh(
        [
            *("./configure", f"CC={IPROBE_CC}", *(f"--disable-{what}" for what in without)),
            f"CPPFLAGS=-I{event}/include -I{event}/b/include",
            f"LDFLAGS=-L{event}/b/lib",
        ],
        server,
    )
    sh(["make", "-j2", "memcached"], server)
    return server / "memcached"


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def ask(self, line, ends):
        """Sends a command; the answer's lines up to one that begins as told."""
        self.socket.sendall(line + b"\r\n")
        lines = []
        while True:
            lines.append(self.file.readline())
            assert lines[-1].endswith(b"\r\n"), lines
            if lines[-1].startswith(ends):
                return lines

    def stats(self):
        lines = self.ask(b"stats", b"END")
        return {line.split()[1].decode(): line.split()[2].decode() for line in lines[:-1]}

    def close(self):
        self.file.close()
        self.socket.close()


class Client(threading.Thread):
    """Sets a key, gets it, gets one that is not there, and checks the answers, while it may."""

    def __init__(self, server, number):
        super().__init__(daemon=True)
        self.server, self.number, self.error = server, number, None
        self.idle = threading.Event()
        self.start()

    def run(self):
        try:
            connection = Connection(self.server.port)
            for n in range(1 << 30):
                # looked at again once it is no longer idle: it may have been told to stand still
                # in between, by who still saw it idle
                while not self.server.may_work.is_set():
                    self.idle.set()
                    self.server.may_work.wait()
                    self.idle.clear()
                if self.server.over:
                    break
                key = b"key-%d-%d" % (self.number, n % 100)
                value = b"%d" % n
                connection.ask(b"set %s 0 0 %d\r\n%s" % (key, len(value), value), b"STORED")
                assert connection.ask(b"get " + key, b"END")[1].strip() == value
                assert len(connection.ask(b"get nothing", b"END")) == 1
            connection.close()
        except (AssertionError, OSError) as error:
            self.error = error
        self.idle.set()


class Server:
    def __init__(self, program, folder):
        self.may_work, self.over = threading.Event(), False
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        user = ["-u", "root"] if os.getuid() == 0 else []
        self.proc = subprocess.Popen(
            [program, "-l", "127.0.0.1", "-p", str(self.port), "-t", str(WORKERS), *user],
            cwd=folder,
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 30
        while True:
            try:
                self.control = Connection(self.port)
                break
            except OSError:
                assert self.proc.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
        self.control.ask(b"set counter 0 0 1\r\n0", b"STORED")
        self.clients = [Client(self, number) for number in range(CLIENTS)]
        self.work()

    def work(self):
        self.may_work.set()

    def pause(self):
        """Every request is answered, and counted: the server's figures then."""
        self.may_work.clear()
        for client in self.clients:
            assert client.idle.wait(60), "a client does not get an answer"
            assert client.error is None, client.error
        return {name: int(value) for name, value in self.control.stats().items() if name in TRUTH}

    def mark(self):
        """A call that the trace shows."""
        self.control.ask(b"incr counter 1", b"")

    def end(self):
        self.over = True
        self.may_work.set()
        for client in self.clients:
            client.join(60)
        self.control.close()
        self.proc.terminate()
        self.proc.wait(30)


@pytest.fixture
def server(program, tmp_path):
    server = Server(program, tmp_path)
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

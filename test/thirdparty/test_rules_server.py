# SPDX-License-Identifier: Apache-2.0
"""A rule on a real server under load: Redis from Debian's sources, built with iprobe-cc;
redis-benchmark asks.

The shipped rules slow-redis and before-slow-redis, with a limit that fits this machine: 'when
the p99 of call() passes it, record all functions for 200 ms'. While requests are quick nothing
fires, and a request costs what it does without the rule. Then a client sorts a long list, again
and again: the rule fires, and the trace says which command it was; the flight recorder's has
what came before, too.
"""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("IPROBE_BUILD", ROOT / "build")).resolve()
IPROBE = BUILD / "cli" / "iprobe"
WINDOWS = int(os.environ.get("IPROBE_TEST_WINDOWS", "6"))  # with the rule, each between two without
WINDOW_S = 1.0
# to sort it takes several times the limit: where it takes about as long, the rule may wait for a
# slow moment
LIST = 60_000


def sh(command, cwd, timeout=600, **env):
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **env},
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout[-4000:]}"
    return done.stdout


def wait_for(what, condition, timeout=120):
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.05)
    return value


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    """The folder with its programs; IPROBE_TEST_REDIS names one that has been built."""
    if os.environ.get("IPROBE_TEST_REDIS"):
        return Path(os.environ["IPROBE_TEST_REDIS"])
    if os.getuid():
        pytest.skip("iprobed and its rules are tried as root")
    folder = tmp_path_factory.mktemp("redis") / "redis"
    done = subprocess.run(
        [ROOT / "scripts" / "fetch-source", "--upstream", "redis", folder],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        pytest.skip(done.stderr.strip())
    sh(
        [
            "make",
            "-j2",
            f"CC={BUILD / 'coldpatch' / 'iprobe-cc'}",
            "MALLOC=libc",
            "OPTIMIZATION=-O2",
            "DEBUG=",
            "redis-server",
            "redis-cli",
            "redis-benchmark",
        ],
        folder / "src",
        timeout=1200,
    )
    return folder / "src"


class Server:
    """A redis-server and what is asked of it."""

    def __init__(self, programs, path):
        self.programs, self.socket = programs, path / "redis.sock"
        self.proc = subprocess.Popen(
            [programs / "redis-server", "--unixsocket", self.socket, "--port", "0", "--save", ""],
            cwd=path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        self.clients = []
        wait_for(
            "redis does not begin",
            lambda: self.socket.exists() and self.cli("PING").strip() == "PONG",
        )
        self.cli(
            "EVAL",
            f"for i = 1, {LIST} do redis.call('RPUSH', 'list', (i * 7919) % {LIST}) end",
            "0",
        )

    def cli(self, *words):
        return subprocess.run(
            [self.programs / "redis-cli", "-s", self.socket, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        ).stdout

    def ask(self, clients, *words):
        """Begins to ask for the same again and again."""
        proc = subprocess.Popen(
            [
                self.programs / "redis-benchmark",
                "-s",
                self.socket,
                "-c",
                str(clients),
                "-n",
                "1000000000",
                "-q",
                *words,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.clients.append(proc)
        return proc

    def figures(self):
        """Commands so far, and the CPU time of the thread that handles them, in nanoseconds."""
        commands = int(re.search(r"total_commands_processed:(\d+)", self.cli("INFO", "stats"))[1])
        with open(f"/proc/{self.proc.pid}/schedstat", encoding="utf-8") as f:
            return time.monotonic(), commands, int(f.read().split()[0])

    def window(self):
        """Commands a second, and nanoseconds of CPU time a command."""
        t0, n0, cpu0 = self.figures()
        time.sleep(WINDOW_S)
        t1, n1, cpu1 = self.figures()
        return (n1 - n0) / (t1 - t0), (cpu1 - cpu0) / (n1 - n0)

    def end(self):
        for proc in [*self.clients, self.proc]:
            proc.terminate()
        for proc in [*self.clients, self.proc]:
            proc.wait(timeout=60)


class Daemon:
    """An iprobed that carries out one rule."""

    def __init__(self, path, text):
        self.path, self.log_path = path, path / "log"
        (path / "probes.d").mkdir(exist_ok=True)
        (path / "probes.d" / "rules.yaml").write_text(text)
        self.proc = None

    def start(self, watched, rule="slow-redis"):
        """watched: how often the log is to say so in all."""
        with open(self.log_path, "a", encoding="utf-8") as log:
            self.proc = subprocess.Popen(
                [
                    BUILD / "cli" / "iprobed",
                    "--socket",
                    self.path / "sock",
                    "--state",
                    self.path / "state",
                    "--policy",
                    self.path / "none",
                    "--traces",
                    self.path / "traces",
                    "--probes-d",
                    self.path / "probes.d",
                    "--rule",
                    rule,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        wait_for(
            self.log,
            lambda: len(re.findall("is watched|is recorded in a ring", self.log())) == watched,
        )

    def log(self):
        return self.log_path.read_text(encoding="utf-8")

    def end(self):
        if self.proc:
            self.proc.terminate()
            assert self.proc.wait(timeout=60) == 0, self.log()
            self.proc = None


def live(pid):
    done = subprocess.run(
        [IPROBE, "status", "--json", str(pid)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout)["patched"] if done.returncode == 0 else 0


@pytest.fixture
def server(redis, tmp_path):
    made = Server(redis, tmp_path)
    yield made
    made.end()


@pytest.fixture
def daemon(server, tmp_path):
    """The rule for this one server alone; and its limit such that a busy machine, on which every
    call may be held up, does not pass it.
    """
    shipped = (ROOT / "probes.d" / "rules.yaml").read_text(encoding="utf-8")
    text = shipped.replace(
        "exe: 'redis-server*'",
        f"exe: '{server.programs.resolve()}/redis-server', cmdline: '*{server.socket}*'",
    )
    assert text != shipped
    text = text.replace("p99: '> 10ms'", "p99: '> 2ms'").replace("overhead: 2%", "overhead: 5%")
    made = Daemon(
        tmp_path,
        text
        + "profiles:\n  faults: {events: TASK-CLOCK}\nselections: {memory: '*alloc*', waiting: "
        "'*lock*'}\n",
    )
    yield made
    made.end()


def commands_of(daemon, line, least):
    """What the trace says of Redis's commands: by name."""
    trace = (
        Path(next(text for text in daemon.log().splitlines() if "; in " in text).split("; in ")[1])
        / "trace"
    )
    # what it says on stderr, of events that a busy machine has lost, is no part of the document
    said = subprocess.run([IPROBE, "report", "--json", trace], stdout=subprocess.PIPE, check=True)
    functions = {f["function"]: f for f in json.loads(said.stdout)["functions"]}
    commands = {
        name: f
        for name, f in functions.items()
        if re.fullmatch(r"[a-z]+Command(Generic)?", name) and name != "processCommand"
    }
    print(
        f"{line}\n{len(functions)} functions in the trace; commands by time: "
        + ", ".join(
            f"{n} {f['total_ns'] / 1e6:.1f} ms"
            for n, f in sorted(commands.items(), key=lambda c: -c[1]["total_ns"])
        ),
        file=sys.stderr,
    )
    assert len(functions) >= least
    return commands


def check_sort(commands):
    """The slow command is sortCommand; it goes on in sortCommandGeneric by a jump, whose time is
    a part of its own. In a call that is open when the recording begins only the latter is on the
    stack, and has the time of that call in its total.
    """
    assert max(commands, key=lambda name: commands[name]["self_ns"]) == "sortCommandGeneric"
    whole, generic = (commands[name] for name in ("sortCommand", "sortCommandGeneric"))
    assert whole["calls"] == generic["calls"]
    assert generic["avg_ns"] <= whole["avg_ns"] < 1.01 * generic["avg_ns"]
    longest = max(commands, key=lambda name: commands[name]["total_ns"])
    assert longest in (
        ("sortCommandGeneric", "sortCommand") if generic.get("earlier") else ("sortCommand",)
    )


def test_a_rule_on_a_server_under_load(server, daemon):
    server.ask(8, "GET", "key")
    time.sleep(1)
    rates, costs, noise = [], [], []
    for i in range(WINDOWS):
        without = server.window()
        daemon.start(i + 1)
        wait_for("nothing is live", lambda: live(server.proc.pid))
        idle = server.window()
        assert "fires" not in daemon.log(), daemon.log()
        daemon.end()
        assert not live(server.proc.pid)
        again = server.window()
        rates.append(idle[0] / statistics.mean([without[0], again[0]]))
        costs.append(idle[1] / statistics.mean([without[1], again[1]]))
        noise.append(again[1] / without[1])
    spread = statistics.stdev(costs) / len(costs) ** 0.5 * 2.57  # 95 % where there are six
    print(
        f"\nwith the rule idle, against before and after: {statistics.mean(rates):.3f} times the "
        f"commands a second,"
        f" {statistics.mean(costs):.3f} +- {spread:.3f} times the CPU time a command (without it, "
        f"again against before: "
        f"{min(noise):.3f} to {max(noise):.3f})",
        file=sys.stderr,
    )
    # one histogram is 30 ns of some 10 us: more than 5 % for sure would be something else
    assert statistics.mean(costs) - spread < 1.05

    daemon.start(WINDOWS + 1)
    wait_for("nothing is live", lambda: live(server.proc.pid))
    time.sleep(1.5)
    assert "fires" not in daemon.log(), daemon.log()
    slow = server.ask(1, "SORT", "list", "LIMIT", "0", "1")
    wait_for(daemon.log, lambda: "has recorded: " in daemon.log())
    slow.send_signal(signal.SIGTERM)
    line = next(text for text in daemon.log().splitlines() if "fires: " in text)
    assert "p99 of call was " in line
    commands = commands_of(daemon, line, 50)
    check_sort(commands)
    # the clients that ask for keys may not get a processor within the 200 ms
    assert (
        commands["sortCommandGeneric"]["total_ns"]
        > 10 * commands.get("getCommand", {"total_ns": 0})["total_ns"]
    )
    wait_for("sites stay live", lambda: daemon.end() or not live(server.proc.pid))
    assert server.cli("PING").strip() == "PONG"


def test_what_came_before(server, daemon):
    server.ask(2, "GET", "key")
    daemon.start(1, "before-slow-redis")
    wait_for("nothing is live", lambda: live(server.proc.pid))
    time.sleep(1.5)
    assert "fires" not in daemon.log(), daemon.log()
    slow = server.ask(1, "SORT", "list", "LIMIT", "0", "1")
    wait_for(daemon.log, lambda: "has written its flight recorder: " in daemon.log())
    slow.send_signal(signal.SIGTERM)
    line = next(text for text in daemon.log().splitlines() if "fires: " in text)
    assert "p99 of call was " in line
    commands = commands_of(daemon, line, 4)
    check_sort(commands)
    # each of the two clients is served once beside each sort; how many sorts there were is the
    # machine's affair
    assert commands["getCommand"]["calls"] >= commands["sortCommand"]["calls"]
    wait_for("sites stay live", lambda: daemon.end() or not live(server.proc.pid))
    assert server.cli("PING").strip() == "PONG"

# SPDX-License-Identifier: Apache-2.0
"""The first hour with iprobe on PostgreSQL, whose postmaster forks a process for each connection:
Debian's sources, built with iprobe-cc. What iprobe records of all of them together is compared with
the durations of statements in the server's own log.

The build takes minutes: ./check --full runs this.

  IPROBE_TEST_POSTGRESQL    a prefix where one that was built so is installed: none is built
"""

import os
import pwd
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from servers import BUILD, IPROBE_CC, Actor, Recording, children, fetch, folder_for_all
from servers import memory, nothing_is_left, ordinary, sh

pytestmark = pytest.mark.slow

CLIENTS = 4
ROUNDS = 5
FUNCTION = "exec_simple_query"
# what the log's duration begins and ends with: the server reads its clock in these
BEGIN, END = "SetCurrentStatementStartTimestamp", "check_log_duration"
SELECTION = f"{FUNCTION},{BEGIN},{END}"
# what initdb, the server and psql need
PARTS = (
    *("port", "common", "timezone", "backend", "include", "interfaces/libpq", "fe_utils"),
    *("backend/utils/mb/conversion_procs", "backend/snowball", "pl/plpgsql/src"),
    *("bin/initdb", "bin/psql"),
)
SETTINGS = {
    "listen_addresses": "",
    "log_min_duration_statement": "0",
    "log_destination": "stderr",
    "log_line_prefix": "%p ",
    "autovacuum": "off",
    "fsync": "off",
}
LINE = re.compile(r"^(\d+) LOG:  duration: ([0-9.]+) ms  statement: (.*)$")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Where initdb, postgres and psql are, for all users."""
    if os.environ.get("IPROBE_TEST_POSTGRESQL"):
        yield Path(os.environ["IPROBE_TEST_POSTGRESQL"])
        return
    source = tmp_path_factory.mktemp("postgresql") / "source"
    fetch("postgresql-15", source)
    folder = folder_for_all()
    without = ("readline", "zlib", "icu")
    sh(
        [
            *("./configure", f"CC={IPROBE_CC}", "CFLAGS=-O2 -g", f"--prefix={folder}"),
            *(f"--without-{what}" for what in without),
        ],
        source,
    )
    sh(["make", "-s", "-C", "src/backend", "generated-headers"], source)
    for part in PARTS:
        sh(["make", "-s", "-j2", "-C", f"src/{part}"], source, timeout=1800)
        sh(["make", "-s", "-C", f"src/{part}", "install"], source)
    yield folder
    shutil.rmtree(folder)


def who(top):
    """initdb asks for the user's name, and refuses root."""
    if os.getuid():
        return ordinary(top)
    return Actor("nobody", pwd.getpwnam("nobody").pw_uid, top, BUILD)


class Server:
    def __init__(self, prefix, actor):
        self.prefix, self.actor, self.folder = prefix, actor, actor.dir()
        data = self.folder / "data"
        words = ("-A", "trust", "-U", "me", "--no-sync", "--locale=C", "-E", "UTF8")
        done = actor.run([prefix / "bin" / "initdb", "-D", data, *words], timeout=120)
        assert done.returncode == 0, repr(done)
        settings = {**SETTINGS, "unix_socket_directories": str(self.folder)}
        self.file = self.folder / "log"
        with open(self.file, "w", encoding="utf-8") as log:
            self.proc = actor.popen(
                [
                    *(prefix / "bin" / "postgres", "-D", data),
                    *(
                        word
                        for name, value in settings.items()
                        for word in ("-c", f"{name}={value}")
                    ),
                ],
                stdout=log,
                stderr=log,
            )
        self.pid = self.proc.pid
        memory.wait_for(
            "the server does not start",
            lambda: self.proc.poll() is not None
            or (b"ready to accept" in self.file.read_bytes() and len(children(self.pid)) >= 3),
            60,
        )
        assert self.proc.poll() is None, self.file.read_text()

    def everybody(self):
        return [self.pid, *children(self.pid)]

    def psql(self):
        """A connection that stays: queries go into its stdin, one a line."""
        words = ("-X", "-q", "-A", "-t", "-h", self.folder, "-U", "me", "-d", "postgres")
        proc = self.actor.popen(
            [self.prefix / "bin" / "psql", *words], stderr=subprocess.STDOUT, bufsize=1
        )
        assert ask(proc, "select pg_backend_pid() as it;").isdigit()
        return proc

    def statements(self):
        """Of the log: (pid, seconds, text), in order."""
        found = map(LINE.match, self.file.read_text().splitlines())
        return [(int(m[1]), float(m[2]) / 1e3, m[3]) for m in found if m]

    def finish(self):
        self.proc.send_signal(signal.SIGINT)
        self.proc.wait(60)


def ask(psql, query):
    psql.stdin.write(query + "\n")
    psql.stdin.flush()
    return psql.stdout.readline().strip()


@pytest.fixture
def server(prefix):
    folder = folder_for_all()
    server = Server(prefix, who(folder))
    yield server
    server.finish()
    server.actor.cleanup()
    shutil.rmtree(folder)


def work(server, connections):
    """Queries of all kinds of lengths, at the same time in all connections."""
    for number in range(ROUNDS):
        for who_asks, psql in enumerate(connections):
            mark = f"{who_asks}-{number}"
            for query in (
                f"select pg_sleep(0.0{number + 1}) is null as slept_{who_asks}_{number};",
                f"select count(*) from generate_series(1, {20000 * (number + 1)});",
                f"select 'round {mark}', '{'long ' * 40}';",
            ):
                psql.stdin.write(query + "\n")
            psql.stdin.flush()
    for psql in connections:
        for _ in range(3 * ROUNDS):
            assert "ERROR" not in psql.stdout.readline()


def leave(connections):
    for psql in connections:
        out, _ = psql.communicate(timeout=60)
        assert psql.returncode == 0 and out == ""


class Statement:
    """Of the trace: how long FUNCTION took, how long it was between BEGIN and END, and its values.
    Both in seconds.
    """

    def __init__(self, entry, begun):
        self.start, self.begun, self.args = entry["ts"], begun, entry.get("args")
        self.took = self.told = None


def recorded(recording):
    """Statements in the order of time, by process."""
    done, open_ones, begun = {}, {}, {}
    for event in recording.events():
        pid, what = event["pid"], (event["function"], event["event"])
        if what == (BEGIN, "exit"):
            begun[pid] = event["ts"]
        elif what == (FUNCTION, "entry"):
            open_ones[pid] = Statement(event, begun[pid])
        elif what == (END, "entry") and pid in open_ones:
            open_ones[pid].told = (event["ts"] - open_ones[pid].begun) / 1e9
        elif what == (FUNCTION, "exit"):
            open_ones[pid].took = (event["ts"] - open_ones[pid].start) / 1e9
            done.setdefault(pid, []).append(open_ones.pop(pid))
    assert not open_ones
    return done


def far(pairs):
    return [(log, took) for log, took in pairs if abs(took - log) > max(0.05 * log, 50e-6)]


def compare(server, recording, since):
    """Each statement of the log is a call of the same process, in the same order, as long as the
    log says. Where the machine runs others at the begin or the end of a call, outside of what the
    log tells, the call is longer: few are.
    """
    told, seen = {}, recorded(recording)
    for pid, seconds, text in server.statements()[since:]:
        told.setdefault(pid, []).append((seconds, text))
    counts = {pid: len(rows) for pid, rows in told.items()}
    assert counts == {pid: len(rows) for pid, rows in seen.items()}
    pairs = [
        (log, statement)
        for pid, rows in told.items()
        for (log, _), statement in zip(rows, seen[pid])
    ]
    assert len(pairs) >= CLIENTS * ROUNDS * 3
    between = far((log, statement.told) for log, statement in pairs)
    assert len(between) <= 0.05 * len(pairs), between
    whole = far((log, statement.took) for log, statement in pairs)
    assert len(whole) <= 0.2 * len(pairs), whole
    return told, seen


def test_durations_are_those_of_the_log(server):
    """Backends that are forked after the attach: iprobe attach POSTMASTER --children."""
    everybody = server.everybody()
    recording = Recording(
        server.actor,
        [server.pid, "--children"],
        everybody,
        "-f",
        SELECTION,
        "--args",
        "--string-limit",
        "1024",
    )
    connections = [server.psql() for _ in range(CLIENTS)]
    work(server, connections)
    leave(connections)
    summary = recording.end()
    assert summary["lost"] == 0
    told, seen = compare(server, recording, 0)
    assert len(told) == CLIENTS
    # the text of each query, as the log has it
    for pid, rows in told.items():
        texts = [statement.args["query_string"] for statement in seen[pid]]
        assert texts == [text for _, text in rows]
    row = recording.rows()[FUNCTION]
    assert row["calls"] == sum(len(rows) for rows in told.values())
    nothing_is_left(server.actor, everybody)


def test_backends_that_there_are_and_that_come(server):
    """Connections of before the attach, and those of later: the former have sessions of their own,
    the latter are followed.
    """
    early = [server.psql() for _ in range(2)]
    since = len(server.statements())
    everybody = server.everybody()
    recording = Recording(server.actor, [server.pid, "--children"], everybody, "-f", SELECTION)
    late = [server.psql() for _ in range(CLIENTS - 2)]
    work(server, [*early, *late])
    leave(late)
    summary = recording.end()
    assert summary["lost"] == 0
    told, _ = compare(server, recording, since)
    assert Counter(len(rows) for rows in told.values()) == {
        3 * ROUNDS: 2,
        3 * ROUNDS + 1: CLIENTS - 2,
    }
    nothing_is_left(server.actor, everybody)
    leave(early)

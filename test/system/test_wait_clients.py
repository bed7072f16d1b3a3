# SPDX-License-Identifier: Apache-2.0
"""
iprobe wait --by client: the work of a server for each of its clients, against what the server itself
has counted.
"""

import json
import os
import socket
import subprocess

import pytest

from iptest import actor as actors
from test_wait import skip_without_events

HEAVY, LIGHT = 12, 2  # ms of a request
REQUESTS = 6
SHORT, SHORT_MS = 25, 3  # clients that ask once, and ms of such a request


def ask(connection, what, ms):
    connection.sendall(what.encode() + bytes([ms]))
    assert connection.recv(1) == b"!"


@pytest.fixture(scope="module", params=["epoll", "threads", "queue"])
def served(request, top, builddir, programs):
    """A server that three clients have asked, what it says, and its trace."""
    if os.getuid() != 0:
        pytest.skip("not root")
    actor = actors.Actor("root", 0, top, builddir)
    skip_without_events(actor)
    folder = actor.dir()
    proc = actor.popen(
        [
            actor.iprobe_path,
            *(
                "run",
                "-q",
                "--kernel=syscalls",
                "--kernel-buffer",
                "64M",
                "-o",
                folder / "trace",
                "--",
            ),
            programs.simple("client_work", placement="fentry"),
            request.param,
            folder / "socket",
        ],
        stdin=subprocess.PIPE,
    )
    port = int(proc.stdout.readline().split()[1])
    first = socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0))
    second = socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.3", 0))
    third = socket.socket(socket.AF_UNIX)
    third.connect(str(folder / "socket"))
    with first, second, third:
        for _ in range(REQUESTS):
            ask(first, "h", HEAVY)
            ask(second, "l", LIGHT)
            ask(third, "l", LIGHT)
            ask(second, "l", LIGHT)
        proc.stdin.close()
        proc.stdin = None  # communicate() would flush it
        done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)
    truth = {}
    for line in done.stdout.splitlines():
        peer, requests, cpu = line.split()
        truth[peer] = (int(requests), int(cpu))
    yield truth, lambda *a: actor.iprobe("wait", *a, folder / "trace")
    actor.cleanup()


def clients(wait, *options):
    said = wait("--json", *options)
    assert said.returncode == 0, repr(said)
    document = json.loads(said.stdout)
    return {c["client"]: c for c in document["clients"]}, document


def named(found):
    """Whether each connection has its name: on a busy machine one may be noted too late, and then
    what is not certain is not told.
    """
    return all(client and not client.startswith("socket:") for client in found)


def test_all_work_is_for_clients(served):
    """Whatever their names are."""
    truth, wait = served
    found, document = clients(wait, "--by", "connection")
    requests, cpu = (sum(truths) for truths in zip(*truth.values()))
    assert sum(c["requests"] for c in found.values()) == requests, (document, truth)
    # What the server does to read and to answer is not in its own sum, and is small. That the
    # CPU goes to another thread and comes back is in both, and is told a little later here.
    said = sum(c["cpu_ns"] for c in found.values())
    assert cpu * 0.95 - requests * 50e3 < said < cpu * 1.05 + requests * 300e3, (document, truth)
    for c in found.values():
        whole = c["cpu_ns"] + c["runqueue_ns"] + c["blocked_ns"] + c["unknown_ns"]
        assert abs(c["elapsed_ns"] - whole) < 10 and not c["unknown_ns"], c


def test_work_for_each_connection(served):
    truth, wait = served
    found, document = clients(wait, "--by", "connection")
    if not named(found):
        pytest.skip("a connection was not named in time")
    assert len(found) == len(truth) == 3, document
    for client, said in found.items():
        requests, cpu = truth[client if client in truth else "-"]
        assert said["requests"] == requests and said["connections"] == 1, (said, truth)
        assert cpu * 0.95 - requests * 50e3 < said["cpu_ns"] < cpu * 1.05 + requests * 300e3, (
            said,
            truth,
        )
    unix = next(c for c in found if c not in truth)
    assert unix.startswith("["), unix  # the inode of the other end


def test_functions_of_a_client(served):
    _, wait = served
    found, _ = clients(wait, "--by", "client")
    if not named(found):
        pytest.skip("a connection was not named in time")
    heavy, light = found["127.0.0.2"], found["127.0.0.3"]
    for said, other in ((heavy, "light"), (light, "heavy")):
        most = said["functions"][0]
        assert most["function"] == ("heavy" if said is heavy else "light"), said
        assert most["cpu_ns"] > 0.9 * said["cpu_ns"] - 1e6, said
        assert other not in [f["function"] for f in said["functions"]], said
    of_one, _ = clients(wait, "--by", "client", "-n", "1", "-f", "serve")
    assert list(of_one) == ["127.0.0.2"]
    assert [f["function"] for f in of_one["127.0.0.2"]["functions"]] == ["serve"]


def test_the_table(served):
    _, wait = served
    said = wait("--by", "client")
    assert said.returncode == 0, repr(said)
    lines = said.stdout.splitlines()
    assert lines[2].split() == "REQUESTS ELAPSED CPU RUN QUEUE BLOCKED UNKNOWN CLIENT".split()
    assert lines[-1].endswith(" of CPU time was for no client"), said.stdout
    if named(clients(wait, "--by", "client")[0]):
        assert lines[3].split()[-1] == "127.0.0.2" and lines[4].split()[-1] == "heavy", said.stdout


def test_usage(served):
    _, wait = served
    for options, words in (
        (("--by", "user"), "--by takes function, process, client, connection or value:NAME"),
        (("--by", "client", "--of", "serve"), "does not go with --of,"),
        (("--by", "client", "--tid", "1"), "does not go with --of, --tree, --locks and --tid"),
    ):
        said = wait(*options)
        assert said.returncode == 2 and words in said.stderr, repr(said)


@pytest.fixture(scope="module", params=["fork", "threads", "datagrams"])
def short(request, top, builddir, programs):
    """A server that many clients have asked once, each by a connection or socket of its own that is
    gone at once; of its datagrams' socket: its name.
    """
    if os.getuid() != 0:
        pytest.skip("not root")
    actor = actors.Actor("root", 0, top, builddir)
    skip_without_events(actor)
    folder = actor.dir()
    datagrams = request.param == "datagrams"
    program = programs.simple("fork_echo", placement="fentry")
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    other.bind(("127.0.0.1", 0))
    with other:
        arguments = ["run", "-q", "--kernel=syscalls", "--kernel-buffer", "64M", "--follow-fork"]
        proc = actor.popen(
            [
                actor.iprobe_path,
                *(*arguments, "-o", folder / "trace", "--"),
                *(program, request.param, str(other.getsockname()[1])),
            ],
            stdin=subprocess.PIPE,
        )
        port = int(proc.stdout.readline().split()[1])
        for _ in range(SHORT):
            kind = socket.SOCK_DGRAM if datagrams else socket.SOCK_STREAM
            with socket.socket(socket.AF_INET, kind) as client:
                client.connect(("127.0.0.1", port))
                client.sendall(bytes([SHORT_MS]))
                if datagrams:
                    byte, whom = other.recvfrom(1)
                    other.sendto(byte, whom)
                assert client.recv(1) == bytes([SHORT_MS])
        proc.stdin.close()
        proc.stdin = None
        done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)
    name = f"udp 127.0.0.1:{port}" if datagrams else None
    yield name, lambda *a: actor.iprobe("wait", *a, folder / "trace")
    actor.cleanup()


def test_short_connections(short):
    """Those of forked children, too: what the parent has accepted is the child's."""
    name, wait = short
    found, document = clients(wait, "--by", "client")
    assert sum(c["requests"] for c in found.values()) == SHORT, document
    # what the kernel does for the connection counts, too
    said = sum(c["cpu_ns"] for c in found.values())
    assert SHORT * SHORT_MS * 0.95e6 < said < SHORT * (SHORT_MS * 1.05e6 + 3e6), document
    by_function = {}
    for c in found.values():
        for f in c["functions"]:
            by_function[f["function"]] = by_function.get(f["function"], 0) + f["cpu_ns"]
    assert by_function["serve"] > 0.9 * SHORT * SHORT_MS * 1e6, document
    assert all(c["datagrams"] == bool(name) for c in found.values()), document


def test_datagrams_count_for_their_socket(short):
    """The socket that asks another server is no client, and the wait for the answer is the client's
    that made it ask.
    """
    name, wait = short
    found, document = clients(wait, "--by", "client")
    text = wait("--by", "client").stdout
    if not name:
        assert "Datagrams" not in text, text
        return
    assert list(found) == [name], document
    assert found[name]["connections"] == 1
    assert "ask" in [f["function"] for f in found[name]["functions"]], document
    assert "Datagrams count for the socket that received them" in text, text

# SPDX-License-Identifier: Apache-2.0
"""The first hour with iprobe on nginx, a service of several processes: Debian's sources, built with
iprobe-cc, a master and its workers under clients on the loopback interface. What iprobe records of
all of them together is compared with nginx's own access log, exactly.

nginx is built by its own configure; and, marked slow, as Debian's package by dpkg-buildpackage.

  IPROBE_TEST_NGINX    an nginx that was built so: it is not built again
"""

import json
import os
import re
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from nginx import WORKERS, CLIENTS, REQUESTS, ONCE, SELECTION, NAME, configured, packaged, Server
from servers import Recording, busy_cpu, children, cpu_was_taken, first_lines, folder_for_all
from servers import hold_lock, memory, nothing_is_left, ordinary, sh, slow_disk


@pytest.fixture(scope="module", params=[configured, pytest.param(packaged, marks=pytest.mark.slow)])
def program(request, tmp_path_factory):
    """nginx under a name of its own, where every user may start it."""
    if os.environ.get("IPROBE_TEST_NGINX"):
        built = Path(os.environ["IPROBE_TEST_NGINX"])
    else:
        built = request.param(tmp_path_factory.mktemp("nginx"))
    folder = folder_for_all()
    shutil.copy(built, folder / NAME)
    symbols = built.parents[1] / "lib" / "debug"
    if symbols.exists():
        shutil.copytree(symbols, folder / "debug")
    yield folder / NAME
    shutil.rmtree(folder)


@pytest.fixture
def server(program):
    folder = folder_for_all()
    actor = ordinary(folder)
    server = Server(program, actor)
    yield server
    server.finish()
    actor.cleanup()
    shutil.rmtree(folder)


@pytest.fixture
def start_as_root(program):
    """Starts a server whose workers become another user, as nginx's do everywhere."""
    if os.getuid():
        pytest.skip("only root's workers become another user")
    folder = folder_for_all()
    actor = ordinary(folder)
    actor.uid = 0
    servers = []

    def start(**options):
        servers.append(Server(program, actor, user="user nobody nogroup;", **options))
        return servers[-1]

    yield start
    for server in servers:
        server.finish()
    actor.cleanup()
    shutil.rmtree(folder)


@pytest.fixture
def root_server(start_as_root):
    return start_as_root()


def documents(done):
    """What status and detach tell with --json: one document a process."""
    return json.loads(done.stdout)


def requests_by_process(recording, function="ngx_http_log_handler"):
    """Calls by the process that made them."""
    events = recording.events("-f", function)
    return Counter(event["pid"] for event in events if event["event"] == "entry")


def check(recording, summary, served):
    """What was recorded is what was served: in all, and by each worker."""
    assert summary["lost"] == 0
    rows = recording.rows()
    assert {name: rows[name]["calls"] for name in ONCE} == dict.fromkeys(ONCE, served.total())
    assert requests_by_process(recording) == served
    assert recording.calls_by_process("ngx_http_log_handler") == served


@pytest.mark.parametrize("how", ["pids", "--children", "--name"])
def test_calls_are_the_lines_of_the_access_log(server, how):
    """iprobe attach $(pidof nginx), and the two shorter ways."""
    everybody = server.everybody()
    words = {
        "pids": everybody,
        "--children": [server.pid, "--children"],
        "--name": ["--name", NAME],
    }[how]
    recording = Recording(server.actor, words, everybody, "-f", SELECTION)
    served = server.served(server.clients(*["/page"] * CLIENTS))
    summary = recording.end()
    assert summary["processes"] == len(everybody)
    assert {member["pid"] for member in summary["members"]} == set(everybody)
    assert all(member["stop_us"] for member in summary["members"])
    check(recording, summary, served)
    for pid in served:
        rows = recording.rows(trace=recording.member(pid))
        assert rows["ngx_http_log_handler"]["calls"] == served[pid]
    nothing_is_left(server.actor, everybody)


def test_all_functions_and_each_stop(server):
    """Without -f; what a person reads at the end has a line for each process with its stops."""
    everybody = server.everybody()
    recording = Recording(server.actor, everybody, everybody, text=True)
    served = server.served(server.clients(*["/page"] * CLIENTS))
    recording.proc.send_signal(signal.SIGINT)
    _, said = recording.wait()
    for pid in everybody:
        (line,) = [line for line in said.splitlines() if line.startswith(f"iprobe: pid {pid}:")]
        assert re.search(r"none lost; stopped for [0-9.]+ [mu]s, ", line), line
    assert "events of 4 processes" in said.splitlines()[-1]
    rows = recording.rows()
    assert [rows[name]["calls"] for name in ONCE] == [served.total()] * len(ONCE)
    assert len(rows) > 100
    nothing_is_left(server.actor, everybody)


def test_a_reload_under_load(server):
    """New workers of the same user are recorded from their first call on: no pause is needed."""
    recording = Recording(
        server.actor, [server.pid, "--children"], server.everybody(), "-f", SELECTION
    )
    clients = server.clients(*["/page"] * CLIENTS, times=3 * REQUESTS)
    memory.wait_for("nothing is served", lambda: len(server.lines()) > CLIENTS)
    old, new = server.reload()
    served = server.served(clients)
    assert set(served) & set(old) and set(served) & set(new)
    summary = recording.end()
    check(recording, summary, served)
    ended = {member["pid"]: member["end"] for member in summary["members"]}
    assert [ended[pid] for pid in old] == ["target ended"] * WORKERS
    nothing_is_left(server.actor, [server.pid, *new])


@pytest.mark.parametrize("how", ["--children", "--name"])
def test_a_reload_of_workers_that_become_another_user(root_server, how):
    """Each new worker gets a session of its own: clients wait until it has it."""
    server = root_server
    words = [server.pid, "--children"] if how == "--children" else ["--name", NAME]
    recording = Recording(server.actor, words, server.everybody(), "-f", SELECTION)
    server.served(server.clients(*["/page"] * CLIENTS))
    old, new = server.reload()
    recording.join(new, begun=True)
    served = server.served(server.clients(*["/page"] * CLIENTS))
    assert set(served) & set(old) and set(served) & set(new)
    summary = recording.end()
    check(recording, summary, served)
    nothing_is_left(server.actor, [server.pid, *new])


def test_status_and_detach_of_the_service(server):
    everybody = server.everybody()
    recording = Recording(server.actor, ["--name", NAME], everybody, "-f", SELECTION)
    served = server.served(server.clients(*["/page"] * CLIENTS))
    status = server.actor.iprobe("status", "--json", "--name", NAME)
    assert status.returncode == 0, repr(status)
    assert {p["pid"] for p in documents(status) if p["patched"] > 0} == set(everybody)
    done = server.actor.iprobe("detach", "--json", server.pid, "--children")
    assert done.returncode == 0, repr(done)
    assert {p["pid"] for p in documents(done) if p["restored"] > 0} == set(everybody)
    # iprobe attach has no process then, but would take one that comes
    summary = recording.end()
    check(recording, summary, served)
    nothing_is_left(server.actor, everybody)


def test_how_long_requests_take(server):
    """$request_time, of requests that nginx sends slowly, against the time from the creation of a
    request to its line in the access log. The values tell which is which: the pointer to it.
    """
    options = ("-f", "ngx_http_create_request,ngx_http_log_handler", "--args", "--retval")
    options += (*server.symbols,)
    recording = Recording(server.actor, server.everybody(), server.everybody(), *options)
    server.served(server.clients(*["/slow"] * CLIENTS, *["/page"] * 2, times=1))
    recording.end()
    began, took = {}, []
    for event in recording.events():
        name, kind = event["function"], event["event"]
        if (name, kind) == ("ngx_http_create_request", "exit"):
            began[event["pid"], event["retval"]] = event["ts"]
        elif (name, kind) == ("ngx_http_log_handler", "entry"):
            start = began.pop((event["pid"], event["args"]["r"]))
            took.append((event["pid"], (event["ts"] - start) / 1e9))
    logged = [(pid, seconds) for pid, _, seconds, _ in server.lines()]
    assert sum(seconds > 0.5 for _, seconds in logged) == CLIENTS
    assert not began and len(took) == len(logged)
    for (pid, told), (recorded_pid, recorded) in zip(sorted(logged), sorted(took)):
        # nginx counts in milliseconds, by a clock that it reads once in a turn
        assert pid == recorded_pid and abs(told - recorded) <= max(0.05 * told, 0.02)


def test_which_requests_they_were(server):
    """A value through a structure, in each worker: the URI as the access log has it."""
    uris = [f"/page-{number}" for number in range(CLIENTS)]
    for uri in uris:
        shutil.copy(server.folder / "html" / "page", server.folder / "html" / uri[1:])
    values = "ngx_http_log_handler(uri=r->uri.data:string(r->uri.len))"
    words = (server.pid, "--children", "-f", "ngx_http_log_handler", "--args", values)
    recording = Recording(server.actor, words, server.everybody(), *server.symbols)
    server.served(server.clients(*uris, times=10))
    recording.end()
    seen = Counter(
        (event["pid"], event["args"]["uri"])
        for event in recording.events()
        if event["event"] == "entry"
    )
    assert seen == Counter((pid, uri) for pid, _, _, uri in server.lines())
    assert {uri for _, uri in seen} == set(uris)


def waits_of(server, selection, words, serve):
    """What iprobe wait says first of the workers' functions."""
    recording = Recording(
        server.actor,
        [server.pid, "--children"],
        server.all_workers(),
        *("--kernel", "-f", selection),
    )
    serve()
    assert recording.end()["lost"] == 0
    done = server.actor.iprobe("wait", *words, recording.dir)
    assert done.returncode == 0, repr(done)
    return first_lines(done.stdout)


def test_a_slow_disk(root_server):
    """The file that a request waits for is named, and the program that is slow to give it out."""
    with slow_disk(root_server.folder / "html", "--read-rate=1M") as (real, _):
        (real / "data").write_bytes(os.urandom(1 << 19))
        said = waits_of(
            root_server,
            "ngx_output_chain,ngx_http_log_handler",
            ["--of", "ngx_output_chain", "--slowest", "1"],
            lambda: root_server.served(root_server.clients("/disk/data", times=1)),
        )
    assert "file" in said and "/disk/data" in said and "(bindfs)" in said, said


def test_a_cpu_that_another_program_has(root_server):
    """A program with a higher priority keeps the workers from their CPU: it is named."""
    cpu = str(min(os.sched_getaffinity(0)))
    for pid in root_server.all_workers():
        sh(["taskset", "-acp", cpu, pid], root_server.folder)

    def serve():
        with busy_cpu(cpu):
            root_server.served(root_server.clients(*["/page"] * CLIENTS, times=5))

    handler = "ngx_http_process_request_line"
    said = waits_of(root_server, handler, ["-f", handler], serve)
    assert cpu_was_taken(said), said


def test_a_lock_that_is_held_too_long(start_as_root, tmp_path):
    """A lock of each worker's, that of the queue of its threads which read files: it is named, who
    has it, and the function in which it is held."""
    environment = {"LD_PRELOAD": str(hold_lock(tmp_path)), "HOLD_LOCK_MADE": "1"}
    server = start_as_root(http="aio threads;", env=environment)
    said = waits_of(
        server,
        "ngx_thread_task_post,compact",
        ["-f", "ngx_thread_task_post"],
        lambda: server.served(server.clients(*["/page"] * CLIENTS, times=30)),
    )
    assert "futex" in said and "held by compactor (" in said and ") in compact" in said, said

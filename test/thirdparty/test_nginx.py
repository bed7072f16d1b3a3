# SPDX-License-Identifier: Apache-2.0
"""The first hour with iprobe on nginx, a service of several processes: Debian's sources, built with
iprobe-cc, a master and its workers under clients on the loopback interface. What iprobe records of
all of them together is compared with nginx's own access log, exactly.

nginx is built by its own configure; and, marked slow, as Debian's package by dpkg-buildpackage.

  IPROBE_TEST_NGINX    an nginx that was built so: it is not built again
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import threading
from collections import Counter
from pathlib import Path

import pytest

from servers import IPROBE_CC, Recording, children, fetch, folder_for_all, memory, nothing_is_left
from servers import ordinary, sh

WORKERS = 3
CLIENTS = 4
REQUESTS = 150  # of each client
# each once for a request: its beginning, its end, its line in the access log. nginx's own
# ngx_http_process_request is inlined where requests call it.
ONCE = ("ngx_http_create_request", "ngx_http_free_request", "ngx_http_log_handler")
SELECTION = ",".join(ONCE)
NAME = f"nginx{os.getpid() % 100000}"
# what Debian's rules build with a library that may not be here: modules, and their packages
OPTIONAL = {
    "libgd-dev": (["http_image_filter"], ["http-image-filter"]),
    "libgeoip-dev": (["http_geoip", "stream_geoip"], ["http-geoip", "stream-geoip"]),
    "libperl-dev": (["http_perl"], ["http-perl"]),
    "libxslt1-dev": (["http_xslt"], ["http-xslt-filter"]),
}
CONFIGURATION = """
worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
{user}
events {{ worker_connections 64; }}
http {{
  log_format told '$pid $status $request_time $uri';
  access_log {folder}/access.log told;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    root {folder}/html;
    keepalive_requests 20;  # connections change between the workers
    location /slow {{ limit_rate 40k; }}
  }}
}}
"""


def configured(folder):
    """By nginx's own configure: what a request for a file needs."""
    source = folder / "nginx"
    fetch("nginx", source)
    without = ("http_rewrite", "http_gzip", "http_ssi", "http_autoindex", "http_geo", "http_map")
    without += ("http_split_clients", "http_memcached", "http_browser", "http_mirror", "http_grpc")
    sh(
        [
            *("./configure", f"--with-cc={IPROBE_CC}", "--with-cc-opt=-O2 -g", "--without-pcre"),
            *(f"--without-{module}_module" for module in without),
        ],
        source,
    )
    sh(["make", "-j2", "-f", "objs/Makefile", "objs/nginx"], source)
    return source / "objs" / "nginx"


def leave_out(source, missing):
    """Takes out of Debian's rules what needs libraries that are not here."""
    rules, control = source / "debian" / "rules", source / "debian" / "control"
    text, paragraphs = rules.read_text(), control.read_text().split("\n\n")
    for library in missing:
        modules, packages = OPTIONAL[library]
        for module in modules:
            text = re.sub(rf"\t+--with-{module}_module=dynamic( \\)?\n", "", text)
        for package in packages:
            text = re.sub(rf"\n\t{package}( \\)?(?=\n)", "", text)
            head = re.compile(rf"^Package: libnginx-mod-{package}$", re.M)
            paragraphs = [part for part in paragraphs if not head.search(part)]
    rules.write_text(text)
    control.write_text("\n\n".join(paragraphs))


def packaged(folder):
    """As Debian's package: its flags, hardening and dh_strip; the program out of the package."""
    if not shutil.which("dpkg-buildpackage") or not shutil.which("dh"):
        pytest.skip("no debhelper here: run scripts/install-deps test")
    source = folder / "nginx"
    fetch("nginx", source)
    said = sh(["dpkg-checkbuilddeps"], source, check=False).stderr
    missing = set(re.sub(r"\(.*?\)", "", said.partition("dependencies:")[2]).split())
    if "libpcre2-dev" in missing:
        missing.discard("libpcre2-dev")
        rules = source / "debian" / "rules"
        without = "--without-pcre --without-http_rewrite_module"
        rules.write_text(rules.read_text().replace("--with-pcre-jit", without))
    if missing - set(OPTIONAL):
        pytest.skip(f"not here: {' '.join(sorted(missing - set(OPTIONAL)))}")
    leave_out(source, missing)
    sh(
        ["dpkg-buildpackage", "-B", "-d", "-us", "-uc"],
        source,
        timeout=1800,
        CC=str(IPROBE_CC),
        DEB_BUILD_OPTIONS="parallel=2",
    )
    (deb,) = folder.glob("nginx_*.deb")
    sh(["dpkg-deb", "-x", deb, folder / "root"], folder)
    (symbols,) = folder.glob("nginx-dbgsym_*.deb")
    sh(["dpkg-deb", "-x", symbols, folder / "root"], folder)
    program = folder / "root" / "usr" / "sbin" / "nginx"
    assert ".symtab" not in sh(["readelf", "-SW", program], folder).stdout
    return program


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


class Client(threading.Thread):
    """Asks for a file a number of times, on connections that are kept alive as long as the server
    lets them. Where an old worker closes one instead of answering, the request is made again.
    """

    def __init__(self, server, uri, times, gate):
        super().__init__(daemon=True)
        self.server, self.uri, self.times, self.gate = server, uri, times, gate
        self.answered, self.error = 0, None
        self.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            while self.answered < self.times:
                self.gate.wait()
                try:
                    connection.request("GET", self.uri)
                    answer = connection.getresponse()
                    assert answer.status == 200 and answer.read()
                    self.answered += 1
                except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                    connection.close()
        except (AssertionError, OSError) as error:
            self.error = error
        connection.close()


class Server:
    """nginx's master and workers."""

    def __init__(self, program, actor, user=""):
        self.actor, self.folder = actor, actor.dir()
        symbols = program.parent / "debug"  # of a package, whose program is stripped
        self.symbols = ["--list", symbols] if symbols.exists() else []
        (self.folder / "html").mkdir(mode=0o755)
        (self.folder / "html" / "page").write_text("page\n" * 200)
        (self.folder / "html" / "slow").write_text("slow\n" * 12000)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        file = self.folder / "nginx.conf"
        words = {"folder": self.folder, "port": self.port, "workers": WORKERS, "user": user}
        file.write_text(CONFIGURATION.format(**words))
        nginx = [program, "-p", self.folder, "-c", file, "-e", self.folder / "error.log"]
        self.proc = actor.popen([*nginx, "-g", "daemon off;"])
        self.pid, self.asked = self.proc.pid, 0
        self.all_workers()

    def all_workers(self):
        """Of these settings; those that still end are not among them."""

        def ready():
            assert self.proc.poll() is None, self.proc.communicate()
            found = {}
            for pid in children(self.pid):
                try:
                    found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes()
                except OSError:
                    continue
            new = [pid for pid, line in found.items() if b"worker process\0" in line + b"\0"]
            new = [pid for pid in new if b"shutting down" not in found[pid]]
            return sorted(new) if len(new) == len(found) == WORKERS else None

        return memory.wait_for("there are no three workers", ready, 60)

    def everybody(self):
        return [self.pid, *self.all_workers()]

    def clients(self, *uris, times=REQUESTS, gate=None):
        if gate is None:
            gate = threading.Event()
            gate.set()
        self.asked += len(uris) * times
        return [Client(self, uri, times, gate) for uri in uris]

    def lines(self):
        """Of the access log: (pid, status, seconds, URI)."""
        lines = (self.folder / "access.log").read_text().splitlines()
        split = [line.split() for line in lines]
        return [(int(pid), status, float(time), uri) for pid, status, time, uri in split]

    def served(self, clients):
        """Waits until all is answered and logged; requests by worker, out of the access log."""
        for client in clients:
            client.join(300)
            assert client.error is None and client.answered == client.times, client.error
        memory.wait_for("requests are not logged", lambda: len(self.lines()) >= self.asked)
        assert {status for _, status, _, _ in self.lines()} == {"200"}
        assert len(self.lines()) == self.asked
        return Counter(pid for pid, *_ in self.lines())

    def reload(self):
        """New workers, of whom none has a request of before; (old, new)."""
        old = self.all_workers()
        self.proc.send_signal(signal.SIGHUP)

        def changed():
            new = self.all_workers()
            return new if not set(old) & set(new) else None

        return old, memory.wait_for("the old workers go on", changed, 60)

    def finish(self):
        self.proc.send_signal(signal.SIGTERM)
        self.proc.communicate(timeout=60)


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
def root_server(program):
    """Its workers become another user, as nginx's do everywhere."""
    if os.getuid():
        pytest.skip("only root's workers become another user")
    folder = folder_for_all()
    actor = ordinary(folder)
    actor.uid = 0
    server = Server(program, actor, "user nobody nogroup;")
    yield server
    server.finish()
    actor.cleanup()
    shutil.rmtree(folder)


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

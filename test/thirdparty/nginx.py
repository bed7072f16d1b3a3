# SPDX-License-Identifier: Apache-2.0
"""nginx, built with iprobe-cc from Debian's sources, a master and its workers, and clients on the
loopback interface.
"""

import http.client
import os
import re
import shutil
import signal
import socket
import threading
from collections import Counter
from pathlib import Path

import pytest

from servers import IPROBE_CC, children, fetch, memory, sh

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
    {http}
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
            *("./configure", f"--with-cc={IPROBE_CC}", "--with-cc-opt=-O2 -g"),
            *("--without-pcre", "--with-threads"),
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

    def __init__(self, program, actor, user="", http="", env=None):
        """user, http: more settings of the whole, and of what is served."""
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
        words["http"] = http
        file.write_text(CONFIGURATION.format(**words))
        nginx = [program, "-p", self.folder, "-c", file, "-e", self.folder / "error.log"]
        self.proc = actor.popen([*nginx, "-g", "daemon off;"], env=env)
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

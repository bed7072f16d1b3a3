# SPDX-License-Identifier: Apache-2.0
"""lighttpd, built with iprobe-cc from Debian's sources, which compresses its answers by a module
and a zlib of its own, and clients on the loopback interface.
"""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from servers import IPROBE_CC, fetch, sh

CLIENTS, RATE = 4, 50  # requests a second of each
PAGE = "".join(f"<p>{n} {n * n % 977} {'abcdefgh'[n % 8] * (n % 13)}</p>\n" for n in range(200))
# A fault to inject into zlib: where a block of compressed data ends, one of so many takes longer
REST = """
#include <time.h>

__attribute__((noinline)) void rest_now_and_then(void)
{
    static unsigned blocks;
    const struct timespec pause = {.tv_nsec = %(ms)d * 1000000};

    if (++blocks %% %(one_of)d == 0)
        nanosleep(&pause, NULL);
}

"""
CONFIGURATION = """
server.modules = ( "mod_deflate" )
server.document-root = "{folder}/html"
server.bind = "127.0.0.1"
server.port = {port}
server.errorlog = "{folder}/error.log"
server.max-keep-alive-requests = 65535
mimetype.assign = ( ".html" => "text/html" )
deflate.mimetypes = ( "text/html" )
deflate.allowed-encodings = ( "gzip" )
"""


def build(folder, ms, one_of):
    """The server in three modules: the program, its module, and zlib. Returns lighttpd's source."""
    zlib, server = folder / "zlib", folder / "lighttpd"
    fetch("zlib", zlib)
    fetch("lighttpd", server)
    trees = zlib / "trees.c"
    text = trees.read_text(encoding="latin-1")
    head, name, body = text.partition("void ZLIB_INTERNAL _tr_flush_block(")
    locals_, mark, rest = body.partition("    if (s->level > 0) {")
    assert name and mark, "zlib's trees.c has changed"
    rest = f"    rest_now_and_then();\n{mark}{rest}"
    trees.write_text(
        head + REST % {"ms": ms, "one_of": one_of} + name + locals_ + rest, encoding="latin-1"
    )
    sh(["./configure"], zlib, CC=str(IPROBE_CC), CFLAGS="-O2 -g")
    sh(["make", "-j2"], zlib)
    without = ("pcre", "pcre2", "bzip2", "zstd", "brotli", "libdeflate", "openssl", "krb5")
    sh(
        [
            *("./configure", f"CC={IPROBE_CC}", "CFLAGS=-O2 -g", f"CPPFLAGS=-I{zlib}"),
            *(f"LDFLAGS=-L{zlib}", f"ZLIB_CFLAGS=-I{zlib}", f"ZLIB_LIBS=-L{zlib} -lz"),
            *("--with-zlib", *(f"--without-{what}" for what in without)),
        ],
        server,
    )
    sh(["make", "-C", "src", "parsers", "versionstamp"], server)
    sh(["make", "-j2", "-C", "src", "lighttpd", "mod_deflate.la"], server)
    return server


def first():
    """In a new process: it goes before the machine's other work, which is not to be the cause."""
    os.setsid()
    with contextlib.suppress(OSError):  # no autogroups; not root
        Path("/proc/self/autogroup").write_text("-15", encoding="ascii")
    with contextlib.suppress(OSError):
        os.nice(-15)


class Client(threading.Thread):
    """Asks for the page, RATE times a second, by one connection; answers counts."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.answers, self.error = server, 0, None
        self.start()

    def run(self):
        try:
            while not self.server.over:
                with socket.create_connection(
                    ("127.0.0.1", self.server.port), timeout=30
                ) as connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    due = time.monotonic()
                    while not self.server.over and self.ask(connection):
                        due += 1 / RATE
                        time.sleep(max(0, due - time.monotonic()))
        except (AssertionError, OSError, ValueError) as error:
            self.error = error

    def ask(self, connection):
        """Whether the connection stays."""
        connection.sendall(b"GET /page.html HTTP/1.1\r\nHost: t\r\nAccept-Encoding: gzip\r\n\r\n")
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.more(connection)
        head, _, body = answer.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        assert lines[0].endswith(b" 200 ok") and b"content-encoding: gzip" in lines, head
        size = next((int(l.split(b":")[1]) for l in lines if l.startswith(b"content-length")), None)
        while len(body) < size if size is not None else not body.endswith(b"\r\n0\r\n\r\n"):
            body += self.more(connection)
        self.answers += 1
        return b"connection: close" not in lines

    @staticmethod
    def more(connection):
        data = connection.recv(1 << 16)
        assert data, "the server closes a connection"
        return data


class Server:
    """Runs until end()."""

    def __init__(self, source, folder):
        self.over = False
        (folder / "html").mkdir(parents=True)
        (folder / "html" / "page.html").write_text(PAGE, encoding="ascii")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (folder / "lighttpd.conf").write_text(
            CONFIGURATION.format(folder=folder, port=self.port), encoding="ascii"
        )
        libraries = source.parent / "zlib"
        self.proc = subprocess.Popen(
            [source / "src" / "lighttpd", "-D", "-f", folder / "lighttpd.conf"]
            + ["-m", source / "src" / ".libs"],
            env={**os.environ, "LD_LIBRARY_PATH": str(libraries)},
            stdin=subprocess.DEVNULL,
            preexec_fn=first,
        )
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except OSError:
                assert self.proc.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
        self.clients = [Client(self) for _ in range(CLIENTS)]

    def answers(self):
        return sum(client.answers for client in self.clients)

    def cpu_ns(self):
        with open(f"/proc/{self.proc.pid}/schedstat", encoding="ascii") as stat:
            return int(stat.read().split()[0])

    def end(self):
        self.over = True
        for client in self.clients:
            client.join(30)
        self.proc.send_signal(signal.SIGTERM)
        self.proc.wait(30)

# SPDX-License-Identifier: Apache-2.0
"""Redis from Debian's sources, built with iprobe-cc, as a server that benchmarks look at;
redis-benchmark asks it over loopback.
"""

import contextlib
import re
import socket
import subprocess
import sys
import time

import bench
import programs

PATIENCE_S = 60


def leave_out(why):
    """For ./check: it cannot be measured here."""
    print(f"left out: {why}")
    sys.exit(77)


def build(folder, optimize):
    """The folder with its programs."""
    try:
        tree = programs.source("redis", folder)
    except programs.Missing as why:
        leave_out(why)
    bench.run(
        [
            "make",
            "-j2",
            f"CC={bench.IPROBE_CC}",
            "MALLOC=libc",
            f"OPTIMIZATION={optimize}",
            "DEBUG=",
            "redis-server",
            "redis-benchmark",
        ],
        cwd=tree / "src",
        timeout=1200,
    )
    return tree / "src"


def wait_for(what, condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            bench.fail(what())
        time.sleep(0.005)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A redis-server, and one connection to ask it for its figures."""

    def __init__(self, src, folder):
        self.src, self.port, self.load = src, free_port(), None
        self.proc = subprocess.Popen(
            [src / "redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--save", ""],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        wait_for(lambda: "redis-server does not answer", self.connects)
        self.figures = socket.create_connection(("127.0.0.1", self.port))

    def connects(self):
        if self.proc.poll() is not None:
            bench.fail(f"redis-server ended at once: {self.proc.returncode}")
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True
        return False

    def begin_load(self, clients, pipeline, *words):
        self.load = subprocess.Popen(
            [
                self.src / "redis-benchmark",
                "-h",
                "127.0.0.1",
                "-p",
                str(self.port),
                "-c",
                str(clients),
                "-P",
                str(pipeline),
                "-n",
                "2000000000",
                "-q",
                *words,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def end_load(self):
        if self.load:
            self.load.kill()
            self.load.wait()
            self.load = None

    def requests(self):
        """So far."""
        self.figures.sendall(b"INFO stats\r\n")
        reply = b""
        while not (found := re.search(rb"total_commands_processed:(\d+)\r", reply)):
            part = self.figures.recv(65536)
            if not part:
                bench.fail("redis-server has gone")
            reply += part
        size = int(reply[1 : reply.index(b"\r\n")])
        while len(reply) < reply.index(b"\r\n") + 4 + size:
            reply += self.figures.recv(65536)
        return int(found[1])

    def end(self):
        self.end_load()
        self.figures.close()
        self.proc.kill()
        self.proc.wait()

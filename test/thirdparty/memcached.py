# SPDX-License-Identifier: Apache-2.0
"""memcached, built with iprobe-cc from Debian's sources by their own build systems, with clients on
the loopback interface.
"""

import os
import socket
import subprocess
import threading
import time

from servers import IPROBE_CC, fetch, sh

WORKERS = 3
CLIENTS = 6
# what the server counts -> the function that does it, once for each
TRUTH = {
    "cmd_get": "process_get_command",
    "cmd_set": "process_update_command",
    "incr_hits": "process_arithmetic_command",
}


def build(folder):
    """memcached, with the event loop that it waits in: both have probes. Returns the program."""
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
            # its locks have names for a library that is loaded before it
            f"LDFLAGS=-L{event}/b/lib -rdynamic",
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
    """Runs until end(). log: a file that takes what it says of each command. more: environment."""

    def __init__(self, program, folder, log=None, **more):
        self.may_work, self.over = threading.Event(), False
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        options = ["-u", "root"] if os.getuid() == 0 else []
        options += ["-vv"] if log else []
        self.proc = subprocess.Popen(
            [program, "-l", "127.0.0.1", "-p", str(self.port), "-t", str(WORKERS), *options],
            cwd=folder,
            stderr=log,
            env={**os.environ, **more},
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

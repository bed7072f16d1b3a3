# SPDX-License-Identifier: Apache-2.0
"""A terminal for a command that takes all of its screen: what is on it, and keys."""

import fcntl
import os
import pathlib
import re
import select
import struct
import subprocess
import termios
import time

from . import actor as actors

SEQUENCE = re.compile(rb"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Terminal:
    """
    Runs a command on a terminal of its own, which is its controlling one (Ctrl-C, Ctrl-Z,
    sizes). Knows the handful of control sequences that iprobe top and tui use, and UTF-8; any
    other is a failure.
    """

    def __init__(self, actor, *args, lines=24, columns=100, env=None, under=(), **more):
        """under: the words of a command that starts iprobe, whose words follow."""
        self.master, self.slave = os.openpty()
        self.lines, self.columns = lines, columns
        self.rows, self.row, self.column = [""] * lines, 0, 0
        self.alternate, self.pending = False, b""
        self.raw = b""  # all that was written
        self.style, self.styled = (), {}  # of what is put next; (row, column): of what stands there
        self.resize(lines, columns)
        self.before = termios.tcgetattr(self.slave)
        self.proc = actor.popen(
            ["setsid", "--ctty", "--wait", *under, actor.iprobe_path, *args],
            stdin=self.slave,
            stdout=self.slave,
            stderr=subprocess.PIPE,
            env=env,
            **more,
        )

    def resize(self, lines, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.rows = (self.rows + [""] * lines)[:lines]
        self.lines, self.columns = lines, columns
        self.row, self.column = min(self.row, lines - 1), min(self.column, columns - 1)

    @property
    def pid(self):
        """Of the command, not of what started it."""
        children = (
            pathlib.Path(f"/proc/{self.proc.pid}/task/{self.proc.pid}/children").read_text().split()
        )
        return int(children[0]) if children else self.proc.pid

    def text(self):
        return "\n".join(self.rows)

    def put(self, character):
        if character in "\r\n":
            self.row, self.column = min(self.row + (character == "\n"), self.lines - 1), 0
            return
        line = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = line[: self.column] + character + line[self.column + 1 :]
        if self.style:
            self.styled[self.row, self.column] = self.style
        else:
            self.styled.pop((self.row, self.column), None)
        if self.column < self.columns - 1:  # no new line: the cursor stays on the last column
            self.column += 1

    def control(self, private, numbers, final):
        n = [int(x) for x in numbers.split(b";") if x]
        if private:
            assert numbers in (b"1049", b"25", b"7"), numbers
            if numbers == b"1049":
                self.alternate = final == b"h"
                self.rows = [""] * self.lines
        elif final == b"H":
            self.row, self.column = (
                min((n or [1])[0], self.lines) - 1,
                (n[1] if len(n) > 1 else 1) - 1,
            )
        elif final == b"K":
            self.rows[self.row] = self.rows[self.row][: self.column]
            for at in [at for at in self.styled if at[0] == self.row and at[1] >= self.column]:
                del self.styled[at]
        elif final == b"J":
            first = 0 if n == [2] else self.row
            self.rows[first:] = [""] * (self.lines - first)
        else:
            assert final == b"m", final
            self.style = (self.style + tuple(n)) if n and n != [0] else ()

    def feed(self, data):
        self.raw += data
        data = self.pending + data
        while data:
            if data[0] != 0x1B:
                length = 1 + sum(data[0] >= least for least in (0xC0, 0xE0, 0xF0))
                if len(data) < length:
                    break  # the rest is on its way
                self.put(data[:length].decode())
                data = data[length:]
                continue
            found = SEQUENCE.match(data)
            if not found:
                assert len(data) < 16, data[:16]
                break  # the rest is on its way
            self.control(*found.groups())
            data = data[found.end() :]
        self.pending = data

    def read(self, timeout):
        if select.select([self.master], [], [], timeout)[0]:
            try:
                self.feed(os.read(self.master, 65536))
            except OSError:
                time.sleep(timeout)

    def wait(self, what, condition, timeout=60):
        deadline = time.monotonic() + timeout
        while not condition(self):
            self.read(0.05)
            assert self.proc.poll() is None, f"{what}: it has ended: {self.proc.stderr.read()}"
            assert time.monotonic() < deadline, f"{what}: not within {timeout} s:\n{self.text()}"

    def wait_text(self, text):
        self.wait(f"no {text!r} on the screen", lambda t: text in t.text())

    def settle(self, quiet=0.05):
        """Waits until nothing more comes: a picture is whole then."""
        while select.select([self.master], [], [], quiet)[0]:
            self.read(0)

    def scrolled(self):
        """What was written when no other page was on, as a pipe would have it."""
        pages = self.raw.decode().replace("\r\n", "\n").split("\x1b[?1049h")
        return pages[0] + "".join(page.rpartition("\x1b[?1049l")[2] for page in pages[1:])

    def press(self, keys):
        os.write(self.master, keys if isinstance(keys, bytes) else keys.encode())

    def is_restored(self):
        """Another page is not on, and the line discipline is what it was."""
        return not self.alternate and termios.tcgetattr(self.slave) == self.before

    def wait_end(self):
        """Its end; (exit code, what it said on stderr)."""
        deadline = time.monotonic() + actors.PATIENCE
        while self.proc.poll() is None:
            self.read(0.05)
            assert time.monotonic() < deadline, f"does not end:\n{self.text()}"
        while select.select([self.master], [], [], 0)[0]:
            self.read(0)
        return self.proc.returncode, self.proc.stderr.read()

    def close(self):
        actors.end(self.proc)
        os.close(self.master)
        os.close(self.slave)

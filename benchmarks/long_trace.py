# SPDX-License-Identifier: Apache-2.0
"""A long trace out of a short one, and how long a command is silent that reads it on a terminal."""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import termios
import time
from pathlib import Path


def links(trace, directory, size):
    """
    A trace of at least so many bytes whose streams are those of another one, again and again, as
    hard links: each is read as a thread of its own.
    """
    shutil.copytree(trace, directory, ignore=shutil.ignore_patterns("stream-*"))
    streams = sorted(Path(trace).glob("stream-*"))
    whole = sum(stream.stat().st_size for stream in streams)
    for i in range(len(streams) * -(-int(size) // whole)):
        os.link(streams[i % len(streams)], Path(directory) / f"stream-{i}")


def first_view(command, table, limit=60):
    """
    Seconds until a command that is still reading has shown a table, which the regular expression
    finds; None: it did not. The command is ended.
    """
    begin = time.monotonic()
    pid, master = pty.fork()
    if pid == 0:
        try:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
            os.environ["TERM"] = "xterm"
            os.execv(command[0], [str(word) for word in command])
        finally:
            os._exit(127)
    shown, seconds = b"", None
    while seconds is None and time.monotonic() < begin + limit:
        if not select.select([master], [], [], 0.5)[0]:
            continue
        try:
            shown += os.read(master, 65536)
        except OSError:
            break  # it has ended
        page = shown.rpartition(b"\x1b[?1049h")[2]
        if page != shown and b"reading:" in page and re.search(table, page):
            seconds = time.monotonic() - begin
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(master)
    return seconds

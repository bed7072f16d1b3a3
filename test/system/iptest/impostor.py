# SPDX-License-Identifier: Apache-2.0
"""
Who poses as the session of a process: listens at the name, maybe holds the lock, and answers that
all is well. A program of its own, run as whoever it shall be.

  impostor.py PID HOW [COMMAND...]    HOW: listen | lock | handed (a child answers, and what
                                      listened executes COMMAND)
"""

import contextlib
import fcntl
import os
import socket
import struct
import sys

MAGIC = 0x3674736575716572  # as in session/control/control_socket.h
FORGED = b"/tmp/FORGED\x1b]0;owned\x07\x1b[2J\nall is well"
F_OFD_SETLK = 37
SESSION, PATCH = 0, 1  # bytes of the area that are locked, as in common/abi/area.h


def lock(fd, byte):
    fcntl.fcntl(fd, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))


def area_of(pid):
    """By a descriptor, or, in a process that keeps none, by what is mapped."""
    for folder in (f"/proc/{pid}/fd", f"/proc/{pid}/map_files"):
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                with contextlib.suppress(OSError):
                    if os.readlink(f"{folder}/{name}").startswith("/memfd:iprobe"):
                        return f"{folder}/{name}"
    raise AssertionError("no area")


def name_of(area):
    st = os.stat(area)
    return f"\0iprobe-session-{st.st_dev:x}-{st.st_ino:x}"


def reply(pid, functions=77):
    """As struct ip_control_reply: all is done."""
    head = struct.pack("<QII", MAGIC, 0, pid)
    numbers = (
        [functions, 0, functions, 0, functions, functions, 0, 0, 1, 1, 0]
        + [0] * 16
        + [0]
        + [0, 0]
        + [1000, 0, 0, 0]
    )
    return head + struct.pack(f"<{len(numbers)}Q", *numbers) + FORGED + b"\0\x1b[1mFORGED too"


@contextlib.contextmanager
def patch_lock(pid):
    """Holds the lock of who changes the text of the process."""
    fd = os.open(area_of(pid), os.O_RDWR)
    try:
        lock(fd, PATCH)
        yield
    finally:
        os.close(fd)


def answer(listening):
    while True:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 17)
            connection.send(reply(os.getpid()))


def main():
    pid, how = int(sys.argv[1]), sys.argv[2]
    area = area_of(pid)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(name_of(area))
    listening.listen(16)
    if how == "lock":
        fd = os.open(area, os.O_RDWR)
        lock(fd, SESSION)
    print("listens", flush=True)
    if how == "handed" and os.fork() != 0:
        listening.close()
        os.execv(sys.argv[3], sys.argv[3:])
    answer(listening)


if __name__ == "__main__":
    main()

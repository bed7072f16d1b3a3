#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Eight clients of a Redis server, each of which wants a key 250 times a second, and what they had
to wait for it.

clients.py SOCKET SECONDS

A request that has to wait for the one before it has waited since the moment when it was due.
"""

import socket
import sys
import threading
import time

CLIENTS, RATE = 8, 250


def client(path, number, begin, end, took):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    due = begin + number / CLIENTS / RATE
    while due < end:
        time.sleep(max(0, due - time.monotonic()))
        connection.sendall(b"GET key:%d\r\n" % (int(due * 1e6) % 10000))
        answer = b""
        while not answer.endswith(b"\r\n"):
            answer += connection.recv(4096)
        took.append((due, 1000 * (time.monotonic() - due)))
        due += 1 / RATE


def line(name, values, what="GETs"):
    values.sort()
    p50, p99, p999 = (
        values[min(len(values) - 1, int(len(values) * part))] for part in (0.5, 0.99, 0.999)
    )
    print(
        f"{name:>9} {len(values):8} {what}   p50 {p50:5.2f}   p99 {p99:6.2f}   p99.9 {p999:6.2f}   "
        f"max {values[-1]:6.2f} ms"
    )


def main():
    path, seconds = sys.argv[1], int(sys.argv[2])
    took, begin = [], time.monotonic() + 0.1
    threads = [
        threading.Thread(target=client, args=(path, n, begin, begin + seconds, took))
        for n in range(CLIENTS)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for second in range(seconds):
        line(f"second {second + 1}", [ms for due, ms in took if second <= due - begin < second + 1])
    line("all", [ms for _, ms in took])


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Eight clients of a memcached server, each of which sets a key 250 times a second, and what they
had to wait for it; a line every two seconds, for ever. Where FILE tells how many (0: all), another
client lists so many keys, three times a second.

cache.py SOCKET FILE
"""

import os
import random
import socket
import sys
import threading
import time

from clients import CLIENTS, RATE, line

KEYS, VALUE = 60000, b"x" * 100
SECONDS, LISTS = 2, 3  # between two lines; lists of keys a second


class Connection:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)

    def ask(self, request, ends):
        """The answer, which ends as told."""
        self.socket.sendall(request)
        answer = b""
        while not answer.endswith(ends):
            answer += self.socket.recv(1 << 16)
        return answer

    def set(self, number):
        request = b"set key:%06d 0 0 %d\r\n%s\r\n" % (number, len(VALUE), VALUE)
        assert self.ask(request, b"\r\n") == b"STORED\r\n"


def client(path, number, begin, took):
    """A request that has to wait for the one before it has waited since it was due."""
    connection = Connection(path)
    due = begin + number / CLIENTS / RATE
    while True:
        time.sleep(max(0, due - time.monotonic()))
        connection.set(random.randrange(KEYS))
        took.append(1000 * (time.monotonic() - due))
        due += 1 / RATE


def dashboard(path, file):
    """Lists keys of the class of items that has the most."""
    connection = Connection(path)
    items = connection.ask(b"stats items\r\n", b"END\r\n").split(b"\r\n")
    sizes = {
        name.split(b":")[1]: int(count)
        for _, name, count in (line.split() for line in items if b":number " in line)
    }
    most = max(sizes, key=sizes.get)
    while True:
        time.sleep(1 / LISTS)
        if os.path.exists(file):
            with open(file, "rb") as many:
                request = b"stats cachedump %s %s\r\n" % (most, many.read().strip() or b"0")
            connection.ask(request, b"END\r\n")


def main():
    path, file = sys.argv[1:]
    first = Connection(path)
    for number in range(KEYS):
        first.set(number)
    took, begin = [], time.monotonic() + 0.1
    for number in range(CLIENTS):
        threading.Thread(target=client, args=(path, number, begin, took), daemon=True).start()
    threading.Thread(target=dashboard, args=(path, file), daemon=True).start()
    while True:
        time.sleep(SECONDS)
        seen = len(took)
        line("", took[:seen], "SETs")
        sys.stdout.flush()
        del took[:seen]


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads one compressed record after the other from a file, a thousand a second at most, and prints
every two seconds what each took. The file is made where it is not there.

records.py FILE
"""

import os
import random
import sys
import time
import zlib

RECORDS, WORDS = 200, 2500
ROOM = 65536  # for a record that is read
PARTS = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1))


def make(path):
    random.seed(1)
    words = ["".join(random.choices("etaoinshrdlu", k=random.randrange(2, 9))) for _ in range(999)]
    with open(f"{path}.new", "wb") as out:
        for _ in range(RECORDS):
            record = zlib.compress(" ".join(random.choices(words, k=WORDS)).encode())
            out.write(len(record).to_bytes(4, "little") + record)
    os.rename(f"{path}.new", path)


def records(path):
    """All of them, again and again."""
    with open(path, "rb") as file:
        while True:
            size = file.read(4)
            if size:
                yield file.read(int.from_bytes(size, "little"))
            else:
                file.seek(0)


def main():
    if not os.path.exists(sys.argv[1]):
        make(sys.argv[1])
    took, shown = [], time.monotonic()
    for record in records(sys.argv[1]):
        begin = time.perf_counter()
        zlib.decompress(record, bufsize=ROOM)
        took.append(1e6 * (time.perf_counter() - begin))
        time.sleep(0.0005)
        if time.monotonic() - shown >= 2:
            took.sort()
            parts = (
                f"{name} {took[min(len(took) - 1, int(len(took) * part))]:.0f}"
                for name, part in PARTS
            )
            print(f"{len(took)} records:  {'  '.join(parts)} us", flush=True)
            took, shown = [], time.monotonic()


if __name__ == "__main__":
    main()

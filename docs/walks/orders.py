#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Takes orders into a SQLite database, twenty a transaction, and prints every two seconds what its
commits took.

orders.py DATABASE [PRAGMA...]
"""

import random
import sqlite3
import sys
import time

PARTS = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("max", 1))


def main():
    db = sqlite3.connect(sys.argv[1], isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", *sys.argv[2:]):
        db.execute(f"PRAGMA {pragma}")
    db.execute(
        "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer INTEGER, token TEXT, "
        "body TEXT)"
    )
    db.execute("CREATE INDEX IF NOT EXISTS by_customer ON orders (customer)")
    took, shown = [], time.monotonic()
    while True:
        db.execute("BEGIN")
        for _ in range(20):
            db.execute(
                "INSERT INTO orders (customer, token, body) VALUES (?, ?, ?)",
                (random.randrange(5000), f"{random.random():.12f}", "x" * 200),
            )
        begin = time.perf_counter()
        db.execute("COMMIT")
        took.append(1000 * (time.perf_counter() - begin))
        time.sleep(0.001)
        if time.monotonic() - shown >= 2:
            took.sort()
            parts = (
                f"{name} {took[min(len(took) - 1, int(len(took) * part))]:.2f}"
                for name, part in PARTS
            )
            print(f"{len(took)} commits:  {'  '.join(parts)} ms", flush=True)
            took, shown = [], time.monotonic()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""
iprobe wait: FIFOs (fifo(7)), which are pipes with a path: to open one waits for its other end.
"""

import json
import os
import subprocess

from iptest import actor as actors
from test_syscall_live import live_in, traced
from test_syscall_report import play, until
from test_wait import source  # noqa: F401

__all__ = ["traced"]
ROUNDS = 6


def test_a_fifo(traced, programs):
    """To open it waits for the other end: a pipe with a path, and who opened that."""
    fifo = traced.top / "ends"
    os.mkfifo(fifo)
    target = traced.popen(
        [programs.simple("fifo_ends", placement="fentry"), fifo, "1", "alone"],
        stdin=subprocess.PIPE,
    )
    assert target.stdout.readline() == "ready\n"
    trace = traced.top / "trace"
    functions = ["-f", "opens_fifo,reads_fifo"]
    proc = traced.start_iprobe("wait", "--json", *functions, "-o", trace, target.pid)
    live_in(traced, target)
    target.stdin.write("\n")
    target.stdin.flush()
    until(lambda: waits_in(target.pid, "257"), "it does not open")
    with open(fifo, "w", encoding="ascii") as out:
        # it is looked at while it is open
        names = trace / "iprobe/descriptors"
        until(lambda: f"pipe\t{fifo}" in names.read_text(), "it is not named")
        out.write("x")
    assert target.stdout.readline() == "done\n"
    target.stdin.close()
    said = json.loads(actors.last_words(proc).stdout)
    for function in said["functions"]:
        (blocked,) = function["blocked"]
        assert (blocked["kind"], blocked["object"]) == ("pipe", str(fifo)), function
        assert blocked["by"][0]["tid"] == os.getpid()
    assert {f["function"] for f in said["functions"]} == {"opens_fifo", "reads_fifo"}


def waits_in(pid, number):
    with open(f"/proc/{pid}/syscall", encoding="ascii") as f:
        return f.read().split()[0] == number


def test_both_ends_of_a_fifo(traced, programs):
    """Opens that are too short to be named."""
    fifo = traced.top / "ends"
    os.mkfifo(fifo)
    target = traced.popen(
        [programs.simple("fifo_ends", placement="fentry"), fifo, str(ROUNDS)],
        stdin=subprocess.PIPE,
    )
    assert target.stdout.readline() == "ready\n"
    proc = traced.start_iprobe("wait", "--json", "-f", "opens_fifo,end_opens", target.pid)
    live_in(traced, target)
    play(target)
    said = json.loads(actors.last_words(proc).stdout)
    (row,) = (f for f in said["functions"] if f["function"] == "opens_fifo")
    assert row["calls"] == ROUNDS
    assert {b["kind"] for b in row["blocked"]} == {"pipe"}, row
    assert {b["by"][0]["function"] for b in row["blocked"]} == {"end_opens"}, row

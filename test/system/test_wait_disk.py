# SPDX-License-Identifier: Apache-2.0
"""iprobe wait: functions that wait for a disk (test/programs/disk_waits.c). They read a file that is
not in memory, or touch pages of it, or pages that are in swap. What iprobe says is compared with the
clock of the program, and with what the kernel counts for it.
"""

import json
import os
import shutil
import subprocess

import pytest

from iptest import actor as actors
from test_wait import blocked, row, skip_without_events, stolen_ns

ROUNDS = 4
# function: kind, the object's name, whether the kernel counts each wait as a page fault
WAITS = {
    "on_read": ("file", "{file}", False),
    "on_direct_read": ("file", "{file}", False),
    "on_mapped_file": ("fault", "0x", True),
    "on_swap": ("fault", "&swapped", True),
}
# of a wait: two switches, and what the machine below does to bring the CPU back
WAIT_NS = 20e3


def run(*words):
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return subprocess.run(
        words,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


class Swap:
    """A file that is swap of the machine meanwhile, as far as it lets us; used before any other."""

    def __init__(self, path):
        self.path, self.missing = path, None
        path.touch(0o600)
        path.write_bytes(bytes(8 << 20))
        for words in (["mkswap", path], ["swapon", "-p", "32767", path]):
            done = run(*words) if shutil.which(words[0], path="/usr/sbin:/sbin:/usr/bin") else None
            if not done or done.returncode:
                self.missing = done.stderr.strip() if done else f"there is no {words[0]}"
                break

    def end(self):
        if not self.missing:
            done = run("swapoff", self.path)
            assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=["tracefs", "perf"])
def planted(request, top, builddir, programs):
    """One run of the program, the truth of it, and what iprobe says."""
    if os.getuid() != 0:
        pytest.skip("not root")
    actor = actors.Actor("root", 0, top, builddir)
    skip_without_events(actor, request.param)
    folder, stolen = actor.dir(), stolen_ns()
    swap = Swap(folder / "swap")
    try:
        done = actor.iprobe(
            *("run", "-q", "--kernel", "--kernel-buffer", "64M", "-o", folder / "trace"),
            *("--kernel-source", request.param, "--"),
            *(programs.simple("disk_waits", placement="fentry"), ROUNDS, folder / "file"),
            timeout=120,
        )
    finally:
        swap.end()
    assert done.returncode == 0, repr(done)
    # it is told in ticks
    stolen = stolen_ns() - stolen + 1e9 / os.sysconf("SC_CLK_TCK")
    truth = {
        line.split()[0]: [int(word) for word in line.split()[1:]]
        for line in done.stdout.splitlines()
    }
    said = actor.iprobe("wait", "--json", folder / "trace")
    assert said.returncode == 0, repr(said)
    yield truth, json.loads(said.stdout), {"file": folder / "file"}, stolen, swap.missing
    actor.cleanup()


@pytest.mark.parametrize("function", sorted(WAITS))
def test_each_wait_is_named(planted, function):
    truth, document, values, stolen, missing = planted
    if function == "on_swap" and missing:
        pytest.skip(f"no swap can be had here: {missing}")
    if function not in truth or not truth[function][5]:
        pytest.skip("this file system reads nothing from a disk")
    kind, name, is_fault = WAITS[function]
    name = name.format(**values)
    calls, least, least_cpu, most, most_cpu, _, faults = truth[function]
    said = row(document, function)
    assert said["calls"] == calls == ROUNDS
    assert least - 1e3 <= said["elapsed_ns"] <= most + 1e3, (said, truth[function])
    assert said["unknown_ns"] == 0, said
    named = [b for b in said["blocked"] if b["kind"] == kind and b["object"].startswith(name)]
    assert sum(b["ns"] for b in named) > 0.99 * blocked(said) > 0, said
    if not is_fault:
        assert len(named) == 1 and named[0]["object"] == name, said
    # a page may have come before it was waited for; a page is touched once
    waits = sum(b["count"] for b in named)
    assert is_fault == (faults > 0)
    assert waits and (not is_fault or waits <= 1.1 * faults), (said, faults)
    off = said["runqueue_ns"] + blocked(said)
    near = 10e3 * calls + WAIT_NS * waits + stolen
    assert least - least_cpu - near < off < most - most_cpu + near, (said, truth[function])

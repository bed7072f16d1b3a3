# SPDX-License-Identifier: Apache-2.0
"""uprobes that come and go at a site of a target (test/programs/uprobe.c), and sites as
/proc/PID/mem shows them.
"""

import json

import pytest

from . import actor as actors
from . import memory

TRAP = 0xCC


class Site:
    """One probe of a program, or of a library, that is mapped in a process."""

    def __init__(self, actor, target, function, kind="entry", module=None):
        self.module = module or target.program
        done = actor.iprobe("list", self.module, "-f", function, "--json")
        assert done.returncode == 0, repr(done)
        probe = next(
            p for p in json.loads(done.stdout)["modules"][0]["probes"] if p["kind"] == kind
        )
        self.pid, self.length, self.offset = target.pid, probe["length"], probe["offset"]
        self.address = memory.segment_bias(target.pid, self.module) + self.offset

        # text is at the same offset in memory and in the file where programs are linked as they are
        # here
        with open(self.module, "rb") as file:
            file.seek(self.offset)
            self.idle = file.read(self.length)

    def bytes(self):
        return memory.read_memory(self.pid, self.address, self.length)

    def write(self, data):
        memory.write_memory(self.pid, self.address, data)

    def is_idle(self):
        return self.bytes() == self.idle

    def is_live(self):
        return self.bytes()[0] in (0xE8, 0xE9) and not self.is_idle()


class Uprobe:
    """A uprobe at a site, there or not; `toggle()` returns when the kernel has done it."""

    def __init__(self, who, programs, target, site):
        self.proc = who.popen(
            [programs.simple("uprobe", prepared=False), site.module, hex(site.offset), target.pid]
        )
        if self.proc.stdout.readline() != "ready\n":
            pytest.skip("the kernel has no uprobes for perf")

    def toggle(self):
        self.proc.stdin.write("\n")
        self.proc.stdin.flush()
        line = self.proc.stdout.readline()
        if not line:
            pytest.skip(f"no uprobe can be set: {self.proc.stderr.read().strip()}")
        return line.strip()

    def end(self):
        actors.end(self.proc)

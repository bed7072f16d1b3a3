# SPDX-License-Identifier: Apache-2.0
"""What the documents say of a process that was recorded: what stays in it, how much, and what a
kernel may forbid.
"""

import os
import re
import shutil

import pytest

from iptest import memory
from iptest.actor import one_line


def size_mib(pid):
    status = open(f"/proc/{pid}/status", encoding="ascii").read()
    return int(re.search(r"VmSize:\s+(\d+) kB", status)[1]) / 1024


def descriptors(pid):
    return {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}


def stays(pid, before):
    """{what: MiB} of the mappings that are new."""
    found = {}
    for line in open(f"/proc/{pid}/maps", encoding="utf-8"):
        if line not in before:
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            what = "window" if "memfd:iprobe" in line else "rest"
            found[what] = found.get(what, 0) + (end - start) / 2**20
    return found


def test_what_stays_is_what_is_told(root, programs, targets):
    """Address space and descriptors as docs/limits.md, README.md and iprobe-detach(1) say; no more
    with each session.
    """
    top = memory.__file__.rpartition("/test/")[0]
    limits = open(f"{top}/docs/limits.md", encoding="utf-8").read()
    said = int(re.search(r"(\d+) MiB of address space", limits)[1])
    readme = open(f"{top}/README.md", encoding="utf-8").read()
    assert int(re.search(r"(\d+) MiB of address space", readme)[1]) == said
    detach = open(f"{top}/docs/man/iprobe-detach.1.rst", encoding="utf-8").read()
    window = int(re.search(r"window\s+of\s+(\d+)\s+MiB", detach)[1])
    for page in ("iprobe-attach.1", "iprobe-concepts.7"):
        text = open(f"{top}/docs/man/{page}.rst", encoding="utf-8").read()
        assert int(re.search(r"runtime\s+stays[,:]\s+(\d+)\s+MiB", text)[1]) == said, page
    removed = float(re.search(r"([\d.]+) MiB\s+after `iprobe detach --remove`", limits)[1])
    target = targets.steady(root, programs.simple("steady"), preload=False)
    fds, size = descriptors(target.pid), size_mib(target.pid)
    maps = set(open(f"/proc/{target.pid}/maps", encoding="utf-8"))
    grown = []
    for _ in range(2):
        done = root.iprobe(
            "attach",
            target.pid,
            "-q",
            "-f",
            "step_1*",
            "--duration",
            "30ms",
            "-o",
            root.dir() / "trace",
        )
        assert done.returncode == 0, repr(done)
        grown.append(
            (
                size_mib(target.pid) - size,
                sorted(set(descriptors(target.pid).items()) - set(fds.items())),
            )
        )
    assert grown[0] == grown[1]
    assert abs(grown[0][0] - said) < 5, grown
    assert not grown[0][1], "a privileged process keeps no descriptor"
    assert abs(stays(target.pid, maps)["window"] - window) < 5
    assert root.iprobe("detach", "--remove", target.pid).returncode == 0
    assert abs(size_mib(target.pid) - size - removed) < 0.3, size_mib(target.pid) - size
    memory.assert_untouched(target.pid)
    target.wait_for_progress()
    target.finish()


def test_a_kernel_that_forbids_writes(root, programs, targets):
    """proc_mem.force_override=never, as far as programs see: refused with the reason, and the
    process is as it was.
    """
    if not shutil.which("strace"):
        pytest.skip("no strace")
    refuse = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=pwrite64",
        "-e",
        "inject=pwrite64:error=EIO",
    ]
    done = root.run([*refuse, root.iprobe_path, "doctor"])
    assert "proc_mem.force_override" in done.stdout + done.stderr and done.returncode == 1, repr(
        done
    )
    target = targets.steady(root, programs.simple("steady"))
    done = root.run(
        [
            *refuse,
            "-P",
            f"/proc/{target.pid}/mem",
            root.iprobe_path,
            "attach",
            target.pid,
            "--duration",
            "30ms",
            "-o",
            root.dir() / "trace",
        ]
    )
    assert "cannot write" in one_line(done), repr(done)
    memory.assert_untouched(target.pid)
    target.wait_for_progress()
    target.finish()


def test_doctor_tells_of_executable_memory(me):
    assert "executable memory" in me.iprobe("doctor").stdout

# SPDX-License-Identifier: Apache-2.0
"""Files that a target names: nothing but a regular file is opened, and nothing outside of the
target's root is looked up.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import time

import pytest

from iptest import actor as actors

SOURCE = (
    "__attribute__((noinline)) int work(int n) { return n + 1; }\nint main(void) { volatile int n "
    "= 0; for (;;) { n = work(n); "
    "__builtin_ia32_pause(); } }\n"
)


@pytest.fixture
def shipped(me):
    """A static program without its probe list, which lies beside it."""
    folder = me.dir()
    (folder / "w.c").write_text(SOURCE.replace("__builtin_ia32_pause();", "usleep(1000);"))
    done = me.run(
        [
            me.builddir / "coldpatch" / "iprobe-cc",
            "-static",
            "-O1",
            "-g",
            "-include",
            "unistd.h",
            folder / "w.c",
            "-o",
            folder / "plain",
        ]
    )
    assert done.returncode == 0, repr(done)
    (folder / "at").mkdir()
    done = me.run(
        [
            me.builddir / "coldpatch" / "coldpatch",
            "--strip",
            "--list",
            folder / "w.list",
            "-o",
            folder / "at" / "w",
            folder / "plain",
        ]
    )
    assert done.returncode == 0, repr(done)
    return folder


def listed(me, pid, *before):
    """iprobe list, and the names of functions."""
    done = me.run([*before, me.iprobe_path, "list", "--json", pid], timeout=20)
    names = []
    for module in json.loads(done.stdout)["modules"] if done.returncode == 0 else []:
        names += [probe["function"] for probe in module["probes"]]
    return done, names


def opened(log, path):
    """Lines in which the file was opened for more than being looked at."""
    return [
        line
        for line in log.read_text().splitlines()
        if re.search(rf"(open|openat|openat2)\(.*{re.escape(str(path))}", line)
        and "O_PATH" not in line
        and " = -1" not in line
    ]


@pytest.mark.parametrize(
    "kind",
    ["fifo", "directory", "device", "link to a device", "link to a fifo", "sparse", "socket"],
)
def test_what_lies_where_a_list_is_looked_for(me, shipped, kind):
    beside = shipped / "at" / "w.probes"
    other = shipped / "other"
    real = "/dev/zero"
    if kind in ("fifo", "link to a fifo"):
        os.mkfifo(beside if kind == "fifo" else other)
        real = beside if kind == "fifo" else other
        if kind != "fifo":
            beside.symlink_to(other)
    elif kind == "directory":
        beside.mkdir()
        real = beside
    elif kind == "device":
        done = subprocess.run(["mknod", beside, "c", "1", "5"], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("no device can be made here")
        real = beside
    elif kind == "link to a device":
        beside.symlink_to("/dev/zero")
    elif kind == "sparse":
        with open(beside, "wb") as f:
            f.truncate(1 << 42)
        real = beside
    else:
        here = os.getcwd()
        os.chdir(beside.parent)
        with socket.socket(socket.AF_UNIX) as s:
            s.bind("w.probes")
        os.chdir(here)
        real = beside
    proc = me.popen([shipped / "at" / "w"])
    log = shipped / "log"
    done, names = listed(
        me, proc.pid, "strace", "-f", "-y", "-qq", "-o", log, "-e", "trace=open,openat,openat2"
    )
    assert "work" not in names and "Traceback" not in done.stderr
    if kind != "sparse":
        assert opened(log, real) == [] and opened(log, beside) == []
    actors.end(proc)


def test_links_lead_to_where_the_target_sees_them(me, shipped):
    """In a root of its own: an absolute link is the target's, "..", too, and nothing of ours is
    found by it.
    """
    if os.getuid():
        pytest.skip("not root")
    box = shipped / "box"
    (box / "in").mkdir(parents=True)
    shutil.copy(shipped / "at" / "w", box / "in" / "w")
    inside, outside = box / "lists" / "w.list", shipped / "lists" / "w.list"
    for path in (inside, outside):
        path.parent.mkdir()
    code = "import os, sys; os.chroot(sys.argv[1]); os.chdir('/'); os.execv('/in/w', ['w'])"
    beside = box / "in" / "w.probes"
    for link, target in (
        ("/lists/w.list", inside),
        (str(outside), None),
        ("../../lists/w.list", inside),
        ("/../../../lists/w.list", inside),
        (f"../../../../../../../..{outside}", None),
    ):
        for path in (inside, outside):
            path.unlink(missing_ok=True)
        beside.unlink(missing_ok=True)
        shutil.copy(shipped / "w.list", target or outside)
        beside.symlink_to(link)
        proc = me.popen(["/usr/bin/python3", "-c", code, box])
        for _ in range(200):
            if os.readlink(f"/proc/{proc.pid}/exe").endswith("/in/w"):
                break

            time.sleep(0.02)
        done, names = listed(me, proc.pid)
        assert ("work" in names) == (target is not None), (link, repr(done))
        actors.end(proc)


def test_a_debug_file_that_is_a_fifo(me, programs, targets):
    """Arguments need debug information, which the module's link may lead anywhere for."""
    folder = me.dir()
    program = folder / "program"
    shutil.copy(programs.simple("steady", placement="fentry", extra=("-g",)), program)
    subprocess.run(["objcopy", "--only-keep-debug", program, folder / "program.debug"], check=True)
    stripped = folder / "stripped"
    subprocess.run(
        [
            "objcopy",
            "--strip-debug",
            f"--add-gnu-debuglink={folder / 'program.debug'}",
            program,
            stripped,
        ],
        check=True,
    )
    (folder / "program.debug").unlink()
    os.mkfifo(folder / "program.debug")
    (folder / ".debug").mkdir()
    os.mkfifo(folder / ".debug" / "program.debug")
    if os.getuid() != me.uid:
        shutil.chown(folder, me.uid)
    target = targets.steady(me, stripped)
    done = me.iprobe(
        "attach", "--args", "--duration", "50ms", "-o", folder / "trace", target.pid, timeout=20
    )
    assert done.returncode in (0, 1), repr(done)
    assert target.alive()
    target.finish()


def test_without_openat2_nothing_is_looked_up(me, shipped):
    """A kernel or a filter that refuses it: no list, and no open by the plain path instead."""
    shutil.copy(shipped / "w.list", shipped / "at" / "w.probes")
    proc = me.popen([shipped / "at" / "w"])
    log = shipped / "log"
    done, names = listed(me, proc.pid)
    assert "work" in names, repr(done)
    for error in ("ENOSYS", "EPERM"):
        done, names = listed(
            me,
            proc.pid,
            "strace",
            "-qq",
            "-f",
            "-y",
            "-o",
            log,
            "-e",
            "trace=open,openat,openat2",
            "-e",
            f"inject=openat2:error={error}",
        )
        assert "work" not in names
        assert opened(log, shipped / "at" / "w.probes") == []
    actors.end(proc)

# SPDX-License-Identifier: Apache-2.0
"""Probe lists in separate debug information, where a package of debug symbols has it: found by
build-id and by debug link, checked as any other, and nothing else of what lies there is touched.
"""

import json
import os
import re
import shutil
import subprocess

import pytest

from iptest import actor as actors

SOURCE = """
#include <unistd.h>
__attribute__((noinline)) int work(int n) { __asm__ volatile("" : "+r"(n)); return n + STEP; }
int main(void) { int n = 0; write(1, "ready\\n", 6); for (;;) { n = work(n); usleep(1000); } }
"""


def tool(me, *args, cwd=None):
    done = me.run(args, **({"cwd": cwd} if cwd else {}))
    assert done.returncode == 0, repr(done)


def build(me, folder, step=1):
    """w, without its list, and what was split off: w.debug."""
    (folder / "w.c").write_text(SOURCE, encoding="ascii")
    tool(
        me,
        *(me.builddir / "coldpatch" / "iprobe-cc", "-static", "-O1", "-g", f"-DSTEP={step}"),
        *(folder / "w.c", "-o", folder / "w"),
    )
    tool(me, "objcopy", "--only-keep-debug", folder / "w", folder / "w.debug")
    tool(me, "objcopy", "-R", ".iprobe.probes", "--strip-all", folder / "w")


@pytest.fixture
def split(me):
    folder = me.dir()
    build(me, folder)
    return folder


def build_id(path):
    text = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True)
    return re.search(r"Build ID: (\w+)", text.stdout)[1]


def by_id(folder, path):
    """The place of a module's debug information below a folder as /usr/lib/debug is."""
    name = build_id(path)
    place = folder / ".build-id" / name[:2] / f"{name[2:]}.debug"
    place.parent.mkdir(parents=True)
    return place


def functions(done):
    """Those of iprobe list --json."""
    assert done.returncode == 0, repr(done)
    return {p["function"] for m in json.loads(done.stdout)["modules"] for p in m["probes"]}


def refused(done, *words):
    line = actors.one_line(done)
    assert done.returncode == 1 and all(word in line for word in words), repr(done)


def link(me, folder):
    tool(me, "objcopy", "--add-gnu-debuglink=w.debug", "w", cwd=folder)


@pytest.mark.parametrize("how", ["file", "directory", "variable", "beside", ".debug"])
def test_it_is_found(me, split, how):
    """And a process is recorded by it."""
    options, env = [], {}
    if how == "file":
        options = ["--list", split / "w.debug"]
    elif how in ("directory", "variable"):
        (split / "w.debug").rename(by_id(split / "lib", split / "w"))
        options = ["--list", split / "lib"] if how == "directory" else []
        env = {} if options else {"IPROBE_LIST_PATH": f":{split / 'none'}::{split / 'lib'}"}
    else:
        link(me, split)
        if how == ".debug":
            (split / ".debug").mkdir()
            (split / "w.debug").rename(split / ".debug" / "w.debug")
    found = functions(me.iprobe("list", "--json", *options, split / "w", env=env))
    assert {"work", "main"} <= found
    proc = me.popen([split / "w"])
    assert proc.stdout.readline() == "ready\n"
    trace = me.dir() / "trace"
    done = me.iprobe(
        *("attach", proc.pid, "-f", "work", "--args", "--duration", "200ms", "--json"),
        *("-o", trace),
        *options,
        env=env,
    )
    assert done.returncode == 0 and done.summary()["events"] > 20, repr(done)
    shown = json.loads(me.iprobe("report", "--json", trace).stdout)["functions"]
    assert [f["function"] for f in shown] == ["work"]
    assert "work(n=" in me.iprobe("dump", trace).stdout
    status = me.iprobe("status", "--json", proc.pid, *options, env=env)
    assert json.loads(status.stdout)["patched"] == 0, repr(status)
    actors.end(proc)


def test_none_is_found_where_there_is_none(me, split):
    """One line, which says what to do."""
    for args in (split / "w",), (split / "w", "--list", split / "nowhere"):
        done = me.iprobe("list", *args)
        refused(done, "No such file" if len(args) > 1 else "install its debug symbols")
    tool(me, "objcopy", "-R", ".iprobe.probes", split / "w.debug")
    refused(me.iprobe("list", split / "w", "--list", split / "w.debug"), "has no probe list in it")


def test_that_of_another_build_is_refused(me, split):
    other = me.dir()
    build(me, other, 2)
    link(me, split)
    shutil.copy(other / "w.debug", split / "w.debug")
    ids = build_id(split / "w"), build_id(other / "w")
    refused(me.iprobe("list", split / "w"), *ids, "debugedit -i", "docs/package-builds.md")
    shutil.copy(other / "w.debug", by_id(split / "lib", split / "w"))
    refused(me.iprobe("list", split / "w", "--list", split / "lib"), *ids)
    (split / "w.debug").unlink()
    # named by its file, it is that of no module here
    done = me.iprobe("list", split / "w", "--list", other / "w.debug")
    refused(done, ids[1], "none of the modules has")


def test_a_list_that_lies_is_refused(me, split):
    """The bytes at its sites decide, as with any list."""
    data = (split / "w.debug").read_bytes()
    at = data.index(b"iprobePL")
    place = at + int.from_bytes(data[at + 40 : at + 48], "little")  # ip_pl_header.probes_offset
    site = int.from_bytes(data[place : place + 8], "little")
    lied = data[:place] + (site + 1).to_bytes(8, "little") + data[place + 8 :]
    (split / "w.debug").write_bytes(lied)
    proc = me.popen([split / "w"])
    assert proc.stdout.readline() == "ready\n"
    done = me.iprobe("attach", proc.pid, "--list", split / "w.debug", "--duration", "100ms")
    refused(done, f"{site + 1:#x}")
    actors.end(proc)


@pytest.mark.parametrize("kind", ["fifo", "directory", "device", "sparse", "noise", "cut"])
def test_what_lies_there_instead(me, split, kind):
    """It is no list, and what is no regular file is not opened."""
    link(me, split)
    place = split / "w.debug"
    data = place.read_bytes()
    place.unlink()
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "directory":
        place.mkdir()
    elif kind == "device":
        place.symlink_to("/dev/zero")
    elif kind == "sparse":
        with open(place, "wb") as f:
            f.truncate(1 << 42)
    else:
        place.write_bytes(os.urandom(5000) if kind == "noise" else data[: len(data) // 2])
    log = split / "log"
    done = me.run(
        [
            *("strace", "-y", "-qq", "-o", log, "-e", "trace=open,openat,openat2"),
            *(me.iprobe_path, "list", split / "w"),
        ],
        timeout=20,
    )
    refused(done, "no probe list", "install its debug symbols")
    if kind in ("fifo", "directory", "device"):
        for line in log.read_text().splitlines():
            real = "/dev/zero" if kind == "device" else str(place)
            assert real not in line or "O_PATH" in line or " = -1" in line, line


def test_a_debug_link_leads_nowhere_else(me, split):
    """A name with a slash in it is no name of a file."""
    (split / "a").mkdir()
    (split / "w.debug").rename(split / "a" / "w.debug")
    (split / "link").write_bytes(b"a/w.debug\0\0\0" + bytes(4))
    tool(me, "objcopy", f"--add-section=.gnu_debuglink={split / 'link'}", split / "w")
    refused(me.iprobe("list", split / "w"), "no probe list")
    (split / "link").write_bytes(b"w" * 300)  # it does not end
    tool(me, "objcopy", f"--update-section=.gnu_debuglink={split / 'link'}", split / "w")
    refused(me.iprobe("list", split / "w"), "no probe list")


def test_in_a_root_of_its_own(root, split):
    """A process in a container has the packages of its container."""
    place = split / "root"
    (place / "usr" / "lib" / "debug").mkdir(parents=True)
    shutil.copy(split / "w", place / "w")
    (split / "w.debug").rename(by_id(place / "usr" / "lib" / "debug", place / "w"))
    proc = root.popen(["chroot", place, "/w"])
    assert proc.stdout.readline() == "ready\n"
    assert "work" in functions(root.iprobe("list", "--json", proc.pid))
    actors.end(proc)

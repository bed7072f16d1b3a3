# SPDX-License-Identifier: Apache-2.0
"""Unwinding works at every instruction of stubs and hooks, as it does at those of the functions
that have the sites.
"""

import contextlib
import json
import re
import shutil
import signal
import subprocess

import pytest

from iptest import actor as actors
from iptest import memory

# Where the stubs lie: in the module's own room, or, where it has none, in the runtime.
ROOMS = ["own room", "pool"]

SITES = 20  # of unwind_sites.c
STUB_PLACES = 48  # instructions of their stubs, at least


@pytest.fixture(scope="module", params=ROOMS)
def folder(request, programs, builddir):
    """A program and its library; the functions of the library have hand-written sites."""
    sources, out = programs.source, programs.folder("unwinding", request.param.replace(" ", "-"))
    library = out / "libunwind_sites.so"
    cc = builddir / "coldpatch" / "iprobe-cc" if request.param == "own room" else "gcc"
    for command in (
        [cc, "-O2", "-g", "-fPIC", "-shared", sources / "unwind_sites.c", "-o", library],
        [builddir / "coldpatch" / "coldpatch", library],
        [
            "gcc",
            "-O2",
            "-g",
            sources / "unwind_steps.c",
            "-o",
            out / "unwind_steps",
            f"-L{out}",
            "-lunwind_sites",
            "-Wl,-rpath,$ORIGIN",
        ],
    ):
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return out


@pytest.fixture(scope="module")
def outside(programs):
    """The program that unwinds another process."""
    path = programs.folder("unwinding-outside") / "unwind_outside"
    done = subprocess.run(
        [
            "gcc",
            "-O2",
            programs.source / "unwind_outside.c",
            "-o",
            path,
            "-ldw",
            "-lunwind-ptrace",
            "-lunwind-generic",
            "-lunwind",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return path


@contextlib.contextmanager
def attached(actor, pid, *options):
    """All probes of a process are live."""
    proc = actor.start_iprobe("attach", pid, *options, "-o", actor.dir() / "trace")

    def is_live():
        assert proc.poll() is None, proc.communicate()
        return (
            json.loads(actor.iprobe("status", "--json", pid).stdout or "{}").get("patched", 0)
            >= SITES
        )

    memory.wait_for("the probes do not go live", is_live, 30, 0.05)
    yield
    proc.send_signal(signal.SIGINT)
    done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)


def test_libgcc_at_every_instruction(me, folder):
    """In the process itself, through a signal frame: backtraces, exceptions and cancellation
    start so.
    """
    trace = me.dir() / "trace"
    done = me.iprobe("run", "--json", "-o", trace, "--", folder / "unwind_steps")
    assert done.returncode == 0, repr(done)
    steps, outside, places = map(
        int, re.search(r"(\d+) steps, (\d+) outside, (\d+) places", done.stdout).groups()
    )
    # twelve hooks, each on its fast and its slow way, and the C behind them
    assert steps > outside > 2000 and places > 700, done.stdout
    summary = done.summary()
    assert summary["sites"] == SITES and summary["lost"] == 0


def test_hooks_that_record_call_sites(me, folder):
    """The same where entries have call sites, which the hooks write in line."""
    trace = me.dir() / "sites"
    done = me.iprobe("run", "--json", "--callsite", "-o", trace, "--", folder / "unwind_steps")
    assert done.returncode == 0, repr(done)
    steps, outside, places = map(
        int, re.search(r"(\d+) steps, (\d+) outside, (\d+) places", done.stdout).groups()
    )
    assert steps > outside > 2000 and places > 700, done.stdout
    summary = done.summary()
    assert summary["sites"] == SITES and summary["lost"] == 0


def test_hooks_of_library_calls(me, folder):
    """The same where calls by the PLT are recorded."""
    trace = me.dir() / "plt"
    done = me.iprobe(
        "run", "--json", "--plt", "-f", "getppid", "-o", trace, "--", folder / "unwind_steps"
    )
    assert done.returncode == 0, repr(done)
    steps, outside, places = map(
        int, re.search(r"(\d+) steps, (\d+) outside, (\d+) places", done.stdout).groups()
    )
    # a stub, and a hook on its fast and its slow way, and the C behind it
    assert steps > outside > 100 and places > 80, done.stdout
    summary = done.summary()
    assert summary["sites"] == 1 and summary["lost"] == 0 and summary["events"] > 2


def test_idle_sites_leave_no_trace(me, folder):
    """The control: nothing but the program's own code runs."""
    done = me.run([folder / "unwind_steps", 2])
    assert done.returncode == 0, repr(done)
    assert re.search(r"\d+ steps, 0 outside, 0 places", done.stdout), done.stdout


@pytest.mark.parametrize("options", [[], ["--plt"]], ids=["own", "plt"])
def test_from_outside(me, targets, folder, outside, options):
    """libdw and libunwind, in a process whose probes are live."""
    target = targets.start(me, [folder / "unwind_steps", "wait"])
    with attached(me, target.pid, *options):
        done = me.run([outside, target.pid, 4000, STUB_PLACES], timeout=180)
    assert done.returncode == 0, repr(done)
    places, stubs = map(int, re.search(r"(\d+) places, (\d+) in stubs", done.stdout).groups())
    assert places > 300 and stubs >= STUB_PLACES, done.stdout
    target.finish()


GDB = """
import gdb
gdb.execute("set pagination off")
wanted = ["middle", "outer", "main"]
probed = {"first_entry", "last_return", "tail_jump", "tail_return", "tail_return_6", "own_return",
          "own_jump", "call_entry", "call_exit_6", "all_entry", "all_exit_6", "jumping_entry", "jumping_exit_6"}
unwound = 0
step = 0
names = [""]
while step < %d or names[0] != "middle":
    step += 1
    gdb.execute("stepi", to_string=True)
    frame, names = gdb.newest_frame(), []
    while frame and len(names) < 20:
        if frame.type() != gdb.INLINE_FRAME:
            names.append(frame.name())
        frame = frame.older()
    where = gdb.solib_name(gdb.newest_frame().pc()) or ""
    if names[0] in ("middle", "middle@plt", "poll@plt", "outer", "main") or "/libc." in where or "/ld-" in where:
        continue
    rest = names[:]
    while rest and rest[0] not in probed and rest[0] != "middle":
        rest.pop(0)
    while rest and rest[0] in probed:
        rest.pop(0)
    if rest[:3] != wanted or len(names) - len(rest) > 5:
        print("WRONG at %%#x: %%s" %% (gdb.newest_frame().pc(), names))
        break
    unwound += 1
print("unwound", unwound)
# a popf has found the trap flag that a pushf that was stepped over has put on the stack
gdb.execute("set $eflags = $eflags & ~0x100")
"""


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is not installed")
@pytest.mark.parametrize("options", [[], ["--plt"]], ids=["own", "plt"])
def test_gdb(me, targets, folder, options):
    """gdb unwinds from stubs and hooks."""
    script = me.dir() / "unwind.py"
    script.write_text(GDB % 600)
    target = targets.start(me, [folder / "unwind_steps", "wait"])
    with attached(me, target.pid, *options):
        done = me.run(["gdb", "-batch", "-nx", "-p", target.pid, "-x", script], timeout=180)
    assert "WRONG" not in done.stdout, done.stdout
    assert int(re.search(r"unwound (\d+)", done.stdout)[1]) > 200, repr(done)
    target.finish()

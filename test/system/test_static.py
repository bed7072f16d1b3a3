# SPDX-License-Identifier: Apache-2.0
"""Static executables: the runtime is linked in and sleeps; run, attach, status and detach work
as on any other. Rooms for stubs.
"""

import json
import re
import shutil
import struct
import subprocess

import pytest

from iptest import memory

KNOWN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int once;
__attribute__((constructor)) static void before(void) { once = 1; }
__attribute__((noinline)) int leaf(int n) { __asm__ volatile("" : "+r"(n)); return n + once; }
__attribute__((noinline)) int down(int n)
{
	int rest = n ? down(n - 1) : 0;
	__asm__ volatile("" : "+r"(rest)); /* no loop */
	return n ? leaf(n) + rest : 0;
}
int main(void)
{
	char text[64];
	int sum = 0;
	for (int i = 0; i < 50; i++) sum += down(20);
	snprintf(text, sizeof(text), "%d", sum);
	puts(text);
	return strcmp(text, "11500") != 0;
}
"""
CALLS = {"before": 1, "main": 1, "leaf": 1000, "down": 1050}

WAYS = [
    ("instrument", "-static"),
    ("instrument", "-static-pie"),
    ("fentry", "-static"),
    ("fentry", "-static-pie"),
    ("inline", "-static-pie"),
]


def build(actor, folder, placement, *flags, source=KNOWN, name="program"):
    path = folder / "known.c"
    path.write_text(source)
    done = actor.run(
        [actor.builddir / "coldpatch" / "iprobe-cc", "-O2", *flags, path, "-o", folder / name],
        env={"IPROBE_PLACEMENT": placement},
    )
    assert (done.returncode, done.stderr) == (0, ""), repr(done)
    return folder / name


def calls_in(actor, directory):
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    return {f["function"]: f["calls"] for f in json.loads(done.stdout)["functions"]}


@pytest.mark.parametrize("placement, link", WAYS, ids=lambda w: w.strip("-"))
def test_run(me, placement, link):
    folder = me.dir()
    program = build(me, folder, placement, link)
    done = me.iprobe("run", "--json", "-o", folder / "trace", "--", program)
    assert done.returncode == 0, repr(done)
    assert done.stdout.startswith("11500\n")
    assert done.summary()["lost"] == 0
    found = calls_in(me, folder / "trace")
    assert {name: found.get(name) for name in CALLS} == CALLS


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_linkers(me, linker):
    if not shutil.which(f"ld.{linker}"):
        pytest.skip(f"no ld.{linker}")
    folder = me.dir()
    program = build(
        me,
        folder,
        "fentry",
        "-static",
        f"-fuse-ld={linker}",
        "-Wl,--gc-sections",
        "-ffunction-sections",
    )
    done = me.iprobe("run", "-o", folder / "trace", "--", program)
    assert done.returncode == 0, repr(done)
    assert calls_in(me, folder / "trace")["leaf"] == 1000


THROWS = """
#include <cstdio>
#include <stdexcept>
#include <string>
struct Guard { int &n; ~Guard() { n++; } };
__attribute__((noinline)) int risky(int n, int &left) { Guard g{left}; if (n % 3 == 0) throw std::runtime_error(std::to_string(n)); return n; }
__attribute__((noinline)) int careful(int n, int &left) { try { return risky(n, left); } catch (std::exception &e) { return 1000; } }
int main() { int s = 0, left = 0; for (int i = 0; i < 300; i++) s += careful(i, left); std::printf("%d %d\\n", s, left); return 0; }
"""


@pytest.mark.parametrize("placement", ["instrument", "fentry", "inline"])
def test_exceptions(me, placement):
    folder = me.dir()
    (folder / "throws.cc").write_text(THROWS)
    done = me.run(
        [
            me.builddir / "coldpatch" / "iprobe-c++",
            "-O2",
            "-static",
            folder / "throws.cc",
            "-o",
            folder / "throws",
        ],
        env={"IPROBE_PLACEMENT": placement},
    )
    assert (done.returncode, done.stderr) == (0, ""), repr(done)
    assert me.run([folder / "throws"]).stdout == "130000 300\n"
    done = me.iprobe(
        "run", "-o", folder / "trace", "-f", "risky,careful,main", "--", folder / "throws"
    )
    assert done.returncode == 0 and done.stdout == "130000 300\n", repr(done)
    found = {name.split("(")[0]: n for name, n in calls_in(me, folder / "trace").items()}
    assert (found["risky"], found["careful"]) == (300, 300), found


def system_calls(actor, program, log):
    done = actor.run(["strace", "-o", log, program])
    assert done.returncode == 0, repr(done)
    return re.findall(r"^(\w+)\(", log.read_text(errors="replace"), re.M)


@pytest.mark.parametrize("link", ["-static", "-static-pie"])
def test_untraced_it_does_nothing(me, link):
    """The same system calls as of the plain compiler's program, whose name has the same length."""
    folder, plain = me.dir(), me.dir()
    program = build(me, folder, "fentry", link)
    (plain / "known.c").write_text(KNOWN)
    subprocess.run(["gcc", "-O2", link, plain / "known.c", "-o", plain / "program"], check=True)
    assert system_calls(me, program, folder / "log") == system_calls(
        me, plain / "program", folder / "log"
    )


@pytest.mark.parametrize("placement, link", WAYS[1:3], ids=lambda w: w.strip("-"))
def test_attach(actor, programs, targets, placement, link):
    program = programs.simple("steady", extra=[link], placement=placement)
    target = targets.steady(actor, program, preload=False)
    for chosen in ("step_1*,by_*", "step_2*"):
        done = actor.iprobe(
            "attach",
            target.pid,
            "-f",
            chosen,
            "--duration",
            "50ms",
            "--json",
            "-o",
            actor.dir() / "trace",
        )
        assert done.returncode == 0, repr(done)
        assert done.summary()["events"] > 0
        target.wait_for_progress()
        memory.assert_untouched(target.pid)
    status = json.loads(actor.iprobe("status", "--json", target.pid).stdout)
    assert status["patched"] == 0 and status["runtime"] is True
    assert all(m["text_matches_file"] for m in status["modules"])
    target.finish()


def test_detach_after_a_kill(me, programs, targets):
    target = targets.steady(me, programs.simple("steady", extra=["-static"]), preload=False)
    proc = me.start_iprobe("attach", target.pid, "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, proc)
    proc.kill()
    proc.wait()
    target.wait_for_progress()
    done = me.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    target.finish()


def test_without_the_runtime_it_is_refused(me):
    folder = me.dir()
    (folder / "known.c").write_text(KNOWN)
    subprocess.run(["gcc", "-static", folder / "known.c", "-o", folder / "program"], check=True)
    done = me.iprobe("run", "-o", folder / "trace", "--", folder / "program")
    assert done.returncode == 1 and "iprobe-cc -static" in done.stderr and done.stdout == ""


def test_status_shows_a_sleeping_one(me, programs, targets):
    target = targets.steady(me, programs.simple("steady", extra=["-static"]), preload=False)
    done = me.iprobe("status", "--json")
    assert done.returncode == 0, repr(done)
    assert target.pid in [p["pid"] for p in json.loads(done.stdout)]
    target.finish()


def test_own_hooks_of_the_program_come_first(me):
    """A static program with a tracer of its own links, and keeps it."""
    folder = me.dir()
    own = (
        KNOWN
        + """
static int hits;
#define QUIET __attribute__((no_instrument_function))
QUIET void __cyg_profile_func_enter(void *f, void *c) { (void)f; (void)c; hits++; }
QUIET void __cyg_profile_func_exit(void *f, void *c) { (void)f; (void)c; hits++; }
__attribute__((destructor)) QUIET static void tell(void) { printf("%d\\n", hits); }
"""
    )
    (folder / "own.c").write_text(own)
    done = me.run(
        [
            me.builddir / "coldpatch" / "iprobe-cc",
            "-O2",
            "-static",
            folder / "own.c",
            "-o",
            folder / "own",
        ],
        env={"IPROBE_PLACEMENT": "instrument"},
    )
    assert done.returncode == 0, repr(done)
    assert int(me.run([folder / "own"]).stdout.split()[1]) >= 4000


def live_targets(pid):
    """Where the calls at live sites go."""
    found = set()
    for path, offset, have, _ in memory.text_differences(pid):
        where = next(
            m
            for m in memory.mappings(pid)
            if m.path == path and "x" in m.perms and m.offset <= offset < m.offset + m.end - m.start
        )
        address = where.start + offset - where.offset
        code = memory.read_memory(pid, address - 2, 12)
        for at in range(0, 3):
            if code[at] in (0xE8, 0xE9):
                found.add(address - 2 + at + 5 + struct.unpack("<i", code[at + 1 : at + 5])[0])
        assert have
    return found


def test_stubs_lie_in_the_module(me, programs, targets):
    target = targets.steady(me, programs.simple("steady"))
    proc = me.start_iprobe("attach", target.pid, "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, proc)
    maps = memory.mappings(target.pid)
    room = [m for m in maps if m.perms == "r-xp" and not m.path and m.end - m.start == 1 << 20]
    assert len(room) == 1, "the room of the executable, which the runtime has made executable"
    assert any(room[0].start <= a < room[0].end for a in live_targets(target.pid))
    proc.terminate()
    assert proc.wait(timeout=60) == 0
    memory.assert_untouched(target.pid)
    target.finish()


@pytest.mark.parametrize(
    "flags", [["-r"], ["-Wl,-T,script.ld"], ["-shared", "-fPIC"]], ids=lambda f: f[0]
)
def test_links_that_lay_out_by_themselves(me, flags):
    """No room where the user's own layout may have no place for it; nothing fails because of it."""
    folder = me.dir()
    script = subprocess.run(["ld", "--verbose"], capture_output=True, text=True, check=True).stdout
    (folder / "script.ld").write_text(script.split("=" * 50)[1])
    (folder / "known.c").write_text(KNOWN)
    done = me.run(
        [me.builddir / "coldpatch" / "iprobe-cc", "-O2", *flags, "known.c", "-o", "made"],
        cwd=folder,
        env={"IPROBE_PLACEMENT": "fentry"},
    )
    assert done.returncode == 0, repr(done)
    sections = subprocess.run(
        ["readelf", "-SW", folder / "made"], capture_output=True, text=True, check=True
    ).stdout
    assert (".iprobe.stubs" in sections) == ("-shared" in flags)


def test_room_costs_no_file_bytes(me):
    folder = me.dir()
    size = build(me, folder, "fentry").stat().st_size
    assert size < 200000

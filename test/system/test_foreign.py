# SPDX-License-Identifier: Apache-2.0
"""
Other people's NOPs: programs that were built by plain compilers for uftrace, XRay or live
patching, and never saw iprobe-cc.
"""

import re
import shutil
import subprocess

import pytest

from iptest.building import decoded_at, record, run
from iptest.probe_list import (
    ENTRY,
    ENTRY_ONLY,
    EXIT,
    FOREIGN,
    REGS_ALL,
    REGS_ENTRY,
    REGS_RETURN,
    TAIL_EXIT,
    parse,
)
from iptest.sections import loaded_bytes, section

SOURCE = r"""
#include <stdio.h>
#define NOINLINE __attribute__((noinline))
NOINLINE int leaf(int n) { return n * 3; }
NOINLINE int tail(int n) { if (n == 4) puts("four"); return leaf(n + 1); }
NOINLINE int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
NOINLINE int spin(int n) { for (;;) { __asm__ volatile("nop; nop; nop; nop; nop"); if (n-- < 0) return 5; } }
int main(void)
{
    int n = 0;
    for (int i = 0; i < 6; i++)
        n += tail(i) + fib(i) + spin(i);
    printf("%d\n", n);
    return 0;
}
"""

CALLS = {
    "main": 1,
    "tail": 6,
    "leaf": 6,
    "spin": 6,
    "fib": sum(2 * f - 1 for f in (1, 1, 2, 3, 5, 8)),
}

PATCHABLE = [
    ("gcc", "-O2 -fpatchable-function-entry=5"),
    ("gcc", "-O2 -fpatchable-function-entry=8 -fcf-protection=full"),
    ("gcc", "-O2 -fpatchable-function-entry=12,6 -fcf-protection=full"),
    ("gcc", "-O0 -fpatchable-function-entry=5 -no-pie"),
    ("gcc", "-O2 -fpatchable-function-entry=20,10 -s"),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fuse-ld=lld -ffunction-sections -Wl,--gc-sections"),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fuse-ld=mold"),
    ("clang", "-O2 -fpatchable-function-entry=5"),
    ("clang", "-O2 -fpatchable-function-entry=9,3 -fcf-protection -fuse-ld=lld"),
]

MCOUNT = "-pg -mfentry -mnop-mcount -mrecord-mcount -fno-pie -no-pie"
RETURNS = "-minstrument-return=nop5 -mrecord-return"


@pytest.fixture
def box(tmp_path):
    (tmp_path / "p.c").write_text(SOURCE)
    return tmp_path


def build(box, compiler, flags, *more):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    match = re.search(r"-fuse-ld=(\w+)", flags)
    if match and not shutil.which(f"ld.{match[1]}"):
        pytest.skip(f"no ld.{match[1]}")
    run(
        compiler,
        *flags.split(),
        *more,
        "-Wl,--build-id=sha1",
        "-fno-inline",
        "p.c",
        "-o",
        "plain",
        cwd=box,
    )


def patch(builddir, box):
    run(builddir / "coldpatch" / "coldpatch", "-o", "program", "plain", cwd=box)
    return parse(section(box / "program", ".iprobe.probes"))


def refused(builddir, box):
    done = subprocess.run(
        [builddir / "coldpatch" / "coldpatch", "plain"],
        cwd=box,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done
    return done.stderr


def changed_bytes(box):
    """{address} of loaded bytes that coldpatch has changed."""
    found = set()
    for (address, old), (same, new) in zip(
        loaded_bytes(box / "plain"), loaded_bytes(box / "program")
    ):
        assert address == same and len(old) == len(new)
        found |= {address + i for i, pair in enumerate(zip(old, new)) if pair[0] != pair[1]}
    return found


@pytest.mark.parametrize(
    "compiler,flags", PATCHABLE, ids=[f"{c}{f.replace(' ', '')}" for c, f in PATCHABLE]
)
def test_patchable_entries(compiler, flags, box, builddir):
    build(box, compiler, flags)
    listed = patch(builddir, box)
    assert (listed.placement, listed.found_by) == ("fentry", FOREIGN)
    for p in listed.probes:
        assert (p.kind, p.length, p.regs, p.flags) == (ENTRY, 5, REGS_ENTRY, ENTRY_ONLY), p
    assert len(listed.probes) == len(CALLS)
    insns = decoded_at(box / "program", {p.offset for p in listed.probes})
    assert {i.split()[0] for i in insns.values()} == {"nopl"} and len(insns) == len(CALLS)
    assert changed_bytes(box) <= {
        p.offset + i for p in listed.probes for i in range(6 if compiler == "clang" else 5)
    }
    plain = run(box / "plain", cwd=box).stdout
    assert run(box / "program", cwd=box).stdout == plain
    trace = record(builddir, box / "program", box)
    assert trace.output == plain
    if "-s" in flags.split():
        assert sorted(trace.entries.values())[:-1] == sorted(CALLS.values())[:-1]
    elif compiler == "gcc" and "-O0" not in flags:
        # the compiler knows what fib() is made of, and calls it less often
        assert {n: c for n, c in trace.entries.items() if n != "fib"} == {
            n: c for n, c in CALLS.items() if n != "fib"
        }
    else:
        assert set(trace.entries) == set(CALLS) and trace.entries["tail"] == 6
    assert (
        run(builddir / "coldpatch" / "coldpatch", "program", cwd=box).stdout.count(
            "already patched"
        )
        == 1
    )


@pytest.mark.parametrize("more", ["-O2", "-O2 -fcf-protection=full", "-O0", "-Os -fuse-ld=lld"])
def test_mcount_with_exits(more, box, builddir):
    build(box, "gcc", f"{MCOUNT} {RETURNS} {more}")
    listed = patch(builddir, box)
    assert (listed.placement, listed.found_by) == ("fentry", FOREIGN)
    kinds = {(p.kind, p.regs, p.flags) for p in listed.probes}
    assert {(ENTRY, REGS_ENTRY, 0), (EXIT, REGS_RETURN, 0)} <= kinds
    assert kinds <= {(ENTRY, REGS_ENTRY, 0), (EXIT, REGS_RETURN, 0), (TAIL_EXIT, REGS_ALL, 0)}
    if more == "-O2":
        assert (TAIL_EXIT, REGS_ALL, 0) in kinds
    behind = decoded_at(box / "program", {p.offset + 5 for p in listed.probes if p.kind != ENTRY})
    for p in listed.probes:
        if p.kind != ENTRY:
            assert behind[p.offset + 5].startswith("ret" if p.kind == EXIT else "jmp"), p
    assert changed_bytes(box) == set()
    plain = run(box / "plain", cwd=box).stdout
    trace = record(builddir, box / "program", box)
    assert trace.output == plain and trace.depth_at_end == 0 and trace.entries == trace.exits
    assert trace.entries["tail"] == 6 and set(trace.entries) == set(CALLS)


def test_mcount_without_exits(box, builddir):
    build(box, "gcc", f"{MCOUNT} -O2")
    listed = patch(builddir, box)
    assert {(p.kind, p.flags) for p in listed.probes} == {(ENTRY, ENTRY_ONLY)}
    assert record(builddir, box / "program", box).entries["tail"] == 6


def test_xray_with_its_runtime(box, builddir):
    """A program for XRay: its sleds are sites; its runtime, not asked for anything, does not
    mind.
    """
    if not shutil.which("clang"):
        pytest.skip("no clang")
    try:
        build(box, "clang", "-O2 -fxray-instrument -fxray-instruction-threshold=1")
    except AssertionError as e:
        if "xray" in str(e):
            pytest.skip("no XRay runtime")
        raise
    listed = patch(builddir, box)
    assert listed.found_by == FOREIGN
    assert {"main", "tail", "leaf", "fib", "spin"} <= {p.function.name for p in listed.probes}
    assert {p.kind for p in listed.probes} >= {ENTRY, EXIT}
    plain = run(box / "plain", cwd=box).stdout
    assert run(box / "program", cwd=box).stdout == plain
    trace = record(builddir, box / "program", box)
    assert trace.output == plain and trace.depth_at_end == 0 and trace.entries == trace.exits
    assert trace.entries["tail"] == 6


@pytest.mark.parametrize(
    "compiler,flags,why",
    [
        ("gcc", "-O2 -fpatchable-function-entry=3", "fewer than 5 bytes"),
        ("gcc", "-O2 -fpatchable-function-entry=9,5", "fewer than 5 bytes"),
        ("clang", "-O2 -fpatchable-function-entry=4", "fewer than 5 bytes"),
        ("gcc", "-O2 -pg -mfentry", "-pg"),
        ("gcc", "-O2 -pg", "-pg"),
        ("gcc", f"-O2 -pg -mfentry -mrecord-mcount -no-pie -fno-pie {RETURNS}", "-mnop-mcount"),
        ("gcc", "-O2", "was not compiled"),
    ],
)
def test_what_cannot_serve_is_named(compiler, flags, why, box, builddir):
    """Also where the function itself begins with NOPs that a loop jumps to (spin)."""
    build(box, compiler, flags)
    before = (box / "plain").read_bytes()
    assert why in refused(builddir, box)
    assert (box / "plain").read_bytes() == before

# SPDX-License-Identifier: Apache-2.0
"""
Placement fentry by clang: calls of __fentry__ at entries and XRay's sleds at exits, which
coldpatch makes sites. What they must be is read from section xray_instr_map, and from the calls
in a link by clang alone.
"""

import pathlib
import re
import shutil
import struct

import pytest

from iptest.building import decoded_at, record, run
from iptest.probe_list import (
    ENTRY,
    EXIT,
    FORM_RETURN,
    REGS_ALL,
    REGS_ENTRY,
    REGS_RETURN,
    TABLE,
    TAIL_EXIT,
    parse,
)
from iptest.sections import section, section_names, sections

pytestmark = pytest.mark.skipif(not shutil.which("clang"), reason="no clang")

SOURCE = r"""
#include <cstdio>
#include <stdexcept>
#include "iprobe/probe.h"
#define NOINLINE __attribute__((noinline))
struct Pair { long a, b; };
struct Wide { double a, b; };
template <typename T> struct Box { T v; NOINLINE T get() { return v; } };
inline NOINLINE int comdat(int n) { return n * n; }
NOINLINE int work(int n) { if (n > 3) throw std::runtime_error("thrown"); return n + 1; }
NOINLINE int tail(int n) { std::printf("tail %d\n", n); return work(n); }
NOINLINE long double wide_return(double d, long double e) { return d * 2 + e; }
NOINLINE Pair pair(long n) { return {n, -n}; }
NOINLINE Wide wide(double d) { return {d, -d}; }
NOINLINE int sum(const char *format, ...)
{
    __builtin_va_list ap;
    int total = 0;
    __builtin_va_start(ap, format);
    for (; *format; format++)
        total += *format == 'd' ? (int)__builtin_va_arg(ap, double) : __builtin_va_arg(ap, int);
    __builtin_va_end(ap);
    return total;
}
NOINLINE int many(int a, int b, int c, int d, int e, int f, int g, int h) { return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h; }
IPROBE_NO_PROBE NOINLINE int never(int n) { return n + 7; }
__attribute__((no_instrument_function)) NOINLINE int never_either(int n) { return n + 8; }
NOINLINE __attribute__((noreturn)) void leave(int n) { throw n; }
NOINLINE int loop(int n) { int s = 0; for (int i = 0; i < n; i++) { s += comdat(i); if (s == 5) return 1; } return s; }
int main()
{
    Box<int> box{3};
    int n = box.get() + comdat(3) + never(2) + never_either(3) + loop(4) + sum("iddi", 1, 2.0, 3.0, 4) + many(1, 2, 3, 4, 5, 6, 7, 8);
    Pair p = pair(n);
    Wide w = wide(n);
    try {
        for (int i = 0; i < 6; i++)
            n += tail(i);
    } catch (const std::exception &e) {
        std::puts(e.what());
    }
    try { leave(n); } catch (int i) { n += i; }
    std::printf("%d %Lf %ld %ld %f %f\n", n, wide_return(1, 2), p.a, p.b, w.a, w.b);
    return 0;
}
"""

FUNCTIONS = {
    "main",
    "get",
    "comdat",
    "work",
    "tail",
    "wide_return",
    "pair",
    "wide",
    "sum",
    "many",
    "loop",
    "leave",
}

BUILDS = [
    "-O0",
    "-O1 -fuse-ld=lld -no-pie",
    "-O2",
    "-O2 -fcf-protection -fno-plt -g",
    "-O2 -march=silvermont",  # whose NOPs are short
    "-O3 -ffunction-sections -Wl,--gc-sections",
    "-O3 -ffunction-sections -fuse-ld=lld -Wl,--gc-sections -s",
    "-O2 -fuse-ld=mold -mcmodel=large",
    "-Os -flto -fuse-ld=lld",
    "-O2 -shared -fPIC",
    "-O2 -static",
]


def clang(builddir, cwd, *arguments, tool="iprobe-c++"):
    done = run(
        builddir / "coldpatch" / tool,
        *arguments,
        cwd=cwd,
        IPROBE_PLACEMENT="fentry",
        IPROBE_CC="clang",
    )
    assert done.stderr == "", done


@pytest.mark.skipif(not shutil.which("ld.gold"), reason="no gold")
def test_gold_that_drops_the_table_is_told_of(box, builddir):
    """The link works, has no probes, and says so in one line that names what to do."""
    tool = builddir / "coldpatch" / "iprobe-c++"
    for flags, says in ((["-fuse-ld=gold", "-Wl,--gc-sections"], True), (["-fuse-ld=gold"], False)):
        done = run(
            tool,
            "-O2",
            *flags,
            "p.cc",
            "-o",
            "program",
            cwd=box,
            IPROBE_PLACEMENT="fentry",
            IPROBE_CC="clang",
        )
        assert (len(done.stderr.splitlines()), "-fuse-ld=lld" in done.stderr) == (
            says,
            says,
        ), done.stderr
        assert (".iprobe.probes" in section_names(box / "program")) is not says
        assert "thrown" in run("./program", cwd=box).stdout


def exit_sleds(path):
    """{address: address of the function} of the map."""
    found = {}
    for s in sections(path):
        if s.name != "xray_instr_map":
            continue
        data = section(path, s.name)
        for at in range(0, len(data), 32):
            to, function, kind, _, version = struct.unpack_from("<qqBBB", data, at)
            assert version == 2 and kind in (1, 2)
            found[s.address + at + to] = s.address + at + 8 + function
    return found


@pytest.fixture
def box(tmp_path):
    (tmp_path / "p.cc").write_text(SOURCE)
    (tmp_path / "iprobe").symlink_to(
        pathlib.Path(__file__).resolve().parents[2] / "include" / "iprobe"
    )
    return tmp_path


@pytest.mark.parametrize("flags", BUILDS, ids=[f.replace(" ", "") for f in BUILDS])
def test_every_sled_is_a_site(flags, box, builddir):
    match = re.search(r"-fuse-ld=(\w+)", flags)
    if match and not shutil.which(f"ld.{match[1]}"):
        pytest.skip(f"no ld.{match[1]}")
    clang(builddir, box, *flags.split(), "-I.", "p.cc", "-o", "program")
    listed = parse(section(box / "program", ".iprobe.probes"))
    probes = {p.offset: p for p in listed.probes}
    assert (listed.placement, listed.found_by) == ("fentry", TABLE)

    exits = exit_sleds(box / "program")
    entries = {o for o, p in probes.items() if p.kind == ENTRY}
    never = {f for f in exits.values() if not {f, f + 4} & entries}
    assert set(probes) - entries == {o for o, f in exits.items() if f not in never}
    # as clang alone links the same objects
    clang(builddir, box, *flags.split(), "-Qunused-arguments", "-I.", "-c", "p.cc", "-o", "p.o")
    if not {"-flto", "-s"} & set(flags.split()):
        run("clang++", *flags.split(), "p.o", "-o", "unpatched", cwd=box)
        text = run("objdump", "-d", "-w", "unpatched", cwd=box).stdout
        assert len(re.findall(r"\tcall .*<__fentry__[^>]*>$", text, re.M)) == len(entries)
        assert len(never) == 1
    insns = decoded_at(
        box / "program", set(probes) | {o + 5 for o in probes} | {o + 11 for o in probes}
    )
    for offset, p in probes.items():
        assert p.length == 5 and insns[offset].startswith("ret" if p.kind == EXIT else "nop"), p
        if p.kind == ENTRY:
            assert p.regs == REGS_ENTRY
        elif p.kind == EXIT:
            assert (p.form, p.regs) == (FORM_RETURN, REGS_RETURN), p
        else:
            # nothing is jumped over: two NOPs, then the jump
            assert p.regs == REGS_ALL and insns[offset + 5].startswith("nop"), p
            assert insns[offset + 11].startswith(
                ("jmp", "rex.W jmp", "notrack jmp", "bnd jmp")
            ), insns[offset + 11]
    names = {
        re.sub(r"^_ZN?(?:3BoxIiE)?\d*([a-z_]+?)(?:Ev|[A-Zivdlz]*)$", r"\1", p.function.name)
        for p in listed.probes
    }
    if not {"-flto", "-s"} & set(flags.split()):
        assert {
            p.function.name for p in listed.probes if "comdat" in p.function.name
        } and "main" in names
        assert not any("never" in p.function.name for p in listed.probes)
    if "-shared" in flags:
        return
    dynamic = run("readelf", "-d", box / "program", cwd=box).stdout
    assert "TEXTREL" not in dynamic

    clang_alone = run("clang++", *flags.split(), "-I.", "p.cc", "-o", "plain", cwd=box)
    assert clang_alone.stderr == ""
    plain = run(box / "plain", cwd=box).stdout
    assert run(box / "program", cwd=box).stdout == plain
    if "-static" in flags or "-s" in flags.split():
        return
    trace = record(builddir, box / "program", box)
    assert trace.output == plain and trace.depth_at_end == 0
    assert not any("never" in n for n in trace.entries)
    if "-flto" not in flags:
        assert set(trace.entries) == FUNCTIONS
    assert trace.entries["tail"] == 5 and trace.entries["work"] == 5
    assert trace.entries == trace.exits


def test_objects_without_our_link(box, builddir):
    """Compiled by iprobe-cc, linked by clang alone, and coldpatch by hand; XRay's runtime is
    nowhere.
    """
    clang(builddir, box, "-O2", "-I.", "-c", "p.cc", "-o", "p.o")
    clang(builddir, box, "-r", "p.o", "-o", "r.o")
    run("clang++", "r.o", "-Wl,--build-id=sha1", "-o", "program", cwd=box)
    assert "__xray" not in run("nm", "program", cwd=box).stdout
    plain = run(box / "program", cwd=box).stdout
    done = run(builddir / "coldpatch" / "coldpatch", "program", cwd=box)
    assert "found by table" in done.stdout
    assert run(box / "program", cwd=box).stdout == plain
    assert set(parse(section(box / "program", ".iprobe.probes")).probes)


def test_c_and_assembler(box, builddir):
    """C, and a source of assembler, which is left alone."""
    (box / "a.s").write_text(
        ".globl three\n.text\nthree: movl $3, %eax\nret\n.section .note.GNU-stack\n"
    )
    (box / "m.c").write_text("int three(void); int main(void) { return three() - 3; }\n")
    clang(builddir, box, "-O2", "m.c", "a.s", "-o", "program", tool="iprobe-cc")
    assert [p.function.name for p in parse(section(box / "program", ".iprobe.probes")).probes] == [
        "main"
    ] * 2
    assert record(builddir, box / "program", box).entries == {"main": 1}


def test_inline_is_refused(box, builddir):
    with pytest.raises(AssertionError) as e:
        run(
            builddir / "coldpatch" / "iprobe-cc",
            "-c",
            "p.cc",
            cwd=box,
            IPROBE_PLACEMENT="inline",
            IPROBE_CC="clang",
        )
    assert "clang has fentry and instrument only" in str(e.value)

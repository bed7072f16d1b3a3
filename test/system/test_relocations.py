# SPDX-License-Identifier: Apache-2.0
"""
Placement instrument by relocations that the linker kept: every linker, every form of call. What
the sites must be is read from the same link's relocations by readelf.
"""

import json
import os
import re
import shutil
import subprocess

import pytest

from iptest.probe_list import ENTRY, EXIT, RELOCATIONS, TAIL_EXIT, parse
from iptest.sections import loaded_bytes, section, section_names, symbols

CALLS = """
#include <stdio.h>
#include "calls.h"
struct Stack { virtual int push(int n) { return n + 1; } virtual ~Stack() {} };
static Stack *volatile made;
__attribute__((noinline)) static int guarded(int n)
{
    try { if (n > 6) throw n; return leaf(n); } catch (int i) { return i * 2; }
}
int main()
{
    int sum = 0;
    made = new Stack;
    for (int i = 0; i < 9; i++)
        sum += made->push(i) + guarded(i) + twice<long>(i) + other(i);
    last(sum);
    delete made;
    return 0;
}
"""

OTHER = """
#include <stdio.h>
#include <stdlib.h>
#include "calls.h"
__attribute__((noinline)) void last(int n) { if (n < 0) { fputs("negative", stderr); abort(); } printf("%d\\n", n); }
__attribute__((noinline)) int never_called(int n) { return leaf(n) + 3; }
__attribute__((noinline, cold)) int rare(int n) { return twice<long>(n) + 5; }
__attribute__((noinline)) int other(int n) { return n == 7 ? rare(n) : twice<int>(n) + fib(n); }
int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
"""

HEADER = """
static inline int leaf(int n) { return n * 3; }
template <typename T> __attribute__((noinline)) T twice(T n) { return leaf(n) + n; }
int other(int), fib(int);
void last(int);
"""

OUTPUT = "472\n"

# (linker, flags): each with what tells it from the others
LINKS = [
    ("bfd", "-O2"),
    ("bfd", "-O2 -fno-plt"),
    ("bfd", "-O2 -static"),
    ("bfd", "-O1 -static -fno-plt"),
    ("bfd", "-O0 -static-pie"),
    ("bfd", "-O2 -flto"),
    ("bfd", "-O3 -no-pie -ffunction-sections -Wl,--gc-sections"),
    ("gold", "-O2 -fcf-protection=none"),
    ("gold", "-Os -static -fno-plt"),
    ("lld", "-O2 -fno-plt -ffunction-sections -Wl,--gc-sections"),
    ("lld", "-O2 -static -fno-plt"),
    ("mold", "-O2 -fno-plt"),
    ("mold", "-O2 -static -fno-plt"),
]


@pytest.fixture
def box(tmp_path):
    (tmp_path / "calls.h").write_text(HEADER)
    (tmp_path / "calls.cc").write_text(CALLS)
    (tmp_path / "other.cc").write_text(OTHER)
    return tmp_path


def run(*command, cwd, **env):
    done = subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C", **env},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, (command, done)
    return done


def build(builddir, cwd, *arguments, cc="iprobe-c++"):
    done = run(builddir / "coldpatch" / cc, *arguments, cwd=cwd, IPROBE_PLACEMENT="instrument")
    assert done.stderr == "", done


def linker_or_skip(linker):
    if not shutil.which(f"ld.{linker}"):
        pytest.skip(f"no ld.{linker}")


def named_by_relocations(path):
    """{address of the operand: is it the entry hook} of all kept relocations against the hooks
    in code.
    """
    text = subprocess.run(
        ["readelf", "-rW", path], capture_output=True, text=True, check=True
    ).stdout
    found, kept = {}, False
    for line in text.splitlines():
        if line.startswith("Relocation section"):
            kept = "'.rela.text" in line
        match = re.match(
            r"([0-9a-f]+)\s+\S+\s+R_X86_64_\w+\s.*__cyg_profile_func_(enter|exit)", line
        )
        if match and kept:
            found[int(match[1], 16)] = match[2] == "enter"
    return found


def decoded_at(path, wanted):
    """{address: mnemonic and operands} of the instructions that objdump sees at the wanted
    addresses.
    """
    text = subprocess.run(
        ["objdump", "-d", "-w", "--no-show-raw-insn", path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*([0-9a-f]+):\t(.*)", line)
        if match and int(match[1], 16) in wanted:
            found[int(match[1], 16)] = match[2].strip()
    return found


@pytest.mark.parametrize(
    "linker,flags", LINKS, ids=[f"{linker}{flags.replace(' ', '')}" for linker, flags in LINKS]
)
def test_every_call_and_no_other(linker, flags, box, builddir):
    linker_or_skip(linker)
    common = [*flags.split(), f"-fuse-ld={linker}", "-g", "calls.cc", "other.cc"]
    # who asks for relocations gets them
    build(builddir, box, *common, "-Wl,-q", "-o", "kept")
    build(builddir, box, *common, "-o", "program")
    relocations = named_by_relocations(box / "kept")
    assert len(relocations) > 15

    kept = parse(section(box / "kept", ".iprobe.probes"))
    probes = {p.offset: p for p in kept.probes}
    assert kept.found_by & RELOCATIONS and kept.placement == "instrument"
    # each relocation is the operand of one site of its kind, and there is no other site
    for operand, enter in relocations.items():
        site = [probes.get(operand - back) for back in (1, 2) if operand - back in probes]
        assert len(site) == 1, hex(operand)
        assert (site[0].kind == ENTRY) == enter, (hex(operand), site)
    assert len(probes) == len(relocations)
    shapes = decoded_at(box / "kept", probes)
    for offset, p in probes.items():
        assert shapes.get(offset, "").startswith("ret" if p.kind == TAIL_EXIT else "nop"), (
            p,
            shapes.get(offset),
        )
    assert {p.function.name for p in kept.probes} >= {
        "main",
        "_Z5otheri",
        "_Z3fibi",
        "_Z5twiceIlET_S0_",
    }
    if "gc-sections" in flags and linker != "gold":
        assert "_Z12never_calledi" not in {p.function.name for p in kept.probes}
    assert {p.kind for p in kept.probes} >= {ENTRY, EXIT}

    # relocations that we alone wanted are gone; nothing else is
    names, kept_names = section_names(box / "program"), section_names(box / "kept")
    allocated = {".rela.dyn", ".rela.plt", ".rela.iplt"}
    assert ".rela.text" in kept_names
    assert {n for n in kept_names if not n.startswith(".rela") or n in allocated} == set(names)
    ours = parse(section(box / "program", ".iprobe.probes"))
    assert [(p.offset, p.kind, p.length) for p in ours.probes] == [
        (p.offset, p.kind, p.length) for p in kept.probes
    ]
    assert ours.build_id == kept.build_id or "-flto" in flags
    if "-flto" not in flags:
        assert loaded_bytes(box / "program") == loaded_bytes(box / "kept")
        assert symbols(box / "program") == symbols(box / "kept")
    assert (box / "program").stat().st_size < (box / "kept").stat().st_size
    for tool in (["readelf", "-aW"], ["nm"], ["strip", "-o", box / "stripped"]):
        assert run(*tool, box / "program", cwd=box).stderr == ""
    for name in ("kept", "program", "stripped"):
        assert run(box / name, cwd=box).stdout == OUTPUT


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_trace_is_balanced(linker, box, builddir):
    """Idle and recording print the same; each call has its entry and exit. Small programs of lld
    and mold have all their segments in one page of the file.
    """
    linker_or_skip(linker)
    build(
        builddir,
        box,
        "-O2",
        "-fno-plt",
        "-g",
        f"-fuse-ld={linker}",
        "calls.cc",
        "other.cc",
        "-o",
        "program",
    )
    done = run(
        builddir / "cli" / "iprobe",
        "run",
        "-o",
        box / "trace",
        "--json",
        "--",
        box / "program",
        cwd=box,
    )
    assert done.stdout.startswith(OUTPUT)
    depth, seen = 0, set()
    for line in run(
        builddir / "cli" / "iprobe", "dump", "--json", box / "trace", cwd=box
    ).stdout.splitlines():
        event = json.loads(line)
        if event["event"] == "entry":
            seen.add(event["function"].partition("(")[0])
            depth += 1
        elif event["event"] == "exit":
            depth -= 1
        assert depth >= 0
    assert depth == 0 and {"main", "other", "fib", "last"} <= seen


def test_partial_links(box, builddir):
    """ld -r in between: its output keeps relocations by itself."""
    for name in ("calls", "other"):
        build(builddir, box, "-O2", "-c", f"{name}.cc", "-o", f"{name}.o")
    build(builddir, box, "-r", "calls.o", "other.o", "-o", "both.o")
    build(builddir, box, "both.o", "-o", "program")
    build(builddir, box, "calls.o", "other.o", "-Wl,-q", "-o", "direct")
    ours = parse(section(box / "program", ".iprobe.probes"))
    assert ours.found_by & RELOCATIONS
    assert len(ours.probes) == len(named_by_relocations(box / "direct"))
    assert run(box / "program", cwd=box).stdout == OUTPUT


@pytest.mark.parametrize(
    "flags",
    [
        "-s",
        "-Wl,--strip-all",
        "-Xlinker -s",
        "-fuse-ld=gold -Wl,--gc-sections",
        "-fuse-ld=mold -Wl,-S",
        "-fuse-ld=lld -s",
    ],
)
def test_links_that_cannot_keep_relocations(flags, box, builddir):
    """Linkers that fail beside -q are not given it: what links by the compiler alone links by
    iprobe-c++.
    """
    match = re.search(r"-fuse-ld=(\w+)", flags)
    linker_or_skip(match[1] if match else "bfd")
    build(builddir, box, "-O2", *flags.split(), "calls.cc", "other.cc", "-o", "program")
    assert ".iprobe.probes" in section_names(box / "program")
    assert run(box / "program", cwd=box).stdout == OUTPUT


def test_nothing_to_probe_leaves_nothing(box, builddir):
    """Without a site, or where coldpatch refuses, the relocations that were asked for go as
    well.
    """
    (box / "empty.c").write_text(
        "__attribute__((no_instrument_function)) int main(void) { return 0; }\n"
    )
    build(builddir, box, "empty.c", "-o", "program", cc="iprobe-cc")
    assert not any(n.startswith(".rela.text") for n in section_names(box / "program"))
    assert run(box / "program", cwd=box).stdout == ""
    (box / "own.c").write_text(
        """
        #define HOOK __attribute__((no_instrument_function)) void
        int n;
        HOOK __cyg_profile_func_enter(void *f, void *c) { n++; }
        HOOK __cyg_profile_func_exit(void *f, void *c) { n++; }
        int main(void) { return n != 1; }"""
    )
    done = run(
        builddir / "coldpatch" / "iprobe-cc",
        "own.c",
        "-o",
        "program",
        cwd=box,
        IPROBE_PLACEMENT="instrument",
    )
    assert len(done.stderr.splitlines()) == 1 and "its own tracer" in done.stderr
    assert not any(n.startswith(".rela.text") for n in section_names(box / "program"))
    run(box / "program", cwd=box)


def test_coldpatch_by_hand(box, builddir):
    """A link of somebody else's with -q; --keep-relocs, and data that somebody appended."""
    run(
        "g++",
        "-O2",
        "-finstrument-functions",
        "-Wl,-q",
        "-Wl,--build-id=sha1",
        "calls.cc",
        "other.cc",
        "-o",
        "program",
        cwd=box,
    )
    coldpatch = builddir / "coldpatch" / "coldpatch"
    done = run(coldpatch, "--keep-relocs", "-o", "kept", "program", cwd=box)
    assert "found by relocations" in done.stdout
    (module,) = json.loads(run(coldpatch, "--json", "-o", "plain", "program", cwd=box).stdout)[
        "modules"
    ]
    assert module["found_by"] == ["relocations"]
    assert ".rela.text" in section_names(box / "kept") and ".rela.text" not in section_names(
        box / "plain"
    )
    assert loaded_bytes(box / "kept") == loaded_bytes(box / "plain")
    assert symbols(box / "kept") == symbols(box / "plain")
    payload = b"appended by somebody"
    with open(box / "program", "ab") as f:
        f.write(payload)
    run(coldpatch, "program", cwd=box)
    assert payload in (box / "program").read_bytes() and ".rela.text" not in section_names(
        box / "program"
    )
    assert run(box / "program", cwd=box).stdout == OUTPUT

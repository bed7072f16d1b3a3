# SPDX-License-Identifier: Apache-2.0
"""
Options that change what a compiler puts into every function, or what it links in: sanitizers,
coverage, profiles, other stacks. With each, in each placement of gcc, a program is compiled and
linked, and runs idle and with every probe recording as it does plain. The matrix (test_matrix.py)
has what decides how code is placed; this has the rest.

One again: IPROBE_TEST_FULL=1 /usr/bin/python3 -m pytest test/compilers/test_options.py -k 'asan
and inline'
"""

import collections
import os
import re
import subprocess

import pytest

from conftest import FULL
from iptest import time_scale
from proof import matrix
from proof.shop import Shop

C = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
NOINLINE static uint32_t mix(uint32_t h, uint32_t n) { return (h ^ n) * 16777619u; }
NOINLINE static int depth(int n) { char room[64]; memset(room, n, sizeof(room)); return n ? depth(n - 1) + room[n % 64] : room[0]; }
static inline int small(int n) { return n * 3 + 1; }
NOINLINE static int tail(int n) { return depth(small(n) & 15); }
NOINLINE static double real(double d) { return d * 1.5 + small((int)d); }
static void *work(void *p)
{
    uint32_t *h = (uint32_t *)p;
    for (int i = 0; i < 50; i++)
        *h = mix(*h, (uint32_t)tail(i));
    return p;
}
int main(void)
{
    uint32_t parts[3] = {1, 2, 3}, h = 2166136261u;
    pthread_t threads[3];
    int *numbers = (int *)malloc(64 * sizeof(*numbers)), shared = 0;

    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, &parts[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 64; i++)
        numbers[i] = (i * 37) % 64;
    qsort(numbers, 64, sizeof(*numbers), compare);
#pragma omp parallel for reduction(+ : shared)
    for (int i = 0; i < 64; i++)
        shared += small(numbers[i]);
    for (int i = 0; i < 3; i++)
        h = mix(h, parts[i]);
    h = mix(h, (uint32_t)shared) ^ (uint32_t)real(numbers[63]);
    free(numbers);
    printf("checksum = %x\n", h);
    return 5;
}
"""

# flags of every step; those of the compilation alone; only with iprobe's probes left away
Option = collections.namedtuple("Option", "flags compiled left_alone", defaults=((), ()))

OPTIONS = {
    "asan": Option(["-fsanitize=address", "-fno-omit-frame-pointer"]),
    "ubsan": Option(["-fsanitize=undefined"]),
    "tsan": Option(["-fsanitize=thread"]),
    "coverage": Option(["--coverage"]),
    "split-stack": Option(["-fsplit-stack"]),
    "stack-clash": Option(["-fstack-clash-protection"]),
    "stack-protector": Option(["-fstack-protector-all"]),
    "cet": Option(["-fcf-protection=full"]),
    "omit-frame-pointer": Option(["-fomit-frame-pointer"]),
    "keep-frame-pointer": Option(["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"]),
    "fixed": Option(["-ffixed-r15"]),
    "gprof": Option(["-pg"], left_alone=["fentry"]),
    "fat-lto": Option(["-flto=auto", "-ffat-lto-objects"]),
    "profile": Option(["-fprofile-generate"]),
    "openmp": Option(["-fopenmp"]),
    "as-cxx": Option([], compiled=["-xc++", "-fno-exceptions", "-fno-rtti"]),
    "split-dwarf": Option(["-g", "-gsplit-dwarf"]),
    "pipe": Option(["-pipe"]),
    "save-temps": Option(["-save-temps=obj"]),
    "analyzable": Option(["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]),
    "trapv": Option(["-ftrapv", "-fno-strict-aliasing"]),
    "hardened": Option(
        ["-D_FORTIFY_SOURCE=2", "-fzero-call-used-regs=used-gpr", "-ftrivial-auto-var-init=zero"]
    ),
}
PLACEMENTS = matrix.placements("gcc")
EVERYTHING = [(option, placement) for option in OPTIONS for placement in PLACEMENTS]
# Those of which most could go wrong, so that each placement is there twice.
SAMPLE = [
    ("asan", "inline"),
    ("tsan", "fentry"),
    ("coverage", "instrument"),
    ("fat-lto", "inline"),
    ("split-stack", "fentry"),
    ("profile", "instrument"),
    ("gprof", "fentry"),
]


def build(shop, option, extra=()):
    """In two steps, by an @file, as large projects do."""
    flags = ["-O2", "-pthread", "-w", *option.flags, *extra]
    (shop.folder / "flags").write_text("\n".join(flags))
    said = shop.run(
        *shop.cc, "@flags", *option.compiled, "-c", shop.folder.parent / "p.c", "-o", "p.o"
    )
    linked = shop.run(
        *shop.cc, "@flags", "p.o", *(["-lstdc++"] if option.compiled else []), "-o", "program"
    )
    assert (said.returncode, linked.returncode) == (0, 0), repr(said) + repr(linked)
    return re.sub("lto-wrapper: .*\n", "", said.stderr + linked.stderr)


def run(shop):
    env = {**os.environ, "OMP_NUM_THREADS": "2", "LC_ALL": "C"}
    return subprocess.run(
        [shop.folder / "program"],
        cwd=shop.folder,
        capture_output=True,
        text=True,
        check=False,
        env=env,
        stdin=subprocess.DEVNULL,
        timeout=time_scale.scaled(120),
    )


def check(me, shop, plain, probes):
    idle = run(shop)
    assert (idle.returncode, idle.stdout, idle.stderr) == (
        plain.returncode,
        plain.stdout,
        plain.stderr,
    ), idle
    assert (shop.sites("program") > 6) == probes
    if not probes:
        return
    live = me.iprobe(
        "run",
        "--json",
        "--memory",
        "32M",
        "-o",
        shop.folder / "trace",
        "--",
        shop.folder / "program",
        cwd=shop.folder,
    )
    output, _, _ = live.stdout.rstrip("\n").rpartition("\n")
    assert (live.returncode, output + "\n") == (plain.returncode, plain.stdout), repr(live)
    assert (
        "Sanitizer" not in live.stderr
        and live.summary()["events"] > 300
        and live.summary()["lost"] == 0
    ), repr(live)


@pytest.mark.parametrize("name, placement", EVERYTHING if FULL else SAMPLE)
def test_option(name, placement, me, tools):
    option, folder = OPTIONS[name], me.dir()
    (folder / "p.c").write_text(C)
    shops = [Shop(folder / way, tools, way) for way in ("plain", placement)]
    plain_said = build(shops[0], option)
    plain = run(shops[0])
    if plain.returncode != 5:
        pytest.skip(f"does not run here without us: {plain.stderr[:200]}")
    probes = placement not in option.left_alone
    said = build(shops[1], option)
    assert said == plain_said if probes else "-pg takes the place" in said, said
    check(me, shops[1], plain, probes)
    if name == "coverage":
        # what gcov counts is the program's, not ours
        counts = [
            subprocess.run(
                ["gcov", "-b", "-t", "p.o"],
                cwd=shop.folder,
                capture_output=True,
                text=True,
                check=False,
            ).stdout
            for shop in shops
        ]
        calls = [dict(re.findall(r"^function (\w+) called (\d+)", text, re.M)) for text in counts]
        assert len(calls[0]) >= 7 and calls[0]["tail"] == "150", counts[0]
        # it ran twice: idle and recorded
        assert {f: int(calls[1][f]) for f in calls[0]} == {
            f: 2 * int(n) for f, n in calls[0].items()
        }, counts[1]
    if name == "profile":
        # idle and recorded runs have written one profile: it serves
        for shop, result in ((shops[0], plain), (shops[1], plain)):
            assert list(shop.folder.glob("*.gcda")), "no profile"
            used = Option(["-fprofile-use", "-Wno-missing-profile", "-fprofile-partial-training"])
            build(shop, used)
            assert run(shop).stdout == result.stdout
        check(me, shops[1], plain, True)

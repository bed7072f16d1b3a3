# SPDX-License-Identifier: Apache-2.0
"""
Random C programs that print a checksum of all that they computed (csmith): the same plain, idle,
and with every probe recording, in each placement at -O0, -O2 and -O3. Seeds are fixed; a program
that does not end soon by itself, or whose checksum depends on the compiler without us (some are not
well defined), is left out for the next seed.

One again: IPROBE_TEST_FULL=1 /usr/bin/python3 -m pytest test/compilers/test_csmith.py -k
'seed7-'
"""

import shutil
import subprocess

import pytest

from conftest import FULL
from iptest import time_scale
from proof import matrix
from proof.shop import Shop

PROGRAMS = 500 if FULL else 50
LEVELS = ["-O0", "-O2", "-O3"]
INCLUDE = "/usr/include/csmith"
# The size of a program: large ones take gcc seconds each, and find little that small ones do not.
SIZE = [
    "--max-funcs",
    "6",
    "--max-block-size",
    "4",
    "--max-block-depth",
    "3",
    "--max-expr-complexity",
    "6",
]
VARIANTS = [
    [],
    ["--no-volatiles"],
    ["--no-unions"],
    ["--no-inline-function"],
    ["--inline-function", "--max-array-dim", "2"],
]
SECONDS = 2

pytestmark = pytest.mark.skipif(not shutil.which("csmith"), reason="no csmith")


def ways(number):
    """
    (compiler, placement, level): all of them in a full run. Else three for each program: each
    placement of gcc once, each at another level, so that all nine come round every three
    programs; clang in place of one of them for some.
    """
    gcc = [("gcc", p, o) for p in matrix.placements("gcc") for o in LEVELS]
    clang = [("clang", p, o) for p in matrix.placements("clang") for o in LEVELS]
    if FULL:
        return gcc + (clang if number % 5 == 0 else [])
    chosen = [("gcc", p, LEVELS[(number + i) % 3]) for i, p in enumerate(matrix.placements("gcc"))]
    if number % 4 == 0:
        chosen[number // 4 % len(chosen)] = clang[number // 4 % len(clang)]
    return chosen


def run(program, folder, prefix=()):
    return subprocess.run(
        [*map(str, prefix), str(program)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=time_scale.scaled(60),
    )


def plain_run(shop, source):
    """What it prints without us, the same by all compilers that we compare with, and within
    SECONDS of a CPU; None.
    """
    first = None
    for command in (["gcc", "-O2"], ["gcc", "-O0"], ["clang", "-O2"]):
        if not shutil.which(command[0]):
            continue
        done = shop.run(*command, "-w", "-I", INCLUDE, source, "-o", "plain")
        if done.returncode:
            return None
        done = run(shop.folder / "plain", shop.folder, ["prlimit", f"--cpu={SECONDS}"])
        first = first or done
        if (done.returncode, done.stdout) != (
            first.returncode,
            first.stdout,
        ) or not done.stdout.startswith("checksum = "):
            return None
    return first


def generate(shop, number):
    """A source that can be compared, and how its plain run ended."""
    for attempt in range(40):
        seed = number + 1000 * attempt + 1  # of two programs never the same
        source = shop.folder / f"seed{seed}.c"
        subprocess.run(
            ["csmith", "--seed", str(seed), *SIZE, *VARIANTS[number % len(VARIANTS)], "-o", source],
            cwd=shop.folder,
            check=True,
            timeout=time_scale.scaled(60),
            stdout=subprocess.DEVNULL,
        )
        done = plain_run(shop, source)
        if done:
            return source, done
    raise AssertionError("none of forty programs ends in time with one result")


@pytest.mark.parametrize("number", range(PROGRAMS), ids=lambda n: f"seed{n}-")
def test_same_checksum(number, me, tools):
    base = Shop(me.dir(), tools)
    source, plain = generate(base, number)
    for compiler, placement, level in ways(number):
        shop = Shop(base.folder / f"{compiler}-{placement}{level}", tools, placement, compiler)
        where = f"{source.name} by {compiler}, {placement} {level}"
        shop.ok(*shop.cc, level, "-w", "-I", INCLUDE, source, "-o", "program")
        idle = run(shop.folder / "program", shop.folder)
        assert (idle.returncode, idle.stdout, idle.stderr) == (
            plain.returncode,
            plain.stdout,
            plain.stderr,
        ), where
        # What loops for a second makes gigabytes of events: what is asked here is what it computes,
        # not what is kept.
        live = me.iprobe(
            "run",
            "--json",
            "--memory",
            "16M",
            "--max-size",
            "64M",
            "-o",
            shop.folder / "trace",
            "--",
            shop.folder / "program",
            cwd=shop.folder,
        )
        output, _, _ = live.stdout.rstrip("\n").rpartition("\n")
        assert (live.returncode, output + "\n") == (
            plain.returncode,
            plain.stdout,
        ), f"{where}: {live!r}"
        assert live.summary()["sites"] >= 2 and live.summary()["events"] >= 2, where
        shutil.rmtree(shop.folder)

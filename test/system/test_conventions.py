# SPDX-License-Identifier: Apache-2.0
"""
Functions with a calling convention of their own: more registers live through their returns than
the common one says. Their callers are in one source, so that the compiler counts on it, and are
themselves without probes.
"""

import shutil

import pytest

from iptest.building import record, run

# Ten values that live across the calls: where the convention keeps more registers the compiler uses
# them.
SOURCE = r"""
#include <stdio.h>
#define PLAIN __attribute__((no_instrument_function, noinline))
static volatile long zero;
CONVENTION __attribute__((noinline)) long add(long a, long b) { __asm__ volatile("" ::: "memory"); return a + b + zero; }
CONVENTION __attribute__((noinline)) long tail(long a, long b) { __asm__ volatile("" ::: "memory"); return add(b, a + 1); }
PLAIN long caller(long n)
{
    long a = zero + n, b = zero + 2 * n, c = zero + 3 * n, d = zero + 4 * n, e = zero + 5 * n;
    long f = zero + 6 * n, g = zero + 7 * n, h = zero + 8 * n, i = zero + 9 * n, j = zero + 10 * n;
    long x = add(n, 1), y = tail(n, 2);
    return (x - n - 1) + (y - n - 3) + (a - n) + (b - 2 * n) + (c - 3 * n) + (d - 4 * n) + (e - 5 * n) + (f - 6 * n) +
           (g - 7 * n) + (h - 8 * n) + (i - 9 * n) + (j - 10 * n);
}
PLAIN int main(void)
{
    long bad = 0;
    for (long n = 1; n < 200; n++)
        bad += caller(n * 1000003) != 0;
    printf("bad %ld\n", bad);
    return bad != 0;
}
"""

# (preserve_most is miscompiled by clang 14 itself here)
CONVENTIONS = [
    ("gcc", "ms_abi"),
    ("gcc", "sysv_abi"),
    ("clang", "ms_abi"),
    ("clang", "regcall"),
    ("clang", "vectorcall"),
]


@pytest.mark.parametrize("compiler,convention", CONVENTIONS)
def test_what_callers_keep(compiler, convention, tmp_path, builddir):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    (tmp_path / "p.c").write_text(SOURCE)
    run(
        builddir / "coldpatch" / "iprobe-cc",
        "-O2",
        f"-DCONVENTION=__attribute__(({convention}))",
        "p.c",
        "-o",
        "program",
        cwd=tmp_path,
        IPROBE_PLACEMENT="fentry",
        IPROBE_CC=compiler,
    )
    assert run(tmp_path / "program", cwd=tmp_path).stdout == "bad 0\n"
    trace = record(builddir, tmp_path / "program", tmp_path)
    assert trace.output == "bad 0\n" and trace.depth_at_end == 0
    assert sum(trace.entries.values()) == 3 * 199 == sum(trace.exits.values())

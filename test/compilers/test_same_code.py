# SPDX-License-Identifier: Apache-2.0
"""
Placement fentry with gcc adds marks to the code that gcc makes, and changes nothing else: without
the marks the assembly is, line by line, that of plain gcc. So an idle program costs what its marks
become (one NOP an entry), and nothing in it is slower for a reason that nobody knows.
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

SOURCES = pathlib.Path(__file__).parent / "programs"
# In front of and behind the mark of a nested function gcc saves the register of its static chain.
MARKS = re.compile(
    r"(?:\tpushq\t%r10\n)?1:\tcall\t\*?__fentry__(@GOTPCREL\(%rip\))?\n"
    r'\t\.section __mcount_loc, "a",@progbits\n\t\.quad 1b\n\t\.previous\n(?:\tpopq\t%r10\n)?'
    r"|1:\n\t\.byte\t0x0f, 0x1f, 0x44, 0x00, 0x00\n"
    r'\t\.section __return_loc, "a",@progbits\n\t\.quad 1b\n\t\.previous\n'
)
# Functions that keep values across calls, that call nothing and have locals, that end with a jump
SHAPES = """
#include <stdarg.h>
__attribute__((noinline)) static unsigned step(unsigned a) { __asm__ volatile(""); return a * 5; }
unsigned many(unsigned n, unsigned b, unsigned c, unsigned d)
{
	unsigned f = n ^ b, g = n ^ c, h = n ^ d;

	for (unsigned k = 0; k < n; k++) {
		f += step(g) ^ b;
		g += step(h) ^ c;
		h += step(f) ^ d;
	}
	return f ^ g ^ h;
}
int leaf(int a) { volatile int x[4]; x[0] = a; x[1] = x[0]; return x[1]; }
double real(double x, int k) { volatile double y = x; return y * k; }
int last(int a) { return a > 3 ? leaf(a + 1) : (int)step(a); }
int (*pointer)(int);
int through(int a) { return pointer(a - 1); }
int sum(int n, ...)
{
	int s = 0;
	va_list l;

	va_start(l, n);
	while (n--)
		s += va_arg(l, int);
	va_end(l);
	return s;
}
__attribute__((optimize("O3"))) int other(int a) { return last(a) + leaf(a); }
int behind(int a) { return other(a) + last(a) * 2; }
"""


def assembly(folder, command, *flags):
    """Without what differs by name alone: labels are numbered by their first use."""
    names = {}
    done = subprocess.run(
        [command, "-w", "-S", *flags, "-o", "-"],
        cwd=folder,
        env={**os.environ, "IPROBE_PLACEMENT": "fentry", "IPROBE_CC": "gcc", "IPROBE_CXX": "g++"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    text, marks = MARKS.subn("", done.stdout)
    return (
        re.sub(r"\.L[A-Za-z]*\d+", lambda m: names.setdefault(m[0], f".L{len(names)}"), text),
        marks,
    )


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++")
@pytest.mark.parametrize(
    "source, flags",
    [
        *(
            ("shapes.c", flags)
            for flags in (
                "-O0",
                "-Og",
                "-O1",
                "-O3",
                "-Os",
                "-Ofast",
                "-O2 -fPIC",
                "-O2 -fcf-protection",
                "-O2 -fno-omit-frame-pointer -fstack-protector-strong",
                "-O2 -ffunction-sections -fno-reorder-blocks-and-partition",
                "-O2 -fno-plt -fPIC -mfunction-return=thunk -mindirect-branch=thunk",
                "-O2 -fno-ipa-ra",
            )
        ),
        ("forms.c", "-O2"),
        ("forms.c", "-O0"),
        ("forms.cc", "-O2"),
        ("forms.cc", "-Os -fPIC"),
    ],
)
def test_the_code_is_gcc_s(source, flags, me, tools):
    folder = me.dir()
    (folder / "shapes.c").write_text(SHAPES)
    cxx = source.endswith(".cc")
    path = folder / source if source == "shapes.c" else SOURCES / source
    plain, none = assembly(folder, "g++" if cxx else "gcc", *flags.split(), path)
    marked, marks = assembly(
        folder, tools / ("iprobe-c++" if cxx else "iprobe-cc"), *flags.split(), path
    )
    assert none == 0 and marks > 15
    assert marked == plain

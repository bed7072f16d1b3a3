# SPDX-License-Identifier: Apache-2.0
"""
The table of combinations that iprobe-cc is proved with, what it does not offer and why, and a
choice of cases in which each pair of values occurs.
"""

import collections
import itertools

Case = collections.namedtuple("Case", "compiler placement optimisation mode language linker")

DIMENSIONS = Case(
    compiler=["gcc", "clang"],
    placement=["fentry", "inline", "instrument"],
    optimisation=["-O0", "-O1", "-O2", "-O3", "-Os", "-O2 -flto"],
    mode=["pie", "no-pie", "shared", "static", "static-pie", "no-plt", "now", "cet", "large"],
    language=["c", "cc"],
    linker=["bfd", "gold", "lld"],
)

REAL = {
    ("gcc", "c"): "gcc",
    ("gcc", "cc"): "g++",
    ("clang", "c"): "clang",
    ("clang", "cc"): "clang++",
}

# What is given to the compiler, and to the command that links besides.
MODES = {
    "pie": (["-fPIE"], ["-pie"]),
    "no-pie": (["-fno-pie"], ["-no-pie"]),
    "shared": (["-fPIC"], ["-shared"]),
    "static": (["-fno-pie"], ["-static"]),
    "static-pie": (["-fPIE"], ["-static-pie"]),
    "no-plt": (["-fno-plt"], []),
    "now": ([], ["-Wl,-z,now"]),
    "cet": (["-fcf-protection"], []),
    # -g: where the compiler keeps a function's address in a register for long, debug information
    # tells whose a site is
    "large": (["-mcmodel=large", "-fno-pie", "-g"], ["-no-pie"]),
}

LANGUAGES = {"c": ["-std=gnu17"], "cc": ["-std=c++17"]}


def fits(case):
    """
    Whether the toolchain itself can do this, without iprobe; what it cannot is no part of the
    table.
    """
    if case.compiler == "gcc" and "-flto" in case.optimisation and case.linker == "lld":
        return False  # lld has no plugins, so cannot read what gcc wrote
    if case.linker == "gold" and case.mode == "static-pie":
        return False  # gold does not know --no-dynamic-linker
    return True


# What iprobe does not offer: iprobe-cc says one line that has `says` in it, and fails, or leaves
# what it linked as it was.
Refusal = collections.namedtuple("Refusal", "reason says fails")


def refusal(case):
    if case.compiler == "clang" and case.placement == "inline":
        return Refusal(
            "clang calls hooks by their address, and inlines none",
            "clang has fentry and instrument only",
            True,
        )
    if case.compiler == "clang" and case.placement == "instrument" and case.mode == "large":
        return Refusal(
            "it calls hooks through registers, many by one load",
            "compile with gcc, or in placement fentry",
            False,
        )
    return None


def name(case):
    return "-".join(
        [
            case.compiler,
            case.placement,
            case.optimisation.replace(" -f", "").lstrip("-"),
            case.mode,
            case.language,
            case.linker,
        ]
    )


def everything():
    """All cases, offered or not."""
    return [case for case in map(Case._make, itertools.product(*DIMENSIONS)) if fits(case)]


def refused():
    """For each reason, compiler, placement and language that is not offered, one case."""
    found = {}
    for case in everything():
        if refusal(case):
            found.setdefault((refusal(case), case.compiler, case.placement, case.language), case)
    return list(found.values())


def pairs(case):
    """The pairs of values that occur in a case."""
    return set(itertools.combinations(zip(Case._fields, case), 2))


def pairwise(cases):
    """
    A choice of the cases in which each pair of values occurs that occurs in any; the same on
    every run: always the first of those that bring most new pairs.
    """
    left = set().union(*map(pairs, cases))
    chosen = []
    while left:
        best = max(cases, key=lambda case: len(pairs(case) & left))
        chosen.append(best)
        left -= pairs(best)
    return chosen


def placements(compiler):
    """Those that iprobe-cc offers with this compiler, for an ordinary program."""
    usual = Case(compiler, "", "-O2", "pie", "c", "bfd")
    return [p for p in DIMENSIONS.placement if not refusal(usual._replace(placement=p))]

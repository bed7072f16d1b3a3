# SPDX-License-Identifier: Apache-2.0
"""
Each combination of compiler, placement, optimisation, kind of link, language and linker
(proof/matrix.py): it builds, its sites are exact NOPs, its list is what the compiler's own
assembly says, it runs idle and with every probe recording as it does without us, and the trace
has the calls that the program counted.
"""

import itertools
import os
import pathlib
import re
import shlex
import subprocess

import pytest

from conftest import FULL
from iptest import time_scale
from iptest.actor import Result
from iptest.probe_list import read_list
from proof import matrix, trace, truth

SOURCES = pathlib.Path(__file__).parent / "programs"
STAGE = pathlib.Path(__file__).parents[2] / "coldpatch" / "stage" / "include"

ALL = [case for case in matrix.everything() if not matrix.refusal(case)]
CASES = [case for case in ALL if case.linker == "bfd"] if FULL else []
CASES += [case for case in matrix.pairwise(ALL) if case not in CASES]

# Functions of the sources, and of the compiler's own, that have no entry where only code that a
# user wrote has.
NO_PROBES = re.compile(
    r"resolve|uninstrumented|calls_count|calls_print|_ZThn|_ZTv|_ZTc|_ZTW|_ZTH"
    r"|__clang_call_terminate|.*\.cold$"
)

# What iprobe-cc adds to each compilation, as far as it decides what hooks there are.
HOOKS = {
    ("gcc", "instrument"): ["-finstrument-functions", "-fno-crossjumping"],
    ("clang", "instrument"): [
        "-finstrument-functions",
        "-mllvm",
        "-enable-tail-merge=0",
        "-mllvm",
        "-simplifycfg-sink-common=false",
    ],
    ("clang", "fentry"): [
        "-Xclang",
        "-pg",
        "-Xclang",
        "-mfentry",
        "-Xclang",
        "-fxray-instrument",
        "-Xclang",
        "-fxray-instruction-threshold=1",
        "-Xclang",
        "-fxray-instrumentation-bundle=function-exit",
    ],
    ("gcc", "inline"): [
        "-finstrument-functions",
        "-fno-crossjumping",
        "-mno-red-zone",
        "-include",
        str(SOURCES / "inline_hooks.h"),
    ],
    # and the plugin that asks for the marks (truth())
    ("gcc", "fentry"): ["-mfentry", "-minstrument-return=nop5"],
}
LINK_HOOKS = {
    "clang": [
        "-Wl,-plugin-opt=-enable-tail-merge=0",
        "-Wl,-plugin-opt=-simplifycfg-sink-common=false",
    ],
}


def test_the_choice_has_each_pair():
    chosen = matrix.pairwise(ALL)
    assert chosen == matrix.pairwise(ALL)
    assert set().union(*map(matrix.pairs, chosen)) == set().union(*map(matrix.pairs, ALL))
    assert len(chosen) < 80
    # No two values are kept apart by mistake: what does not occur together is what the table says.
    missing = {
        (a, b)
        for (f, xs), (g, ys) in itertools.combinations(matrix.DIMENSIONS._asdict().items(), 2)
        for a in xs
        for b in ys
        if not any(getattr(c, f) == a and getattr(c, g) == b for c in ALL)
    }
    declared = {(case.compiler, case.placement) for case in matrix.refused()}
    assert missing - declared == {("static-pie", "gold")} | {
        (placement, value)
        for placement in matrix.DIMENSIONS.placement
        for field in matrix.DIMENSIONS[2:]
        for value in field
        if all((compiler, placement) in declared for compiler in matrix.DIMENSIONS.compiler)
    }


class Build:
    """One case in a folder of its own."""

    def __init__(self, case, folder, tools):
        self.case, self.folder, self.tools = case, folder, tools
        self.library = case.mode == "shared"
        compiled, linked = matrix.MODES[case.mode]
        self.flags = [
            *case.optimisation.split(),
            *matrix.LANGUAGES[case.language],
            *compiled,
            "-pthread",
            "-w",
        ]
        if self.library:
            self.flags.append("-Dmain=forms_main")
            if case.language == "cc":
                (folder / "host.cc").write_text(
                    "int forms_main(int, char **); int main(int n, char **v) "
                    "{ return forms_main(n, v); }\n"
                )
        self.linked, self.last = [*linked, f"-fuse-ld={case.linker}"], []
        self.source = SOURCES / f"forms.{case.language}"
        self.real = matrix.REAL[case.compiler, case.language]
        self.choice = {
            "IPROBE_CC": matrix.REAL[case.compiler, "c"],
            "IPROBE_PLACEMENT": case.placement,
        }
        self.prepared = [str(tools / ("iprobe-c++" if case.language == "cc" else "iprobe-cc"))]

    def run(self, command, **env):
        full = {k: v for k, v in os.environ.items() if not k.startswith("IPROBE_")}
        full.update(env, LC_ALL="C")
        done = subprocess.run(
            [str(c) for c in command],
            cwd=self.folder,
            env=full,
            capture_output=True,
            text=True,
            check=False,
            timeout=time_scale.scaled(300),
        )
        return Result(
            [f"{k}={shlex.quote(v)}" for k, v in env.items()] + command,
            done.returncode,
            done.stdout,
            done.stderr,
        )

    def module(self, kind):
        return self.folder / kind / ("libforms.so" if self.library else "forms")

    def compile(self, kind, compiler, extra=(), **env):
        """Compiles and links in two steps, as build systems do."""
        (self.folder / kind).mkdir()
        steps = [
            [*compiler, *extra, *self.flags, "-c", self.source, "-o", f"{kind}/forms.o"],
            [
                *compiler,
                *self.flags,
                *self.linked,
                f"{kind}/forms.o",
                *self.last,
                "-o",
                self.module(kind),
            ],
        ]
        said = ""
        for step in steps:
            done = self.run(step, **env)
            said += done.stderr
            if done.returncode:
                return done, said
        return done, said

    def program(self, kind):
        """What to run: the module or the host that loads it. The host is never ours."""
        if not self.library:
            return self.module(kind)
        host = self.folder / kind / "host"
        source = self.folder / "host.cc" if self.case.language == "cc" else SOURCES / "host.c"
        done = self.run([self.real, source, self.module(kind), "-Wl,-rpath,$ORIGIN", "-o", host])
        assert done.returncode == 0, repr(done)
        return host

    def truth(self, symbols):
        """What the compiler made, by its assembly, or by the same link without us where there is
        none before it.
        """
        hooks = HOOKS[self.case.compiler, self.case.placement]
        if (self.case.compiler, self.case.placement) == ("gcc", "fentry"):
            plugin = self.tools / "stage" / "gcc_plugin" / "iprobe_entries.so"
            hooks = [f"-fplugin={plugin}", *hooks]
        if self.case.mode == "large" and self.case.placement == "instrument":
            hooks = [*hooks, "-mno-red-zone", "-fno-gcse", "-include", STAGE / "iprobe_large.h"]
        lto = "-flto" in self.case.optimisation
        if lto and self.case.placement != "instrument":
            # fentry: the linked code has to do (check_fentry_code); inline: the calls that the
            # program counts
            return None
        if lto:
            self.linked += LINK_HOOKS.get(self.case.compiler, [])
            if self.case.compiler == "clang":
                # members of libstdc++'s templates that clang without us would have inlined
                self.last += [self.tools.parent / "runtime" / "iprobe-inlined.ar"]
            done, _ = self.compile("hooked", [self.real, *hooks])
            assert done.returncode == 0, repr(done)
            return symbols.counts(truth.hooks_in_file(self.module("hooked")))
        done = self.run([self.real, *hooks, *self.flags, "-S", self.source, "-o", "forms.s"])
        assert done.returncode == 0, repr(done)
        text = (self.folder / "forms.s").read_text()
        if self.case.placement == "fentry":
            read = (
                truth.fentry_in_assembly if self.case.compiler == "gcc" else truth.sleds_in_assembly
            )
            found, without = read(text)
            # The count would prove little if the compiler itself had forgotten a function.
            assert not {f for f in without if not NO_PROBES.search(f)}
            return symbols.counts(found)
        if self.case.placement == "inline":
            return symbols.counts(truth.marks_in_assembly(text))
        return symbols.counts(truth.hooks_in_assembly(text))


def read_probes(module, folder):
    subprocess.run(
        ["objcopy", "--dump-section", f".iprobe.probes={folder}/list", str(module), os.devnull],
        check=True,
    )
    return read_list(folder / "list")


def check_list(build, module):
    """The list is of the right placement, its sites are idle, there and nowhere else is what the
    compiler made.
    """
    listed = read_probes(module, build.folder)
    assert listed.placement == build.case.placement
    truth.check_idle(module, listed.probes)
    truth.check_no_relocation_in_text(module)
    assert not truth.hooks_in_file(module), "calls of hooks are left"
    symbols = truth.Symbols(module)
    compiled, sites = build.truth(symbols), symbols.sites(listed.probes)
    if "-flto" in build.case.optimisation and build.case.mode.startswith("static") and compiled:
        # Without assembly nothing tells the hooks apart: in libc they share one address.
        compiled, sites = symbols.without_kinds(compiled), symbols.without_kinds(sites)
    wrong = compiled is not None and symbols.differences(sites, compiled)
    assert not wrong, "\n".join(wrong)
    if build.case.placement == "fentry":
        truth.check_fentry_code(module, listed.probes)
    names = {trace.short(name) for name in demangled({p.function.name for p in listed.probes})}
    assert "main" in names or "forms_main" in names
    assert not names & {"resolve", "uninstrumented", "calls_count", "calls_print"}
    return listed


def demangled(names):
    done = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def complaints(said):
    """What a build says on stderr, without gcc's remark that it could use more processors if
    there is enough to do.
    """
    return [line for line in said.splitlines() if not line.startswith("lto-wrapper: ")]


def check_live(build, me, program, plain, listed):
    directory = build.folder / "trace"
    live = me.iprobe(
        "run", "--json", "--memory", "64M", "-o", directory, "--", program, cwd=build.folder
    )
    assert live.returncode == plain.returncode, repr(live)
    output, _, summary = live.stdout.rstrip("\n").rpartition("\n")
    assert trace.comparable(output) == trace.comparable(plain.stdout), repr(live)
    assert live.summary()["lost"] == 0, summary
    dump = me.iprobe("dump", "--json", directory)
    assert dump.returncode == 0, repr(dump)[:2000]
    missing = truth.left_out(listed.probes)
    assert bool(missing) == ("left out" in live.stderr), repr(live)
    seen = trace.Trace(dump.stdout, missing)
    calls = trace.program_calls(plain.stdout)
    assert len(calls) > 30
    if build.library:
        calls["forms_main"] = calls.pop("main", calls.get("forms_main"))
    quiet = build.case.placement == "fentry" or build.case.compiler == "clang"
    seen.check_balance(calls, quiet)
    # Debug information does not say whose operator() a lambda's is.
    seen.check_calls(
        calls,
        build.case.placement != "fentry",
        {"operator-call"} if build.case.placement == "inline" else (),
    )
    assert len(seen.threads) > 1


@pytest.mark.parametrize("case", matrix.refused(), ids=matrix.name)
def test_what_is_not_offered_is_refused(case, me, tools):
    build = Build(case, me.dir(), tools)
    done, said = build.compile("ours", build.prepared, **build.choice)
    assert len(said.splitlines()) == 1 and matrix.refusal(case).says in said, repr(done)
    assert done.returncode == matrix.refusal(case).fails, repr(done)
    if not done.returncode:
        assert build.run([build.program("ours")]).returncode in (3, 4)


@pytest.mark.parametrize("case", CASES, ids=matrix.name)
def test_case(case, me, tools):
    build = Build(case, me.dir(), tools)
    plain, said_plain = build.compile("plain", [build.real])
    assert (
        plain.returncode == 0
    ), f"the table must not promise what the toolchain cannot do: {plain!r}"
    done, said = build.compile("ours", build.prepared, **build.choice)
    assert done.returncode == 0, repr(done)
    assert complaints(said) == complaints(said_plain)
    at_rest = build.run([build.program("plain")])
    idle = build.run([build.program("ours")])
    assert (idle.returncode, idle.stderr) == (at_rest.returncode, at_rest.stderr), repr(idle)
    assert trace.comparable(idle.stdout) == trace.comparable(at_rest.stdout)
    assert at_rest.returncode == (4 if case.language == "cc" else 3), "the program itself is broken"
    listed = check_list(build, build.module("ours"))
    check_live(build, me, build.program("ours"), at_rest, listed)

# SPDX-License-Identifier: Apache-2.0
"""
Placements fentry and inline with gcc: what iprobe-cc makes of command lines, what stands in the
modules, and traces of it. The table of combinations is in test/compilers; here are the traps.
"""

import os
import pathlib
import re
import shutil
import subprocess
import textwrap

import pytest

import test_trees
from iptest import probe_list
from iptest.probe_list import ENTRY, EXIT, TAIL_EXIT
from test_wrapper import Box

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")

LINKERS = [
    name
    for name, program in (
        ("bfd", "ld.bfd"),
        ("gold", "ld.gold"),
        ("lld", "ld.lld"),
        ("mold", "mold"),
    )
    if shutil.which(program)
]

SHAPES = """
#include <stdio.h>
__attribute__((noinline)) int leaf(int a) { return a * 3; }
__attribute__((noinline)) int ways(int a)
{
	if (a == 7)
		return -1;
	if (a > 2)
		return leaf(a + 1);
	__asm__ volatile("");
	return a;
}
static inline int small(int a) { return a + 1; }
__attribute__((noinline, used)) int dead(int a) { return small(leaf(a)); }
__attribute__((no_instrument_function, noinline)) int quiet(int a) { return a - 1; }
int main(int argc, char **argv)
{
	printf("%d %d %d\\n", ways(argc), ways(argc + 2), quiet(small(argc)));
	return 0;
}
"""
OUTPUT = "1 12 1\n"


class Placed(Box):
    placement = "fentry"

    def environment(self, **more):
        return super().environment(
            **{"IPROBE_PLACEMENT": self.placement, "IPROBE_CC": "gcc", "IPROBE_CXX": "g++", **more}
        )

    def probes(self, path):
        """The list of a module, whose sites are idle; {function: [kinds]}."""
        at = self.folder / path
        listed = self.folder / "list"
        subprocess.run(
            ["objcopy", "--dump-section", f".iprobe.probes={listed}", str(at), os.devnull],
            check=True,
        )
        made = probe_list.read_list(listed)
        segments = re.findall(
            r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", self.run(["readelf", "-lW", at]).stdout
        )
        data = at.read_bytes()
        kinds = {}
        for probe in made.probes:
            offset = next(
                int(o, 16) + probe.offset - int(v, 16)
                for o, v, n in segments
                if int(v, 16) <= probe.offset < int(v, 16) + int(n, 16)
            )
            assert data[offset : offset + probe.length] == probe_list.idle(probe)
            kinds.setdefault(probe.function.name, []).append(probe.kind)
        sections = self.run(["readelf", "-SW", at]).stdout
        assert (
            ".pdr" not in sections
            and "__mcount_loc" not in sections
            and "__return_loc" not in sections
        )
        assert "TEXTREL" not in self.run(["readelf", "-dW", at]).stdout
        assert made.placement == self.placement and made.found_by & probe_list.TABLE
        return made, kinds

    def build(self, *arguments, out="program", **env):
        self.silent(self.cc(*arguments, "-o", out, **env))
        return self.probes(out)


@pytest.fixture
def box(tmp_path, builddir):
    box = Placed(tmp_path, builddir)
    (tmp_path / "shapes.c").write_text(SHAPES)
    return box


@pytest.fixture(params=["fentry", "inline"])
def both(request, box):
    box.placement = request.param
    return box


def runs(box, program="program", output=OUTPUT):
    done = box.run([box.folder / program])
    assert (done.returncode, done.stdout) == (0, output)


# --- what the sites are


def test_fentry_is_the_default(box):
    box.silent(box.cc("-O2", "shapes.c", "-o", "program", IPROBE_PLACEMENT=""))
    _, kinds = box.probes("program")
    assert set(kinds["main"]) == {ENTRY, EXIT}


def test_fentry_sites(box):
    made, kinds = box.build("-O2", "shapes.c")
    assert sorted(kinds["ways"]) == [ENTRY, EXIT, EXIT, TAIL_EXIT] or sorted(kinds["ways"]) == [
        ENTRY,
        EXIT,
        TAIL_EXIT,
    ]
    assert sorted(kinds["leaf"]) == [ENTRY, EXIT] and "quiet" not in kinds and "small" not in kinds
    for probe in made.probes:
        assert not probe.flags & probe_list.INLINED
        # the return and the jump are sites themselves
        assert (probe.form, probe.regs) == {
            ENTRY: (probe_list.FORM_CALL, probe_list.REGS_ENTRY),
            EXIT: (probe_list.FORM_RETURN, probe_list.REGS_RETURN),
            TAIL_EXIT: (probe_list.FORM_TAIL, probe_list.REGS_ALL),
        }[probe.kind]
    runs(box)
    # nothing but the NOPs: without them it is the code that plain gcc makes, but for what it keeps
    # in registers across calls
    plain = box.run(["gcc", "-O2", "-S", "shapes.c", "-o", "-"]).stdout
    ret = len(re.findall(r"^\tret", plain, re.M)) - 1  # quiet()'s
    assert sum(p.kind == EXIT for p in made.probes) == ret
    assert "__fentry__" not in box.run(["nm", "program"]).stdout


def test_inline_sites(box):
    box.placement = "inline"
    made, kinds = box.build("-O2", "shapes.c")
    assert sorted(kinds["leaf"]) == [ENTRY, EXIT] and "quiet" not in kinds
    small = [p for p in made.probes if p.function.name == "small"]
    assert len(small) >= 4 and all(p.flags & probe_list.INLINED for p in small)
    assert all(
        p.form == probe_list.FORM_CALL and p.regs == probe_list.REGS_ALL for p in made.probes
    )
    assert {pathlib.Path(p.function.file).name for p in made.probes} == {"shapes.c"}
    runs(box)
    made, _ = box.build("-O2", "-mred-zone", "shapes.c")
    assert all(p.form == probe_list.FORM_JUMP for p in made.probes)
    runs(box)


@pytest.mark.parametrize(
    "behind, live",
    [
        (["je\t1f"], True),
        (["movl\t$1, %eax", "setne\t%al"], True),
        (["jmp\t*%rax"], True),
        (["rep stosq"], True),
        (["cmpb\t$1, %al", "je\t1f"], False),
        (["movaps\t%xmm0, %xmm1", "ret"], False),
        (["testl\t%eax, %eax"], False),
    ],
)
def test_sites_whose_flags_are_live_cross_no_page(box, behind, live):
    """Such a site could not be patched; one whose flags are not is not moved. Text as gcc writes
    it, at each place in 16 bytes.
    """
    code = "\n".join("\t" + line for line in behind)
    text = "\n".join(
        f"\t.p2align 4\n\t{'nop;' * before}\n#APP\n\t.byte 0x0f,0x1f,0x44,0,0 "
        f"#iprobe:1\n#NO_APP\n{code}\n1:\n\tret"
        for before in range(16)
    )
    (box.folder / "text.s").write_text(f"\t.text\n\t.globl\tf\nf:\n{text}\n")
    box.silent(box.cc("-c", "text.s", "-o", "text.o", IPROBE_PLACEMENT="inline", IPROBE_CC="gcc"))
    box.silent(box.run(["objcopy", "--dump-section", ".pdr.iprobe=records", "text.o", "copy.o"]))
    records = (box.folder / "records").read_bytes()
    offsets = [
        int.from_bytes(records[at + 12 : at + 16], "little") for at in range(0, len(records), 16)
    ]
    assert len(offsets) == 16
    assert [offset % 16 for offset in offsets] == (
        [*range(12), 0, 0, 0, 0] if live else [*range(16)]
    )


def test_debug_information_is_there_for_those_who_asked(box):
    box.placement = "inline"

    def has_debug(*arguments):
        box.build("-O2", "shapes.c", *arguments)
        return ".debug_info" in box.run(["readelf", "-SW", "program"]).stdout

    assert not has_debug()
    assert not has_debug("-flto")
    assert has_debug("-g") and has_debug("-g1") and has_debug("-flto", "-g")
    # one of the user's objects has it
    box.silent(box.run(["gcc", "-g", "-c", "twice.c"]))
    assert has_debug("twice.o")


@pytest.mark.parametrize(
    "flags",
    [
        "-mcmodel=large",
        "-mcmodel=large -fPIC",
        "-fno-plt",
        "-fcf-protection=full",
        "-masm=intel",
        "-pipe",
        "-save-temps",
        "-fomit-frame-pointer",
        "-fverbose-asm -dA -dp",
        "-mharden-sls=all",
        "-static-pie",
        "-no-pie -fno-pie",
        "-mfunction-return=thunk-inline -mindirect-branch=thunk-inline -fcf-protection=none",
        "-flto -ffat-lto-objects",
        "-fsplit-stack",
        "-fpatchable-function-entry=5",
        "-g -gsplit-dwarf",
        "-Wl,-q",
        "-ffunction-sections",
    ],
)
def test_flags(both, flags):
    if "split-stack" in flags and both.placement == "fentry":
        both.silent(both.cc("-O2", *flags.split(), "shapes.c", "-o", "program"))
        both.patched("program")  # by another placement
        return
    _, kinds = both.build("-O2", *flags.split(), "shapes.c")
    expected = [ENTRY, EXIT]
    assert (
        kinds["leaf"].count(ENTRY) == 1
        and set(kinds["leaf"]) == set(expected)
        and ENTRY in kinds["ways"]
    )
    runs(both)


@pytest.mark.parametrize("linker", LINKERS)
def test_dead_code_has_no_probes(both, linker):
    """gold and mold keep the records of code that they drop; gold would refuse them under most
    names.
    """
    source = SHAPES.replace(", used", "")
    (both.folder / "shapes.c").write_text(source)
    _, kinds = both.build(
        "-O2", "-ffunction-sections", "-Wl,--gc-sections", f"-fuse-ld={linker}", "shapes.c"
    )
    assert "dead" not in kinds and "leaf" in kinds
    runs(both)


@pytest.mark.parametrize("linker", LINKERS)
def test_templates_of_several_objects(both, linker):
    (both.folder / "t.h").write_text(
        "template<class T> struct Box { T v; __attribute__((noinline)) T get(int n) { if (n < 0) "
        "throw 1; return v * n; } };\n"
        'extern "C" int other(int);\n'
    )
    (both.folder / "t1.cc").write_text(
        '#include "t.h"\nint main(int argc, char **) '
        "{ try { if (Box<int>{3}.get(argc) + other(argc) != 8) return 1; "
        "Box<int>{3}.get(-argc); } catch (int) { return 0; } return 2; }\n"
    )
    (both.folder / "t2.cc").write_text(
        '#include "t.h"\nint other(int x) { return Box<int>{x}.get(5); }\n'
    )
    both.silent(both.cxx("-O2", "t1.cc", "t2.cc", f"-fuse-ld={linker}", "-o", "program"))
    _, kinds = both.probes("program")
    assert kinds["_ZN3BoxIiE3getEi"].count(ENTRY) == 1
    runs(both, output="")


@pytest.mark.parametrize("linker", [name for name in LINKERS if name != "mold"])
def test_relocatable_link(both, linker):
    both.silent(both.cc("-O2", "-ffunction-sections", "-c", "shapes.c"))
    both.silent(both.run(["ld." + linker, "-r", "shapes.o", "-o", "whole.o"]))
    _, kinds = both.build("whole.o")
    assert sorted(kinds["leaf"]) == [ENTRY, EXIT]
    runs(both)


@pytest.mark.parametrize("linker", [name for name in LINKERS if name != "bfd"])
def test_folded_functions(both, linker):
    (both.folder / "same.c").write_text(
        "int one(int a) { return a * 3; }\nint two(int a) { return a * 3; }\n"
        "int main(int argc, char **argv) { return one(argc) != two(argc); }\n"
    )
    both.build("-O1", "-ffunction-sections", "-Wl,--icf=all", f"-fuse-ld={linker}", "same.c")
    runs(both, output="")


def test_objects_of_all_placements(box):
    for placement in ("fentry", "inline", "instrument"):
        (box.folder / f"{placement}.c").write_text(
            f"int by_{placement}(int n) {{ return n + 1; }}\n"
        )
        box.silent(box.cc("-O2", "-c", f"{placement}.c", IPROBE_PLACEMENT=placement))
    (box.folder / "all.c").write_text(
        "int by_fentry(int), by_inline(int), by_instrument(int);\n"
        "int main(void) { return by_fentry(0) + by_inline(0) + by_instrument(0) != 3; }\n"
    )
    box.silent(box.run(["ar", "rcs", "libparts.a", "inline.o", "instrument.o"]))
    made, kinds = box.build("-O2", "all.c", "fentry.o", "libparts.a")
    for placement in ("fentry", "inline", "instrument"):
        assert sorted(kinds[f"by_{placement}"]) == [ENTRY, EXIT], placement
    assert made.found_by & ~probe_list.TABLE
    runs(box, output="")


# --- what must not have any


def test_resolvers_have_none(both):
    (both.folder / "ifunc.c").write_text(
        "int twice(int n) { return 2 * n; }\n"
        "static void *choose(void) { return twice; }\n"
        'int chosen(int) __attribute__((ifunc("choose")));\n'
        "int main(void) { return chosen(21) != 42; }\n"
    )
    for flags in (), ("-static",):
        _, kinds = both.build("-O1", *flags, "ifunc.c")
        assert "choose" not in kinds and "chosen" not in kinds and "twice" in kinds
        runs(both, output="")


NAKED = """
__attribute__((naked)) int bare(int n) { __asm__("lea 1(%rdi), %eax; ret"); }
__attribute__((noinline)) void trap(int n) { if (n > 9) { __asm__ volatile("nop"); __builtin_trap(); } }
int main(int argc, char **argv) { trap(argc); return bare(41) != 42; }
"""


@pytest.mark.parametrize("opt", ["-O0", "-O2"])
def test_naked_functions_have_none(both, opt):
    (both.folder / "naked.c").write_text(NAKED)
    _, kinds = both.build(opt, "naked.c")
    assert "bare" not in kinds and ENTRY in kinds["trap"]
    runs(both, output="")


def test_a_naked_function_that_gcc_breaks_is_named(box):
    (box.folder / "naked.c").write_text(NAKED)
    done = box.cc("-c", "naked.c", IPROBE_PLACEMENT="instrument")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 0 and line.startswith("iprobe-cc: warning: bare is naked")
    (box.folder / "naked.c").write_text(NAKED.replace("naked", "naked, no_instrument_function"))
    box.silent(box.cc("-c", "naked.c", IPROBE_PLACEMENT="instrument"))


# --- command lines


def test_assembler_of_the_user_is_his_own(both):
    (both.folder / "own.s").write_text(
        "\t.text\n\t.globl f\nf:\tcall __fentry__\n1:\tcall\t__fentry__\n\tret\n"
    )
    (both.folder / "own2.S").write_text(
        "#define R ret\n\t.text\n\t.globl g\ng:\tR\n" '\t.section .note.GNU-stack,"",@progbits\n'
    )
    both.unchanged(["-c", "own.s"], files=["own.o"], IPROBE_CC="gcc")
    both.unchanged(["-c", "own2.S"], files=["own2.o"], IPROBE_CC="gcc")
    # beside a source
    both.build("-O2", "shapes.c", "own2.S")
    runs(both)


def test_mistakes_in_asm_are_reported_where_they_are(both):
    (both.folder / "wrong.c").write_text(
        'int f(int n) { return n; }\nint g(int n) { __asm__("nonsense"); return n; }\n'
    )
    said = []
    for command in (["gcc"], [both.tools / "iprobe-cc"]):
        done = both.run([*command, "-O2", "-c", "wrong.c"])
        assert done.returncode == 1
        said.append(re.sub(r"/tmp/[\w./-]+", "x", done.stderr))
    assert said[0] == said[1] and "wrong.c:2" in said[0]
    assert not (both.folder / "wrong.o").exists()


def test_assembly_output_goes_on_by_hand(both):
    both.silent(both.cc("-O2", "-S", "shapes.c", "-o", "out.s"))
    _, kinds = both.build("out.s")
    assert sorted(kinds["leaf"]) == [ENTRY, EXIT]
    runs(both)


def test_sources_are_seen_as_they_are(both):
    """No counter, line, dependency or precompiled header changes for what stands in front of the
    source.
    """
    (both.folder / "own.h").write_text("static const int own = __COUNTER__;\n")
    (both.folder / "seen.c").write_text(
        '#include "own.h"\n#if __COUNTER__ != 1 || __LINE__ != 2 || __INCLUDE_LEVEL__\n'
        "#error changed\n#endif\n"
        "int main(void) { return own; }\n"
    )
    both.silent(
        both.cc(
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-std=c89",
            "-MMD",
            "-MF",
            "seen.d",
            "-c",
            "seen.c",
        )
    )
    assert (both.folder / "seen.d").read_text() == "seen.o: seen.c own.h\n"
    both.silent(both.cc("own.h"))
    done = both.cc("-include", "own.h", "-Winvalid-pch", "-H", "-c", "twice.c")
    assert done.stderr.startswith("! ./own.h.gch\n"), "the precompiled header is not used"
    both.unchanged(["-E", "seen.c"], IPROBE_CC="gcc")


def test_own_profile_is_left_alone(box):
    done = box.cc("-pg", "shapes.c", "-o", "program")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 0 and line.startswith("iprobe-cc: warning: -pg ")
    assert box.sites("program") == -1
    runs(box)
    assert (box.folder / "gmon.out").exists()
    (box.folder / "gmon.out").unlink()
    box.build("-O2", "shapes.c")
    runs(box)
    assert not (box.folder / "gmon.out").exists()


CALLER = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) static unsigned step(unsigned a)
{
	__asm__ volatile("");
	return a * 5 + 1;
}
__attribute__((noinline)) unsigned many(unsigned n, unsigned b, unsigned c, unsigned d, unsigned e)
{
	unsigned f = n ^ b, g = n ^ c, h = n ^ d, i = n ^ e;

	for (unsigned k = 0; k < n; k++) {
		f += step(g) ^ b;
		g += step(h) ^ c;
		h += step(i) ^ d;
		i += step(f) ^ e;
	}
	return f ^ g ^ h ^ i;
}
int main(int argc, char **argv)
{
	printf("%08x\\n", many(argc > 1 ? strtoul(argv[1], NULL, 0) : 1000, 3, 5, 7, 11));
	return 0;
}
"""
NO_PLUGIN = """
int plugin_is_GPL_compatible;
int plugin_init(void *name, void *version) { return name == version; }
"""


def pushes_of_many(box, *compiler, **env):
    """Registers that many() saves, and so does not find free across its calls."""
    text = box.run([*compiler, "-O2", "-S", "caller.c", "-o", "-"], **env).stdout
    return len(re.findall(r"^\tpush", text[text.index("many:") : text.index("main:")], re.M))


def test_callers_keep_values_in_registers_that_a_function_does_not_use(box):
    """As without us: the hooks preserve them. r11 is one of them."""
    (box.folder / "caller.c").write_text(CALLER)
    plain = pushes_of_many(box, "gcc")
    assert pushes_of_many(box, "gcc", "-fno-ipa-ra") > plain
    ours = {"IPROBE_CC": "gcc", "IPROBE_PLACEMENT": "fentry"}
    assert pushes_of_many(box, box.tools / "iprobe-cc", **ours) == plain
    # a plugin of the user's: gcc has one folder for all, so we ask by -p
    (box.folder / "mine.c").write_text(NO_PLUGIN)
    box.silent(box.run(["gcc", "-w", "-shared", "-fPIC", "mine.c", "-o", "mine.so"]))
    mine = [box.tools / "iprobe-cc", f"-fplugin={box.folder}/mine.so"]
    assert pushes_of_many(box, *mine, **ours) > plain

    wanted = box.run(["gcc", "-O2", "caller.c", "-o", "plain"]).stdout
    wanted = box.run(["./plain", "100000"]).stdout
    for flags in ([], [f"-fplugin={box.folder}/mine.so"], ["-fno-ipa-ra"], ["-flto"]):
        made, kinds = box.build("-O2", *flags, "caller.c", IPROBE_CC="gcc")
        assert sorted(kinds["step"]) == [ENTRY, EXIT], (flags, kinds)
        assert box.run(["./program", "100000"]).stdout == wanted
        shutil.rmtree(box.folder / "trace", ignore_errors=True)
        iprobe = box.tools.parent / "cli" / "iprobe"
        done = box.run([iprobe, "run", "-q", "-o", "trace", "--", "./program", "100000"])
        assert done.stdout == wanted, (flags, done)
        assert (box.folder / "program").exists() and made.probes


def test_a_compiler_without_plugins(box):
    """A cc1 that exports nothing takes none: the marks are asked for by -p."""
    (box.folder / "caller.c").write_text(CALLER)
    cc1 = box.run(["gcc", "-print-prog-name=cc1"]).stdout.strip()
    (box.folder / "prefix").mkdir()
    script = box.folder / "prefix" / "cc1"
    script.write_text(f'#!/bin/sh\nexec {cc1} "$@"\n')
    script.chmod(0o755)
    done = box.cc("-v", f"-B{box.folder}/prefix/", "-O2", "-c", "caller.c", IPROBE_CC="gcc")
    assert done.returncode == 0, repr(done)
    assert " -p -mfentry" in done.stderr and "-fplugin" not in done.stderr
    done = box.cc("-v", "-O2", "-c", "caller.c", IPROBE_CC="gcc")
    assert " -p " not in done.stderr and " -fplugin=iprobe_entries " in done.stderr


def test_own_wishes(box):
    box.silent(box.cc("-O2", "-fno-instrument-functions", "shapes.c", "-o", "none"))
    assert box.sites("none") == -1
    box.placement = "instrument"
    box.silent(
        box.cc(
            "-O2", "-finstrument-functions", "shapes.c", "-o", "hooks", IPROBE_PLACEMENT="fentry"
        )
    )
    assert (
        box.sites("hooks") > 4
        and "instrument" in box.run([box.tools.parent / "cli" / "iprobe", "list", "hooks"]).stdout
    )
    for variable in ("IPROBE_PLACEMENT", "IPROBE_SIBLING_CALLS"):
        done = box.cc("shapes.c", **{variable: "nonsense"})
        assert (
            done.returncode == 1
            and len(done.stderr.splitlines()) == 1
            and f"{variable}=nonsense" in done.stderr
        )


def test_assembler_that_the_user_names(both):
    """-B of the user's: what gcc would have run is run."""
    tools = both.folder / "tools"
    tools.mkdir()
    (tools / "as").write_text('#!/bin/sh\necho ran >> "$(dirname "$0")/log"\nexec as "$@"\n')
    (tools / "as").chmod(0o755)
    both.build("-O2", f"-B{tools}", "shapes.c")
    assert (tools / "log").read_text() == "ran\n"
    # one that fails
    (tools / "as").write_text("#!/bin/sh\ncat > /dev/null\nexit 3\n")
    assert both.cc("-O2", "-B", tools, "-c", "shapes.c", "-o", "failed.o").returncode == 1
    assert not (both.folder / "failed.o").exists()
    (tools / "as").write_text("#!/bin/sh\nkill -9 $$\n")
    assert both.cc("-O2", "-pipe", "-B", tools, "-c", "shapes.c", "-o", "failed.o").returncode == 1


@pytest.mark.skipif(not shutil.which("ccache"), reason="no ccache")
def test_compiler_cache(both):
    for _ in range(2):
        both.silent(
            both.cc(
                "-O2",
                "-c",
                "shapes.c",
                "-o",
                "cached.o",
                IPROBE_CC="ccache gcc",
                CCACHE_DIR=both.folder / "cache",
            )
        )
        _, kinds = both.build("cached.o")
        assert sorted(kinds["leaf"]) == [ENTRY, EXIT]
    runs(both)


def test_many_functions_through_a_pipe(both):
    """More text than any buffer of the assembler stage has room for."""
    count = 1500
    body = textwrap.dedent(
        """\
        int f{0}(int a) {{ __asm__ volatile("# {1}"); return a + {0}; }}
        """
    )
    (both.folder / "many.c").write_text(
        "".join(body.format(i, "x" * 1200) for i in range(count))
        + "int main(void) { return f1(2) != 3; }\n"
    )
    _, kinds = both.build("-O1", "-pipe", "many.c")
    assert sum(name.startswith("f") and name[1:].isdigit() for name in kinds) == count
    assert sorted(kinds["f7"]) == [ENTRY, EXIT]
    runs(both, output="")


def test_compilers_for_other_machines_are_left_alone(both):
    for name, expected in (
        ("aarch64-linux-gnu-gcc", False),
        ("riscv64-unknown-linux-gnu-gcc-12", False),
        ("x86_64-linux-gnu-gcc", True),
        ("gcc-12", True),
    ):
        fake = both.folder / name
        fake.write_text('#!/bin/sh\necho "$@"\n')
        fake.chmod(0o755)
        done = both.cc("-c", "shapes.c", IPROBE_CC=fake)
        assert ("-specs=" in done.stdout) == expected, name


# --- recording


@pytest.mark.parametrize("placement", ["fentry", "inline"])
@pytest.mark.parametrize(
    "program",
    ["tree_calls", "tree_signals", "tree_jumps", "tree_threads", "tree_start", "tree_throw"],
)
def test_tree(me, programs, placement, program):
    """The trees that the programs know of themselves."""
    test_trees.check(me, [programs.trees("gcc", "-O2", placement) / program])


NESTED = """
#include <stdio.h>
int call(int (*f)(int), int n) { return f(n); }
int outer(int a)
{
	int inner(int n) { return n + a; }

	return call(inner, 2) + inner(3);
}
int main(int argc, char **argv) { printf("%d\\n", outer(argc)); return 0; }
"""


def test_nested_functions_keep_their_chain(both, me):
    (both.folder / "nested.c").write_text(NESTED)
    both.cc("-O1", "-fno-inline", "nested.c", "-o", "nested")  # the linker warns of the stack
    _, kinds = both.probes("nested")
    assert any(name.startswith("inner") for name in kinds)
    folder = me.dir()
    program = folder / "nested"
    shutil.copy(both.folder / "nested", program)
    program.chmod(0o755)
    done = me.iprobe("run", "-o", folder / "trace", "--", program)
    assert done.returncode == 0 and done.stdout == "7\n", repr(done)

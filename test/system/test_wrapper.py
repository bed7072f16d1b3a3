# SPDX-License-Identifier: Apache-2.0
"""
iprobe-cc and iprobe-c++ beside the compilers that they stand for: same exit code, same output,
same files, but for the probes.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import textwrap
import time

import pytest

CXX_OF = {"gcc": "g++", "clang": "clang++"}
COMPILERS = [name for name in CXX_OF if shutil.which(name)]

MAIN = "int twice(int); int main(void) { return twice(21) != 42; }\n"
TWICE = "int twice(int n) { return 2 * n; }\n"
WHOLE = (
    "static int twice(int n) { return 2 * n; } "
    "int main(int argc, char **argv) { return twice(argc) < 2; }\n"
)
THROWS = """
#include <stdexcept>
#include <cstdio>
static int f(int n) { if (n > 0) throw std::runtime_error("thrown"); return n; }
int main(int argc, char **) { try { f(argc); } catch (const std::exception &e) { std::puts(e.what()); } return 0; }
"""


class Box:
    """A folder with sources, and a way to run the wrapper and the real compiler in it."""

    def __init__(self, folder, builddir):
        self.folder = folder
        self.tools = builddir / "coldpatch"
        self.coldpatch = str(self.tools / "coldpatch")
        for name, text in (
            ("main.c", MAIN),
            ("twice.c", TWICE),
            ("whole.c", WHOLE),
            ("throws.cc", THROWS),
            ("broken.c", "int main(void) { return 0 }\n"),
        ):
            (folder / name).write_text(text)

    def environment(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith("IPROBE_")}
        env["LC_ALL"] = "C"
        env[
            "IPROBE_PLACEMENT"
        ] = "instrument"  # the one of both compilers; test_placements.py has the others
        env.update({k: str(v) for k, v in more.items()})
        return env

    def run(self, command, stdin=None, cwd=None, **env):
        return subprocess.run(
            [str(c) for c in command],
            cwd=cwd or self.folder,
            env=self.environment(**env),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def cc(self, *arguments, **more):
        return self.run([self.tools / "iprobe-cc", *arguments], **more)

    def cxx(self, *arguments, **more):
        return self.run([self.tools / "iprobe-c++", *arguments], **more)

    def silent(self, done):
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done

    def sites(self, path):
        """Number of sites of a patched module; -1: it has no list; it must run."""
        done = self.run([self.coldpatch, "--json", "--dry-run", path])
        if done.returncode:
            assert "no probes" in done.stderr, done
            return -1
        (module,) = json.loads(done.stdout)["modules"]
        assert module["status"] == "already"
        return module["sites"]

    def patched(self, path, runs=True):
        assert self.sites(path) >= 4
        if runs:
            assert self.run([self.folder / path]).returncode == 0

    def unchanged(self, arguments, cxx=False, files=(), stdin=None, **env):
        """The wrapper does with these what the compiler does: exit code, output and, byte for
        byte, files.
        """
        real = shutil.which(env.get("IPROBE_CC", "c++" if cxx else "cc"))
        results = []
        for command in (real, self.tools / ("iprobe-c++" if cxx else "iprobe-cc")):
            for name in files:
                (self.folder / name).unlink(missing_ok=True)
            done = self.run([command, *arguments], stdin=stdin, **env)
            # gcc's collect2 and temporary files have names that differ from run to run
            output = [
                re.sub(r"/tmp/[\w./-]+|\+0x[0-9a-f]+", "x", text)
                for text in (done.stdout, done.stderr)
            ]
            made = [
                (self.folder / name).read_bytes() if (self.folder / name).exists() else None
                for name in files
            ]
            results.append((done.returncode, output, made))
        assert results[0] == results[1]
        return results[1]


@pytest.fixture
def box(tmp_path, builddir):
    return Box(tmp_path, builddir)


@pytest.fixture(params=COMPILERS)
def compiler(request):
    return request.param


# --- what is not compiled or linked is the compiler's own business


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["-v"],
        ["-dumpmachine"],
        ["-dumpversion"],
        ["-print-search-dirs"],
        ["-print-file-name=libc.so"],
        ["-print-prog-name=ld"],
        ["--help"],
        ["-Q", "--help=target"],
        ["-dumpspecs"],
        [],
        ["-nonsense-option"],
        ["absent.c"],
        ["-c", "absent.c"],
        ["broken.c"],
        ["-c", "broken.c"],
        ["-fsyntax-only", "whole.c"],
        ["-E", "whole.c"],
        ["-E", "-dM", "whole.c"],
        ["-M", "whole.c"],
        ["-MM", "whole.c", "-MT", "target.o"],
        ["-o"],
        ["-c", "-o"],
        ["main.c"],
        ["-x"],
        ["@absent"],
        ["-xnonsense", "main.c"],
        ["-lnonsense", "whole.c"],
        ["-E", "-"],
        ["-o", "/nonexistent/out", "whole.c"],
        ["-print-multi-lib"],
        ["-print-sysroot"],
    ],
)
def test_same_as_the_compiler(box, arguments):
    box.unchanged(arguments, stdin="int from_stdin;\n")


def test_the_header_of_points_is_found(box, compiler):
    """Without an option, compiled and preprocessed alike, C and C++; and the user's own comes
    first.
    """
    (box.folder / "point.c").write_text(
        "#include <iprobe/probe.h>\nint main(void) { IPROBE_POINT(here); return 0; }\n"
    )
    (box.folder / "point.cc").write_text((box.folder / "point.c").read_text())
    for tool, source in ((box.cc, "point.c"), (box.cxx, "point.cc")):
        for arguments in (
            ["-c", "-o", "x.o"],
            ["-O2", "-o", "program"],
            ["-fsyntax-only"],
            ["-E", "-o", "x.i"],
        ):
            box.silent(tool(source, *arguments, IPROBE_CC=compiler))
    assert box.sites("program") == 3
    box.silent(box.cxx("-c", "-xc++-cpp-output", "x.i", "-o", "x.o", IPROBE_CC=compiler))
    box.silent(box.cc("-c", "-xassembler", "/dev/null", "-o", "x.o", IPROBE_CC=compiler))
    (box.folder / "iprobe").mkdir()
    (box.folder / "iprobe" / "probe.h").write_text("#define IPROBE_POINT(name) return 7\n")
    box.silent(box.cc("-I.", "point.c", "-o", "program", IPROBE_CC=compiler))
    assert box.run([box.folder / "program"]).returncode == 7


def test_same_files_where_nothing_is_compiled(box):
    box.unchanged(["-E", "whole.c", "-o", "out.i"], files=["out.i"])
    box.unchanged(["-M", "-MF", "out.d", "whole.c"], files=["out.d"])
    (box.folder / "asm.s").write_text(".text\n.globl f\nf:\tret\n")
    box.unchanged(["-c", "asm.s"], files=["asm.o"])
    box.unchanged(["-c", "-x", "assembler-with-cpp", "asm.s", "-o", "asm2.o"], files=["asm2.o"])


def test_clang_asks_alike(box):
    if "clang" not in COMPILERS:
        pytest.skip("no clang")
    for arguments in (
        ["--version"],
        ["-print-resource-dir"],
        ["-E", "whole.c"],
        ["broken.c"],
        ["-c", "asm.s"],
    ):
        (box.folder / "asm.s").write_text(".text\nf:\tret\n")
        box.unchanged(arguments, IPROBE_CC="clang", files=["asm.o"])


# --- ways to compile and link


def test_compile_and_link_in_one(box, compiler):
    box.silent(box.cc("whole.c", IPROBE_CC=compiler))
    box.patched("a.out")


def test_compile_then_link(box, compiler):
    box.silent(box.cc("-c", "main.c", "twice.c", IPROBE_CC=compiler))
    symbols = box.run(["nm", "twice.o"]).stdout
    assert "__cyg_profile_func_enter" in symbols and "__cyg_profile_func_exit" in symbols
    box.silent(box.cc("-o", "program", "main.o", "twice.o", IPROBE_CC=compiler))
    box.patched("program")


def test_several_sources(box, compiler):
    box.silent(box.cc("-O2", "main.c", "-oprogram", "twice.c", IPROBE_CC=compiler))
    box.patched("program")
    assert sorted(p.name for p in box.folder.iterdir()) == [
        "broken.c",
        "main.c",
        "program",
        "throws.cc",
        "twice.c",
        "whole.c",
    ]


def test_cxx(box, compiler):
    box.silent(box.cxx("-O2", "-g", "throws.cc", "-o", "program", IPROBE_CC=compiler))
    assert box.run([box.folder / "program"]).stdout == "thrown\n"
    box.patched("program")


def test_cxx_names_its_own_compiler(box):
    (box.folder / "fake").write_text('#!/bin/sh\necho fake "$@"\n')
    (box.folder / "fake").chmod(0o755)
    done = box.cxx("--version", IPROBE_CXX=box.folder / "fake", IPROBE_CC="nonsense")
    assert done.stdout == "fake --version\n"


@pytest.mark.parametrize(
    "cc,cxx",
    [
        ("gcc", "g++"),
        ("x86_64-linux-gnu-gcc-9", "x86_64-linux-gnu-g++-9"),
        ("clang", "clang++"),
        ("clang-14", "clang++-14"),
        ("wrap -q gcc", "wrap -q g++"),
        ("cc", "c++"),
    ],
)
def test_cxx_follows_the_c_compiler(box, cc, cxx):
    bin_ = box.folder / "bin"
    bin_.mkdir()
    for name in {cxx.split()[0]}:
        (bin_ / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (bin_ / name).chmod(0o755)
    done = box.cxx("--version", IPROBE_CC=cc, PATH=f"{bin_}:{os.environ['PATH']}")
    assert done.stdout == f"{cxx} --version\n"


def test_shared_library(box, compiler):
    box.silent(
        box.cc("-shared", "-fPIC", "-O2", "twice.c", "-o", "libtwice.so", IPROBE_CC=compiler)
    )
    assert box.sites("libtwice.so") == 2
    box.silent(
        box.cc(
            "main.c", "-L.", "-ltwice", "-Wl,-rpath,$ORIGIN", "-o", "program", IPROBE_CC=compiler
        )
    )
    assert box.sites("program") == 2
    assert box.run([box.folder / "program"]).returncode == 0


def test_response_files(box):
    (box.folder / "outer").write_text("-O2 @inner 'main.c'\n")
    (box.folder / "inner").write_text('-o "pro gram"\ntwice.c\n')
    box.silent(box.cc("@outer"))
    box.patched("pro gram")
    (box.folder / "compile").write_text("-c whole.c -o whole.o")
    box.silent(box.cc("@compile"))
    assert "__cyg_profile_func_enter" in box.run(["nm", "whole.o"]).stdout


def test_language_option_and_stdin(box):
    shutil.copy(box.folder / "whole.c", box.folder / "source.txt")
    box.silent(box.cc("-x", "c", "source.txt", "-o", "program"))
    box.patched("program")
    box.silent(box.cc("-xc", "-", "-o", "program2", stdin=WHOLE))
    box.patched("program2")
    # none ends it
    box.silent(box.cc("-c", "twice.c"))
    box.silent(box.cc("-x", "c", "main.c", "-x", "none", "twice.o", "-o", "program3"))
    box.patched("program3")


def test_assembly_output(box, compiler):
    box.silent(box.cc("-S", "whole.c", "-o", "out.s", IPROBE_CC=compiler))
    assert "__cyg_profile_func_enter" in (box.folder / "out.s").read_text()
    # and on to the end by hand
    box.silent(box.cc("out.s", "-o", "program", IPROBE_CC=compiler))
    box.patched("program")


def test_dependencies_beside_compiling(box):
    box.silent(box.cc("-MMD", "-MF", "dep.d", "-MT", "whole.o", "-c", "whole.c"))
    assert (box.folder / "dep.d").read_text() == "whole.o: whole.c\n"
    assert "__cyg_profile_func_enter" in box.run(["nm", "whole.o"]).stdout


def test_link_time_optimisation(box, compiler):
    linker = ["-fuse-ld=lld"] if compiler == "clang" else []
    for source in ("main.c", "twice.c"):
        box.silent(box.cc("-O2", "-flto", "-c", source, IPROBE_CC=compiler))
    done = box.cc("-O2", "-flto", *linker, "main.o", "twice.o", "-o", "program", IPROBE_CC=compiler)
    assert done.returncode == 0 and "iprobe" not in done.stderr
    box.patched("program")


def test_relocatable_link(box):
    box.silent(box.cc("-c", "main.c", "twice.c"))
    box.silent(box.cc("-r", "-nostdlib", "main.o", "twice.o", "-o", "both.o"))
    assert "__cyg_profile_func_enter" in box.run(["nm", "both.o"]).stdout
    box.silent(box.cc("both.o", "-o", "program"))
    box.patched("program")


def test_precompiled_header(box):
    (box.folder / "common.h").write_text("static inline int one(void) { return 1; }\n")
    (box.folder / "uses.c").write_text(
        '#include "common.h"\nint main(void) { return one() - 1; }\n'
    )
    box.silent(box.cc("common.h"))
    assert (box.folder / "common.h.gch").exists()
    box.silent(box.cc("-Winvalid-pch", "uses.c", "-o", "program"))
    box.patched("program")


def test_static_link(box):
    """Both hooks are one function of libc there: relocations tell them apart."""
    box.silent(box.cc("-static", "whole.c", "-o", "program"))
    box.patched("program")


def test_build_id(box):
    box.silent(box.cc("whole.c", "-o", "a", "-Wl,--build-id=md5"))
    notes = box.run(["readelf", "-n", "a"]).stdout
    assert re.search(r"Build ID: [0-9a-f]{32}$", notes, re.M)
    box.patched("a")
    box.silent(box.cc("whole.c", "-o", "b", "-Xlinker", "--build-id=0x0123456789abcdef"))
    assert "Build ID: 0123456789abcdef" in box.run(["readelf", "-n", "b"]).stdout
    done = box.cc("whole.c", "-o", "c", "-Wl,--build-id=none")
    assert done.returncode == 0 and len(done.stderr.splitlines()) == 1 and "build-id" in done.stderr
    assert box.run([box.folder / "c"]).returncode == 0


def test_exclusions_are_respected(box):
    box.silent(
        box.cc(
            "-finstrument-functions-exclude-function-list=twice",
            "main.c",
            "twice.c",
            "-o",
            "program",
        )
    )
    assert box.sites("program") == 2
    box.silent(box.cc("-fno-instrument-functions", "main.c", "twice.c", "-o", "none"))
    assert box.sites("none") == -1
    assert box.run([box.folder / "none"]).returncode == 0


def test_output_that_is_no_program(box):
    box.silent(box.cc("whole.c", "-o", "/dev/null"))
    done = box.cc(
        "whole.c",
        "-o",
        "raw",
        "-Wl,--oformat=binary",
        "-nostdlib",
        "-Wl,-e,main",
        "-fno-instrument-functions",
    )
    assert "iprobe" not in done.stderr
    assert box.folder.joinpath("raw").exists() and done.returncode == 0


def test_a_stale_output_is_not_touched(box):
    """A command that links nothing must not look at what an earlier one left."""
    subprocess.run(
        ["gcc", "-finstrument-functions", "-Wl,--build-id", "whole.c"], cwd=box.folder, check=True
    )
    before = (box.folder / "a.out").read_bytes()
    box.cc("-Wl,--version")
    box.cc("broken.c")
    box.cc("-v", "-c", "whole.c")
    assert (box.folder / "a.out").read_bytes() == before


def test_other_machines_are_left_alone(box):
    for flag in ("-m16", "--target=aarch64-linux-gnu"):
        done = box.cc(
            "-###", flag, "whole.c", IPROBE_CC="clang" if flag.startswith("--") else "gcc"
        )
        assert "-finstrument-functions" not in done.stderr
    assert "-finstrument-functions" in box.cc("-###", "-m16", "-m64", "whole.c").stderr


def test_code_without_libc_is_left_alone(box):
    box.silent(box.cc("-ffreestanding", "-c", "twice.c"))
    assert "__cyg" not in box.run(["nm", "twice.o"]).stdout
    (box.folder / "start.c").write_text("void _start(void) { for (;;) ; }\n")
    box.silent(box.cc("-nostdlib", "-static", "start.c", "-o", "start"))


def test_exit_code_and_signal_of_the_compiler(box):
    fake = box.folder / "fake"
    fake.write_text("#!/bin/sh\nexit 37\n")
    fake.chmod(0o755)
    assert box.cc("whole.c", IPROBE_CC=fake).returncode == 37
    assert box.cc("-c", "whole.c", IPROBE_CC=fake).returncode == 37
    fake.write_text("#!/bin/sh\nkill -SEGV $$\n")
    assert box.cc("whole.c", IPROBE_CC=fake).returncode == -signal.SIGSEGV
    assert box.cc("-c", "whole.c", IPROBE_CC=fake).returncode == -signal.SIGSEGV


def test_terminated_while_linking(box):
    """make ends what it started: the compiler must not live on."""
    fake = box.folder / "fake"
    fake.write_text("#!/bin/sh\necho $$ > pid\nexec sleep 60\n")
    fake.chmod(0o755)
    process = subprocess.Popen(
        [str(box.tools / "iprobe-cc"), "whole.c"],
        cwd=box.folder,
        env=box.environment(IPROBE_CC=fake),
    )
    deadline = time.monotonic() + 20
    while not (box.folder / "pid").exists() or not (box.folder / "pid").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.terminate()
    assert process.wait(timeout=20) == -signal.SIGTERM
    assert not pathlib.Path("/proc", (box.folder / "pid").read_text().strip()).exists()


# --- which compiler


def test_compiler_with_arguments(box):
    (box.folder / "define.c").write_text(WHOLE.replace("return 2 * n", "return FACTOR * n"))
    box.silent(box.cc("define.c", "-o", "program", IPROBE_CC="gcc -DFACTOR=2 '-DTEXT=a b'"))
    box.patched("program")


def test_no_such_compiler(box):
    done = box.cc("whole.c", IPROBE_CC="nonsense-cc")
    assert done.returncode == 127 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("iprobe-cc: nonsense-cc: ")
    done = box.run([box.tools / "iprobe-cc", "whole.c"], PATH="/nonexistent")
    assert done.returncode == 127 and "IPROBE_CC" in done.stderr


def test_it_never_runs_itself(box):
    bin_ = box.folder / "bin"
    bin_.mkdir()
    for name in ("cc", "gcc", "iprobe-cc"):
        (bin_ / name).symlink_to(box.tools / "iprobe-cc")
    for name in ("c++", "g++"):
        (bin_ / name).symlink_to(box.tools / "iprobe-c++")
    path = f"{bin_}:{os.environ['PATH']}"
    for name in ("cc", "gcc"):
        box.silent(box.run([name, "whole.c", "-o", f"by-{name}"], PATH=path))
        box.patched(f"by-{name}")
    box.silent(box.run(["c++", "throws.cc", "-o", "by-c++"], PATH=path))
    box.patched("by-c++")
    for real in ("iprobe-cc", box.tools / "iprobe-cc", "gcc"):
        done = box.run(["cc", "whole.c", "-o", "program"], PATH=path, IPROBE_CC=real)
        assert done.returncode in (0, 127), done
    # by way of something else that runs cc
    (bin_ / "middle").write_text('#!/bin/sh\nexec cc "$@"\n')
    (bin_ / "middle").chmod(0o755)
    box.silent(box.run(["cc", "whole.c", "-o", "middle"], PATH=path, IPROBE_CC="middle"))
    box.patched("middle")


def test_name_decides(box):
    link = box.folder / "my-c++"
    link.symlink_to(box.tools / "iprobe-cc")
    done = box.run([link, "throws.cc", "-o", "program"])
    box.silent(done)
    assert box.run([box.folder / "program"]).stdout == "thrown\n"


def test_placement(box):
    box.silent(box.cc("whole.c", IPROBE_PLACEMENT="instrument"))
    box.patched("a.out")
    done = box.cc("-c", "whole.c", IPROBE_PLACEMENT="nonsense")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "nonsense" in done.stderr


def test_verbose(box):
    done = box.cc("whole.c", "-I./it's", IPROBE_VERBOSE="1")
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert "-finstrument-functions" in lines[0] and "'-I./it'\\''s'" in lines[0]
    assert lines[1] == "iprobe-cc: coldpatch a.out: patched, 4 sites of 2 functions"
    assert box.cc("whole.c", IPROBE_VERBOSE="0").stderr == ""


# --- build systems


def test_make(box):
    sources = 12
    for i in range(sources):
        (box.folder / f"f{i}.c").write_text(f"int f{i}(int n) {{ return n + {i}; }}\n")
    (box.folder / "all.c").write_text(
        "".join(f"int f{i}(int);\n" for i in range(sources))
        + "int main(void) { return "
        + " + ".join(f"f{i}(0)" for i in range(sources))
        + f" != {sources * (sources - 1) // 2}; }}\n"
    )
    (box.folder / "Makefile").write_text(
        textwrap.dedent(
            """\
        OBJECTS := all.o $(patsubst %,f%.o,0 1 2 3 4 5 6 7 8 9 10 11)
        program: $(OBJECTS)
        \t$(CC) $(LDFLAGS) $^ -o $@
        """
        )
    )
    done = box.run(["make", "-j4", f"CC={box.tools}/iprobe-cc"])
    assert done.returncode == 0 and "warning" not in done.stderr, done
    box.patched("program")
    assert box.sites("program") == 2 * (sources + 1)
    # what was linked is not older than what it was linked from
    done = box.run(["make", "-j4", f"CC={box.tools}/iprobe-cc"])
    assert "up to date" in done.stdout


@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake")
def test_cmake(box):
    (box.folder / "CMakeLists.txt").write_text(
        textwrap.dedent(
            """\
        cmake_minimum_required(VERSION 3.16)
        project(p C CXX)
        add_library(twice SHARED twice.c)
        add_executable(program main.c)
        target_link_libraries(program twice)
        add_executable(throws throws.cc)
        """
        )
    )
    done = box.run(
        [
            "cmake",
            "-B",
            "b",
            f"-DCMAKE_C_COMPILER={box.tools}/iprobe-cc",
            f"-DCMAKE_CXX_COMPILER={box.tools}/iprobe-c++",
        ]
    )
    assert done.returncode == 0, done
    done = box.run(["cmake", "--build", "b"])
    assert done.returncode == 0, done
    for name, sites in (("program", 2), ("libtwice.so", 2)):
        assert box.sites(f"b/{name}") == sites
    box.patched("b/throws")
    assert box.run([box.folder / "b/program"]).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("meson"), reason="no meson")
def test_meson(box):
    (box.folder / "meson.build").write_text(
        textwrap.dedent(
            """\
        project('p', 'c', 'cpp')
        twice = library('twice', 'twice.c')
        executable('program', 'main.c', link_with: twice)
        executable('throws', 'throws.cc')
        """
        )
    )
    done = box.run(
        ["meson", "setup", "b"], CC=box.tools / "iprobe-cc", CXX=box.tools / "iprobe-c++"
    )
    assert done.returncode == 0, done
    done = box.run(["meson", "compile", "-C", "b"])
    assert done.returncode == 0, done
    assert box.sites("b/program") == 2 and box.sites("b/libtwice.so") == 2
    box.patched("b/throws")
    assert box.run([box.folder / "b/program"]).returncode == 0
    assert "no work to do" in box.run(["ninja", "-C", "b"]).stdout


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ccache"), reason="no ccache")
def test_ccache(box):
    cache = box.folder / "cache"
    for round_ in range(2):
        box.silent(
            box.run(
                ["ccache", box.tools / "iprobe-cc", "-c", "whole.c", "-o", "whole.o"],
                CCACHE_DIR=cache,
            )
        )
        assert "__cyg_profile_func_enter" in box.run(["nm", "whole.o"]).stdout
        box.silent(
            box.cc("-c", "whole.c", "-o", "other.o", IPROBE_CC="ccache gcc", CCACHE_DIR=cache)
        )
        assert "__cyg_profile_func_enter" in box.run(["nm", "other.o"]).stdout
        box.silent(
            box.cc("whole.c", "-o", f"program{round_}", IPROBE_CC="ccache gcc", CCACHE_DIR=cache)
        )
        box.patched(f"program{round_}")


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("autoconf") and shutil.which("libtoolize") and shutil.which("automake")),
    reason="no autoconf, automake, libtool",
)
def test_autotools(box):
    (box.folder / "configure.ac").write_text(
        textwrap.dedent(
            """\
        AC_INIT([p], [1])
        AM_INIT_AUTOMAKE([foreign])
        LT_INIT
        AC_PROG_CC
        AC_CHECK_FUNCS([strdup nonsense_function])
        AC_CONFIG_FILES([Makefile])
        AC_OUTPUT
        """
        )
    )
    (box.folder / "Makefile.am").write_text(
        textwrap.dedent(
            """\
        lib_LTLIBRARIES = libtwice.la
        libtwice_la_SOURCES = twice.c
        bin_PROGRAMS = program
        program_SOURCES = main.c
        program_LDADD = libtwice.la
        """
        )
    )
    assert box.run(["autoreconf", "-fi"]).returncode == 0
    done = box.run(["./configure", f"CC={box.tools}/iprobe-cc"])
    assert done.returncode == 0, done
    assert "for strdup... yes" in done.stdout and "for nonsense_function... no" in done.stdout
    done = box.run(["make", "-j2", "V=1"])
    assert done.returncode == 0 and "iprobe-cc: warning" not in done.stderr, done
    assert box.sites(".libs/libtwice.so") == 2 and box.sites(".libs/program") == 2
    assert box.run(["make", "install", f"DESTDIR={box.folder}/to"]).returncode == 0
    assert box.sites("to/usr/local/bin/program") == 2
    assert box.run([box.folder / "program"]).returncode == 0

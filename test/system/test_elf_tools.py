# SPDX-License-Identifier: Apache-2.0
"""
What a build and a distribution run over a binary: dwz, strip, objcopy, elfutils, debugedit,
patchelf, chrpath, and linkers. Afterwards it gives the right result, and its probes can be
recorded, or iprobe says that their list is gone.

  IPROBE_TEST_FULL=1    every tool on every kind of link (minutes); else on four of them, and the
                        tools that move sections on all
"""

import json
import os
import shutil
import subprocess

import pytest

from iptest.sections import sections, symbols

FULL = os.environ.get("IPROBE_TEST_FULL") == "1"
MAIN = """
#include <stdio.h>
#ifdef LIBRARY
int lib_sum(int n);
#else
__attribute__((noinline)) static int inner(int i) { __asm__ volatile("" : "+r"(i)); return i + 1; }
__attribute__((noinline)) int lib_sum(int n) { int s = 0; for (int i = 0; i < n; i++) s += inner(i); return s; }
#endif
int main(void) { printf("%d\\n", lib_sum(10)); return 0; }
"""
LIB = """
__attribute__((noinline)) static int inner(int i) { __asm__ volatile("" : "+r"(i)); return i + 1; }
int lib_sum(int n);
int lib_sum(int n) { int s = 0; for (int i = 0; i < n; i++) s += inner(i); return s; }
"""
KINDS = {
    "pie": ["-pie", "-fPIE"],
    "no-pie": ["-no-pie", "-fno-pie"],
    "static": ["-static"],
    "shared": ["-shared", "-fPIC"],
    "kept-relocs": ["-Wl,-q"],
    "compressed": ["-gz"],
    "stripped": ["-Wl,-s"],
}
LINKERS = {"bfd": "ld", "gold": "ld.gold", "lld": "ld.lld", "mold": "mold"}

# Each is a shell command on the file $F in an empty folder. What takes all that is not loaded takes
# the list as well: GONE. Where it goes into separate debug information that the file names, it is
# found there: SPLIT.
MOVERS = {
    "dwz": "dwz $F",
    "strip": "strip $F",
    "objcopy": "objcopy $F",
    "eu-strip -f": "eu-strip -f $F.dbg $F",
    "debuglink": "objcopy --only-keep-debug $F $F.debug && strip --strip-unneeded $F && objcopy "
    "--add-gnu-debuglink=$F.debug $F",
}
TOOLS = {
    **MOVERS,
    "dwz -m": "cp $F $F.two && dwz -m $F.common $F $F.two",
    "strip -g": "strip -g $F",
    "strip --strip-unneeded": "strip --strip-unneeded $F",
    "strip --only-keep-debug": "strip --only-keep-debug -o $F.debug $F",
    "compress": "objcopy --compress-debug-sections $F && objcopy --decompress-debug-sections $F",
    "eu-strip": "eu-strip $F",
    "eu-strip -g": "eu-strip -g $F",
    "eu-unstrip": "eu-strip -f $F.dbg $F && eu-unstrip -o $F.whole $F $F.dbg",
    "llvm-strip": "llvm-strip $F",
    "llvm-strip, split": "objcopy --only-keep-debug $F $F.debug && llvm-strip $F && objcopy "
    "--add-gnu-debuglink=$F.debug $F",
    "eu-strip -f, not shipped": "eu-strip -f $F.dbg $F && rm $F.dbg",
    "llvm-strip -g": "llvm-strip -g $F",
    "llvm-strip --strip-unneeded": "llvm-strip --strip-unneeded $F",
    "llvm-objcopy": "llvm-objcopy $F && llvm-objcopy --only-keep-debug $F $F.debug",
    "debugedit": "debugedit -b $PWD -d /usr/src/debug/of-a-package -l $F.files $F",
    "sepdebugcrcfix": "objcopy --only-keep-debug $F $F.debug && objcopy "
    "--add-gnu-debuglink=$F.debug $F && sepdebugcrcfix . $F",
    "patchelf --set-rpath": "patchelf --set-rpath "
    "/opt/one/rather/long/path/that/needs/room:/opt/and/another/one $F",
    "patchelf --set-interpreter": "patchelf --set-interpreter $(patchelf --print-interpreter $F) "
    "$F",
    "patchelf --add-needed": "patchelf --add-needed libm.so.6 $F",
    "chrpath": "chrpath -r /tmp/b $F",
    "twice": "objcopy $F && dwz $F && strip -g $F && patchelf --set-rpath "
    "/opt/one/rather/long/path/that/needs/room $F",
}
GONE = {"eu-strip", "eu-strip -f, not shipped", "llvm-strip"}
SPLIT = {"eu-strip -f", "eu-unstrip", "llvm-strip, split"}
# What plain binaries of the kind are refused for, too.
NOT_FOR = {
    "static": {
        "llvm-strip",
        "llvm-strip, split",
        "llvm-strip -g",
        "llvm-strip --strip-unneeded",
        "llvm-objcopy",
        "patchelf --set-rpath",
        "patchelf --set-interpreter",
        "patchelf --add-needed",
        "chrpath",
        "twice",
    },
    "shared": {"patchelf --set-interpreter"},
    "compressed": {"dwz", "dwz -m", "debugedit", "twice"},
    "stripped": {
        *("dwz", "dwz -m", "debugedit", "eu-unstrip", "twice", "eu-strip -f"),
        "eu-strip -f, not shipped",
    },
}
WHOLE = [("fentry", "pie"), ("inline", "shared"), ("instrument", "no-pie"), ("fentry", "static")]
OTHERS = [(p, k) for k in KINDS for p in ("fentry", "inline", "instrument") if (p, k) not in WHOLE]
CASES = [(*case, tool) for case in WHOLE for tool in TOOLS]
CASES += [(*case, tool) for case in OTHERS for tool in (TOOLS if FULL else MOVERS)]
CASES = [
    (placement, kind, tool) for placement, kind, tool in CASES if tool not in NOT_FOR.get(kind, ())
]


def run(command, cwd, **env):
    done = subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C", **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done
    return done


def build(folder, builddir, placement, kind, *more):
    """The binary of a kind, and the program that uses it."""
    (folder / "main.c").write_text(MAIN, encoding="ascii")
    (folder / "lib.c").write_text(LIB, encoding="ascii")
    env = {"IPROBE_PLACEMENT": placement, "IPROBE_CC": "gcc"}
    source = "lib.c" if kind == "shared" else "main.c"
    made = "libsum.so" if kind == "shared" else "main"
    rpath = [] if kind == "static" else ["-Wl,-rpath,/tmp/aaaaaaaaaaaaaaaaaaaa"]
    done = run(
        [
            builddir / "coldpatch" / "iprobe-cc",
            "-O2",
            "-g",
            *KINDS[kind],
            *rpath,
            *more,
            source,
            "-o",
            made,
        ],
        folder,
        **env,
    )
    assert done.stderr == ""
    if kind == "shared":
        run(["gcc", "-O2", "-DLIBRARY", "main.c", "./libsum.so", "-o", "main"], folder)
    return folder / made


@pytest.fixture(scope="module")
def made(builddir, tmp_path_factory):
    cache = {}

    def get(placement, kind):
        if (placement, kind) not in cache:
            folder = tmp_path_factory.mktemp("elf")
            cache[placement, kind] = build(folder, builddir, placement, kind), folder
        return cache[placement, kind]

    return get


def check_sections(path, in_order=True):
    """No header without a type but the first, no link to what is not there, offsets that grow,
    nothing overlaps. in_order: not so where ld has compressed: it puts these sections behind the
    symbols, and leaves some rest at the end of the file.
    """
    found = sections(path)
    assert [s for s in found[1:] if s.type == 0] == []
    assert all(s.link < len(found) for s in found)
    stored = [s for s in found[1:] if s.type != 8]
    for s in stored:
        if s.type in (4, 9) and s.info and not s.flags & 2:  # relocations that are not loaded
            assert s.name.endswith(found[s.info].name) and found[s.link].name == ".symtab"
    stored = [s for s in stored if not (s.type in (4, 9) and not s.flags & 2)]
    assert not in_order or [s.offset for s in stored] == sorted(s.offset for s in stored)
    ends = sorted(
        (s.offset, s.offset + s.size, s.name) for s in found[1:] if s.type != 8 and s.size
    )
    assert [(a, b) for a, b in zip(ends, ends[1:]) if a[1] > b[0]] == []


def lint(path):
    """What eu-elflint says, but for our notes, which it does not know as it knows no other
    vendor's, and with section numbers left out.
    """
    done = subprocess.run(
        ["eu-elflint", "--gnu-ld", path], capture_output=True, text=True, timeout=60, check=False
    )
    told = {
        line
        for line in done.stdout.splitlines()
        if "with owner name 'iprobe'" not in line and line != "No errors"
    }
    return {line.partition("__ehdr_start")[2] or line for line in told}


@pytest.mark.parametrize("placement", ["fentry", "inline", "instrument"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_coldpatch_writes(placement, kind, made, tmp_path):
    path, _ = made(placement, kind)
    check_sections(path, kind != "compressed")
    done = run(["readelf", "-W", "-a", path], tmp_path)
    assert done.stderr == ""
    wanted = {"lib_sum": ".text", "inner": ".text"} if kind != "stripped" else {}
    assert {
        name: where
        for name, _, _, where in symbols(path, ".symtab")
        if name in ("lib_sum", "inner")
    } == wanted
    if kind == "shared":
        assert [s[3] for s in symbols(path) if s[0] == "lib_sum"] == [".text"]
    if not shutil.which("eu-elflint"):
        pytest.skip("no eu-elflint (elfutils)")
    (tmp_path / "lib.c").write_text(LIB, encoding="ascii")
    (tmp_path / "main.c").write_text(MAIN, encoding="ascii")
    run(
        [
            "gcc",
            "-O2",
            "-g",
            *KINDS[kind],
            "lib.c" if kind == "shared" else "main.c",
            "-o",
            "plain",
        ],
        tmp_path,
    )
    assert lint(path) <= lint(tmp_path / "plain")


@pytest.mark.parametrize(
    "placement,kind,tool", CASES, ids=["-".join(case).replace(" ", "") for case in CASES]
)
def test_tool(placement, kind, tool, made, builddir, tmp_path):
    for command in TOOLS[tool].split("&&"):
        if not shutil.which(command.split()[0]):
            pytest.skip(f"no {command.split()[0]}")
    path, folder = made(placement, kind)
    for name in ("main", path.name):
        shutil.copy2(folder / name, tmp_path / name)
    run(["bash", "-c", TOOLS[tool]], tmp_path, F=path.name)
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    assert run(["./main"], tmp_path, **env).stdout == "55\n"
    iprobe = builddir / "cli" / "iprobe"
    if tool in GONE:
        for command in ("list", path.name), ("run", "-o", "trace", "--", "./main"):
            done = subprocess.run(
                [iprobe, *command],
                cwd=tmp_path,
                env={**os.environ, **env},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (
                done.returncode == 1 and "no probe list" in done.stderr and path.name in done.stderr
            ), done
            assert len(done.stderr.splitlines()) == 1, done
        return
    before, after = (
        json.loads(run([iprobe, "list", "--json", p], tmp_path).stdout)["modules"][0]["probes"]
        for p in (path, tmp_path / path.name)
    )
    assert before == after and len(after) >= 4
    run([iprobe, "run", "-o", "trace", "--", "./main"], tmp_path, **env)
    report = json.loads(run([iprobe, "report", "--json", "trace"], tmp_path).stdout)
    assert {f["function"]: f["calls"] for f in report["functions"] if f["function"] != "main"} == {
        "lib_sum": 1,
        "inner": 10,
    }
    if tool in SPLIT:
        return
    # coldpatch takes what it became for what it is
    assert "already" in run([builddir / "coldpatch" / "coldpatch", path.name], tmp_path).stdout


@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize("how", ["by iprobe-cc", "by hand"])
def test_linkers(linker, how, builddir, tmp_path):
    """The file of each linker, also where coldpatch has nothing to take off it, and the old file
    stands as it is.
    """
    if not shutil.which(LINKERS[linker]):
        pytest.skip(f"no {linker}")
    if how == "by hand":
        (tmp_path / "main.c").write_text(MAIN, encoding="ascii")
        run(
            [
                "gcc",
                "-O2",
                "-g",
                "-finstrument-functions",
                f"-fuse-ld={linker}",
                "-Wl,--build-id=sha1",
                "main.c",
                "-o",
                "main",
            ],
            tmp_path,
        )
        run([builddir / "coldpatch" / "coldpatch", "main"], tmp_path)
    else:
        check_sections(build(tmp_path, builddir, "fentry", "pie", f"-fuse-ld={linker}"))
    assert run(["readelf", "-W", "-a", "main"], tmp_path).stderr == ""
    for tool in MOVERS:
        if tool in GONE or not shutil.which(TOOLS[tool].split()[0]):
            continue
        shutil.copy2(tmp_path / "main", tmp_path / "copy")
        run(["bash", "-c", TOOLS[tool]], tmp_path, F="copy")
        assert run(["./copy"], tmp_path).stdout == "55\n"
        assert "lib_sum" in run([builddir / "cli" / "iprobe", "list", "copy"], tmp_path).stdout


@pytest.mark.parametrize("placement", ["fentry", "inline", "instrument"])
@pytest.mark.parametrize("way", ["archive", "ld -r", "iprobe-cc -r", "llvm-strip -g"])
def test_objects(placement, way, builddir, tmp_path):
    """What is done to objects before the link: the sites are found all the same."""
    (tmp_path / "main.c").write_text(MAIN, encoding="ascii")
    (tmp_path / "lib.c").write_text(LIB, encoding="ascii")
    env, ours = {
        "IPROBE_PLACEMENT": placement,
        "IPROBE_CC": "gcc",
    }, builddir / "coldpatch" / "iprobe-cc"
    run([ours, "-O2", "-g", "-c", "-DLIBRARY", "main.c"], tmp_path, **env)
    run([ours, "-O2", "-g", "-ffunction-sections", "-c", "lib.c"], tmp_path, **env)
    parts = ["main.o", "lib.o"]
    if way == "archive":
        run(["ar", "rcs", "libparts.a", "lib.o"], tmp_path)
        run(["ranlib", "libparts.a"], tmp_path)
        parts = ["main.o", "libparts.a"]
    elif way == "llvm-strip -g":
        if not shutil.which("llvm-strip"):
            pytest.skip("no llvm-strip")
        run(["llvm-strip", "-g", *parts], tmp_path)
    else:
        run(
            [*(["ld"] if way == "ld -r" else [ours]), "-r", *parts, "-o", "whole.o"],
            tmp_path,
            **env,
        )
        assert run(["readelf", "-W", "-a", "whole.o"], tmp_path).stderr == ""
        refused = subprocess.run(
            [builddir / "coldpatch" / "coldpatch", "whole.o"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert refused.returncode == 1 and "not linked yet" in refused.stderr
        parts = ["whole.o"]
    run([ours, "-O2", "-g", *parts, "-o", "main"], tmp_path, **env)
    check_sections(tmp_path / "main")
    run([builddir / "cli" / "iprobe", "run", "-o", "trace", "--", "./main"], tmp_path)
    report = json.loads(
        run([builddir / "cli" / "iprobe", "report", "--json", "trace"], tmp_path).stdout
    )
    assert {f["function"]: f["calls"] for f in report["functions"]} == {
        "main": 1,
        "lib_sum": 1,
        "inner": 10,
    }


def test_a_build_id_made_anew_is_refused(made, builddir, tmp_path):
    """debugedit -i with a seed, as packages of RPM do it: the list belongs to the build-id, and
    says so.
    """
    if not shutil.which("debugedit"):
        pytest.skip("no debugedit")
    path, _ = made("fentry", "pie")
    shutil.copy2(path, tmp_path / "main")
    run(
        [
            "debugedit",
            "-b",
            path.parent,
            "-d",
            "/usr/src/debug/of-a-package",
            "-i",
            "-s",
            "seed",
            "main",
        ],
        tmp_path,
    )
    assert run(["./main"], tmp_path).stdout == "55\n"
    done = subprocess.run(
        [builddir / "cli" / "iprobe", "list", "main"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (
        done.returncode == 1
        and "build-id differs" in done.stderr
        and len(done.stderr.splitlines()) == 1
    ), done

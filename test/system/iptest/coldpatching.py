# SPDX-License-Identifier: Apache-2.0
"""What the tests of coldpatch share: the tool, programs compiled once for all of a file, and
what they must still do.
"""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess

import pytest

PROGRAMS = pathlib.Path(__file__).resolve().parents[2] / "programs"
FULL = os.environ.get("IPROBE_TEST_FULL") == "1"
COMPILERS = {"gcc": ("gcc", "g++"), "clang": ("clang", "clang++")}
# What iprobe-cc adds, so that no two hook calls become one.
UNMERGED = {
    "gcc": ["-fno-crossjumping"],
    "clang": ["-mllvm", "-enable-tail-merge=0", "-mllvm", "-simplifycfg-sink-common=false"],
}
OPTIMISATIONS = ["-O0", "-O1", "-O2", "-O3", "-Os", "-O2 -flto"]
MODES = {
    "pie": "-fPIE -pie",
    "no-pie": "-fno-pie -no-pie",
    "shared": "-fPIC -shared",
    "no-plt": "-fno-plt",
    "cet": "-fcf-protection",
    "now": "-Wl,-z,now",
    "no-pie-no-plt": "-fno-pie -no-pie -fno-plt",
    "frame-pointer": "-fno-omit-frame-pointer",
    "gc-sections": "-ffunction-sections -Wl,--gc-sections",
    "kept-relocs": "-Wl,-q",
    "gold": "-fuse-ld=gold",
    "lld": "-fuse-ld=lld",
    "debug": "-g",
}
SOME = {
    ("gcc", "c", "-O0", "pie"),
    ("gcc", "c", "-O2", "pie"),
    ("gcc", "c", "-O3", "no-pie"),
    ("gcc", "c", "-O2", "shared"),
    ("gcc", "c", "-O2", "no-plt"),
    ("gcc", "c", "-Os", "cet"),
    ("gcc", "c", "-O1", "now"),
    ("gcc", "c", "-O2", "kept-relocs"),
    ("gcc", "c", "-O2", "lld"),
    ("gcc", "c", "-O2", "gold"),
    ("gcc", "c", "-O2 -flto", "pie"),
    ("gcc", "cc", "-O2", "pie"),
    ("gcc", "cc", "-Os", "shared"),
    ("gcc", "cc", "-O1", "no-pie"),
    ("gcc", "cc", "-O3", "debug"),
    ("clang", "c", "-O0", "shared"),
    ("clang", "c", "-O2", "pie"),
    ("clang", "c", "-Os", "no-pie"),
    ("clang", "c", "-O1", "no-plt"),
    ("clang", "c", "-O2 -flto", "pie"),
    ("clang", "c", "-O3", "cet"),
    ("clang", "cc", "-O2", "pie"),
    ("clang", "cc", "-O1", "no-pie-no-plt"),
    ("clang", "cc", "-O0", "debug"),
}

ENTRY, EXIT, TAIL = 1, 2, 3
IDLE = {
    (ENTRY, 5): "0f1f440000",
    (EXIT, 5): "0f1f440000",
    (ENTRY, 6): "660f1f440000",
    (EXIT, 6): "660f1f440000",
    (TAIL, 5): "c30f1f4000",
    (TAIL, 6): "c30f1f440000",
}
INLINED = 1


def segments(data):
    """PT_LOAD of an ELF64: (offset, vaddr, filesz)."""
    (phoff,) = struct.unpack_from("<Q", data, 32)
    phentsize, phnum = struct.unpack_from("<HH", data, 54)
    found = []
    for i in range(phnum):
        kind, _, offset, vaddr, _, filesz = struct.unpack_from(
            "<IIQQQQ", data, phoff + i * phentsize
        )
        if kind == 1:
            found.append((offset, vaddr, filesz))
    return found


def file_offset(data, address):
    return next(o + address - v for o, v, size in segments(data) if v <= address < v + size)


def real_sites(path):
    """What objdump says about hook calls in an unpatched module: {address: (kind, length)}."""
    text = subprocess.run(
        ["objdump", "-d", "-w", path], capture_output=True, text=True, check=True
    ).stdout
    found = {}
    for line in text.splitlines():
        match = re.match(
            r"\s*([0-9a-f]+):\t([0-9a-f ]+)\t(.*)<__cyg_profile_func_(enter|exit)(@[\w.]+)?>$", line
        )
        if not match or re.match(r".*<__cyg_profile_func_\w+@plt>:$", line):
            continue
        address, raw, what, hook = int(match[1], 16), match[2].split(), match[3], match[4]
        jump = re.search(r"\bjmp\b", what)
        if jump and any(s <= address < e for s, e in stub_sections(path)):
            continue
        kind = TAIL if jump else ENTRY if hook == "enter" else EXIT
        found[address] = (kind, len(raw))
    return found


def stub_sections(path):
    text = subprocess.run(
        ["readelf", "-SW", path], capture_output=True, text=True, check=True
    ).stdout
    found = []
    for match in re.finditer(r"\] \.plt\S*\s+PROGBITS\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", text):
        found.append((int(match[1], 16), int(match[1], 16) + int(match[2], 16)))
    return found


class Tool:
    def __init__(self, builddir):
        self.path = str(builddir / "coldpatch" / "coldpatch")

    def __call__(self, *args, **kwargs):
        return subprocess.run(
            [self.path, *map(str, args)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            **kwargs,
        )

    def ok(self, *args, **kwargs):
        done = self(*args, **kwargs)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done

    def json(self, *args):
        return json.loads(self.ok("--json", *args).stdout)["modules"]

    def refuses(self, *args, **kwargs):
        """Exit 1, one line, and it starts as it should; the line without its start."""
        done = self(*args, **kwargs)
        lines = done.stderr.splitlines()
        assert done.returncode == 1, done
        assert len(lines) == 1 and lines[0].startswith("coldpatch: "), done
        return lines[0][len("coldpatch: ") :]


@pytest.fixture(scope="module")
def coldpatch(builddir):
    return Tool(builddir)


def compile_(out, sources, *flags, compiler="gcc", instrument=True, stdin=None, build_id=True):
    cxx = any(str(s).endswith(".cc") for s in sources)
    command = [COMPILERS[compiler][cxx], *flags, "-o", str(out), *map(str, sources)]
    if instrument:
        command.insert(1, "-finstrument-functions")
    if build_id:
        command.insert(1, "-Wl,--build-id=sha1")
    done = subprocess.run(command, capture_output=True, text=True, check=False, input=stdin)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return pathlib.Path(out)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with what all tests need: the checker, a host for libraries, one small program."""
    folder = tmp_path_factory.mktemp("coldpatch")
    compile_(
        folder / "checker.so",
        [PROGRAMS / "cold_checker.c"],
        "-O2",
        "-shared",
        "-fPIC",
        instrument=False,
    )
    compile_(
        folder / "host",
        ["-x", "c", "-"],
        instrument=False,
        stdin="""
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int argc, char **argv) {
            void *handle = argc > 1 ? dlopen(argv[1], RTLD_NOW) : 0;
            int (*f)(int) = handle ? (int (*)(int))dlsym(handle, "cold_forms") : 0;
            if (!f) { puts(dlerror()); return 1; }
            f(150);
            return 0;
        }""",
    )
    compile_(folder / "small", [PROGRAMS / "cold_forms.c"], "-O2", "-g", *UNMERGED["gcc"])
    return folder


@pytest.fixture
def small(shop, tmp_path):
    """A fresh unpatched program."""
    path = tmp_path / "small"
    shutil.copy2(shop / "small", path)
    return path


def only_file(folder, *names):
    """Nothing but these is in the folder: no temporary file was left."""
    assert sorted(os.listdir(folder)) == sorted(names)


def execute(module, shop, library, env=None):
    command = [str(shop / "host"), str(module)] if library else [str(module)]
    done = subprocess.run(
        command, capture_output=True, check=False, timeout=60, env={**os.environ, **(env or {})}
    )
    assert done.returncode == 0, done
    return done.stdout


def refused(coldpatch, path, *words):
    before = path.read_bytes()
    names = sorted(os.listdir(path.parent))
    line = coldpatch.refuses(path)
    for word in words:
        assert word in line, line
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == names
    return line


C_PROGRAM = (
    "static int twice(int n) { return 2 * n; } "
    "int main(int argc, char **argv) { return twice(argc) != 2; }"
)


def from_c(tmp_path, text, *flags, **kwargs):
    return compile_(tmp_path / "program", ["-x", "c", "-"], *flags, stdin=text, **kwargs)

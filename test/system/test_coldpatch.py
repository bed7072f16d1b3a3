# SPDX-License-Identifier: Apache-2.0
"""
coldpatch on what compilers and linkers make: every call of a hook becomes one NOP, nothing else changes, the
probe list is exact. The truth about sites comes from objdump, the truth about functions from a preloaded
library that logs who calls the hooks (test/programs/cold_checker.c). Then refusals, damaged input, file handling.

  IPROBE_TEST_FULL=1    the whole matrix of compilers, optimisation levels and link modes (minutes)
"""

import collections
import ctypes
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import stat
import struct
import subprocess
import time

import pytest

from iptest.probe_list import read_list

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "programs"
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
    ("gcc", "c", "-O0", "pie"), ("gcc", "c", "-O2", "pie"), ("gcc", "c", "-O3", "no-pie"), ("gcc", "c", "-O2", "shared"),
    ("gcc", "c", "-O2", "no-plt"), ("gcc", "c", "-Os", "cet"), ("gcc", "c", "-O1", "now"),
    ("gcc", "c", "-O2", "kept-relocs"), ("gcc", "c", "-O2", "lld"), ("gcc", "c", "-O2", "gold"),
    ("gcc", "c", "-O2 -flto", "pie"), ("gcc", "cc", "-O2", "pie"), ("gcc", "cc", "-Os", "shared"),
    ("gcc", "cc", "-O1", "no-pie"), ("gcc", "cc", "-O3", "debug"), ("clang", "c", "-O0", "shared"),
    ("clang", "c", "-O2", "pie"), ("clang", "c", "-Os", "no-pie"), ("clang", "c", "-O1", "no-plt"),
    ("clang", "c", "-O2 -flto", "pie"), ("clang", "c", "-O3", "cet"), ("clang", "cc", "-O2", "pie"),
    ("clang", "cc", "-O1", "no-pie-no-plt"), ("clang", "cc", "-O0", "debug"),
}

ENTRY, EXIT, TAIL = 1, 2, 3
IDLE = {
    (ENTRY, 5): "0f1f440000", (EXIT, 5): "0f1f440000", (ENTRY, 6): "660f1f440000", (EXIT, 6): "660f1f440000",
    (TAIL, 5): "c30f1f4000", (TAIL, 6): "c30f1f440000",
}
INLINED = 1

def segments(data):
    """PT_LOAD of an ELF64: (offset, vaddr, filesz)."""
    phoff, = struct.unpack_from("<Q", data, 32)
    phentsize, phnum = struct.unpack_from("<HH", data, 54)
    found = []
    for i in range(phnum):
        kind, _, offset, vaddr, _, filesz = struct.unpack_from("<IIQQQQ", data, phoff + i * phentsize)
        if kind == 1:
            found.append((offset, vaddr, filesz))
    return found


def file_offset(data, address):
    return next(o + address - v for o, v, size in segments(data) if v <= address < v + size)


def real_sites(path):
    """What objdump says about hook calls in an unpatched module: {address: (kind, length)}."""
    text = subprocess.run(["objdump", "-d", "-w", path], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*([0-9a-f]+):\t([0-9a-f ]+)\t(.*)<__cyg_profile_func_(enter|exit)(@[\w.]+)?>$", line)
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
    text = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    found = []
    for match in re.finditer(r"\] \.plt\S*\s+PROGBITS\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", text):
        found.append((int(match[1], 16), int(match[1], 16) + int(match[2], 16)))
    return found


class Tool:
    def __init__(self, builddir):
        self.path = str(builddir / "coldpatch" / "coldpatch")

    def __call__(self, *args, **kwargs):
        return subprocess.run([self.path, *map(str, args)], capture_output=True, text=True, check=False, timeout=120,
                              **kwargs)

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
        return lines[0][len("coldpatch: "):]


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
    compile_(folder / "checker.so", [PROGRAMS / "cold_checker.c"], "-O2", "-shared", "-fPIC", instrument=False)
    compile_(folder / "host", ["-x", "c", "-"], instrument=False, stdin="""
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int argc, char **argv) {
            void *handle = argc > 1 ? dlopen(argv[1], RTLD_NOW) : 0;
            int (*f)(int) = handle ? (int (*)(int))dlsym(handle, "cold_forms") : 0;
            if (!f) { puts(dlerror()); return 1; }
            f(150);
            return 0;
        }""")
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
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, env={**os.environ, **(env or {})})
    assert done.returncode == 0, done
    return done.stdout


def spelling(name):
    """Constructors and destructors have several names at one address."""
    return re.sub(r"(?<=[CD])[124](?=E)", "x", name)


def check_functions(module, shop, library, probes, folder):
    """Every hook call that happens comes from a site of the list, for that site's function."""
    log = folder / "log"
    output = execute(module, shop, library, {"LD_PRELOAD": str(shop / "checker.so"), "COLD_LOG": str(log)})
    fixed = module.read_bytes()[16] == 2  # ET_EXEC: addresses are what the list says, else relative
    by_return = {p.offset + p.length: p for p in probes if p.kind != TAIL}
    tails = {p.function.address for p in probes if p.kind == TAIL}
    seen, tails_seen = set(), 0
    for line in log.read_text().splitlines():
        event, caller, base, address, holder, function_base, function, name = line.split("\t")
        address, function = int(address, 16), int(function, 16)
        here = os.path.basename(caller) == module.name
        its_own = os.path.basename(holder) == module.name
        if not fixed:
            address -= int(base, 16)
            function -= int(function_base, 16)
        probe = by_return.get(address) if here else None
        if probe and (event == "E") == (probe.kind == ENTRY):
            seen.add(probe.offset)
            if probe.function.address:
                assert probe.function.address == function, (hex(probe.offset), probe, line)
            else:
                assert spelling(probe.function.name) == spelling(name), (hex(probe.offset), probe, line)
        elif event == "X" and its_own:
            # the return address is the caller's: all that can be said is that the function has such a site
            assert function in tails, line
            tails_seen += 1
        else:
            assert not here, f"no site of the list: {line}"
    assert len(seen) > len(probes) // 4
    return output, tails_seen


def check_bytes(before, after, probes, whole=True):
    """Each site is its idle form, and of all else only the ELF header's place of the section table has changed. whole:
    that goes for the whole old file, not for what is loaded alone."""
    expected = bytearray(before)
    for p in probes:
        at = file_offset(before, p.offset)
        expected[at:at + p.length] = bytes.fromhex(IDLE[p.kind, p.length])
    expected[40:48] = after[40:48]  # e_shoff
    expected[60:62] = after[60:62]  # e_shnum
    size = len(before) if whole else max(offset + filesz for offset, _, filesz in segments(before))
    assert after[:size] == bytes(expected[:size])


def matrix():
    for compiler in COMPILERS:
        for language in ("c", "cc"):
            for optimisation in OPTIMISATIONS:
                for mode in MODES:
                    if not FULL and (compiler, language, optimisation, mode) not in SOME:
                        continue
                    lto = "flto" in optimisation
                    if lto and (mode in ("gold", "lld") or compiler + language == "clangcc"):
                        # gcc's LTO plugin goes with ld only; clang 14 cannot link libstdc++ like this at all
                        continue
                    yield compiler, language, optimisation, mode


@pytest.mark.parametrize("compiler,language,optimisation,mode", matrix())
def test_forms(compiler, language, optimisation, mode, coldpatch, shop, tmp_path):
    if not shutil.which(COMPILERS[compiler][0]):
        pytest.skip(f"no {compiler}")
    library = mode == "shared"
    flags = [*optimisation.split(), *MODES[mode].split(), *UNMERGED[compiler]]
    if compiler == "clang" and "-flto" in flags:
        flags += ["-fuse-ld=lld", "-Wl,-plugin-opt=-enable-tail-merge=0", "-Wl,-plugin-opt=-simplifycfg-sink-common=false"]
    if library:
        flags.append("-DCOLD_LIBRARY")
    module = compile_(tmp_path / "module", [PROGRAMS / f"cold_forms.{language}"], *flags, compiler=compiler)
    before = module.read_bytes()
    patched = tmp_path / "patched"

    summary, = coldpatch.json("--list", tmp_path / "list", "-o", patched, module)
    assert module.read_bytes() == before
    probes = read_list(tmp_path / "list").probes
    truth = real_sites(module)
    assert truth
    assert {p.offset: (p.kind, p.length) for p in probes} == truth
    assert summary["status"] == "patched" and summary["placement"] == "instrument"
    assert (summary["sites"], summary["by_code"]) == (len(truth), len(truth))
    for kind, key in ((ENTRY, "entry"), (EXIT, "exit"), (TAIL, "tail_exit")):
        assert summary[key] == sum(k == kind for k, _ in truth.values())

    check_bytes(before, patched.read_bytes(), probes, mode != "kept-relocs")
    assert summary["found_by"] == ["relocations" if mode == "kept-relocs" else "decoding"]
    assert real_sites(patched) == {}
    warnings = subprocess.run(["readelf", "-SWhl", patched], capture_output=True, text=True, check=True)
    assert warnings.stderr == "" and ".iprobe.probes" in warnings.stdout
    # the name that the checker compares must be the module's
    idle = execute(patched, shop, library)
    output, _ = check_functions(module, shop, library, probes, tmp_path)
    assert idle == output
    assert coldpatch.json(patched)[0]["status"] == "already"


def test_six_byte_sites_appear(coldpatch, shop, tmp_path):
    """The matrix would prove little if no compiler made them."""
    module = compile_(tmp_path / "m", [PROGRAMS / "cold_forms.c"], "-O2", "-fno-plt")
    coldpatch.ok("--list", tmp_path / "list", module)
    forms = {(p.kind, p.length) for p in read_list(tmp_path / "list").probes}
    assert forms == {(ENTRY, 6), (EXIT, 6), (TAIL, 6)}


def test_merged_sites_are_not_misnamed(coldpatch, shop, tmp_path):
    """Without iprobe-cc's flags optimisers make one call of several. Such a site is named after the function that holds
    it, is marked as inlined so that no frame is closed by it, and no other name is wrong."""
    module = compile_(tmp_path / "m", [PROGRAMS / "cold_forms.cc"], "-O2")
    summary, = coldpatch.json("--list", tmp_path / "list", "-o", tmp_path / "o", module)
    assert summary["by_code"] + summary["by_symbol"] == summary["sites"]
    assert 0 < summary["by_symbol"] <= summary["sites"] // 100
    log = tmp_path / "log"
    execute(module, shop, False, {"LD_PRELOAD": str(shop / "checker.so"), "COLD_LOG": str(log)})
    probes = {p.offset + p.length: p for p in read_list(tmp_path / "list").probes}
    functions = collections.defaultdict(set)
    wrong = set()
    for line in log.read_text().splitlines():
        _, _, base, address, _, function_base, function, _ = line.split("\t")
        probe = probes.get(int(address, 16) - int(base, 16))
        if probe and probe.kind != TAIL and probe.function.address:
            functions[probe].add(int(function, 16) - int(function_base, 16))
            if probe.function.address != int(function, 16) - int(function_base, 16):
                wrong.add(probe)
    assert len(wrong) <= summary["by_symbol"]
    assert all(p.flags & INLINED for p in wrong)


def test_names_files_and_lines(coldpatch, shop, small, tmp_path):
    coldpatch.ok("--list", tmp_path / "list", small)
    found = read_list(tmp_path / "list")
    source = (PROGRAMS / "cold_forms.c").read_text().splitlines()
    assert {"main", "fibonacci", "clamp", "choose", "crowded", "give_up"} <= {f.name for f in found.functions}
    names = [f.name for f in found.functions]
    assert len(names) == len(set(names))
    for f in found.functions:
        assert os.path.basename(f.file) == "cold_forms.c"
        assert re.search(rf"\b{f.name}\(", source[f.line - 1]), f
    lines = [p for p in found.probes if p.line]
    assert len(lines) > len(found.probes) * 9 // 10
    entries = [p for p in found.probes if p.kind == ENTRY and not p.flags & INLINED and p.line]
    assert entries and all(abs(p.line - p.function.line) <= 2 for p in entries)


def test_inlined_instances_are_marked(coldpatch, small, tmp_path):
    """A function has one frame of its own: of its entries that are not marked there is exactly one."""
    coldpatch.ok("--list", tmp_path / "list", small)
    probes = read_list(tmp_path / "list").probes
    own = collections.Counter(p.function.name for p in probes if p.kind == ENTRY and not p.flags & INLINED)
    # clones (.part, .constprop, .isra) have a frame each; a recursive function inlined into itself has not
    assert own["main"] == own["choose"] == own["clamp"] == own["cold_forms"] == own["fibonacci"] == 1
    assert any(p.function.name == "fibonacci" and p.flags & INLINED for p in probes)
    assert any(p.function.name == "clamp" and p.flags & INLINED for p in probes)


@pytest.mark.parametrize("compiler,flags", [
    ("clang", ["-fsanitize=undefined"]),  # data in front of each function's first instruction
    ("gcc", ["-mindirect-branch=thunk"]),  # indirect jumps that look like direct ones
    ("gcc", ["-Wl,-z,pack-relative-relocs"]),  # offset tables without relocations
])
def test_odd_code(compiler, flags, coldpatch, shop, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    module = compile_(tmp_path / "m", [PROGRAMS / "cold_forms.cc"], "-O2", *flags, *UNMERGED[compiler], compiler=compiler)
    summary, = coldpatch.json("--list", tmp_path / "list", "-o", tmp_path / "o", module)
    assert summary["by_code"] == summary["sites"] > 1000
    output, _ = check_functions(module, shop, False, read_list(tmp_path / "list").probes, tmp_path)
    assert execute(tmp_path / "o", shop, False) == output


def test_stripped_module_still_has_the_right_addresses(coldpatch, shop, tmp_path):
    module = compile_(tmp_path / "m", [PROGRAMS / "cold_forms.cc"], "-O2", "-s", *UNMERGED["gcc"])
    summary, = coldpatch.json("--list", tmp_path / "list", "-o", tmp_path / "o", module)
    probes = read_list(tmp_path / "list").probes
    assert summary["by_code"] == summary["sites"]
    check_functions(module, shop, False, probes, tmp_path)
    assert any(p.function.name == f"sub_{p.function.address:x}" for p in probes)


def test_separate_list_is_the_section(coldpatch, small, tmp_path):
    coldpatch.ok("--list", tmp_path / "list", small)
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.iprobe.probes",
                    "--set-section-flags", ".iprobe.probes=alloc", small, tmp_path / "section"], check=True)
    assert (tmp_path / "section").read_bytes() == (tmp_path / "list").read_bytes()
    again = tmp_path / "again"
    coldpatch.ok("--list", again, small)
    assert again.read_bytes() == (tmp_path / "list").read_bytes()
    notes = subprocess.run(["readelf", "-n", small], capture_output=True, text=True, check=True).stdout
    assert read_list(again).build_id in notes


def test_strip_keeps_the_list(coldpatch, shop, small, tmp_path):
    coldpatch.ok(small)
    subprocess.run(["strip", small], check=True)
    assert coldpatch.json(small)[0]["status"] == "already"
    assert execute(small, shop, False)


# --- files


def test_second_run_changes_nothing(coldpatch, small):
    coldpatch.ok(small)
    before, state = small.read_bytes(), small.stat()
    done = coldpatch.ok(small)
    assert "already" in done.stdout
    assert small.read_bytes() == before and small.stat().st_ino == state.st_ino
    assert small.stat().st_mtime_ns == state.st_mtime_ns


def test_attributes_are_kept(coldpatch, small):
    os.chmod(small, 0o4751 if os.getuid() else 0o2751)
    os.utime(small, ns=(1_234_567_890_123_456_789, 1_111_111_111_222_222_222))
    if os.getuid() == 0:
        os.chown(small, 1234, 2345)
        os.chmod(small, 0o6751)
    try:
        os.setxattr(small, "user.iprobe", b"value")
        xattr = True
    except OSError:
        xattr = False
    before = small.stat()
    coldpatch.ok(small)
    after = small.stat()
    for field in ("st_mode", "st_uid", "st_gid", "st_mtime_ns", "st_nlink"):
        assert getattr(after, field) == getattr(before, field), field
    assert not xattr or os.getxattr(small, "user.iprobe") == b"value"
    only_file(small.parent, "small")


def test_symbolic_links_are_followed(coldpatch, small, tmp_path):
    (tmp_path / "dir").mkdir()
    link = tmp_path / "dir" / "link"
    link.symlink_to("../small")
    coldpatch.ok(link)
    assert link.is_symlink() and os.readlink(link) == "../small"
    assert coldpatch.json(small)[0]["status"] == "already"
    only_file(tmp_path / "dir", "link")


def test_hard_links_keep_the_old_file(coldpatch, small, tmp_path):
    other = tmp_path / "other"
    os.link(small, other)
    before = other.read_bytes()
    assert "hard link" in coldpatch.ok(small).stdout
    assert other.read_bytes() == before


def test_a_running_program_is_not_disturbed(coldpatch, tmp_path):
    program = compile_(tmp_path / "program", ["-x", "c", "-"], stdin="""
        #include <stdio.h>
        #include <unistd.h>
        static int twice(int n) { return n * 2; }
        int main(void) { int c; puts("ready"); fflush(stdout); while ((c = getchar()) != EOF) twice(c); puts("done");
        return 0; }""")
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    coldpatch.ok(program)
    output, _ = process.communicate("some text", timeout=30)
    assert (output, process.returncode) == ("done\n", 0)


def test_output_and_dry_run_leave_the_input(coldpatch, small, tmp_path):
    before, state = small.read_bytes(), small.stat()
    done = coldpatch.ok("--dry-run", "--list", tmp_path / "list", small)
    assert "would be patched" in done.stdout
    only_file(tmp_path, "small")
    coldpatch.ok("-o", tmp_path / "out", small)
    assert small.read_bytes() == before and small.stat().st_mtime_ns == state.st_mtime_ns
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == stat.S_IMODE(state.st_mode)
    # from a patched file -o makes a copy
    coldpatch.ok("-o", tmp_path / "copy", tmp_path / "out")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "out").read_bytes()


def test_relative_paths(coldpatch, small, tmp_path):
    coldpatch.ok("-o", "out", "--list", "list", "small", cwd=tmp_path)
    only_file(tmp_path, "small", "out", "list")
    coldpatch.ok("small", cwd=tmp_path)
    assert (tmp_path / "small").read_bytes() == (tmp_path / "out").read_bytes()


def test_many_at_once_and_one_refused(coldpatch, shop, tmp_path):
    for name in "abc":
        shutil.copy(shop / "small", tmp_path / name)
    (tmp_path / "b").write_bytes(b"no ELF")
    done = coldpatch("--json", *(tmp_path / n for n in "abc"))
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    modules = json.loads(done.stdout)["modules"]
    assert [os.path.basename(m["path"]) for m in modules] == ["a", "c"]
    assert all(m["status"] == "patched" for m in modules)


def test_quiet(coldpatch, small):
    assert coldpatch.ok("-q", small).stdout == ""


def test_same_input_same_output(coldpatch, shop, tmp_path):
    for name in "ab":
        shutil.copy(shop / "small", tmp_path / name)
        coldpatch.ok(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("arguments", [[], ["--nonsense", "x"], ["-o"], ["-o", "x", "a", "b"],
                                       ["--list", "x", "a", "b"], ["-q"]])
def test_usage(coldpatch, arguments, tmp_path):
    done = coldpatch(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("coldpatch: ")
    only_file(tmp_path)


def test_help_and_version(coldpatch):
    assert coldpatch.ok("--help").stdout.startswith("usage: coldpatch")
    assert re.fullmatch(r"coldpatch \d+\.\d+\.\d+\n", coldpatch.ok("--version").stdout)


# --- refusals: exit 1, one line, the file as it was


def refused(coldpatch, path, *words):
    before = path.read_bytes()
    names = sorted(os.listdir(path.parent))
    line = coldpatch.refuses(path)
    for word in words:
        assert word in line, line
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == names
    return line


C_PROGRAM = "static int twice(int n) { return 2 * n; } int main(int argc, char **argv) { return twice(argc) != 2; }"


def from_c(tmp_path, text, *flags, **kwargs):
    return compile_(tmp_path / "program", ["-x", "c", "-"], *flags, stdin=text, **kwargs)


def test_refuses_what_was_not_instrumented(coldpatch, tmp_path):
    line = refused(coldpatch, from_c(tmp_path, C_PROGRAM, instrument=False))
    assert line == f"no probes: {tmp_path}/program was not compiled with -finstrument-functions (use iprobe-cc)"


def test_one_line_whatever_the_name(coldpatch, tmp_path):
    path = tmp_path / "two\nlines\x1b[1m"
    shutil.copy(from_c(tmp_path, C_PROGRAM, instrument=False), path)
    coldpatch.refuses(path)
    path.write_bytes(b"no ELF")
    coldpatch.refuses(path)


def test_refuses_without_build_id(coldpatch, tmp_path):
    refused(coldpatch, from_c(tmp_path, C_PROGRAM, "-Wl,--build-id=none", build_id=False), "build-id",
            "-Wl,--build-id")


def test_refuses_static(coldpatch, tmp_path):
    refused(coldpatch, from_c(tmp_path, C_PROGRAM, "-static"), "static", "link it dynamically")


def test_refuses_a_module_with_its_own_tracer(coldpatch, tmp_path):
    own = """
        __attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *a, void *b) { (void)a; (void)b; }
        __attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *a, void *b) { (void)b; (void)a; }
        """
    refused(coldpatch, from_c(tmp_path, own + C_PROGRAM), "own tracer", "0x")
    refused(coldpatch, from_c(tmp_path, own + C_PROGRAM, "-shared", "-fPIC"), "own tracer", "0x")


@pytest.mark.parametrize("flags", [["-no-pie", "-fno-pie"], ["-pie", "-fPIE"]])
def test_refuses_calls_through_registers(coldpatch, tmp_path, flags):
    refused(coldpatch, from_c(tmp_path, C_PROGRAM, "-mcmodel=large", "-O2", *flags), "__cyg_profile_func_")


def test_refuses_taken_addresses(coldpatch, tmp_path):
    taken = "void __cyg_profile_func_exit(void *, void *); void *volatile p = (void *)__cyg_profile_func_exit;"
    refused(coldpatch, from_c(tmp_path, taken + C_PROGRAM), "__cyg_profile_func_exit", "0x")
    loaded = """void __cyg_profile_func_exit(void *, void *);
        void *get(void) { return (void *)__cyg_profile_func_exit; }"""
    refused(coldpatch, from_c(tmp_path, loaded + C_PROGRAM, "-fno-plt"), "(in get)", "takes the function's address")


ASSEMBLY = """
	.text
	.globl extra
	.type extra,@function
extra:
	{body}
	ret
	.size extra,.-extra
	.section .note.GNU-stack,"",@progbits
"""


def with_assembly(tmp_path, body, *flags):
    source = tmp_path / "extra.s"
    source.write_text(ASSEMBLY.replace("{body}", body))
    module = compile_(tmp_path / "program", ["-x", "c", "-", "-x", "assembler", source], *flags,
                      stdin="void extra(void);\n" + C_PROGRAM.replace("return twice", "if (argc > 5) extra(); return twice"))
    source.unlink()
    return module


@pytest.mark.parametrize("body,words", [
    ("testl %eax,%eax\n\tjne __cyg_profile_func_exit@PLT", ["conditional jump", "(in extra)"]),
    ("jmp __cyg_profile_func_enter@PLT", ["tail call"]),
    ("notrack jmp *__cyg_profile_func_exit@GOTPCREL(%rip)", ["unknown form", "(in extra)"]),
    ("call *__cyg_profile_func_exit@GOTPCREL(%rip)", None),
    ("ds call *__cyg_profile_func_exit@GOTPCREL(%rip)", ["takes the function"]),
    ("movq __cyg_profile_func_enter@GOTPCREL(%rip),%rax\n\tcall *%rax", ["takes the function's address"]),
    ("pushq __cyg_profile_func_enter@GOTPCREL(%rip)\n\tpopq %rax", ["takes the function's address"]),
    ("leaq __cyg_profile_func_enter@PLT(%rip),%rax\n\tcall *%rax", ["takes the function's address"]),
    ("cmpq $0,__cyg_profile_func_enter@GOTPCREL(%rip)", ["takes the function's address"]),
    # a call that hides in what looks like a longer instruction, behind bytes that are none
    (".byte 0x06,0x48,0xb8\n\tcall __cyg_profile_func_enter@PLT\n\tnop\n\tnop\n\tnop", ["does not decode"]),
    # the same behind data that decodes, but that the code jumps across
    ("jmp 1f\n\t.byte 0x48,0xb8\n1:\tcall __cyg_profile_func_enter@PLT\n\tnop\n\tnop\n\tnop", ["does not decode"]),
    ("call __cyg_profile_func_enter@PLT\n\tjmp .-3", ["not decode"]),
    (".byte 0x06\n\tcall __cyg_profile_func_enter@PLT", ["do", "not decode"]),
])
def test_refuses_other_references(coldpatch, tmp_path, body, words):
    module = with_assembly(tmp_path, body)
    if words is None:  # the one among them that is well
        coldpatch.ok(module)
        return
    line = refused(coldpatch, module, *words)
    assert re.search(r"0x[0-9a-f]+", line)


def test_kept_relocations_must_agree(coldpatch, tmp_path):
    """Of -Wl,-q: a relocation that is at no call means that the decoding is wrong."""
    refused(coldpatch, with_assembly(tmp_path, ".reloc .+1, R_X86_64_PLT32, __cyg_profile_func_enter-4\n\tnopl 64(%rax)\n\tnop",
                                     "-Wl,-q"), "0x")


def test_coincidences_in_constants_are_no_sites(coldpatch, shop, tmp_path):
    """The bytes of a call inside a longer instruction of a function that decodes well are left alone."""
    module = with_assembly(tmp_path, "movabsq $0x1122334455667788,%rax")
    data = bytearray(module.read_bytes())
    where = data.index(bytes.fromhex("8877665544332211"))
    symbols = subprocess.run(["nm", module], capture_output=True, text=True, check=True).stdout
    extra = int(re.search(r"([0-9a-f]+) T extra", symbols)[1], 16)
    disassembly = subprocess.run(["objdump", "-d", module], capture_output=True, text=True, check=True).stdout
    stub = int(re.search(r"([0-9a-f]+) <__cyg_profile_func_enter@plt>:", disassembly)[1], 16)
    data[where:where + 5] = b"\xe8" + struct.pack("<i", stub - (extra + 2 + 5))
    module.write_bytes(data)
    truth = len(re.findall(r"call .*<__cyg_profile_func_\w+@plt>", disassembly))
    assert coldpatch.json(module)[0]["sites"] == truth
    assert module.read_bytes()[where:where + 8] == data[where:where + 8]


def test_refuses_what_was_changed_after_patching(coldpatch, small, tmp_path):
    coldpatch.ok("--list", tmp_path / "list", small)
    data = small.read_bytes()
    probe = read_list(tmp_path / "list").probes[3]
    at = file_offset(data, probe.offset)
    small.write_bytes(data[:at] + b"\x90" + data[at + 1:])
    refused(coldpatch, small, f"0x{probe.offset:x}", "not a NOP")

    at = data.index(b"iprobePL")
    for where, what in ((8, b"\x63"), (16, b"\x03"), (28, b"\xff\xff\xff"), (90, b"\x55")):
        small.write_bytes(data[:at + where] + what + data[at + where + len(what):])
        refused(coldpatch, small)
    small.write_bytes(data)
    coldpatch.ok(small)


def test_refuses_a_list_of_another_build(coldpatch, small, tmp_path):
    coldpatch.ok(small)
    data = small.read_bytes()
    identity = bytes.fromhex(coldpatch.json(small)[0]["build_id"])
    at = data.index(identity)
    small.write_bytes(data[:at] + bytes(20) + data[at + 20:])
    refused(coldpatch, small, "another build")


# --- bad input


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x02\x01\x01" + bytes(9), bytes(4096)])
def test_no_elf(coldpatch, tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    refused(coldpatch, path, str(path))


def test_no_file(coldpatch, tmp_path):
    assert "No such file" in coldpatch.refuses(tmp_path / "absent")
    assert str(tmp_path) in coldpatch.refuses(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    coldpatch.refuses(tmp_path / "fifo")
    coldpatch.refuses("/dev/null")


def test_other_machines(coldpatch, small):
    data = bytearray(small.read_bytes())
    struct.pack_into("<H", data, 18, 183)
    small.write_bytes(data)
    refused(coldpatch, small, "183", "x86-64")
    data[4] = 1  # 32 bits
    small.write_bytes(data)
    refused(coldpatch, small)


def test_objects_and_archives(coldpatch, tmp_path):
    subprocess.run(["gcc", "-finstrument-functions", "-c", "-x", "c", "-", "-o", tmp_path / "o.o"], input=C_PROGRAM,
                   text=True, check=True)
    refused(coldpatch, tmp_path / "o.o")
    subprocess.run(["ar", "rc", tmp_path / "lib.a", tmp_path / "o.o"], check=True)
    refused(coldpatch, tmp_path / "lib.a")


def test_truncated(coldpatch, small):
    data = small.read_bytes()
    lengths = {1, 15, 16, 63, 64, 65, 120, 1000, len(data) - 1, len(data) - 64, len(data) - 65}
    lengths |= {len(data) * i // 40 for i in range(1, 40)}
    for length in sorted(lengths):
        small.write_bytes(data[:length])
        refused(coldpatch, small, str(small))


def test_damaged(coldpatch, small, tmp_path):
    """Whatever the bytes are: no crash, and either one line and the old file, or a new file that is complete."""
    data = small.read_bytes()
    chance = random.Random(7)
    shoff, = struct.unpack_from("<Q", data, 40)
    places = [(0, 64), (64, 64 + 13 * 56), (shoff, len(data)), (0, len(data))]
    for round_ in range(600 if FULL else 120):
        damaged = bytearray(data)
        low, high = places[round_ % len(places)]
        for _ in range(chance.choice((1, 1, 2, 8))):
            damaged[chance.randrange(low, high)] = chance.choice((0, 1, 0x7f, 0x80, 0xff, chance.randrange(256)))
        small.write_bytes(damaged)
        done = coldpatch("--list", tmp_path / "list", small)
        assert done.returncode in (0, 1), (round_, done)
        if done.returncode:
            assert len(done.stderr.splitlines()) == 1, (round_, done)
            assert small.read_bytes() == bytes(damaged)
        else:
            assert coldpatch.ok(small)
        only = set(os.listdir(tmp_path)) - {"list"}
        assert only == {"small"}, (round_, only)


def as_nobody():
    os.setgid(65534)
    os.setuid(65534)


def needs_root():
    if os.getuid() != 0:
        pytest.skip("needs root to become somebody else")


@pytest.fixture
def open_folder(top):
    """A folder that every user may enter."""
    path = top / f"open-{time.monotonic_ns()}"
    path.mkdir(mode=0o755)
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_without_permission(coldpatch, shop, open_folder, top):
    needs_root()
    tool = open_folder / "coldpatch"
    shutil.copy(coldpatch.path, tool)
    other = Tool(pathlib.Path("/nonexistent"))
    other.path = str(tool)
    if other("--version", preexec_fn=as_nobody).returncode:
        pytest.skip("the test folder is closed to ordinary users")
    path = open_folder / "program"
    shutil.copy(shop / "small", path)
    before = path.read_bytes()
    # a folder that one may not write to
    assert "Permission denied" in other.refuses(path, preexec_fn=as_nobody)
    # a file that one may not read
    path.chmod(0o700)
    assert "Permission denied" in other.refuses(path, preexec_fn=as_nobody)
    # a file of somebody else in a folder of one's own: it would change hands
    path.chmod(0o755)
    open_folder.chmod(0o777)
    assert "owner" in other.refuses(path, preexec_fn=as_nobody)
    assert path.read_bytes() == before
    only_file(open_folder, "coldpatch", "program")
    # an output elsewhere is one's own
    done = other("-o", open_folder / "out", path, preexec_fn=as_nobody)
    assert done.returncode == 0 and (open_folder / "out").stat().st_uid == 65534


def test_no_room(coldpatch, small, tmp_path):
    """As on a full disk: the limit on file size makes the write fail."""
    before = small.read_bytes()

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, len(before) // 2))

    assert "File too large" in coldpatch.refuses(small, preexec_fn=limit)
    assert small.read_bytes() == before
    only_file(tmp_path, "small")


def test_full_device(coldpatch, small):
    done = subprocess.run(f"'{coldpatch.path}' --json '{small}' > /dev/full", shell=True, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1


def test_unwritable_list_changes_nothing(coldpatch, small):
    before = small.read_bytes()
    coldpatch.refuses("--list", small.parent / "absent" / "list", small)
    assert small.read_bytes() == before
    only_file(small.parent, "small")


def test_killed_at_any_moment(coldpatch, shop, tmp_path):
    """Either the old file or the new one; never half a file, also not beside it (a complete one with a name of its own
    exists for the microseconds before the rename)."""
    path = tmp_path / "program"
    old = (shop / "small").read_bytes()
    coldpatch.ok("-o", tmp_path / "new", shop / "small")
    new = (tmp_path / "new").read_bytes()
    (tmp_path / "new").unlink()
    chance = random.Random(11)
    seen = set()
    for _ in range(100):
        path.write_bytes(old)
        path.chmod(0o755)
        process = subprocess.Popen([coldpatch.path, "-q", path])
        time.sleep(chance.random() * 0.03)
        process.send_signal(signal.SIGKILL)
        process.wait()
        data = path.read_bytes()
        assert data in (old, new)
        seen.add(data == new)
        for left in set(os.listdir(tmp_path)) - {"program"}:
            assert left.startswith(".coldpatch.") and (tmp_path / left).read_bytes() == new
            (tmp_path / left).unlink()
    assert seen == {False, True}


def test_list_fits_the_c_reader(builddir, coldpatch, small):
    """iprobe reads what coldpatch wrote."""
    coldpatch.ok(small)
    done = subprocess.run([builddir / "cli" / "iprobe", "list", small, "--json"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done
    module, = json.loads(done.stdout)["modules"]
    assert len(module["probes"]) == coldpatch.json(small)[0]["sites"]
    assert ctypes.sizeof(ctypes.c_void_p) == 8

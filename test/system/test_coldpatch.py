# SPDX-License-Identifier: Apache-2.0
"""
coldpatch on what compilers and linkers make: every call of a hook becomes one NOP, nothing else
changes, the probe list is exact. The truth about sites comes from objdump, the truth about
functions from a preloaded library that logs who calls the hooks (test/programs/cold_checker.c).
test_coldpatch_files.py and test_coldpatch_refusals.py have the rest.

  IPROBE_TEST_FULL=1    the whole matrix of compilers, optimisation levels and link modes
                        (minutes)
"""

import collections
import ctypes
import json
import os
import re
import shutil
import subprocess

import pytest

from iptest.coldpatching import (
    COMPILERS,
    ENTRY,
    EXIT,
    FULL,
    IDLE,
    INLINED,
    MODES,
    OPTIMISATIONS,
    PROGRAMS,
    SOME,
    TAIL,
    UNMERGED,
    coldpatch,
    compile_,
    execute,
    file_offset,
    real_sites,
    shop,
    small,
)
from iptest.probe_list import read_list
from iptest.sections import loaded_bytes, symbols


def spelling(name):
    """Constructors and destructors have several names at one address."""
    return re.sub(r"(?<=[CD])[124](?=E)", "x", name)


def check_functions(module, shop, library, probes, folder):
    """Every hook call that happens comes from a site of the list, for that site's function."""
    log = folder / "log"
    output = execute(
        module, shop, library, {"LD_PRELOAD": str(shop / "checker.so"), "COLD_LOG": str(log)}
    )
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
                assert spelling(probe.function.name) == spelling(name), (
                    hex(probe.offset),
                    probe,
                    line,
                )
        elif event == "X" and its_own:
            # the return address is the caller's: all that can be said is that the function has such
            # a site
            assert function in tails, line
            tails_seen += 1
        else:
            assert not here, f"no site of the list: {line}"
    assert len(seen) > len(probes) // 4
    return output, tails_seen


def check_bytes(module, patched, probes, whole=True):
    """Each site is its idle form, and of all else only the ELF header's place of the section table
    has changed. whole: that goes for the whole old file; else for what is loaded, since sections
    are gone, and others have new numbers.
    """
    expected, after = bytearray(module.read_bytes()), patched.read_bytes()
    for p in probes:
        at = file_offset(expected, p.offset)
        expected[at : at + p.length] = bytes.fromhex(IDLE[p.kind, p.length])
    if not whole:
        wanted = module.with_suffix(".expected")
        wanted.write_bytes(expected)
        assert loaded_bytes(patched) == loaded_bytes(wanted)
        assert symbols(patched) == symbols(module)
        return
    expected[40:48] = after[40:48]  # e_shoff
    expected[60:62] = after[60:62]  # e_shnum
    assert after[: len(expected)] == bytes(expected)


def matrix():
    for compiler in COMPILERS:
        for language in ("c", "cc"):
            for optimisation in OPTIMISATIONS:
                for mode in MODES:
                    if not FULL and (compiler, language, optimisation, mode) not in SOME:
                        continue
                    lto = "flto" in optimisation
                    if lto and (mode in ("gold", "lld") or compiler + language == "clangcc"):
                        # gcc's LTO plugin goes with ld only; clang 14 cannot link libstdc++ like
                        # this at all
                        continue
                    yield compiler, language, optimisation, mode


@pytest.mark.parametrize("compiler,language,optimisation,mode", matrix())
def test_forms(compiler, language, optimisation, mode, coldpatch, shop, tmp_path):
    if not shutil.which(COMPILERS[compiler][0]):
        pytest.skip(f"no {compiler}")
    library = mode == "shared"
    flags = [*optimisation.split(), *MODES[mode].split(), *UNMERGED[compiler]]
    if compiler == "clang" and "-flto" in flags:
        flags += [
            "-fuse-ld=lld",
            "-Wl,-plugin-opt=-enable-tail-merge=0",
            "-Wl,-plugin-opt=-simplifycfg-sink-common=false",
        ]
    if library:
        flags.append("-DCOLD_LIBRARY")
    module = compile_(
        tmp_path / "module", [PROGRAMS / f"cold_forms.{language}"], *flags, compiler=compiler
    )
    before = module.read_bytes()
    patched = tmp_path / "patched"

    (summary,) = coldpatch.json("--list", tmp_path / "list", "-o", patched, module)
    assert module.read_bytes() == before
    probes = read_list(tmp_path / "list").probes
    truth = real_sites(module)
    assert truth
    assert {p.offset: (p.kind, p.length) for p in probes} == truth
    assert summary["status"] == "patched" and summary["placement"] == "instrument"
    assert (summary["sites"], summary["by_code"]) == (len(truth), len(truth))
    for kind, key in ((ENTRY, "entry"), (EXIT, "exit"), (TAIL, "tail_exit")):
        assert summary[key] == sum(k == kind for k, _ in truth.values())

    check_bytes(module, patched, probes, mode != "kept-relocs")
    assert summary["found_by"] == ["relocations" if mode == "kept-relocs" else "decoding"]
    assert real_sites(patched) == {}
    warnings = subprocess.run(
        ["readelf", "-SWhl", patched], capture_output=True, text=True, check=True
    )
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
    """Without iprobe-cc's flags optimisers make one call of several. Such a site is named after the
    function that holds it, is marked as inlined so that no frame is closed by it, and no other
    name is wrong.
    """
    module = compile_(tmp_path / "m", [PROGRAMS / "cold_forms.cc"], "-O2")
    (summary,) = coldpatch.json("--list", tmp_path / "list", "-o", tmp_path / "o", module)
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
    assert {"main", "fibonacci", "clamp", "choose", "crowded", "give_up"} <= {
        f.name for f in found.functions
    }
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
    """A function has one frame of its own: of its entries that are not marked there is exactly
    one.
    """
    coldpatch.ok("--list", tmp_path / "list", small)
    probes = read_list(tmp_path / "list").probes
    own = collections.Counter(
        p.function.name for p in probes if p.kind == ENTRY and not p.flags & INLINED
    )
    # clones (.part, .constprop, .isra) have a frame each; a recursive function inlined into itself
    # has not
    assert (
        own["main"] == own["choose"] == own["clamp"] == own["cold_forms"] == own["fibonacci"] == 1
    )
    assert any(p.function.name == "fibonacci" and p.flags & INLINED for p in probes)
    assert any(p.function.name == "clamp" and p.flags & INLINED for p in probes)


@pytest.mark.parametrize(
    "compiler,flags",
    [
        ("clang", ["-fsanitize=undefined"]),  # data in front of each function's first instruction
        ("gcc", ["-mindirect-branch=thunk"]),  # indirect jumps that look like direct ones
        ("gcc", ["-Wl,-z,pack-relative-relocs"]),  # offset tables without relocations
    ],
)
def test_odd_code(compiler, flags, coldpatch, shop, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    module = compile_(
        tmp_path / "m",
        [PROGRAMS / "cold_forms.cc"],
        "-O2",
        *flags,
        *UNMERGED[compiler],
        compiler=compiler,
    )
    (summary,) = coldpatch.json("--list", tmp_path / "list", "-o", tmp_path / "o", module)
    assert summary["by_code"] == summary["sites"] > 1000
    output, _ = check_functions(module, shop, False, read_list(tmp_path / "list").probes, tmp_path)
    assert execute(tmp_path / "o", shop, False) == output


def test_stripped_module_still_has_the_right_addresses(coldpatch, shop, tmp_path):
    module = compile_(tmp_path / "m", [PROGRAMS / "cold_forms.cc"], "-O2", "-s", *UNMERGED["gcc"])
    (summary,) = coldpatch.json("--list", tmp_path / "list", "-o", tmp_path / "o", module)
    probes = read_list(tmp_path / "list").probes
    assert summary["by_code"] == summary["sites"]
    check_functions(module, shop, False, probes, tmp_path)
    assert any(p.function.name == f"sub_{p.function.address:x}" for p in probes)


def test_separate_list_is_the_section(coldpatch, small, tmp_path):
    coldpatch.ok("--list", tmp_path / "list", small)
    subprocess.run(
        [
            "objcopy",
            "-O",
            "binary",
            "--only-section=.iprobe.probes",
            "--set-section-flags",
            ".iprobe.probes=alloc",
            small,
            tmp_path / "section",
        ],
        check=True,
    )
    assert (tmp_path / "section").read_bytes() == (tmp_path / "list").read_bytes()
    again = tmp_path / "again"
    coldpatch.ok("--list", again, small)
    assert again.read_bytes() == (tmp_path / "list").read_bytes()
    notes = subprocess.run(
        ["readelf", "-n", small], capture_output=True, text=True, check=True
    ).stdout
    assert read_list(again).build_id in notes


def test_strip_keeps_the_list(coldpatch, shop, small, tmp_path):
    coldpatch.ok(small)
    subprocess.run(["strip", small], check=True)
    assert coldpatch.json(small)[0]["status"] == "already"
    assert execute(small, shop, False)


def test_list_fits_the_c_reader(builddir, coldpatch, small):
    """iprobe reads what coldpatch wrote."""
    coldpatch.ok(small)
    done = subprocess.run(
        [builddir / "cli" / "iprobe", "list", small, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    (module,) = json.loads(done.stdout)["modules"]
    assert len(module["probes"]) == coldpatch.json(small)[0]["sites"]
    assert ctypes.sizeof(ctypes.c_void_p) == 8

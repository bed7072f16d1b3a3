# SPDX-License-Identifier: Apache-2.0
"""
32-bit programs: iprobe-cc -m32 makes sites of placement instrument, the 64-bit tools record and
patch them. What is a site is told by relocations that the linker kept in a second link; x32 is
refused.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess

import pytest

import test_counting
import test_trees
from iptest import memory, trees
from iptest.actor import last_words, one_line
from iptest.probe_list import ENTRY, EXIT, FORM_CALL, FORM_RETURN, INLINED, TAIL_EXIT, read_list
from iptest.programs import COMPILERS, compilers

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "programs"
EM_386 = 3
IDLE = {
    (FORM_CALL, 5): "0f1f440000",
    (FORM_CALL, 6): "660f1f440000",
    (FORM_RETURN, 5): "c30f1f4000",
    (FORM_RETURN, 6): "c30f1f440000",
}
MODES = {
    "pie": [],
    "no-pie": ["-no-pie", "-fno-pie"],
    "no-plt": ["-fno-plt"],
    "now": ["-Wl,-z,now"],
    "no-pie-no-plt": ["-no-pie", "-fno-pie", "-fno-plt"],
    "cet": ["-fcf-protection"],
    "frame-pointer": ["-fno-omit-frame-pointer"],
    "lld": ["-fuse-ld=lld", "-no-pie", "-fno-pie"],
    "mold": ["-fuse-ld=mold"],
}


@pytest.fixture(scope="module", autouse=True)
def m32(tmp_path_factory):
    """Skips where 32-bit programs cannot be made, or the kernel does not run them."""
    where = tmp_path_factory.mktemp("m32")
    for suffix, compiler in (("c", "gcc"), ("cc", "g++")):
        (where / f"try.{suffix}").write_text(
            "#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }\n"
        )
        done = subprocess.run(
            [compiler, "-m32", f"try.{suffix}", "-o", "try"],
            cwd=where,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(
                f"no 32-bit {compiler} (gcc-multilib, g++-multilib): {done.stderr.splitlines()[:1]}"
            )
        try:
            subprocess.run([where / "try"], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"this kernel runs no 32-bit programs: {error}")


@pytest.fixture
def rt32(builddir):
    if not (builddir / "runtime" / "32" / "libiprobe-rt.so").exists():
        pytest.skip("built without a runtime for 32-bit programs")


def loads(data):
    """PT_LOAD of an ELF32: (offset, vaddr, filesz)."""
    assert data[4] == 1 and struct.unpack_from("<H", data, 18) == (EM_386,)
    (phoff,) = struct.unpack_from("<I", data, 28)
    phentsize, phnum = struct.unpack_from("<HH", data, 42)
    headers = [struct.unpack_from("<IIIII", data, phoff + i * phentsize) for i in range(phnum)]
    return [(offset, vaddr, size) for kind, offset, vaddr, _, size in headers if kind == 1]


def file_offset(data, address):
    return next(o + address - v for o, v, size in loads(data) if v <= address < v + size)


def true_sites(path):
    """{address: (kind, form, length)}, from the relocations that the linker kept and the bytes
    in front of each.
    """
    data, found = path.read_bytes(), {}
    text = subprocess.run(
        ["readelf", "-rW", path], capture_output=True, text=True, check=True
    ).stdout
    section = ""
    for line in text.splitlines():
        section = line.split("'")[1] if line.startswith("Relocation section") else section
        match = re.match(
            r"([0-9a-f]{8}) +\w+ +(R_386_\w+) +[0-9a-f]+ +__cyg_profile_func_(enter|exit)", line
        )
        if not match or not section.startswith(".rel.text"):
            continue
        operand, through_slot = int(match[1], 16), match[2].startswith("R_386_GOT32")
        at = operand - (2 if through_slot else 1)
        opcode = data[file_offset(data, at)]
        modrm = data[file_offset(data, at) + 1]
        assert opcode in ((0xFF,) if through_slot else (0xE8, 0xE9)), line
        jump = opcode == 0xE9 or (through_slot and modrm >> 3 & 7 == 4)
        kind = ENTRY if match[3] == "enter" else TAIL_EXIT if jump else EXIT
        found[at] = (kind, FORM_RETURN if jump else FORM_CALL, 6 if through_slot else 5)
    return found


def coldpatch(builddir, *args):
    return subprocess.run(
        [builddir / "coldpatch" / "coldpatch", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "compiler,opt,mode,source",
    [
        ("gcc", "-O0", "pie", "cold_forms.c"),
        ("gcc", "-O2", "pie", "cold_forms.c"),
        ("gcc", "-O3", "no-pie", "cold_forms.c"),
        ("gcc", "-O2", "no-plt", "cold_forms.c"),
        ("gcc", "-Os", "now", "cold_forms.c"),
        ("gcc", "-O2", "no-pie-no-plt", "cold_forms.c"),
        ("gcc", "-O2", "frame-pointer", "cold_forms.c"),
        ("gcc", "-O1", "lld", "cold_forms.c"),
        ("gcc", "-O1", "mold", "cold_forms.c"),
        ("gcc", "-Os", "cet", "cold_forms.cc"),
        ("clang", "-O0", "pie", "cold_forms.c"),
        ("clang", "-O2", "no-pie", "cold_forms.c"),
        ("clang", "-O2", "pie", "cold_forms.c"),
    ],
)
def test_sites_are_exact_and_become_nops(builddir, tmp_path, compiler, opt, mode, source):
    """By decoding alone and by kept relocations; nothing but the sites changes, and the program
    still does the same.
    """
    if compiler not in compilers():
        pytest.skip(f"no {compiler}")
    if mode in ("lld", "mold") and not shutil.which({"lld": "ld.lld", "mold": "mold"}[mode]):
        pytest.skip(f"no {mode}")
    unmerged = {
        "gcc": ["-fno-crossjumping"],
        "clang": ["-mllvm", "-enable-tail-merge=0", "-mllvm", "-simplifycfg-sink-common=false"],
    }[compiler]
    command = [
        COMPILERS[compiler][source.endswith(".cc")],
        "-m32",
        "-g",
        opt,
        *MODES[mode],
        "-finstrument-functions",
        *unmerged,
        "-Wl,--build-id=sha1",
        PROGRAMS / source,
    ]
    subprocess.run([*command, "-o", tmp_path / "decoded"], check=True)
    subprocess.run([*command, "-Wl,-q", "-o", tmp_path / "kept"], check=True)
    want = true_sites(tmp_path / "kept")
    assert len(want) > 50
    before = (tmp_path / "decoded").read_bytes()
    said = subprocess.run([tmp_path / "decoded"], capture_output=True, check=True).stdout
    lists = []
    for name in ("decoded", "kept"):
        done = coldpatch(builddir, "--list", tmp_path / f"{name}.probes", tmp_path / name)
        assert done.returncode == 0, done.stderr
        probes = read_list(tmp_path / f"{name}.probes")
        assert probes.machine == EM_386 and probes.placement == "instrument"
        assert {p.offset: (p.kind, p.form, p.length) for p in probes.probes} == want
        lists.append([(p.offset, p.function.name, p.flags) for p in probes.probes])
        assert subprocess.run([tmp_path / name], capture_output=True, check=True).stdout == said
    assert lists[0] == lists[1]
    after, expected = (tmp_path / "decoded").read_bytes(), bytearray(before)
    for address, (_, form, length) in want.items():
        at = file_offset(before, address)
        expected[at : at + length] = bytes.fromhex(IDLE[form, length])
    for offset, _, size in loads(before):
        start = max(offset, 52)  # the ELF header points to the new section headers
        assert after[start : offset + size] == expected[start : offset + size]
    assert "already patched" in coldpatch(builddir, tmp_path / "decoded").stdout


def test_every_site_is_named_by_what_the_code_passes(builddir, tmp_path):
    """The same functions, inlined or not, whether code is position-independent or not; no debug
    information needed.
    """
    counted = []
    for flags in (["-no-pie", "-fno-pie"], [], ["-fno-plt"]):
        path = tmp_path / "program"
        subprocess.run(
            [
                "gcc",
                "-m32",
                "-O2",
                *flags,
                "-finstrument-functions",
                "-fno-crossjumping",
                "-Wl,--build-id=sha1",
                PROGRAMS / "cold_forms.c",
                "-o",
                path,
            ],
            check=True,
        )
        done = coldpatch(builddir, "--json", "--list", tmp_path / "list", path)
        assert done.returncode == 0, done.stderr
        (module,) = json.loads(done.stdout)["modules"]
        assert module["by_code"] == module["sites"], module
        counted.append(
            sorted(
                (p.function.name, p.kind == ENTRY, p.flags)
                for p in read_list(tmp_path / "list").probes
            )
        )
        path.unlink()
    assert counted[0] == counted[1] == counted[2]
    assert any(flags & INLINED for _, _, flags in counted[0])


def test_wrapper(builddir, tmp_path):
    wrapper = str(builddir / "coldpatch" / "iprobe-cc")
    (tmp_path / "one.c").write_text("int main(void) { return 0; }\n")

    def cc(*args, **env):
        return subprocess.run(
            [wrapper, *args],
            cwd=tmp_path,
            env={**os.environ, "IPROBE_CC": "gcc", **env},
            capture_output=True,
            text=True,
            check=False,
        )

    assert cc("-m32", "one.c").returncode == 0
    assert subprocess.run([tmp_path / "a.out"], check=False).returncode == 0
    assert (
        cc("-m32", "-c", "one.c").returncode == 0
        and cc("-m32", "one.o", "-o", "linked").returncode == 0
    )
    iprobe = str(builddir / "cli" / "iprobe")
    for program in ("a.out", "linked"):
        listed = json.loads(
            subprocess.run(
                [iprobe, "list", "--json", tmp_path / program],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        assert [(p["function"], p["kind"]) for m in listed["modules"] for p in m["probes"]] == [
            ("main", "entry"),
            ("main", "exit"),
        ]
    for placement in ("fentry", "inline"):
        done = cc("-m32", "one.c", "-o", "never", IPROBE_PLACEMENT=placement)
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    done = cc("-mx32", "-c", "one.c", "-o", "never")
    assert (
        done.returncode == 1 and "x32" in done.stderr and len(done.stderr.splitlines()) == 1
    ), done.stderr
    assert not (tmp_path / "never").exists()
    assert cc("-mx32", "-m64", "one.c").returncode == 0  # the last one counts


@pytest.mark.parametrize(
    "flags", [("-O0",), ("-O2",), ("-O2", "-no-pie", "-fno-pie"), ("-O3", "-fno-plt")], ids=" ".join
)
def test_run_counts_every_call(me, programs, rt32, flags):
    program = programs.simple("count", opt=flags[0], extra=["-m32", *flags[1:]])
    directory, summary, calls, total = test_counting.record(me, program, ["-t", 4, "-n", 5000])
    test_counting.check(me, directory, summary, calls, total, 4)


@pytest.mark.parametrize(
    "compiler,opt,program",
    [
        *[
            ("gcc", "-O2", program)
            for program in (
                "tree_calls",
                "tree_signals",
                "tree_jumps",
                "tree_threads",
                "tree_start",
                "tree_throw",
            )
        ],
        ("gcc", "-Os", "tree_jumps"),
        ("gcc", "-Os", "tree_throw"),  # pushes arguments whatever it is told
        ("clang", "-O2", "tree_jumps"),
        ("clang", "-O2", "tree_throw"),
    ],
)
def test_recorded_tree_is_the_true_one(me, programs, rt32, compiler, opt, program):
    if compiler not in compilers():
        pytest.skip(f"no {compiler}")
    test_trees.check(me, [programs.trees(compiler, opt, extra=("-m32",)) / program])


def test_handlers_at_any_moment(me, programs, rt32):
    program = programs.trees("gcc", "-O2", extra=("-m32",)) / "tree_timers"
    _, logs, dumps = test_trees.record(me, [program, 1500])
    ((key, log),) = logs.items()
    trees.compare_with_handlers(log, dumps[key[2]], lambda name: name.startswith("on_"))


def test_attach_and_detach(actor, programs, targets, rt32):
    """Threads that come and go, a timer's handler, checks of all that the ABI passes: then byte
    for byte as before.
    """
    target = targets.steady(
        actor, programs.simple("steady", extra=["-m32", "-msse2", "-Wno-psabi"]), "-c", "-i"
    )
    sites = json.loads(actor.iprobe("list", "--json", target.pid).stdout)
    everything = sum(len(m["probes"]) for m in sites["modules"])
    for selection, functions in ((None, None), ("step_1*", 8), ("by_*,!by_inlining", None)):
        done = actor.iprobe(
            "attach",
            target.pid,
            "--duration",
            "100ms",
            "--json",
            "-o",
            actor.dir() / "trace",
            *(["-f", selection] if selection else []),
        )
        assert done.returncode == 0, repr(done)
        summary = done.summary()
        assert summary["events"] > 0 and len(done.stops()) == 2
        assert (
            summary["sites"] == everything if not selection else 0 < summary["sites"] < everything
        )
        assert functions is None or summary["functions"] == functions
        memory.assert_untouched(target.pid)
        target.wait_for_progress()
    target.finish()


def test_why_it_is_stopped(me, programs, targets, rt32):
    """Pages are not switched in 32-bit programs, whatever else would allow it."""
    target = targets.steady(me, programs.simple("steady", extra=["-m32", "-msse2", "-Wno-psabi"]))
    options = ["--payload", "count", "--duration", "40ms", "--json", "-o", me.dir() / "trace"]
    done = me.iprobe("attach", target.pid, *options)
    assert done.returncode == 0, repr(done)
    assert done.summary()["stopped_why"] == "it is a 32-bit program", repr(done)
    target.finish()


def test_what_a_killed_iprobe_left_is_put_back(me, programs, targets, rt32):
    target = targets.steady(me, programs.simple("steady", extra=["-m32", "-msse2", "-Wno-psabi"]))
    proc = me.start_iprobe("attach", target.pid, "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, proc)
    proc.send_signal(signal.SIGKILL)
    proc.wait()
    target.wait_for_progress()
    status = json.loads(me.iprobe("status", "--json", target.pid).stdout)
    assert status["patched"] > 0
    assert me.iprobe("detach", target.pid).returncode == 0
    memory.assert_untouched(target.pid)
    target.wait_for_progress()
    target.finish()


def test_endless_waits_go_on(me, programs, targets, rt32):
    """System calls have other numbers and arguments in other registers: none may come back as
    interrupted.
    """
    target = targets.start(me, [programs.simple("endless", extra=["-m32"])])
    for _ in range(5):
        done = me.iprobe("attach", target.pid, "--duration", "30ms", "-o", me.dir() / "trace")
        assert done.returncode == 0, repr(done)
    target.say()
    ended = target.finish()
    lines = [line for line in ended.stdout.splitlines() if line]
    assert len(lines) == 4 and all(line.endswith(" good") for line in lines), ended.stdout


def test_process_without_the_runtime(me, programs, targets):
    target = targets.steady(
        me, programs.simple("steady", extra=["-m32", "-msse2", "-Wno-psabi"]), preload=False
    )
    assert "runtime" in one_line(me.iprobe("attach", target.pid, "-o", me.dir() / "trace"))
    memory.assert_untouched(target.pid)

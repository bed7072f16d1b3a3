# SPDX-License-Identifier: Apache-2.0
"""Stripped and shipped: no symbols in the module, its probe list elsewhere; everything still has
names, files and lines.
"""

import json
import os
import shutil
import subprocess

import pytest

from iptest import actor as actors
from iptest import memory

SHAPES = """
namespace shop {
struct Desk { virtual ~Desk() {} __attribute__((noinline)) int take(int n) { return n + 1; } };
template <class T> __attribute__((noinline)) T twice(T n) { return n * 2; }
}
int main() { shop::Desk d; int s = 0; for (int i = 0; i < 10; i++) s += shop::twice(d.take(i)); return s != 110; }
"""


@pytest.fixture
def shipped(me):
    """A program, and beside it the folder with what is shipped of it."""
    folder = me.dir()
    (folder / "shapes.cc").write_text(SHAPES)
    done = me.run(
        [me.builddir / "coldpatch" / "iprobe-c++", "-O1", "-g", "shapes.cc", "-o", "shapes"],
        cwd=folder,
    )
    assert (done.returncode, done.stderr) == (0, ""), repr(done)
    (folder / "ship").mkdir()
    return folder


def coldpatch(actor, *args):
    done = actor.run([actor.builddir / "coldpatch" / "coldpatch", *args])
    assert done.returncode == 0, repr(done)
    return done


def readelf(*args):
    return subprocess.run(["readelf", *args], capture_output=True, text=True, check=True).stdout


def build_id(path):
    return next(
        line.split()[-1] for line in readelf("-nW", path).splitlines() if "Build ID" in line
    )


def loaded(path):
    """Program headers and the bytes that they load."""
    data = path.read_bytes()
    headers = [
        line.split() for line in readelf("-lW", path).splitlines() if line.split()[:1] == ["LOAD"]
    ]
    shift = 64  # the ELF header tells of section headers, and is loaded too
    return [(h, data[max(shift, int(h[1], 16)) : int(h[1], 16) + int(h[4], 16)]) for h in headers]


def names(done):
    assert done.returncode == 0, repr(done)
    return {
        p["function"]: (p["file"], p["line"])
        for m in json.loads(done.stdout)["modules"]
        for p in m["probes"]
    }


def test_nothing_is_left_but_what_runs(me, shipped):
    plain, out, probes = shipped / "shapes", shipped / "ship" / "shapes", shipped / "shapes.list"
    coldpatch(me, "--strip", "--list", probes, "-o", out, plain)
    assert (
        "no symbols"
        in subprocess.run(["nm", out], capture_output=True, text=True, check=False).stderr
    )
    sections = readelf("-SW", out)
    for gone in (".symtab", ".strtab", ".debug_", ".iprobe.probes", ".iprobe.sites", ".rela.text"):
        assert gone not in sections
    assert "twice" not in out.read_bytes().decode("latin-1")
    assert loaded(out) == loaded(plain) and build_id(out) == build_id(plain)
    assert out.stat().st_size < plain.stat().st_size and os.access(out, os.X_OK)
    assert me.run([out]).returncode == 0
    # other tools still understand it
    again = shipped / "again"
    for tool in (["strip", "-o", again, out], ["objcopy", out, again]):
        subprocess.run(tool, check=True, capture_output=True)
        assert me.run([again]).returncode == 0


def test_without_a_file_of_its_own_the_list_stays(me, shipped):
    before = names(me.iprobe("list", "--json", shipped / "shapes"))
    coldpatch(me, "--strip", shipped / "shapes")
    assert ".symtab" not in readelf("-SW", shipped / "shapes")
    assert names(me.iprobe("list", "--json", shipped / "shapes")) == before


def test_plain_strip_keeps_the_list(me, shipped):
    before = names(me.iprobe("list", "--json", shipped / "shapes"))
    subprocess.run(["strip", shipped / "shapes"], check=True)
    assert names(me.iprobe("list", "--json", shipped / "shapes")) == before


def test_idempotent(me, shipped):
    lists = shipped / "lists"
    lists.mkdir()
    coldpatch(me, "--strip", "--list", lists, shipped / "shapes")
    first = (shipped / "shapes").read_bytes()
    assert "already" in coldpatch(me, "--strip", "--list", lists, shipped / "shapes").stdout
    assert (shipped / "shapes").read_bytes() == first


def test_found_in_every_place(me, shipped):
    plain, out = shipped / "shapes", shipped / "ship" / "shapes"
    before = names(me.iprobe("list", "--json", plain))
    assert any("shop::twice<int>" in name for name in before), before
    lists = shipped / "lists"
    coldpatch(me, "--strip", "--list", f"{lists}/", "-o", out, plain)
    the_id = build_id(out)
    made = lists / ".build-id" / the_id[:2] / f"{the_id[2:]}.probes"
    assert made.is_file()
    nowhere = me.iprobe("list", out)
    actors.one_line(nowhere)
    assert "--list" in nowhere.stderr
    assert names(me.iprobe("list", "--json", "--list", made, out)) == before
    assert names(me.iprobe("list", "--json", "--list", lists, out)) == before
    assert (
        names(me.iprobe("list", "--json", out, env={"IPROBE_LIST_PATH": f"/nonexistent:{lists}"}))
        == before
    )
    shutil.copy(made, f"{out}.probes")
    assert names(me.iprobe("list", "--json", out)) == before


def test_another_build_is_refused(me, shipped):
    out, other = shipped / "ship" / "shapes", shipped / "other"
    coldpatch(me, "--strip", "--list", shipped / "right", "-o", out, shipped / "shapes")
    done = me.run(
        [me.builddir / "coldpatch" / "iprobe-c++", "-O0", "shapes.cc", "-o", "other"], cwd=shipped
    )
    assert done.returncode == 0, repr(done)
    coldpatch(me, "--list", shipped / "wrong", other)
    for args, env in ((["--list", shipped / "wrong"], {}), ([], {"beside": "1"})):
        if env:
            shutil.copy(shipped / "wrong", f"{out}.probes")
        done = me.iprobe("list", *args, out)
        actors.one_line(done)
        assert build_id(other) in done.stderr and str(out) in done.stderr
        done = me.iprobe("run", *args, "-o", shipped / "trace", "--", out)
        assert done.returncode == 1 and build_id(other) in done.stderr, repr(done)


def test_run_and_report(me, shipped):
    out = shipped / "ship" / "shapes"
    coldpatch(me, "--strip", "--list", shipped / "lists/", "-o", out, shipped / "shapes")
    done = me.iprobe("run", "--list", shipped / "lists", "-o", shipped / "trace", "--", out)
    assert done.returncode == 0, repr(done)
    done = me.iprobe("report", "--json", shipped / "trace")
    calls = {f["function"]: f["calls"] for f in json.loads(done.stdout)["functions"]}
    assert [n for name, n in calls.items() if "twice" in name] == [10], calls


@pytest.mark.parametrize("link", ["-static", "-pie"])
def test_attach(actor, programs, targets, link):
    folder = actor.dir()
    program, lists = folder / "steady", folder / "lists"
    coldpatch(
        actor,
        "--strip",
        "--list",
        f"{lists}/",
        "-o",
        program,
        programs.simple("steady", extra=[link]),
    )
    target = targets.steady(actor, program, preload=link != "-static")
    done = actor.iprobe("attach", target.pid, "--duration", "20ms", "-o", folder / "trace")
    actors.one_line(done)
    assert "--list" in done.stderr
    assert any("memfd:iprobe" in m.path for m in memory.mappings(target.pid)) == (
        link != "-static"
    ), "left asleep"
    proc = actor.start_iprobe("attach", target.pid, "--list", lists, "-o", folder / "trace")
    memory.wait_until_live(target.pid, proc)
    proc.kill()
    proc.wait()
    done = actor.iprobe("detach", target.pid)
    assert done.returncode == 1 and "--list" in done.stderr, "it cannot say that nothing is live"
    done = actor.iprobe("detach", "--list", lists, target.pid)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    done = actor.iprobe(
        "attach",
        target.pid,
        "--list",
        lists,
        "-f",
        "step_1*",
        "--duration",
        "50ms",
        "--json",
        "-o",
        folder / "trace",
    )
    assert done.returncode == 0 and done.summary()["events"] > 0, repr(done)
    target.wait_for_progress()
    target.finish()


@pytest.mark.parametrize(
    "flags", [["-s"], ["-Wl,-s"], ["-Wl,-z,now,--strip-all,-O1"], ["-Xlinker", "-s"]], ids=" ".join
)
@pytest.mark.parametrize("placement", ["fentry", "instrument"])
def test_the_linker_is_told_to_strip(tmp_path, builddir, placement, flags):
    """-s at the link: the file has no symbols, its probes still have their names. -Xlinker is
    left to the linker.
    """
    (tmp_path / "p.c").write_text(
        "#include <stdio.h>\n"
        "__attribute__((noinline)) static int named(int i) "
        '{ __asm__ volatile("" : "+r"(i)); return i + 1; }\n'
        'int main(void) { printf("%d\\n", named(1)); return 0; }\n',
        encoding="ascii",
    )
    env = {**os.environ, "IPROBE_PLACEMENT": placement, "IPROBE_CC": "gcc"}
    done = subprocess.run(
        [builddir / "coldpatch" / "iprobe-cc", "-O2", "-g", "p.c", *flags, "-o", "p"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == ""
    sections = subprocess.run(
        ["readelf", "-SW", "p"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert ".symtab" not in sections and ".debug_info" not in sections
    listed = subprocess.run(
        [builddir / "cli" / "iprobe", "list", "--json", "p"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    names = {probe["function"] for probe in json.loads(listed)["modules"][0]["probes"]}
    if flags[0] != "-Xlinker":
        assert names == {"named", "main"}
    assert (
        subprocess.run(
            ["./p"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        ).stdout
        == "2\n"
    )
    # what has no probes is stripped, too
    subprocess.run(
        [
            builddir / "coldpatch" / "iprobe-cc",
            "-fno-instrument-functions",
            "-g",
            "p.c",
            *flags,
            "-o",
            "q",
        ],
        cwd=tmp_path,
        env=env,
        timeout=120,
        check=True,
    )
    sections = subprocess.run(
        ["readelf", "-SW", "q"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert ".symtab" not in sections

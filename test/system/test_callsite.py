# SPDX-License-Identifier: Apache-2.0
"""Call sites (--callsite) in dump and report, against what test/programs/callers.c says about
itself.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "programs" / "callers.c"
ROUNDS = 10


def known_sites():
    """(callee, caller, line) -> calls a round, from the comments of the source."""
    known, function = collections.Counter(), None
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        head = re.match(r"(?:KEPT |HIDDEN )?(?:int|long) (\w+)\(.*\)$", line)
        function = head.group(1) if head else function
        comment = re.search(r"/\* (\w+: \d.*) \*/$", line)
        for callee, n in re.findall(r"(\w+): (\d+)", comment.group(1)) if comment else []:
            known[callee, function, number] += int(n)
    assert len(known) == 6
    return known


@pytest.fixture(params=["fentry", "instrument"])
def program(request, programs):
    # sibling calls would take the caller's frame away, and its line with it
    return programs.simple(
        "callers", placement=request.param, extra=["-fno-optimize-sibling-calls"]
    )


def record(me, program, *options):
    directory = me.dir() / "trace"
    done = me.iprobe("run", "-o", directory, *options, "--", program, ROUNDS)
    assert done.returncode == 0, repr(done)
    return directory


def entries(me, directory, *options):
    done = me.iprobe("dump", "--json", *options, directory)
    assert done.returncode == 0, repr(done)
    return [e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "entry"]


def test_dump_tells_function_and_line(me, program):
    directory = record(me, program, "--callsite")
    events = entries(me, directory)
    seen = collections.Counter()
    for e in events:
        caller = e["caller"]
        assert re.fullmatch("0x[0-9a-f]+", caller["address"])
        if e["function"] in ("work", "once", "twice"):
            assert (
                caller["module"] == "callers"
                and caller["offset"] > 0
                and caller["file"].endswith("callers.c")
            )
            seen[e["function"], caller["function"], caller["line"]] += 1
    assert seen == {site: ROUNDS * n for site, n in known_sites().items()}
    compared = [e for e in events if e["function"] == "compare"]
    assert len(compared) >= 2 * ROUNDS and all(
        e["caller"]["module"].startswith("libc") for e in compared
    )
    text = me.iprobe("dump", "-f", "work", directory).stdout
    line = next(n for callee, caller, n in known_sites() if (callee, caller) == ("work", "once"))
    assert (
        len(re.findall(rf"work \{{  <- once\+0x[0-9a-f]+ callers.c:{line}$", text, re.M)) == ROUNDS
    )


def test_nothing_is_said_without(me, program):
    directory = record(me, program)
    assert (
        not any("caller" in e for e in entries(me, directory))
        and " <- " not in me.iprobe("dump", directory).stdout
    )


def report(me, directory, *options):
    done = me.iprobe("report", "--json", *options, directory)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def test_report_by_call_site_and_caller(me, program):
    directory = record(me, program, "--callsite")
    document = report(me, directory, "--by", "callsite", "-f", "work,once,twice")
    rows = document["rows"]
    assert document["by"] == "callsite" and {row["caller_from"] for row in rows} == {"call site"}
    assert {(r["function"], r["caller"], r["caller_line"]): r["calls"] for r in rows} == {
        site: ROUNDS * n for site, n in known_sites().items()
    }
    assert all(
        r["caller_module"] == "callers" and r["caller_address"].startswith("0x") for r in rows
    )
    by_caller = collections.Counter()
    for (callee, caller, _), n in known_sites().items():
        by_caller[callee, caller] += ROUNDS * n
    rows = report(me, directory, "--by-caller", "-f", "work,once,twice")["rows"]
    assert {(r["function"], r["caller"]): r["calls"] for r in rows} == by_caller
    (whole,) = report(me, directory, "-f", "work")["functions"]
    parts = [r for r in rows if r["function"] == "work"]
    assert abs(sum(r["total_ns"] for r in parts) - whole["total_ns"]) <= len(parts)
    assert (
        min(r["min_ns"] for r in parts) == whole["min_ns"]
        and max(r["max_ns"] for r in parts) == whole["max_ns"]
    )
    text = me.iprobe("report", "--by-caller", directory).stdout
    assert (
        "work <- hidden\n" in text and "(around)" not in text and "by the return address of" in text
    )


def test_report_by_caller_without_call_sites(me, program):
    """The recorded call around it: what has no probes is not seen."""
    directory = record(me, program)
    rows = report(me, directory, "--by-caller", "-f", "work")["rows"]
    assert {(r["caller"], r["caller_from"]): r["calls"] for r in rows} == {
        ("once", "frame"): ROUNDS,
        ("twice", "frame"): 2 * ROUNDS,
        ("main", "frame"): ROUNDS,
    }
    text = me.iprobe("report", "--by", "caller", directory).stdout
    assert "work <- main (around)\n" in text and "the recorded call around it" in text
    assert "(--callsite of iprobe run and attach records return addresses)" in text
    (main,) = report(me, directory, "--by-caller", "-f", "main")["rows"]
    assert main["caller"] is None and main["caller_from"] is None and main["calls"] == 1


def test_on_another_machine(me, programs):
    """The program is gone, or another one stands in its place: functions with probes are known,
    lines are not.
    """
    built = programs.simple("callers", placement="fentry", extra=["-fno-optimize-sibling-calls"])
    program = me.dir() / "callers"
    shutil.copy(built, program)
    directory = record(me, program, "--callsite")
    program.unlink()
    for other in (None, "/bin/true"):
        if other:
            shutil.copy(os.path.realpath(other), program)
        callers = {e["caller"]["function"] for e in entries(me, directory, "-f", "work")}
        assert {"once", "twice"} <= callers
        assert all(e["caller"]["file"] is None for e in entries(me, directory, "-f", "work"))


def test_a_library_of_which_nothing_is_selected(me, builddir):
    """It has probes, and calls what is recorded: its functions are known, elsewhere, too."""
    folder = me.dir()
    (folder / "lib.c").write_text(
        "int work(int);\n__attribute__((noinline)) int caller(int n) { return work(n) + 1; }\n"
    )
    (folder / "main.c").write_text(
        "int caller(int);\n__attribute__((noinline)) int work(int n) { return n * 3; }\n"
        "int main(void) { return caller(5) != 16; }\n"
    )
    cc = builddir / "coldpatch" / "iprobe-cc"
    for words in (
        ["-fPIC", "-shared", "lib.c", "-o", "libcaller.so"],
        ["-rdynamic", "main.c", "-o", "main", "-L.", "-lcaller", "-Wl,-rpath,$ORIGIN"],
    ):
        done = me.run([cc, "-O1", "-fno-optimize-sibling-calls", *words], cwd=folder)
        assert done.returncode == 0, repr(done)
    trace = folder / "trace"
    done = me.iprobe("run", "-o", trace, "--callsite", "-f", "work", "--", folder / "main")
    assert done.returncode == 0, repr(done)
    for gone in (False, True):
        if gone:
            (folder / "libcaller.so").unlink()
        (entry,) = entries(me, trace)
        assert (entry["caller"]["function"], entry["caller"]["module"]) == (
            "caller",
            "libcaller.so",
        ), gone


def test_libraries_at_one_address(me, builddir):
    """One after the other in the same place: each has its own callers, whichever comes first in
    the trace.
    """
    folder = me.dir()

    def build(name, text, *options):
        (folder / f"{name}.c").write_text(text)
        subprocess.run(
            [
                builddir / "coldpatch" / "iprobe-cc",
                "-O2",
                "-g",
                "-fno-optimize-sibling-calls",
                *options,
                folder / f"{name}.c",
                "-o",
                folder / name,
            ],
            check=True,
            timeout=120,
        )

    for name, filler in (("one.so", "x * 3"), ("two.so", "x * 7 + 1234567 % (x | 1)")):
        build(
            name,
            f"""
__attribute__((noinline)) int {name[:3]}_filler(int x)
{{
	return {filler};
}}
__attribute__((noinline)) static int {name[:3]}_inner(int x)
{{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}}
__attribute__((noinline)) int outer(int x)
{{
	return {name[:3]}_inner(x) + {name[:3]}_inner(x + 1);
}}
""",
            "-shared",
            "-fPIC",
        )
    build(
        "main",
        """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW);
		int (*outer)(int) = library ? (int (*)(int))dlsym(library, "outer") : 0;

		if (!outer)
			return 3;
		/* until its sites are live: the NOP is a call then. (It may stand behind endbr64.) */
		for (int n = 0; n < 40000 && memmem((void *)outer, 9, "\\x0f\\x1f\\x44\\0\\0", 5); n++)
			usleep(1000);
		outer(i);
		dlclose(library);
	}
	return 0;
}
""",
        "-ldl",
    )
    directory = folder / "trace"
    done = me.iprobe(
        "run",
        "-o",
        directory,
        "--callsite",
        "--",
        folder / "main",
        folder / "one.so",
        folder / "two.so",
    )
    assert done.returncode == 0, repr(done)
    info = json.loads(me.iprobe("info", "--json", directory).stdout)
    where = {pathlib.Path(m["path"]).name: m["load_bias"] for m in info["modules"]}
    if where["one.so"] != where["two.so"]:
        pytest.skip("the second library came to lie elsewhere")
    seen = collections.Counter(
        (e["function"], e["caller"]["function"])
        for e in entries(me, directory)
        if e["function"].endswith("_inner")
    )
    assert seen == {("one_inner", "outer"): 2, ("two_inner", "outer"): 2}
    modules = {
        (e["function"], e["caller"]["module"])
        for e in entries(me, directory)
        if e["function"].endswith("_inner")
    }
    assert modules == {("one_inner", "one.so"), ("two_inner", "two.so")}

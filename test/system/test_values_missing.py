# SPDX-License-Identifier: Apache-2.0
"""Values that debug information should tell of and does not: a file that several share (dwz -m) is
found where packages were unpacked, or named; what cannot be recorded is told for what it is.
"""

import json
import os
import pathlib
import shutil

import pytest

from iptest import actor as actors

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
SOURCE = """
#include <unistd.h>
#include <iprobe/probe.h>
typedef struct request { int length; const char *text; } *request_t;
request_t latest;
__attribute__((noinline)) int serve(struct request *r)
{
	__asm__ volatile("" : "+r"(r) : : "memory");
	IPROBE_POINT(hit, r->length);
	return r->length;
}
int main(void)
{
	struct request r = {41, "hello"};
	write(1, "ready\\n", 6);
	for (;;) { serve(&r); usleep(1000); }
}
"""
SHARED = "/usr/lib/debug/.dwz/iprobe-test.debug"
REQUEST = "serve(r->length, r->text)"


class Package:
    """What a package of debug symbols has, unpacked in a folder: a file by build-id, and one that
    dwz -m has made of it and of another's.
    """

    def __init__(self, me, folder):
        self.folder = folder
        self.debug = folder / "unpacked" / "usr" / "lib" / "debug"
        (folder / "w.c").write_text(SOURCE, encoding="ascii")
        wrapper = me.builddir / "coldpatch" / "iprobe-cc"
        self.run(me, wrapper, "-O1", "-g", f"-I{INCLUDE}", "w.c", "-o", "w", "-Wl,--build-id")
        self.run(me, "objcopy", "--only-keep-debug", "w", "a.debug")
        shutil.copy(folder / "a.debug", folder / "b.debug")
        self.run(me, "dwz", "-m", "shared", "-M", SHARED, "a.debug", "b.debug")
        notes = self.run(me, "readelf", "-nW", "w").stdout
        name = notes.split("Build ID: ")[1].split()[0]
        self.file = self.debug / ".build-id" / name[:2] / f"{name[2:]}.debug"
        self.file.parent.mkdir(parents=True)
        (folder / "a.debug").rename(self.file)
        self.shared = self.debug / ".dwz" / "iprobe-test.debug"
        self.shared.parent.mkdir()
        (folder / "shared").rename(self.shared)
        self.run(me, "objcopy", "-R", ".iprobe.probes", "--strip-all", "w")

    def run(self, me, *command):
        done = me.run(command, cwd=self.folder)
        assert done.returncode == 0, repr(done)
        return done


@pytest.fixture
def package(me):
    if not shutil.which("dwz"):
        pytest.skip("dwz is not installed")
    return Package(me, me.dir())


@pytest.fixture
def served(me, package):
    proc = me.popen([package.folder / "w"])
    assert proc.stdout.readline() == "ready\n"
    yield proc
    actors.end(proc)


def record(me, package, proc, *options, where):
    trace = me.dir() / "trace"
    done = me.iprobe(
        *("attach", proc.pid, "-f", "serve,hit", "--duration", "150ms", "-o", trace),
        *("--list", where, *options),
        cwd=package.folder,
    )
    return done, trace


@pytest.mark.parametrize("how", ["folder", "relative", "file", "beside", "by build-id"])
def test_a_shared_file_is_found(me, package, served, how):
    where = package.debug
    if how == "relative":
        where = package.debug.relative_to(package.folder)
    elif how == "file":
        where = package.file
    elif how == "beside":  # both in a flat folder
        where = package.folder / "flat.debug"
        package.file.rename(where)
        package.shared.rename(package.folder / package.shared.name)
    elif how == "by build-id":
        notes = package.run(me, "readelf", "-x", ".gnu_debugaltlink", package.file).stdout
        name = notes_id(notes)
        place = package.debug / ".build-id" / name[:2] / f"{name[2:]}.debug"
        place.parent.mkdir(exist_ok=True)
        package.shared.rename(place)
    done, trace = record(me, package, served, "--args", REQUEST, where=where)
    assert done.returncode == 0, repr(done)
    assert 'serve(r->length=41, r->text="hello")' in me.iprobe("dump", trace).stdout


def test_types_of_a_shared_file_are_found_by_name(me, package, served):
    for cast in "(struct request *)r", "(request_t)r":
        request = f"serve(n=({cast})->length)"
        done, trace = record(me, package, served, "--args", request, where=package.debug)
        assert done.returncode == 0, repr(done)
        assert "serve(n=41)" in me.iprobe("dump", trace).stdout


def notes_id(dump):
    """The last 20 bytes of what readelf -x shows."""
    words = [word for line in dump.splitlines() if "0x" in line[:6] for word in line[13:48].split()]
    return "".join(words)[-40:]


@pytest.mark.parametrize("what", ["none", "another build's", "fifo", "noise"])
def test_a_shared_file_that_is_missing_is_named(me, package, served, what):
    """That of another build would give other types, so it counts as missing."""
    package.shared.unlink()
    if what == "another build's":
        shutil.copy(package.file, package.shared)
    elif what == "fifo":
        os.mkfifo(package.shared)
    elif what == "noise":
        package.shared.write_bytes(b"\x7fELF" + bytes(range(256)))
    done, trace = record(me, package, served, "--args", REQUEST, where=package.debug)
    line = actors.one_line(done)
    assert done.returncode == 1 and "serve is recorded" in line and SHARED in line, repr(done)
    assert "nearest" not in line and str(package.folder / "w") in line, line
    assert not trace.exists()
    done, trace = record(me, package, served, "--args", where=package.debug)
    assert done.returncode == 0 and SHARED in done.stderr, repr(done)


def test_a_function_without_debug_information_is_told_so(me, package, served):
    lists = me.iprobe("list", "--json", "--list", package.debug, package.folder / "w")
    assert "serve" in {p["function"] for p in json.loads(lists.stdout)["modules"][0]["probes"]}
    package.run(me, "objcopy", "-R", ".debug_*", package.file)
    for option, request in ("--args", REQUEST), ("--when", "serve: r->length > 3"):
        done, _ = record(me, package, served, option, request, where=package.debug)
        line = actors.one_line(done)
        assert done.returncode == 1 and "serve is recorded" in line and "-g" in line, repr(done)
        assert "nearest" not in line, line


def test_values_of_points_need_no_debug_information(me, package, served):
    """Where they are and what they are called is in the list, which packages keep apart."""
    package.run(me, "objcopy", "-R", ".debug_*", package.file)
    for name, when, hits in (
        ("r->length", "hit: r->length == 41", True),
        ("arg1", "hit: arg1 > 100", False),
    ):
        request = f"hit({name}:hex)"
        done, trace = record(
            *(me, package, served, "--args", request, "--when", when), where=package.debug
        )
        assert done.returncode == 0, repr(done)
        events = [json.loads(e) for e in me.iprobe("dump", "--json", trace).stdout.splitlines()]
        values = [e["args"] for e in events if e["function"] == "hit"]
        assert bool(values) == hits and all(v == {name: "0x29"} for v in values), values[:3]
    for option, request, what in (
        ("--args", "hit(length)", "the point has r->length"),
        ("--retval", "hit(retval)", "hit is a point: it returns nothing"),
    ):
        done, _ = record(me, package, served, option, request, where=package.debug)
        line = actors.one_line(done)
        assert what in line and "nearest" not in line and "called" not in line, line
        done = me.iprobe(
            *("list", "--check", "--list", package.debug, option, request, package.folder / "w")
        )
        assert done.returncode == 1 and what.split("hit ")[-1] in done.stdout, repr(done)
        assert "IPROBE_PLACEMENT" not in done.stdout, done.stdout


def test_a_misspelt_name_has_its_nearest_still(me, package, served):
    done, _ = record(me, package, served, "--args", "serv(r)", where=package.debug)
    assert done.returncode == 1 and "nearest: serve" in actors.one_line(done), repr(done)


@pytest.fixture(scope="module")
def points(programs):
    """work() with points in it, and a scope: inner."""
    return programs.simple("values_points", placement="fentry")


def run(me, program, *options):
    trace = me.dir() / "trace"
    return me.iprobe("run", "-o", trace, *options, "--", program), trace


def test_a_scope_has_no_values(me, points):
    """A request for those of a scope is refused, and says what to do; where functions were asked
    for, too, the scope is told.
    """
    requests = ("--args", "inner(x)"), ("--retval", "inner(retval)")
    for options in (("-f", "inner", "--args"), *requests):
        done, trace = run(me, points, *options)
        line = actors.one_line(done)
        assert done.returncode == 1 and not trace.exists(), repr(done)
        assert "IPROBE_SCOPE" in line and "put IPROBE_POINT(NAME, VALUES) into it" in line, line
    done = me.iprobe("list", "--check", "--args", "inner(x)", points)
    assert done.returncode == 1 and "is a scope (IPROBE_SCOPE)" in done.stdout + done.stderr
    done, _ = run(me, points, "-f", "work,inner", "--args", "--json")
    assert "iprobe: 1 scope recorded without values: " in done.stderr, repr(done)
    assert done.stderr.splitlines()[0].endswith(": inner"), repr(done)
    summary = done.summary()
    assert summary["without_values"] == 1
    assert summary["value_gaps"] == [{"why": "scope", "functions": 1, "names": ["inner"]}]


def test_functions_that_a_request_does_not_fit(me, points):
    """It names several functions: the one that it does not fit is told, and why."""
    done, trace = run(me, points, "-f", "work,main", "--args", "*(i)")
    assert done.returncode == 0, repr(done)
    told = [line for line in done.stderr.splitlines() if "does not fit" in line]
    assert len(told) == 1 and "fit 1 of the functions" in told[0], repr(done)
    assert told[0].endswith(": main: 'i': there is no parameter 'i': the function has none")
    events = [json.loads(line) for line in me.iprobe("dump", "--json", trace).stdout.splitlines()]
    assert [e["args"] for e in events if e["function"] == "work" and "args" in e] == [
        {"i": i} for i in range(3)
    ]
    done, _ = run(me, points, "-f", "work,main", "--when", "*: i > 1")
    told = [line for line in done.stderr.splitlines() if "does not fit" in line]
    assert len(told) == 1 and "all their calls are recorded: main: 'i > 1'" in told[0], repr(done)
    done, _ = run(me, points, "-f", "work,main", "--args", "work(i)")
    assert "does not fit" not in done.stderr, repr(done)


def test_functions_without_values_are_named(me, package, served):
    """Those that debug information does not tell of."""
    package.shared.unlink()
    done, _ = record(me, package, served, "--args", "--json", where=package.debug)
    (gap,) = done.summary()["value_gaps"]
    assert gap["why"] == "no debug information" and gap["names"] == ["serve"], repr(done)
    assert done.stderr.splitlines()[0].endswith(": serve"), repr(done)


ALIKE = """
#include <unistd.h>
long total;
__attribute__((noipa)) void add(const char *text, int n) { total += n + text[0]; }
void first_error(const char *text, int n) { if (n > 2) { add(text, n); add(text, 1); } }
void other_error(const char *what, int many) { if (many > 2) { add(what, many); add(what, 1); } }
__attribute__((noipa)) void call(void (*of)(const char *, int), const char *text, int n)
{
	of(text, n);
}
int main(void)
{
	for (int i = 0; i < 10; i++) {
		call(first_error, "first", 1000 + i);
		call(other_error, "other", 2000 + i);
	}
	return 0;
}
"""


def test_functions_that_are_alike(me):
    """gcc makes one of the other then, and tells of its parameters without where its code lies."""
    folder = me.dir()
    (folder / "alike.c").write_text(ALIKE, encoding="ascii")
    wrapper = me.builddir / "coldpatch" / "iprobe-cc"
    done = me.run([wrapper, "-O2", "-g", "alike.c", "-o", "alike"], cwd=folder)
    assert done.returncode == 0, repr(done)
    args = ["-f", "*_error", "--args", "-o", folder / "trace", "--", folder / "alike"]
    done = me.iprobe("run", *args)
    assert done.returncode == 0 and "without values" not in done.stderr, repr(done)
    lines = me.iprobe("dump", "--json", folder / "trace").stdout.splitlines()
    calls = [e for e in map(json.loads, lines) if e["event"] == "entry"]
    seen = {name: [c["args"] for c in calls if c["function"] == name] for name in (
        "first_error", "other_error")}
    for name, values in seen.items():
        assert len(values) == 10, (name, values)
    assert [list(v.values())[1] for v in seen["other_error"]] == [2000 + i for i in range(10)], seen

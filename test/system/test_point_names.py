# SPDX-License-Identifier: Apache-2.0
"""The values of a point have the text of their expressions as names: by each compiler, in programs
that were stripped, and wherever values are shown or chosen.
"""

import csv
import io
import itertools
import json
import pathlib
import shutil

import pytest

from iptest import actor as actors
from iptest.programs import COMPILERS, compilers

INCLUDE = f"-I{pathlib.Path(__file__).resolve().parents[2] / 'include'}"
SOURCE = r"""
#include <iprobe/probe.h>
#include <stdio.h>
struct request { int id; const char *uri; unsigned long length; unsigned flags; };
#define TRACED(name, ...) IPROBE_POINT(name, __VA_ARGS__)
static inline int inlined(struct request *r) { IPROBE_POINT(inlined, r->id); return r->id; }
#ifdef __cplusplus
template <typename T> __attribute__((noinline)) T copied(T a) { IPROBE_POINT(copied, a + T(1)); return a; }
#else
__attribute__((noinline)) int copied(int a) { IPROBE_POINT(copied, a + 1); return a; }
#endif
__attribute__((noinline)) int serve(struct request *r)
{
	IPROBE_POINT(request, r->id, IPROBE_STRING(r->uri), r -> length, r->length, IPROBE_HEX(r->flags));
	IPROBE_POINT(odd, "100% {a|b}", "\"%s\\"[r->id & 1], '"', r->id % 3, 'a' == '\x1b');
	TRACED(wrapped, IPROBE_STRING((r->uri)), IPROBE_HEX(r->flags | 1), r->id);
	IPROBE_POINT(longest, r->id + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12 + 13 + 14 + 15 + 16 + 17 + 18 + 19 + 20 + r->flags);
	IPROBE_POINT(six, 1, r->id, 3, r->id, 5, r->id);
	IPROBE_POINT(none);
	return inlined(r) + copied(r->id);
}
int main(void)
{
	static const char *const uris[] = {"/a", "/b", "/c"};
	int sum = 0;
	for (int i = 0; i < 30; i++) {
		struct request r = {i, uris[i % 3], i * 100ul, i * 16u};
		sum += serve(&r);
	}
	return printf("%d\n", sum) < 0;
}
"""
# of the request whose id is 5
EXPECTED = {
    "request": {
        "r->id": 5,
        "r->uri": "/c",
        "r->length": 500,
        "r->length#2": 500,
        "r->flags": "0x50",
    },
    "odd": {
        "'100%__a|b_'": "100% {a|b}",
        "'_'%s__'[r->id&1]": ord("%"),
        "'''": ord('"'),
        "r->id%3": 2,
        "'a'__'_x1b'": 0,
    },
    "wrapped": {"(r->uri)": "/c", "r->flags|1": "0x51", "r->id": 5},
    "longest": {"r->id+1+2+3+4+5+6+7+8+9+10+11+...3+14+15+16+17+18+19+20+r->flags": 295},
    "six": {"1": 1, "r->id": 5, "3": 3, "r->id#2": 5, "5": 5, "r->id#3": 5},
    "none": {},
    "inlined": {"r->id": 5},
}
WAYS = [
    (compiler, cxx, *flags)
    for compiler, (cxx, flags) in itertools.product(
        compilers(),
        [
            (False, ("-O0", "-g")),
            (False, ("-O2", "-fPIC")),
            (True, ("-O0",)),
            (True, ("-O2", "-flto", "-s")),
        ],
    )
]


class Program:
    def __init__(self, me):
        self.me, self.folder = me, me.dir()

    def run(self, *command, code=0):
        done = self.me.run(command, cwd=self.folder)
        assert done.returncode == code, repr(done)
        return done

    def build(self, compiler, cxx, *flags):
        (self.folder / "server.c").write_text(SOURCE, encoding="ascii")
        language = ("-x", "c++") if cxx else ()
        how = (INCLUDE, "-Wl,--build-id", *flags, *language)
        self.run(COMPILERS[compiler][cxx], *how, "server.c", "-o", "server")
        self.run(self.me.builddir / "coldpatch" / "coldpatch", "server")
        return self.folder / "server"

    def record(self, *options, name="trace"):
        done = self.me.iprobe("run", "-o", self.folder / name, *options, self.folder / "server")
        assert done.returncode == 0, repr(done)
        return self.folder / name

    def said(self, *command):
        done = self.me.iprobe(*command)
        assert done.returncode == 0, repr(done)
        return done.stdout

    def events(self, trace, *options):
        return [json.loads(e) for e in self.said("dump", "--json", *options, trace).splitlines()]


@pytest.fixture
def program(me):
    return Program(me)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(map(str, way)))
def test_names_are_the_text(program, way):
    compiler, cxx, *flags = way
    program.build(compiler, cxx, *flags)
    events = program.events(program.record("--args"))
    sixth = [events[i : i + 8] for i in range(0, len(events), 8)][5]
    copied = "a+T(1)" if cxx else "a+1"
    expected = {**EXPECTED, "copied": {copied: 6}}
    assert {e["function"].split("<")[0].split()[-1]: e.get("args", {}) for e in sixth} == expected


def test_listed(program):
    server = program.build("gcc", False, "-O2")
    text = program.said("list", server)
    assert "  values r->id, r->uri, r->length, r->length#2, r->flags\n" in text
    probes = json.loads(program.said("list", "--json", server))["modules"][0]["probes"]
    values = {p["function"]: p.get("values") for p in probes}
    for point, names in EXPECTED.items():
        assert values[point] == (list(names) or None)


def test_a_text_of_any_length(program):
    """Of very much text the beginning is kept: arguments behind it have numbers."""
    much = " + 1" * 300
    (program.folder / "long.c").write_text(
        "#include <iprobe/probe.h>\n"
        f"int main(int argc, char **argv) {{ IPROBE_POINT(all, argv[0], argc{much}, argc); }}\n",
        encoding="ascii",
    )
    program.run("gcc", INCLUDE, "-Wl,--build-id", "long.c", "-o", "server")
    program.run(program.me.builddir / "coldpatch" / "coldpatch", "server")
    args = program.events(program.record("--args", "--string-limit", "1024"))[0]["args"]
    first, (text, value), last = args.items()
    assert first == ("argv[0]", str(program.folder / "server"))
    assert text.startswith("argc+1+1") and text.endswith("...") and len(text) == 64
    assert value == 301 and last == ("arg3", 1)


def test_named_wherever_values_are(program):
    program.build("gcc", False, "-O2", "-g")
    trace = program.record("--args", "-f", "request")
    assert 'request(r->id=5, r->uri="/c", r->length=500, r->length#2=500, r->flags=0x50)' in (
        program.said("dump", trace)
    )
    chosen = program.events(trace, "--value", "r->uri=/b", "--value", "r->length>1000")
    assert [e["args"]["r->id"] for e in chosen] == list(range(13, 30, 3))
    for by in "value:r->uri", "value:arg2":
        rows = json.loads(program.said("report", "--json", "--by", by, trace))["rows"]
        assert {r["value"]: r["points"] for r in rows} == {"/a": 10, "/b": 10, "/c": 10}
    table = list(csv.DictReader(io.StringIO(program.said("report", "--csv", "--by", by, trace))))
    assert [row["value"] for row in table] == ["/a", "/b", "/c"]
    slow = program.said("report", "--by", "value:r->length#2/log2", "-s", "value", trace)
    assert "function, r->length#2" in slow and "2048..4095" in slow
    done = program.me.iprobe("report", "--by", "value:r->nothing", trace)
    assert "r->id, r->uri, r->length, r->length#2, r->flags" in actors.one_line(done)
    program.said("export", trace, "-o", program.folder / "out.json")
    chrome = json.loads((program.folder / "out.json").read_text(encoding="utf-8"))
    args = [e["args"] for e in chrome["traceEvents"] if e.get("name") == "request"]
    assert args[5] == EXPECTED["request"]


def test_chosen_while_recording(program):
    """Expressions of a point's values, without debug information."""
    server = program.build("gcc", True, "-O2", "-s")
    trace = program.record(
        *("--when", 'request: r->length > 2000 && (r->uri == "/b" || arg1 == 29)'),
        *("--args", "request(r->id, next=r->id + 1, r->uri:string(1), r->length:hex, arg5, arg4)"),
        "-frequest",
    )
    assert [e["args"] for e in program.events(trace)] == [
        {
            "r->id": i,
            "next": i + 1,
            "r->uri": "/",
            "r->length": hex(i * 100),
            "arg5": hex(i * 16),
            "arg4": i * 100,
        }
        for i in (22, 25, 28, 29)
    ]
    for option, request, what in (
        ("--args", "request(r->nothing)", "the point has r->id, r->uri, r->length, r->length#2, "),
        ("--args", "request((long)r->id)", "cannot be cast"),
        ("--args", "request(r->uri[1])", "no pointer"),
        ("--args", "request(arg6)", "no value 'arg6'"),
        ("--args", "none(arg1)", "none is a point without values"),
        ("--retval", "request(retval)", "request is a point: it returns nothing"),
        ("--when", "request: r->flags == nothing", "no value 'nothing'"),
    ):
        done = program.me.iprobe("run", "-o", program.folder / "no", option, request, server)
        assert what in actors.one_line(done), repr(done)
        done = program.me.iprobe("list", "--check", option, request, server)
        assert done.returncode == 1 and what.replace("none is a", "is a") in (
            done.stdout + done.stderr
        ).replace("what has that name is", "request is"), repr(done)


def test_a_pattern_where_none_is_taken(program):
    """Nothing meets it, and that is told: --value takes patterns."""
    server = program.build("gcc", True, "-O2")
    for condition, told in (
        ('request: arg1 > 0 && r->uri == "/b*"', '== compares with "/b*" as it is written'),
        ('request: r->uri == "/nothing"', None),
        ('request: r->uri =^ "*"', None),
    ):
        done = program.me.iprobe(
            "run", "--json", "-o", program.folder / "no", "-frequest", "--when", condition, server
        )
        said = {r["why"]: r["text"] for r in done.summary()["no_events"]}
        assert "filtered" in said, repr(done)
        if told:
            assert told in said["literal"], repr(done)
            shown = program.me.iprobe("report", program.folder / "no").stderr
            assert f"no events: {said['literal']}" in shown
        else:
            assert "literal" not in said, repr(done)


@pytest.mark.parametrize("compiler", compilers())
def test_records_without_text(program, compiler):
    """As programs have them that were built with a header before this one: values have numbers."""
    program.build(compiler, False, "-O1", "-mcmodel=large", "-fno-pie", "-no-pie")
    events = program.events(program.record("--args", "-f", "six"))
    assert events[5]["args"] == {"arg1": 1, "arg2": 5, "arg3": 3, "arg4": 5, "arg5": 5, "arg6": 5}
    assert "six(1, 5, 3, 5, 5, 5)" in program.said("dump", program.folder / "trace")


@pytest.mark.parametrize("linker", ["bfd", "lld", "mold"])
def test_dropped_code_takes_no_names_along(program, linker):
    if not shutil.which(f"ld.{linker}"):
        pytest.skip(f"no {linker}")
    flags = ("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", f"-fuse-ld={linker}")
    program.build("gcc", False, "-O2", *flags)
    events = program.events(program.record("--args", "-f", "request,wrapped"))
    for event in events[10:12]:
        assert event["args"] == EXPECTED[event["function"]]

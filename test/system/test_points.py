# SPDX-License-Identifier: Apache-2.0
"""Points and scopes of iprobe/probe.h: idle, listed, live, and used by other tools at the same
time.
"""

import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.probe_list import ENTRY, EXIT, FORM_JUMP, INLINED, POINT, REGS_ALL, TABLE, read_list
from iptest.programs import COMPILERS, compilers

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = f"-I{ROOT / 'include'}"
PROGRAM = ROOT / "test" / "programs" / "points.c"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


class Bench:
    """A folder, compilers without anything of iprobe but the header, and coldpatch."""

    def __init__(self, folder, builddir):
        self.folder, self.builddir = folder, builddir

    def run(self, *command, code=0, **kw):
        done = subprocess.run(
            [str(c) for c in command],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            **kw,
        )
        assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
        return done

    def source(self, name, text):
        (self.folder / name).write_text("#include <iprobe/probe.h>\n" + text)
        return name

    def coldpatch(self, program, **kw):
        return self.run(
            self.builddir / "coldpatch" / "coldpatch", "--list", f"{program}.list", program, **kw
        )

    def list(self, program):
        self.coldpatch(program)
        return read_list(self.folder / f"{program}.list")

    def build(self, program, compiler, *flags, sources=(PROGRAM,), cxx=False):
        command = COMPILERS[compiler][cxx]
        self.run(
            command,
            INCLUDE,
            "-g",
            "-Wl,--build-id",
            *flags,
            *(["-x", "c++"] if cxx else []),
            *sources,
            "-o",
            program,
        )

    def build_all_usable(self, program, *how, **more):
        """And coldpatch it. A site that crosses a page after one byte cannot go live, which is said
        and right; here it would be in the way, so it is moved.
        """
        for pad in (0, 16, 48):
            (self.folder / "pad.c").write_text(f'__asm__(".text; .skip {pad}, 0x90");\n')
            self.build(program, *how, sources=("pad.c", PROGRAM), **more)
            self.run(f"./{program}", input="")
            unpatched = (self.folder / program).read_bytes()
            if all(p.offset % 4096 != 4095 for p in self.list(program).probes):
                return unpatched
        raise AssertionError("sites at the end of a page, whatever is in front of them")


@pytest.fixture
def bench(me, builddir):
    return Bench(me.dir(), builddir)


def instructions(bench, file, function):
    """Of one function: mnemonic and operands, addresses and comments left out; padding behind it
    is not there.
    """
    text = bench.run(
        "objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", file
    ).stdout
    found = [
        re.sub(r"\s*[#<].*", "", m[1]).strip()
        for m in re.finditer(r"^\s+[0-9a-f]+:\t(.*)$", text, re.M)
    ]
    return [re.sub(r"\s+", " ", i) for i in found]


OURS, THEIRS = "nopl 0x0(%rax,%rax,1)", "nop"

IDLE = """
extern int in_memory;
int leaf(int a, const char *b, long c) { POINT(one, a, b, c, 5, "text"); return a * 3 + (int)c; }
int several(int a) { POINT(p); POINT(q, a); POINT(r, a, a, a, a, a, a); return a; }
int global(int a) { POINT(g, in_memory, a); return a; }
int caller(int a) { SCOPE(s); POINT(t, a); return a + 7; }
"""


@pytest.mark.parametrize("compiler", compilers())
@pytest.mark.parametrize("opt", ["-O1", "-O2", "-O3", "-Os"])
def test_idle_points_are_their_nops(bench, compiler, opt):
    """The same code with and without: nothing is added but two NOPs a point."""
    if compiler == "gcc":
        # what a string in a register takes is the user's own
        idle = IDLE.replace(', "text"', "")
    else:
        idle = IDLE.replace(', "text"', "").replace("POINT(g, in_memory, a)", "POINT(g, a)")
    for name, flags in (("with.o", []), ("without.o", ["-DIPROBE_DISABLE"])):
        source = bench.source(
            "idle.c", "#define POINT IPROBE_POINT\n#define SCOPE IPROBE_SCOPE\n" + idle
        )
        bench.run(
            compiler,
            INCLUDE,
            opt,
            *flags,
            "-fno-asynchronous-unwind-tables",
            "-falign-functions=16",
            "-c",
            source,
            "-o",
            name,
        )
    for function, sites in (("leaf", 1), ("several", 3), ("global", 1), ("caller", 3)):
        got = instructions(bench, "with.o", function)
        plain = instructions(bench, "without.o", function)
        assert (
            got.count(OURS) - plain.count(OURS) == sites
            and got.count(THEIRS) - plain.count(THEIRS) == sites
        ), function
        assert sorted(i for i in got if i not in (OURS, THEIRS)) == sorted(
            i for i in plain if i not in (OURS, THEIRS)
        )


EVERYTHING = """
enum color { RED, GREEN };
struct thing { unsigned three:3; int five:5; char name[12]; unsigned short s; };
static int counter;
long f(int a, unsigned char c, const char *str, struct thing *t, enum color e, void *p)
{
    IPROBE_SCOPE(whole);
    char buffer[8] = "abc";
    volatile int v = a;
    IPROBE_POINT(none);
    IPROBE_POINT(one, a);
    if (a)
        IPROBE_POINT(two, c, str);
    else
        IPROBE_POINT(three, t->three, t->five, t->s);
    IPROBE_POINT(four, e, p, buffer, t->name);
    IPROBE_POINT(five, 5, -1L, 'x', "lit", f);
    IPROBE_POINT(six, counter, 1ull << 63, a++, a + 1, &a, v);
    for (;;) { IPROBE_SCOPE(inner); if (a == 4) return 3; if (a == 5) goto out; if (a == 6) continue; counter += a; break; }
out:
    return a;
}
IPROBE_NO_PROBE int g(int a) { return a; }
"""

ONLY_CXX = """
#include <string>
enum class scoped : unsigned char { yes };
namespace { template <typename T, typename... R> T first(const T &t, R... rest)
{
    IPROBE_SCOPE(first);
    auto more = [&](auto x) { IPROBE_POINT(inside, x, sizeof...(rest), true, &x); return x; };
    IPROBE_POINT(templ, t, sizeof(t) > 3, scoped::yes, L'w', u'u', U'U');
    return more(t);
} }
struct base { virtual ~base() { IPROBE_SCOPE(destruct); IPROBE_POINT(in_destructor, this); } };
inline int in_line(const std::string &s) { IPROBE_POINT(str, s.c_str(), s.size()); return s.empty() ? throw 1 : 2; }
long h(long a) { base b; static const char text[] = "static"; IPROBE_POINT(arr, text, +a); return first(a, 1, 2) + first('c') +
    in_line("x"); }
"""


@pytest.mark.parametrize("compiler", compilers())
def test_every_standard_without_a_warning(bench, compiler):
    bench.source("all.c", EVERYTHING)
    bench.source("all.cc", EVERYTHING + "#if __cplusplus >= 201402L\n" + ONLY_CXX + "#endif\n")
    jobs = [(False, std, opt) for std in ("gnu89", "c99", "gnu2x") for opt in ("-O0", "-O2")]
    jobs += [
        (True, "c++11", "-O2"),
        (True, "gnu++14", "-O0"),
        (True, "c++17", "-O2"),
        (True, "c++20", "-O0"),
    ]
    for cxx, std, opt in jobs:
        strict = [w for w in STRICT if (std, w) != ("gnu89", "-Wpedantic")] + [
            "-Wno-unused-function"
        ]
        if std == "gnu89":
            strict.append("-Wno-long-long")
        bench.run(
            COMPILERS[compiler][cxx],
            INCLUDE,
            f"-std={std}",
            opt,
            *strict,
            "-c",
            "all.cc" if cxx else "all.c",
            "-o",
            "all.o",
        )


BITS = """
struct bits { unsigned low : 3; unsigned long wide : 40; short half; };
int main(int argc, char **argv) {
    struct bits x = {5, 1ul << 39, -2};
    IPROBE_POINT(bits, argc, IPROBE_HEX(x.low), IPROBE_HEX(x.wide), IPROBE_HEX(x.half), argv);
    return !(IPROBE_HEX(x.low) == (void *)5 && IPROBE_HEX(x.wide) == (void *)(1ul << 39) &&
             IPROBE_HEX(x.half) == (void *)0xfffe);
}
"""


@pytest.mark.parametrize("flags", [[], ["-DIPROBE_DISABLE"], ["-U__x86_64__"]])
def test_bit_fields_in_hexadecimal(bench, flags):
    bench.source("bits.c", BITS)
    for compiler, cxx in itertools.product(compilers(), (False, True)):
        bench.build("bits", compiler, *STRICT, *flags, sources=("bits.c",), cxx=cxx)
        bench.run("./bits")


@pytest.mark.parametrize("flags", [["-DIPROBE_DISABLE"], ["-U__x86_64__"]])
@pytest.mark.parametrize("cxx", [False, True])
def test_without_points_nothing_is_left(bench, flags, cxx):
    """Disabled, arguments are not evaluated; on another machine they are. No warning of unused
    variables either way.
    """
    bench.source(
        "calls.c",
        "int next(void);\nint f(int unused) { int only = next(); IPROBE_SCOPE(s); IPROBE_POINT(a); "
        'IPROBE_POINT(b, only, next(), unused, "text"); return 0; }\n',
    )
    for compiler in compilers():
        bench.run(
            COMPILERS[compiler][cxx],
            INCLUDE,
            "-O2",
            *STRICT,
            *flags,
            *(["-x", "c++"] if cxx else []),
            "-c",
            "calls.c",
            "-o",
            "calls.o",
        )
        code = bench.run("objdump", "-dr", "calls.o").stdout
        assert len(re.findall("R_X86_64_(?:PLT32|PC32).*next", code)) == (
            1 if "-DIPROBE_DISABLE" in flags else 2
        )
        assert "iprobe" not in bench.run("readelf", "-SW", "calls.o").stdout


@pytest.mark.parametrize("argument", ["1.5", "s", "(__int128)1", "1,2,3,4,5,6,7"])
def test_what_is_no_argument_does_not_compile(bench, argument):
    bench.source(
        "bad.c", "struct s { int a, b; } s; void f(void) { IPROBE_POINT(p, " + argument + "); }\n"
    )
    for compiler, cxx in itertools.product(compilers(), (False, True)):
        done = bench.run(
            COMPILERS[compiler][cxx],
            INCLUDE,
            *(["-x", "c++"] if cxx else []),
            "-c",
            "bad.c",
            code=1,
        )
        assert "argument of IPROBE_POINT is" in done.stderr or "at most six" in done.stderr


LISTED = """
static volatile int kept = 7;
volatile int from_outside;
static __attribute__((noinline)) int local(int a) { IPROBE_POINT(third, kept, a); return a; }
__attribute__((noinline)) int f(int a, unsigned short b, char *text) {
    IPROBE_POINT(first, a, b, text);
    IPROBE_POINT(second, kept, from_outside, 3u, -3);
    return kept + b + local(a);
}
int g(int);
int main(int argc, char **argv) { return f(argc, 2, argv[0]) + g(argc) == 0; }
"""

# A variable of the same name as one of the other source.
NAMESAKE = """
static volatile int kept = 8;
__attribute__((noinline)) int g(int a) { IPROBE_POINT(namesake, a, kept); return kept; }
"""


def test_listed_with_arguments(bench, me):
    bench.source("listed.c", LISTED)
    bench.source("namesake.c", NAMESAKE)
    bench.build("listed", "gcc", "-O2", sources=["listed.c", "namesake.c"])
    probes = {p.function.name: p for p in bench.list("listed").probes}
    symbols = {}
    for line in bench.run("readelf", "-sW", "listed").stdout.splitlines():
        words = line.split()
        if len(words) == 8 and words[3] == "FILE":
            source = words[7]
        elif len(words) == 8 and words[3] == "OBJECT":
            symbols[
                (source, words[7]) if words[4] == "LOCAL" else words[7]
            ] = f"-4@*0x{int(words[1], 16):x}"
    assert symbols["listed.c", "kept"] != symbols["namesake.c", "kept"]
    assert {name: p.args for name, p in probes.items()} == {
        "first": "-4@%edi 2@%si 8s@%rdx",
        "second": f"{symbols['listed.c', 'kept']} {symbols['from_outside']} 4@$3 -4@$-3",
        "third": f"{symbols['listed.c', 'kept']} -4@%edi",
        "namesake": f"-4@%edi {symbols['namesake.c', 'kept']}",
    }
    for probe in probes.values():
        assert (probe.kind, probe.form, probe.regs, probe.length, probe.flags) == (
            POINT,
            FORM_JUMP,
            REGS_ALL,
            5,
            0,
        )
        assert probe.function.file.endswith(
            "namesake.c" if probe.function.name == "namesake" else "listed.c"
        )
    assert [probes[name].line for name in ("first", "second", "third", "namesake")] == [7, 8, 5, 4]
    listed = json.loads(me.iprobe("list", "--json", bench.folder / "listed").stdout)["modules"][0]
    assert [(p["function"], p["kind"], p["args"]) for p in listed["probes"]] == [
        (p.function.name, "point", p.args) for p in sorted(probes.values())
    ]
    assert listed["placement"] == "fentry"
    done = me.iprobe("list", "-f", "second", bench.folder / "listed")
    assert done.stdout.count("point") == 1 and "args -4@" in done.stdout and "4@$3" in done.stdout


PARTS = {
    "a.cc": """
int both(int x);
template <int n> __attribute__((noinline)) int shared(int x) { IPROBE_SCOPE(shared); IPROBE_POINT(in_shared, x); return x + n; }
__attribute__((noinline)) void dropped(int x) { IPROBE_POINT(in_dropped, x); }
int main(int argc, char **argv) { IPROBE_POINT(start, argv[0]); return shared<1>(argc) + both(argc) - 6; }
""",
    "b.cc": """
template <int n> __attribute__((noinline)) int shared(int x) { IPROBE_SCOPE(shared); IPROBE_POINT(in_shared, x); return x + n; }
static __attribute__((noinline, cold)) int cold(int x) { IPROBE_POINT(in_cold, x); return x * 2; }
int both(int x) { return shared<1>(x) + (x == 1 ? cold(x) : 0); }
""",
}

LINKS = {
    "pie": ["-pie", "-fPIE"],
    "no-pie": ["-no-pie", "-fno-pie"],
    "static": ["-static"],
    "static-pie": ["-static-pie", "-fPIE"],
    "gc": ["-ffunction-sections", "-Wl,--gc-sections"],
    "lto": ["-flto"],
    "lto-gc": ["-flto", "-ffunction-sections", "-Wl,--gc-sections"],
    "lld-gc": ["-fuse-ld=lld", "-ffunction-sections", "-Wl,--gc-sections"],
    "lld": ["-fuse-ld=lld"],
    "mold-gc": ["-fuse-ld=mold", "-ffunction-sections", "-Wl,--gc-sections"],
    "gold": ["-fuse-ld=gold"],
    "cet-now": ["-fcf-protection", "-Wl,-z,now", "-fno-plt"],
    "stripped": ["-s"],
}


@pytest.mark.parametrize("way", LINKS)
def test_linkers_keep_records_with_their_code(bench, way):
    for flag in LINKS[way]:
        if flag.startswith("-fuse-ld=") and not shutil.which(f"ld.{flag[9:]}"):
            pytest.skip(f"no {flag[9:]}")
    for name, text in PARTS.items():
        bench.source(name, text)
    bench.build("linked", "gcc", "-O2", *LINKS[way], sources=PARTS, cxx=True)
    bench.run("./linked")
    found = bench.list("linked")
    names = sorted((p.function.name, p.kind) for p in found.probes)
    expected = [
        ("in_cold", POINT),
        ("in_shared", POINT),
        ("shared", ENTRY),
        ("shared", EXIT),
        ("start", POINT),
    ]
    if not ("gc" in way or "lto" in way):
        expected.insert(1, ("in_dropped", POINT))
    # mold keeps the function
    assert [name for name in names if way != "mold-gc" or name[0] != "in_dropped"] == expected
    assert found.found_by & TABLE
    assert "TEXTREL" not in bench.run("readelf", "-d", "linked").stdout
    bench.run("./linked")


def test_ld_r_and_a_library(bench):
    for name, text in PARTS.items():
        bench.source(name, text)
    bench.run("g++", INCLUDE, "-O2", "-g", "-fPIC", "-c", *PARTS)
    bench.run("ld", "-r", "a.o", "b.o", "-o", "both.o")
    bench.run("g++", "-shared", "-Wl,--build-id", "both.o", "-o", "libboth.so")
    assert {p.function.name for p in bench.list("libboth.so").probes} == {
        "in_cold",
        "in_shared",
        "shared",
        "start",
        "in_dropped",
    }
    relocs = bench.run("readelf", "-rW", "libboth.so").stdout
    plain = bench.run(
        "g++",
        INCLUDE,
        "-O2",
        "-g",
        "-fPIC",
        "-DIPROBE_DISABLE",
        "-shared",
        *PARTS,
        "-o",
        "libplain.so",
    )
    assert plain.returncode == 0
    assert relocs.count("R_X86_64_") == bench.run("readelf", "-rW", "libplain.so").stdout.count(
        "R_X86_64_"
    )


@pytest.mark.parametrize("how", ["version", "size", "address", "name"])
def test_damaged_records_are_refused(bench, me, how):
    bench.source(
        "one.c",
        IDLE.replace("POINT", "IPROBE_POINT")
        .replace("SCOPE", "IPROBE_SCOPE")
        .replace("in_memory;", "in_memory = 1;")
        .replace("extern ", "")
        + "int main(void) { return 0; }\n",
    )
    bench.build("listed", "gcc", "-O2", "-no-pie", sources=["one.c"])
    line = next(
        ln
        for ln in bench.run("readelf", "-SW", "listed").stdout.splitlines()
        if ".iprobe.points" in ln
    )
    at = int(line.split("]")[1].split()[3], 16)
    data = bytearray((bench.folder / "listed").read_bytes())
    offset, value = {
        "version": (4, 9),
        "size": (0, 0xF0),
        "address": (8, data[at + 8] + 1 & 255),
        "name": (24 if data[at + 4] == 2 else 16, 0),  # behind the address of the text
    }[how]
    data[at + offset] = value
    (bench.folder / "listed").write_bytes(data)
    done = bench.coldpatch("listed", code=1)
    actors.one_line(actors.Result([], 1, done.stdout, done.stderr))
    assert (bench.folder / "listed").read_bytes() == data


def said(line):
    """What test/programs/points.c has counted: {name: count}, checksum."""
    words = dict(word.split("=") for word in line.split())
    checksum = words.pop("SUM")
    return {name: int(count) for name, count in words.items() if int(count)}, checksum


def counted(actor, trace, functions=False):
    """{name: count}, after a look at the balance of the whole trace."""
    report = json.loads(actor.iprobe("report", "--json", trace).stdout)
    assert report["orphan_exits"] == 0 and report["lost"] == 0 and report["unfinished"] == 0
    unwound = {f["function"] for f in report["functions"] if f["unwound"]}
    assert unwound <= {"jumped", "jump"}
    points, stack, seen = {}, [], {}
    for line in actor.iprobe("dump", "--json", trace).stdout.splitlines():
        event = json.loads(line)
        name, depth = event["function"], event["depth"]
        if event["event"] == "entry":
            assert depth == len(stack)
            stack.append(name)
            seen[name] = seen.get(name, 0) + 1
        elif event["event"] == "exit":
            assert stack.pop() == name
        else:
            assert event["event"] == "point" and depth == len(stack)
            points[name] = points.get(name, 0) + 1
    assert not stack
    assert {f["function"]: f["points"] for f in report["functions"] if f["points"]} == points
    calls = {f["function"]: f["calls"] for f in report["functions"]}
    assert calls == {**points, **seen}
    return calls


# every optimisation copies and moves sites in its own way
WAYS = [
    ("gcc", False, "-O0"),
    ("gcc", False, "-O3"),
    ("gcc", True, "-O2"),
    ("gcc", True, "-O3 -flto"),
    ("clang", False, "-O0"),
    ("clang", False, "-O2"),
    ("clang", True, "-O0"),
    ("clang", True, "-O3"),
]


@pytest.mark.parametrize("compiler, cxx, opt", WAYS)
def test_live_counts_are_the_programs_own(bench, me, compiler, cxx, opt):
    if compiler not in compilers():
        pytest.skip(f"no {compiler}")
    (bench.folder / "unpatched").write_bytes(
        bench.build_all_usable("points", compiler, *opt.split(), *STRICT, cxx=cxx)
    )
    (bench.folder / "unpatched").chmod(0o755)
    idle = bench.run("./unpatched", input="40\n").stdout
    assert bench.run("./points", input="40\n").stdout == idle
    done = me.iprobe(
        "run", "--json", "-o", "trace", "--", "./points", cwd=bench.folder, input="40\n"
    )
    assert done.returncode == 0 and "".join(done.stdout.splitlines(True)[:2]) == idle, repr(done)
    assert counted(me, bench.folder / "trace") == said(idle.splitlines()[1])[0]


@pytest.mark.parametrize("compiler, opt", [("gcc", "-O2"), ("clang", "-O0")])
def test_exceptions_threads_and_coroutines_end_scopes(bench, me, compiler, opt):
    if compiler not in compilers():
        pytest.skip(f"no {compiler}")
    source = PROGRAM.with_name("points_throw.cc")
    flags = ["-std=c++20", "-pthread", opt, *STRICT]
    if compiler == "clang":
        done = subprocess.run(
            ["clang++", "-std=c++20", "-fsyntax-only", "-x", "c++", "-"],
            input="#include <coroutine>\n" "std::suspend_always s;\n",
            text=True,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            pytest.skip("this clang++ knows no coroutines")
    bench.build("throwing", compiler, *flags, sources=[source], cxx=True)
    bench.coldpatch("throwing")
    done = me.iprobe("run", "-o", "trace", "--", "./throwing", cwd=bench.folder)
    assert done.returncode == 0, repr(done)
    own, _ = said(done.stdout)
    report = json.loads(me.iprobe("report", "--json", bench.folder / "trace").stdout)
    assert {f["function"]: f["calls"] for f in report["functions"]} == own
    assert (
        report["orphan_exits"] == report["unwound"] == report["unfinished"] == report["lost"] == 0
    )


@pytest.mark.parametrize("placement", ["fentry", "inline", "instrument"])
def test_points_beside_the_compilers_probes(bench, me, placement):
    env = {**os.environ, "IPROBE_PLACEMENT": placement}
    bench.run(
        bench.builddir / "coldpatch" / "iprobe-cc",
        INCLUDE,
        "-g",
        "-O2",
        PROGRAM,
        "-o",
        "points",
        env=env,
    )
    done = me.iprobe("run", "-o", "trace", "--", "./points", cwd=bench.folder, input="30\n")
    assert done.returncode == 0, repr(done)
    own, _ = said(done.stdout.splitlines()[1])
    got = counted(me, bench.folder / "trace")
    # a point of the name of its function counts with it, if that is not inlined
    assert {name: got[name] for name in own if name not in ("red", "copied", "inlined")} == {
        name: count for name, count in own.items() if name not in ("red", "copied", "inlined")
    }
    assert got["a_round"] == own["outer"] and got["main"] == 1


@pytest.mark.parametrize(
    "compiler, placement",
    [
        ("gcc", "fentry"),
        ("gcc", "inline"),
        ("gcc", "instrument"),
        ("clang", "instrument"),
        ("clang", "fentry"),
    ],
)
def test_no_probe(bench, compiler, placement):
    """The compiler's probes keep off such a function; a point in it is still one."""
    if compiler not in compilers():
        pytest.skip(f"no {compiler}")
    bench.source(
        "kept.c",
        """
int sink;
IPROBE_NO_PROBE __attribute__((noinline)) int never(int a) { for (int i = 0; i < a; i++) sink += i; IPROBE_POINT(inside, a); return sink; }
__attribute__((noinline)) int always(int a) { for (int i = 0; i < a; i++) sink += i * a; return sink + never(a); }
int main(int argc, char **argv) { (void)argv; return always(argc) == 77; }
""",
    )
    env = {**os.environ, "IPROBE_PLACEMENT": placement, "IPROBE_CC": compiler}
    bench.run(
        bench.builddir / "coldpatch" / "iprobe-cc",
        INCLUDE,
        "-g",
        "-O2",
        "kept.c",
        "-o",
        "kept",
        env=env,
    )
    found = {p.function.name for p in bench.list("kept").probes}
    assert found == {"inside", "always", "main"}


def test_attached_by_name_and_restored(bench, actor, targets):
    bench.build_all_usable("points", "gcc", "-O2")
    program = actor.dir() / "points"
    shutil.copy(bench.folder / "points", program)
    target = targets.start(actor, [program])
    attach = actor.start_iprobe(
        "attach", target.pid, "-f", "red,turn", "-o", actor.dir() / "trace", "--json"
    )

    def live():
        status = json.loads(actor.iprobe("status", "--json", target.pid).stdout)
        return status["patched"] >= 3

    memory.wait_for("no site is live", live, 30)
    target.say("25")
    own, _ = said(target.proc.stdout.readline())
    attach.send_signal(signal.SIGINT)
    done = actors.last_words(attach)
    assert done.returncode == 0, repr(done)
    assert counted(actor, done.summary()["dir"]) == {"red": own["red"], "turn": own["turn"]}
    assert not memory.text_differences(target.pid)
    target.say("5")
    assert said(target.proc.stdout.readline())[0]["red"] == 30
    target.finish()


def test_gdb_shows_the_points(bench):
    if not shutil.which("gdb"):
        pytest.skip("no gdb")
    bench.build("points", "gcc", "-O2", "-DIPROBE_PROVIDER=mine")
    bench.coldpatch("points")
    shown = bench.run("gdb", "-nx", "-batch", "-ex", "info probes stap mine", "./points").stdout
    names = set(re.findall(r"^stap\s+mine\s+(\w+)", shown, re.M))
    assert names == {"start", "round", "red", "unrolled", "inlined", "copied", "words"} | {
        f"{scope}__{end}"
        for scope in ("scope", "turn", "early", "outer", "jumped")
        for end in ("begin", "end")
    }
    script = [
        "-ex",
        "break -probe-stap mine:round",
        "-ex",
        "run < input",
        "-ex",
        "print $_probe_argc",
        "-ex",
        "print (char *)$_probe_arg0",
        "-ex",
        "print (int)$_probe_arg2",
        "-ex",
        "kill",
    ]
    (bench.folder / "input").write_text("1\n")
    shown = bench.run("gdb", "-nx", "-batch", *script, "./points").stdout
    if "$1 = " not in shown:
        pytest.skip(f"gdb runs nothing here: {shown[-200:]}")
    assert "$1 = 6" in shown and '"round 0"' in shown and "$3 = -1" in shown


class Bpftrace:
    """Counts passes of points of a process."""

    NAMES = ("red", "turn__begin", "turn__end", "copied", "round")

    def __init__(self, root, pid, program):
        probes = " ".join(
            f"usdt:{program}:iprobe:{name} {{ @{name} = count(); }}" for name in self.NAMES
        )
        self.proc = root.popen(
            ["bpftrace", "-p", pid, "-e", 'BEGIN { printf("counting\\n"); } ' + probes],
            stderr=subprocess.STDOUT,
        )
        said_so_far = []
        for line in self.proc.stdout:
            said_so_far.append(line)
            if line == "counting\n":
                return
        pytest.skip(f"bpftrace is not permitted here: {''.join(said_so_far)[-300:].strip()}")

    def finish(self):
        # once is not enough: it was seen to miss a signal that comes while it handles events
        for _ in range(30):
            self.proc.send_signal(signal.SIGINT)
            try:
                out, _ = self.proc.communicate(timeout=2)
                break
            except subprocess.TimeoutExpired:
                continue
        else:
            out = actors.last_words(self.proc).stdout
        return {name: int(count) for name, count in re.findall(r"^@(\w+): (\d+)$", out, re.M)}


@pytest.mark.parametrize("order", ["BIbi", "BIib", "IBbi", "IBib"])
def test_bpftrace_beside_us(bench, root, targets, order):
    """Capital letters attach, small ones end: bpftrace and iprobe in each order. Both count the
    same; all bytes come back.
    """
    if not shutil.which("bpftrace"):
        pytest.skip("no bpftrace")
    bench.build_all_usable("points", "gcc", "-O2")
    plain = bench.run("./points", input="20\n20\n20\n20\n20\n").stdout.splitlines()[1:]
    target = targets.start(root, [bench.folder / "points"])
    bpftrace, attach, counts, lines = None, None, {}, []
    notes = bench.run("readelf", "-nW", "points").stdout
    places = [
        int(m[2], 16)
        for m in re.finditer(r"Name: (\w+)\s+Location: 0x(\w+)", notes)
        if m[1] in Bpftrace.NAMES
    ]
    base = next(
        m.start - m.offset
        for m in memory.mappings(target.pid)
        if m.path == str(bench.folder / "points")
    )

    def breakpoints():
        return sum(memory.read_memory(target.pid, base + place, 1) == b"\xcc" for place in places)

    def work():
        before = said(lines[-1])[0] if lines else {}
        target.say("20")
        lines.append(target.proc.stdout.readline().rstrip())
        assert lines[-1] == plain[len(lines) - 1]
        passed = {name: count - before.get(name, 0) for name, count in said(lines[-1])[0].items()}
        for tool, there in (("B", bpftrace), ("I", attach)):
            if there:
                for name in passed:
                    counts[tool, name] = counts.get((tool, name), 0) + passed[name]

    work()
    for step in order:
        if step == "B":
            bpftrace = Bpftrace(root, target.pid, bench.folder / "points")
            memory.wait_for(
                "bpftrace has not set its breakpoints", lambda: breakpoints() == len(places), 30
            )
        elif step == "I":
            attach = root.start_iprobe("attach", target.pid, "-o", root.dir() / "trace", "--json")
            memory.wait_for(
                "no site is live",
                lambda: json.loads(root.iprobe("status", "--json", target.pid).stdout)["patched"]
                > 10,
                30,
            )
        elif step == "b":
            got = bpftrace.finish()
            bpftrace = None
            for name, ours in (
                ("red", "red"),
                ("turn__begin", "turn"),
                ("turn__end", "turn"),
                ("copied", "copied"),
                ("round", "round"),
            ):
                assert got[name] == counts["B", ours], name
        else:
            attach.send_signal(signal.SIGINT)
            done = actors.last_words(attach)
            attach = None
            assert done.returncode == 0, repr(done)
            assert counted(root, done.summary()["dir"]) == {
                name: count
                for (tool, name), count in counts.items()
                if tool == "I" and name != "start"
            }
        work()
    memory.wait_for("bytes are not back", lambda: not memory.text_differences(target.pid), 30)
    target.finish()


def test_bpftrace_comes_and_goes_while_we_do(bench, root, targets):
    """Breakpoints between our sites change while we write there: neither of us undoes what the
    other did.
    """
    if not shutil.which("bpftrace"):
        pytest.skip("no bpftrace")
    bench.build_all_usable("points", "gcc", "-O2")
    program = bench.folder / "points"
    plain = bench.run(program, input="100000\n").stdout.splitlines()[1]
    target = targets.start(root, [program])
    Bpftrace(root, target.pid, program).finish()  # or skip
    target.say("100000")
    script = (
        f"usdt:{program}:iprobe:early__begin {{ @ = count(); }} usdt:{program}:iprobe:words {{ @w "
        f"= count(); }} "
        "interval:ms:20 { exit(); }"
    )
    for _ in range(2):
        other = root.popen(["bpftrace", "-p", target.pid, "-e", script])
        while other.poll() is None:
            done = root.iprobe(
                "attach", target.pid, "-o", root.dir() / "trace", "--duration", "1ms"
            )
            assert done.returncode == 0, repr(done)
        assert actors.last_words(other).returncode == 0
    assert target.proc.stdout.readline().rstrip() == plain
    memory.wait_for("bytes are not back", lambda: not memory.text_differences(target.pid), 30)
    target.finish()

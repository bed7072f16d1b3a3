# SPDX-License-Identifier: Apache-2.0
"""The programs that idle overhead is measured on: real ones, from Debian's sources; gawk, which is
not in the means, as nothing was tuned on it; and fib, the worst case.

They are what SPEC CPU2006 took from the same authors, or their relatives. Each entry of
PROGRAMS builds its program in a folder of its own with the given compilers and the program's
own flags (-O2), and returns a function that makes the command for a share of the work: 1 for
the time, less for counting instructions, which is fifty times slower. The work is always the
same, uses no network and one thread, and ends by itself.
"""

import random
from collections import namedtuple

import bench

# around: what is put in front of the command to feed it; codes: exit codes that mean success
Work = namedtuple("Work", "command around codes", defaults=((), (0,)))


class Missing(Exception):
    """The program's source, or something that it needs, cannot be had here."""


def source(package, folder, upstream=True):
    """Unpacks a source package."""
    tree = folder / package
    done = bench.run(
        [
            bench.ROOT / "scripts" / "fetch-source",
            *(["--upstream"] if upstream else []),
            package,
            tree,
        ],
        check=False,
    )
    if done.returncode != 0:
        raise Missing(done.stderr.strip())
    return tree


def make(tree, *arguments):
    bench.run(["make", "-j2", *arguments], cwd=tree)


def configure(tree, *arguments, env=()):
    bench.run(["env", *env, "./configure", *arguments], cwd=tree)


def text(path, size):
    """A file that compresses neither very well nor very badly."""
    seed = 1
    words = []
    for _ in range(size // 4):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        words.append(f"{(seed >> 8) % 3000:x}")
    path.write_text(" ".join(words), encoding="ascii")
    return path


FIB = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(int argc, char **argv) { printf("%d\\n", fib(atoi(argv[1]))); return 0; }
"""


def fib(folder, cc, _):
    (folder / "fib.c").write_text(FIB, encoding="ascii")
    bench.run([cc, "-O2", "fib.c", "-o", "fib"], cwd=folder)
    return lambda share: Work([folder / "fib", 41 if share == 1 else 27])


def bzip2(folder, cc, _):
    tree = source("bzip2", folder)
    make(tree, "bzip2", f"CC={cc}")
    return lambda share: Work(
        [tree / "bzip2", "-kc", text(folder / f"text{share}", int(12e6 * share))]
    )


def gnugo(folder, cc, _):
    tree = source("gnugo", folder)
    configure(
        tree, "--without-readline", "--without-curses", env=[f"CC={cc}", "CFLAGS=-O2 -fcommon"]
    )
    make(tree)
    return lambda share: Work(
        [
            tree / "interface" / "gnugo",
            "--boardsize",
            "9",
            "--level",
            "6" if share == 1 else "1",
            "--seed",
            "1",
            "--cache-size",
            "8",
            "--benchmark",
            "20",
        ]
    )


def hmmer2(folder, cc, _):
    tree = source("hmmer2", folder, upstream=False)
    if bench.run(["pkg-config", "--exists", "libsquid"], check=False).returncode != 0:
        raise Missing("libsquid-dev is not installed")
    configure(tree, env=[f"CC={cc}", "CFLAGS=-O2"])
    make(tree / "src", "hmmbuild", "hmmcalibrate")
    model = folder / "globins.hmm"
    bench.run([tree / "src" / "hmmbuild", "-F", model, tree / "tutorial" / "globins50.msf"])
    return lambda share: Work(
        [
            tree / "src" / "hmmcalibrate",
            "--fixed",
            "100",
            "--num",
            max(4, int(12000 * share)),
            "--seed",
            "1",
            "--cpu",
            "0",
            model,
        ]
    )


# Lua's library and interpreter
LUA_FILES = """lapi lauxlib lbaselib lcode lcorolib lctype ldblib ldebug ldo ldump lfunc lgc linit
liolib llex lmathlib lmem loadlib lobject lopcodes loslib lparser lstate lstring lstrlib ltable
ltablib ltm lua lundump lutf8lib lvm lzio""".split()


# Words that are counted, sorted, put together and taken apart by patterns.
AWK = """
function count(n,    i, word) {
  for (i = 0; i < n; i++) {
    word = "w" (i * 7919) % 3001
    seen[word]++
    if (word ~ /^w1[0-9]+7$/) odd += length(word)
  }
}
function join(m,    i, text, parts) {
  text = ""
  for (i = 1; i <= m; i++) text = text sprintf("%s:%d,", "w" i, seen["w" i])
  i = split(text, parts, /[:,]/)
  gsub(/w/, "v", text)
  return i + length(toupper(text)) + index(text, "v" m)
}
BEGIN {
  count(n)
  for (i = 0; i < n / 1000; i++) sum += join(100)
  print odd, sum, length(seen)
}
"""


# A little of everything that scripts do: arithmetic in loops, permutations of arrays, objects and
# closures, strings.
LUA = """
local n = tonumber(arg[1])

local function nbody(steps)
  local x, y, vx, vy = 1.0, 0.0, 0.0, 1.0
  for _ = 1, steps do
    local r = (x * x + y * y) ^ 1.5
    vx, vy = vx - x / r * 0.001, vy - y / r * 0.001
    x, y = x + vx * 0.001, y + vy * 0.001
  end
  return x
end

local function fannkuch(size, rounds)
  local p, most = {}, 0
  for r = 1, rounds do
    for i = 1, size do p[i] = (i * 7 + r) % size + 1 end
    local flips = 0
    while p[1] ~= 1 and flips < 50 do
      local i, k = 1, p[1]
      while i < k do p[i], p[k] = p[k], p[i]; i, k = i + 1, k - 1 end
      flips = flips + 1
    end
    if flips > most then most = flips end
  end
  return most
end

local Account = {}
Account.__index = Account
function Account.new(sum) return setmetatable({sum = sum}, Account) end
function Account:add(sum) self.sum = self.sum + sum return self end

local function objects(rounds)
  local accounts = {}
  for i = 1, 100 do accounts[i] = Account.new(i) end
  for i = 1, rounds do accounts[i % 100 + 1]:add(i):add(-1) end
  return accounts[1].sum
end

local function words(count)
  local t = {}
  for i = 1, count do t[#t + 1] = string.format("%06d", (i * 7919) % count) end
  table.sort(t)
  local sum = 0
  for word in table.concat(t, ","):gmatch("%d+") do sum = sum + #word end
  return sum
end

print(nbody(n * 10), fannkuch(11, n), objects(n * 5), words(n))
"""


def lua(folder, cc, _):
    tree = source("lua5.4", folder)
    make(tree, "generic", f"CC={cc} -std=gnu99")
    (folder / "work.lua").write_text(LUA, encoding="ascii")
    return lambda share: Work([tree / "src" / "lua", folder / "work.lua", int(200000 * share)])


def gawk(folder, cc, _):
    tree = source("gawk", folder)
    configure(
        tree,
        "--disable-nls",
        "--disable-mpfr",
        "--disable-extensions",
        "--disable-pma",
        env=[f"CC={cc}", "CFLAGS=-O2"],
    )
    make(tree / "support")
    make(tree, "gawk")
    (folder / "work.awk").write_text(AWK, encoding="ascii")
    return lambda share: Work(
        [tree / "gawk", "-v", f"n={int(1000000 * share)}", "-f", folder / "work.awk"]
    )


def sqlite3(folder, cc, _):
    """The authors' own benchmark, its main set of tests."""
    tree = source("sqlite3", folder)
    if bench.run(["sh", "-c", "command -v tclsh"], check=False).returncode != 0:
        raise Missing("tcl is not installed, which makes sqlite3.c")
    configure(tree, "--disable-tcl", "--disable-readline")
    bench.run(["make", "sqlite3.c"], cwd=tree)
    bench.run(
        [
            cc,
            "-O2",
            "-DSQLITE_THREADSAFE=0",
            "-DSQLITE_OMIT_LOAD_EXTENSION",
            "-I.",
            "test/speedtest1.c",
            "sqlite3.c",
            "-lm",
            "-o",
            "speedtest",
        ],
        cwd=tree,
    )
    return lambda share: Work(
        [tree / "speedtest", "--memdb", "--size", "60" if share == 1 else "4"]
    )


def film(path, frames):
    """Noise over moving bars, 176x144, YUV 4:2:0."""
    noise = random.Random(1).randbytes(65536)
    with open(path, "wb") as out:
        for f in range(frames):
            for y in range(144):
                out.write(
                    bytes(
                        (
                            ((x + 3 * f) >> 4 << 5)
                            + y
                            + (noise[(x * 7 + y * 131 + f * 977) & 65535] >> 4)
                        )
                        & 255
                        for x in range(176)
                    )
                )
            out.write(bytes([128]) * (88 * 72 * 2))
    return path


def x264(folder, cc, _):
    tree = source("x264", folder)
    configure(
        tree,
        "--disable-asm",
        "--disable-avs",
        "--disable-swscale",
        "--disable-lavf",
        "--disable-ffms",
        "--disable-gpac",
        "--disable-lsmash",
        "--disable-opencl",
        "--disable-thread",
        env=[f"CC={cc}"],
    )
    make(tree, "x264")
    return lambda share: Work(
        [
            tree / "x264",
            "--quiet",
            "--no-progress",
            "--threads",
            "1",
            "--input-res",
            "176x144",
            "-o",
            "/dev/null",
            film(folder / f"film{share}.yuv", max(3, int(100 * share))),
        ]
    )


def lzip(folder, _, cxx):
    tree = source("lzip", folder)
    configure(tree, f"CXX={cxx}")
    make(tree)
    return lambda share: Work(
        [tree / "lzip", "-kc", text(folder / f"text{share}", int(2e6 * share))]
    )


def formula(path, variables):
    """Random 3-SAT at the threshold where it is hardest."""
    choose = random.Random(7)
    clauses = int(variables * 4.26)
    with open(path, "w", encoding="ascii") as out:
        out.write(f"p cnf {variables} {clauses}\n")
        for _ in range(clauses):
            out.write(
                " ".join(
                    str(v if choose.random() < 0.5 else -v)
                    for v in choose.sample(range(1, variables + 1), 3)
                )
                + " 0\n"
            )
    return path


def minisat(folder, _, cxx):
    tree = source("minisat2", folder, upstream=False)
    bench.run(
        [
            cxx,
            "-O2",
            "-D__STDC_LIMIT_MACROS",
            "-D__STDC_FORMAT_MACROS",
            "-I.",
            "minisat/core/Main.cc",
            "minisat/core/Solver.cc",
            "minisat/utils/Options.cc",
            "minisat/utils/System.cc",
            "-lz",
            "-o",
            "solve",
        ],
        cwd=tree,
    )
    return lambda share: Work(
        [tree / "solve", "-verb=0", formula(folder / f"cnf{share}", 225 if share == 1 else 150)],
        codes=(10, 20),
    )


def toga2(folder, _, cxx):
    """A chess engine."""
    tree = source("toga2", folder, upstream=False)
    sources = sorted(str(p.name) for p in (tree / "src").glob("*.cpp"))
    bench.run([cxx, "-O2", "-w", *sources, "-lpthread", "-o", "toga"], cwd=tree / "src")

    def work(share):
        # the engine thinks in a thread of its own, and ends when its input does
        said = folder / f"said{share}"
        feed = (
            f"rm -f {said}; {{ printf 'uci\\nposition startpos\\ngo depth "
            f"{13 if share == 1 else 8}\\n'; "
            f'until grep -qs bestmove {said}; do sleep 0.05; done; echo quit; }} | "$@" > {said}'
        )
        return Work([tree / "src" / "toga"], around=("sh", "-c", feed, "feed"))

    return work


def ninja(folder, _, cxx):
    """Reading a large build file and finding nothing to do: the C++ library's strings and
    containers, exceptions compiled in.
    """
    tree = source("ninja-build", folder)
    names = (
        "build build_log clean clparser debug_flags depfile_parser deps_log disk_interface dyndep "
        "dyndep_parser edit_distance "
        "eval_env graph graphviz json lexer line_printer manifest_parser metrics missing_deps "
        "parser state status "
        "string_piece_util subprocess-posix util version ninja"
    ).split()
    present = [f"src/{n}.cc" for n in names if (tree / "src" / f"{n}.cc").exists()]
    bench.run([cxx, "-O2", "-w", *present, "-o", "ninja-idle"], cwd=tree)

    def work(share):
        place = folder / f"tree{share}"
        place.mkdir(exist_ok=True)
        lines = ["rule touch", "  command = touch $out", "  description = $in to $out"]
        for i in range(int(300000 * share)):
            lines.append(
                f"build out/some/folder/{i % 97}/object{i}.o: touch in/{i % 89}.c | "
                f"in/common{i % 13}.h || in/order{i % 7}"
            )
            lines.append(f"  flags = -O2 -I$in/include -DNUMBER={i}")
        (place / "build.ninja").write_text("\n".join(lines) + "\n", encoding="ascii")
        return Work([tree / "ninja-idle", "-C", place, "-t", "targets", "all"])

    return work


PROGRAMS = {
    "fib": fib,
    "bzip2": bzip2,
    "gnugo": gnugo,
    "hmmer2": hmmer2,
    "lua": lua,
    "gawk": gawk,
    "sqlite3": sqlite3,
    "x264": x264,
    "lzip": lzip,
    "minisat": minisat,
    "toga2": toga2,
    "ninja": ninja,
}
# not in means: the worst case, and one for which nothing was tuned
APART = ("fib", "gawk")
CPLUSPLUS = ("lzip", "minisat", "toga2", "ninja")

# SPDX-License-Identifier: Apache-2.0
"""
Names that try to steer the terminal, to forge lines, or to turn the direction of text, in all
places where a name can come from, through all commands: what is printed is harmless, on stdout
and on stderr, and JSON is JSON.
"""

import csv
import gzip
import io
import json
import os
import re
import signal
import subprocess
import time

import pytest

from iptest import memory
from iptest.terminal import Terminal

# for names of 14 bytes in the program: the whole alphabet of trouble, by places
NAMES = {
    b"NAME_of_leaf_": b"a\x1b[2Jb\x07\r\nc\x9b",  # ends in a byte that is no UTF-8
    b"NAME_of_caller": b"x\n\xe2\x80\xaey\x1b]0;\xff\x01",
    b"NAME_of_point_": b"p\x1b[1m\x7f\xc2\x9bq\r\ne",
    b"NAME_of_value_": b"v\x1b[3m\n\xe2\x81\xa6\x08\xffu",
    b"NAME_in_file": b"f\x1b[4m\n\xe2\x80\xaeg\x07",
}
PLACE = b"d\x1b[5m\n\xe2\x80\xae\xff\x07\r"
BAD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


def check_text(data, what):
    """No control character but newline and tab, all of it UTF-8, and no mark of direction."""
    text = data.decode()  # an error where it is no UTF-8
    found = BAD.search(text)
    assert not found, f"{what}: {text[max(0, found.start() - 60):found.end() + 60]!r}"
    return text


class Commands:
    """Runs commands and holds what they print against the promise."""

    def __init__(self, actor, where):
        self.actor, self.where, self.ran = actor, where, []

    def check(self, args, done, codes):
        what = f"{[str(a) for a in args][1:]}"
        out, err = check_text(done.stdout, what), check_text(done.stderr, what + " on stderr")
        assert done.returncode in codes, (what, done.returncode, out[-500:], err)
        for line in err.splitlines():  # a newline in a name does not begin a line of its own
            assert re.match(r"(iprobe|fperf|iprobed|coldpatch|usage|  |$)", line), (what, err)
        self.ran.append(what)
        return out

    def __call__(self, *args, codes=(0,), tool="iprobe", **kw):
        args = [self.actor.builddir / ("coldpatch" if tool == "coldpatch" else "cli") / tool, *args]
        proc = self.actor.popen(args, text=False, cwd=self.where, stdin=subprocess.DEVNULL, **kw)
        out, err = proc.communicate(timeout=60)
        return self.check(args, subprocess.CompletedProcess(args, proc.returncode, out, err), codes)

    def json(self, *args, **kw):
        return [json.loads(line) for line in self(*args, **kw).splitlines()]


@pytest.fixture(scope="module")
def hostile(top, programs):
    """The program, its names overwritten in every table, in a directory with a name of the same
    kind.
    """
    folder = os.path.join(os.fsencode(top), PLACE)
    os.mkdir(folder, 0o777)
    os.chmod(folder, 0o777)
    source = programs.source / "hostile_names.c"
    named = top / "NAME_in_file.c"
    named.write_bytes(source.read_bytes())
    built = top / "hostile_names"
    done = subprocess.run(
        [
            programs.builddir / "coldpatch" / "iprobe-cc",
            "-O2",
            "-g",
            "-pthread",
            "-o",
            built,
            named,
        ],
        env={**os.environ, "IPROBE_PLACEMENT": "fentry"},
        cwd=top,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    data = built.read_bytes()
    for name, other in NAMES.items():
        assert name in data, name
        data = data.replace(name, other[: len(name)].ljust(len(name), b"\x1b"))
    program = os.path.join(folder, b"m\x1b[6m\n\xff")
    with open(program, "wb") as f:
        f.write(data)
    os.chmod(program, 0o755)
    return program


VALUE = b'value\x1b[7m\n\r\x07\xe2\x80\xae\xff,"<\\'


@pytest.fixture
def commands(me, hostile):
    folder = os.path.join(os.fsencode(me.dir()), b"w\x1b[8m\n\xe2\x80\xae\xff")
    os.mkdir(folder)
    if me.uid != os.getuid():
        os.chown(folder, me.uid, me.uid)
    return Commands(me, folder)


class Live:
    """The program, running."""

    def __init__(self, me, hostile, where):
        # not by Actor.popen(), which makes text of what it is given
        env = {**os.environ, "LD_PRELOAD": str(me.runtime_path)}
        self.proc = subprocess.Popen(
            [hostile, VALUE], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=where
        )
        assert self.proc.stdout.readline() == b"ready\n"
        self.pid = self.proc.pid

    def close(self):
        self.proc.stdin.write(b"\n")
        self.proc.stdin.close()
        self.proc.stdout.close()
        self.proc.wait(10)


@pytest.fixture
def live(me, hostile, commands):
    if me.uid != os.getuid():
        pytest.skip("is started as who runs the tests")
    target = Live(me, hostile, commands.where)
    yield target
    target.close()


def record(commands, hostile, trace, *options):
    """`iprobe run` of it; what it says is looked at as well."""
    commands(
        "run",
        *(options or ["--args", "--retval", "--callsite"]),
        "-o",
        trace,
        "--",
        name(hostile),
        name(VALUE),
        60,
    )
    return trace


class name(bytes):
    """An argument that Actor.popen() leaves as it is: str() of it is what the system makes of
    the bytes.
    """

    def __str__(self):
        return os.fsdecode(self)


def test_files(commands, hostile, me):
    """list, coldpatch; and the errors of all commands that take a file."""
    program = name(hostile)
    text = commands("list", program)
    assert "\\x1b[2Jb\\x07\\x0d\\x0ac" in text and "\\u{202e}" in text and "f\\x1b[4m" in text
    probes = commands.json("list", "--json", program)[0]["modules"][0]["probes"]
    assert any(p["linker_name"].startswith("a\x1b[2Jb\x07\r\nc") for p in probes)
    missing = name(hostile + b"\x1b[2Jmissing\n")
    plain = name(os.path.join(commands.where, b"no \x1b[1m elf"))
    with open(plain, "wb") as f:
        f.write(b"\x7fELFnone")
    for what in (missing, plain):
        commands("list", what, codes=(1,))
        commands("list", "-f", what, program, codes=(0, 1))
        commands("list", "--list", what, program, codes=(0, 1))
        commands(what, tool="coldpatch", codes=(1,))
        commands("run", "-o", name(b"t\x1b[1m"), "--", what, codes=(1, 126, 127))
        for reader in ("report", "dump", "info", "graph", "hist", "trim", "split"):
            commands(reader, what, codes=(1, 2))
        commands("export", "--format", "folded", what, codes=(1, 2))
        commands("export", "--format", what, codes=(1, 2))
        commands("export", "--format", "chrome", "-o", name(what + b"/x"), what, codes=(1, 2))
        commands("attach", what, codes=(1, 2))
        commands("attach", "-f", what, os.getpid(), codes=(1, 2))
        commands("top", "-b", "-n", 1, what, codes=(1, 2))
        commands(what, codes=(1, 2))
        commands("report", name(b"--" + what), codes=(1, 2))
        commands("--check", "--probes-d", what, "--policy", what, tool="iprobed", codes=(1, 2))
        commands("-p", what, tool="fperf", codes=(1, 2))
        commands("-e", what, "-p", os.getpid(), tool="fperf", codes=(1, 2))
        commands("-f", what, program, "none", "1", tool="fperf", codes=(0, 1, 2, 127))


def test_traces(commands, hostile):
    """All that reads a trace, in all forms; the trace's own place has such a name, too."""
    trace = name(record(commands, hostile, name(b"t\x1b[1m\n\xe2\x80\xae\xff")))
    counted = name(record(commands, hostile, name(b"h\x1b[1m\n"), "--payload", "hist"))
    report = commands("report", trace)
    assert "?" in report or "\\x1b" in report
    for more in ([], ["--by", "callsite"], ["--threads"], ["--top", "3"], ["--baseline", trace]):
        commands("report", *more, trace, codes=(0, 2))
        for line in commands.json("report", *more, "--json", trace, codes=(0, 2)):
            assert isinstance(line, (dict, list))
    rows = list(csv.reader(io.StringIO(commands("report", "--csv", trace))))
    assert len({len(row) for row in rows}) == 1 and len(rows) >= 3
    assert "\\x1b" in commands("dump", trace)
    dumped = commands.json("dump", "--json", trace)
    assert any("\x1b" in event.get("function", "") for event in dumped)
    commands("info", trace)
    assert commands.json("info", "--json", trace)
    for reader in (
        ["graph"],
        ["graph", "--dot"],
        ["graph", "--inverted"],
        ["graph", "--callers", "*"],
        ["hist"],
        ["hist", "--over-time"],
        ["hist", "--interval", "1ms"],
        ["hist", "--diff", trace],
        ["hist", "--diff", counted],
    ):
        commands(*reader, trace, codes=(0, 2))
    commands("hist", counted)
    commands.json("hist", "--json", counted)
    commands.json("hist", "--interval", "1ms", "--json", trace)
    commands.json("hist", "--diff", counted, "--json", trace)
    commands("report", counted)
    for form in ("html", "chrome", "folded", "callgrind"):
        text = commands("export", "--format", form, trace)
        if form == "chrome":
            assert json.loads(text)["traceEvents"]
    for form in ("perfetto", "pprof"):  # protocol buffers; their strings are looked at
        out = name(b"out\x1b[1m." + form.encode())
        commands("export", "--format", form, "-o", out, trace)
        with open(os.path.join(commands.where, out), "rb") as f:
            data = f.read()
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        assert (
            b"\x1b[2Jb" not in data and b"\x1b]0;" not in data and "\u202e".encode() not in data
        ), form
    commands("trim", "--from", "1ms", "-o", name(b"trimmed\x1b[1m"), trace)
    commands("split", "--by", "thread", "-o", name(b"split\x1b[1m"), trace, codes=(0, 2))


def test_live(commands, live):
    """The commands that look at a process, and sessions that are changed."""
    pid = live.pid
    assert "\\x1b[6m" in commands("list", pid) and commands.json("list", "--json", pid)
    commands("doctor", pid, codes=(0, 1))
    commands("attach", "--dry-run", pid)
    commands("attach", "--dry-run", "--json", pid)
    commands("attach", "--duration", "100ms", "--args", "-o", name(b"a\x1b[1m\n"), pid)
    commands("attach", "-f", name(b"nothing\x1b[1m\n"), pid, codes=(1,))
    session = commands.actor.start_iprobe(
        "attach", "--overwrite", "-o", name(b"s\x1b[1m\n"), pid, cwd=commands.where, text=False
    )
    memory.wait_for(
        "no site went live", lambda: commands.json("status", "--json", pid)[0]["patched"]
    )
    commands("status")
    assert "\\x1b[6m" in commands("status", pid)
    assert commands.json("status", "--json", pid)
    commands("attach", "-f", "!*leaf*", pid, codes=(0, 1))
    commands("attach", "-f", name(b"nothing\x1b[1m\n"), pid, codes=(0, 1))
    commands("attach", "-f", "*", "--json", pid, codes=(0, 1))
    commands("snapshot", "-o", name(b"snap\x1b[1m\n\xff"), pid)
    commands("snapshot", "-o", name(b"none\x1b[1m\n/\xff"), pid, codes=(1,))
    session.send_signal(signal.SIGINT)
    out, err = session.communicate(timeout=30)
    commands.check(
        [b"", b"attach"], subprocess.CompletedProcess([], session.returncode, out, err), (0,)
    )
    assert b"s\\x1b[1m\\x0a" in err
    commands("top", "-b", "-n", 2, "-d", "100ms", pid)
    commands("top", "-b", "--json", "-n", 2, "-d", "100ms", pid, codes=(0, 2))
    commands("-p", pid, "-d", "300ms", tool="fperf", codes=(0, 1, 2))
    commands("-p", pid, "-d", "300ms", "--json", tool="fperf", codes=(0, 1, 2))
    commands("-p", pid, "-d", "300ms", "--csv", tool="fperf", codes=(0, 1, 2))
    commands("detach", pid)
    assert len(commands.ran) > 20


def test_top_on_a_terminal(me, live):
    """Nothing but its own sequences: a foreign one would set the title, or clear the screen."""
    seen = []
    with_names = Terminal(me, "top", "-d", "100ms", live.pid)
    feed = with_names.feed
    with_names.feed = lambda data: (seen.append(bytes(data)), feed(data))
    try:
        with_names.wait(
            "its rows", lambda screen: "calls/s" in screen.text() and "?[2Jb?" in screen.text()
        )
        time.sleep(0.3)
        with_names.press("q")
        with_names.wait_end()
    finally:
        with_names.close()
    data = b"".join(seen)
    assert b"\x1b]" not in data and b"\x07" not in data and "\u202e".encode() not in data
    own = re.sub(rb"\x1b\[[?0-9;]*[A-Za-z]", b"", data)
    assert b"\x1b" not in own and not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", own), own[
        :300
    ]
    sequences = set(re.findall(rb"\x1b\[([?0-9;]*[A-Za-z])", data))
    assert not any(s in sequences for s in (b"5m", b"6m", b"8m", b"3m", b"4m")), sequences


def test_yaml(commands):
    """probes.d and the policy: names, values, and what is wrong with them."""
    folder = os.path.join(commands.where, b"probes.d\x1b[1m\n")
    os.mkdir(folder)
    with open(os.path.join(folder, b"a.yaml"), "w", encoding="utf-8") as f:
        f.write('selections:\n  "s\\e[1m\\n\\u202e": ["f\\e[2m\\n"]\n')
    with open(os.path.join(folder, b"b\x1b[1m\n.yaml"), "w", encoding="utf-8") as f:
        f.write('selections:\n  x: "\\e[1m\\a"\n"k\\e[1m\\n\\u202e": 1\n')
    policy = os.path.join(commands.where, b"policy\x1b[1m.yaml")
    with open(policy, "w", encoding="utf-8") as f:
        f.write('members:\n  - users: ["u\\e[1m\\n\\u202e"]\n')
    os.chmod(policy, 0o644)
    for words in (
        ["--probes-d", name(folder)],
        ["--probes-d", name(folder), "--policy", name(policy)],
        ["--policy", name(policy)],
        ["--fire", name(b"r\x1b[1m\n")],
        ["--rules", "--state", name(folder)],
        ["--rule", name(b"r\x1b[1m\n")],
    ):
        commands("--check", *words, tool="iprobed", codes=(0, 1, 2))

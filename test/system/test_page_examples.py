# SPDX-License-Identifier: Apache-2.0
"""The examples of manual pages, as they stand there, on a program with the functions that they
name: each does its work.
"""

import os
import re
import shlex
import shutil
import signal
import time
import types

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.terminal import Terminal

from conftest import SOURCE_ROOT

MAN = SOURCE_ROOT / "docs" / "man"
PAGES = [
    ["attach", "detach"],
    ["run"],
    ["snapshot", "hist", "status"],
    ["top"],
    ["doctor", "dump", "export", "graph", "info", "list", "report", "split", "trim"],
    ["wait"],
    ["syscalls"],
    ["darc"],
    ["compare-calls"],
    ["follow"],
    ["last"],
]
KERNEL = r"--kernel|iprobe wait|iprobe syscalls|--off-cpu|--off-wake"  # take these events
NAME = f"server-{os.getpid()}"  # of the process
ON_A_TERMINAL = ["tui"]  # test_tui.py tries these
OURS = {"iprobe": "cli", "fperf": "cli", "coldpatch": "coldpatch"}  # and their folders
# a session of these goes on until it is ended
ENDLESS = re.compile(
    r"iprobe (attach|top|hist \$.*--interval) ?(?!.*(--(duration|iterations|until|dry-run)))"
)
# these have no session, and go on until they are ended
LIVE = re.compile(
    r"iprobe (syscalls|wait|darc) (?=.*(\$\(pidof|--name|--unit))(?!.*--(duration|status))"
)
# these ask a session that must be there already
BESIDE = {
    "iprobe snapshot": "iprobe attach $(pidof server) --overwrite -o flight",
    "iprobe hist $": "iprobe attach $(pidof server) --payload hist -o flight",
    "iprobe attach $(pidof server) -f 'parse_*'": "iprobe attach $(pidof server) -f 'cache_*'",
    "iprobe attach $(pidof server) -f '!cache_*'": "iprobe attach $(pidof server)",
    # a search that goes on
    "iprobe darc --status": "iprobe darc -f handle_request --slower-than 10s $(pidof server)",
}
# in the page's place: sooner, and with names that are known when the test runs
SOONER = [
    (r"--duration \d+s", "--duration 300ms"),
    (r"--delay 2s", "--delay 200ms"),
    # the server waits most of its time, and there is one machine
    (r"--at-cpu 90%", "--at-cpu 0.1%"),
    (r"--stream keeper:5000", "--stream crash.log"),
]


def blocks_of(page, section=None):
    """The literal blocks of a page, or of one section of it."""
    text = (MAN / f"{page}.rst").read_text(encoding="utf-8")
    if section:
        text = re.search(rf"(?ms)^{section}\n=+\n(.*?)^\S[^\n]*\n=+\n", text)[1]
    return re.findall(r"::\n\n((?: {4}.*\n|\n(?= {4}))+)", text)


def commands_of(page, section=None):
    lines = "".join(blocks_of(page, section)).splitlines()
    return [line.strip() for line in lines if line.strip()]


def is_there(command):
    program = command.split()[0]
    return program in OURS or bool(shutil.which(program))


def without_what_is_not_there(command):
    """Without viewers that this machine lacks: the command of ours alone."""
    parts = re.split(r" (?:\||&&) (?=(?:[^']*'[^']*')*[^']*$)", command)
    kept = parts[0]
    for part in parts[1:]:
        if not is_there(part):
            return kept
        kept = command[: command.index(part) + len(part)]
    return kept


class Shell:
    """A folder with the server under way, its program, and traces of the names in pages."""

    def __init__(self, who, target, cwd, path):
        self.who, self.target, self.cwd, self.path = who, target, cwd, path

    def here(self, command):
        """With what it names as this test has it."""
        for pattern, new in SOONER:
            command = re.sub(pattern, new, command)
        command = command.replace("$(pidof server)", str(self.target.pid))
        # no other process of that name on this machine
        command = command.replace("--name server", f"--name {NAME}")
        return command.replace("--tid 4711", f"--tid {self.target.pid}")

    def on_a_terminal(self, command):
        """It shows something, and ends with 0 when the user leaves."""
        words = shlex.split(self.here(command))
        terminal = Terminal(self.who, *words[1:], env={**os.environ, "TERM": "xterm"}, cwd=self.cwd)
        try:
            terminal.wait_text(str(self.target.pid))
            terminal.press("q")
            code, said = terminal.wait_end()
        finally:
            terminal.close()
        assert code == 0, said
        return types.SimpleNamespace(stdout=terminal.scrolled())

    def at_a_key(self, command):
        """It begins with the key, and ends with Ctrl-C."""
        words = shlex.split(self.here(command))
        terminal = Terminal(self.who, *words[1:], env={**os.environ, "TERM": "xterm"}, cwd=self.cwd)
        try:
            assert "nothing is changed yet" in terminal.proc.stderr.readline()
            terminal.press(words[words.index("--on-key") + 1])
            memory.wait_for("no session", self.recorded, 20, 0.05)
            terminal.press("\x03")
            assert terminal.proc.wait(timeout=60) == 0, terminal.proc.stderr.read()
        finally:
            terminal.close()
        return types.SimpleNamespace(stdout="")

    def start(self, command):
        command = self.here(command)
        env = {"PATH": f"{self.path}:{os.environ['PATH']}", "COLUMNS": "200"}
        # exec: a signal to end it reaches the command itself
        lead = "exec " if not re.search(r"[|&;>]", command) else ""
        return self.who.popen(["bash", "-c", lead + command], env=env, cwd=self.cwd)

    def recorded(self):
        """A session is there, and has begun to record."""
        done = self.who.iprobe("status", "--json", self.target.pid)
        return '"session"' in done.stdout and not re.search(r'"patched":0,"modules', done.stdout)

    def begin(self, command):
        """A session that goes on."""
        proc = self.start(command)
        memory.wait_for("no session", lambda: proc.poll() is not None or self.recorded(), 20, 0.05)
        if proc.poll() is not None:
            raise AssertionError(f"ended early: {actors.last_words(proc)!r}")
        return proc

    @staticmethod
    def interrupt(proc):
        """Ctrl-C, after which it ends with 0."""
        os.killpg(proc.pid, signal.SIGINT)
        done = actors.last_words(proc, 60)
        assert done.returncode == 0, repr(done)
        return done

    def run(self, command):
        """It ends by itself, or by Ctrl-C when it has recorded for a while; it exits with 0."""
        more = " --kernel" if re.search(KERNEL, command) else ""
        beside = [
            self.begin(new + more) for start, new in BESIDE.items() if command.startswith(start)
        ]
        if " --live" in command:
            return self.on_a_terminal(command)
        if "--on-key" in command:
            return self.at_a_key(command)
        if LIVE.match(command):
            proc = self.start(command)
            time.sleep(1.5)
            done = self.interrupt(proc)
        elif ENDLESS.match(command) and not (beside and "attach" in command):
            proc = self.begin(command)
            # a picture of top comes each second, and an interval of hist takes one
            time.sleep(1.2 if " top " in command else 1.6 if "--over-time" in command else 0.3)
            done = self.interrupt(proc)
        else:
            done = actors.last_words(self.start(command), 60)
            assert done.returncode == 0, repr(done)
        for proc in beside:
            self.interrupt(proc)
        return done


@pytest.fixture
def shell(me, builddir, programs, targets):
    folder = programs.folder("pages")
    server = folder / "server"
    if not server.exists():
        done = me.run(
            [
                builddir / "coldpatch" / "iprobe-cc",
                *("-O2", "-g", "-o", server),
                *(programs.source / name for name in ("server.c", "cache.c")),
            ]
        )
        assert done.returncode == 0, repr(done)
    cwd = me.dir()
    for name in ("server", "program", NAME):
        shutil.copy(server, cwd / name)
    (cwd / "input.txt").write_text("", encoding="utf-8")
    (cwd / "test.conf").write_text("turns 50\n", encoding="utf-8")
    (cwd / "endless.conf").write_text("turns 0\n", encoding="utf-8")
    path = me.dir()
    for program, folder in OURS.items():
        (path / program).symlink_to(builddir / folder / program)
    target = targets.start(me, [cwd / NAME, "--config", "endless.conf"], preload=False, cwd=cwd)
    shell = Shell(me, target, cwd, path)
    shell.run("iprobe attach $(pidof server) --args --retval --duration 1s")
    for name in ("before", "after", "yesterday", "today", "other"):
        shutil.copytree(cwd / "iprobe.data", cwd / f"{name}.data")
    return shell


def has_kernel_events(shell):
    """Whether this user may record them here."""
    return "kernel events can be recorded" in re.sub(r"\s+", " ", shell.run("iprobe doctor").stdout)


def all_work(shell, commands):
    """Each command works, in the order of the page; what came before it left a trace."""
    for command in map(without_what_is_not_there, commands):
        if not is_there(command) or command.endswith("&"):  # this comes with the one behind it
            continue
        if "--unit" in command:  # the server of this test is none
            continue
        if command.startswith("nc "):  # the log goes to the file at once
            continue
        if re.search(KERNEL, command) and not has_kernel_events(shell):
            continue
        done = shell.run(command)
        silent = ">" in command or re.match(
            r"iprobe (attach|follow|run|export|snapshot|split|trim|list --check"
            r"|syscalls .*--failed)",
            command,
        )
        assert done.stdout or silent, repr(done)


def test_each_answer_of_the_quick_reference(shell):
    commands = commands_of("iprobe-quickref.7")
    assert len(commands) > 30
    all_work(shell, commands)


@pytest.mark.parametrize("pages", PAGES, ids="-".join)
def test_examples_of_pages(shell, pages):
    for page in pages:
        commands = commands_of(f"iprobe-{page}.1", "EXAMPLES")
        assert len(commands) >= 2
        all_work(shell, commands)


def test_pages_of_all_commands_that_record_or_read_are_tried():
    pages = {path.name for path in MAN.glob("iprobe-*.1.rst")}
    compilers = {"iprobe-cc.1.rst", "iprobe-c++.1.rst"}
    tried = [page for pages in [*PAGES, ON_A_TERMINAL] for page in pages]
    assert pages - compilers == {f"iprobe-{page}.1.rst" for page in tried}

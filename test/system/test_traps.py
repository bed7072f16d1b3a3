# SPDX-License-Identifier: Apache-2.0
"""Traps of docs/traps.md that have no other test: many processes, terminals, protection of
memory, text relocations.
"""

import os
import pty
import subprocess

import pytest

from iptest import memory


def test_many_processes_at_once(me, programs, targets):
    """Each has a session of its own, all at the same time."""
    program = programs.simple("steady", placement="fentry")
    steady = [targets.steady(me, program, "-t", "1", "-n") for _ in range(6)]
    procs = [
        me.start_iprobe(
            "attach",
            t.pid,
            "-f",
            "step_1*",
            "--duration",
            "500ms",
            "--json",
            "-o",
            me.dir() / "trace",
        )
        for t in steady
    ]
    for target, proc in zip(steady, procs):
        out, err = proc.communicate(timeout=60)
        assert (
            proc.returncode == 0 and f'"pid":{target.pid},' in out and '"events":0,' not in out
        ), (out, err)
    for target in steady:
        target.wait_for_progress()
        memory.assert_untouched(target.pid)
        target.finish()


def protections(pid):
    """Of everything that a file is mapped for, the runtime's own memory apart."""
    return [
        (m.start, m.end, m.perms, m.path)
        for m in memory.mappings(pid)
        if m.path.startswith("/") and "memfd" not in m.path
    ]


def test_protection_of_memory_is_as_before(me, programs, targets):
    target = targets.steady(me, programs.simple("steady"), "-n")
    before = protections(target.pid)
    proc = me.start_iprobe("attach", target.pid, "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, proc)
    assert protections(target.pid) == before
    assert not [m for m in memory.mappings(target.pid) if "w" in m.perms and "x" in m.perms]
    proc.terminate()
    assert proc.wait(timeout=60) == 0
    assert protections(target.pid) == before
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    target.finish()


def test_text_relocations(me, programs, targets, builddir):
    """A program whose text the dynamic linker has changed: what it changed is neither a site nor
    anybody's damage.
    """
    folder = me.dir()
    source = folder / "relocated.c"
    source.write_text(
        "int answer = 42;\nint read_answer(void);\n"
        '__asm__(".text\\nhidden: movabs $answer, %rax\\nmov (%rax), %eax\\nret");\n'
        'int hidden(void) __asm__("hidden");\n'
        "__attribute__((noinline)) int read_answer(void) { return hidden(); }\n"
        "#include <stdio.h>\n#include <unistd.h>\n"
        'int main(void) { char c; puts("ready"); fflush(stdout); alarm(60);\n'
        "  do { if (read_answer() != 42) return 9; usleep(1000); } while (!answer || (c = 0, "
        "answer == 42 && !c && getppid() > 1));\n"
        "  return 0; }\n",
        encoding="utf-8",
    )
    built = subprocess.run(
        [
            builddir / "coldpatch" / "iprobe-cc",
            "-O2",
            "-fPIE",
            "-pie",
            "-Wl,-z,notext",
            "-o",
            folder / "relocated",
            source,
        ],
        env={**os.environ, "IPROBE_PLACEMENT": "fentry"},
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        pytest.skip(f"no text relocations here: {built.stderr}")
    (folder / "relocated").chmod(0o755)
    target = targets.start(me, [folder / "relocated"])
    changed = memory.text_differences(target.pid)
    assert changed, "the linker made no text relocation"
    done = me.iprobe("attach", target.pid, "--duration", "100ms", "--json", "-o", folder / "trace")
    assert done.returncode == 0, repr(done)
    assert done.summary()["events"] > 0 and done.summary()["foreign"] == 0, repr(done)
    assert memory.text_differences(target.pid) == changed
    assert target.alive()


def test_a_target_on_a_terminal(me, programs, builddir):
    """Its reads, its modes and its place in the foreground are as they were; what is typed
    meanwhile arrives.
    """
    program = programs.simple("steady")
    primary, secondary = pty.openpty()
    proc = me.popen(
        ["setsid", "-w", "-c", "env", f"LD_PRELOAD={me.runtime_path}", program, "-n"],
        stdin=secondary,
        stdout=secondary,
        stderr=subprocess.PIPE,
    )
    os.close(secondary)
    try:
        said = b""
        while b"ready" not in said:
            said += os.read(primary, 100)
        with open(f"/proc/{proc.pid}/task/{proc.pid}/children", encoding="ascii") as f:
            pid = int(f.read().split()[0])
        before = os.tcgetpgrp(primary)
        done = me.iprobe("attach", pid, "--duration", "300ms", "-q", "-o", me.dir() / "trace")
        assert done.returncode == 0, repr(done)
        assert os.tcgetpgrp(primary) == before and proc.poll() is None
        memory.assert_untouched(pid)
        os.write(primary, b"\x04")  # end of file, as typed
        assert proc.wait(timeout=30) == 0
    finally:
        os.close(primary)

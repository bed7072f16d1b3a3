# SPDX-License-Identifier: Apache-2.0
"""Bad input: one line on stderr, exit 1, and the target as if nobody had asked; a wrong command
line: exit 2.
"""

import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.actor import one_line

ELF_COMMANDS = ["list", "run", "coldpatch"]


def on_elf(actor, command, path):
    """One command on a file that is meant to be an ELF."""
    if command == "coldpatch":
        return actor.run([actor.builddir / "coldpatch" / "coldpatch", path])
    if command == "run":
        return actor.iprobe("run", "-o", actor.dir() / "trace", "--", path)
    return actor.iprobe("list", path)


def writable_copy(actor, program, name="prog"):
    path = actor.dir() / name
    shutil.copy(program, path)
    path.chmod(0o755)
    if actor.uid != os.getuid():
        os.chown(path, actor.uid, actor.uid)
    return path


@pytest.mark.parametrize("command", ELF_COMMANDS)
class TestBadElf:
    def check(self, actor, command, path, *words):
        before = path.read_bytes()
        line = one_line(on_elf(actor, command, path))
        if command != "run":  # what cannot be run may be refused by the kernel, with its own reason
            assert path.name in line, line
            for word in words:
                assert re.search(word, line, re.IGNORECASE), line
        assert path.read_bytes() == before
        assert os.listdir(path.parent) == [path.name]

    def test_not_an_elf(self, actor, command):
        path = actor.dir() / "text"
        path.write_text("#!/nonexistent/interpreter\n" * 20)
        path.chmod(0o755)
        self.check(actor, command, path, "not an ELF")

    def test_empty(self, actor, command):
        path = actor.dir() / "empty"
        path.write_bytes(b"")
        path.chmod(0o755)
        self.check(actor, command, path)

    @pytest.mark.parametrize("keep", [4, 63, 200, 0.1, 0.5, 0.9, -1])
    def test_truncated(self, me, command, programs, keep):
        data = programs.simple("finish").read_bytes()
        path = me.dir() / "cut"
        path.write_bytes(data[: keep if isinstance(keep, int) else int(len(data) * keep)])
        path.chmod(0o755)
        self.check(me, command, path)

    def test_of_another_machine(self, actor, command, programs):
        path = writable_copy(actor, programs.simple("finish"))
        data = bytearray(path.read_bytes())
        data[18:20] = struct.pack("<H", 183)  # EM_AARCH64
        path.write_bytes(data)
        self.check(actor, command, path, "183|aarch64|arm")

    def test_of_x32(self, me, command):
        if command == "run":
            pytest.skip("runs where the kernel has x32, as any command that is not prepared")
        self.check(me, command, build_32_bit(me, "--x32", "elf32_x86_64"), "x32")


@pytest.mark.parametrize("command", ["list", "run"])
def test_elf_without_probes(actor, command, programs):
    line = one_line(on_elf(actor, command, programs.simple("finish", prepared=False)))
    assert "prob" in line or "iprobe-cc" in line, line


def test_a_directory_or_device_is_no_elf(me):
    for path in (me.dir(), pathlib.Path("/dev/null"), pathlib.Path("/nonexistent")):
        for command in ("list", "coldpatch"):
            one_line(on_elf(me, command, path))


def section(path, name):
    """(file offset, size) of a section."""
    out = subprocess.run(
        ["readelf", "-SW", path], capture_output=True, text=True, check=True
    ).stdout
    match = re.search(rf" {re.escape(name)} +\w+ +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)", out)
    assert match, f"no {name} in {path}"
    return int(match.group(1), 16), int(match.group(2), 16)


CORRUPTIONS = {
    "magic": lambda b: b.__setitem__(slice(0, 8), b"garbage!"),
    "version": lambda b: b.__setitem__(slice(8, 12), struct.pack("<I", 999)),
    "function count": lambda b: b.__setitem__(slice(24, 28), b"\xff\xff\xff\x7f"),
    "probe count": lambda b: b.__setitem__(slice(28, 32), b"\xff\xff\xff\xff"),
    "probes offset": lambda b: b.__setitem__(slice(40, 48), b"\xf0\xff\xff\xff\xff\xff\xff\xff"),
    "strings size": lambda b: b.__setitem__(slice(56, 64), b"\xff" * 8),
    "zeroes": lambda b: b.__setitem__(slice(0, len(b)), bytes(len(b))),
    "noise": lambda b: b.__setitem__(
        slice(0, len(b)), bytes((i * 89 + 7) & 255 for i in range(len(b)))
    ),
    "build-id": lambda b: b.__setitem__(slice(68, 72), bytes(x ^ 255 for x in b[68:72])),
}


def corrupt_list(path, how):
    data = bytearray(path.read_bytes())
    offset, size = section(path, ".iprobe.probes")
    block = bytearray(data[offset : offset + size])
    CORRUPTIONS[how](block)
    data[offset : offset + size] = block
    path.write_bytes(data)


@pytest.mark.parametrize("how", CORRUPTIONS)
def test_corrupt_probe_list(actor, programs, targets, how):
    path = writable_copy(actor, programs.simple("finish"))
    corrupt_list(path, how)
    for command in ("list", "run"):
        assert path.name in one_line(on_elf(actor, command, path))
    target = targets.start(actor, [path, "idle"], wait=False)
    wait_until_idle(target.pid)
    refused = actor.iprobe("attach", target.pid, "--duration", "20ms", "-o", actor.dir() / "trace")
    assert path.name in one_line(refused)
    memory.assert_untouched(target.pid)
    target.finish()


def test_probe_list_of_other_sites(me, programs, targets):
    """A list that is sound in itself, but whose sites hold something else than their NOP:
    refused, with the address.
    """
    path = writable_copy(me, programs.simple("finish"))
    data = bytearray(path.read_bytes())
    start, size = section(path, ".iprobe.probes")
    (nprobes,) = struct.unpack_from("<I", data, start + 28)
    (probes,) = struct.unpack_from("<Q", data, start + 40)
    assert nprobes > 1 and probes < size
    (site,) = struct.unpack_from("<Q", data, start + probes)
    struct.pack_into("<Q", data, start + probes, site + 1)
    path.write_bytes(data)
    target = targets.start(me, [path, "idle"], wait=False)
    wait_until_idle(target.pid)
    line = one_line(me.iprobe("attach", target.pid, "--duration", "20ms", "-o", me.dir() / "trace"))
    assert re.search(r"0x[0-9a-f]+", line), line
    memory.assert_untouched(target.pid)
    target.finish()


def wait_until_idle(pid):
    """The program `finish idle` waits for its input: everything is loaded and initialised."""

    def idle():
        with open(f"/proc/{pid}/wchan", encoding="ascii") as f:
            return "pipe" in f.read()

    memory.wait_for("the target is not idle", idle)


PID_COMMANDS = [["attach", "--duration", "20ms"], ["detach"], ["status"], ["list"]]
pid_commands = pytest.mark.parametrize("command", PID_COMMANDS, ids=lambda c: c[0])


def on_pid(actor, command, pid, **kw):
    more = ["-o", actor.dir() / "trace"] if command[0] == "attach" else []
    return actor.iprobe(command[0], pid, *command[1:], *more, **kw)


def unused_pid():
    """A number that no process has, and that none will get in a moment."""
    proc = subprocess.Popen(["true"])
    proc.wait()
    return proc.pid


@pid_commands
def test_pid_that_does_not_exist(actor, command):
    for pid in (unused_pid(), 4194303, 2147483647):
        line = one_line(on_pid(actor, command, pid))
        assert str(pid) in line, line


@pid_commands
@pytest.mark.parametrize("pid", ["0", "-1", "12x", "99999999999999999999", "1 2", ""])
def test_pid_that_is_no_number(me, command, pid):
    done = on_pid(me, command, pid)
    assert done.returncode in (1, 2) and done.stderr.strip(), repr(done)
    assert "Traceback" not in done.stderr


def kernel_threads():
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and int((entry / "stat").read_text().rsplit(")", 1)[1].split()[6]) & 0x200000
            ):
                return int(entry.name)
        except OSError:
            continue
    return None


@pid_commands
def test_pid_of_a_kernel_thread(actor, command):
    pid = kernel_threads()
    if pid is None:
        pytest.skip("no kernel thread is seen from here")
    line = one_line(on_pid(actor, command, pid))
    assert str(pid) in line, line


@pid_commands
def test_pid_of_another_user(user, root, programs, targets, command):
    """Without the privilege: refused, the target untouched."""
    target = targets.steady(root, programs.simple("steady"))
    line = one_line(on_pid(user, command, target.pid))
    assert str(target.pid) in line, line
    memory.assert_untouched(target.pid)
    target.wait_for_progress()
    target.finish()


@pid_commands
def test_pid_of_init(user, command):
    one_line(on_pid(user, command, 1))


def test_process_that_is_not_prepared(actor, programs, targets):
    target = targets.steady(actor, programs.simple("steady", prepared=False))
    one_line(on_pid(actor, PID_COMMANDS[0], target.pid))
    memory.assert_untouched(target.pid)
    target.finish()


def test_process_that_is_a_zombie(actor, programs, targets):
    """It has ended, nobody has waited for it."""
    target = targets.steady(actor, programs.simple("steady"))
    target.proc.send_signal(signal.SIGKILL)
    memory.wait_for("no zombie", lambda: memory.status_field(target.pid, "State").startswith("Z"))
    for command in PID_COMMANDS:
        one_line(on_pid(actor, command, target.pid))


def test_empty_selection_names_the_nearest(actor, programs, targets):
    target = targets.steady(actor, programs.simple("steady"))
    where = actor.dir()
    done = actor.iprobe(
        "attach", target.pid, "-f", "by_duoble", "--duration", "20ms", "-o", where / "trace"
    )
    assert "by_double" in one_line(done)
    assert os.listdir(where) == []
    memory.assert_untouched(target.pid)
    target.finish()


@pytest.mark.parametrize("selection", ["", ",", "!", "file:", "@/nonexistent/selection", "a,,b"])
def test_selection_that_is_none(me, programs, selection):
    """Wrong items are told; an empty text means everything."""
    done = me.iprobe("list", "-f", selection, programs.simple("count"))
    if selection == "":
        assert done.returncode in (0, 1, 2)
    else:
        assert done.returncode in (1, 2), repr(done)
        assert done.stderr.strip(), repr(done)


class TestUnwritableOutput:
    def refused(self, actor, programs, targets, output):
        done = actor.iprobe("run", "-o", output, "--", programs.simple("finish"), "loop", 3)
        one_line(done)
        assert "done" not in done.stdout, "the command was started"
        target = targets.steady(actor, programs.simple("steady"))
        one_line(actor.iprobe("attach", target.pid, "--duration", "20ms", "-o", output))
        memory.assert_untouched(target.pid)
        target.wait_for_progress()
        target.finish()

    def test_no_such_folder(self, actor, programs, targets):
        self.refused(actor, programs, targets, actor.dir() / "missing" / "trace")

    def test_below_a_file(self, actor, programs, targets):
        self.refused(actor, programs, targets, f"{programs.simple('finish')}/trace")

    def test_where_nobody_writes(self, actor, programs, targets):
        self.refused(actor, programs, targets, "/proc/trace")

    def test_folder_of_another_user(self, user, root, programs, targets):
        self.refused(user, programs, targets, root.dir() / "trace")

    def test_full_disk(self, me, programs, targets, small_disk):
        with open(small_disk / "filler", "wb", buffering=0) as f:
            try:
                while f.write(bytes(4096)):
                    pass
            except OSError:
                pass
        self.refused(me, programs, targets, small_disk / "trace")
        assert os.listdir(small_disk) == ["filler"]


def test_disk_that_fills_up(me, programs, targets, small_disk):
    """A cap that the disk cannot hold: the recording ends, says why, and the target is well."""
    target = targets.steady(me, programs.simple("steady"))
    done = me.iprobe(
        "attach", target.pid, "--duration", "2s", "--max-size", "1G", "-o", small_disk / "trace"
    )
    assert done.returncode in (0, 1), repr(done)
    assert re.search("space|full|size", done.stderr, re.IGNORECASE), repr(done)
    memory.assert_untouched(target.pid)
    target.wait_for_progress()
    target.finish()


def test_command_goes_on_when_the_disk_fills_up(me, programs, small_disk):
    done = me.iprobe(
        "run",
        "--max-size",
        "1G",
        "-o",
        small_disk / "trace",
        "--",
        programs.simple("finish"),
        "loop",
        3000000,
    )
    assert done.stdout == "done\n", repr(done)
    assert re.search("space|full|size", done.stderr, re.IGNORECASE), repr(done)


def test_default_cap_leaves_room_on_a_small_disk(me, programs, small_disk):
    """A tenth of the free space."""
    done = me.iprobe(
        "run", "-o", small_disk / "trace", "--", programs.simple("finish"), "loop", 3000000
    )
    assert done.returncode == 0 and done.stdout == "done\n", repr(done)
    stat = os.statvfs(small_disk)
    assert stat.f_bavail * stat.f_frsize >= 1024 * 1024


def build_32_bit(actor, flag="--32", emulation="elf_i386"):
    """A program of 32 bits that waits for ever; made with binutils alone."""
    where = actor.dir()
    (where / "wait.s").write_text(".globl _start\n_start: mov $29, %eax\nint $0x80\njmp _start\n")
    for command in (
        ["as", flag, "wait.s", "-o", "wait.o"],
        ["ld", "-m", emulation, "wait.o", "-o", "wait"],
    ):
        done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"cannot build 32-bit programs: {done.stderr.strip()}")
    out = actor.dir() / "wait32"
    shutil.copy(where / "wait", out)
    return out


def test_process_of_32_bits(actor, targets):
    path = build_32_bit(actor)
    target = targets.start(actor, [path], preload=False, wait=False)
    memory.wait_for(
        "exec", lambda: os.path.basename(os.readlink(f"/proc/{target.pid}/exe")) == "wait32"
    )
    time.sleep(0.05)
    if not target.alive():
        pytest.skip("the kernel runs no 32-bit programs")
    line = one_line(on_pid(actor, PID_COMMANDS[0], target.pid))
    assert "runtime" in line, line  # of a machine that we know, but it has none
    assert target.alive()
    memory.assert_untouched(target.pid)


@pytest.mark.parametrize("tracer", ["strace", "gdb"])
def test_process_that_is_traced_already(actor, programs, targets, tracer):
    if not shutil.which(tracer):
        pytest.skip(f"no {tracer}")
    target = targets.steady(actor, programs.simple("steady"), "-t", "2")
    if tracer == "strace":
        proc = actor.popen(["strace", "-f", "-o", "/dev/null", "-p", target.pid])
    else:
        proc = actor.popen(
            [
                "gdb",
                "-q",
                "-nx",
                "-batch-silent",
                "-ex",
                "set pagination off",
                "-ex",
                "set confirm off",
                "-p",
                target.pid,
                "-ex",
                "continue",
            ]
        )
    tracer_pid = memory.wait_for(
        "no tracer", lambda: int(memory.status_field(target.pid, "TracerPid"))
    )
    assert tracer_pid == proc.pid
    memory.wait_for("not running", lambda: memory.status_field(target.pid, "State")[0] != "t")
    line = one_line(on_pid(actor, PID_COMMANDS[0], target.pid))
    assert str(target.pid) in line, line
    # gdb puts a breakpoint of its own into the dynamic loader, sooner or later
    assert [d for d in memory.text_differences(target.pid) if "/ld-" not in d[0]] == []
    assert memory.status_field(target.pid, "TracerPid") == str(tracer_pid)
    actors.end(proc)  # then the kernel lets the target go on
    os.kill(target.pid, signal.SIGCONT)  # but for a SIGSTOP by which gdb was just stopping threads
    memory.wait_for("still traced", lambda: memory.status_field(target.pid, "TracerPid") == "0")
    assert target.alive()
    target.wait_for_progress()


def test_an_undumpable_process(user):
    """One's own process may forbid it; the reason is not that it is somebody else's."""
    proc = user.popen(
        [
            sys.executable,
            "-c",
            "import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print(1, flush=True); "
            "time.sleep(60)",
        ]
    )
    assert proc.stdout.readline() == "1\n"
    assert "undumpable" in one_line(on_pid(user, PID_COMMANDS[0], proc.pid))
    actors.end(proc)


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["nonsense"],
        ["list"],
        ["attach"],
        ["detach"],
        ["run"],
        ["run", "--"],
        ["report", "a", "b", "c"],
        ["list", "--nonsense", "x"],
        ["attach", "1", "--duration", "soon"],
        ["attach", "1", "--duration"],
        ["attach", "1", "--duration", "0"],
        ["attach", "PID", "1", "--duration", "1s"],
        ["attach", "1", "--memory", "much"],
        ["run", "--max-size", "-5", "--", "true"],
        ["report", "--nonsense"],
        ["dump", "--json=yes", "x"],
    ],
    ids=lambda args: " ".join(args) or "nothing",
)
def test_wrong_usage(me, args):
    done = me.iprobe(*args)
    assert done.returncode == 2, repr(done)
    assert done.stderr.strip() and not done.stdout, repr(done)


@pytest.mark.parametrize(
    "args",
    [["--help"], ["--version"], ["run", "--help"], ["attach", "--help"], ["report", "--help"]],
    ids=" ".join,
)
def test_help_is_no_error(me, args):
    done = me.iprobe(*args)
    assert done.returncode == 0 and done.stdout.strip() and not done.stderr, repr(done)

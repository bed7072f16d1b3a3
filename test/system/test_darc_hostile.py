# SPDX-License-Identifier: Apache-2.0
"""
iprobe darc, and attach, of a process that works against it: what the process calls its functions,
how large its files say they are, files that it cuts off, programs that it executes, and sessions
that come after that of the search.
"""

import json
import os
import signal
import struct
import threading
import time

import pytest

from iptest import memory
from iptest.actor import last_words
from iptest.sections import sections
from test_darc import causes
from test_darc_live import is_as_on_disk, place  # noqa: F401

# The function NAME sleeps in each tenth call of serve(), and is its only callee; at SIGUSR1 the
# process executes another program.
SOURCE = """
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define FUNC __attribute__((noinline))

static volatile sig_atomic_t become;
__attribute__((no_instrument_function)) static void on_signal(int number)
{
	become = number;
}

FUNC void NAME(int slow)
{
	if (slow)
		nanosleep(&(struct timespec){.tv_nsec = 8000000}, NULL);
	__asm__ volatile("");
}

FUNC void serve(int i)
{
	NAME(i % 10 == 0);
	__asm__ volatile("");
}

int main(void)
{
	signal(SIGUSR1, on_signal);
	for (int i = 0; !become; i++) {
		serve(i);
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
	execl("/bin/sleep", "sleep", "1000", (char *)0);
	return 1;
}
"""


@pytest.fixture
def built(root):
    """Builds it with that name of the function; its path."""

    def build(name):
        folder = root.dir()
        (folder / "named.c").write_text(SOURCE.replace("NAME", name))
        done = root.run(
            [
                root.builddir / "coldpatch" / "iprobe-cc",
                *("-O2", "-fno-ipa-icf", folder / "named.c", "-o", folder / "named"),
            ]
        )
        assert done.returncode == 0, repr(done)
        return folder / "named"

    return build


@pytest.fixture
def started(root):
    processes = []

    def start(path):
        processes.append(root.popen(["nice", "-n", "-10", path]))
        memory.wait_for(
            "the program does not start",
            lambda: os.readlink(f"/proc/{processes[-1].pid}/exe") == str(path),
        )
        return processes[-1].pid

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_a_function_that_is_called_like_a_file(root, built, started, place):
    """As a selection its name would be that file: here it is a FIFO, which nobody writes to."""
    fifo = root.dir() / "fifo"
    os.mkfifo(fifo)
    name = f"@{fifo}"
    path = built("Q" * len(name))
    path.write_bytes(path.read_bytes().replace(b"Q" * len(name), name.encode()))
    pid = started(path)
    done = root.iprobe("darc", "-f", "serve", "--json", pid, env=place, timeout=60)
    assert done.returncode == 0, repr(done)
    paths = {tuple(cause["path"]) for cause in causes(json.loads(done.stdout))}
    assert paths == {("serve", name)}, paths
    assert is_as_on_disk(root, pid)


def with_a_hole(path, size, name=".symtab"):
    """Its symbol table says that it goes on for so many bytes, which are a hole in the file."""
    data = bytearray(path.read_bytes())
    (headers,) = struct.unpack_from("<Q", data, 40)
    (number, table) = next((i, s) for i, s in enumerate(sections(path)) if s.name == name)
    data += bytes(-len(data) % 16)
    struct.pack_into("<QQ", data, headers + 64 * number + 24, len(data), size // 24 * 24)
    data += data[table.offset : table.offset + table.size]
    changed = path.with_name("hole")
    changed.write_bytes(data)
    os.truncate(changed, len(data) + size)
    changed.chmod(0o755)
    return changed


def bytes_read(pid):
    with open(f"/proc/{pid}/io", encoding="utf-8") as f:
        return int(f.readline().split()[1])


def start_search(root, pid, place, *options):
    return root.start_iprobe("darc", "-f", "serve", "--json", *options, pid, env=place)


def until_it_reads(process):
    """It has come to the symbols."""
    memory.wait_for("it reads no symbols", lambda: bytes_read(process.pid) > 100 << 20, 60)


def test_a_symbol_table_that_is_a_hole(root, built, started, place):
    """Ctrl-C ends the reading of it."""
    pid = started(with_a_hole(built("look_up"), 64 << 30))
    process = start_search(root, pid, place)
    until_it_reads(process)
    process.send_signal(signal.SIGINT)
    done = last_words(process, 30)
    assert done.returncode == 0, repr(done)
    assert json.loads(done.stdout)["state"] == "in progress"
    assert is_as_on_disk(root, pid)


def test_a_session_that_came_after_it(root, built, started, place):
    """It is not changed by a search whose own session was ended."""
    pid = started(with_a_hole(built("look_up"), 2 << 30))
    process = start_search(root, pid, place)
    until_it_reads(process)
    process.send_signal(signal.SIGSTOP)
    done = root.iprobe("detach", pid)
    assert done.returncode == 0, repr(done)
    trace = root.dir() / "trace"
    other = root.start_iprobe("attach", "--json", "-f", "main", "--overwrite", "-o", trace, pid)
    memory.wait_for("it is not recorded", lambda: (trace / "iprobe" / "session").exists())
    process.send_signal(signal.SIGCONT)
    done = last_words(process, 120)
    assert done.returncode == 0, repr(done)
    assert json.loads(done.stdout)["state"] == "in progress"
    other.send_signal(signal.SIGINT)
    done = last_words(other)
    assert done.returncode == 0, repr(done)
    lines = (trace / "iprobe" / "session").read_text().splitlines()
    assert not [line for line in lines if "look_up" in line.split("\t")], lines


def test_a_program_that_is_executed(root, built, started, place):
    """The search ends with the program, and tells what is known."""
    pid = started(built("look_up"))
    process = start_search(root, pid, place, "--decision-ops", "1000000")
    while "level 1" not in process.stderr.readline():
        assert process.poll() is None
    os.kill(pid, signal.SIGUSR1)
    done = last_words(process)
    assert done.returncode == 0, repr(done)
    assert json.loads(done.stdout)["state"] == "in progress"
    assert is_as_on_disk(root, pid)


TAIL = """
#include <unistd.h>
int beyond(int x);
static volatile int never;
__attribute__((noinline)) int tail(int x)
{
	return beyond(x + 1);
}
int main(void)
{
	for (;;) {
		if (never)
			tail(1);
		usleep(1000);
	}
}
"""


def most_memory(pid):
    """In KiB, since it executed its program: what wait4(2) tells may be of the test that forked."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            return max(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    except (OSError, ValueError):  # it has ended
        return 0


def test_dynamic_symbols_that_are_a_hole(root, started):
    """Where a jump leads that is not bound yet is looked for by name, but not at any price."""
    folder = root.dir()
    (folder / "beyond.c").write_text(
        "__attribute__((noinline)) int beyond(int x) { return x * 3; }\n"
    )
    (folder / "tail.c").write_text(TAIL)
    compiler = root.builddir / "coldpatch" / "iprobe-cc"
    for words in (
        ("-O2", "-fPIC", "-shared", folder / "beyond.c", "-o", folder / "libbeyond.so"),
        ("-O2", "-Wl,-z,lazy", folder / "tail.c", folder / "libbeyond.so", "-o", folder / "tail"),
    ):
        done = root.run([compiler, *words])
        assert done.returncode == 0, repr(done)
    pid = started(with_a_hole(folder / "tail", 1 << 30, ".dynsym"))
    process = root.start_iprobe(
        "attach", "-q", "--duration", "100ms", "-o", root.dir() / "trace", pid
    )
    most = 0
    while process.poll() is None:
        most = max(most, most_memory(process.pid))
        time.sleep(0.005)
    assert process.returncode == 0, process.stderr.read()
    assert 0 < most < 256 << 10
    assert is_as_on_disk(root, pid)


# Debug information that takes a while to be read.
LIBRARY = "struct s { int a, b; };\n" + "".join(
    f"__attribute__((noinline)) int f{i}(int x, struct s *p) {{ return p ? p->a * x : {i}; }}\n"
    for i in range(1500)
)
USER = """
#include <unistd.h>
int f7(int x, void *p);
int main(void)
{
	for (;;) {
		f7(3, 0);
		usleep(1000);
	}
}
"""


def test_a_library_that_is_cut_off(root, started):
    """libdwfl maps it: what is read behind its end is a SIGBUS, which must not end the tracer."""
    folder = root.dir()
    (folder / "library.c").write_text(LIBRARY)
    (folder / "user.c").write_text(USER)
    library = folder / "libcut.so"
    compiler = root.builddir / "coldpatch" / "iprobe-cc"
    for words in (
        ("-g", "-O1", "-fPIC", "-shared", folder / "library.c", "-o", library),
        ("-O1", folder / "user.c", library, "-o", folder / "user"),
    ):
        done = root.run([compiler, *words], timeout=120)
        assert done.returncode == 0, repr(done)
    pid = started(folder / "user")
    whole, ended = library.read_bytes(), threading.Event()
    # what the process itself needs is left
    (debug,) = [s.offset for s in sections(library) if s.name == ".debug_info"]

    def cut_off():
        with open(library, "r+b", buffering=0) as file:
            while not ended.is_set():
                os.ftruncate(file.fileno(), debug)
                time.sleep(0.0005)
                os.pwrite(file.fileno(), whole[debug:], debug)
                time.sleep(0.0005)

    thread = threading.Thread(target=cut_off)
    thread.start()
    try:
        for _ in range(30):
            done = root.iprobe(
                *("attach", "-q", "-f", "f7", "--args=f7(x)", "--duration", "20ms"),
                *("-o", root.dir() / "trace", pid),
            )
            assert done.returncode in (0, 1), repr(done)
    finally:
        ended.set()
        thread.join()
        with open(library, "r+b") as file:
            file.write(whole)
    assert is_as_on_disk(root, pid)

# SPDX-License-Identifier: Apache-2.0
"""
The executable bytes of a live process against the files they came from, without any help of the
tools under test.
"""

import collections
import errno
import functools
import os
import re
import signal
import sys
import time

from . import time_scale

# A line of /proc/PID/maps: addresses, permissions, offset, device, inode, path.
EXECUTABLE = re.compile(r"^(\w+)-(\w+) ..x. (\w+) \S+ \d+ *(.*)$", re.M)


class Mapping:
    def __init__(self, line):
        fields = line.rstrip("\n").split(None, 5)
        low, high = fields[0].split("-")
        self.start, self.end = int(low, 16), int(high, 16)
        self.perms, self.offset, self.inode = fields[1], int(fields[2], 16), int(fields[4])
        self.path = fields[5] if len(fields) > 5 else ""


def mappings(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as f:
        return [Mapping(line) for line in f]


def read_memory(pid, address, size):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as f:
        return os.pread(f.fileno(), size, address)


def write_memory(pid, address, data):
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as f:
        assert os.pwrite(f.fileno(), data, address) == len(data)


def executable(pid):
    """[(start, end, offset, path)] of what can be executed in the process."""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as f:
        return [
            (int(low, 16), int(high, 16), int(offset, 16), path)
            for low, high, offset, path in EXECUTABLE.findall(f.read())
        ]


@functools.lru_cache(maxsize=32)
def file_bytes(path, _version, offset, size):
    """A part of a file as it is mapped: behind its end there are zeros."""
    with open(path, "rb") as f:
        f.seek(offset)
        return f.read(size).ljust(size, b"\0")


def mapped_bytes(path, offset, size):
    """As file_bytes(), which is asked once for each version of the file: the same few libraries
    are compared thousands of times.
    """
    st = os.stat(path)
    version = st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns
    return file_bytes(path, version, offset, size)


def text_differences(pid, instead=None):
    """
    [(path, file offset, bytes in memory, bytes in the file)], one for each run of differing bytes
    in a file's executable mapping. `instead` maps a path to another file with the bytes that were
    mapped (where the path was replaced).

    A process that executes another program meanwhile is looked at again.
    """
    for _ in range(20):
        before = executable(pid)
        found = differences(pid, before, instead)
        if found is not None and before == executable(pid):
            break
    assert found is not None, f"the memory of {pid} cannot be read whole"
    return found


def differences(pid, mapped, instead):
    """text_differences() at one look; None: the memory was not there."""
    found = []
    for start, end, offset, mapped_path in mapped:
        if not mapped_path.startswith("/") or mapped_path.startswith("/memfd:"):
            continue
        path = (instead or {}).get(mapped_path, mapped_path)
        if not os.path.exists(path):
            path = f"/proc/{pid}/root{path}"  # in a mount namespace of its own
        want = mapped_bytes(path, offset, end - start)
        try:
            have = read_memory(pid, start, end - start)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return None  # no longer mapped
        if len(have) != len(want):
            return None
        if have == want:
            continue
        i = 0
        while i < len(want):
            if have[i : i + 4096] == want[i : i + 4096]:
                i += 4096
                continue
            if have[i] != want[i]:
                j = i
                while j < len(want) and have[j] != want[j]:
                    j += 1
                found.append((mapped_path, offset + i, have[i:j], want[i:j]))
                i = j
            else:
                i += 1
    return found


def wait_for(what, condition, timeout=20, step=0.005):
    """Polls until condition() is true; its value."""
    timeout = time_scale.scaled(timeout)
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {timeout} s"
        time.sleep(step)


def live_text(pid):
    """text_differences() but for what an injection puts behind the code for a moment, where the
    file has zeros; and for a copy of text that has not taken the place of the text yet.
    """
    mapped = executable(pid)
    found = [difference for difference in text_differences(pid) if any(difference[3])]
    changed = collections.Counter((path, offset) for path, offset, *_ in found)

    def is_everywhere(path, offset):
        places = sum(
            of == path and 0 <= offset - begin < high - low for low, high, begin, of in mapped
        )
        return changed[path, offset] >= places

    return [difference for difference in found if is_everywhere(*difference[:2])]


def wait_until_live(pid, proc=None, timeout=20):
    """Until some site in the process is live. proc: the iprobe that does it, which must not end
    before.
    """

    def live():
        assert proc is None or proc.poll() is None, f"ended early: {proc.communicate()}"
        return live_text(pid)

    return wait_for(f"no site of {pid} went live", live, timeout)


def status_field(pid, key, tid=None):
    path = f"/proc/{pid}/status" if tid is None else f"/proc/{pid}/task/{tid}/status"
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            name, _, value = line.partition(":")
            if name == key:
                return value.strip()
    raise KeyError(key)


def is_traced(pid):
    return any(
        status_field(pid, "TracerPid", tid) != "0" for tid in os.listdir(f"/proc/{pid}/task")
    )


def assert_untouched(pid, instead=None):
    """Nothing of ours is left in a live process: text, tracer, stops, scheduling."""
    assert text_differences(pid, instead) == []
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            assert status_field(pid, "TracerPid", tid) == "0"
            assert status_field(pid, "State", tid)[0] in "RSD", status_field(pid, "State", tid)
            assert os.sched_getscheduler(int(tid)) == os.SCHED_OTHER
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that ended meanwhile


def segment_bias(pid, path):
    """Load address minus link-time address of a PIE or shared object whose first segment is
    mapped at offset 0.
    """
    real = os.path.realpath(path)
    for m in mappings(pid):
        if m.offset == 0 and os.path.realpath(m.path) == real:
            return m.start
    raise AssertionError(f"{path} is not mapped in {pid}")


def freeze(pid):
    """SIGSTOP, until every thread has stopped."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(
        "a thread does not stop",
        lambda: all(
            status_field(pid, "State", tid)[0] in "TZX" for tid in os.listdir(f"/proc/{pid}/task")
        ),
    )


def thaw(pid):
    os.kill(pid, signal.SIGCONT)


def ring_memory(pid):
    """An open file of the memory that the runtime of a process shares with iprobe. A privileged
    process has no descriptor of it.
    """
    ring = next(
        m for m in mappings(pid) if "memfd:iprobe" in m.path
    )  # the others are parts of the same file
    names = (
        [f"/proc/{pid}/map_files/{ring.start:x}-{ring.end:x}"]
        if os.geteuid() == 0
        else [
            f"/proc/{pid}/fd/{fd}"
            for fd in os.listdir(f"/proc/{pid}/fd")
            if "memfd:iprobe" in os.readlink(f"/proc/{pid}/fd/{fd}")
        ]
    )
    return open(names[0], "r+b")


# A process counts what the one that started it took before: a small one starts it.
PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def peak_of(actor, command):
    """Runs it, and returns what it has printed, and how many kilobytes it held at most."""
    done = actor.run([sys.executable, "-c", PEAK, *command])
    assert done.returncode == 0, repr(done)
    return done.stdout, int(done.stderr.splitlines()[-1])

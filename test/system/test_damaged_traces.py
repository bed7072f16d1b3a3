# SPDX-License-Identifier: Apache-2.0
"""A trace directory is input from outside: whatever it holds, a reader shows what can be shown
or says in one line why not.
"""

import json
import os
import random
import shutil

import pytest

from iptest.actor import one_line

READERS = ["info", "report", "dump"]
QUICK_FLIPS, ALL_FLIPS = 10, 80


@pytest.fixture(scope="module")
def good_trace(top, builddir, programs):
    """A small trace of two threads; tests work on copies."""
    from conftest import make_actor

    who = make_actor("root" if os.getuid() == 0 else "user", top, builddir)
    directory = who.dir() / "trace"
    done = who.iprobe(
        "run", "-o", directory, "--", programs.simple("count"), "-t", "2", "-n", "5000"
    )
    assert done.returncode == 0, repr(done)
    yield directory
    who.cleanup()


@pytest.fixture
def trace(me, good_trace):
    copy = me.dir() / "trace"
    shutil.copytree(good_trace, copy)
    return copy


def streams(trace):
    found = sorted(p for p in trace.iterdir() if p.name.startswith("stream"))
    assert found
    return found


def refused(me, trace):
    for reader in READERS:
        one_line(me.iprobe(reader, trace))


def survives(me, trace, what):
    """No crash, no hang: done, or one line."""
    for reader in READERS:
        for options in ([], ["--json"]):
            done = me.iprobe(reader, *options, trace, timeout=20)
            assert done.returncode in (0, 1), f"{what}: {done!r}"
            if done.returncode == 1:
                one_line(done)


def test_nothing_there(me):
    refused(me, me.dir() / "missing")


def test_empty_directory(me):
    refused(me, me.dir())


def test_a_file(me):
    path = me.dir() / "file"
    path.write_text("no trace\n")
    refused(me, path)


def test_no_session_file(me, trace):
    os.unlink(trace / "iprobe" / "session")
    refused(me, trace)


@pytest.mark.parametrize(
    "text",
    ["", "\n", "nonsense\n", "iprobe-session\t999\n", "\0" * 4096, "iprobe-session\t1\n"],
    ids=["empty", "blank", "nonsense", "version", "zeroes", "header only"],
)
def test_wrong_session_file(me, trace, text):
    (trace / "iprobe" / "session").write_text(text)
    refused(me, trace)


def test_wrong_packet_magic(me, trace):
    path = streams(trace)[0]
    data = bytearray(path.read_bytes())
    data[0:4] = b"\0\0\0\0"
    path.write_bytes(data)
    for reader in ("report", "dump"):
        assert path.name in one_line(me.iprobe(reader, trace))


def test_packet_size_beyond_the_file(me, trace):
    path = streams(trace)[0]
    data = bytearray(path.read_bytes())
    data[40:56] = (2**62).to_bytes(8, "little") * 2
    path.write_bytes(data)
    for reader in ("report", "dump"):
        assert path.name in one_line(me.iprobe(reader, trace))


def test_packet_of_no_size(me, trace):
    """A reader that believes it goes round for ever."""
    path = streams(trace)[0]
    data = bytearray(path.read_bytes())
    data[40:56] = bytes(16)
    path.write_bytes(data)
    survives(me, trace, "no size")


@pytest.mark.parametrize("keep", [0, 1, 79, 80, 81, 0.5, -1, -8])
def test_truncated_stream(me, trace, keep):
    path = streams(trace)[0]
    data = path.read_bytes()
    path.write_bytes(data[: keep if isinstance(keep, int) else int(len(data) * keep)])
    survives(me, trace, f"kept {keep}")


@pytest.mark.parametrize("count", [QUICK_FLIPS, pytest.param(ALL_FLIPS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("which", ["stream", "session"])
def test_random_damage(me, good_trace, which, count):
    rng = random.Random(6)
    for n in range(count):
        trace = me.dir() / "trace"
        shutil.copytree(good_trace, trace)
        path = rng.choice(streams(trace)) if which == "stream" else trace / "iprobe" / "session"
        data = bytearray(path.read_bytes())
        # Half of the damage hits the beginning, where the headers are.
        for _ in range(rng.choice([1, 3, 30])):
            limit = len(data) if rng.random() < 0.5 else min(len(data), 200)
            at = rng.randrange(limit)
            data[at] = rng.choice(
                [0, 255, 127, data[at] ^ (1 << rng.randrange(8)), rng.randrange(256)]
            )
        path.write_bytes(data)
        survives(me, trace, f"damage {n} to {path.name}")
        shutil.rmtree(trace)


def test_names_cannot_command_the_terminal(me, trace):
    """Control characters in names of a trace from elsewhere do not reach a terminal."""
    session = trace / "iprobe" / "session"
    text = session.read_bytes().replace(b"chain_outer", b"chain\x1b]0;owned\x07_outer")
    session.write_bytes(text)
    for reader in READERS:
        done = me.iprobe(reader, trace)
        assert "\x1b" not in done.stdout + done.stderr and "\x07" not in done.stdout + done.stderr


def test_the_good_trace_is_good(me, trace):
    """What all of the above starts from."""
    events = {}
    for reader in READERS:
        done = me.iprobe(reader, "--json", trace)
        assert done.returncode == 0 and not done.stderr, repr(done)
        events[reader] = done.stdout
    assert json.loads(events["report"])["events"] == len(events["dump"].splitlines())

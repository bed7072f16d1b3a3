# SPDX-License-Identifier: Apache-2.0
"""--compress: the same events in fewer bytes, for every reader; an uncompressed copy for readers
of other people; damage.
"""

import json
import random
import shutil

import pytest

from iptest import ctf
from iptest.actor import one_line

THREADS, CALLS = 3, 60000


def record(who, programs, *options):
    directory = who.dir() / "trace"
    done = who.iprobe(
        "run",
        "--json",
        "--compress",
        *options,
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-t",
        THREADS,
        "-n",
        CALLS,
    )
    assert done.returncode == 0, repr(done)
    return directory, json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def good(top, builddir, programs):
    """A compressed trace and its summary; tests work on copies."""
    from conftest import make_actor
    import os

    who = make_actor("root" if os.getuid() == 0 else "user", top, builddir)
    yield record(who, programs)
    who.cleanup()


@pytest.fixture
def trace(me, good):
    copy = me.dir() / "trace"
    shutil.copytree(good[0], copy)
    return copy


def streams(trace):
    found = sorted(trace.glob("stream-*"))
    assert found and all(path.suffix == ".zst" for path in found)
    return found


def report(me, trace):
    done = me.iprobe("report", "--json", trace)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout), done.stderr


def test_every_reader(actor, programs):
    directory, summary = record(actor, programs)
    assert summary["lost"] == 0
    size = sum(path.stat().st_size for path in streams(directory))
    assert size == summary["bytes"]
    found, _ = report(actor, directory)
    assert found["events"] == summary["events"]
    assert sum(f["calls"] for f in found["functions"]) * 2 == summary["events"]
    done = actor.iprobe("dump", "--json", directory)
    assert done.returncode == 0 and done.stdout.count("\n") == summary["events"], repr(done)[:2000]
    done = actor.iprobe("info", "--json", directory)
    info = json.loads(done.stdout)
    assert (
        info["compressed"] == "zstd"
        and info["uncompressed_packets"] == summary["uncompressed_packets"]
    )
    assert "zstd" in actor.iprobe("info", directory).stdout
    if not summary["uncompressed_packets"]:
        assert size <= 3 * summary["events"]
    # the copy for others
    plain = actor.dir() / "plain"
    done = actor.iprobe("trim", "-o", plain, directory)
    assert done.returncode == 0, repr(done)
    assert json.loads(actor.iprobe("info", "--json", plain).stdout).get("compressed") is None
    seen, _ = ctf.read_events(plain)
    assert sum(seen.values()) == summary["events"]
    assert report(actor, plain)[0]["functions"] == found["functions"]


def test_split(me, trace, good):
    parts = me.dir() / "part"
    done = me.iprobe("split", "--size", "1M", "-o", parts, trace)
    assert done.returncode == 0, repr(done)
    made = sorted(parts.parent.glob("part*"))
    assert sum(report(me, part)[0]["events"] for part in made) == good[1]["events"]


def test_max_size(me, programs):
    directory, summary = record(me, programs, "--max-size", "40K")
    assert summary["end"] == "size limit reached" and summary["lost"] > 0
    assert sum(path.stat().st_size for path in streams(directory)) == summary["bytes"] <= 40 << 10
    found, _ = report(me, directory)
    assert found["events"] == summary["events"]


def test_overwrite(me, programs):
    """What the rings hold at the end is compressed, too."""
    directory, summary = record(me, programs, "--overwrite", "--memory", "1M")
    assert streams(directory) and summary["overwritten"] > 0
    found, _ = report(me, directory)
    assert found["events"] == summary["events"]


def middle(data):
    """A place within a packet in the middle of a stream. Half of the bytes may be where one ends, and
    such a stream has nothing that is cut off.
    """
    begin = data.index(data[:4], len(data) // 2)
    return (begin + data.index(data[:4], begin + 4)) // 2


@pytest.mark.parametrize("keep", [0, 3, 4, 95, 96, 97, "middle", -1])
def test_cut_off(me, trace, good, keep):
    path = streams(trace)[0]
    data = path.read_bytes()
    path.write_bytes(data[: middle(data) if keep == "middle" else keep])
    found, said = report(me, trace)
    # the last packet tells of the thread's end only
    assert (
        found["events"] < good[1]["events"] if keep != -1 else found["events"] == good[1]["events"]
    )
    if keep:
        assert "cut off" in said and path.name in said


def test_damaged_words(me, trace, good):
    """One packet is lost, those behind it are not."""
    path = streams(trace)[0]
    data = bytearray(path.read_bytes())
    data[200] ^= 0x40
    path.write_bytes(data)
    found, said = report(me, trace)
    assert good[1]["events"] - 4095 <= found["events"] < good[1]["events"]
    assert "damaged" in said and path.name in said and "byte 0 " in said, said
    assert found["damaged"]


def test_calls_around_damage_are_suspect(me, trace, good):
    """What seems to reach over the packet that is lost may be two calls."""
    assert report(me, trace)[0]["suspect"] == 0
    path = streams(trace)[-1]
    data = bytearray(path.read_bytes())
    second = data.index(data[:4], 4)
    data[second + 200] ^= 0x40
    path.write_bytes(data)
    found, said = report(me, trace)
    assert f"byte {second} " in said, said
    assert found["suspect"] > 0 and found["lost"] == 0


@pytest.mark.parametrize(
    "offset,bytes_",
    [
        (4, b"\xff\xff\xff\x7f"),
        (88, b"\x07"),
        (92, b"\xff\xff\xff\xff"),
        (48, bytes([255] * 16)),
        (0, b"\x5f"),
    ],
    ids=["skip", "form", "bytes", "content", "magic"],
)
def test_damaged_head(me, trace, offset, bytes_):
    path = streams(trace)[0]
    data = bytearray(path.read_bytes())
    data[offset : offset + len(bytes_)] = bytes_
    path.write_bytes(data)
    assert path.name in one_line(me.iprobe("report", trace))


def test_any_damage(me, trace):
    path = streams(trace)[-1]
    good_bytes = path.read_bytes()
    rng = random.Random(5)
    for i in range(12):
        data = bytearray(good_bytes)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        for reader in ("report", "dump"):
            done = me.iprobe(reader, trace, timeout=60)
            assert done.returncode in (0, 1), f"{i}: {done!r}"


def test_usage(me):
    done = me.iprobe("attach", "--resume", "--compress", "1")
    assert done.returncode == 2 and "--compress" in done.stderr

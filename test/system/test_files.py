# SPDX-License-Identifier: Apache-2.0
"""
Files and directories: nothing of another's is followed, moved or removed, whoever changes names
meanwhile; and nobody else can read what is written.
"""

import os
import pathlib
import stat
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest import actor as actors, memory  # noqa: E402
from iptest.actor import one_line  # noqa: E402

# Exchanges two names in the current directory for as long as its standard input is open.
SWAP = """
import ctypes, select, sys
libc, a, b, nap = ctypes.CDLL(None), sys.argv[1].encode(), sys.argv[2].encode(), float(sys.argv[3])
n = 0
print("ready", flush=True)
while not select.select([sys.stdin], [], [], nap)[0]:
    n += libc.renameat2(-100, a, -100, b, 2) == 0
print(n)
"""


def tree(path):
    """What is there, contents included."""
    found = {}
    for p in sorted(pathlib.Path(path).rglob("*")):
        st = p.lstat()
        found[str(p.relative_to(path))] = (
            oct(st.st_mode),
            st.st_uid,
            p.read_bytes() if stat.S_ISREG(st.st_mode) else None,
        )
    return found


def victim_at(path):
    """A directory of ours that looks like a trace, and has the names of its files."""
    tracegen.random_trace(1).write(path)
    (path / "precious").write_text("not to be lost")
    for name in [
        *(f"stream-{i}" for i in range(8)),
        "metadata",
        *(f"iprobe/{n}" for n in ("journal", "stamps", "counts")),
    ]:
        (path / name).write_text("precious as well")
    return path


@pytest.fixture
def other(top, builddir):
    """A user who owns the directory in which root works."""
    if os.getuid():
        pytest.skip("not root")
    who = actors.Actor("other", actors.OTHER_UID, top, builddir)
    yield who
    who.cleanup()


def record(me, directory, programs, *options, **kw):
    return me.iprobe(
        "run", *options, "-o", directory, "--", programs.simple("count"), "-t", 1, "-n", 100, **kw
    )


@pytest.mark.parametrize("name", ["trace", "trace.old"])
@pytest.mark.parametrize("slowly", [False, True], ids=["fast", "delayed"])
def test_exchanged_while_it_is_replaced(root, other, programs, name, slowly):
    """Another user's directory: he exchanges a trace and a link to a directory of ours, all the
    time, and while calls wait.
    """
    folder = other.dir()
    victim = victim_at(root.dir() / "victim")
    before = tree(victim)
    for _ in range(2):
        assert record(root, folder / "trace", programs).returncode == 0
    (folder / "link").symlink_to(victim)
    swapper = other.popen(
        ["/usr/bin/python3", "-c", SWAP, name, "link", "0.02" if slowly else "0"], cwd=folder
    )
    assert swapper.stdout.readline() == "ready\n"
    calls = "unlink,unlinkat,rmdir,rename,renameat,renameat2,mkdir,mkdirat"
    slow = (
        ["strace", "-qq", "-o", "/dev/null", "-e", f"inject={calls}:delay_enter=15000"]
        if slowly
        else []
    )
    codes = []
    for _ in range(4 if slowly else 25):
        done = root.run(
            [
                *slow,
                root.iprobe_path,
                "run",
                "-o",
                folder / "trace",
                "--",
                programs.simple("count"),
                "-t",
                1,
                "-n",
                100,
            ]
        )
        codes.append(done.returncode)
        assert done.returncode in (0, 1), repr(done)
    out, _ = swapper.communicate("\n", timeout=20)
    assert tree(victim) == before, codes
    assert int(out) > 2
    assert 1 in codes or 0 in codes


def test_what_is_another_users_is_refused(root, other, programs):
    """He has laid out what would be replaced: whole traces of his, a link, a file."""
    for what in ("trace", "trace.old"):
        folder = other.dir()
        for name in {"trace.old": ["trace", "trace.old"], "trace": ["trace"]}[what]:
            assert record(root if name != what else other, folder / name, programs).returncode == 0
        before = tree(folder)
        line = one_line(record(root, folder / "trace", programs))
        assert "another user's" in line and what in line, line
        assert tree(folder) == before
    folder = other.dir()
    victim = victim_at(root.dir() / "victim")
    before = tree(victim)
    (folder / "trace").symlink_to(victim)
    assert "is not a trace" in one_line(record(root, folder / "trace", programs))
    assert tree(victim) == before


def test_only_a_traces_files_are_removed(me, programs):
    folder = me.dir()
    directory = folder / "trace"
    for _ in range(2):
        assert record(me, directory, programs).returncode == 0
    for extra in ("notes.txt", "iprobe/mine", "stream-0/inner", "stream-x"):
        path = folder / "trace.old" / extra
        kept = None
        if "/" in extra and not extra.startswith("iprobe"):
            kept = folder / "kept"
            path.parent.rename(kept)
            path.parent.mkdir()
        path.write_text("mine")
        before = tree(folder)
        line = one_line(record(me, directory, programs))
        assert "move it away" in line, line
        assert tree(folder) == before, extra
        path.unlink()
        if kept:
            path.parent.rmdir()
            kept.rename(path.parent)
    (folder / "trace.old" / "stream-7").symlink_to("/etc/passwd")
    assert "no plain file" in one_line(record(me, directory, programs))
    (folder / "trace.old" / "stream-7").unlink()
    assert record(me, directory, programs).returncode == 0


def test_in_a_directory_where_everybody_may_rename(root, other, programs):
    """Writable by all, not sticky: he exchanges what is being written, too."""
    folder = root.dir()
    folder.chmod(0o777)
    victim = victim_at(root.dir() / "victim")
    before = tree(victim)
    (folder / "link").symlink_to(victim)
    trace = tracegen.random_trace(1).write(root.dir() / "trace")
    for name in ("trace", "part"):
        swapper = other.popen(["/usr/bin/python3", "-c", SWAP, name, "link", "0"], cwd=folder)
        assert swapper.stdout.readline() == "ready\n"
        for _ in range(8):
            assert record(root, folder / "trace", programs).returncode in (0, 1)
            assert root.iprobe("trim", "-o", folder / "part", trace).returncode in (0, 1)
            assert root.iprobe(
                "split", "--by", "thread", "-o", folder / "part", trace
            ).returncode in (0, 1)
        assert int(swapper.communicate("\n", timeout=20)[0]) > 0
        assert tree(victim) == before


@pytest.mark.parametrize("command", ["trim", "split", "export", "fperf"])
def test_outputs_follow_no_link_of_anothers(root, other, programs, command):
    folder = other.dir()
    victim = root.dir() / "victim"
    victim.write_text("precious")
    trace = tracegen.random_trace(1).write(root.dir() / "trace")
    os.symlink(victim, folder / "out")
    os.symlink(victim, folder / "out.1")
    for path in (folder / "out", folder / "out.1"):
        os.lchown(path, other.uid, other.uid)
    words = {
        "trim": ["trim", "-o", folder / "out", trace],
        "split": ["split", "--every", "1ms", "-o", folder / "out", trace],
        "export": ["export", "--format", "folded", "-o", folder / "out", trace],
    }
    if command == "fperf":
        done = root.run(
            [
                root.builddir / "cli" / "fperf",
                "-o",
                folder / "out",
                "--",
                programs.simple("count"),
                "-t",
                1,
                "-n",
                10,
            ]
        )
    else:
        done = root.iprobe(*words[command])
    one_line(done)
    assert victim.read_text() == "precious"
    assert sorted(p.name for p in folder.iterdir()) == ["out", "out.1"]
    # a file of his is not written either: he reads what he has
    (folder / "out").unlink()
    (folder / "out").write_text("his")
    os.chown(folder / "out", other.uid, other.uid)
    if command == "fperf":
        one_line(
            root.run(
                [
                    root.builddir / "cli" / "fperf",
                    "-o",
                    folder / "out",
                    "--",
                    programs.simple("count"),
                    "-t",
                    1,
                    "-n",
                    10,
                ]
            )
        )
        assert (folder / "out").read_text() == "his"


def test_a_fifo_in_the_place_of_a_traces_file(me):
    """Nobody waits for who might write to it, and no device is opened: what is no plain file is
    refused before it is opened.
    """
    trace = tracegen.random_trace(1).write(me.dir() / "trace")
    names = {str(p.relative_to(trace)) for p in trace.rglob("*") if p.is_file()}
    names |= {f"iprobe/{name}" for name in ("counts", "stamps", "journal", "pieces")}
    for name in sorted(names):
        kept = (trace / name).read_bytes() if (trace / name).exists() else None
        (trace / name).unlink(missing_ok=True)
        os.mkfifo(trace / name)
        for command in (
            ["report"],
            ["hist"],
            ["info"],
            ["dump"],
            ["graph"],
            ["trim", "-o", me.dir() / "part"],
        ):
            done = me.iprobe(*command, trace, timeout=20)
            assert done.returncode in (0, 1), repr(done)
            if kept is not None or (name == "iprobe/counts" and command[0] in ("report", "hist")):
                assert "not a regular file" in done.stderr or done.returncode == 0, repr(done)
        (trace / name).unlink()
        if kept is not None:
            (trace / name).write_bytes(kept)


def test_what_was_made_for_nothing(root, other):
    """fperf removes an output that it has made, and no other file that has its name by then."""
    folder, victim = other.dir(), root.dir()
    for made in (folder / "d", folder / "e"):
        made.mkdir()
        os.chown(made, other.uid, other.uid)
    (victim / "out").write_text("precious")
    fperf = root.builddir / "cli" / "fperf"
    swap = f"mv '{folder}/d' '{folder}/away' && ln -s '{victim}' '{folder}/d'"
    one_line(root.run([fperf, "-o", folder / "d" / "out", "--", "sh", "-c", swap]))
    assert (folder / "d").is_symlink() and (victim / "out").read_text() == "precious"
    one_line(root.run([fperf, "-o", folder / "e" / "out", "--", "sh", "-c", "true"]))
    assert not list((folder / "e").iterdir())


def exposed(path):
    """What others than the owner may do something with."""
    return [
        (str(p), oct(p.lstat().st_mode))
        for p in [path, *path.rglob("*")]
        if not p.is_symlink() and p.lstat().st_mode & 0o077
    ]


@pytest.mark.parametrize("umask", [0, 0o022], ids=["000", "022"])
def test_nobody_else_can_read(me, programs, umask):
    """Each command that writes, whatever the umask."""
    folder = me.dir()
    made = []

    def run(*args):
        done = me.run(args, umask=umask)
        assert done.returncode == 0, repr(done)
        return done

    count = [programs.simple("count"), "-t", 2, "-n", 2000]
    for i, options in enumerate(
        [
            [],
            [],
            [],
            ["--compress"],
            ["--rotate", 3, "--max-size", "1M"],
            ["--time", "coarse"],
            ["--overwrite"],
            ["--payload", "hist"],
            ["--args"],
        ]
    ):
        directory = folder / ("trace" if i < 3 else f"trace{i}")
        fentry = {"placement": "fentry", "extra": ("-g",)} if options == ["--args"] else {}
        run(
            me.iprobe_path,
            "run",
            *options,
            "-o",
            directory,
            "--",
            programs.simple("count", **fentry),
            *count[1:],
        )
        made.append(directory)
    made.append(folder / "trace.old")
    run(me.iprobe_path, "trim", "-o", folder / "trimmed", folder / "trace")
    run(me.iprobe_path, "split", "--by", "thread", "-o", folder / "split", folder / "trace")
    made += [folder / "trimmed", *folder.glob("split.*")]
    for name in ("html", "chrome", "perfetto", "folded", "callgrind", "pprof"):
        run(
            me.iprobe_path,
            "export",
            "--format",
            name,
            "-o",
            folder / f"file.{name}",
            folder / "trace",
        )
        made.append(folder / f"file.{name}")
    before = folder / "before.csv"
    before.write_text("older")
    before.chmod(0o644)
    if os.getuid() != me.uid:
        os.chown(before, me.uid, me.uid)
    for path in (folder / "fperf.csv", before):
        run(me.builddir / "cli" / "fperf", "--csv", "-o", path, "--", *count)
        made.append(path)
    assert all(path.exists() for path in made)
    assert [e for path in made for e in exposed(path)] == []
    # what the caller takes away from himself stays away
    done = me.run([me.iprobe_path, "trim", "-o", folder / "less", folder / "trace"], umask=0o277)
    assert done.returncode in (0, 1)
    assert not (folder / "less").exists() or not (folder / "less").stat().st_mode & 0o277


@pytest.mark.parametrize("umask", [0, 0o022], ids=["000", "022"])
def test_nobody_else_can_read_what_is_being_recorded(me, programs, targets, umask):
    """While it runs, its snapshot, and after the change of hands."""
    folder = me.dir()
    target = targets.steady(me, programs.simple("steady"))
    proc = me.popen(
        [me.iprobe_path, "attach", "--overwrite", "-o", folder / "trace", target.pid], umask=umask
    )
    memory.wait_for(
        "no snapshot",
        lambda: me.run(
            [me.iprobe_path, "snapshot", "-o", folder / "snap", target.pid], umask=umask
        ).returncode
        == 0,
    )
    assert (folder / "trace/iprobe/journal").exists()
    assert exposed(folder / "trace") == [] and exposed(folder / "snap") == []
    proc.send_signal(2)
    assert actors.last_words(proc).returncode == 0
    assert exposed(folder / "trace") == []
    target.finish()


def test_output_to_what_is_no_file(me, programs):
    """/dev/null, standard output by name, a link of one's own, a FIFO."""
    folder = me.dir()
    trace = tracegen.random_trace(1).write(me.dir() / "trace")
    assert me.iprobe("export", "--format", "folded", "-o", "/dev/null", trace).returncode == 0
    assert me.iprobe("export", "--format", "folded", "-o", "/dev/stdout", trace).stdout
    real = folder / "real"
    real.write_text("x" * 1000000)
    (folder / "link").symlink_to(real)
    for path in (real, folder / "link"):
        if os.getuid() != me.uid:
            os.lchown(path, me.uid, me.uid)
    assert me.iprobe("export", "--format", "folded", "-o", folder / "link", trace).returncode == 0
    assert real.read_text() == me.iprobe("export", "--format", "folded", trace).stdout
    assert (folder / "link").is_symlink()

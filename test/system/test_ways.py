# SPDX-License-Identifier: Apache-2.0
"""
Directories that iprobed uses, by whose names and modes somebody else could put another in their
place: refused before anything is made, removed or believed there.
"""

import os
import pathlib

import pytest

from iptest import actor as actors, memory
from iptest.daemon import GROUP, Daemon

RULE = "rules: {r: {match: {exe: /no/such/program}, when: request, do: trace}}\n"

pytestmark = pytest.mark.skipif(
    "ASAN_OPTIONS" in os.environ,
    reason="a sanitizer's runtime makes calls that the filter of the socket's side forbids",
)


@pytest.fixture(autouse=True)
def needs_root():
    if os.getuid():
        pytest.skip("not root")


@pytest.fixture
def hostile(root):
    """Directories of ours, each on a way that another user could turn elsewhere: {name: path}.
    None has anything in it.
    """
    top = root.dir()

    def make(path, mode=0o755, owner=0):
        path.mkdir()
        path.chmod(mode)
        os.chown(path, owner, owner)
        return path

    def link(path, to):
        path.symlink_to(to)
        return path

    writable = make(top / "writable", 0o777)
    his = make(top / "his", owner=actors.OTHER_UID)
    group = make(top / "group", 0o775)
    good = make(top / "good")
    back = link(his / "back", good)
    os.chown(back, actors.OTHER_UID, actors.OTHER_UID, follow_symlinks=False)
    sticky = make(top / "sticky", 0o1777)
    planted = link(sticky / "planted", good)
    os.chown(planted, actors.OTHER_UID, actors.OTHER_UID, follow_symlinks=False)
    return {
        "beneath one that all may write": make(writable / "d"),
        "beneath one that a group may write": make(group / "d"),
        "beneath another's": make(his / "d"),
        "by a link in another's": back,
        "by our link through another's": link(top / "through", his / "back"),
        "by another's link in a sticky one": planted,
        "up from another's": his / ".." / "good",
    }


def start(root, path, **ways):
    """iprobed with these in the place of its own; what it says when it does not serve, or None."""
    daemon = Daemon(root, path)
    options = {"--socket": daemon.socket, "--state": daemon.state, **ways}
    done = root.popen(
        [
            root.builddir / "cli" / "iprobed",
            *(str(w) for o in options.items() for w in o),
            "--policy",
            daemon.policy,
            "--group",
            GROUP,
            *([] if "--probes-d" in ways or "--traces" in ways else ["--no-rules"]),
        ]
    )
    return done, daemon


def tree(path):
    return sorted(str(p.relative_to(path)) for p in pathlib.Path(path).rglob("*"))


@pytest.mark.parametrize("option", ["--state", "--socket"])
def test_iprobed_serves_nowhere_else(root, hostile, option):
    top = next(iter(hostile.values())).parents[1]
    before = tree(top)
    for what, folder in hostile.items():
        for path in [folder / "sock"] if option == "--socket" else [folder, folder / "new"]:
            proc, _ = start(root, root.dir(), **{option: path})
            _, said = proc.communicate(timeout=20)
            assert proc.returncode == 1, (what, said)
            assert "put another in its place" in said.splitlines()[-1], (what, said)
            assert tree(top) == before, what


@pytest.mark.parametrize("option", ["--traces", "--probes-d"])
def test_rules_are_not_carried_out(root, hostile, option):
    for what, folder in hostile.items():
        path = root.dir()
        files = folder if option == "--probes-d" else path / "probes.d"
        files.mkdir(exist_ok=True)
        files.joinpath("rules.yaml").write_text(RULE)
        proc, daemon = start(
            root,
            path,
            **{"--traces": path / "traces", "--probes-d": files, option: folder},
        )
        try:
            line = proc.stderr.readline()
            while line and "carried out" not in line:
                line = proc.stderr.readline()
            assert "none are carried out" in line and "put another in its place" in line, (
                what,
                line,
            )
        finally:
            proc.terminate()
            proc.communicate(timeout=20)
        files.joinpath("rules.yaml").unlink()


def test_a_rule_by_a_link(root):
    """Links that only we can change are as good as files; one that leads through another's
    directory is not.
    """
    path, his = root.dir(), root.dir()
    os.chown(his, actors.OTHER_UID, actors.OTHER_UID)
    (path / "kept").mkdir()
    (path / "kept" / "a.yaml").write_text(RULE)
    (path / "probes.d").mkdir()
    (path / "probes.d" / "a.yaml").symlink_to("../kept/a.yaml")
    (his / "b.yaml").write_text("selections: {s: main}\n")
    for linked in (False, True):
        if linked:
            (path / "probes.d" / "b.yaml").symlink_to(his / "b.yaml")
        proc, daemon = start(
            root,
            path,
            **{"--probes-d": path / "probes.d", "--traces": path / "traces", "--rule": "r"},
        )
        try:
            line = proc.stderr.readline()
            while line and "carried out" not in line:
                line = proc.stderr.readline()
            assert (
                ("b.yaml: it, or a directory above it, is user" in line)
                if linked
                else "1 carried out" in line
            ), line
        finally:
            proc.terminate()
            proc.communicate(timeout=20)


def test_where_the_way_is_safe(root):
    """A sticky directory, a link of ours, a relative path, and one that is made."""
    top = root.dir()
    (top / "sticky").mkdir()
    (top / "sticky").chmod(0o1777)
    (top / "sticky" / "d").mkdir()
    (top / "link").symlink_to("sticky/d")
    for state in (
        top / "sticky" / "d",
        top / "link",
        top / "link" / ".." / "d" / "new",
        "relative",
    ):
        path = root.dir()
        proc, daemon = start(root, path, **{"--state": state})
        try:
            memory.wait_for(
                "iprobed does not serve", lambda: proc.poll() is not None or daemon.answers(), 30
            )
            assert proc.poll() is None, proc.stderr.read()
        finally:
            proc.terminate()
            assert proc.wait(timeout=20) == 0

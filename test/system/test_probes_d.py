# SPDX-License-Identifier: Apache-2.0
"""Named selections of probes.d, as -f takes them; and files, which look alike."""

import json
import os
import pathlib

import pytest

from iptest.actor import one_line

SHIPPED = pathlib.Path(__file__).resolve().parents[2] / "probes.d"

NAMES = """\
selections:
  fours: ['*_four', middle]
  leaves:
    description: what calls nothing
    functions: [leaf*]
  both: ['@fours', '@leaves']
  not-leaf: ['!leaf']
"""


@pytest.fixture
def place(me):
    """A directory with probes.d in it, and how to use it."""
    path = me.dir()
    (path / "probes.d").mkdir()
    (path / "probes.d" / "names.yaml").write_text(NAMES)
    (path / "probes.d" / "notes.txt").write_text("not: [read")
    (path / "probes.d" / ".hidden.yaml").write_text("not: [read")
    os.chmod(path, 0o777)
    return path


def functions(me, program, selection, place, **env):
    done = me.iprobe(
        "list",
        "--json",
        "-f",
        selection,
        program,
        cwd=place,
        env={"IPROBE_PROBES_D": str(place / "probes.d"), **env},
    )
    assert done.returncode == 0, repr(done)
    return {p["function"] for m in json.loads(done.stdout)["modules"] for p in m["probes"]}


def refusal(me, program, selection, place, **env):
    return one_line(
        me.iprobe(
            "list",
            "--json",
            "-f",
            selection,
            program,
            cwd=place,
            env={"IPROBE_PROBES_D": str(place / "probes.d"), **env},
        )
    )


@pytest.fixture
def program(programs):
    return programs.simple("count")


def test_names_stand_for_their_items(me, program, place):
    every = functions(me, program, "*", place)
    some = sorted(every - {"leaf"})[:2]
    (place / "probes.d" / "more.yml").write_text(
        f"selections: {{some: [{some[0]}, {some[1]}], one: [{some[0]}], again: ['@some']}}"
    )
    assert functions(me, program, "@some", place) == set(some)
    assert functions(me, program, "@again", place) == set(some)
    assert functions(me, program, "leaf,@some", place) == {"leaf", *some}
    assert functions(me, program, "@one,leaf", place) == {"leaf", some[0]}
    assert functions(me, program, "!@some", place) == every - set(some)
    assert functions(me, program, "@some,!@one", place) == {some[1]}
    assert functions(me, program, "@not-leaf", place) == every - {"leaf"}


def test_a_name_or_a_file(me, program, place):
    (place / "probes.d" / "more.yaml").write_text("selections: {mine: [leaf]}")
    (place / "list").write_text("leaf\n")
    assert functions(me, program, "@list", place) == {"leaf"}
    assert functions(me, program, "@mine", place) == {"leaf"}
    (place / "mine").write_text("nothing-of-this-name\n")
    assert "is a named selection and a file here, too: write @./mine" in refusal(
        me, program, "@mine", place
    )
    (place / "mine").write_text("!leaf\n")
    assert "leaf" not in functions(me, program, "@./mine", place)
    assert "no selection of that name in probes.d, and no file of that name here" in refusal(
        me, program, "@nobody", place
    )
    assert "@FILE must be the whole selection" in refusal(me, program, "leaf,@list", place)
    assert "takes something away itself" in refusal(me, program, "!@not-leaf", place)


def test_what_is_wrong_is_told_with_its_place(me, program, place):
    (place / "probes.d" / "wrong.yaml").write_text("selections:\n  a:\n    functoins: [x]\n")
    assert f"{place}/probes.d/wrong.yaml:3:5: unknown key 'functoins'" in refusal(
        me, program, "@fours", place
    )
    # what needs no name does not look there
    assert functions(me, program, "leaf", place) == {"leaf"}
    (place / "probes.d" / "wrong.yaml").write_text("selections: {fours: x}\n")
    assert "names.yaml:2" in refusal(me, program, "@fours", place)
    assert "cannot read /nowhere" in refusal(
        me, program, "@fours", place, IPROBE_PROBES_D="/nowhere"
    )


def test_record_by_name(me, programs, place):
    (place / "probes.d" / "more.yaml").write_text("selections: {mine: [leaf]}")
    done = me.iprobe(
        "run",
        "--json",
        "-f",
        "@mine",
        "-o",
        place / "trace",
        "--",
        programs.simple("count"),
        "-n",
        "10",
        cwd=place,
        env={"IPROBE_PROBES_D": str(place / "probes.d")},
    )
    assert done.returncode == 0, repr(done)
    assert done.summary()["functions"] == 1


def test_shipped_examples_work(me, program, place):
    for selection in ("@memory", "@locks", "@input-output", "@tiny", "@waiting"):
        done = me.iprobe(
            "list", "-f", f"leaf,{selection}", program, env={"IPROBE_PROBES_D": str(SHIPPED)}
        )
        assert done.returncode == 0, repr(done)

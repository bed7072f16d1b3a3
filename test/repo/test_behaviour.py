# SPDX-License-Identifier: Apache-2.0
"""
Commands are what they were: options, keys of JSON, and traces, compared with recordings of the
build of 2026-11-24. What is new is allowed; what was there stays.
"""

import base64
import io
import json
import tarfile

import pytest

from behaviour import behaviour


@pytest.fixture(scope="module")
def now(builddir):
    return behaviour(builddir)


@pytest.fixture(scope="module")
def before(root):
    return json.loads((root / "test" / "repo" / "behaviour.json").read_text(encoding="utf-8"))


def missing(before, now):
    """What is told in the first and not in the second, line by line."""
    return [
        f"{kind}: {name}: {item}"
        for kind, told in sorted(before.items(), reverse=True)
        for name, items in told.items()
        for item in items
        if item not in now.get(kind, {}).get(name, [])
    ]


def test_no_option_and_no_key_is_gone(before, now):
    assert sum(map(len, before["options"].values())) > 180
    assert sum(map(len, before["keys"].values())) > 200
    assert not missing(before, now)


def test_what_is_gone_would_be_found(before):
    now = json.loads(json.dumps(before))
    now["options"]["attach"].remove("--duration")
    now["keys"]["report"].remove("functions[].p99_ns")
    assert missing(before, now) == [
        "options: attach: --duration",
        "keys: report: functions[].p99_ns",
    ]


@pytest.mark.parametrize("name", ["values", "compressed"])
def test_traces_of_before_are_read(root, builddir, sh, tmp_path, name):
    text = (root / "test" / "repo" / "traces_before.json").read_text(encoding="utf-8")
    told = json.loads(text)[name]
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode("".join(told["trace"])))) as archive:
        archive.extractall(tmp_path / "trace")
    for command, said in told["says"].items():
        out = sh(builddir / "cli" / "iprobe", *command.split(), tmp_path / "trace").stdout
        if isinstance(said, list):
            assert out.splitlines() == said, command
        else:
            found = json.loads(out)
            said.pop("dir", None), found.pop("dir", None)
            # more may be told than before
            assert {key: found.get(key) for key in said} == said, command

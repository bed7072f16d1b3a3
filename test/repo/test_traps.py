# SPDX-License-Identifier: Apache-2.0
"""docs/traps.md and docs/threat-model.md name tests that exist."""

import re

import pytest


def rows_of(text, heading):
    """The rows of the table whose first column is headed so."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(f"| {heading} |"):
            break
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        if not line.startswith("|---"):
            found.append(line)
    return found


@pytest.mark.parametrize(
    "name, heading, least", [("traps.md", "trap", 20), ("threat-model.md", "boundary", 4)]
)
def test_each_row_has_a_test_that_exists(root, name, heading, least):
    rows = rows_of((root / "docs" / name).read_text(encoding="utf-8"), heading)
    assert len(rows) >= least
    for row in rows:
        named = re.findall(r"`((?:system|unit|compilers|repo)/[\w/.]+)::(\w+)`", row)
        assert named, row
        for path, test in named:
            text = (root / "test" / path).read_text(encoding="utf-8")
            assert re.search(
                rf"^\s*(def|static void) {test}\(", text, re.M
            ), f"{path} has no {test}"

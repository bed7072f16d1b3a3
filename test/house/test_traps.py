# SPDX-License-Identifier: Apache-2.0
"""docs/traps.md names tests that exist."""

import re


def test_each_trap_has_a_test_that_exists(root):
    rows = [line for line in (root / "docs" / "traps.md").read_text(encoding="utf-8").splitlines()
            if line.startswith("| ") and not line.startswith("| trap ")]
    assert len(rows) >= 20
    for row in rows:
        named = re.findall(r"`((?:system|unit|compilers)/[\w/.]+)::(\w+)`", row)
        assert named, row
        for path, name in named:
            text = (root / "test" / path).read_text(encoding="utf-8")
            assert re.search(rf"^(def|static void) {name}\(", text, re.M), f"{path} has no {name}"

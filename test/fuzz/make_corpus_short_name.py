#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the harness of short names: make_corpus_short_name.py DIR makes
DIR/short_name/*. They are the names of test/unit/common/names/test_short_name.c.
"""

import os
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1] / "unit/common/names/test_short_name.c"


def main():
    folder = os.path.join(sys.argv[1], "short_name")
    os.makedirs(folder, exist_ok=True)
    text = TESTS.read_text(encoding="utf-8")
    # what clang-format has parted is one string
    strings = re.findall(r'"((?:[^"\\\n]|\\.)*)"', re.sub(r'"\s*\n\s*"', "", text))
    for number, name in enumerate(sorted(set(strings))):
        with open(os.path.join(folder, f"{number:03}"), "wb") as file:
            file.write(name.replace('\\"', '"').encode())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pack.py OUT.c NAME page.html FILE...: the page as two strings of C, before and behind its data,
with the files put in where it names them. NAME is what parts.h calls it.
"""

import pathlib
import sys


def quoted(text):
    """As an array: strings of any length are no C."""
    data = text.encode() + b"\0"
    return "{" + ",".join(map(str, data)) + "}"


def main(out, name, page, *files):
    text = pathlib.Path(page).read_text(encoding="utf-8")
    for file in map(pathlib.Path, files):
        mark = f"@{file.name}@\n"
        assert text.count(mark) == 1, f"{page} names {file.name} {text.count(mark)} times"
        text = text.replace(mark, file.read_text(encoding="utf-8"))
    head, tail = text.split("@@DATA@@\n")
    pathlib.Path(out).write_text(
        f'#include "analysis/export/html/parts.h"\n\nstatic const char head[] = {quoted(head)};\n'
        f"static const char tail[] = {quoted(tail)};\n"
        f"const struct ip_html_parts ip_html_{name} = {{head, tail}};\n",
        encoding="ascii",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

# SPDX-License-Identifier: Apache-2.0
"""
Whether a file can be used is asked by the effective ids, common/file.h: a worker of iprobed for a
member of its group has nobody's real ids, and access(2) would ask with these.
"""

import re

CALL = re.compile(r"(?<![\w.>])(access|faccessat|euidaccess|eaccess)\s*\(([^;]*)")


def asks_by_real_ids(code):
    return [
        call.group(0).split("\n")[0]
        for call in CALL.finditer(code)
        if call.group(1) != "faccessat" or "AT_EACCESS" not in call.group(2)
    ]


def test_what_is_found():
    assert asks_by_real_ids("if (access(path, F_OK) < 0)") == ["access(path, F_OK) < 0)"]
    assert asks_by_real_ids("faccessat(inner, name, F_OK, 0);")
    assert not asks_by_real_ids("ip_access(path, F_OK); faccessat(d, p, m,\n AT_EACCESS);")


def test_access_is_asked_by_effective_ids(root):
    found = {
        str(path.relative_to(root)): calls
        for path in root.glob("*/**/*.c")
        if path.relative_to(root).parts[0]
        not in ("test", "benchmarks", "examples", "build", "runtime")
        and (calls := asks_by_real_ids(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)))
    }
    assert not found, found

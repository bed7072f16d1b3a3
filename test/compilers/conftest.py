# SPDX-License-Identifier: Apache-2.0
"""
What compilers make of the placements, and what build systems make of iprobe-cc. Uses what
test/system shares (iptest, fixtures of its conftest.py).

  IPROBE_BUILD          the meson build folder under test (default: build)
  IPROBE_TEST_FULL=1    every combination of the matrix, 500 csmith programs, 100 of C++ (hours);
                        else pairs of them, 50, 8

One case again, by hand:  /usr/bin/python3 -m pytest test/compilers -k 'gcc-fentry-O2-pie-c-ld'
Its files stay where --basetemp says.
"""

import importlib.util
import os
import pathlib
import sys

import pytest

SYSTEM = pathlib.Path(__file__).resolve().parents[1] / "system"
sys.path[:0] = [str(SYSTEM), str(pathlib.Path(__file__).parent)]

spec = importlib.util.spec_from_file_location("system_conftest", SYSTEM / "conftest.py")
system = importlib.util.module_from_spec(spec)
spec.loader.exec_module(system)

builddir = system.builddir
top = system.top
me = system.me
nothing_left_behind = system.nothing_left_behind

FULL = os.environ.get("IPROBE_TEST_FULL") == "1"


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "slow: takes more than a few seconds; left out of a quick run"
    )


@pytest.fixture(scope="session")
def tools(builddir):
    """The folder of iprobe-cc, iprobe-c++ and coldpatch."""
    return builddir / "coldpatch"

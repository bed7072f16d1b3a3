# SPDX-License-Identifier: Apache-2.0
"""Tests of the repository itself: what is installed, what the documents say, the examples, the
scripts.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = float(os.environ.get("IPROBE_TEST_PATIENCE", "1"))  # how much longer all may take


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "slow: takes more than a few seconds; left out of a quick run"
    )


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def builddir():
    path = Path(os.environ.get("IPROBE_BUILD", ROOT / "build")).resolve()
    if not (path / "cli" / "iprobe").exists():
        pytest.fail(f"no iprobe in {path}: set IPROBE_BUILD to the build folder")
    return path


@pytest.fixture(scope="session")
def sh():
    """Runs a command; the test fails where the exit code is not the expected one."""

    def run(*command, code=0, timeout=120, **kwargs):
        done = subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout * PATIENCE,
            check=False,
            **kwargs,
        )
        assert (
            done.returncode == code
        ), f"{command}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done

    return run

# SPDX-License-Identifier: Apache-2.0
"""
How long tests wait: on a machine that is slower than others by nature, an emulated one,
everything is given IPROBE_TEST_PATIENCE times as long. No test asserts less there, and none is
left out for it.
"""

import os

FACTOR = float(os.environ.get("IPROBE_TEST_PATIENCE", "1"))


def scaled(seconds):
    return seconds * FACTOR


def milliseconds(number):
    """An option's value: --max-stop, say."""
    return f"{round(number * FACTOR)}ms"

# SPDX-License-Identifier: Apache-2.0
"""A trace directory as an independent CTF reader sees it: babeltrace2's text, counted by event
and function.
"""

import collections
import subprocess
import tempfile


def parse(line):
    """(event name, module, function) of one line."""
    at = line.find(" func_") + 1
    event, colon, rest = line[at:].partition(": ")
    label = rest.partition('"')[2].partition('"')[0]
    module, separator, function = label.partition(":")
    assert (
        at and colon and separator and event in ("func_entry", "func_exit")
    ), f"no event and name in {line!r}"
    return event, module, function


def read_events(directory):
    """Counter of (event name, module, function), and warnings; babeltrace2 must be content with
    the whole directory.
    """
    # to a file: a warning for each loss may be more than a pipe holds
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(
            ["babeltrace2", str(directory)], stdout=subprocess.PIPE, stderr=errors, text=True
        ) as p:
            seen = collections.Counter(map(parse, p.stdout))
        errors.seek(0)
        warnings = errors.read()
    assert p.returncode == 0, warnings
    return seen, warnings

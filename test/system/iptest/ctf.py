# SPDX-License-Identifier: Apache-2.0
"""A trace directory as an independent CTF reader sees it: babeltrace2's text, counted by event and function."""

import collections
import re
import subprocess

EVENT = re.compile(r"\b(func_entry|func_exit): ")
LABEL = re.compile(r'"([^"]+)"')


def read_events(directory):
    """Counter of (event name, module, function); babeltrace2 must be content with the whole directory."""
    seen = collections.Counter()
    with subprocess.Popen(["babeltrace2", str(directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        for line in p.stdout:
            event, label = EVENT.search(line), LABEL.search(line)
            assert event and label, f"babeltrace2 prints no event and name: {line!r}"
            module, colon, function = label.group(1).partition(":")
            assert colon, f"the label is not module:function: {line!r}"
            seen[event.group(1), module, function] += 1
        errors = p.stderr.read()
    assert p.returncode == 0, errors
    return seen, errors

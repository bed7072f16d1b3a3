#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Takes what it reads in pieces of 4 MB, and waits behind each of them, as for the answer of a far
away server. It sends nothing.

upload.py SECONDS
"""

import sys
import time

PIECE = 4 << 20

while sys.stdin.buffer.read(PIECE):
    time.sleep(float(sys.argv[1]))

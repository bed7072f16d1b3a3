#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the harness of points' arguments: make_corpus_points.py DIR makes DIR/point_args/*."""

import os
import sys

SEEDS = ["", "?", "4@%edi -8@-16(%rbp) 8s@%rsi", "-4@$-3 1@$0xff", "2@8(%rax,%rbx,4) 4@(,%rcx,8)", "8@*0x4010(,%rdi,2) 8@*0x10",
         "-4@counter.0+4-2(%rip) 4@table(,%rdi,4)", "? ? ? ? ? ? ?", "4@%ah", "3@%eax", "4@(%eax)", "4@%fs:x@tpoff"]


def main():
    folder = os.path.join(sys.argv[1], "point_args")
    os.makedirs(folder, exist_ok=True)
    for i, seed in enumerate(SEEDS):
        with open(os.path.join(folder, f"seed-{i}"), "w", encoding="ascii") as file:
            file.write(seed)


if __name__ == "__main__":
    main()

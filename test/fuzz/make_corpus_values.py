#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the harness of requests for values: make_corpus_values.py DIR makes
DIR/value_request/*.
"""

import os
import sys

ARGS, RETVAL, WHEN = b"\0", b"\1", b"\2"
SEEDS = [
    ARGS + b"f(a)",
    ARGS + b"ns::f*(r->uri.data:string(r->uri.len), fd=r->c->fd, x:hex, y:string:16)",
    ARGS + b"f(((struct  s *)p)->q, (ns::l<a,b> **)p[1]:hex, (unsigned char*)p:string(n):4)",
    RETVAL + b"f($retval->a[2].b, *retval, &retval->c)",
    WHEN + b"f: len > 4096 && !(flags & 0x4) || -n <= ~2",
    WHEN + b'name =^ "a\\"b\\x41\\n" && c != \'x\' && (*p).q >= 1 + 2 - 3',
    WHEN + b"a == b < c",
    ARGS + b"f(a[i + 1], b.c, 18446744073709551616)",
    ARGS + b"f(" + b"(" * 70,
    ARGS + b"f(" + b"a," * 20 + b"a)",
    WHEN + b"a" + b"+a" * 300,
    WHEN + b'"' + b"x" * 80 + b'"',
    ARGS + b"f(a:strong)",
    ARGS + b"!f,lib:x(a)",
]


def main():
    folder = os.path.join(sys.argv[1], "value_request")
    os.makedirs(folder, exist_ok=True)
    for i, seed in enumerate(SEEDS):
        with open(os.path.join(folder, f"seed{i}"), "wb") as file:
            file.write(seed)


main()

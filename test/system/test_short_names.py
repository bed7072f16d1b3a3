# SPDX-License-Identifier: Apache-2.0
"""
Short C++ names: what people get, what scripts get, and that no two functions are taken for one.
"""

import collections
import json
import subprocess

import pytest

SOURCE = r"""
#include <map>
#include <string>
#include <vector>
#define NOINLINE __attribute__((noinline))
struct Store {
    std::map<std::string, std::vector<int>> a;
    std::map<int, std::string> b;
    NOINLINE int put(const std::string &k, int v) { a[k].push_back(v); b[v] = k; return v; }
};
template<class T> NOINLINE int each(const T &f) { return f(1) + f(2); }
NOINLINE int twice(int n) { return each([n](int x) { asm volatile(""); return x * n; }); }
int main()
{
    Store s;
    for (int i = 0; i < 9; i++)
        s.put("key" + std::to_string(i % 3), i + twice(i));
    return s.b.size() == 9 ? 0 : 1;
}
"""


@pytest.fixture(scope="module")
def program(builddir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("short")
    (folder / "p.cpp").write_text(SOURCE)
    subprocess.run(
        [builddir / "coldpatch" / "iprobe-c++", "-g", "-O1", "-fno-inline", "p.cpp", "-o", "p"],
        cwd=folder,
        check=True,
    )
    return folder / "p"


@pytest.fixture
def trace(me, program):
    directory = me.dir() / "trace"
    done = me.iprobe("run", "-q", "-o", directory, "--", program)
    assert done.returncode == 0, repr(done)
    return directory


def output(me, *words):
    done = me.iprobe(*words)
    assert done.returncode == 0, repr(done)
    return done.stdout


def test_what_people_get(me, trace):
    for words in (
        ["report"],
        ["graph", "--min-percent", "0"],
        ["dump"],
        ["hist", "-n", "1000"],
        ["export", "--format", "folded"],
        ["export", "--format", "callgrind"],
    ):
        text = output(me, *words, trace)
        assert "basic_string<" not in text and "__cxx11" not in text, words
        assert "std::map<int, std::string>::operator[]" in text, words
        assert "twice::{lambda#1}::operator()" in text or "hist" in words, words
        whole = output(me, *words, "--full-names", trace)
        assert "std::__cxx11::basic_string<char, std::char_traits<char>" in whole, words
        assert "twice(int)::{lambda(int)#1}::operator()" in whole or "hist" in words, words


def test_what_scripts_get(me, trace):
    """The whole name, as before, and the short one where it is another one."""
    rows = json.loads(output(me, "report", "--json", trace))["functions"]
    by_name = {row["function"]: row for row in rows}
    assert by_name["main"].get("short") is None
    assert by_name["twice(int)::{lambda(int)#1}::operator()"]["short"] == (
        "twice::{lambda#1}::operator()"
    )
    assert any("__cxx11" in name for name in by_name)
    assert json.loads(output(me, "report", "--json", "--full-names", trace))["functions"] == rows
    header, *lines = output(me, "report", "--csv", trace).splitlines()
    assert "short" not in header and any("__cxx11" in line for line in lines)
    for line in output(me, "dump", "--json", trace).splitlines():
        assert json.loads(line)["function"] in by_name


def test_functions_stay_apart(me, trace):
    """Template arguments are elided only where they do not tell two functions apart."""
    rows = json.loads(output(me, "report", "--json", trace))["functions"]
    names = collections.defaultdict(set)
    for row in rows:
        names[row.get("short", row["function"])].add(row["function"])
    assert len(rows) > 100
    assert [whole for whole in names.values() if len(whole) > 1] == []
    elided = [short for short in names if "<...>" in short]
    assert len(elided) > 20 and any(len(short) <= 64 for short in elided)


@pytest.mark.parametrize(
    "selection,wanted",
    [
        ("std::map<int, std::string>::operator[]", 1),
        ("std::map<...>::operator\\[\\]", 2),
        ("std::map<>::operator\\[\\]", 2),
        ("std::map::operator\\[\\]", 2),
        ("std::map<std::string, std::vector<int>>::operator\\[\\]", 1),
        ("twice::{lambda#1}::operator()", 1),
        ("twice(int)::{lambda(int)#1}::operator()", 1),
        ("Store::put(std::string const&, int)", 1),
        ("std::__cxx11::to_string,std::to_string", 1),
    ],
)
def test_selections(me, trace, program, selection, wanted):
    """A name can be selected as it is shown, and as it is."""
    rows = json.loads(output(me, "report", "--json", "-f", selection, trace))["functions"]
    assert len(rows) == wanted, rows
    listed = json.loads(output(me, "list", "--by-function", "--json", "-f", selection, program))
    (module,) = listed["modules"]
    assert len({f["function"] for f in module["functions"]}) == wanted


def test_nearest_instance(me, program):
    for wanted in ("std::map<>::opreator[]", "std::map::opreator[]"):
        done = me.iprobe("list", "-f", wanted, program)
        assert done.returncode == 1
        assert "nearest: std::map<int, std::string>::operator[]" in done.stderr, repr(done)


def test_nearest_names_are_short(me, program):
    done = me.iprobe("list", "-f", "std::map<int,std::string>::opreator[]", program)
    assert done.returncode == 1
    assert "nearest: std::map<int, std::string>::operator[]" in done.stderr, repr(done)


def test_list_by_function(me, program):
    """A row for each function; the header counts what is listed."""
    whole = json.loads(output(me, "list", "--json", program))["modules"][0]["probes"]
    probes = collections.Counter(p["linker_name"] for p in whole)
    module = json.loads(output(me, "list", "--by-function", "--json", program))["modules"][0]
    assert {f["linker_name"]: f["probes"] for f in module["functions"]} == dict(probes)
    assert "probes" not in module
    header, *rows = output(me, "list", "--by-function", program).splitlines()
    assert f": {len(whole)} probes in {len(probes)} functions, placement " in header
    assert len(rows) == len(probes)
    header, *rows = output(me, "list", "-f", "main", program).splitlines()
    assert f": {len(rows)} of {len(whole)} probes in 1 of {len(probes)} functions," in header
    # --functions without a selection is the same; with one, it is -f
    listed = output(me, "list", "--by-function", program)
    assert output(me, "list", "--functions", program) == listed
    assert output(me, "list", program, "--functions") == listed
    assert output(me, "list", "--functions", "--full-names", program) != listed
    assert output(me, "list", "--functions", "main", program) == output(
        me, "list", "-f", "main", program
    )
    assert "std::map<int, std::string>::operator[](int const&)" in listed

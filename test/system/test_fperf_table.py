# SPDX-License-Identifier: Apache-2.0
"""
The table of fperf: names of functions that tell which is which, and the titles of columns.
"""

import json
import re
import subprocess

import pytest

from iptest.fperf import fperf_path

SOURCE = r"""
#include <map>
#include <string>
#include <vector>
#define NOINLINE __attribute__((noinline))
namespace app
{
struct Key {
    int number;
    bool operator<(const Key &other) const { return number < other.number; }
};
struct OrderTable {
    std::map<Key, std::vector<std::string>> rows;
    NOINLINE std::vector<std::string> &find_row(
        const Key &key, const std::map<std::string, std::vector<std::string>> &options)
    {
        return rows[key];
    }
    NOINLINE void put(const Key &key, int length) { rows[key].resize(length); }
    NOINLINE void put(const Key &key, const std::vector<std::string> &row,
                      const std::map<std::string, std::vector<std::string>> &options,
                      const std::vector<Key> &others)
    {
        rows[key] = row;
    }
};
} // namespace app
int main()
{
    app::OrderTable t;
    for (int i = 0; i < 20; i++) {
        t.put({i % 5}, 3);
        t.put({i % 5}, t.find_row({i % 5}, {}), {}, {});
    }
    return t.rows.size() == 5 ? 0 : 1;
}
"""
FUNCTIONS = "app::OrderTable::*"


@pytest.fixture(scope="module")
def program(builddir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    (folder / "p.cpp").write_text(SOURCE)
    subprocess.run(
        [builddir / "coldpatch" / "iprobe-c++", "-g", "-O1", "p.cpp", "-o", "p"],
        cwd=folder,
        check=True,
    )
    return folder / "p"


def table(me, program, *words, columns=0):
    """The lines of the table, from its titles on; columns: of a terminal, 0: there is none."""
    command = [fperf_path(me), "-q", "-n", "0", "-f", FUNCTIONS, *words, "--", program]
    if columns:
        shown = " ".join(f"'{word}'" for word in command)
        command = ["script", "-qec", f"stty cols {columns}; {shown}", "/dev/null"]
    done = me.run(command)
    assert done.returncode == 0, repr(done)
    lines = done.stdout.replace("\r", "").splitlines()
    return lines[next(i for i, line in enumerate(lines) if line.startswith("function")) :]


def names(lines):
    """The names: what stands in front of the number of samples."""
    rows = [line for line in lines[1:] if not line.startswith("--- ")]
    return [re.match(r"(.*?) +\d+ +~?[\d.]+[kM]?( |$)", row)[1] for row in rows]


def test_names_are_those_of_report(me, program):
    """The function stands there, without its parameters where no other one has its name."""
    shown = names(table(me, program))
    assert "app::OrderTable::find_row" in shown, shown
    whole = "app::OrderTable::put(app::Key const&, int) [p]"
    assert whole in shown and len(shown) == 3, shown
    directory = me.dir() / "trace"
    done = me.iprobe("run", "-q", "-f", FUNCTIONS, "-o", directory, "--", program)
    assert done.returncode == 0, repr(done)
    report = me.iprobe("report", directory).stdout
    assert whole in report and " app::OrderTable::find_row" in report, report


@pytest.mark.parametrize("columns", [0, 120])
def test_parameters_give_way_to_the_function(me, program, columns):
    """Where there is no room for both, the end of the parameters is what is left out."""
    shown = names(table(me, program, "-e", "page-faults", columns=columns))
    (longest,) = [name for name in shown if "vector" in name]
    assert longest.startswith("app::OrderTable::put(app::Key const&, std::vector<...>"), longest
    assert longest.endswith("...) [p]"), longest
    assert len(longest) <= 80, longest


def test_narrow(me, program):
    """Not even the functions have room: the end of each is there."""
    shown = names(table(me, program, "-e", "page-faults", columns=60))
    put = "...erTable::put(...) [p]"
    assert sorted(shown) == ["...:OrderTable::find_row", put, put], shown


def test_full_names(me, program):
    shown = names(table(me, program, "--full-names"))
    assert [x for x in shown if "OrderTable::find_row(app::Key const&, std::map<std::__c" in x]
    assert any(len(name) > 300 and name.endswith("> const&) [p]") for name in shown), shown
    assert not [name for name in shown if "..." in name], shown


def test_ticks_are_no_cycles(me, program):
    """The title of the time-stamp counter is not that of cycles; scripts have its name."""
    titles = table(me, program)[0].split()
    assert "TSC-TICKS" in titles and "CYCLES" not in titles, titles
    # the title is a name, too
    assert "TSC-TICKS" in table(me, program, "-e", "TSC-TICKS,page-faults")[0].split()
    listed = me.run([fperf_path(me), "list-events"]).stdout
    assert re.search(r"^tsc::CYCLES +yes +TSC-TICKS: ", listed, re.M), listed
    done = me.run([fperf_path(me), "-q", "--json", "-f", FUNCTIONS, "--", program])
    assert "tsc::CYCLES" in json.loads(done.stdout)["events"], done.stdout
    done = me.run([fperf_path(me), "-q", "--csv", "-f", FUNCTIONS, "--", program])
    assert ",tsc::CYCLES,tsc::CYCLES ci95," in done.stdout.splitlines()[0], done.stdout
    tsc = [x for x in me.run([fperf_path(me), "self-test"]).stdout.splitlines() if "tsc::" in x]
    assert len(tsc) == 1 and "no core's own cycles" in tsc[0], tsc


def test_no_calls(me, programs, targets):
    """A process that calls nothing has a line that says so, and no titles of a table."""
    program = programs.simple("standing", placement="fentry")
    pids = [targets.start(me, [program, "idle"], preload=False).pid for _ in range(2)]
    said = (
        r"no call of the \d+ selected functions was seen in \d\.\d\d s \(\d\.\d\d s of CPU time\)"
    )
    for words in (pids[:1], pids):
        done = me.run([fperf_path(me), "-q", "--duration", "100ms", *words])
        assert done.returncode == 0, repr(done)
        assert "samples" not in done.stdout, repr(done)
        assert len(re.findall(f"^{said}$", done.stdout, re.M)) == len(words), repr(done)
    for pid in pids:
        assert f"pid {pid} (standing)\n" in done.stdout, repr(done)

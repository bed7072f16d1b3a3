# SPDX-License-Identifier: Apache-2.0
"""
iprobe export --format html: what the page holds, on traces whose calls are known
(test/tracegen.py), and what it does in a browser.
"""

import collections
import json
import pathlib
import re
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402

STAYS = 100_000  # as in export_html.c


def export(me, directory, *options):
    page = me.dir() / "page.html"
    done = me.iprobe("export", "--format", "html", "-o", page, *options, directory)
    assert done.returncode == 0, repr(done)
    return page


def document(page):
    text = page.read_text(encoding="utf-8")
    found = re.findall(
        r'<script type="application/json" id="data">\n(.*?)\n</script>', text, re.DOTALL
    )
    assert len(found) == 1
    assert not re.search(r'(src|href)="(?!data:)', text.replace(found[0], "")), "it loads something"
    return json.loads(found[0])


def stays(data):
    """[(tid, depth, function, start, length)]"""
    found = []
    for row in data["timeline"]["rows"]:
        start = 0
        for i in range(0, len(row["stays"]), 3):
            start += row["stays"][i]
            found.append(
                (
                    row["tid"],
                    row["depth"],
                    data["functions"][row["stays"][i + 2]]["name"],
                    start,
                    row["stays"][i + 1],
                )
            )
    return found


def ns(trace, ticks):
    return (ticks * 1_000_000_000 + trace.hz // 2) // trace.hz


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_figures_are_those_of_report(me, seed):
    trace = tracegen.random_trace(seed)
    directory = trace.write(me.dir() / "trace")
    data = document(export(me, directory))
    report = json.loads(me.iprobe("report", "--json", directory).stdout)
    own = {f["name"]: f for f in data["functions"] if "calls" in f}
    for f in report["functions"]:
        mine = own.pop(f["function"])
        for key in ("total", "self", "min", "avg", "p50", "p99", "max"):
            assert mine[key] == f[f"{key}_ns"], (f, mine)
        assert mine["calls"] == f["calls"]
    assert not own
    assert (data["meta"]["events"], data["meta"]["lost"]) == (report["events"], report["lost"])


def chain(me, calls):
    """main calls work so often, each 10 ticks longer than the one before, 5 ticks apart; 1 tick
    is 1 ns.
    """
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    t.call("main")
    for i in range(calls):
        t.advance(5)
        t.call("work")
        t.advance(10 * i + 10)
        t.ret()
    t.ret()
    return trace, trace.write(me.dir() / "trace")


def test_every_call_is_in_the_timeline(me):
    trace, directory = chain(me, 1000)
    data = document(export(me, directory))
    shown = stays(data)
    assert sorted(length for *_, name, _, length in shown if name == "work") == [
        10 * i + 10 for i in range(1000)
    ]
    begin = min(call.start for call in trace.calls)
    known = sorted(
        (call.start - begin, call.end - call.start) for call in trace.calls if call.name == "work"
    )
    first = min(start for _, _, name, start, _ in shown if name == "main")
    assert (
        sorted((start - first, length) for _, depth, name, start, length in shown if depth == 1)
        == known
    )
    assert data["meta"]["summed"] == 0


def test_short_calls_are_summed_up(me):
    """One call more than there is room for by themselves, times two: the shorter half is in
    sums, with all of its time.
    """
    _, directory = chain(me, 2 * STAYS)
    data = document(export(me, directory))
    lengths = sorted(length for *_, name, _, length in stays(data) if name == "work")
    kept = len(lengths)
    assert kept == STAYS - 1  # main is one, too
    assert lengths[0] == 10 * (2 * STAYS - kept) + 10
    sums = [
        row["sums"][i : i + 4]
        for row in data["timeline"]["rows"]
        for i in range(0, len(row["sums"]), 4)
    ]
    assert sum(s[2] for s in sums) == data["meta"]["summed"] == 2 * STAYS - kept
    time = sum(10 * i + 10 for i in range(2 * STAYS - kept))
    assert abs(sum(s[1] for s in sums) - time) <= len(sums)  # each is rounded
    assert {data["functions"][s[3]]["name"] for s in sums} == {"work"}


def tree(data):
    """{way of names: (calls, total, self, ...)}"""
    width, nodes, functions = data["tree"]["width"], data["tree"]["nodes"], data["functions"]
    ways, found = [()], {}
    for i in range(0, len(nodes), width):
        way = (*ways[nodes[i + 1]], functions[nodes[i]]["name"])
        ways.append(way)
        found[way] = tuple(nodes[i + 2 : i + width])
    return found


def test_the_tree_is_that_of_folded(me):
    trace = tracegen.random_trace(5)
    directory = trace.write(me.dir() / "trace")
    folded = me.iprobe("export", "--format", "folded", directory).stdout.splitlines()
    known = {
        tuple(line.replace(" [until its tail call]", "").rsplit(" ", 1)[0].split(";")): int(
            line.rsplit(" ", 1)[1]
        )
        for line in folded
    }
    assert {
        way: node[2] for way, node in tree(document(export(me, directory))).items() if node[2]
    } == known


def two_traces(me):
    """The second has a slower `slow`, no `gone`, and a `fresh`."""
    made = []
    for names in (
        [("slow", 100), ("gone", 50), ("same", 70)],
        [("slow", 300), ("fresh", 20), ("same", 70)],
    ):
        trace = tracegen.Trace(hz=1_000_000_000)
        t = trace.thread()
        t.call("main")
        for name, ticks in names:
            t.call(name)
            t.advance(ticks)
            t.ret()
        t.ret()
        made.append(trace.write(me.dir() / "trace"))
    return made


def test_difference(me):
    before, after = two_traces(me)
    data = document(export(me, after, "--diff", before))
    known = {name: (node[2], node[4]) for (*_, name), node in tree(data).items() if name != "main"}
    first, second = (tree(document(export(me, one))) for one in (before, after))
    assert known == {
        name: (second.get(("main", name), (0, 0, 0))[2], first.get(("main", name), (0, 0, 0))[2])
        for name in ("slow", "gone", "same", "fresh")
    }
    assert (
        known["slow"][0] >= 300 > 150 > known["slow"][1]
        and known["gone"][0] == 0
        and known["fresh"][1] == 0
    )


def test_one_thread(me):
    """With --tid all figures are that thread's."""
    trace = tracegen.Trace(hz=1_000_000_000)
    for number, ticks in enumerate((10, 1000)):
        t = trace.thread(number, stack=tracegen.STACK - number * 0x1000000)
        for _ in range(number + 3):
            t.call("work")
            t.advance(ticks)
            t.ret()
        t.flush()
    directory = trace.write(me.dir() / "trace")
    for number, ticks in enumerate((10, 1000)):
        data = document(export(me, directory, "--tid", 1000 + number))
        (f,) = data["functions"]
        assert (f["calls"], f["total"], f["min"], f["max"], f["threads"]) == (
            number + 3,
            (number + 3) * ticks,
            ticks,
            ticks,
            1,
        )
        (latency,) = data["latency"]["functions"].values()
        assert latency["buckets"] == [ticks.bit_length(), number + 3]


def test_histograms_are_of_those_selected(me):
    """One function whose calls have ended has a histogram, however many others are longer; the
    page says how many have none.
    """
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    for i in range(250):
        t.call(f"f{i:03}")
        t.advance(100)
        t.ret()
    t.call("short")
    t.advance(1)
    t.ret()
    directory = trace.write(me.dir() / "trace")
    data = document(export(me, directory))
    assert (
        len(data["latency"]["functions"]) == 200
        and data["meta"]["unranked"] == 51
        and data["meta"]["selected"] == 0
    )
    data = document(export(me, directory, "-f", "short"))
    assert (
        len(data["latency"]["functions"]) == 1
        and data["meta"]["unranked"] == 0
        and data["meta"]["selected"] == 1
    )


def test_the_timeline_is_bounded(me):
    """80 threads, each 256 calls deep, are more than 20,000 rows: those with the least time are
    left out, not those that come last.
    """
    trace = tracegen.Trace(hz=1_000_000_000)
    for number in range(80):
        t = trace.thread(0, stack=tracegen.STACK)
        for _ in range(256):
            t.call("deep")
            t.advance(1 if number < 79 else 50)
        for _ in range(256):
            t.ret()
            t.advance(1)
        t.flush()
    data = document(export(me, trace.write(me.dir() / "trace")))
    assert len(data["timeline"]["rows"]) == 20000 and len(stays(data)) == 20000
    assert data["meta"]["beyond"] == 80 * 256 - 20000
    depths = collections.defaultdict(set)
    for row in data["timeline"]["rows"]:
        depths[row["tid"]].add(row["depth"])
    assert depths.pop(1079) == set(range(256))
    assert len(depths) == 79 and all(
        found in (set(range(249)), set(range(250))) for found in depths.values()
    )


def test_ways_of_equal_weight_fill_the_flame_graph(me):
    """57,600 ways that took the same time: as many as fit are there, and no way without those
    above it.
    """
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread(capacity=4095)
    t.call("main")
    for i in range(240):
        t.call(f"f{i:03}")
        for k in range(240):
            t.call(f"f{k:03}")
            t.advance(1)
            t.ret()
        t.ret()
    t.ret()
    data = document(export(me, trace.write(me.dir() / "trace")))
    shown = tree(data)
    assert len(shown) == 49_999 and data["tree"]["left_out"] == 1 + 240 + 57_600 - 49_999
    assert sum(len(way) < 3 for way in shown) == 241


def test_names_cannot_end_the_document(me):
    trace = tracegen.Trace()
    t = trace.thread()
    t.call("</script><script>alert(1)</script><!--")
    t.advance(10)
    t.ret()
    page = export(me, trace.write(me.dir() / "trace"))
    assert page.read_text().count("</script>") == 2
    assert [f["name"] for f in document(page)["functions"]] == [
        "</script><script>alert(1)</script><!--"
    ]


def test_refusals(me):
    _, directory = chain(me, 3)
    for args, code in (
        (["--format", "folded", "--diff", directory, directory], 2),
        (["--format", "html", "--diff", "/nothing", directory], 1),
        (["--format", "html", "--tid", "1000", "--diff", directory, directory], 2),
    ):
        done = me.iprobe("export", *args)
        assert done.returncode == code and len(done.stderr.splitlines()) == 1, repr(done)
        assert not done.stdout


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="no python3-selenium")
    driver, program = shutil.which("chromedriver"), shutil.which("chromium")
    if not driver or not program:
        pytest.skip("no chromium with chromium-driver")
    options = webdriver.ChromeOptions()
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1200,800",
    ):
        options.add_argument(argument)
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(service=webdriver.chrome.service.Service(driver), options=options)
    yield chrome
    chrome.quit()


class Page:
    def __init__(self, browser, path):
        self.browser = browser
        browser.get(f"file://{path}")
        self.body = browser.find_element("tag name", "body")
        assert self.get("ready") == "yes", browser.get_log("browser")

    def get(self, name):
        return self.body.get_attribute(f"data-{name}")

    def press(self, keys):
        self.browser.switch_to.active_element.send_keys(keys)

    def find(self, css):
        return self.browser.find_element("css selector", css)

    def click(self, css, x, y):
        """x, y: pixels from the upper left corner."""
        from selenium.webdriver import ActionChains  # pylint: disable=import-outside-toplevel

        canvas = self.find(css)
        ActionChains(self.browser).move_to_element_with_offset(
            canvas, x - canvas.size["width"] // 2, y - canvas.size["height"] // 2
        ).click().perform()

    def colours(self, css):
        """How many different ones the canvas shows."""
        return self.browser.execute_script(
            """
            const c = document.querySelector(arguments[0]), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
            return new Set(new Uint32Array(d.buffer)).size""",
            css,
        )


@pytest.mark.slow
def test_in_a_browser(me, browser):
    before, after = two_traces(me)
    page = Page(browser, export(me, after, "--diff", before))
    duration = int(page.get("to"))
    assert page.get("tab") == "timeline" and page.get("from") == "0" and duration >= 390
    assert page.colours("#timeline canvas") > 4
    # main, at depth 0, is all over the width; below the axis and the thread's name
    page.click("#timeline canvas", 500, 24 + 20 + 8)
    assert page.get("selected") == "main"
    assert "at depth 0" in page.find("#details").text
    page.click("#timeline canvas", 400, 24 + 20 + 16 + 8)
    assert page.get("selected") == "slow"
    page.press("\ue007")  # Enter: zoom to it
    assert 300 <= int(page.get("to")) - int(page.get("from")) < duration
    page.press("+")
    assert int(page.get("to")) - int(page.get("from")) < 300
    page.press("0")
    assert (page.get("from"), page.get("to")) == ("0", str(duration))
    # search, and step to what was found
    page.press("/")
    page.press("same")
    assert page.get("matches") == "1" and "1 function, 1 call" in page.find("#found").text
    page.press("\ue007")
    assert page.get("selected") == "same"
    page.press("\ue00c")  # Escape: no search
    assert page.get("matches") == ""
    # the flame graph: its first row is everything, its second main, its third what takes longest
    page.press("2")
    assert page.get("tab") == "flame" and page.get("focus") == "all"
    assert page.colours("#flame canvas") > 4
    page.click("#flame canvas", 100, 2 * 18 + 9)
    assert page.get("focus") == "slow" and "Before:" in page.find("#details").text
    page.press("\ue00c")
    assert page.get("focus") == "all"
    # figures, sorted by a column; a name leads to its histogram
    page.press("3")
    page.find("th[data-key=name] button").click()
    names = [
        e.text for e in browser.find_elements("css selector", "#functions tbody td:first-child")
    ]
    assert names == ["fresh", "main", "same", "slow"]
    page.find("#functions tbody tr:nth-child(4) button").click()
    assert page.get("tab") == "latency" and page.get("selected") == "slow"
    assert "1 call, from 3" in page.find("#latency-facts").text
    assert page.colours("#heat") > 2
    theme = browser.execute_script("return document.documentElement.dataset.theme")
    page.find("#theme").click()
    assert browser.execute_script("return document.documentElement.dataset.theme") != theme
    assert browser.get_log("browser") == []


@pytest.mark.slow
def test_a_big_trace_stays_fluid(me, browser):
    """What the page has to draw is bounded: each view of a trace with more calls than it keeps
    is drawn well within a second.
    """
    _, directory = chain(me, 2 * STAYS)
    page = Page(browser, export(me, directory))
    took = browser.execute_script(
        """
        const start = performance.now();
        for (const key of ["+", "+", "ArrowRight", "-", "-", "0"])
          document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        return performance.now() - start"""
    )
    assert (
        took < 20000
    ), took  # a second each would be bad even on a machine under load; 20 ms are usual
    assert page.get("from") == "0"


def test_counts_fit(me):
    """Buckets of all calls that ended, for each function that has a histogram."""
    trace = tracegen.random_trace(7)
    data = document(export(me, trace.write(me.dir() / "trace")))
    known = collections.Counter(call.name for call in trace.calls if call.how != "unfinished")
    for index, one in data["latency"]["functions"].items():
        name = data["functions"][int(index)]["name"]
        assert sum(one["buckets"][1::2]) == sum(one["heat"][1::2]) == known[name], name

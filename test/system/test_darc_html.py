# SPDX-License-Identifier: Apache-2.0
"""
iprobe darc --html: the histogram with its peaks, and the tree of causes, of traces and of a live
process; what a hostile program does to the page; and the page in a browser.
"""

import json

import pytest
from test_compare_html import HOSTILE
from test_darc import causes, made, recorded
from test_darc_live import endless, place  # noqa: F401
from test_html import browser, document  # noqa: F401
from test_html_browser import ESCAPE, View
from test_wait import skip_without_events

import tracegen

NODES = 5000  # as in darc_html.c
QUEUE = 59  # a seed
LEFT, END = "\ue012", "\ue010"


def page_of(actor, directory, *options):
    page = actor.dir() / "page.html"
    done = actor.iprobe("darc", "-f", "serve", "--html", page, *options, directory)
    assert done.returncode == 0, repr(done)
    return page


def two_causes(me, load="load", more=0):
    """Of 300 calls of serve 40 are slow in load, and 20 in store; 1 tick is 1 us. more: functions
    that each slow one calls, and no other call of serve.
    """
    trace = tracegen.Trace(hz=1_000_000)
    t = trace.thread()
    for i in range(300):
        t.call("serve")
        t.advance(5)
        t.call("parse")
        t.advance(20 + i % 5)
        t.ret()
        for name, slow in ((load, i % 15 in (3, 7)), ("store", i % 15 == 11)):
            t.call(name)
            t.advance(20_000 + 10 * i if slow else 30 + i % 7)
            t.ret()
        for k in range(more if i % 15 in (3, 7, 11) else 0):
            t.call(f"f{i}_{k}")
            t.advance(1)
            t.ret()
        t.ret()
        t.advance(50)
    return trace.write(me.dir() / "trace")


def test_the_document_is_the_json(me):
    directory = two_causes(me)
    for options in ((), ("--slower-than", "10ms"), ("--by", "variance"), ("--peak", 1)):
        plain = json.loads(
            me.iprobe("darc", "-f", "serve", "--json", *options, directory).stdout
        )
        data = document(page_of(me, directory, *options))
        assert data["result"] == plain
        assert data["variance"] == ("--by" in options)
    shares = {p["path"][-1]: p["share"] for p in plain["paths"]}
    data = document(page_of(me, directory))
    shares = {p["path"][-1]: p["share"] for p in data["result"]["paths"]}
    assert shares == {"load": pytest.approx(2 / 3), "store": pytest.approx(1 / 3)}
    assert data["result"]["peak"] == 2


def test_a_large_ftree_is_bounded(me):
    """Root causes are there in any case."""
    directory = two_causes(me, more=100)
    plain = json.loads(me.iprobe("darc", "-f", "serve", "--json", directory).stdout)
    data = document(page_of(me, directory))
    assert len(plain["ftree"]) == 4 + 6000
    assert len(data["result"]["ftree"]) <= NODES
    names = {n["function"] for n in data["result"]["ftree"]}
    assert {"serve", "load", "store", "parse"} <= names
    assert data["result"]["paths"] == plain["paths"]


def test_a_live_process(root, endless, place):  # noqa: F811
    program, pid = endless(0)
    page = root.dir() / "page.html"
    done = root.iprobe(
        *("darc", "-f", "serve", "--json", "--html", page, pid), env=place, timeout=120
    )
    assert done.returncode == 0, repr(done)
    data = document(page)
    assert data["result"] == json.loads(done.stdout)
    assert {tuple(p["path"]) for p in causes(data["result"])} == {tuple(program.path)}


def test_refusals(me):
    directory = two_causes(me)
    folder = me.dir()
    (folder / "taken").mkdir()
    for path, code in (("", 2), (folder / "none" / "page", 1), (folder / "taken", 1)):
        done = me.iprobe("darc", "-f", "serve", "--html", path, directory)
        assert done.returncode == code and len(done.stderr.splitlines()) == 1, repr(done)
        assert not done.stdout, repr(done)
    # of a command it is told before that is started
    mark = folder / "started"
    done = me.iprobe("darc", "-f", "serve", "--html", folder / "none" / "page", "--", "touch", mark)
    assert done.returncode == 1 and not mark.exists(), repr(done)
    assert [path.name for path in folder.iterdir()] == ["taken"]


def test_names_cannot_end_the_document(me):
    page = page_of(me, two_causes(me, HOSTILE))
    assert page.read_text().count("</script>") == 2
    assert any(p["path"] == ["serve", HOSTILE] for p in document(page)["result"]["paths"])


# In a browser


def tree(view):
    """[(share, function)] of what is visible."""
    return view.run(
        """
        return [...document.querySelectorAll(".tree .node")].filter(n => n.checkVisibility())
          .map(n => [n.querySelector(".percent")?.textContent || "",
            n.querySelector("b").textContent])"""
    )


@pytest.mark.slow
def test_in_a_browser(me, browser):  # noqa: F811
    path = page_of(me, two_causes(me))
    view = View(browser, path)
    assert "serve" in view.find("#title").text and "300 calls" in view.find("#facts").text
    assert "Peak 2, which is searched: 60 calls" in view.find("#seen").text
    assert "Searched: 60 calls" in view.find("#searched").text
    # numbers of the peaks, powers of ten on both axes
    texts = view.texts("2")
    assert {"1", "2", "10", "100", "100 µs", "1 ms", "10 ms", "searched", "usual"} <= set(texts)
    # the tree: the causes with their shares, the rest closed
    assert tree(view) == [["100.0 %", "serve"], ["66.7 %", "load"], ["33.3 %", "store"]]
    text = view.find("#answer").text
    assert "Root cause of 66.7 %: its own code, or a wait in it" in text
    assert "1 callee looked at that is no cause" in text
    view.press("e")
    assert ["", "parse"] in tree(view)
    view.press("c")
    assert ["", "parse"] not in tree(view)
    # peaks and bins by keys
    view.press("2")
    assert "60 calls" in view.find("#details").text and view.get("bin")
    top = view.get("bin")
    view.press("1")
    assert "Peak 1: 240 calls" in view.find("#details").text
    view.press(END)
    assert view.get("bin") == top
    view.press(LEFT)
    before = view.get("bin")
    assert before != top
    view.until(lambda: "bin=0" in view.address())
    again = View(browser, path, "#" + view.address())
    assert again.get("bin") == before
    again.press(ESCAPE)
    assert again.get("bin") == ""
    # by mouse: the last bin is at the right
    width = again.find("#view canvas").size["width"]
    again.click("#view canvas", width - 30, 200)
    assert again.get("bin") == top
    again.press("t")
    rows = again.find("#view .as-table").text.splitlines()
    assert any("2, its top, searched searched" in row for row in rows), rows
    assert not again.find("#view canvas").is_displayed()
    again.press("t")
    assert again.colours("#view canvas") > 4
    theme = again.run("return document.documentElement.dataset.theme")
    again.find("#theme").click()
    assert again.run("return document.documentElement.dataset.theme") != theme
    browser.print_page()
    again.clean()


@pytest.mark.slow
def test_other_answers_in_a_browser(me, browser):  # noqa: F811
    directory = two_causes(me)
    view = View(browser, page_of(me, directory, "--by", "variance"))
    assert "serve > load" in view.find("#answer").text
    view.clean()
    trace = tracegen.random_trace(4)
    directory = trace.write(me.dir() / "trace")
    function = json.loads(me.iprobe("report", "--json", directory).stdout)["functions"][0]
    page = me.dir() / "page.html"
    done = me.iprobe("darc", "-f", function["function"], "--html", page, directory)
    assert done.returncode == 0, repr(done)
    state = document(page)["result"]["state"]
    view = View(browser, page)
    assert state == "no peak" and view.find("#verdict").text == "No peak"
    assert not view.find("#answer").text
    for key in "1ect?t":
        view.press(key)
    view.clean()


@pytest.mark.slow
def test_causes_outside_of_code(root, programs, browser):  # noqa: F811
    skip_without_events(root)
    _, path = made(programs, QUEUE)
    view = View(browser, page_of(root, recorded(root, path, "--kernel")))
    text = view.find("#answer").text
    assert "blocked on futex:" in text and "by order-server" in text, text
    view.clean()


@pytest.mark.slow
def test_hostile_names_and_addresses(me, browser):  # noqa: F811
    path = page_of(me, two_causes(me, HOSTILE + "<img src=x onerror=alert(1)>"))
    for query in ("", "#bin=99999", "#bin=__proto__", "#bin=-1"):
        view = View(browser, path, query)
        view.press("e")
        assert browser.title == "iprobe: serve: peaks of its latency, and root causes"
        assert not browser.find_elements("css selector", "img")
        assert HOSTILE in view.find("#answer").text and view.get("bin") == ""
        view.clean()

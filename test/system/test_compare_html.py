# SPDX-License-Identifier: Apache-2.0
"""
iprobe compare-calls --html: both calls as timelines, held against what --json tells and what the
trace has; what a hostile program does to the page; and the page in a browser.
"""

import collections
import json

import pytest
from test_compare_calls import compared, fixture_trace  # noqa: F401
from test_html import browser, document  # noqa: F401
from test_html_browser import BACK, ENTER, ESCAPE, View

import tracegen

CALLS = 100_000  # bars of all calls, as in compare_html.c
HOSTILE = "</script><script>document.title='owned'</script><!--"
RUNNING, BLOCKED = 1, 3
SLOWEST, SLEEP = 40, "timer:clock_nanosleep"


def sleeping(data):
    """The number of the slowest call that sleeps: what else this machine does may be slower."""
    return next(
        number
        for number, comparison in enumerate(data["result"]["comparisons"])
        if any(p["object"] == SLEEP for p in comparison["nodes"][0]["parts"][:1])
    )


def page_of(actor, directory, *options, of="serve"):
    page = actor.dir() / "page.html"
    done = actor.iprobe("compare-calls", "--of", of, "--html", page, *options, directory)
    assert done.returncode == 0, repr(done)
    return page, done


def paths(data):
    """{node: names from the function that is compared down to it}"""
    names = {n: name for n, name, _ in zip(*[iter(data["functions"])] * 3)}
    found = {-1: ()}
    for node, above, function in zip(*[iter(data["ftree"])] * 3):
        found[node] = (*found[above], names[function])
    return found


def bars(timeline):
    return list(zip(*[iter(timeline["calls"])] * 3))


def own_times(timeline, known):
    """{path: (ns outside of callees, calls)}; each bar lies within one of its caller."""
    found, stack = collections.defaultdict(lambda: [0, 0]), []
    for node, start, length in bars(timeline):
        path = known[node]
        while len(stack) >= len(path):
            stack.pop()
        assert len(stack) == len(path) - 1, path
        if stack:
            above, begin, end = stack[-1]
            assert above == path[:-1] and begin <= start and start + length <= end + 1, path
            found[above][0] -= length
        found[path][0] += length
        found[path][1] += 1
        stack.append((path, start, start + length))
    return found


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_bars_are_the_calls(me, seed):
    """What bars take themselves is what --json tells of each call path."""
    trace = tracegen.random_trace(seed)
    directory = trace.write(me.dir() / "trace")
    report = json.loads(me.iprobe("report", "--json", directory).stdout)["functions"]
    tried = 0
    for function in report:
        of = function["function"]
        done = me.iprobe("compare-calls", "--of", of, "--json", "--slowest", 3, directory)
        if done.returncode:
            continue
        plain = json.loads(done.stdout)
        page, _ = page_of(me, directory, "--slowest", 3, of=of)
        data = document(page)
        assert data["result"] == plain
        known = paths(data)
        calls = [c["slow"] for c in plain["comparisons"]] + [plain["usual"]]
        assert len(data["timelines"]) == len(calls)
        for timeline, call, comparison in zip(
            data["timelines"], calls, plain["comparisons"] + plain["comparisons"][-1:]
        ):
            assert timeline["left_out"] == 0 and "states" not in timeline
            assert bars(timeline)[0][0] == 0
            assert bars(timeline)[0][1:] == (0, pytest.approx(call["duration_ns"], abs=1))
            key = "usual" if call is plain["usual"] else "slow"
            found = own_times(timeline, known)
            nodes = [n for n in comparison["nodes"] if n[f"{key}_calls"]]
            assert {tuple(n["path"]) for n in nodes} == set(found)
            for n in nodes:
                ns, number = found[tuple(n["path"])]
                assert known[n["node"]] == tuple(n["path"])
                assert number == n[f"{key}_calls"], n
                assert ns == pytest.approx(n[f"{key}_ns"], abs=len(bars(timeline))), n
        tried += 1
    assert tried >= 3


def test_states_are_the_waits(root, trace):  # noqa: F811
    program, where = trace
    page, done = page_of(root, where, "--slowest", SLOWEST)
    plain = root.iprobe("compare-calls", "--of", "serve", "--slowest", SLOWEST, where)
    assert done.stdout == plain.stdout
    data = document(page)
    for timeline, call in zip(
        data["timelines"],
        [c["slow"] for c in data["result"]["comparisons"]] + [data["result"]["usual"]],
    ):
        states = timeline["states"]
        for one in timeline["interrupts"]:
            assert one["name"] and one["start"] + one["ns"] <= call["duration_ns"] + 2, one
        assert sum(s["ns"] for s in states) == pytest.approx(
            call["duration_ns"], abs=len(states) + 1
        )
        for one, following in zip(states, states[1:]):
            assert one["start"] + one["ns"] == pytest.approx(following["start"], abs=1)
    slow = data["timelines"][sleeping(data)]
    blocked = [s for s in slow["states"] if s["state"] == BLOCKED]
    longest = max(blocked, key=lambda s: s["ns"])
    assert longest["object"] == "timer:clock_nanosleep"
    assert longest["ns"] > 0.9 * program.long_ms * 1e6
    assert any(s["state"] == RUNNING and "cpu" in s for s in slow["states"])


def long_calls(me, name="work", calls=60_000):
    """serve calls a function so often, once for longer; 1 tick is 1 ns."""
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    for i in range(3):
        t.call("serve")
        for k in range(calls):
            t.call(name)
            t.advance(10 + k % 7 + (5_000_000 if i == 1 and k == calls // 2 else 0))
            t.ret()
            t.advance(1)
        t.ret()
        t.advance(100)
    return trace.write(me.dir() / "trace")


def test_bars_are_bounded(me):
    """The longest are kept, and the others counted: the list has the time of all."""
    data = document(page_of(me, long_calls(me))[0])
    for timeline in data["timelines"]:
        assert len(bars(timeline)) == CALLS // 2
        assert timeline["left_out"] == 60_001 - CALLS // 2
        lengths = [length for _, _, length in bars(timeline)]
        assert max(lengths) == lengths[0] and min(lengths) > 10
    work = next(n for n in data["result"]["comparisons"][0]["nodes"] if len(n["path"]) == 2)
    assert work["slow_calls"] == 60_000


def test_the_list_is_bounded(me):
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    for i in range(2):
        t.call("serve")
        for k in range(700):
            t.call(f"f{k}")
            t.advance(10 + k * (i + 1))
            t.ret()
        t.ret()
    directory = trace.write(me.dir() / "trace")
    for options, lines in (((), 500), (("--limit", 3), 3), (("--limit", 650), 650)):
        page, done = page_of(me, directory, *options)
        assert len(document(page)["result"]["comparisons"][0]["nodes"]) == lines
        assert len(bars(document(page)["timelines"][0])) == 701
        assert sum(" > " in line for line in done.stdout.splitlines()) <= max(20, lines)


def test_names_cannot_end_the_document(me):
    page, _ = page_of(me, long_calls(me, HOSTILE, 3))
    assert page.read_text().count("</script>") == 2
    assert HOSTILE in document(page)["functions"]


def test_refusals(me):
    """A page that cannot be written is told before the trace is read; nothing is left."""
    directory = long_calls(me, calls=3)
    folder = me.dir()
    taken = folder / "taken"
    taken.mkdir()
    for path, code in (("", 2), (folder / "none" / "page", 1), (taken, 1)):
        done = me.iprobe("compare-calls", "--of", "serve", "--html", path, directory)
        assert done.returncode == code and len(done.stderr.splitlines()) == 1, repr(done)
        assert not done.stdout, repr(done)
    done = me.iprobe("compare-calls", "--of", "none", "--html", folder / "page", directory)
    assert done.returncode == 1
    assert [path.name for path in folder.iterdir()] == ["taken"]


# In a browser


def requests(me):
    """serve calls parse and load; twice load takes long, and calls retry. 1 tick is 1 us."""
    trace = tracegen.Trace(hz=1_000_000)
    t = trace.thread()
    for i in range(9):
        slow = i in (3, 6)
        t.call("serve")
        t.advance(10)
        for name, ticks in (("parse", 100), ("load", 9000 + 1000 * i if slow else 200 + i)):
            t.call(name)
            t.advance(ticks)
            if slow and name == "load":
                t.call("retry")
                t.advance(500)
                t.ret()
            t.ret()
            t.advance(10)
        t.ret()
    return trace.write(me.dir() / "trace")


def marked_pixels(view, left, top, width, height):
    """How many pixels of the canvas have the colour of marks."""
    return view.run(
        """
        const canvas = document.querySelector("canvas"), ratio = window.devicePixelRatio || 1;
        const copy = document.createElement("canvas"), [x, y, w, h] = [...arguments].map(
          n => n * ratio);
        Object.assign(copy, { width: w, height: h });
        copy.getContext("2d").drawImage(canvas, x, y, w, h, 0, 0, w, h);
        const d = copy.getContext("2d").getImageData(0, 0, w, h).data;
        let n = 0;
        for (let i = 0; i < d.length; i += 4)
          n += d[i] === 0xaa && d[i + 1] === 0x33 && d[i + 2] === 0x77;
        return n""",
        left,
        top,
        width,
        height,
    )


@pytest.mark.slow
def test_in_a_browser(me, browser):  # noqa: F811
    path, _ = page_of(me, requests(me), "--slowest", 2)
    view = View(browser, path)
    view.run("document.documentElement.dataset.theme = 'light'")
    assert "serve" in view.find("#title").text and "9 calls" in view.find("#facts").text
    assert "no events of the kernel" in view.find("#notes").text
    assert not view.find("#states").is_displayed()
    rows = browser.find_elements("css selector", "#lines tbody tr")
    assert [row.find_element("css selector", "button").text for row in rows] == [
        *("load", "retry", "serve", "parse")
    ]
    assert "+14.8 ms" in rows[0].text and "15.0 ms" in rows[0].text and "202" in rows[0].text
    # a line marks its bars in both calls, and in no other place: rows of 16 below a head of 22
    slow, usual = 26, 26 + 22 + 3 * 16 + 12
    assert not marked_pixels(view, 0, 0, 1000, 300)
    rows[0].find_element("css selector", "button").click()
    assert view.get("marked") == "serve > load"
    assert rows[0].find_element("css selector", "button").get_attribute("aria-pressed") == "true"
    assert marked_pixels(view, 0, slow + 22 + 16, 1000, 16) > 500
    assert marked_pixels(view, 0, usual + 22 + 16, 1000, 16) > 0
    assert not marked_pixels(view, 0, slow + 22, 1000, 15)
    assert "15.0 ms in 1 call, usually 202" in view.find("#details").text
    # by keys: the next line; back to the first; none
    view.press("n")
    assert view.get("marked") == "serve > load > retry"
    view.press("N")
    assert view.get("marked") == "serve > load"
    # from call to call, and the same in the usual call
    view.press("l")
    assert view.get("selected") == "load" and "in the slow call" in view.find("#details").text
    view.press("o")
    assert "in the usual call" in view.find("#details").text
    view.press("h")
    assert view.get("selected") == "parse"
    view.press("k")
    assert view.get("selected") == "serve"
    view.press("j")
    assert view.get("selected") == "parse"
    whole = view.window()
    view.press(ENTER)
    assert view.window()[1] - view.window()[0] < 200_000
    view.press(BACK)
    assert view.window() == whole
    view.press("u")
    assert view.window()[1] < 400_000
    view.press("+")
    view.until(lambda: "to=" in view.address())
    link = "#" + view.address()
    again = View(browser, path, link)
    assert again.window()[1] < 400_000 and again.get("marked") == "serve > parse"
    again.press(ESCAPE)
    assert again.window() == whole and again.get("marked") == ""
    # the other slow call
    again.press("2")
    assert again.get("slow") == "1" and "12.6 ms" in again.find("#slow option:checked").text
    assert "+11.8 ms" in again.find("#lines tbody tr").text
    # a search hides lines
    again.press("/")
    again.press("retr")
    assert again.find("#found").text == "1 function"
    seen = [r.text for r in browser.find_elements("css selector", "#lines tbody tr") if r.text]
    assert len(seen) == 1 and "retry" in seen[0]
    again.press(ESCAPE)
    # as a table
    again.press("t")
    cells = browser.find_elements("css selector", "#view .as-table tbody td:nth-child(3)")
    assert [c.text for c in cells] == ["serve", "parse", "load", "retry", "serve", "parse", "load"]
    assert not again.find("#view canvas").is_displayed()
    again.press("t")
    # by mouse: a bar, a part of the time, and back
    again.click("#view canvas", 600, slow + 22 + 16 + 8)
    assert again.get("selected") == "load" and again.get("marked") == "serve > load"
    again.drag("#view canvas", 200, 40, 300)
    assert 0 < again.window()[0] < again.window()[1] < whole[1]
    again.double_click("#view canvas", 500, 5)
    assert again.window()[1] - again.window()[0] > 12_000_000
    theme = again.run("return document.documentElement.dataset.theme")
    again.find("#theme").click()
    assert again.run("return document.documentElement.dataset.theme") != theme
    again.run(
        """addEventListener("beforeprint", () => { window.printed =
        [document.documentElement.dataset.theme, document.querySelector("nav").offsetHeight]; })"""
    )
    browser.print_page()
    assert again.run("return window.printed") == ["light", 0]
    again.clean()


@pytest.mark.slow
def test_states_in_a_browser(root, trace, browser):  # noqa: F811
    _, where = trace
    page, _ = page_of(root, where, "--slowest", SLOWEST)
    view = View(browser, page, f"#slow={sleeping(document(page)) + 1}")
    assert "run queue" in view.find("#states").text
    view.press("n")
    assert f"blocked on {SLEEP}" in view.find("#details").text
    view.press("l")
    assert "Its thread was" in view.find("#details").text
    # its wait by mouse: below all rows of the call
    data = document(page)
    number, known = sleeping(data), paths(data)
    timeline = data["timelines"][number]
    longest = max(
        (s for s in timeline["states"] if s.get("object") == SLEEP), key=lambda s: s["ns"]
    )
    duration = max(
        data["result"]["comparisons"][number]["slow"]["duration_ns"],
        data["result"]["usual"]["duration_ns"],
    )
    y = 26 + 22 + 16 * max(len(known[node]) for node, _, _ in bars(timeline)) + 9
    width = view.find("#view canvas").size["width"]
    view.run("document.querySelector('.picture').scrollTop = arguments[0]", max(0, y - 60))
    # the canvas is higher than what is seen of it
    top = view.run("return document.querySelector('canvas').getBoundingClientRect().top")
    x = round((longest["start"] + longest["ns"] / 2) / duration * width)
    view.click("body", x, round(top) + y)
    assert view.get("selected").startswith(f"blocked on {SLEEP}"), view.get("selected")
    view.clean()


@pytest.mark.slow
def test_values_in_a_browser(me, programs, browser):  # noqa: F811
    trace = me.dir() / "trace"  # pylint: disable=redefined-outer-name
    program = programs.simple("slow_requests", placement="fentry")
    options = ("-q", "--args", "--retval", "-f", "handle_request,compact", "-o", trace)
    done = me.iprobe("run", *options, "--", program, "3", input="\n")
    assert done.returncode == 0, repr(done)
    path, _ = page_of(me, trace, of="handle_request")
    usual = document(path)["result"]["usual"]["args"]
    view = View(browser, path)
    assert view.find("#values").text == (
        f'Values that differ: uri = "/b" (usually "{usual["uri"]}"), '
        f"id = 2 (usually {usual['id']}), returned 503 (usually 200)"
    )
    texts = view.texts("n")
    assert any('handle_request(uri="/b", id=2) = 503' in text for text in texts), texts
    view.clean()


@pytest.mark.slow
def test_values_of_call_paths_in_a_browser(me, programs, browser):  # noqa: F811
    trace = me.dir() / "trace"  # pylint: disable=redefined-outer-name
    program = programs.simple("sized_reads", placement="fentry")
    done = me.iprobe("run", "-q", "--args", "--retval", "-o", trace, "--", program, "400")
    assert done.returncode == 0, repr(done)
    view = View(browser, page_of(me, trace)[0])
    told = view.run("return [...document.querySelectorAll('#lines .values')].map(e=>e.textContent)")
    assert {'name "small" -> "large"', "len 16 -> 65536", "returned 16 -> -1"} <= set(told), told
    assert {"number 2 -> 9", "fetched: bytes 16 -> 65536"} <= set(told), told
    heads = view.run("return [...document.querySelectorAll('#lines th')].map(e => e.textContent)")
    assert "values, usually -> in this call" in heads, heads
    view.clean()


@pytest.mark.slow
def test_hostile_names_in_a_browser(me, browser):  # noqa: F811
    path, _ = page_of(me, long_calls(me, HOSTILE + "<img src=x onerror=alert(1)>", 3))
    view = View(browser, path)
    view.press("n")
    view.press("l")
    view.press("t")
    view.press("?")
    assert browser.title == "iprobe: serve: a slow call and a usual one"
    assert not browser.find_elements("css selector", "img")
    assert HOSTILE in view.find("#details").text
    view.clean()


@pytest.mark.slow
@pytest.mark.parametrize(
    "query", ["#slow=99&node=7&from=x", "#node=__proto__&slow=-1", "#from=9&to=3&search=%2F("]
)
def test_hostile_addresses(me, browser, query):  # noqa: F811
    view = View(browser, page_of(me, requests(me))[0], query)
    start, end = view.window()
    assert 0 <= start < end and view.get("slow") == "0"
    view.press("n")
    view.clean()


@pytest.mark.slow
def test_keys_of_the_panel(me, browser):  # noqa: F811
    view = View(browser, page_of(me, requests(me))[0])
    view.press("?")
    text = view.find("#help").text
    for key in "n N 1 9 / t Esc + w s a d h l k j o u Enter Backspace 0 Home drag wheel".split():
        assert key in text.split() or f"{key}," in text.split(), key
    view.press("?")
    assert not view.find("#help").is_displayed()

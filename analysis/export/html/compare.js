/* A slow call and the usual one as timelines, one above the other, on a common axis of time since
 * each began. Below the calls of each there is what its thread did, where that was recorded. */

/* By number: the nodes (call paths) of both calls. */
const nodes = new Map();
for (let i = 0; i < data.ftree.length; i += 3) {
  const above = nodes.get(data.ftree[i + 1]), f = functions.get(data.ftree[i + 2]);
  nodes.set(data.ftree[i], { id: data.ftree[i], above, f, depth: above ? above.depth + 1 : 0 });
}

/* The functions from the one that is compared down to a node. */
function path(node) {
  const all = [];
  for (let one = node; one; one = one.above) all.unshift(one.f.shown);
  return all;
}

const value = v => typeof v === "string" ? JSON.stringify(v)
  : v !== null && typeof v === "object" ? JSON.stringify(v) : String(v);

/* A call with what it was given, and what it returned: handle(fd=3) = 0. */
function callText(call) {
  const args = call.args === undefined ? "" :
    `(${Object.entries(call.args).map(([name, v]) => `${name}=${value(v)}`).join(", ")})`;
  return nodes.get(0).f.shown + args +
    (call.retval === undefined ? "" : `${args ? "" : "()"} = ${value(call.retval)}`);
}

/* What the search matches: a function of expression() of its name; null: there is none. */
let matches = null;

const view = (function () {
  const canvas = $("view").querySelector("canvas"), ROW = 16, HEAD = 22, AXIS = 26, STRIP = 10,
    GAP = 12, DEEPEST = 200;
  const UNKNOWN = 0, RUNNING = 1, RUNNABLE = 2, BLOCKED = 3;
  /* each state has a height, too: colours are not all */
  const looks = [["#bbbbbb", 2], ["#44bb99", STRIP], ["#ee8866", 7], ["#77aadd", 4]];
  const words = ["not known", "on a CPU", "in the run queue", "blocked"];
  const OTHER = 2 ** 30; /* and the number of a CPU: what another user's process had */
  let slow = 0, from = 0, to = 1, duration = 1, marked = null, selected = null, range = null,
    past = [], calls = [];

  /* Bars of one call by depth, in order of time. */
  function unpack(t, call, name) {
    const rows = [];
    for (let i = 0; i < t.calls.length; i += 3) {
      const node = nodes.get(t.calls[i]);
      if (!node) continue;
      (rows[node.depth] = rows[node.depth] || []).push(
        { node, start: t.calls[i + 1], length: t.calls[i + 2] });
    }
    for (let d = 0; d < rows.length; d++) rows[d] = rows[d] || [];
    const states = t.states ? t.states.map(s => ({ ...s, length: s.ns, bar: true })) : null;
    const interrupts = (t.interrupts || []).map(s => ({ ...s, length: s.ns, bar: true }));
    return { name, call, rows, states, interrupts };
  }

  const usual = unpack(data.timelines[data.timelines.length - 1], result.usual, "Usual call");

  /* Takes a slow call, and finds the places of both. */
  function use(number) {
    slow = number;
    $("slow").value = number;
    calls = [unpack(data.timelines[number], result.comparisons[number].slow, "Slow call"), usual];
    duration = Math.max(1, ...calls.map(c => c.call.duration_ns));
    from = 0;
    to = duration;
    past = [];
    selected = null;
    let y = AXIS;
    for (const c of calls) {
      c.y = y;
      c.depths = Math.min(c.rows.length, DEEPEST);
      c.below = c.y + HEAD + c.depths * ROW;
      y = c.below + (c.states ? STRIP + 4 : 0) + GAP;
    }
    calls.height = y;
    list.use(result.comparisons[number]);
  }

  const width = () => canvas.parentElement.clientWidth;
  const x = ns => (ns - from) / (to - from) * width();
  const ns = px => from + px / width() * (to - from);

  /* The first bar of a row that ends at or after t: those of one depth do not overlap. */
  function first(row, t) {
    let lo = 0, hi = row.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (row[mid].start + row[mid].length < t) lo = mid + 1; else hi = mid;
    }
    return lo;
  }

  const dim = bar => matches && !matches(bar.node.f.name) && !matches(bar.node.f.shown) ||
    marked && bar.node !== marked;

  function drawRow(c, row, y, w) {
    let last = -1;
    for (let i = first(row, from); i < row.length && row[i].start <= to; i++) {
      const bar = row[i], left = x(bar.start), right = x(bar.start + bar.length),
        soft = dim(bar), begin = Math.max(left, -1), end = Math.min(right, w + 1);
      if (right - left < 1) {
        /* of those within a pixel the first is drawn, and each that is marked */
        if (Math.floor(left) === last && (soft || !matches && !marked)) continue;
        last = Math.floor(left);
      }
      c.globalAlpha = soft ? 0.3 : 1;
      c.fillStyle = bar.node.f.colour;
      c.fillRect(begin, y, Math.max(1, end - begin - (right - left > 3 ? 0.5 : 0)), ROW - 1);
      c.globalAlpha = 1;
      if (bar.node === marked) {
        c.strokeStyle = css("--mark");
        c.lineWidth = 2;
        c.strokeRect(begin + 1, y + 1, Math.max(1, end - begin - 2), ROW - 3);
        c.lineWidth = 1;
      }
      const room = Math.min(right, w) - Math.max(left, 0);
      if (room <= 30) continue;
      c.fillStyle = soft ? css("--soft") : "#111";
      c.fillText(fittedName(c, bar.node.f.shown, room - 8), Math.max(left, 0) + 4, y + 11.5);
    }
  }

  function drawStates(c, states, y, w) {
    for (const s of states) {
      const left = x(s.start), right = x(s.start + s.ns);
      if (right < 0 || left > w) continue;
      const [colour, height] = looks[s.state];
      c.fillStyle = colour;
      c.fillRect(Math.max(left, -1), y + STRIP - height,
        Math.max(1, Math.min(right, w + 1) - Math.max(left, -1)), height);
    }
  }

  /* Interrupts are marks at the upper edge of the states. */
  function drawInterrupts(c, interrupts, y, w) {
    let last = -1;
    c.fillStyle = css("--mark");
    for (const s of interrupts) {
      const left = x(s.start), right = x(s.start + s.ns);
      if (right < 0 || left > w || right - left < 1 && Math.floor(left) === last) continue;
      last = Math.floor(left);
      c.fillRect(Math.max(left, -1), y, Math.max(1, Math.min(right, w + 1) - Math.max(left, -1)),
        3);
    }
  }

  function drawAxis(c, w) {
    const { marks, base } = axis(from, to, w / 120);
    c.fillStyle = css("--front");
    const free = base ? c.measureText(base).width + 14 : 0;
    if (base) c.fillText(base, 4, 14);
    for (const mark of marks) {
      const at = x(mark.at);
      c.fillStyle = css("--soft");
      if (at + 3 >= free && at < w - 30) c.fillText(mark.text, at + 3, 14);
      c.strokeStyle = css("--line");
      c.beginPath();
      c.moveTo(at, 4);
      c.lineTo(at, calls.height);
      c.stroke();
    }
  }

  function head(one) {
    return `${one.name}: ${callText(one.call)}   ${time(one.call.duration_ns)}   thread ` +
      `${one.call.tid}, ${time(one.call.ts)} after the start`;
  }

  function draw() {
    const w = width();
    $("seen").textContent = `${time(to - from)} from ${time(from)} after the begin of both` +
      (calls.some(one => one.rows.length > DEEPEST)
        ? `; what lies deeper than ${DEEPEST} levels is in the table` : "");
    document.body.dataset.from = Math.round(from);
    document.body.dataset.to = Math.round(to);
    document.body.dataset.slow = slow;
    document.body.dataset.marked = marked ? path(marked).join(" > ") : "";
    if (w) {
      canvas.style.width = w + "px";
      const c = context(canvas, w, calls.height);
      c.font = font;
      drawAxis(c, w);
      for (const one of calls) {
        c.fillStyle = css("--front");
        c.fillText(fitted(c, head(one), w - 8), 4, one.y + 15);
        for (let d = 0; d < one.depths; d++) drawRow(c, one.rows[d], one.y + HEAD + d * ROW, w);
        if (one.states) {
          drawStates(c, one.states, one.below + 2, w);
          drawInterrupts(c, one.interrupts, one.below + 2, w);
        }
      }
      if (selected) {
        const y = selected.bar ? selected.of.below + 2
          : selected.of.y + HEAD + selected.node.depth * ROW;
        c.strokeStyle = css("--front");
        c.lineWidth = 2;
        c.strokeRect(x(selected.start), y - 1,
          Math.max(2, x(selected.start + selected.length) - x(selected.start)),
          selected.bar ? STRIP + 2 : ROW);
        c.lineWidth = 1;
      }
      if (range) {
        const left = Math.min(...range), right = Math.max(...range);
        c.fillStyle = css("--link");
        c.globalAlpha = 0.2;
        c.fillRect(left, 0, right - left, calls.height);
        c.globalAlpha = 1;
        c.fillText(time(ns(right) - ns(left)), left + 4, AXIS + 12);
      }
    }
    list.draw(marked);
    page.table();
  }

  function look(a, b) {
    const length = Math.min(Math.max(b - a, 10), duration);
    from = Math.min(Math.max(0, a), duration - length);
    to = from + length;
    draw();
    page.remember();
  }

  function zoom(factor, at) {
    const fixed = at === undefined ? (from + to) / 2 : at;
    look(fixed - (fixed - from) * factor, fixed + (to - fixed) * factor);
  }

  function zoomTo(a, b) {
    past.push([from, to]);
    look(a, b);
  }

  /* The usual call may be much shorter than the slow one. */
  const toUsual = () => zoomTo(0, Math.min(duration, 1.1 * usual.call.duration_ns));
  const zoomOut = () => look(...past.pop() || [0, duration]);

  /* What is at a place; null: nothing. */
  function at(px, py) {
    const when = ns(px), slack = (to - from) / width();
    for (const of of calls) {
      if (of.states && py >= of.below && py < of.below + STRIP + 4) {
        const there = s =>
          s.start - slack <= when && s.start + s.ns >= when - (s.name ? slack : 0);
        const hit = py < of.below + 6 ? of.interrupts.find(there) : null,
          found = of.states.filter(there);
        if (hit) return { ...hit, of };
        return found.length ? { ...found[found.length - 1], of } : null;
      }
      const depth = Math.floor((py - of.y - HEAD) / ROW);
      if (depth < 0 || depth >= of.depths) continue;
      const row = of.rows[depth], i = first(row, when - slack);
      return i < row.length && row[i].start <= when + slack ? { ...row[i], of } : null;
    }
    return null;
  }

  const thread = s => s.tid >= OTHER ? `another process on CPU ${s.tid - OTHER}`
    : s.thread ? `${s.thread} (${s.tid})` : `thread ${s.tid}`;

  /* What the thread did, as a sentence. */
  function stateText(s) {
    if (s.name) return `interrupted: ${s.name}`;
    if (s.state === RUNNING) return `on CPU ${s.cpu}`;
    if (s.state === RUNNABLE)
      return "in the run queue" + (s.tid ? `; ${thread(s)} had the CPU` : "");
    if (s.state !== BLOCKED) return "what the thread did is not known";
    return `blocked on ${s.object}` + (s.interrupt ? "; woken by an interrupt"
      : s.tid ? `; woken by ${thread(s)}` : "");
  }

  /* For how long the thread did what, during a bar. */
  function statesIn(bar) {
    const sums = [0, 0, 0, 0], end = bar.start + bar.length;
    for (const s of bar.of.states || [])
      sums[s.state] += Math.max(0, Math.min(s.start + s.ns, end) - Math.max(s.start, bar.start));
    const parts = [RUNNING, RUNNABLE, BLOCKED, UNKNOWN].filter(k => sums[k])
      .map(k => `${time(sums[k])} ${words[k]}`);
    return parts.length ? `Its thread was ${parts.join(", ")}.` : "";
  }

  const describe = bar => bar.bar ? `${stateText(bar)}\n${time(bar.length)}`
    : `${bar.node.f.name}\n${time(bar.length)}`;

  function show() {
    if (selected && selected.bar)
      page.note(stateText(selected), `${time(selected.length)}, from ${time(selected.start)} on, ` +
        `in the ${selected.of.name.toLowerCase()}`);
    else if (selected)
      page.note(selected.node.f.name,
        `${time(selected.length)}, from ${time(selected.start)} on, ` +
        `in the ${selected.of.name.toLowerCase()}, at depth ${selected.node.depth}`,
        list.sentence(selected.node), statesIn(selected));
    else if (marked)
      page.note(marked.f.name, marked.above ? path(marked).join(" > ") : "", list.sentence(marked));
    else page.note("");
  }

  /* Selects a bar, which also marks the lines and bars of its call path; null: none. */
  function select(bar, zoomed) {
    selected = bar;
    if (bar && !bar.bar) marked = bar.node;
    show();
    if (bar && zoomed) {
      const margin = bar.length / 8 || 1;
      zoomTo(bar.start - margin, bar.start + bar.length + margin);
    } else if (bar && (bar.start > to || bar.start + bar.length < from))
      look(bar.start - (to - from) / 2, bar.start + (to - from) / 2);
    else look(from, to);
    if (bar && !bar.bar) list.reveal(marked);
  }

  /* Marks the bars of a node in both calls; the same again: none. */
  function mark(node) {
    marked = node === marked ? null : node;
    selected = null;
    show();
    draw();
    page.remember(true);
  }

  /* The bars of a call in order of time, those of one node, or of all. */
  const barsOf = (of, node) => node ? of.rows[node.depth] ?
    of.rows[node.depth].filter(b => b.node === node) : [] : of.rows[0];

  function step(where) {
    /* Enter zooms then, and does not press the button of a line */
    if (document.activeElement.tagName === "BUTTON") canvas.focus({ preventScroll: true });
    if (!selected || selected.bar) {
      const of = calls.find(one => barsOf(one, marked).length);
      if (of) select({ ...barsOf(of, marked)[0], of });
      return;
    }
    const { of, node } = selected, row = of.rows[node.depth],
      i = row.findIndex(b => b.start === selected.start && b.node === node);
    let found;
    if (where === "before") found = row[i - 1];
    else if (where === "next") found = row[i + 1];
    else if (where === "caller")
      found = node.above && of.rows[node.depth - 1].find(b =>
        b.node === node.above && b.start <= selected.start &&
        b.start + b.length >= selected.start + selected.length);
    else if (where === "callee")
      found = (of.rows[node.depth + 1] || []).find(b =>
        b.node.above === node && b.start >= selected.start &&
        b.start + b.length <= selected.start + selected.length);
    else {
      const other = calls[1 - calls.indexOf(of)];
      found = barsOf(other, node)[0];
      if (found) select({ ...found, of: other });
      return;
    }
    if (found) select({ ...found, of });
  }

  function choose(number) {
    if (number === slow || !result.comparisons[number]) return;
    use(number);
    show();
    draw();
    page.remember(true);
  }

  function key(name) {
    const shift = (to - from) / 5;
    if (/^[1-9]$/.test(name)) {
      choose(Number(name) - 1);
      return true;
    }
    switch (name) {
      case "+": case "=": case "w": zoom(0.5); break;
      case "-": case "s": zoom(2); break;
      case "ArrowLeft": case "a": look(from - shift, to - shift); break;
      case "ArrowRight": case "d": look(from + shift, to + shift); break;
      case "0": case "Home": look(0, duration); break;
      case "u": toUsual(); break;
      case "n": list.step(1); break;
      case "N": list.step(-1); break;
      case "h": step("before"); break;
      case "l": step("next"); break;
      case "k": step("caller"); break;
      case "j": step("callee"); break;
      case "o": step("other"); break;
      case "Enter": if (selected) select(selected, true); break;
      case "Backspace": zoomOut(); break;
      case "Escape":
        if (range) {
          range = null;
          draw();
        } else {
          marked = null;
          select(null);
          look(0, duration);
        }
        break;
      default: return false;
    }
    return true;
  }

  /* Mouse: a click selects, a drag zooms. */
  let begun = null;
  canvas.addEventListener("pointerdown", e => {
    if (e.button) return;
    begun = e.offsetX;
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", e => {
    if (begun !== null && (range || Math.abs(e.offsetX - begun) > 4)) {
      range = [begun, e.offsetX];
      tip(null);
      draw();
      return;
    }
    const found = at(e.offsetX, e.offsetY);
    tip(found && describe(found), e);
  });
  canvas.addEventListener("pointerleave", () => tip(null));
  canvas.addEventListener("pointercancel", () => {
    begun = range = null;
    draw();
  });
  canvas.addEventListener("pointerup", e => {
    const dragged = range;
    if (begun === null) return;
    begun = range = null;
    if (dragged) {
      zoomTo(ns(Math.min(...dragged)), ns(Math.max(...dragged)));
      return;
    }
    const found = at(e.offsetX, e.offsetY);
    if (!found) marked = null;
    select(found);
  });
  canvas.addEventListener("dblclick", e => {
    const found = at(e.offsetX, e.offsetY);
    if (found) select(found, true); else zoomOut();
  });
  canvas.addEventListener("wheel", e => {
    if (e.ctrlKey) zoom(e.deltaY > 0 ? 1.25 : 0.8, ns(e.offsetX));
    else if (e.shiftKey) {
      const by = (e.deltaY || e.deltaX) / width() * (to - from);
      look(from + by, to + by);
    } else return;
    e.preventDefault();
  }, { passive: false });

  /* The calls that are visible, the longest of them, in order of time. */
  function table() {
    const bars = [];
    for (const of of calls)
      for (const row of of.rows)
        for (let i = first(row, from); i < row.length && row[i].start <= to; i++)
          bars.push({ ...row[i], of });
    const some = bars.length > 500
      ? [...bars].sort((a, b) => b.length - a.length).slice(0, 500) : bars;
    some.sort((a, b) => calls.indexOf(a.of) - calls.indexOf(b.of) || a.start - b.start ||
      a.node.depth - b.node.depth);
    return {
      caption: `Calls from ${time(from)} to ${time(to)} after the begin` +
        (some.length < bars.length ? `: the longest ${some.length} of ${count(bars.length)}` : ""),
      head: ["call", "depth", "function", "from", "lasts"],
      rows: some.map(b => ({ name: b.node.f.name, run: () => select(b), cells: [
        b.of.name, b.node.depth, b.node.f.shown, time(b.start), time(b.length)] })) };
  }

  function state() {
    const all = {};
    if (slow) all.slow = slow + 1;
    if (marked) all.node = marked.id;
    if (from > 0 || to < duration) {
      all.from = Math.round(from);
      all.to = Math.round(to);
    }
    return all;
  }

  function restore(params) {
    const number = (key, missing) =>
      /^\d{1,15}$/.test(params.get(key) || "") ? Number(params.get(key)) : missing;
    const wanted = number("slow", 1) - 1;
    use(result.comparisons[wanted] ? wanted : 0);
    marked = nodes.get(number("node", -1)) || null;
    show();
    look(number("from", 0), number("to", duration));
  }

  function begin() {
    result.comparisons.forEach((one, i) => $("slow").append(element("option",
      `${i + 1}: ${time(one.slow.duration_ns)}, thread ${one.slow.tid}`, { value: i })));
    $("which").hidden = result.comparisons.length < 2;
    $("slow").addEventListener("change", () => choose(Number($("slow").value)));
    $("all").addEventListener("click", () => look(0, duration));
    $("out").addEventListener("click", zoomOut);
    $("to-usual").addEventListener("click", toUsual);
    if (usual.states) {
      for (const kind of [RUNNING, RUNNABLE, BLOCKED, UNKNOWN]) {
        const sign = element("span", null, { class: "state", "aria-hidden": "true" });
        sign.style.background = looks[kind][0];
        sign.style.height = looks[kind][1] + "px";
        $("states").append(sign, element("span", words[kind]));
      }
      $("states").append(element("span", ": what the thread of a call did, " +
        "below its calls; marks: interrupts"));
      $("states").hidden = false;
    }
    use(0);
  }

  function search(wanted) {
    matches = wanted;
    const found = new Set([...nodes.values()].filter(n =>
      wanted && (wanted(n.f.name) || wanted(n.f.shown))).map(n => n.f));
    return found.size;
  }

  const notes = () => [
    ...flaws(),
    data.timelines.some(t => t.left_out) && "of calls with very many calls within them the " +
      "shortest are not drawn; the list has all",
    data.timelines.some(t => t.states_left_out) && "short states of threads are not drawn",
  ].filter(Boolean);

  const facts = () => [plural(result.calls, "call"),
    `the usual one takes ${time(result.usual.duration_ns)}`,
    `the slow one ${time(result.comparisons[slow].slow.duration_ns)}`];

  return { draw, key, table, state, restore, canvas, begin, mark, notes, facts, search,
    title: () => `${nodes.get(0).f.name}: a slow call and a usual one` };
})();

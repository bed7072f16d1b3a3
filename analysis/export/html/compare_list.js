/* What differs between the two calls, the largest difference first. A line is a call path: what it
 * takes itself, outside of its callees. */
const list = (function () {
  const table = $("lines").querySelector("table");
  let lines = [], rows = new Map(), sorted = [];

  /* The parts that are longer, or shorter, as the line is. */
  function parts(line) {
    return (line.parts || []).map(p => ({ ns: p.slow_ns - p.usual_ns, text: part(p) }))
      .filter(p => p.ns * line.difference_ns > 0 &&
        Math.abs(p.ns) >= PART_SHARE * Math.abs(line.difference_ns))
      .slice(0, PARTS);
  }

  /* The values that its longest calls have others of. */
  const valuesOf = line => (line.values || []).map(v =>
    `${v.point === undefined ? "" : `${v.point}: `}` +
    `${v.name === null ? "returned" : v.name} ${value(v.usual)} -> ${value(v.slow)}`);

  const callsOf = line => line.slow_calls === line.usual_calls ? count(line.slow_calls)
    : `${count(line.slow_calls)}/${count(line.usual_calls)}`;

  /* Of a call path, as a sentence; "": it is in no line. */
  function sentence(node) {
    const line = lines.find(one => one.node === node.id);
    return line ? `Itself, in all of its calls: ${time(line.slow_ns)} in ` +
      `${plural(line.slow_calls, "call")}, usually ${time(line.usual_ns)} in ` +
      `${plural(line.usual_calls, "call")}: ${signed(line.difference_ns)}. ` +
      [...parts(line).map(p => `${signed(p.ns)} ${p.text}`), ...valuesOf(line)].join("; ") : "";
  }

  function makeRow(line, most) {
    const tr = element("tr"), node = nodes.get(line.node), cell = element("td"),
      names = element("td"), what = element("td"), fill = element("span", null, {
        class: line.difference_ns < 0 ? "fill less" : "fill more", "aria-hidden": "true" });
    fill.style.width = `${Math.max(1, 60 * Math.abs(line.difference_ns) / most)}px`;
    cell.append(fill, element("span", signed(line.difference_ns)));
    const b = button(node.f.shown, () => view.mark(node));
    b.title = line.path.join(" > ");
    if (node.above) names.append(element("span", path(node.above).join(" > ") + " > ",
      { class: "above" }));
    names.append(b);
    for (const p of parts(line)) what.append(element("div", `${signed(p.ns)} ${p.text}`));
    for (const text of valuesOf(line)) what.append(element("div", text, { class: "values" }));
    tr.append(cell, element("td", time(line.slow_ns)), element("td", time(line.usual_ns)),
      element("td", callsOf(line)), names, what);
    tr.addEventListener("click", e => {
      if (e.target.tagName !== "BUTTON") view.mark(node);
    });
    rows.set(line.node, { tr, b, node });
    return tr;
  }

  /* Takes the comparison with one slow call. */
  function use(comparison) {
    const head = element("tr");
    lines = comparison.nodes;
    sorted = lines.map(line => nodes.get(line.node));
    rows = new Map();
    for (const name of ["difference", "this call", "usually", "calls", "call path, itself",
      [...result.kernel ? ["what its thread did for longer"] : [],
        ...lines.some(line => line.values) ? ["values, usually -> in this call"] : []].join("; ")])
      head.append(element("th", name, { scope: "col" }));
    const most = Math.max(1, ...lines.map(line => Math.abs(line.difference_ns)));
    table.querySelector("caption").textContent =
      `What differs, largest first: ${signed(comparison.difference_ns)} in all. A line marks its ` +
      "bars in both calls.";
    $("values").textContent = values(comparison.slow);
    table.querySelector("thead").replaceChildren(head);
    table.querySelector("tbody").replaceChildren(...lines.map(line => makeRow(line, most)));
  }

  /* The values that the slow call has others of than the usual one. */
  function values(slow) {
    const usual = result.usual, names = new Set(
      [...Object.keys(slow.args || {}), ...Object.keys(usual.args || {})]), some = [];
    const add = (name, now, other) => {
      if (now !== other) some.push(`${name} ${now} (usually ${other})`);
    };
    for (const name of names)
      add(`${name} =`, own(slow.args, name), own(usual.args, name));
    add("returned", own(slow, "retval"), own(usual, "retval"));
    return some.length ? `Values that differ: ${some.join(", ")}` : "";
  }

  const own = (of, name) => of && Object.hasOwn(of, name) ? value(of[name]) : "unknown";

  /* Shows which line is marked, and which the search finds. */
  function draw(marked) {
    for (const { tr, b, node } of rows.values()) {
      b.setAttribute("aria-pressed", node === marked);
      tr.className = node === marked ? "marked" : "";
      tr.hidden = Boolean(matches) && !matches(node.f.name) && !matches(node.f.shown);
    }
  }

  function reveal(node) {
    const row = node && rows.get(node.id);
    if (row) row.tr.scrollIntoView({ block: "nearest" });
  }

  /* The next line, or the one before: its bars are marked. */
  function step(by) {
    const seen = sorted.filter(node => !rows.get(node.id).tr.hidden),
      now = seen.findIndex(node => rows.get(node.id).tr.className),
      to = seen[now < 0 ? (by > 0 ? 0 : seen.length - 1) : now + by];
    if (!to) return;
    view.mark(to);
    reveal(to);
  }

  return { use, draw, reveal, step, sentence };
})();

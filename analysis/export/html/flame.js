/* Call paths by their time, with callers above. With another trace: the same call paths, coloured
 * by the change of their time. */
const flame = (function () {
  const canvas = $("flame").querySelector("canvas"), ROW = 18;
  const compared = data.tree.width === 7, all = load(data.tree);
  /* the same of the time off the CPU, with what was waited for as leaves */
  const offCpu = data.waits ? load(data.waits.tree) : null;
  let { n, fn, parent, depth, calls, total, self, otherTotal, otherSelf, children } = all;
  /* from and to: what is visible of the focus, in shares of its width */
  let focus = 0, from = 0, to = 1, selected = 0, range = null, dragged = false, past = [];
  let left = new Float64Array(n), right = new Float64Array(n), visible = [];

  function load(tree) {
    const { nodes, width } = tree, n = nodes.length / width + 1;
    const fn = new Uint32Array(n), parent = new Uint32Array(n), depth = new Uint32Array(n);
    const calls = new Float64Array(n), total = new Float64Array(n), self = new Float64Array(n);
    const otherTotal = new Float64Array(n), otherSelf = new Float64Array(n);
    const children = Array.from({ length: n }, () => []);
    for (let i = 1, k = 0; i < n; i++, k += width) {
      /* an object of waits is -1 - its index */
      fn[i] = nodes[k] < 0
        ? nfunctions + Math.min(-1 - nodes[k], data.waits.objects.length - 1) : nodes[k];
      [parent[i], calls[i], total[i], self[i]] = nodes.slice(k + 1, k + 5);
      if (width === 7) [otherTotal[i], otherSelf[i]] = nodes.slice(k + 5, k + 7);
      depth[i] = depth[parent[i]] + 1;
      children[parent[i]].push(i);
      if (parent[i] === 0) {
        total[0] += total[i];
        otherTotal[0] += otherTotal[i];
      }
    }
    for (const list of children)
      list.sort((a, b) =>
        Math.max(total[b], otherTotal[b]) - Math.max(total[a], otherTotal[a]));
    tree.nodes = null;
    return { n, fn, parent, depth, calls, total, self, otherTotal, otherSelf, children,
      leftOut: tree.left_out };
  }

  const waiting = () => Boolean(offCpu) && $("flame-of").value === "off-cpu";

  /* Takes the tree that is chosen: all time, or that off the CPU. */
  function use() {
    ({ n, fn, parent, depth, calls, total, self, otherTotal, otherSelf, children } =
      waiting() ? offCpu : all);
    left = new Float64Array(n);
    right = new Float64Array(n);
    focus = selected = 0;
    from = 0;
    to = 1;
    past = [];
  }

  const size = i => $("widths").value === "other" && !waiting() ? otherTotal[i] : total[i];
  const name = i => i ? shown(fn[i]) : "all", whole = i => i ? functions[fn[i]].name : "all";
  /* the growth of its share of the time: 1 is all of the time */
  const change = i => total[i] / (total[0] || 1) - otherTotal[i] / (otherTotal[0] || 1);

  /* Finds the places of all calls below the focus that are wide enough to be seen. The callers of
   * the focus have the full width. */
  function lay(width) {
    visible = [];
    for (let i = focus; ; i = parent[i]) {
      left[i] = 0;
      right[i] = width;
      visible.push(i);
      if (i === 0) break;
    }
    left[focus] = -from / (to - from) * width;
    right[focus] = (1 - from) / (to - from) * width;
    const todo = [focus];
    while (todo.length) {
      const i = todo.pop();
      const sum = children[i].reduce((a, child) => a + size(child), 0),
        scale = (right[i] - left[i]) / (Math.max(size(i), sum) || 1);
      let x = left[i];
      for (const child of children[i]) {
        left[child] = x;
        right[child] = x += size(child) * scale;
        if (right[child] - left[child] < 0.4 || right[child] < 0 || left[child] > width)
          continue;
        visible.push(child);
        todo.push(child);
      }
    }
  }

  function draw() {
    const width = canvas.parentElement.clientWidth;
    lay(width || 1000);
    if (!width) {
      page.table(); /* stands in its place */
      return;
    }
    const deepest = visible.reduce((a, i) => Math.max(a, depth[i]), 0),
      diff = compared && !waiting() && $("diff").checked;
    canvas.style.width = width + "px";
    const c = context(canvas, width, (deepest + 1) * ROW + 4);
    const most =
      diff ? visible.reduce((a, i) => i ? Math.max(a, Math.abs(change(i))) : a, 1e-9) : 1;
    const soft = css("--soft");
    c.font = font;
    for (const i of visible) {
      const begin = Math.max(left[i], 0), w = Math.min(right[i], width) - begin,
        y = depth[i] * ROW, dim = matches && !(i && matches[fn[i]]);
      c.globalAlpha = (dim ? 0.25 : 1) * (i !== focus && depth[i] < depth[focus] ? 0.6 : 1);
      c.fillStyle = i === 0 ? "#bbbbbb" : diff ? difference(change(i) / most) : colours[fn[i]];
      c.fillRect(begin, y, Math.max(w - 0.5, 0.5), ROW - 1);
      if (w > 34) {
        const delta = 100 * change(i);
        const before = diff && i && Math.abs(delta) >= 0.05
          ? `${delta > 0 ? "+" : "−"}${Math.abs(delta).toFixed(1)} % ` : "",
          label = before + name(i);
        c.fillStyle = dim ? soft : "#111";
        c.globalAlpha = 1;
        /* its share of all, where there is room for it beside a name */
        const share = diff || !i ? "" : percent(size(i), size(0)),
          room = share ? c.measureText(share).width + 10 : 0, beside = w - 6 - room,
          both = share && (beside > 40 || c.measureText(label).width <= beside);
        c.fillText(fittedName(c, name(i), both ? beside : w - 6, before), begin + 3, y + 13);
        if (both) c.fillText(share, begin + w - room + 4, y + 13);
      }
      c.globalAlpha = 1;
      if (i === selected && i) {
        c.strokeStyle = css("--mark");
        c.lineWidth = 2;
        c.strokeRect(begin + 1, y + 1, Math.max(w - 2, 1), ROW - 3);
        c.lineWidth = 1;
      }
    }
    if (range) {
      c.fillStyle = css("--link");
      c.globalAlpha = 0.2;
      c.fillRect(Math.min(...range), 0, Math.abs(range[1] - range[0]), canvas.clientHeight);
      c.globalAlpha = 1;
    }
    document.body.dataset.focus = whole(focus);
    document.body.dataset.part = `${from.toFixed(4)} ${to.toFixed(4)}`;
    const leftOut = (waiting() ? offCpu : all).leftOut;
    $("flame-left").textContent = leftOut
      ? `${count(leftOut)} ways of calls that took the least are not shown` : "";
    document.body.dataset.of = waiting() ? "off-cpu" : "";
    page.table();
  }

  function at(e) {
    const d = Math.floor(e.offsetY / ROW);
    return visible.find(i =>
      depth[i] === d && e.offsetX >= left[i] && e.offsetX < Math.max(right[i], left[i] + 1));
  }

  function describe(i) {
    if (waiting())
      return `${time(total[i])} off the CPU, ${percent(total[i], total[0])} of all` +
        (fn[i] >= nfunctions ? `; ${plural(calls[i], "time")}` : "");
    let text = `${time(total[i])}, ${percent(total[i], total[0])} of all; ` +
      `${time(self[i])} of it itself; ${plural(calls[i], "call")}`;
    if (compared)
      text += `. Before: ${time(otherTotal[i])}, ` +
        `${percent(otherTotal[i], otherTotal[0])} of all; ${time(otherSelf[i])} itself`;
    return text;
  }

  function select(i, zoomTo) {
    selected = i;
    if (zoomTo && (focus !== i || from > 0 || to < 1)) {
      past.push([focus, from, to]);
      focus = i;
      from = 0;
      to = 1;
    }
    draw();
    page.remember();
    if (i) page.details(fn[i], describe(i), way(i)); else page.details();
  }

  /* Shows from a to b of what is visible, in shares of the focus. */
  function view(a, b) {
    const length = Math.min(1, Math.max(b - a, 1e-6));
    from = Math.min(Math.max(0, a), 1 - length);
    to = from + length;
    draw();
    page.remember();
  }

  function zoomOut() {
    [focus, from, to] = past.pop() || [0, 0, 1];
    if (depth[selected] < depth[focus]) selected = focus;
    draw();
    page.remember();
  }

  function way(i) {
    const names = [];
    for (let k = i; k; k = parent[k]) names.unshift(name(k));
    return names.length > 12
      ? [...names.slice(0, 5), "…", ...names.slice(-6)].join(" › ") : names.join(" › ");
  }

  let drag = null;
  canvas.addEventListener("pointerdown", e => {
    drag = e.button === 0 && e.pointerType !== "touch" ? e.offsetX : null;
    dragged = false;
    if (drag !== null) canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", e => {
    if (drag !== null && (range || Math.abs(e.offsetX - drag) > 4)) {
      range = [drag, Math.min(Math.max(0, e.offsetX), canvas.clientWidth)];
      tip(null);
      draw();
      return;
    }
    const i = at(e);
    tip(i ? whole(i) + "\n" + describe(i) : null, e);
  });
  canvas.addEventListener("pointerup", () => {
    drag = null;
    if (!range) return;
    const width = canvas.clientWidth, share = px => from + px / width * (to - from);
    const [a, b] = [share(Math.min(...range)), share(Math.max(...range))];
    range = null;
    dragged = true;
    past.push([focus, from, to]);
    view(a, b);
  });
  canvas.addEventListener("pointercancel", () => {
    drag = range = null;
    draw();
  });
  /* The first click of two has zoomed already: two clicks take that back, and zoom out. */
  canvas.addEventListener("click", e => {
    if (dragged) return;
    if (e.detail === 2) {
      if (pressed) [focus, from, to] = past.pop();
      pressed = false;
      zoomOut();
      return;
    }
    const i = at(e), before = past.length;
    if (i !== undefined) select(i, true);
    pressed = past.length > before;
  });
  canvas.addEventListener("pointerleave", () => tip(null));
  canvas.addEventListener("wheel", e => {
    if (!e.ctrlKey && !e.metaKey && !e.shiftKey) return; /* the page scrolls */
    e.preventDefault();
    const fixed = from + e.offsetX / canvas.clientWidth * (to - from),
      shift = (e.deltaX || e.deltaY) / canvas.clientWidth * (to - from);
    if (e.shiftKey) view(from + shift, to + shift); else scale(Math.exp(e.deltaY / 400), fixed);
  }, { passive: false });
  let pressed = false;
  const scale = (factor, fixed) =>
    view(fixed - (fixed - from) * factor, fixed + (to - fixed) * factor);
  $("flame-all").addEventListener("click", () => select(0, true));
  $("flame-out").addEventListener("click", zoomOut);
  for (const id of ["diff", "widths"]) $(id).addEventListener("change", draw);
  $("flame-diff").hidden = $("flame-widths").hidden = !compared;
  $("flame-waits").hidden = !offCpu;
  $("flame-of").addEventListener("change", () => {
    use();
    select(0, false);
  });

  /* The middle of what is selected, if that is visible; else of the view. */
  function middle() {
    const width = canvas.clientWidth, x = (left[selected] + right[selected]) / 2,
      there = selected && visible.includes(selected) && x > 0 && x < width;
    return there ? from + x / width * (to - from) : (from + to) / 2;
  }

  function key(pressedKey) {
    const siblings = children[parent[selected]], place = siblings.indexOf(selected);
    switch (pressedKey) {
      case "ArrowDown": if (children[selected].length) select(children[selected][0], false); break;
      case "ArrowUp":
        if (selected) {
          const up = parent[selected];
          if (depth[up] < depth[focus]) {
            focus = up;
            from = 0;
            to = 1;
          }
          select(up, false);
        }
        break;
      case "ArrowRight":
        if (selected && place + 1 < siblings.length) select(siblings[place + 1], false);
        break;
      case "ArrowLeft": if (selected && place > 0) select(siblings[place - 1], false); break;
      case "Enter": select(selected, true); break;
      case "+": case "=": case "w": scale(0.5, middle()); break;
      case "-": case "s": scale(2, middle()); break;
      case "a": view(from - (to - from) / 5, to - (to - from) / 5); break;
      case "d": view(from + (to - from) / 5, to + (to - from) / 5); break;
      case "Backspace": zoomOut(); break;
      case "0": case "Home": case "Escape":
        drag = range = null;
        select(0, true);
        break;
      default: return false;
    }
    return true;
  }

  /* Selects the call path of the function on which most of its time was spent. */
  function show(wanted) {
    let best = 0;
    for (let i = 1; i < n; i++)
      if (fn[i] === wanted && (!best || total[i] > total[best])) best = i;
    if (best) select(best, true);
    return best !== 0;
  }

  /* The time of the calls of these functions, each moment once: calls inside of others are not
   * counted again. */
  function inclusive(matching) {
    const { n, fn, parent, total } = all, inside = new Uint8Array(n);
    let sum = 0;
    for (let i = 1; i < n; i++) {
      inside[i] = inside[parent[i]] || matching[fn[i]];
      if (matching[fn[i]] && !inside[parent[i]]) sum += total[i];
    }
    return { time: sum, all: total[0], atLeast: all.leftOut > 0 };
  }

  function table() {
    const wide = canvas.parentElement.clientWidth || 1000, rows = [];
    const list = new Set(visible
      .filter(i => i && (depth[i] < depth[focus] || right[i] > 0 && left[i] < wide))
      .sort((a, b) => size(b) - size(a)).slice(0, 500));
    const walk = [0];
    while (walk.length) {
      const i = walk.pop();
      if (list.has(i))
        rows.push({
          cells: [depth[i], name(i), percent(size(i), size(0)), time(size(i)), time(self[i]),
            count(calls[i])], fn: fn[i], level: depth[i], run: () => select(i, true) });
      for (let k = children[i].length; k--;)
        if (depth[i] < depth[focus] ? list.has(children[i][k]) : true) walk.push(children[i][k]);
    }
    return {
      caption: "Ways of calls" + (waiting() ? " off the CPU" : "") +
        (focus ? " by " + whole(focus) : "") +
        (visible.length > 501 ? ", the heaviest 500 of those that are visible" : ""),
      head: ["depth", "function", "of all", "total", "self", "calls"], rows };
  }

  function state() {
    const now = waiting() ? { of: "off-cpu" } : {};
    if (focus) now.node = focus;
    if (from > 0 || to < 1) now.part = `${from.toFixed(6)}-${to.toFixed(6)}`;
    return now;
  }

  function restore(params) {
    $("flame-of").value = offCpu && params.get("of") === "off-cpu" ? "off-cpu" : "all";
    use();
    const node = Number(params.get("node") || 0),
      part = /^([01]\.\d{6})-([01]\.\d{6})$/.exec(params.get("part") || "");
    focus = selected = Number.isInteger(node) && node > 0 && node < n ? node : 0;
    from = 0;
    to = 1;
    if (part) view(Number(part[1]), Number(part[2])); else draw();
    if (focus) page.details(fn[focus], describe(focus), way(focus)); else page.details();
  }

  return { draw, key, canvas, show, inclusive, table, state, restore };
})();

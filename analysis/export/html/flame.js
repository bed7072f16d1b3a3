/* Call paths by their time, with callers above. With another trace: the same call paths, coloured
 * by the change of their time. */
const flame = (function () {
  const canvas = $("flame").querySelector("canvas"), ROW = 18;
  const nodes = data.tree.nodes, W = data.tree.width, n = nodes.length / W + 1, compared = W === 7;
  const fn = new Uint32Array(n), parent = new Uint32Array(n), depth = new Uint32Array(n);
  const calls = new Float64Array(n), total = new Float64Array(n), self = new Float64Array(n);
  const otherTotal = new Float64Array(n), otherSelf = new Float64Array(n);
  const children = Array.from({ length: n }, () => []);
  let focus = 0, selected = 0, left = new Float64Array(n), right = new Float64Array(n), shown = [];

  for (let i = 1, k = 0; i < n; i++, k += W) {
    [fn[i], parent[i], calls[i], total[i], self[i]] = nodes.slice(k, k + 5);
    if (compared) [otherTotal[i], otherSelf[i]] = nodes.slice(k + 5, k + 7);
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
  data.tree.nodes = null;

  const size = i => $("widths").value === "other" ? otherTotal[i] : total[i];
  const name = i => i ? functions[fn[i]].name : "all";
  /* the growth of its share of the time: 1 is all of the time */
  const change = i => total[i] / (total[0] || 1) - otherTotal[i] / (otherTotal[0] || 1);

  /* Finds the places of all calls below the focus that are wide enough to be seen. The callers of
   * the focus have the full width. */
  function lay(width) {
    shown = [];
    for (let i = focus; ; i = parent[i]) {
      left[i] = 0;
      right[i] = width;
      shown.push(i);
      if (i === 0) break;
    }
    const todo = [focus];
    while (todo.length) {
      const i = todo.pop();
      const sum = children[i].reduce((a, child) => a + size(child), 0),
        scale = (right[i] - left[i]) / (Math.max(size(i), sum) || 1);
      let x = left[i];
      for (const child of children[i]) {
        left[child] = x;
        right[child] = x += size(child) * scale;
        if (right[child] - left[child] < 0.4) continue;
        shown.push(child);
        todo.push(child);
      }
    }
  }

  function draw() {
    const width = canvas.parentElement.clientWidth;
    if (!width) return;
    lay(width);
    const deepest = shown.reduce((a, i) => Math.max(a, depth[i]), 0),
      diff = compared && $("diff").checked;
    canvas.style.width = width + "px";
    const c = context(canvas, width, (deepest + 1) * ROW + 4);
    const most =
      diff ? shown.reduce((a, i) => i ? Math.max(a, Math.abs(change(i))) : a, 1e-9) : 1;
    const soft = css("--soft");
    c.font = font;
    for (const i of shown) {
      const w = right[i] - left[i], y = depth[i] * ROW, dim = matches && !(i && matches[fn[i]]);
      c.globalAlpha = (dim ? 0.25 : 1) * (i !== focus && depth[i] < depth[focus] ? 0.6 : 1);
      c.fillStyle = i === 0 ? "#bbbbbb" : diff ? difference(change(i) / most) : colours[fn[i]];
      c.fillRect(left[i], y, Math.max(w - 0.5, 0.5), ROW - 1);
      if (w > 34) {
        const delta = 100 * change(i);
        const label = diff && i && Math.abs(delta) >= 0.05
          ? `${delta > 0 ? "+" : "−"}${Math.abs(delta).toFixed(1)} % ${name(i)}` : name(i);
        c.fillStyle = dim ? soft : "#111";
        c.globalAlpha = 1;
        c.fillText(fitted(c, label, w - 6), left[i] + 3, y + 13);
      }
      c.globalAlpha = 1;
      if (i === selected && i) {
        c.strokeStyle = css("--mark");
        c.lineWidth = 2;
        c.strokeRect(left[i] + 1, y + 1, Math.max(w - 2, 1), ROW - 3);
        c.lineWidth = 1;
      }
    }
    document.body.dataset.focus = name(focus);
    $("flame-left").textContent = data.tree.left_out
      ? `${count(data.tree.left_out)} ways of calls that took the least are not shown` : "";
  }

  function at(e) {
    const d = Math.floor(e.offsetY / ROW);
    return shown.find(i =>
      depth[i] === d && e.offsetX >= left[i] && e.offsetX < Math.max(right[i], left[i] + 1));
  }

  function describe(i) {
    let text = `${time(total[i])}, ${percent(total[i], total[0])} of all; ` +
      `${time(self[i])} of it itself; ${plural(calls[i], "call")}`;
    if (compared)
      text += `. Before: ${time(otherTotal[i])}, ` +
        `${percent(otherTotal[i], otherTotal[0])} of all; ${time(otherSelf[i])} itself`;
    return text;
  }

  function select(i, zoomTo) {
    selected = i;
    if (zoomTo) focus = i;
    draw();
    if (i) page.details(fn[i], describe(i), way(i)); else page.details();
  }

  function way(i) {
    const names = [];
    for (let k = i; k; k = parent[k]) names.unshift(name(k));
    return names.length > 12
      ? [...names.slice(0, 5), "…", ...names.slice(-6)].join(" › ") : names.join(" › ");
  }

  canvas.addEventListener("click", e => {
    const i = at(e);
    if (i !== undefined) select(i, true);
  });
  canvas.addEventListener("pointermove", e => {
    const i = at(e);
    page.tip(i ? name(i) + "\n" + describe(i) : null, e);
  });
  canvas.addEventListener("pointerleave", () => page.tip(null));
  $("flame-all").addEventListener("click", () => select(0, true));
  for (const id of ["diff", "widths"]) $(id).addEventListener("change", draw);
  $("flame-diff").hidden = $("flame-widths").hidden = !compared;

  function key(pressed) {
    const siblings = children[parent[selected]], place = siblings.indexOf(selected);
    switch (pressed) {
      case "ArrowDown": if (children[selected].length) select(children[selected][0], false); break;
      case "ArrowUp":
        if (selected) {
          const up = parent[selected];
          if (depth[up] < depth[focus]) focus = up;
          select(up, false);
        }
        break;
      case "ArrowRight":
        if (selected && place + 1 < siblings.length) select(siblings[place + 1], false);
        break;
      case "ArrowLeft": if (selected && place > 0) select(siblings[place - 1], false); break;
      case "Enter": select(selected, true); break;
      case "0": case "Escape": select(0, true); break;
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

  return { draw, key, canvas, show };
})();

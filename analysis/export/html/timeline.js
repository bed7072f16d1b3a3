/* Calls of each thread over time. A stay (the time of a call on the stack) that is at least a pixel
 * wide is drawn by itself; of the shorter ones one is drawn for each pixel. Behind them are the
 * sums of short stays: a sum is as high as the share of time that they took. */
const timeline = (function () {
  const canvas = $("timeline").querySelector("canvas");
  const ROW = 16, HEAD = 20, AXIS = 24, duration = Math.max(1, meta.duration);
  const slice = duration / data.timeline.slices;
  let from = 0, to = duration, top = 0, selected = null, drawn = false;

  /* threads: rows by depth; each row has typed arrays, in order of time */
  const threads = [];
  {
    const byKey = new Map();
    for (const r of data.timeline.rows) {
      const key = r.pid + ":" + r.tid, n = r.stays.length / 3;
      let t = byKey.get(key);
      if (!t) {
        byKey.set(key, t = { pid: r.pid, tid: r.tid, name: r.name, rows: [], busy: null });
        threads.push(t);
      }
      const row = {
        thread: t, depth: r.depth, n, start: new Float64Array(n), length: new Float64Array(n),
        fn: new Uint32Array(n), sums: [] };
      for (let i = 0, at = 0; i < n; i++) {
        row.start[i] = at += r.stays[3 * i];
        row.length[i] = r.stays[3 * i + 1];
        row.fn[i] = r.stays[3 * i + 2];
      }
      for (let i = 0; i < r.sums.length; i += 4)
        row.sums.push({
          slice: r.sums[i], covered: r.sums[i + 1], calls: r.sums[i + 2], fn: r.sums[i + 3] });
      /* where outermost calls are missing, the time in calls is not known */
      if (r.depth === 0 && !meta.selected)
        t.busy += row.length.reduce((a, b) => a + b, 0) +
          row.sums.reduce((a, s) => a + s.covered, 0);
      t.rows.push(row);
    }
    threads.sort((a, b) =>
      a.pid - b.pid || (a.tid === a.pid ? -1 : b.tid === b.pid ? 1 : a.tid - b.tid));
    let y = 0;
    for (const t of threads) {
      t.rows.sort((a, b) => a.depth - b.depth);
      t.y = y;
      t.depths = 1 + Math.max(...t.rows.map(r => r.depth));
      y += HEAD + t.depths * ROW + 6;
    }
    threads.height = y;
  }
  data.timeline = null;

  const width = () => canvas.clientWidth, height = () => canvas.clientHeight;
  const x = ns => (ns - from) / (to - from) * width();
  const ns = px => from + px / width() * (to - from);

  /* Returns the index of the first stay of a row that ends at or after time t. */
  function first(row, t) {
    let lo = 0, hi = row.n;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (row.start[mid] + row.length[mid] < t) lo = mid + 1; else hi = mid;
    }
    return lo;
  }

  function box(c, left, right, y, fn, alpha) {
    c.globalAlpha = alpha * (matches && !matches[fn] ? 0.2 : 1);
    c.fillStyle = colours[fn];
    c.fillRect(left, y, Math.max(1, right - left), ROW - 1);
    c.globalAlpha = 1;
  }

  function drawRow(c, row, y, w, soft) {
    for (const s of row.sums) {
      const left = x(s.slice * slice), right = x((s.slice + 1) * slice);
      if (right < 0 || left > w) continue;
      const h = Math.max(2, (ROW - 1) * Math.min(1, s.covered / slice));
      c.globalAlpha = matches && !matches[s.fn] ? 0.12 : 0.55;
      c.fillStyle = colours[s.fn];
      c.fillRect(left, y + ROW - 1 - h, Math.max(1, right - left), h);
      c.globalAlpha = 1;
    }
    const scale = w / (to - from);
    let last = -1;
    for (let i = first(row, from); i < row.n && row.start[i] <= to; i++) {
      const left = (row.start[i] - from) * scale, right = left + row.length[i] * scale;
      if (right - left < 1) {
        /* of the stays within a pixel the first is drawn, and each that matches the search */
        const pixel = Math.floor(left);
        if (pixel === last && !(matches && matches[row.fn[i]])) continue;
        last = pixel;
      }
      box(c, Math.max(left, -1), Math.min(right, w + 1), y, row.fn[i], 1);
      const visible = Math.min(right, w) - Math.max(left, 0);
      if (visible > 30) {
        c.fillStyle = matches && !matches[row.fn[i]] ? soft : "#111";
        c.fillText(fitted(c, functions[row.fn[i]].name, visible - 6),
          Math.max(left, 0) + 3, y + 11.5);
      }
    }
  }

  function drawAxis(c, w) {
    const wanted = (to - from) / Math.max(2, w / 120),
      power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map(k => k * power).find(s => s >= wanted);
    c.fillStyle = css("--back");
    c.fillRect(0, 0, w, AXIS);
    c.fillStyle = css("--soft");
    c.strokeStyle = css("--line");
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      c.beginPath();
      c.moveTo(x(t), 16);
      c.lineTo(x(t), AXIS);
      c.stroke();
      /* where the view is narrow, times count from its left end */
      c.fillText(to - from < from / 1e4 ? "+" + time(t - from) : time(t), x(t) + 3, 14);
    }
  }

  function draw() {
    const w = width(), h = height();
    if (!w || !h) return;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
    const c = canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.font = font;
    top = Math.max(0, Math.min(top, threads.height - h + AXIS + 8));
    const soft = css("--soft");
    for (const t of threads) {
      const y = AXIS + t.y - top;
      if (y > h || y + HEAD + t.depths * ROW < 0) continue;
      c.fillStyle = soft;
      c.fillText(`${t.name || "thread"} ${t.tid}${t.pid !== t.tid ? " of " + t.pid : ""}` +
        `${t.busy === null ? "" : `   ${percent(t.busy, duration)} in calls`}`, 4, y + 14);
      for (const row of t.rows)
        if (y + HEAD + (row.depth + 1) * ROW > 0 && y + HEAD + row.depth * ROW < h)
          drawRow(c, row, y + HEAD + row.depth * ROW, w, soft);
    }
    if (selected) {
      const y = AXIS + selected.row.thread.y - top + HEAD + selected.row.depth * ROW;
      c.strokeStyle = css("--mark");
      c.lineWidth = 2;
      c.strokeRect(x(selected.start), y,
        Math.max(2, x(selected.start + selected.length) - x(selected.start)), ROW - 1);
      c.lineWidth = 1;
    }
    drawAxis(c, w);
    drawn = true;
    document.body.dataset.from = Math.round(from);
    document.body.dataset.to = Math.round(to);
  }

  function view(a, b) {
    const length = Math.min(Math.max(b - a, 10), duration);
    from = Math.min(Math.max(0, a), duration - length);
    to = from + length;
    draw();
  }

  function zoom(factor, at) {
    const fixed = at === undefined ? (from + to) / 2 : at;
    view(fixed - (fixed - from) * factor, fixed + (to - fixed) * factor);
  }

  /* Returns the stay at a place; else the sum there; else null. */
  function at(px, py) {
    const y = py - AXIS + top,
      t = threads.find(one => y >= one.y + HEAD && y < one.y + HEAD + one.depths * ROW);
    if (!t || py < AXIS) return null;
    const depth = Math.floor((y - t.y - HEAD) / ROW), when = ns(px), slack = (to - from) / width();
    for (const row of t.rows.filter(one => one.depth === depth)) {
      const i = first(row, when - slack);
      if (i < row.n && row.start[i] <= when + slack) return stay(row, i);
      const s = row.sums.find(one => one.slice === Math.floor(when / slice));
      if (s) return { row, sum: s, fn: s.fn, start: s.slice * slice, length: slice };
    }
    return null;
  }

  const stay = (row, i) => ({
    row, index: i, fn: row.fn[i], start: row.start[i], length: row.length[i] });

  function describe(it) {
    const f = functions[it.fn];
    return it.sum
      ? `${plural(it.sum.calls, "short call")} begin here, ` +
        `${time(it.sum.covered)} together, most of it in ${f.name}`
      : `${f.name}\n${time(it.length)}`;
  }

  function select(it, zoomTo) {
    selected = it;
    if (it && zoomTo) {
      const margin = it.length / 8 || 1;
      from = it.start - margin;
      to = it.start + it.length + margin;
    }
    if (it) {
      const y = it.row.thread.y + HEAD + it.row.depth * ROW;
      if (y < top || y + ROW > top + height() - AXIS) top = y - height() / 3;
    }
    view(from, to);
    if (!it) {
      page.details();
      return;
    }
    const thread = it.row.thread;
    page.details(it.fn,
      it.sum ? describe(it) + `, between ${time(it.start)} and ${time(it.start + it.length)}`
        : `${time(it.length)}, from ${time(it.start)} on, at depth ${it.row.depth}`,
      `${thread.name || "thread"} ${thread.tid}`);
  }

  /* Selects the next stay that matches the search, by time and then by depth. direction -1: the
   * stay before. */
  function next(direction) {
    const now = selected ? selected.start : direction > 0 ? -1 : Infinity,
      depthNow = selected ? selected.row.depth : -1;
    let best = null;
    if (!matches) return;
    for (const t of threads)
      for (const row of t.rows)
        for (let i = 0; i < row.n; i++) {
          if (!matches[row.fn[i]] || selected && row === selected.row && i === selected.index)
            continue;
          const ahead = direction * (row.start[i] - now) || direction * (row.depth - depthNow);
          if (ahead > 0 && (!best || direction * (row.start[i] - best.start) < 0))
            best = stay(row, i);
        }
    if (best) {
      if (best.start + best.length < from || best.start > to)
        view(best.start - (to - from) / 2, best.start + (to - from) / 2);
      select(best, false);
    }
  }

  let drag = null;
  canvas.addEventListener("pointerdown", e => {
    drag = { x: e.offsetX, y: e.offsetY, from, to, top, moved: false };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", e => {
    if (!drag) {
      const it = at(e.offsetX, e.offsetY);
      page.tip(it && describe(it), e);
      return;
    }
    drag.moved = drag.moved || Math.abs(e.offsetX - drag.x) + Math.abs(e.offsetY - drag.y) > 4;
    if (!drag.moved) return;
    const shift = (drag.x - e.offsetX) / width() * (drag.to - drag.from);
    top = drag.top + drag.y - e.offsetY;
    view(drag.from + shift, drag.to + shift);
  });
  canvas.addEventListener("pointerup", e => {
    if (drag && !drag.moved) select(at(e.offsetX, e.offsetY), false);
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => page.tip(null));
  canvas.addEventListener("dblclick", e => select(at(e.offsetX, e.offsetY), true));
  canvas.addEventListener("wheel", e => {
    e.preventDefault();
    if (e.ctrlKey || e.metaKey) zoom(Math.exp(e.deltaY / 400), ns(e.offsetX));
    else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      const shift = (e.deltaX || e.deltaY) / width() * (to - from);
      view(from + shift, to + shift);
    } else {
      top += e.deltaY;
      draw();
    }
  }, { passive: false });

  function key(name) {
    const shift = (to - from) / 5;
    switch (name) {
      case "+": case "=": case "w": zoom(0.5); break;
      case "-": case "s": zoom(2); break;
      case "ArrowLeft": case "a": view(from - shift, to - shift); break;
      case "ArrowRight": case "d": view(from + shift, to + shift); break;
      case "ArrowUp": top -= 3 * ROW; draw(); break;
      case "ArrowDown": top += 3 * ROW; draw(); break;
      case "0": case "Home": view(0, duration); break;
      case "n": next(1); break;
      case "N": next(-1); break;
      case "Enter": if (selected) select(selected, true); break;
      case "Escape": select(null); view(0, duration); break;
      default: return false;
    }
    return true;
  }

  return { draw, key, canvas, threads, drawn: () => drawn };
})();

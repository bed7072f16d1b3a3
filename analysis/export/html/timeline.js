/* Calls of each thread over time. A stay (the time of a call on the stack) that is at least a pixel
 * wide is drawn by itself; of the shorter ones one is drawn for each pixel. Where the details of
 * short stays are not there, their sums are: a sum is as high as the share of time that they
 * took. */
const timeline = (function () {
  const canvas = $("timeline").querySelector("canvas");
  const ROW = 16, HEAD = 20, AXIS = 26, duration = Math.max(1, meta.duration);
  const slice = duration / data.timeline.slices;
  let from = 0, to = duration, top = 0, selected = null, drawn = false, range = null, sought = "";
  let bar = null; /* the state, system call or interrupt that is selected */
  const past = []; /* views before each zoom by mouse or Enter */

  /* threads: rows by depth; each row has typed arrays, in order of time */
  const threads = [], processes = [];
  {
    const byKey = new Map(), all = [];
    for (const r of data.timeline.rows) {
      const key = r.pid + ":" + r.tid, n = r.stays.length / 3;
      let t = byKey.get(key);
      if (!t) {
        byKey.set(key, t = { key, pid: r.pid, tid: r.tid, name: r.name, process: r.process,
          rows: [], busy: null });
        threads.push(t);
      }
      const row = {
        number: all.length, thread: t, depth: r.depth, n, start: new Float64Array(n),
        length: new Float64Array(n), fn: new Uint32Array(n), sums: [], parts: [] };
      all.push(row);
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
    const several = new Set(threads.map(t => t.pid)).size > 1;
    let y = 0;
    for (const t of threads) {
      if (several && (!processes.length || processes[processes.length - 1].pid !== t.pid)) {
        processes.push({ pid: t.pid, name: t.process || "", y, threads: 0 });
        y += HEAD;
      }
      if (several) processes[processes.length - 1].threads++;
      t.rows.sort((a, b) => a.depth - b.depth);
      t.y = y;
      t.depths = 1 + Math.max(...t.rows.map(r => r.depth));
      t.below = waits ? waits.height(t.key) : 0; /* states and system calls */
      y += HEAD + t.depths * ROW + t.below + 6;
    }
    threads.height = y;
    shortCalls.connect(all, () => { seek(); draw(); });
  }
  data.timeline = null;

  const width = () => canvas.clientWidth, height = () => canvas.clientHeight;
  const x = ns => (ns - from) / (to - from) * width();
  const ns = px => from + px / width() * (to - from);
  const title = t => `${t.name || "thread"} ${t.tid}` +
    (t.pid !== t.tid && !processes.length ? ` of ${t.pid}` : "");

  /* Returns the index of the first stay of a row, or of a part of it, that ends at or after t. */
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

  function drawStays(c, row, y, w, soft) {
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
      box(c, Math.max(left, -1), Math.min(right, w + 1) - (right - left > 3 ? 0.5 : 0), y,
        row.fn[i], 1);
      const visible = Math.min(right, w) - Math.max(left, 0);
      if (visible > 30) {
        c.fillStyle = matches && !matches[row.fn[i]] ? soft : "#111";
        c.fillText(fittedName(c, shown(row.fn[i]), visible - 6), Math.max(left, 0) + 3, y + 11.5);
      }
    }
  }

  function drawRow(c, row, y, w, soft, seen) {
    for (const s of row.sums) {
      const begin = s.slice * slice, end = begin + slice;
      if (end < from || begin > to) continue;
      const h = Math.max(2, (ROW - 1) * Math.min(1, s.covered / slice));
      c.globalAlpha = matches && !matches[s.fn] ? 0.12 : 0.55;
      c.fillStyle = colours[s.fn];
      for (const [a, b] of seen.gaps) {
        if (b < begin || a > end) continue;
        const left = x(Math.max(a, begin)), right = x(Math.min(b, end));
        c.fillRect(left, y + ROW - 1 - h, Math.max(1, right - left), h);
      }
      c.globalAlpha = 1;
    }
    if (seen.open) for (const part of row.parts) drawStays(c, part, y, w, soft);
    drawStays(c, row, y, w, soft);
  }

  function drawAxis(c, w) {
    const { marks, base } = axis(meta.begin + from, meta.begin + to, w / 120);
    c.fillStyle = css("--back");
    c.fillRect(0, 0, w, AXIS);
    c.fillStyle = css("--soft");
    c.strokeStyle = css("--line");
    let free = 0;
    if (base) {
      c.fillStyle = css("--front");
      c.fillText(base, 4, 14);
      free = c.measureText(base).width + 14;
      c.fillStyle = css("--soft");
    }
    for (const mark of marks) {
      const at = x(mark.at - meta.begin);
      c.beginPath();
      c.moveTo(at, 16);
      c.lineTo(at, AXIS - 3);
      c.stroke();
      if (at + 3 >= free) c.fillText(mark.text, at + 3, 14);
    }
    /* where the page has details, if it does not have all of them */
    c.fillStyle = css("--bar");
    for (const [a, b] of shortCalls.known())
      if (b >= from && a <= to) c.fillRect(x(a), AXIS - 3, Math.max(1, x(b) - x(a)), 2);
  }

  function draw() {
    const w = width(), h = height();
    if (!w || !h) {
      page.table(); /* stands in its place */
      return;
    }
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
    const c = canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.font = font;
    top = Math.max(0, Math.min(top, threads.height - h + AXIS + 8));
    const soft = css("--soft"), seen = shortCalls.look(from, to);
    for (const p of processes) {
      const y = AXIS + p.y - top;
      if (y > h || y + HEAD < 0) continue;
      c.fillStyle = css("--panel");
      c.fillRect(0, y + 2, w, HEAD - 2);
      c.fillStyle = css("--front");
      c.fillText(`process ${p.pid}${p.name ? " " + p.name : ""}   ` +
        plural(p.threads, "thread"), 4, y + 15);
    }
    for (const t of threads) {
      const y = AXIS + t.y - top;
      if (y > h || y + HEAD + t.depths * ROW + t.below < 0) continue;
      c.fillStyle = soft;
      c.fillText(title(t) + (t.busy === null ? "" : `   ${percent(t.busy, duration)} in calls`),
        4, y + 14);
      for (const row of t.rows)
        if (y + HEAD + (row.depth + 1) * ROW > 0 && y + HEAD + row.depth * ROW < h)
          drawRow(c, row, y + HEAD + row.depth * ROW, w, soft, seen);
      if (t.below) waits.draw(c, t.key, y + HEAD + t.depths * ROW, w, from, to);
    }
    if (waits) drawWaits(c, w, h);
    if (selected) {
      const y = AXIS + selected.row.thread.y - top + HEAD + selected.row.depth * ROW;
      c.strokeStyle = css("--mark");
      c.lineWidth = 2;
      c.strokeRect(x(selected.start), y,
        Math.max(2, x(selected.start + selected.length) - x(selected.start)), ROW - 1);
      c.lineWidth = 1;
    }
    drawAxis(c, w);
    if (range) {
      const left = Math.min(...range), right = Math.max(...range);
      c.fillStyle = css("--link");
      c.globalAlpha = 0.2;
      c.fillRect(left, 0, right - left, h);
      c.globalAlpha = 1;
      c.fillText(time(ns(right) - ns(left)), left + 4, AXIS + 12);
    }
    drawn = true;
    $("timeline-seen").textContent =
      `${time(to - from)} from ${when(from, to - from)} on; ${seen.text}`;
    $("nearest").hidden = !seen.none || !shortCalls.nearest(from);
    $("timeline-seen").title = $("timeline-seen").textContent;
    $("lane").value = (visibleThread() || threads[0] || {}).key;
    document.body.dataset.from = Math.round(from);
    document.body.dataset.to = Math.round(to);
    document.body.dataset.seen = shortCalls.waits() ? "" : seen.text;
    page.table();
  }

  /* Who woke whom, and the bar that is selected. */
  function drawWaits(c, w, h) {
    const below = t => AXIS + t.y - top + HEAD + t.depths * ROW;
    const seen = threads.filter(t => below(t) + t.below > AXIS && below(t) < h),
      places = new Map(seen.map(t => [t.tid, below(t)]));
    document.body.dataset.arrows = waits.drawArrows(c, seen.map(t => t.key),
      tid => places.has(tid) ? places.get(tid) : null, w, from, to);
    if (!bar) return;
    c.strokeStyle = css("--mark");
    c.lineWidth = 2;
    c.strokeRect(x(bar.start), below(bar.thread),
      Math.max(2, x(bar.start + bar.length) - x(bar.start)), bar.thread.below - 4);
    c.lineWidth = 1;
  }

  function view(a, b) {
    const length = Math.min(Math.max(b - a, 10), duration);
    from = Math.min(Math.max(0, a), duration - length);
    to = from + length;
    draw();
    page.remember();
  }

  function zoom(factor, at) {
    const fixed = at === undefined ? (from + to) / 2 : at;
    view(fixed - (fixed - from) * factor, fixed + (to - fixed) * factor);
  }

  function zoomTo(a, b) {
    past.push([from, to]);
    view(a, b);
  }

  function zoomOut() {
    view(...(past.pop() || [0, duration]));
  }

  /* Moves to the nearest time of which the page has details, and makes it fill the view. */
  function goToDetails() {
    const span = shortCalls.nearest((from + to) / 2);
    if (!span) return;
    const middle = Math.min(Math.max((from + to) / 2, span.from), span.to),
      length = Math.min(to - from, span.to - span.from),
      start = Math.min(Math.max(middle - length / 2, span.from), span.to - length);
    zoomTo(start, start + length);
  }

  /* Returns the stay at a place; else the sum there; else null. */
  function at(px, py) {
    const y = py - AXIS + top, t = threads.find(one =>
      y >= one.y + HEAD && y < one.y + HEAD + one.depths * ROW + one.below);
    if (!t || py < AXIS) return null;
    const dy = y - t.y - HEAD - t.depths * ROW;
    if (dy >= 0) {
      const found = waits.at(t.key, dy, ns(px), (to - from) / width());
      return found && { ...found, thread: t, bar: true };
    }
    const depth = Math.floor((y - t.y - HEAD) / ROW), when = ns(px), slack = (to - from) / width(),
      seen = shortCalls.look(from, to);
    for (const row of t.rows.filter(one => one.depth === depth)) {
      for (const some of [row, ...(seen.open ? row.parts : [])]) {
        const i = first(some, when - slack);
        if (i < some.n && some.start[i] <= when + slack) return stay(row, some, i);
      }
      const s = seen.gaps.some(([a, b]) => when >= a && when <= b) &&
        row.sums.find(one => one.slice === Math.floor(when / slice));
      if (s) return { row, sum: s, fn: s.fn, start: s.slice * slice, length: slice };
    }
    return null;
  }

  const stay = (row, some, i) => ({
    row, fn: some.fn[i], start: some.start[i], length: some.length[i] });
  const visibleThread = () => threads.find(t => t.y + HEAD + t.depths * ROW + t.below > top);
  const same = (a, b) => a && b && a.row === b.row && a.start === b.start && a.fn === b.fn;

  function describe(it) {
    if (it.bar) return `${it.title}\n${time(it.length)}${it.text ? "\n" + it.text : ""}`;
    const f = functions[it.fn];
    return it.sum
      ? `${plural(it.sum.calls, "short call")} begin here, ` +
        `${time(it.sum.covered)} together, most of it in ${f.name}`
      : `${f.name}\n${time(it.length)}`;
  }

  function select(it, zoomed) {
    bar = it && it.bar ? it : null;
    selected = bar ? null : it;
    if (it) {
      const t = bar ? it.thread : it.row.thread,
        y = t.y + HEAD + (bar ? t.depths : it.row.depth) * ROW;
      if (y < top || y + (bar ? t.below : ROW) > top + height() - AXIS) top = y - height() / 3;
    }
    const margin = it && zoomed ? it.length / 8 || 1 : 0;
    if (it && zoomed) zoomTo(it.start - margin, it.start + it.length + margin);
    else view(from, to);
    if (!it) {
      page.details();
      return;
    }
    if (bar) {
      page.note(it.title, `${time(it.length)}, from ${when(it.start, it.length)} on` +
        (it.text ? `; ${it.text}` : ""), title(it.thread));
      return;
    }
    const thread = it.row.thread;
    page.details(it.fn,
      it.sum ? describe(it) + `, between ${when(it.start, slice)} and ` +
        when(it.start + slice, slice)
        : `${time(it.length)}, from ${when(it.start, it.length)} on, at depth ${it.row.depth}`,
      title(thread), waits && waits.sentence(thread.key, it.start, it.length));
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
        for (const some of [row, ...row.parts])
          for (let i = 0; i < some.n; i++) {
            if (!matches[some.fn[i]]) continue;
            const one = some.start[i],
              ahead = direction * (one - now) || direction * (row.depth - depthNow);
            if (ahead > 0 && (!best || direction * (one - best.start) < 0) &&
                !same(selected, stay(row, some, i)))
              best = stay(row, some, i);
          }
    if (best) reveal(best);
  }

  /* Selects the next wait of the thread of what is selected, or the one before; direction -1. */
  function nextWait(direction) {
    const t = bar ? bar.thread : selected ? selected.row.thread : visibleThread(),
      now = bar ? bar.start : selected ? selected.start : direction > 0 ? from - 1 : to;
    const found = waits && t && waits.next(t.key, now, direction);
    if (found) reveal({ ...found, thread: t, bar: true });
  }

  function reveal(it) {
    if (it.start + it.length < from || it.start > to) {
      const length = to - from;
      from = Math.min(Math.max(0, it.start - length / 2), duration - length);
      to = from + length;
    }
    select(it, false);
  }

  /* Selects the neighbour of what is selected: the call before or behind it, its caller, or the
   * first call that it makes. Where nothing is selected, the first visible call. */
  function step(where) {
    const open = shortCalls.look(from, to).open;
    const calls = row => [row, ...(open ? row.parts : [])];
    const pick = (row, good, better) => {
      let best = null;
      for (const some of row ? calls(row) : [])
        for (let i = Math.max(0, first(some, good.from) - 1); i < some.n; i++) {
          const it = stay(row, some, i);
          if (it.start > good.to) break;
          if (good.fits(it) && (!best || better(it, best))) best = it;
        }
      return best;
    };
    const early = (a, b) => a.start < b.start, late = (a, b) => a.start > b.start;
    let it = null;
    if (!selected) {
      const t = visibleThread();
      for (const row of t ? t.rows : [])
        it = it || pick(row, { from, to, fits: s => s.start + s.length >= from }, early);
    } else {
      const { row, start, length } = selected, end = start + length;
      const near = row.thread.rows.filter(r => r.depth === row.depth + (
        where === "caller" ? -1 : where === "callee" ? 1 : 0));
      for (const r of near) {
        const found =
          where === "next" ? pick(r, { from: end, to: Infinity, fits: s =>
            s.start >= end && s.start > start }, early)
          : where === "before" ? pick(r, { from: 0, to: start, fits: s => s.start < start }, late)
          : where === "caller" ? pick(r, { from: start, to: start, fits: s =>
            s.start <= start && s.start + s.length >= end }, late)
          : pick(r, { from: start, to: end, fits: s =>
            s.start >= start && s.start + s.length <= end }, early);
        if (found && (!it || early(found, it))) it = found;
      }
    }
    if (it) reveal(it);
  }

  let drag = null;
  canvas.addEventListener("pointerdown", e => {
    if (e.button > 1) return;
    drag = {
      x: e.offsetX, y: e.offsetY, from, to, top, moved: false,
      pans: e.shiftKey || e.button === 1 || e.pointerType === "touch" };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", e => {
    if (!drag) {
      const it = at(e.offsetX, e.offsetY);
      tip(it && describe(it), e);
      return;
    }
    drag.moved = drag.moved || Math.abs(e.offsetX - drag.x) + Math.abs(e.offsetY - drag.y) > 4;
    if (!drag.moved) return;
    tip(null);
    if (!drag.pans) {
      range = [drag.x, Math.min(Math.max(0, e.offsetX), width())];
      draw();
      return;
    }
    const shift = (drag.x - e.offsetX) / width() * (drag.to - drag.from);
    top = drag.top + drag.y - e.offsetY;
    view(drag.from + shift, drag.to + shift);
  });
  canvas.addEventListener("pointerup", e => {
    const chosen = range;
    range = null;
    if (drag && !drag.moved) select(at(e.offsetX, e.offsetY), false);
    else if (chosen && Math.abs(chosen[1] - chosen[0]) > 4)
      zoomTo(ns(Math.min(...chosen)), ns(Math.max(...chosen)));
    else if (chosen) draw();
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => {
    drag = range = null;
    draw();
  });
  canvas.addEventListener("pointerleave", () => tip(null));
  canvas.addEventListener("dblclick", e => {
    const it = e.shiftKey ? null : at(e.offsetX, e.offsetY);
    if (it) select(it, true); else zoomOut();
  });
  canvas.addEventListener("wheel", e => {
    e.preventDefault();
    if (e.ctrlKey || e.metaKey) zoom(Math.exp(e.deltaY / 400), ns(e.offsetX));
    else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      const shift = (e.deltaX || e.deltaY) / width() * (to - from);
      view(from + shift, to + shift);
    } else {
      top += e.deltaY;
      view(from, to);
    }
  }, { passive: false });

  for (const t of threads) $("lane").append(element("option", title(t), { value: t.key }));
  $("lane").addEventListener("change", e => {
    top = threads.find(t => t.key === e.target.value).y;
    view(from, to);
  });
  $("timeline-all").addEventListener("click", () => view(0, duration));
  $("timeline-out").addEventListener("click", zoomOut);
  $("nearest").addEventListener("click", goToDetails);

  function key(name) {
    const shift = (to - from) / 5;
    switch (name) {
      case "+": case "=": case "w": zoom(0.5); break;
      case "-": case "s": zoom(2); break;
      case "ArrowLeft": case "a": view(from - shift, to - shift); break;
      case "ArrowRight": case "d": view(from + shift, to + shift); break;
      case "ArrowUp": top -= 3 * ROW; view(from, to); break;
      case "ArrowDown": top += 3 * ROW; view(from, to); break;
      case "PageUp": top -= height() - AXIS; view(from, to); break;
      case "PageDown": top += height() - AXIS; view(from, to); break;
      case "0": case "Home": view(0, duration); break;
      case "n": next(1); break;
      case "N": next(-1); break;
      case "b": nextWait(1); break;
      case "B": nextWait(-1); break;
      case "h": step("before"); break;
      case "l": step("next"); break;
      case "k": step("caller"); break;
      case "j": step("callee"); break;
      case "Enter": if (selected || bar) select(selected || bar, true); break;
      case "Backspace": zoomOut(); break;
      case "g": goToDetails(); break;
      case "Escape":
        if (drag) {
          drag = range = null;
          draw();
        } else {
          select(null);
          view(0, duration);
        }
        break;
      default: return false;
    }
    return true;
  }

  /* The calls that are visible, the longest of them, in order of time. */
  function table() {
    const seen = shortCalls.look(from, to), list = [];
    let summed = 0;
    for (const t of threads)
      for (const row of t.rows) {
        for (const some of [row, ...(seen.open ? row.parts : [])])
          for (let i = first(some, from); i < some.n && some.start[i] <= to; i++)
            list.push(stay(row, some, i));
        for (const s of row.sums)
          if (seen.gaps.some(([a, b]) => s.slice * slice <= b && (s.slice + 1) * slice >= a) &&
              s.slice * slice <= to && (s.slice + 1) * slice >= from)
            summed += s.calls;
      }
    const most = list.length > 500 ? list.map(s => s.length).sort((a, b) => b - a)[499] : -1;
    const rows = list.filter(s => s.length >= most).slice(0, 500)
      .sort((a, b) => a.start - b.start || a.row.depth - b.row.depth);
    return {
      caption: `Calls from ${when(from, to - from)} to ${when(to, to - from)}` +
        (list.length > rows.length ? `: the longest ${count(rows.length)} of ${count(list.length)}`
          : "") + (summed ? `; ${plural(summed, "short call")} in sums` : ""),
      head: ["thread", "depth", "function", "from", "lasts", ...waits ? ["waits for"] : []],
      rows: rows.map(s => ({
        cells: [title(s.row.thread), s.row.depth, shown(s.fn), when(s.start, s.length),
          time(s.length), ...waits ? [waits.cell(s.row.thread.key, s.start, s.length)] : []],
        fn: s.fn, run: () => select(s, false) })) };
  }

  /* The state as the address has it. */
  function state() {
    const t = visibleThread(), all = {};
    if (from > 0 || to < duration) {
      all.from = Math.round(from);
      all.to = Math.round(to);
    }
    if (t && t !== threads[0]) all.thread = t.key;
    if (selected && !selected.sum) all.call = `${selected.row.number}.${selected.start}`;
    return all;
  }

  /* Selects the call that the address names, as soon as it is there. */
  function seek() {
    const found = /^(\d+)\.(\d+)$/.exec(sought);
    if (!found) return;
    for (const t of threads)
      for (const row of t.rows)
        if (row.number === Number(found[1]))
          for (const some of [row, ...row.parts]) {
            const i = first(some, Number(found[2]));
            for (let k = i; k < Math.min(i + 2, some.n); k++)
              if (some.start[k] === Number(found[2])) {
                sought = "";
                page.quietly(() => select(stay(row, some, k), false));
                return;
              }
          }
  }

  function restore(params) {
    const number = (key, missing) =>
      /^\d{1,15}$/.test(params.get(key) || "") ? Number(params.get(key)) : missing;
    const t = threads.find(one => one.key === params.get("thread"));
    top = t ? t.y : 0;
    sought = params.get("call") || "";
    selected = bar = null;
    page.details();
    view(number("from", 0), number("to", duration));
    seek();
  }

  return { draw, key, canvas, threads, table, state, restore, drawn: () => drawn,
    fullHeight: () => threads.height + AXIS + 8 };
})();

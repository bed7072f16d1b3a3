/* What the kernel's events tell of threads (analysis/export/html_waits.c): states, system calls and
 * interrupts over time, and what was waited for. Null where the trace has no such events. */
const waits = data.waits ? (function () {
  const all = data.waits, CALLS = 15, STRIP = 10, ARROWS = 300;
  const UNKNOWN = 0, RUNNING = 1, RUNNABLE = 2, BLOCKED = 3;
  /* each state has a height, too: colours are not all */
  const looks = [["#bbbbbb", 2], ["#44bb99", STRIP], ["#ee8866", 7], ["#77aadd", 4]];
  const words = ["not known", "on a CPU", "in the run queue", "blocked"];
  const duration = Math.max(1, meta.duration), slice = duration / all.slices;
  const object = i => all.objects[Math.min(i, all.objects.length - 1)];
  const thread = tid => `${all.names[tid] || "thread"} ${tid}`;

  /* Bars of a kind as typed arrays, in order of time; columns: what each has behind its length. */
  function unpack(list, columns) {
    const width = 2 + columns, n = list.length / width;
    const bars = { n, start: new Float64Array(n), length: new Float64Array(n), longest: 0,
      of: Array.from({ length: columns }, () => new Float64Array(n)) };
    for (let i = 0, at = 0; i < n; i++) {
      bars.start[i] = at += list[width * i];
      bars.length[i] = list[width * i + 1];
      bars.longest = Math.max(bars.longest, bars.length[i]);
      for (let k = 0; k < columns; k++) bars.of[k][i] = list[width * i + 2 + k];
    }
    return bars;
  }

  const lanes = new Map();
  for (const t of all.threads)
    lanes.set(t.pid + ":" + t.tid, {
      tid: t.tid, states: unpack(t.states, 4), calls: unpack(t.calls, 1),
      interrupts: unpack(t.interrupts, 2), stateSums: t.states_sums, callSums: t.calls_sums });
  all.threads = null;
  const height = key => lanes.has(key) ? CALLS + STRIP + 4 : 0;

  /* The first bar that may be there at t or later. Interrupts lie in each other. */
  function first(bars, t) {
    let lo = 0, hi = bars.n;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (bars.start[mid] < t - bars.longest) lo = mid + 1; else hi = mid;
    }
    while (lo < bars.n && bars.start[lo] + bars.length[lo] < t) lo++;
    return lo;
  }

  function drawCalls(c, lane, y, w, from, to) {
    const scale = w / (to - from), { start, length, n, of: [number] } = lane.calls;
    let last = -1;
    c.fillStyle = css("--soft");
    c.globalAlpha = 0.4;
    for (let i = 0; i < lane.callSums.length; i += 2) {
      const begin = lane.callSums[i] * slice, share = Math.min(1, lane.callSums[i + 1] / slice),
        h = Math.max(1, (CALLS - 2) * share);
      if (begin + slice >= from && begin <= to)
        c.fillRect((begin - from) * scale, y + CALLS - 2 - h, Math.max(1, slice * scale), h);
    }
    c.globalAlpha = 1;
    for (let i = first(lane.calls, from); i < n && start[i] <= to; i++) {
      const left = Math.max((start[i] - from) * scale, -1),
        right = Math.min((start[i] + length[i] - from) * scale, w + 1);
      if (right - left < 1 && Math.floor(left) === last) continue;
      last = Math.floor(left);
      c.fillStyle = css("--panel");
      c.strokeStyle = css("--soft");
      c.fillRect(left, y, Math.max(1, right - left), CALLS - 2);
      c.strokeRect(left + 0.5, y + 0.5, Math.max(1, right - left - 1), CALLS - 3);
      if (right - left < 30) continue;
      c.fillStyle = css("--front");
      c.fillText(fitted(c, callName(number[i]), right - Math.max(left, 0) - 6),
        Math.max(left, 0) + 3, y + 10.5);
    }
  }

  const state = (c, kind, left, right, y) => {
    c.fillStyle = looks[kind][0];
    c.fillRect(left, y + STRIP - looks[kind][1], Math.max(1, right - left), looks[kind][1]);
  };

  function drawStates(c, lane, y, w, from, to) {
    const scale = w / (to - from), { start, length, n, of: [kind] } = lane.states;
    const pixels = new Float64Array(4 * (Math.ceil(w) + 2));
    let some = false;
    for (let i = 0; i < lane.stateSums.length; i += 3) {
      const begin = lane.stateSums[i] * slice, left = Math.max(0, (begin - from) * scale),
        right = Math.min(w, (begin + slice - from) * scale);
      for (let x = Math.floor(left); x < right; x++) {
        pixels[4 * x + lane.stateSums[i + 2]] += lane.stateSums[i + 1] / (slice * scale);
        some = true;
      }
    }
    for (let i = first(lane.states, from); i < n && start[i] <= to; i++) {
      const left = (start[i] - from) * scale, right = left + length[i] * scale;
      if (right - left < 1 && left >= 0 && left < w) {
        pixels[4 * Math.floor(left) + kind[i]] += length[i];
        some = true;
      }
    }
    /* of what is shorter than a pixel, the state that took most of it */
    for (let x = 0; some && x < w; x++) {
      let most = 0;
      for (let k = 1; k < 4; k++) if (pixels[4 * x + k] > pixels[4 * x + most]) most = k;
      if (pixels[4 * x + most]) state(c, most, x, x + 1, y);
    }
    for (let i = first(lane.states, from); i < n && start[i] <= to; i++) {
      const left = (start[i] - from) * scale, right = left + length[i] * scale;
      if (right - left >= 1) state(c, kind[i], Math.max(left, -1), Math.min(right, w + 1), y);
    }
  }

  /* Interrupts are marks at the upper edge of the states. */
  function drawInterrupts(c, lane, y, w, from, to) {
    const scale = w / (to - from), { start, length, n } = lane.interrupts;
    let last = -1;
    c.fillStyle = css("--mark");
    for (let i = first(lane.interrupts, from); i < n && start[i] <= to; i++) {
      const left = Math.max((start[i] - from) * scale, -1),
        right = Math.min((start[i] + length[i] - from) * scale, w + 1);
      if (right - left < 1 && Math.floor(left) === last) continue;
      last = Math.floor(left);
      c.fillRect(left, y, Math.max(1, right - left), 3);
    }
  }

  /* Draws what is below the calls of a thread, from y on. */
  function draw(c, key, y, w, from, to) {
    const lane = lanes.get(key);
    if (!lane) return;
    drawCalls(c, lane, y, w, from, to);
    drawStates(c, lane, y + CALLS, w, from, to);
    drawInterrupts(c, lane, y + CALLS, w, from, to);
  }

  /* Draws who woke whom, where there are few enough to be told apart. place: the upper edge of what
   * is below the calls of a thread, by its tid; it is called for visible threads only. */
  function drawArrows(c, keys, place, w, from, to) {
    const scale = w / (to - from), list = [];
    for (const key of keys) {
      const lane = lanes.get(key);
      if (!lane) continue;
      const { start, length, n, of: [kind, , waker, before] } = lane.states;
      for (let i = first(lane.states, from); i < n && start[i] <= to; i++) {
        const at = start[i] + length[i] - before[i];
        if (kind[i] !== BLOCKED || waker[i] <= 0 || length[i] * scale < 12 || at < from || at > to)
          continue;
        const there = place(waker[i]), here = place(lane.tid);
        if (there !== null && there !== here) list.push([(at - from) * scale, there, here]);
        if (list.length > ARROWS) return 0;
      }
    }
    c.strokeStyle = c.fillStyle = css("--mark");
    for (const [x, there, here] of list) {
      const begin = there + CALLS + STRIP / 2, end = here + CALLS + (here > there ? 0 : STRIP),
        back = here > there ? -5 : 5;
      c.beginPath();
      c.moveTo(x, begin);
      c.lineTo(x, end);
      c.stroke();
      c.beginPath();
      c.moveTo(x, end);
      c.lineTo(x - 3, end + back);
      c.lineTo(x + 3, end + back);
      c.fill();
    }
    return list.length;
  }

  const callName = number => all.call_names[number] || `system call ${number}`;

  function waker(tid) {
    return tid < 0 ? "woken by an interrupt" : tid ? `woken by ${thread(tid)}` : "";
  }

  /* What a bar is: {title, text, start, length}. */
  function describe(lane, bars, i) {
    const start = bars.start[i], length = bars.length[i], of = bars.of.map(column => column[i]);
    let title, text = "";
    if (bars === lane.calls) title = callName(of[0]);
    else if (bars === lane.interrupts)
      title = all.interrupt_names[of[0]] + (of[1] < 0 ? "" : ` ${of[1]}`);
    else if (of[0] === BLOCKED) {
      title = `blocked: ${object(of[1])}`;
      text = waker(of[2]);
    } else if (of[0] === RUNNING) title = `on CPU ${of[1]}`;
    else if (of[0] === RUNNABLE) {
      title = "in the run queue";
      text = (of[2] ? "the CPU was taken away" : "") +
        (of[1] ? `${of[2] ? "; " : ""}${thread(of[1])} had it` : "");
    } else title = "what the thread did is not known";
    return { lane, bars, i, title, text, start, length };
  }

  /* What is at a place below the calls of a thread; dy: from their upper edge on. Null: nothing. */
  function at(key, dy, when, slack) {
    const lane = lanes.get(key);
    if (!lane || dy < 0 || dy >= CALLS + STRIP) return null;
    const sets = dy < CALLS ? [lane.calls]
      : dy < CALLS + 4 ? [lane.interrupts, lane.states] : [lane.states];
    for (const bars of sets) {
      let best = -1;
      for (let i = first(bars, when - slack); i < bars.n && bars.start[i] <= when + slack; i++)
        if (best < 0 || bars.length[i] < bars.length[best] && bars === lane.interrupts) best = i;
      if (best >= 0) return describe(lane, bars, best);
    }
    return null;
  }

  /* The next wait of a thread behind a time, or the one before it. */
  function next(key, now, direction) {
    const lane = lanes.get(key);
    if (!lane) return null;
    const { start, n, of: [kind] } = lane.states;
    let i = direction > 0 ? first(lane.states, now) : Math.min(first(lane.states, now), n - 1);
    for (; i >= 0 && i < n; i += direction)
      if (kind[i] === BLOCKED && direction * (start[i] - now) > 0)
        return describe(lane, lane.states, i);
    return null;
  }

  /* What a thread did for a time: {state: ns}, and the objects it was blocked on, most first. */
  function within(key, from, length) {
    const lane = lanes.get(key), sums = [0, 0, 0, 0], objects = new Map(), wakers = new Map();
    if (!lane) return null;
    const { start, length: lengths, n, of: [kind, what, who] } = lane.states, to = from + length;
    for (let i = first(lane.states, from); i < n && start[i] < to; i++) {
      const part = Math.min(start[i] + lengths[i], to) - Math.max(start[i], from);
      if (part <= 0) continue;
      sums[kind[i]] += part;
      if (kind[i] !== BLOCKED) continue;
      const one = objects.get(what[i]) || { name: object(what[i]), ns: 0, times: 0 };
      one.ns += part;
      one.times++;
      objects.set(what[i], one);
      if (who[i]) wakers.set(who[i], (wakers.get(who[i]) || 0) + part);
    }
    return { sums, objects: [...objects.values()].sort((a, b) => b.ns - a.ns),
      wakers: [...wakers].sort((a, b) => b[1] - a[1]).map(([tid]) => tid) };
  }

  const list = (objects, most) => objects.slice(0, most).map(o =>
    `${time(o.ns)} ${o.name}${o.times > 1 ? ` (${count(o.times)} times)` : ""}`).join(", ") +
    (objects.length > most ? `, and ${count(objects.length - most)} more` : "");

  /* The same as a sentence; "": nothing is known. */
  function sentence(key, from, length) {
    const found = within(key, from, length);
    if (!found) return "";
    const known = found.sums.reduce((a, b) => a + b, 0),
      parts = [RUNNING, RUNNABLE, BLOCKED, UNKNOWN].filter(k => found.sums[k])
        .map(k => `${time(found.sums[k])} ${words[k]}`);
    if (!parts.length) return "";
    return `Its thread was ${parts.join(", ")}` +
      (found.objects.length ? `: ${list(found.objects, 3)}` : "") +
      (found.wakers.length ? `; ${waker(found.wakers[0])}` +
        (found.wakers.length > 1 ? ` and ${count(found.wakers.length - 1)} more` : "") : "") +
      (all.states_left_out && known < 0.999 * length
        ? `; ${time(length - known)} in shorter states` : "") + ".";
  }

  /* A few words for a cell of a table. */
  function cell(key, from, length) {
    const found = within(key, from, length);
    if (!found) return "";
    const some = found.sums[RUNNABLE] ? [{ name: "runqueue", ns: found.sums[RUNNABLE], times: 1 }]
      : [];
    return list([...found.objects, ...some].sort((a, b) => b.ns - a.ns), 2);
  }

  function notes() {
    const made = [];
    if (all.idle)
      made.push(`${time(all.idle)} in which threads waited for new work are set aside in flame ` +
        "graphs and in Waiting (iprobe export --idle counts them)");
    if (all.lost) made.push(`${plural(all.lost, "event")} of the kernel lost`);
    if (all.threads_left_out)
      made.push(`states of ${plural(all.threads_left_out, "thread")} are not here`);
    for (const [n, what] of [[all.states_left_out, "states"], [all.calls_left_out, "system calls"],
      [all.interrupts_left_out, "interrupts"]])
      if (n) made.push(`${count(n)} short ${what} of threads are in sums only`);
    return made;
  }

  /* The row of colours and what they mean. */
  function legend(box) {
    for (const [kind, text] of [[RUNNING, "on a CPU"], [RUNNABLE, "in the run queue"],
      [BLOCKED, "blocked"], [UNKNOWN, "not known"]]) {
      const mark = element("span", null, { class: "state", "aria-hidden": "true" });
      mark.style.background = looks[kind][0];
      mark.style.height = looks[kind][1] + "px";
      box.append(mark, element("span", text));
    }
    box.append(element("span", "above it: system calls, and interrupts as marks; lines: who woke " +
      "whom; b: the next wait"));
    box.hidden = false;
  }

  return { height, draw, drawArrows, at, next, sentence, cell, list, notes, legend, object };
})() : null;

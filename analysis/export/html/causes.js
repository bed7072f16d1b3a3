/* The tree of causes: which callees the search has looked at, of how many of the calls each is on
 * the path of a root cause, and what the causes are. */
const causes = (function () {
  const OTHERS = 50; /* callees that are no cause, of one node */
  const nodes = new Map(), roots = [];
  const toned = result.state !== "no difference found"; /* its causes have shares */

  for (const n of result.ftree || []) nodes.set(n.node, { ...n, share: 0, below: [], causes: [] });
  for (const n of nodes.values()) {
    const above = nodes.get(n.parent);
    if (above) above.below.push(n); else roots.push(n);
  }
  for (const cause of result.paths || []) {
    const leaf = nodes.get(cause.node);
    if (leaf) leaf.causes.push(cause);
    for (let n = leaf; n; n = nodes.get(n.parent)) n.share += cause.share;
  }

  const usually = (text, ns) => result.usual ? `${text} (usually ${time(ns)})` : text;

  function kindText(cause) {
    const c = cause.cause;
    if (c.kind === "self")
      return result.kernel ? "its own code" : "its own code, or a wait in it";
    if (c.kind === "spread")
      return "all that it calls is slower, in proportion: none of it is the cause";
    if (c.kind === "unknown") return "what the thread did is not known";
    return part(c);
  }

  /* What is known of a root cause, below its function. */
  function causeBox(cause, node) {
    const box = element("div", null, { class: "cause" }), loop = cause.cause.loop,
      all = (cause.parts || []).filter(p => p.excess_ns > 0),
      sum = all.reduce((a, p) => a + p.excess_ns, 0);
    if (toned) {
      const title = element("p");
      title.append(element("b", `Root cause of ${percent(cause.share, 1)}: `),
        document.createTextNode(kindText(cause)));
      box.append(title);
      if (!["preempted", "interrupt", "queued"].includes(cause.cause.kind))
        box.append(element("p", usually(`Itself, outside of its callees: ${time(node.own_ns)}`,
          node.usual_own_ns)));
    }
    if (loop)
      box.append(element("p", `A loop: ${count(Math.round(loop.calls))} calls of ` +
        shownOf(loop.function) +
        (result.usual ? ` (usually ${count(Math.round(loop.usual_calls))})` : "") +
        ` take ${time(loop.sum_ns)} together`));
    const list = element("ul");
    for (const p of all.filter(one => one.excess_ns >= PART_SHARE * sum).slice(0, PARTS))
      list.append(element("li", `${time(p.excess_ns)}${result.usual ? " more" : ""}: ${part(p)}`));
    if (list.children.length) box.append(list);
    const between = stretches(cause);
    if (between) box.append(between);
    return box;
  }

  /* A callee with the place where it is called. */
  const placed = e => shownOf(e.function) + (e.call_site ? ` (${e.call_site})` : "");

  /* In which stretches between its calls a function takes the time, and where that ends. */
  function stretches(cause) {
    const all = cause.stretches || [], excess = s => s.ns - s.usual_ns, loop = cause.cause.loop,
      sum = all.reduce((a, s) => a + Math.max(0, excess(s)), 0) +
        (loop ? Math.max(0, loop.sum_ns - loop.usual_sum_ns) : 0),
      some = all.filter(s => excess(s) > 0 && excess(s) >= PART_SHARE * sum).slice(0, PARTS),
      box = element("div"), list = element("ul");
    if (!some.length) return null;
    if (all.length === 1 && !all[0].from && !all[0].to) {
      box.append(element("p", "It calls nothing that was recorded: it cannot be narrowed down " +
        "further."));
      return box;
    }
    for (const s of some)
      list.append(element("li", `${usually(time(s.ns), s.usual_ns)} from ` +
        `${s.from ? `the end of ${placed(s.from)}` : "its entry"} to ` +
        `${s.to ? `the call of ${placed(s.to)}` : "its exit"}` +
        (s.times >= 1.5 ? `; ${count(Math.round(s.times))} times` : "")));
    box.append(element("p", "Between its calls:"), list, element("p", "No call that was recorded " +
      "lies in there: it cannot be narrowed down further" +
      (some.some(s => [s.from, s.to].some(e => e && !e.call_site))
        ? " (--callsite of a recording tells the places)." : ".")));
    return box;
  }

  function figures(n) {
    const parts = [usually(`longest ${time(n.longest_ns)}`, n.usual_longest_ns)];
    if (n.depth) parts.push(`largest in ${count(n.maxcount)} of ${count(n.looked_at)}`);
    if (n.depth && n.calls >= 1.5)
      parts.push(`of ${count(Math.round(n.calls))} calls, ${time(n.sum_ns)} together`);
    return parts.join("; ");
  }

  function row(n) {
    const line = element("span", null, { class: "node" }), name = element("b", shownOf(n.function));
    name.title = `${n.function} ${n.module || ""}`;
    if (toned) {
      const bar = element("span", null, { class: "share", "aria-hidden": "true" }),
        fill = element("span", null, { class: "fill more" });
      fill.style.width = `${100 * Math.min(1, n.share)}%`;
      bar.append(fill);
      line.append(bar, element("span", n.share ? percent(n.share, 1) : "", { class: "percent" }));
    }
    if (n.handover === "queued")
      line.append(element("span", "waits to be served by ", { class: "soft" }));
    line.append(name);
    if (n.handover === "served")
      line.append(element("span", " in the thread that serves it", { class: "soft" }));
    if (n.call_site) line.append(element("span", ` at ${n.call_site}`, { class: "soft" }));
    line.append(element("span", ` ${figures(n)}`, { class: "soft" }));
    return line;
  }

  /* A node with all below it. */
  function branch(n) {
    const li = element("li"), on = n.below.filter(one => one.share > 0),
      off = n.below.filter(one => !(one.share > 0)).sort((a, b) => b.longest_ns - a.longest_ns);
    on.sort((a, b) => b.share - a.share);
    if (!n.share) li.className = "aside";
    if (!n.below.length && !n.causes.length) {
      li.append(row(n));
      return li;
    }
    const box = element("details"), head = element("summary"), below = element("ul");
    head.append(row(n));
    box.append(head);
    box.open = !toned || n.share > 0;
    for (const cause of n.causes) box.append(causeBox(cause, n));
    for (const one of on) below.append(branch(one));
    if (off.length && n.share && toned) {
      const others = element("li"), more = element("details"), inside = element("ul");
      more.className = "others";
      more.append(element("summary", `${plural(off.length, "callee")} looked at that ` +
        `${off.length === 1 ? "is" : "are"} no cause`), inside);
      fillOthers(inside, off);
      others.append(more);
      below.append(others);
    } else fillOthers(below, off);
    if (below.children.length) box.append(below);
    li.append(box);
    return li;
  }

  function fillOthers(list, nodes) {
    for (const one of nodes.slice(0, OTHERS)) list.append(branch(one));
    if (nodes.length > OTHERS)
      list.append(element("li", `${count(nodes.length - OTHERS)} more`, { class: "aside" }));
  }

  /* By variance: tables in the place of the tree. */
  function variance() {
    const box = element("div"), pairs = element("div"), names = new Map();
    for (const n of result.nodes) names.set(n.node, n.path.map(shownOf).join(" > "));
    fill(box, {
      caption: `Standard deviation ${time(result.deviation_ns)}, mean ${time(result.mean_ns)} ` +
        `(${plural(result.looked_at, "call")} looked at). Share: the covariance with the ` +
        "latency, of 100 %",
      head: ["share", "deviation", "own mean", "call path"],
      rows: result.nodes.filter(n => Math.abs(n.share) >= 0.005).slice(0, 200).map(n => ({ cells: [
        `${(100 * n.share).toFixed(1)} %`, time(n.own_deviation_ns), time(n.own_mean_ns),
        names.get(n.node)] })) }, () => undefined);
    fill(pairs, {
      caption: "Twice the covariances, of the variance: they vary together",
      head: ["share", "call path", "and"],
      rows: result.covariances.slice(0, 50).map(p => ({ cells: [`${(100 * p.share).toFixed(1)} %`,
        ...p.nodes.map(id => names.get(id) || "")] })) }, () => undefined);
    box.className = pairs.className = "table";
    $("answer").append(box, ...result.covariances.length ? [pairs] : []);
  }

  function verdict() {
    const told = (result.paths || []).reduce((a, p) => a + p.share, 0);
    switch (result.state) {
      case "no peak": return ["No peak", result.reason || ""];
      case "in progress":
        return ["The search was ended before it was over",
          result.reason ? `So far: ${result.reason}.` : ""];
      case "no difference found": return [(result.paths || []).length
        ? "Software cannot tell these calls apart from the usual ones: they go the same way, and " +
          "all of it is slower" : "No call path is the cause of enough of them", ""];
      case "maximum depth reached":
        return [`Maximum depth reached: --depth ${data.depth}`, ""];
      default: return [data.variance ? "What makes the latency vary" : "Root causes",
        told && told < 0.995 ? `The other ${percent(1 - told, 1)} have no common cause.` : ""];
    }
  }

  function begin() {
    const [title, more] = verdict(), s = result.searched, u = result.usual;
    $("verdict").textContent = title;
    $("searched").textContent = [
      s && `Searched: ${plural(s.count, "call")} of ${peaks.bounds(s)}` +
        (s.looked_at < s.count ? `, ${count(s.looked_at)} of them looked at` : "") +
        (u ? `; usual: ${plural(u.count, "call")} of ${peaks.bounds(u)}` : "") + ".",
      more].filter(Boolean).join(" ");
    if (data.variance && result.nodes) variance();
    const tree = element("ul", null, { class: "tree" });
    if (result.state !== "no peak") for (const root of roots) tree.append(branch(root));
    if (tree.children.length) $("answer").append(tree);
  }

  function expand(all) {
    for (const box of $("answer").querySelectorAll("details"))
      box.open = all || !box.classList.contains("others") && !box.closest(".aside, .others");
  }

  return { begin, expand };
})();

const view = {
  canvas: peaks.canvas, table: peaks.table, state: peaks.state,
  title: () => `${result.function}: peaks of its latency, and root causes`,
  facts: () => [plural(result.calls, "call"), `${time(result.min_ns)} to ${time(result.max_ns)}`],
  notes: () => [...flaws(), result.left_out && `${plural(result.left_out, "call")} left out`]
    .filter(Boolean),
  begin() {
    $("seen").textContent = result.peaks.map(peaks.peakText).join(" · ");
    causes.begin();
  },
  draw() {
    peaks.draw();
    page.table();
  },
  key(name) {
    if (name !== "e" && name !== "c") return peaks.key(name);
    causes.expand(name === "e");
    return true;
  },
  restore(params) {
    const bin = params.get("bin");
    peaks.select(/^\d{1,4}$/.test(bin || "") ? Number(bin) : -1);
    view.draw();
  },
};

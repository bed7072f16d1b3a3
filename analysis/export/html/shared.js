/* The document, and what all pages share: formats, colours, drawing. */
const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);

const count = n => n.toLocaleString("en-US");
const plural = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;

/* Nanoseconds with three digits, and a unit. */
function time(ns) {
  if (ns === undefined || ns === null) return "";
  const units = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]];
  let at = 0;
  while (at < 3 && Math.abs(ns) >= 999.5 * units[at][1]) at++;
  const value = ns / units[at][1];
  return (at === 0 ? Math.round(value) : value.toPrecision(value < 1000 ? 3 : 4)) +
    " " + units[at][0];
}

/* Nanoseconds exactly, in the unit that fits the power of ten, with digits down to that of step. */
function exact(ns, largest, step) {
  const units = [["ns", 0], ["µs", 3], ["ms", 6], ["s", 9]];
  const [unit, power] = units.filter(([, p], i) => i === 0 || largest >= 10 ** p).pop();
  const digits = Math.max(0, power - Math.floor(Math.log10(step) + 1e-9));
  return { value: (ns / 10 ** power).toFixed(digits), unit, digits };
}

/* Where an axis from a to b (ns) has its marks, about most of them, and what they say: no two of
 * them the same. Where that needs many digits, base has those that all marks share, once. */
function axis(a, b, most) {
  const wanted = Math.max(1, (b - a) / Math.max(2, most)),
    power = 10 ** Math.floor(Math.log10(wanted) + 1e-9),
    step = [1, 2, 5, 10].map(k => k * power).find(s => s >= wanted * (1 - 1e-9)),
    marks = [];
  const whole = exact(b, b, step), deep = whole.value.replace(".", "").length > 6;
  const round = 10 ** Math.ceil(Math.log10(Math.max(1, b - a)) - 1e-9),
    base = deep ? Math.floor(a / round) * round : 0;
  for (let t = Math.ceil(a / step) * step; t <= b; t += step) {
    const one = exact(t - base, deep ? Math.max(round, b - base) : b, step);
    marks.push({ at: t, text: `${deep ? "+" : ""}${one.value} ${one.unit}` });
  }
  const shared = exact(base, b, round);
  return { marks, step, base: deep ? `${shared.value} ${shared.unit}` : "" };
}

/* A share in percent. */
function percent(part, whole) {
  if (!whole) return "0 %";
  const value = 100 * part / whole;
  return (value && value < 0.1 ? "< 0.1" : value.toFixed(1)) + " %";
}

/* Paul Tol's light scheme: its colours can be told apart with every kind of colour vision, and dark
 * text is readable on each. A function has the same colour in all views. */
const palette = [
  "#77aadd", "#99ddff", "#44bb99", "#bbcc33", "#aaaa00", "#eedd88", "#ee8866", "#ffaabb"];
function colour(name) {
  let h = 2166136261;
  for (let i = 0; i < name.length; i++) h = Math.imul(h ^ name.charCodeAt(i), 16777619);
  return palette[(h >>> 8) % palette.length];
}

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/* Gives the canvas the resolution of the screen. Returns its context, which uses CSS pixels. */
function context(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  return c;
}

const font = "12px system-ui, sans-serif";

/* Returns as much of the text as fits. Each character of the font is measured once. */
const widths = new Map();
function fitted(c, text, room) {
  let sum = 0;
  for (let i = 0; i < text.length; i++) {
    let w = widths.get(text[i]);
    if (w === undefined) widths.set(text[i], w = c.measureText(text[i]).width);
    if (sum + w > room) return i > 2 ? text.slice(0, i - 1) + "…" : "";
    sum += w;
  }
  return text;
}

/* Returns the name without the first namespace or class that it lies in; "": it lies in none. What
 * stands in brackets, or behind "operator", is no such thing. */
function inner(name) {
  const end = name.search(/\boperator\b/), n = end < 0 ? name.length : end;
  let depth = 0;
  for (let i = 0; i < n; i++) {
    if ("<([{".includes(name[i])) depth++;
    else if (">)]}".includes(name[i]) && name[i - 1] !== "-") depth--;
    else if (!depth && name.startsWith("::", i)) return name.slice(i + 2);
  }
  return "";
}

/* Returns what fits of a function's name, behind a text: its end tells most, so what the function
 * lies in goes first. */
function fittedName(c, name, room, before = "") {
  for (let rest = name; rest; rest = inner(rest))
    if (fitted(c, before + (name = rest), room) === before + rest) break;
  return fitted(c, before + name, room);
}

function element(tag, text, attributes) {
  const e = document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = text;
  for (const key in attributes || {}) e.setAttribute(key, attributes[key]);
  return e;
}

function button(label, run) {
  const b = element("button", label);
  b.addEventListener("click", run);
  return b;
}

/* Shows a text beside the mouse; null: none. */
function tip(text, e) {
  $("tip").hidden = !text;
  if (!text) return;
  $("tip").textContent = text;
  const box = $("tip").getBoundingClientRect();
  $("tip").style.left = Math.max(0, Math.min(e.clientX + 12, innerWidth - box.width - 4)) + "px";
  $("tip").style.top = (e.clientY + 18 + box.height > innerHeight
    ? e.clientY - box.height - 8 : e.clientY + 18) + "px";
}

/* Fills a box with a table: {caption, head, rows: [{cells, run, level}]}. nameOf: a row's whole
 * name; where there is one, its cell below "function" is a button. */
function fill(box, now, nameOf) {
  const made = element("table"), head = element("tr"), body = element("tbody"),
    thead = element("thead"), inside = box.contains(document.activeElement);
  made.append(element("caption", now.caption));
  for (const name of now.head) head.append(element("th", name, { scope: "col" }));
  thead.append(head);
  made.append(thead, body);
  for (const row of now.rows) {
    const tr = element("tr"), name = nameOf(row);
    row.cells.forEach((cell, i) => {
      const td = element("td");
      if (name !== undefined && now.head[i] === "function") {
        const b = button(cell, row.run);
        b.title = name;
        td.append(b);
        td.style.paddingLeft = row.level ? Math.min(row.level, 40) * 6 + "px" : "";
      } else td.textContent = cell;
      tr.append(td);
    });
    body.append(tr);
  }
  box.replaceChildren(made);
  if (inside) box.focus();
}

/* What a search asks of a name, a regular expression between slashes or a part of it: a function;
 * null where nothing is asked; undefined where it is no regular expression. */
function matcher(text) {
  if (!text) return null;
  const expression = /^\/(.*)\/?$/.exec(text);
  if (!expression) {
    const low = text.toLowerCase();
    return name => name.toLowerCase().includes(low);
  }
  try {
    const re = new RegExp(expression[1].replace(/\/$/, ""), "i");
    return name => re.test(name);
  } catch (e) {
    return undefined;
  }
}

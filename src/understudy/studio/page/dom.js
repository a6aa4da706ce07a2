// Elements, numbers, tables: the pieces that every view is made of.

export function h(tag, given = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const el = document.createElement(name || "div");
  if (classes.length) el.className = classes.join(" ");
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) el.addEventListener(key.slice(2), value);
    else if (key in el && key !== "list" && key !== "form") el[key] = value;
    else el.setAttribute(key, value === true ? "" : value);
  }
  el.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return el;
}

export function put(el, ...children) {
  el.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return el;
}

export function fill(words, facts) {
  return words.replace(/\{(\w+)\}/g, (_, name) => facts[name] ?? "");
}

// A number as it is shown: four digits that count.
export function num(x, digits = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) return x.toExponential(2).replace("e+", "e");
  return String(Number(x.toPrecision(digits)));
}

export const percent = (x, digits = 3) => num(100 * x, digits);

// A number that a reader sees rounded, and a program whole.
export function value(name, x, shown) {
  return h("span.value", { "data-name": name, "data-value": x === null || x === undefined ? "" : String(x) }, shown ?? num(x));
}

export function table(caption, head, rows, options = {}) {
  const numeric = new Set(options.numeric ?? []);
  const cell = (content, k) =>
    k === 0 && options.named !== false
      ? h("th", { scope: "row" }, content ?? "")
      : h(numeric.has(k) ? "td.numeric" : "td", {}, content ?? "");
  return h("div.scroll", { tabIndex: 0, role: "group", "aria-label": caption },
    h(options.wide ? "table.wide" : "table", {},
      h(options.caption ? "caption" : "caption.hidden", {}, caption),
      h("thead", {}, h("tr", {}, head.map((name, k) => h(numeric.has(k) ? "th.numeric" : "th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", { className: row.mark ?? "" }, (row.cells ?? row).map(cell))))));
}

export function details(summary, ...content) {
  return h("details", {}, h("summary", {}, summary), ...content);
}

export function panel(title, ...content) {
  return h("section.panel", {}, title && h("h2", {}, title), ...content);
}

export function list(items) {
  return h("ul", {}, items.map((item) => h("li", {}, item)));
}

export function source(words, call) {
  return h("p.call", {}, `${words.page.call} `, h("code", {}, call));
}

let serial = 0;
export function field(label, control, hint) {
  const id = control.id || `field-${++serial}`;
  control.id = id;
  const note = hint ? h("small", { id: `${id}-hint` }, hint) : null;
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div.field", {}, h("label", { htmlFor: id }, label), control, note);
}

export function select(options, chosen) {
  return h("select", {}, options.map(([key, name]) => h("option", { value: key, selected: key === chosen }, name)));
}

export function checkbox(label, checked, onchange) {
  const box = h("input", { type: "checkbox", checked, onchange });
  const el = h("label.check", {}, box, h("span", {}, label));
  el.box = box;
  return el;
}

// Pictures: lines by uPlot on a canvas, maps and dots as SVG. Each has words for those who do not see it.
import { h } from "./dom.js";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const alive = new Set();

// Colours follow the scheme, widths the window.
function renew() {
  for (const chart of alive) {
    if (chart.box.isConnected) chart.draw();
    else if (chart.seen) alive.delete(chart);
  }
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", renew);
let pending = 0;
addEventListener("resize", () => {
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(renew);
});
addEventListener("beforeprint", renew);

// `series`: [{label, values, colour, dash, width, scale, points}]; `given`: {x, height, xLabel, yLabel, right, mark, words}
export function lines(given, series) {
  const canvas = h("div.plot", {});
  const legend = h("ul.legend", { "aria-hidden": "true" }, series.filter((each) => each.label).map((each) =>
    h("li", {}, swatch(each), each.label)));
  const box = h("figure.chart", {}, h("div", { role: "img", "aria-label": given.words }, canvas), given.legend === false ? null : legend);
  const chart = { box, seen: false, mark: given.mark ?? null, plot: null };
  chart.draw = () => {
    const width = Math.floor(canvas.clientWidth);
    if (!width) return;
    chart.seen = true;
    chart.plot?.destroy();
    chart.plot = new uPlot(options(given, series, width, chart), [given.x, ...series.map((each) => each.values)], canvas);
  };
  chart.move = (mark, words) => {
    chart.mark = mark;
    if (words) box.firstChild.setAttribute("aria-label", words);
    if (chart.plot) chart.plot.redraw(false);
    else chart.draw();
  };
  alive.add(chart);
  requestAnimationFrame(chart.draw);
  box.chart = chart;
  return box;
}

function swatch(each) {
  const svg = element("svg", { viewBox: "0 0 22 8", width: 22, height: 8, class: "swatch" });
  svg.append(element("line", { x1: 1, x2: 21, y1: 4, y2: 4, class: each.tone ?? "accent", "stroke-width": 2.4,
    "stroke-dasharray": each.dash ? each.dash.join(" ") : "none" }));
  return svg;
}

const tones = { accent: "--accent", quiet: "--faint", second: "--second", red: "--red", text: "--text" };

function options(given, series, width, chart) {
  const text = css("--soft"), grid = css("--line");
  const font = `12px ${css("--font")}`;
  const axis = { stroke: text, font, labelFont: font, grid: { stroke: grid, width: 1 }, ticks: { show: false }, labelSize: 22, gap: 6 };
  const narrow = width < 420;
  return {
    width, height: given.height ?? 280, legend: { show: false },
    cursor: { show: false }, padding: [12, given.right ? 4 : 14, 0, 0],
    scales: { x: { time: false, range: given.xRange }, y: { range: given.yRange }, ...(given.right ? { right: { range: given.rightRange } } : {}) },
    axes: [
      { ...axis, label: given.xLabel, size: 34, space: narrow ? 64 : 50, ...(given.xIncrs ? { incrs: given.xIncrs } : {}) },
      { ...axis, label: narrow ? null : given.yLabel, size: 52 },
      ...(given.right ? [{ ...axis, scale: "right", side: 1, label: narrow ? null : given.right, size: 48, grid: { show: false } }] : []),
    ],
    series: [{}, ...series.map((each) => ({
      scale: each.scale ?? "y", stroke: css(tones[each.tone ?? "accent"]), width: each.width ?? 2, dash: each.dash,
      points: { show: Boolean(each.points), size: 5, fill: css(tones[each.tone ?? "accent"]), width: 0 },
      paths: each.bars ? uPlot.paths.bars({ size: [0.5, 18] }) : each.points === "only" ? () => null : undefined,
      fill: each.bars ? css(tones[each.tone ?? "accent"]) : undefined,
    }))],
    hooks: { draw: [(u) => drawMark(u, chart.mark, given), (u) => drawBands(u, given)] },
  };
}

function drawMark(u, mark, given) {
  if (!mark) return;
  const ratio = devicePixelRatio;
  const x = u.valToPos(mark[0], "x", true), y = u.valToPos(mark[1], "y", true);
  const c = u.ctx;
  c.save();
  c.strokeStyle = css("--line-strong");
  c.setLineDash([3 * ratio, 4 * ratio]);
  c.beginPath();
  c.moveTo(x, u.bbox.top);
  c.lineTo(x, u.bbox.top + u.bbox.height);
  c.stroke();
  c.setLineDash([]);
  c.beginPath();
  c.arc(x, y, 6.5 * ratio, 0, 2 * Math.PI);
  c.fillStyle = css("--accent");
  c.fill();
  c.lineWidth = 2.5 * ratio;
  c.strokeStyle = css("--panel");
  c.stroke();
  if (given.markLabel) {
    c.fillStyle = css("--text");
    c.font = `${12 * ratio}px ${css("--font")}`;
    const right = x > u.bbox.left + 0.7 * u.bbox.width;
    c.textAlign = right ? "right" : "left";
    c.fillText(given.markLabel, x + (right ? -12 : 12) * ratio, y - 10 * ratio);
  }
  c.restore();
}

function drawBands(u, given) {
  for (const y of given.guides ?? []) {
    const at = u.valToPos(y, "y", true), c = u.ctx;
    c.save();
    c.strokeStyle = css("--faint");
    c.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    c.beginPath();
    c.moveTo(u.bbox.left, at);
    c.lineTo(u.bbox.left + u.bbox.width, at);
    c.stroke();
    c.restore();
  }
}

// SVG -----------------------------------------------------------------------------------------------

export function element(name, given = {}, ...children) {
  const el = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(given)) el.setAttribute(key, value);
  el.append(...children);
  return el;
}

function picture(width, height, words, ...children) {
  return h("figure.chart", {}, element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words, class: "picture" }, ...children));
}

const label = (x, y, words, given = {}) => {
  const el = element("text", { x, y, ...given });
  el.textContent = words;
  return el;
};

// A kernel: the darker a cell, the likelier; its probability stands in it.
export function heat(rows, columns, matrix, words, axis) {
  const left = 96, top = 40, wide = Math.max(46, Math.min(96, 440 / columns.length)), high = 46;
  const width = left + columns.length * wide + 6, height = top + rows.length * high + 6;
  const cells = [label(left - 10, 24, axis, { class: "axis", "text-anchor": "end" })];
  columns.forEach((name, j) => cells.push(label(left + (j + 0.5) * wide, 26, short(name), { class: "tick", "text-anchor": "middle" })));
  rows.forEach((name, i) => {
    cells.push(label(left - 10, top + (i + 0.5) * high + 5, short(name), { class: "tick", "text-anchor": "end" }));
    columns.forEach((_, j) => {
      const p = matrix[i][j];
      cells.push(element("rect", { x: left + j * wide + 2, y: top + i * high + 2, width: wide - 4, height: high - 4, rx: 6, class: "cell-ground" }));
      cells.push(element("rect", { x: left + j * wide + 2, y: top + i * high + 2, width: wide - 4, height: high - 4, rx: 6, class: "cell", "fill-opacity": p.toFixed(4) }));
      cells.push(label(left + (j + 0.5) * wide, top + (i + 0.5) * high + 5, p === 0 ? "0" : p < 0.0005 ? "<.001" : p.toFixed(3).replace(/^0/, ""), { class: p > 0.72 ? "cell-text strong" : "cell-text", "text-anchor": "middle" }));
    });
  });
  const box = picture(width, height, words, ...cells);
  box.classList.add("natural");
  box.firstChild.setAttribute("width", width);
  return box;
}

const short = (name, most = 10) => (String(name).length > most ? `${String(name).slice(0, most - 1)}…` : String(name));

// Dots with whiskers, a row each; `guides`: [[at, name]].
export function dots(rows, given) {
  const slim = innerWidth < 620, left = slim ? 140 : 215, width = slim ? 400 : 640, high = 30, top = 8, height = top + rows.length * high + 46;
  const lows = rows.flatMap((row) => [row.low ?? row.value, row.value]), highs = rows.flatMap((row) => [row.high ?? row.value, row.value]);
  const guides = given.guides ?? [];
  let low = Math.min(...lows, ...guides.map(([at]) => at)), high1 = Math.max(...highs, ...guides.map(([at]) => at));
  const pad = 0.06 * (high1 - low || 1);
  [low, high1] = [low - pad, high1 + pad];
  const px = (x) => left + ((x - low) / (high1 - low)) * (width - left - 16);
  const parts = [];
  const foot = top + rows.length * high;
  for (const tick of nice(low, high1)) {
    parts.push(element("line", { x1: px(tick), x2: px(tick), y1: top, y2: foot, class: "grid" }));
    parts.push(label(px(tick), foot + 17, String(tick), { class: "tick", "text-anchor": "middle" }));
  }
  guides.forEach(([at]) => parts.push(element("line", { x1: px(at), x2: px(at), y1: top, y2: foot, class: "guide" })));
  rows.forEach((row, k) => {
    const y = top + (k + 0.5) * high;
    parts.push(label(left - 12, y + 4, short(row.name, slim ? 21 : 33), { class: "tick", "text-anchor": "end" }));
    if (row.low !== undefined && row.low !== null)
      parts.push(element("line", { x1: px(row.low), x2: px(row.high), y1: y, y2: y, class: `whisker ${row.tone ?? "accent"}` }));
    parts.push(element("circle", { cx: px(row.value), cy: y, r: 5.5, class: `dot ${row.tone ?? "accent"}` }));
  });
  parts.push(label(left + (width - left) / 2, height - 6, given.axis, { class: "axis", "text-anchor": "middle" }));
  return picture(width, height, given.words, ...parts);
}

// Points in a plane with names beside them, and a line; what lies further right than `most` stands at the edge.
export function plane(points, given) {
  const slim = innerWidth < 620;
  const left = 40, width = slim ? 430 : 700, height = 340, top = 26, bottom = 50, right = slim ? 120 : 150, most = 2;
  const ys = points.map((p) => p.y);
  const [y0, y1] = [Math.min(...ys, given.floor) - 0.09, Math.max(...ys) + 0.03];
  const px = (x) => left + (Math.min(x, most) / most) * (width - left - right), py = (y) => top + ((y1 - y) / (y1 - y0)) * (height - top - bottom);
  const parts = [];
  for (const tick of nice(y0, y1)) {
    parts.push(element("line", { x1: left, x2: width - right, y1: py(tick), y2: py(tick), class: "grid" }));
    parts.push(label(left - 8, py(tick) + 4, String(tick), { class: "tick", "text-anchor": "end" }));
  }
  for (const tick of [0, 0.5, 1, 1.5, 2]) parts.push(label(px(tick), height - bottom + 18, String(tick), { class: "tick", "text-anchor": "middle" }));
  if (given.line) parts.push(element("line", { x1: px(given.line[0][0]), y1: py(given.line[0][1]), x2: px(given.line[1][0]), y2: py(given.line[1][1]), class: "guide" }));
  const taken = [];
  for (const p of [...points].sort((a, b) => b.y - a.y || a.x - b.x)) {
    const x = px(p.x), name = p.x > most ? `${p.name} (${p.x.toPrecision(2)})` : p.name;
    let y = py(p.y) + 4;
    while (taken.some(([tx, ty]) => Math.abs(tx - x) < 150 && Math.abs(ty - y) < 14)) y += 7;
    taken.push([x, y]);
    parts.push(p.x > most ? element("path", { d: `M${x - 4} ${py(p.y) - 5} l9 5 l-9 5 z`, class: "dot quiet" }) : element("circle", { cx: x, cy: py(p.y), r: p.strong ? 7 : 5, class: `dot ${p.strong ? "accent" : "quiet"}` }));
    parts.push(label(x + 12, y, name, { class: p.strong ? "tick strong" : "tick" }));
  }
  parts.push(label(left + (width - left - right) / 2, height - 8, given.xLabel, { class: "axis", "text-anchor": "middle" }));
  parts.push(label(left, 12, given.yLabel, { class: "axis" }));
  return picture(width, height, given.words, ...parts);
}

function nice(low, high) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find((k) => k * power >= rough) * power;
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-12; k++) found.push(Number((k * step).toPrecision(10)));
  return found;
}

// Shares that add up to one, a bar for each hour.
export function stacked(columns, names, words) {
  const slim = innerWidth < 620, width = slim ? 400 : 640, height = 190, left = 34, top = 8, bottom = 30, wide = (width - left - 8) / columns.length;
  const parts = [];
  for (const tick of [0, 0.5, 1]) {
    const y = top + (1 - tick) * (height - top - bottom);
    parts.push(label(left - 7, y + 4, `${100 * tick}`, { class: "tick", "text-anchor": "end" }));
  }
  columns.forEach((shares, k) => {
    let at = 0;
    (shares ?? []).forEach((share, i) => {
      const high = share * (height - top - bottom);
      parts.push(element("rect", { x: left + k * wide + 1.5, y: top + at, width: wide - 3, height: Math.max(0, high - 1), class: `share share-${i % 5}` }));
      at += high;
    });
    if (k % 3 === 0) parts.push(label(left + (k + 0.5) * wide, height - 10, String(k), { class: "tick", "text-anchor": "middle" }));
  });
  const box = picture(width, height, words, ...parts);
  box.append(h("ul.legend", { "aria-hidden": "true" }, names.map((name, i) => {
    const svg = element("svg", { viewBox: "0 0 12 12", width: 12, height: 12 }, element("rect", { width: 12, height: 12, rx: 3, class: `share share-${i % 5}` }));
    return h("li", {}, svg, name);
  })));
  return box;
}

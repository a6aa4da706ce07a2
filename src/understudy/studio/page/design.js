// (3) Design: the slider, the trade-off, the kernel, the card; draws that follow the value; the coin.
import { Newest, post, tab } from "./api.js";
import { heat, lines } from "./charts.js";
import { checkbox, details, field, fill, h, list, num, panel, percent, put, select, source, table, value } from "./dom.js";

const DEMANDS = ["nats", "bits", "percent", "error_at_least", "distortion_at_most"];
const NAME = { nats: "leakage", bits: "leakage", percent: "leakage" };
const STEPS = 1000;

export function designView(page) {
  const w = page.words.design;
  const none = h("p.note", {}, w.no_family);
  const forms = { draw: h("div", {}), causal: h("div", {}), coin: h("div", {}) };
  const tabs = h("div.tabs", { role: "tablist", "aria-label": w.kinds });
  const figures = h("div", {}), frontier = h("div", {}), kernel = h("div", {}), card = h("div", {}), pins = h("div", {}), verdict = h("div", {});
  const left = h("div.stick", {}, h("div.panel.stack", {}, tabs, forms.draw, forms.causal, forms.coin)), right = h("div", {}, verdict, figures, frontier, kernel, card, pins);
  const el = h("div", {}, none, h("div.side", {}, left, right), h("p.note", {}, w.trap), h("p.note", {}, w.no_draw),
    h("div.actions", {}, h("button.go", { type: "button", "data-do": "next", onclick: () => page.go("looks") }, w.next)));
  let kind = "draw", formOf = null, whole = null, number = 0, chart = null, settle = 0, base = null, unit = "bits", costsOf = null;

  // Which kind of design ------------------------------------------------------------------------------

  const buttons = Object.keys(forms).map((name) => h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`, "data-tab": name,
    onclick: () => choose(name), onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const names = Object.keys(forms), next = names[(names.indexOf(name) + step + names.length) % names.length];
      choose(next);
      tabs.querySelector(`[data-tab=${next}]`).focus();
    } }, w[name]));
  put(tabs, buttons);
  for (const [name, form] of Object.entries(forms)) {
    form.id = `panel-${name}`;
    form.setAttribute("role", "tabpanel");
    form.setAttribute("aria-labelledby", `tab-${name}`);
  }
  function choose(name) {
    kind = name;
    for (const button of buttons) {
      const on = button.dataset.tab === name;
      button.setAttribute("aria-selected", String(on));
      button.tabIndex = on ? 0 : -1;
    }
    for (const [each, form] of Object.entries(forms)) form.hidden = each !== name;
  }
  choose("draw");

  // The slider ------------------------------------------------------------------------------------------

  const demand = select(DEMANDS.map((name) => [name, w[name]]), unit);
  demand.id = "demand";
  const amount = h("input", { id: "amount", type: "text", autocomplete: "off", inputMode: "decimal" });
  const slider = h("input", { id: "slider", type: "range", min: 0, max: STEPS, step: 1, "aria-label": w.slider });
  const wrong = h("p.wrong", { role: "alert" });
  const newest = new Newest(solve);

  function top() {
    const b = base;
    return { nats: b.entropy, bits: b.entropy / Math.LN2, percent: 100, error_at_least: b.frontier.errors[0], distortion_at_most: b.frontier.distortion[0] }[unit];
  }
  const plain = () => Number.parseFloat(amount.value);
  function asked() {
    const words = amount.value.trim();
    if (unit === "nats") return words;
    if (unit === "bits") return /[a-z%]/i.test(words) && !/nan|inf/i.test(words) ? words : `${words} bit`;
    return unit === "percent" ? `${words.replace(/%$/, "")}%` : words;
  }
  function fromSlider() {
    const x = (Number(slider.value) / STEPS) * top();
    amount.value = unit === "percent" ? String(Number(x.toFixed(1))) : unit === "error_at_least" ? String(Math.floor(x * 1e4) / 1e4) : String(Number(slider.value) === STEPS ? Math.ceil(x * 1e4) / 1e4 : Number(x.toPrecision(4)));
    newest.ask([NAME[unit] ?? unit, asked()]);
  }
  function toSlider() {
    const x = plain();
    if (base && Number.isFinite(x)) slider.value = String(Math.round((x / top()) * STEPS));
    slider.setAttribute("aria-valuetext", `${amount.value} ${w[unit]}`);
  }
  slider.addEventListener("input", () => {
    fromSlider();
    slider.setAttribute("aria-valuetext", `${amount.value} ${w[unit]}`);
  });
  amount.addEventListener("change", () => {
    toSlider();
    newest.ask([NAME[unit] ?? unit, asked()]);
  });
  demand.addEventListener("change", () => {
    const q = quick();
    unit = demand.value;
    if (q) {
      const x = { nats: q.nats, bits: q.bits, percent: 100 * (q.share ?? 0), error_at_least: q.wrong_after, distortion_at_most: q.distortion }[unit];
      amount.value = unit === "distortion_at_most" ? String(Number((1.0005 * x).toPrecision(4))) : String(Math.floor(x * 1e4) / 1e4);
    }
    toSlider();
    newest.ask([NAME[unit] ?? unit, asked()]);
  });

  let last = null;
  const quick = () => last ?? whole?.quick ?? null;

  async function solve([name, given]) {
    const began = performance.now();
    let found;
    try {
      found = await post("/api/solve", { tab, number: ++number, demand: name, amount: given });
    } catch (error) {
      wrong.textContent = error.message;
      amount.setAttribute("aria-invalid", "true");
      el.dataset.solved = String(number);
      return;
    }
    if (found.stale) return;
    wrong.textContent = "";
    amount.removeAttribute("aria-invalid");
    last = found;
    page.own = found.revision;
    page.state.revision = found.revision;
    page.state.has_design = true;
    page.state.demand = [name, given];
    history.replaceState(null, "", `#design?${new URLSearchParams({ [name]: given })}`);
    drawQuick(found);
    requestAnimationFrame(() => {
      el.dataset.latency = String(performance.now() - began);
      el.dataset.solved = String(found.number);
    });
    clearTimeout(settle);
    settle = setTimeout(rest, 220);
  }

  // When the slider rests: card, verdict and commands, which take longer.
  async function rest() {
    whole = await page.design();
    if (whole) drawWhole(whole);
    document.body.dataset.revision = page.state.revision;
    el.dataset.rested = String(number);
  }

  // What is drawn -----------------------------------------------------------------------------------------

  function drawQuick(q) {
    const u = base?.unit ? ` ${base.unit}` : "";
    const big = (name, x, shown, words, more) => h("div", {}, h("span.figure", {}, value(name, x, shown)), h("span.name", {}, words), more && h("span.more", {}, more));
    put(figures, panel(null, h("div.big", {},
      big("bits", q.bits, `${num(q.bits, 3)} ${w.bit}`, w.leakage_card, q.share !== null ? fill(w.of_entropy, { n: percent(q.share) }) : ""),
      big("wrong_after", q.wrong_after, `${floor(100 * q.wrong_after)} %`, w.wrong_card, fill(w.before, { n: floor(100 * q.wrong_before) })),
      big("distortion", q.distortion, `${num(q.distortion)}${u}`, w.distortion_card, q.relative === null ? "" : fill(w.relative, { n: percent(q.relative) }))),
      h("p.headline", {}, q.headline),
      h("p.note", {}, fill(w.proof, { lower: num(q.lower_bound, 6), gap: q.gap === 0 ? "0" : num(q.gap, 2), status: q.status }),
        h("span", { hidden: true }, value("nats", q.nats), value("lower_bound", q.lower_bound), value("gap", q.gap), value("wrong_before", q.wrong_before), value("share", q.share), value("relative", q.relative)))));
    if (base) drawFrontier(q);
    drawKernel(q.kernel, base?.values ?? whole.values, base?.pseudo ?? whole.pseudo);
  }

  function floor(x) {
    return String(Math.floor(100 * x + 1e-9) / 100);
  }

  function drawFrontier(q) {
    const f = base.frontier;
    const words = fill(w.frontier_alt, { nats: num(q.nats), distortion: num(q.distortion) });
    if (chart?.of === base && chart.box.isConnected) {
      chart.box.chart.move([q.nats, q.distortion], words);
      return;
    }
    const box = lines({ x: f.nats, words, height: 320, xLabel: w.frontier_x, yLabel: `${w.frontier_y}${base.unit ? `, ${base.unit}` : ""}`, right: w.frontier_errors,
      mark: [q.nats, q.distortion], markLabel: w.here, yRange: (u, low, high) => [0, high * 1.08 || 1], rightRange: () => [0, 1] },
      [{ label: w.frontier_errors, values: f.errors, tone: "second", width: 1.5, scale: "right", dash: [2, 4] },
        { label: w.frontier_y, values: f.distortion, tone: "accent", width: 3 },
        { label: w.frontier_lower, values: f.lower, tone: "text", width: 1.5, dash: [3, 8] }]);
    chart = { of: base, box };
    put(frontier, panel(w.frontier, box,
      details(page.words.page.table, table(w.frontier, [w.frontier_x, w.frontier_y, w.frontier_lower, w.frontier_errors],
        f.nats.map((x, k) => [value("frontier-nats", x), value("frontier-distortion", f.distortion[k]), value("frontier-lower", f.lower[k]), value("frontier-error", f.errors[k])]), { numeric: [0, 1, 2, 3], named: false })),
      source(page.words, base.call)));
  }

  function drawKernel(matrix, values, pseudo) {
    if (!matrix) {
      put(kernel);
      return;
    }
    put(kernel, panel(w.kernel, h("p", {}, w.kernel_lead), heat(values, pseudo, matrix, w.kernel_alt, w.true),
      details(page.words.page.table, table(w.kernel, [w.true, ...pseudo], values.map((name, i) => [name, ...matrix[i].map((p) => value("kernel", p, p.toFixed(4)))]),
        { numeric: pseudo.map((_, k) => k + 1) }))));
  }

  function drawWhole(found) {
    const c = found.card;
    if (!found.quick) {
      const f = found.facts;
      const bits = f.leakage.bits_a_day ?? f.leakage.bits ?? f.leakage.bits_a_decision;
      put(figures, panel(w.whole, h("p.headline", {}, c.claim), h("div.big", {},
        h("div", {}, h("span.figure", {}, value("bits", bits, num(bits, 3)), h("span.unit", {}, ` ${w.bit}`)), h("span.name", {}, `${w.leakage_card}, ${f.per}`)),
        f.distortion && h("div", {}, h("span.figure", {}, value("distortion", f.distortion.value)), h("span.name", {}, w.distortion_card))),
        h("p.note", {}, w.no_slider)));
      put(frontier);
      chart = null;
      drawKernel(found.kernel, found.values, found.pseudo);
    }
    const said = new Set(found.standing.sentences);
    const reasons = (found.advice?.reasons ?? []).filter((line) => !said.has(line) && (found.advice.verdict !== "release" || line !== c.claim)).slice(0, 4);
    put(verdict, reasons.length ? h(`div.bar.${found.advice.verdict === "release" ? "green" : found.advice.verdict === "measured" ? "amber" : "red"}`, { "data-verdict": found.advice.verdict },
      said.size ? null : h("strong", {}, found.advice.title), reasons.map((line) => h("p", {}, line))) : null);
    put(card, panel(w.card,
      table(c.caption || w.card, c.head, c.measures.map((m) => [m.title, value(`measure-${m.name}`, m.value, m.shown), m.prior, m.note ? `${m.sentence} ${m.note}` : m.sentence]), { wide: true }),
      details(w.facts, table(w.facts, [w.fact, w.what], c.facts)),
      c.sections.map(([title, items]) => details(title, list(items))),
      h("p.call", {}, `${w.fingerprint} `, h("code", { "data-name": "fingerprint" }, found.facts.fingerprint)),
      source(page.words, found.call)));
  }

  function drawPins(state) {
    const name = h("input", { id: "pin-name", type: "text", maxLength: 60 });
    const pin = (slot) => async () => {
      await page.run("/api/pin", { slot, label: name.value || null });
    };
    const shown = state.pins.filter(Boolean);
    const show = (key, x) => (x === null || x === undefined ? "–" : typeof x === "number" ? value(`pin-${key}`, x, key === "wrong_at_least" ? `${floor(100 * x)} %` : key === "relative" ? `${percent(x)} %` : num(x))
      : h("span", { className: key === "fingerprint" ? "fingerprint" : "" }, String(x)));
    put(pins, panel(w.pins,
      shown.length ? table(w.pins, [w.figure, ...state.pins.map((each, k) => (each ? "AB"[k] : null)).filter(Boolean)],
        Object.entries(w.pin_rows).map(([key, words]) => [words, ...shown.map((each) => show(key, each[key]))])) : h("p", {}, w.pin_empty),
      h("div.fields", {}, field(w.pin_name, name), h("div.actions", {}, h("button.small", { type: "button", "data-do": "pin-a", onclick: pin(0) }, w.pin_a),
        h("button.small", { type: "button", "data-do": "pin-b", onclick: pin(1) }, w.pin_b)))));
  }

  // Forms ---------------------------------------------------------------------------------------------------

  function terms(state, boxes, measure, horizon, fresh) {
    const chosen = boxes.map((box, k) => (box.box.checked ? k : -1)).filter((k) => k >= 0);
    const count = horizon.value.trim();
    return { pseudo: boxes.length && chosen.length < boxes.length ? chosen : null, distortion: measure.value,
      horizon: count ? (/^\d+$/.test(count) ? Number(count) : count) : null, fresh: fresh.value.trim() ? Number(fresh.value) : 0 };
  }

  function shared(state, prefix) {
    const room = state.recipe === "room" || state.recipe === "opened";
    const boxes = room ? [] : state.fit.values.map((name) => checkbox(name, !state.terms.pseudo || state.terms.pseudo.map(String).includes(name)));
    const measure = select([["mae", w.mae], ["mse", w.mse]], state.terms.distortion ?? "mae");
    measure.id = `${prefix}-measure`;
    const horizon = h("input", { id: `${prefix}-horizon`, type: "text", inputMode: "numeric", value: state.terms.horizon ?? "" });
    const fresh = h("input", { id: `${prefix}-fresh`, type: "text", inputMode: "decimal", value: String(state.terms.fresh ?? 0) });
    const el = h("div.stack", {}, boxes.length ? h("fieldset", {}, h("legend", {}, w.pseudo), boxes) : null,
      field(w.measure, measure), field(w.horizon, horizon, w.horizon_hint), field(w.fresh, fresh, w.fresh_hint));
    return { el, read: () => terms(state, boxes, measure, horizon, fresh) };
  }

  function build(state) {
    const one = shared(state, "draw");
    const costs = h("button", { type: "button", "data-do": "base", onclick: () => page.run("/api/base", one.read()) }, w.costs_go);
    const control = h("div.stack", { hidden: !state.base }, field(w.demand, demand), field(w.amount, amount), slider, wrong);
    put(forms.draw, control, state.base ? null : h("p", {}, w.no_costs), h("details", { open: !state.base }, h("summary", {}, w.options), one.el, h("div.actions", {}, costs)));

    const two = shared(state, "causal");
    const day = h("input", { id: "per-day", type: "text", value: "0.1 bit" });
    const every = h("input", { id: "every", type: "text", inputMode: "numeric", value: String(state.moves.every) });
    const clock = checkbox(w.clock, false);
    const output = select([["lifelike", w.lifelike], ["least-change", w.least_change]], "lifelike");
    output.id = "output";
    clock.box.id = "clock";
    put(forms.causal, h("div.stack", {}, h("p", {}, w.causal_lead), state.moves.causal ? [field(w.per_day, day), field(w.every, every), state.moves.clock ? clock : null, state.data ? field(w.output, output) : null,
      details(w.options, two.el), h("div.actions", {}, h("button.go", { type: "button", "data-do": "causal", onclick: () =>
        page.run("/api/causal", { ...two.read(), leakage: day.value, decision_every: whole_(every.value), clock: clock.box.checked, output: output.value }) }, w.causal_go))] : h("p.note", {}, w.causal_no)));

    const q = h("input", { id: "q", type: "text", inputMode: "decimal", value: "0.5" });
    const epoch = h("input", { id: "epoch", type: "text", inputMode: "numeric", value: String(state.moves.day ?? 96) });
    put(forms.coin, h("div.stack", {}, h("p", {}, w.coin_lead), state.data ? [field(w.q, q), field(w.epoch, epoch),
      h("div.actions", {}, h("button.go", { type: "button", "data-do": "coin", onclick: () => page.run("/api/coin", { q: q.value, epoch: whole_(epoch.value) }) }, w.coin_go))]
      : h("p.note", {}, w.coin_no)));
  }

  const whole_ = (words) => (/^\s*\d+\s*$/.test(words) ? Number(words) : words);

  function takeDemand(state) {
    const address = new URLSearchParams(location.hash.split("?")[1] ?? "");
    let [name, given] = state.demand, typed = false;
    for (const each of ["leakage", "error_at_least", "distortion_at_most"]) if (address.has(each)) [name, given, typed] = [each, address.get(each), given !== address.get(each) || name !== each];
    unit = name !== "leakage" ? name : /%|percent/.test(given) ? "percent" : /bit/.test(given) ? "bits" : "nats";
    demand.value = unit;
    amount.value = unit === "bits" ? given.replace(/\s*bits?$/, "") : given.replace(/%$/, "").replace(/\s*nats?$/, "");
    toSlider();
    if (typed) newest.ask([name, given]);
  }

  return {
    el,
    async update(state) {
      const ready = Boolean(state.fit) || state.has_design;
      none.hidden = ready;
      el.children[1].hidden = !ready;
      if (!ready) return;
      const key = JSON.stringify([state.fit?.fingerprint, state.fit?.values, state.terms, state.moves, Boolean(state.data), Boolean(state.base), state.recipe === "room"]);
      const fresh = JSON.stringify(state.base) !== JSON.stringify(base);
      base = state.base;
      if (key !== formOf && state.fit) {
        formOf = key;
        build(state);
      }
      if (state.fit && !state.base && !state.busy && !state.failure && !state.has_design && kind === "draw" && costsOf !== state.revision) {
        costsOf = state.revision;
        page.run("/api/base", { distortion: "mae", fresh: 0, horizon: null, pseudo: null, auto: true });
      }
      if (base && fresh) takeDemand(state);
      whole = await page.design();
      last = null;
      if (whole?.quick) drawQuick(whole.quick);
      if (whole) drawWhole(whole);
      else for (const each of [figures, frontier, kernel, card, verdict]) put(each);
      if (state.has_design) drawPins(state);
      const made = { causal: "causal", coin: "coin" }[state.recipe];
      if (made && fresh === false && kind !== made && !state.job && el.dataset.kind !== `${state.revision}`) choose(made);
      el.dataset.kind = `${state.revision}`;
      el.dataset.rested = String(number);
    },
  };
}

// (4) Looks: traces for each value that may be played, and what onlookers conclude.
import { dots, lines, plane } from "./charts.js";
import { details, field, fill, h, list, num, panel, percent, put, select, source, table, value } from "./dom.js";

export function looksView(page) {
  const w = page.words.looks;
  const none = h("p.note", {}, w.no_design);
  const form = h("div", {}), traces = h("div", {}), conclude = h("div", {}), audit = h("div", {});
  const el = h("div", {}, none, form, traces, conclude, audit, h("p.note", {}, w.trap), h("div.actions", {}, h("button.go", { type: "button", "data-do": "next", onclick: () => page.go("take") }, w.next)));
  let formOf = null, drawnOf = null, askedOf = null;

  function drawTraces(state, looks) {
    const words = { private: state.fit?.private ?? w.true_value, value: String(looks.true) };
    const [first, ...others] = looks.traces;
    const title = fill(looks.real ? w.real : w.simulated, words);
    if (!first.y) {
      put(traces, panel(null, h("p.note", {}, w.hidden)));
      return;
    }
    const x = first.y.map((_, k) => k + 1);
    const all = looks.traces.flatMap((each) => each.y).filter(Number.isFinite);
    const range = [Math.min(...all), Math.max(...all)], pad = 0.06 * (range[1] - range[0] || 1);
    put(traces, panel(title, state.traces === false ? h("p", {}, w.hidden) : null, h("div.traces", {}, others.map((each) =>
      h("div", {}, h("h3", {}, fill(w.trace_played, { value: each.value })),
        lines({ x, words: fill(w.trace_alt, { value: each.value }), height: 200, xLabel: w.reading, yRange: [range[0] - pad, range[1] + pad] },
          [{ label: w.trace_true, values: first.y, tone: "quiet", width: 1.5 }, { label: fill(w.trace_played, { value: each.value }), values: each.y, tone: "accent", width: 2 }])))),
      source(page.words, "us.disguise(readings, source, target)")));
  }

  function best(odds, values) {
    if (!odds) return null;
    const k = odds.indexOf(Math.max(...odds));
    return fill(w.likelihood_cell, { value: String(values[k]), percent: num(100 * odds[k], 3) });
  }

  function drawConclusions(looks) {
    const rows = looks.traces.map((each) => [
      each.kind === "true" ? `${w.trace_true} (${looks.true})` : fill(w.trace_played, { value: each.value }),
      each.share === null ? "–" : value("share", each.share, `${percent(each.share)} %`),
      String(each.averaging), each.likelihood ? value("likelihood", Math.max(...each.likelihood), best(each.likelihood, looks.values)) : "–",
      each.bayes ? value("bayes", Math.max(...each.bayes), best(each.bayes, looks.values)) : "–"]);
    put(conclude, panel(w.conclude, h("p", {}, w.conclude_lead), table(w.conclude, [w.shown, w.chance, w.averaging, w.likelihood, w.bayes], rows, { numeric: [1] }),
      h("h3", {}, w.clock), h("p", {}, looks.clock ? fill(w.clock_words, { right: percent(looks.clock.right), without: percent(looks.clock.without) }) : w.no_clock),
      source(page.words, "us.loglik(readings, model), design.randomizer.kernel")));
  }

  function drawAudit(found) {
    const go = h("button", { type: "button", "data-do": "audit", onclick: () => page.run("/api/audit") }, w.audit_go);
    if (!found) {
      put(audit, panel(w.audit, h("p", {}, w.audit_lead), h("div.actions", {}, go)));
      return;
    }
    const rows = found.rows.filter((row) => row.value !== null);
    const r = found.rivals;
    const points = r ? r.points.filter((p) => p.price !== null && p.accuracy !== null).map((p) => ({ x: p.price, y: p.accuracy, name: p.name, strong: p.key === "design" })) : [];
    put(audit, panel(w.audit, h("p.headline", { "data-audit": found.how }, found.verdict), found.price.map((line) => h("p", {}, line)),
      h("p", {}, found.how === "simulated" ? w.how_simulated : w.how_replayed, " ", found.basis),
      rows.length ? dots(rows.map((row) => ({ name: row.name, value: row.value, low: row.low, high: row.high, tone: row.clock ? "second" : "accent" })), { axis: w.accuracy, words: w.audit_alt, guides: [[1 / (page.whole?.values.length ?? 2), ""]] }) : null,
      details(page.words.page.table, table(w.audit, [w.name, w.accuracy, w.interval, w.wrong, w.verdict],
        rows.map((row) => [row.name, value("accuracy", row.value, num(row.value, 3)), `${num(row.low, 3)} – ${num(row.high, 3)}`, num(row.wrong, 3), row.verdict]), { numeric: [1, 2, 3] })),
      found.best.length ? list(found.best.map((each) => `${each.data}: ${each.name}, ${num(each.value, 3)}`)) : null,
      found.notes.length ? details(page.words.data.notes, list(found.notes)) : null,
      Object.keys(found.skipped).length ? details(w.skipped, list(Object.entries(found.skipped).map(([name, why]) => `${name}: ${why}`))) : null,
      source(page.words, found.call)),
    r ? panel(w.rivals, points.length ? plane(points, { xLabel: w.price, yLabel: w.accuracy, words: w.rivals_alt, floor: r.chance,
        line: raw(points, r) }) : null,
      details(page.words.page.table, table(w.rivals, r.head, r.rows, { numeric: [2, 3, 4, 5] })), list(r.sentences)) : null);
  }

  const raw = (points, r) => {
    const first = points.find((p) => p.x === 0);
    return first ? [[0, first.y], [1, r.chance]] : null;
  };

  return {
    el,
    async update(state) {
      none.hidden = state.has_design;
      for (const each of [form, traces, conclude, audit]) each.hidden = !state.has_design;
      if (!state.has_design) return;
      const whole = await page.design();
      if (!whole) return;
      const key = JSON.stringify(whole.values);
      if (key !== formOf) {
        formOf = key;
        const row = select(whole.values.map((name, k) => [String(k), name]), String(state.looks?.row ?? 0));
        row.id = "row";
        put(form, panel(null, h("div.fields", {}, field(`${w.true_value}${state.fit?.private ? ` (${state.fit.private})` : ""}`, row),
          h("div.actions", {}, h("button.go", { type: "button", "data-do": "looks", onclick: () => page.run("/api/looks", { row: Number(row.value) }) }, w.go)))));
      }
      form.hidden = state.recipe === "coin";
      const mark = `${whole.facts.fingerprint}`;
      if (!state.looks && !state.busy && !state.failure && state.recipe !== "coin" && askedOf !== mark) {
        askedOf = mark;
        page.run("/api/looks", { row: 0, auto: true });
      }
      const drawn = JSON.stringify([state.looks, whole.audit, mark]);
      if (drawn === drawnOf) return;
      drawnOf = drawn;
      if (state.looks) {
        drawTraces(state, state.looks);
        drawConclusions(state.looks);
      } else {
        put(traces);
        put(conclude);
      }
      drawAudit(whole.audit);
    },
  };
}

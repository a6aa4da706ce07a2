// (2) Fit: candidates, the gate, and what the scores look like.
import { dots, lines } from "./charts.js";
import { details, field, fill, h, list, num, panel, percent, put, select, source, table, value } from "./dom.js";

const CLASSES = ["auto", "grey-box", "autoregressive", "free", "independent", "hidden", "adaptive"];

export function fitView(page) {
  const w = page.words.fit;
  const form = h("div", {}), found = h("div", {}), tuning = h("div", {}), after = h("div", {});
  const model = select(CLASSES.map((name) => [name, name === "auto" ? w.auto : name]), "auto");
  model.id = "model";
  const go = h("button.go", { type: "button", "data-do": "fit", onclick: () => page.run("/api/fit", { model: model.value }) }, w.go);
  const fitPanel = panel(null, h("div.fields", {}, field(w.model, model), h("div.actions", {}, go)));
  const most = h("input", { type: "text", id: "at-most", value: "0.65", inputMode: "decimal" });
  const tune = h("button", { type: "button", "data-do": "tune", onclick: () => page.run("/api/tune", { at_most: most.value }) }, w.tune_go);
  const tunePanel = panel(w.tune, h("p", {}, w.tune_lead), h("div.fields", {}, field(w.at_most, most), h("div.actions", {}, tune)));
  put(form, fitPanel);
  let shownOf = null;

  function candidates(f) {
    const scored = f.scores_line.filter((row) => row.behind !== null && row.behind !== undefined && row.usable !== false);
    const near = scored.filter((row) => row.behind <= Math.max(1, 6 * (scored[1]?.behind ?? 1)));
    const rows = f.candidates.rows.map((row) => ({ cells: row, mark: row.at(-1) === "chosen" ? "strong" : row.at(-1) === "cannot be used" ? "dim" : "" }));
    return panel(w.candidates,
      f.reason && h("p", {}, `${f.reason}.`),
      near.length > 1 && dots(near.map((row) => ({ name: row.name, value: row.behind, low: row.behind - (row.behind_error ?? 0), high: row.behind + (row.behind_error ?? 0),
        tone: row.name === f.model ? "accent" : "quiet" })), { axis: w.behind, words: w.candidates_alt }),
      f.candidates.rows.length ? details(page.words.page.table, table(w.candidates, f.candidates.head, rows, { numeric: [1, 2, 3, 4] })) : null,
      f.candidates.notes.length ? list(f.candidates.notes) : null);
  }

  function gate(f) {
    const g = f.gate;
    const windows = g.windows.filter((each) => Number.isFinite(each.excess));
    const tag = g.fits === true ? h("span.tag.good", {}, w.yes) : g.fits === false ? h("span.tag.bad", {}, w.found) : h("span.tag.bad", {}, w.not_tested);
    return panel(w.gate,
      h("p", { "data-gate": String(g.fits) }, tag, " ", g.sentence ?? ""),
      windows.length ? [
        h("h3", {}, w.tells),
        dots(windows.map((each, k) => ({ name: g.rows[k][0], value: each.excess, low: each.low, high: each.high, tone: each.low > 0 ? "red" : "accent" })),
          { axis: w.leak, words: w.tells_alt, guides: [[0, ""]] }),
        details(page.words.page.table, table(w.tells, g.head, g.rows.map((row, k) => row.map((cell, c) => (c === 3 ? value("excess", windows[k].excess, cell) : cell))), { numeric: [1, 2, 3, 4, 5, 6, 7] }),
          h("p.note", {}, g.method)),
      ] : null,
      g.verdicts.length ? details(w.diagnostics, table(w.diagnostics, [w.test, f.private ?? w.whom, w.outcome, w.finding],
        g.verdicts.map((v) => [v.name, v.value ?? "", h(v.passed ? "span.tag" : "span.tag.bad", {}, v.passed ? w.passed : w.deviation), v.sentence]))) : null);
  }

  function scores(f) {
    if (!f.scores) return h("p.note", {}, w.no_scores);
    return h("div.two", {}, f.scores.map((row) => {
      const title = `${fill(w.value, { private: f.private, value: row.value })}${f.readings.length > 1 ? `, ${row.channel}` : ""}`;
      const lags = row.memory.map((_, k) => k + 1);
      return panel(title,
        h("h3", {}, w.qq),
        lines({ x: row.normal, words: fill(w.qq_alt, row), xLabel: w.normal, yLabel: w.scores, height: 230, legend: false, yRange: [-4, 4], xRange: [-4, 4] },
          [{ values: row.normal, tone: "quiet", dash: [4, 4], width: 1.5 }, { values: row.found, tone: "accent", points: true, width: 1.5 }]),
        h("h3", {}, w.acf),
        lines({ x: lags, words: fill(w.acf_alt, row), xLabel: w.lag, height: 170, legend: false, guides: [row.band, -row.band], xRange: [0.3, lags.length + 0.7], xIncrs: [1, 2, 5, 10],
          yRange: [-0.02 + Math.min(-2 * row.band, ...row.memory.filter(Number.isFinite)), 0.02 + Math.max(2 * row.band, ...row.memory.filter(Number.isFinite))] },
          [{ values: row.memory, tone: "accent", bars: true, width: 0 }]),
        details(page.words.page.table,
          table(w.acf, [w.lag, w.acf], lags.map((lag, k) => [String(lag), value("memory", row.memory[k])]), { numeric: [1] }),
          table(w.qq, [w.normal, w.scores], row.normal.map((x, k) => [num(x, 3), num(row.found[k], 3)]), { numeric: [1] })));
    }));
  }

  function measured(t) {
    return panel(w.tune, t.sentences.map((line) => h("p", {}, line)),
      t.steps.length ? details(w.steps, table(w.steps, [w.setting, w.cost, w.accuracy, w.upper, w.outcome],
        t.steps.map((s) => [s.setting, value("step-distortion", s.distortion, percent(s.distortion)), value("step-accuracy", s.accuracy, num(s.accuracy, 3)),
          num(s.upper, 3), h(s.passed ? "span.tag.good" : "span.tag", {}, s.passed ? w.yes : w.no)]), { numeric: [1, 2, 3] })) : null,
      t.notes.length ? list(t.notes) : null, source(page.words, t.call));
  }

  return {
    el: h("div", {}, form, found, tuning, after),
    update(state) {
      fitPanel.hidden = !state.data;
      if (state.fitted?.model && shownOf === null) model.value = state.fitted.model;
      const key = JSON.stringify([state.fit?.fingerprint, state.fit?.model, state.tuning]);
      if (key === shownOf) return;
      shownOf = key;
      const f = state.fit;
      put(found, f ? [
        f.standing.colour === "green" ? h("div.bar.green", { "data-standing": "green" }, w.green) : null,
        panel(null, h("dl.stats", {}, h("div", {}, h("dt", {}, w.chosen), h("dd", { "data-model": f.model }, f.model)),
          f.values.map((each, k) => h("div", {}, h("dt", {}, `${f.private ?? ""} = ${each}`), h("dd", {}, value("prior", f.prior[k], `${percent(f.prior[k])} %`))))),
          source(page.words, f.call)),
        f.gate.rows.length || f.gate.sentence || f.gate.fits !== null ? gate(f) : null, f.candidates.rows.length ? candidates(f) : null, scores(f),
        f.notes.length ? panel(null, details(w.notes, list(f.notes))) : null,
      ] : h("p.note", {}, page.words.design.no_family));
      put(tuning, state.tuning ? measured(state.tuning) : null, f && state.data ? tunePanel : null);
      put(after, f ? h("div.actions", {}, h("button.go", { type: "button", "data-do": "next", onclick: () => page.go("design") }, w.next)) : null);
    },
  };
}

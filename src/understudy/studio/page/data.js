// (1) Data: what is in the history, before anything is fitted.
import { upload } from "./api.js";
import { stacked } from "./charts.js";
import { checkbox, details, field, fill, h, list, num, panel, percent, put, select, source, table, value } from "./dom.js";

export function dataView(page) {
  const w = page.words.data;
  const open = h("div", {}), form = h("div", {}), found = h("div", {});
  const el = h("div", {}, open, form, found);
  let formOf = null;

  const file = h("input", { type: "file", id: "file", onchange: () => file.files[0] && take(file.files[0]) });
  const opened = h("p", { role: "status" });
  const drop = h("div.drop", {
    ondragover: (event) => { event.preventDefault(); drop.classList.add("over"); },
    ondragleave: () => drop.classList.remove("over"),
    ondrop: (event) => { event.preventDefault(); drop.classList.remove("over"); if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]); },
  }, file, h("label", { htmlFor: "file" }, h("span.button", {}, w.choose)), " ", w.or, h("p", {}, fill(w.limit, { limit: page.words.limit })), opened);
  const example = h("button", { type: "button", "data-do": "room", onclick: () => page.run("/api/room") }, w.room);
  put(open, panel(null, drop, h("div.actions", {}, example)));

  async function take(one) {
    page.failed = null;
    try {
      await upload(one);
    } catch (error) {
      page.failed = error.message;
    }
    file.value = "";
    await page.refresh();
  }

  function columnsForm(state) {
    const { names, kinds, guess } = state.found;
    const known = state.columns ?? { reading: [guess.reading ?? names[0]], private: guess.private ?? names[0], time: guess.time };
    const numbers = names.filter((name) => kinds[name] === "numbers" || kinds[name] === "labels");
    const boxes = numbers.map((name) => {
      const box = checkbox(name, known.reading.includes(name));
      box.box.value = name;
      return box;
    });
    const optional = [["", w.none], ...names.map((name) => [name, name])];
    const privateSelect = select(names.map((name) => [name, name]), known.private);
    privateSelect.id = "private";
    const time = select(optional, known.time ?? "");
    time.id = "time";
    const segment = select(optional, known.segment ?? "");
    segment.id = "segment";
    const period = h("input", { id: "period", type: "text", value: known.period ?? "" });
    const bins = h("input", { id: "bins", type: "text", value: known.bins ?? "" });
    const dayFirst = checkbox(w.day_first, known.day_first);
    const clock = checkbox(w.public, (known.public ?? []).includes("clock"));
    const go = h("button.go", { type: "button", "data-do": "data", onclick: () => page.run("/api/data", {
      reading: boxes.filter((box) => box.box.checked).map((box) => box.box.value),
      private: privateSelect.value, time: time.value || null, segment: segment.value || null,
      period: period.value, bins: bins.value, day_first: dayFirst.box.checked, public: clock.box.checked ? ["clock"] : [],
    }) }, w.go);
    put(form, panel(w.columns,
      h("div.fields", {},
        h("fieldset", { id: "reading" }, h("legend", {}, w.reading), boxes),
        field(w.private, privateSelect), field(w.time, time)),
      details(w.more, h("div.fields", {}, field(w.segment, segment), field(w.period, period, w.period_hint), field(w.bins, bins, w.bins_hint),
        h("div.field", {}, dayFirst, clock))),
      h("div.actions", {}, go)));
  }

  function facts(d) {
    const stat = (name, shown, long) => h("div", {}, h("dt", {}, name), h(long ? "dd.long" : "dd", {}, shown));
    const labels = d.values.map(String);
    const rows = d.values.map((each, i) => [labels[i], value("count", d.counts[i], num(d.counts[i], 9)), value("prior", d.prior[i], `${percent(d.prior[i])} %`),
      value("stays", d.stays[i], d.stays_words[i]), value("held", d.held.counts[i], num(d.held.counts[i], 9))]);
    const hours = d.by_hour;
    return [
      panel(null, h("dl.stats", {},
        stat(w.rows, value("rows", d.rows, num(d.rows, 9))), stat(w.used, value("used", d.used, num(d.used, 9))),
        stat(w.missing, value("missing", d.missing)), stat(w.unlabelled, value("unlabelled", d.unlabelled)),
        stat(w.gaps, value("gaps", d.gaps)), d.days !== null && stat(w.days, value("days", d.days)),
        d.period !== null && stat(w.cadence, value("period", d.period, span(d.period))),
        Object.entries(d.grids).map(([name, words]) => stat(fill(w.grid, { name }), words.replace(/[<>]/g, "").replace("Grid: ", ""), true))),
        source(page.words, w.call)),
      h("div.two", {},
        panel(w.values, table(w.values, [w.value, w.count, w.share, w.stays, w.held_rows], rows, { numeric: [1, 2, 3, 4] }),
          h("p.note", {}, fill(w.held_words, { percent: num(100 * d.held.share), rows: d.held.rows, of: d.held.of }))),
        hours && panel(w.by_hour, h("p", {}, w.by_hour_lead), stacked(hours, labels, w.by_hour_alt),
          details(page.words.page.table, table(w.by_hour, [w.hour, ...labels],
            hours.map((row, k) => [String(k), ...(row ?? d.values.map(() => null)).map((x) => (x === null ? "–" : value("by_hour", x, percent(x))))]),
            { numeric: labels.map((_, k) => k + 1) })))),
      d.notes.length ? panel(w.notes, list(d.notes)) : null,
      h("div.actions", {}, h("button.go", { type: "button", "data-do": "next", onclick: () => page.go("fit") }, w.next)),
    ];
  }

  return {
    el,
    update(state) {
      opened.textContent = state.source ? fill(w.opened, { name: state.source.name, size: bytes(state.source.size) })
        : state.recipe === "room" ? w.room_open : state.fit ? w.other_kind : "";
      const key = state.found ? JSON.stringify([state.source, state.found]) : null;
      if (key !== formOf) {
        formOf = key;
        if (state.found) columnsForm(state);
        else put(form);
      }
      put(found, state.data ? facts(state.data) : null);
    },
  };
}

export function span(seconds) {
  for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) if (seconds >= size) return `${num(seconds / size)} ${name}`;
  return `${num(seconds)} s`;
}

function bytes(size) {
  return size < 1e6 ? `${num(size / 1e3, 3)} kB` : `${num(size / 1e6, 3)} MB`;
}

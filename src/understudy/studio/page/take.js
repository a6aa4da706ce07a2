// (5) Take away: the files, and what makes them again.
import { post } from "./api.js";
import { field, h, panel, put } from "./dom.js";

export function takeView(page) {
  const w = page.words.take;
  const none = h("p.note", {}, page.words.looks.no_design);
  const files = h("ul.files", {}), commands = h("div", {}), bar = h("div", {});
  const kept = h("span", { role: "status" });
  const inputs = Object.fromEntries(["who", "what", "why"].map((key) => [key, key === "why" ? h("textarea", { id: key, rows: 3 }) : h("input", { id: key, type: "text" })]));
  let filled = false, drawnOf = null;
  for (const input of Object.values(inputs)) {
    input.addEventListener("change", async () => {
      await post("/api/note", Object.fromEntries(Object.entries(inputs).map(([key, each]) => [key, each.value])));
      kept.textContent = w.saved;
    });
  }
  const body = h("div", {}, bar,
    panel(w.decision, h("div.fields", {}, field(w.who, inputs.who), field(w.what, inputs.what)), h("div.stack", {}, h("div", {}), field(w.why, inputs.why)), kept),
    panel(w.files, files), commands);

  function drawFiles(state) {
    const rows = [["report.html", w.report, w.report_words], ["design.json", w.design, w.design_words], ["decision.md", w.record, w.record_words],
      ...(state.audited ? [["audit.json", w.audit, w.audit_words]] : []), ...(state.fit ? [["family.json", w.family, w.family_words]] : []),
      ["script.py", w.script, w.script_words], ["commands.sh", w.shell, w.shell_words]];
    put(files, rows.map(([name, title, words]) => h("li", {}, h("a", { href: `/take/${name}`, download: "", "data-take": name }, h("strong", {}, title), h("small", {}, words), h("code", {}, name)))));
  }

  function copyable(name, words) {
    const button = h("button.small", { type: "button", onclick: async () => {
      await navigator.clipboard.writeText(words);
      button.textContent = w.copied;
    } }, w.copy);
    return [h("pre", { "data-name": name, tabIndex: 0 }, words), h("div.actions", {}, button)];
  }

  return {
    el: h("div", {}, none, body),
    async update(state) {
      none.hidden = state.has_design;
      body.hidden = !state.has_design;
      if (!state.has_design) return;
      if (!filled) {
        filled = true;
        for (const [key, input] of Object.entries(inputs)) input.value = state.notes[key] ?? "";
      }
      const whole = await page.design();
      if (!whole) return;
      const key = JSON.stringify([whole.facts.fingerprint, whole.commands, state.audited]);
      if (key === drawnOf) return;
      drawnOf = key;
      drawFiles(state);
      put(commands,
        panel(w.commands, h("p", {}, w.commands_lead), copyable("commands", whole.commands.join("\n")),
          h("p.call", {}, `${w.fingerprint} `, h("code", { "data-name": "fingerprint" }, whole.facts.fingerprint))),
        panel(w.python, copyable("script", whole.script)));
    },
  };
}

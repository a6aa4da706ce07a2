// The frame: steps, what must be seen, the job, and the view that is open.
import { get, listen, post } from "./api.js";
import { fill, h, put } from "./dom.js";
import { dataView } from "./data.js";
import { fitView } from "./fit.js";
import { designView } from "./design.js";
import { looksView } from "./looks.js";
import { takeView } from "./take.js";

const STEPS = ["data", "fit", "design", "looks", "take"];

const words = await get("/words.json");
const page = { words, state: await get("/api/state"), whole: null, wholeOf: -1 };
const views = {};
const make = { data: dataView, fit: fitView, design: designView, looks: looksView, take: takeView };

const nav = h("ol", {});
const bar = h("div", { role: "status" });
const alarm = h("div", { role: "alert" });
const job = h("div", {});
const gone = h("div", { role: "alert" });
const main = h("main", { id: "content", tabIndex: -1 });
document.title = words.page.title;
document.body.append(
  h("a.skip", { href: "#content", onclick: (event) => { event.preventDefault(); main.focus(); } }, words.page.skip),
  h("header.top", {}, h("div", {},
    h("span.brand", {}, h("img", { src: "/page/mark.svg", alt: "" }), words.page.title),
    h("nav", { "aria-label": words.page.steps }, nav))),
  main,
  h("footer", {}, words.page.local),
);

function step() {
  const name = location.hash.slice(1).split("?")[0];
  return STEPS.includes(name) ? name : "data";
}

page.go = (name) => {
  location.hash = name;
};

page.refresh = async () => {
  page.state = await get("/api/state");
  await show();
};

// The whole design, fetched again when it is another.
page.design = async () => {
  if (!page.state.has_design) return null;
  if (page.wholeOf !== page.state.revision || !page.whole) {
    const of = page.state.revision;
    page.whole = await get("/api/design");
    page.wholeOf = of;
  }
  return page.whole;
};

page.run = async (path, given) => {
  page.failed = null;
  try {
    await post(path, given);
  } catch (error) {
    page.failed = error.message;
  }
  await page.refresh();
};

function standing() {
  const own = page.state.has_design && page.whole ? page.whole.standing : null;
  const name = step();
  if (name === "data") return null;
  if (name === "fit") return page.state.fit?.standing;
  return own ?? page.state.fit?.standing;
}

function frame() {
  const name = step();
  put(nav, STEPS.map((each, k) => h("li", {},
    h("a", { href: `#${each}`, "aria-current": each === name ? "page" : null },
      h("span.step", { "aria-hidden": "true" }, String(k + 1)), words.page[each]))));
  const shown = standing();
  put(bar, shown && shown.colour !== "green" ? h(`div.bar.${shown.colour}`, { "data-standing": shown.colour },
    shown.title && h("strong", {}, shown.title), shown.sentences.map((line) => h("p", {}, line))) : null);
  const failure = page.failed ?? page.state.failure?.words;
  put(alarm, failure ? h("div.bar.red", { "data-failure": page.state.failure?.task ?? "request" },
    h("strong", {}, page.state.failure?.cancelled ? words.page.cancel : words.page.failed), h("p", {}, failure)) : null);
}

// One job at a time: what begins one waits for the end of the other.
const JOBS = new Set(["data", "fit", "tune", "base", "causal", "coin", "looks", "audit"]);
function lock(busy) {
  for (const button of main.querySelectorAll("button[data-do]")) if (JOBS.has(button.dataset.do)) button.disabled = busy;
}

let jobShown = null;
function showJob(running) {
  if (!running) {
    jobShown = null;
    put(job);
    document.body.dataset.job = "";
    return;
  }
  document.body.dataset.job = running.task;
  if (jobShown?.task !== running.task) {
    const bars = h("progress", { max: 1, "aria-label": words.page.jobs[running.task] });
    const remark = h("div.remark", {});
    const cancel = h("button.small", { type: "button", "data-do": "cancel", onclick: () => post("/api/cancel") }, words.page.cancel);
    jobShown = { task: running.task, bars, remark };
    put(job, h("div.job", { "data-job": running.task }, h("span.words", {}, words.page.jobs[running.task]), cancel, bars, remark));
  }
  jobShown.bars.value = running.fraction;
  jobShown.remark.textContent = running.remark || fill(words.page.seconds, { n: Math.round(running.seconds) });
}

async function show() {
  const name = step();
  views[name] ??= make[name](page);
  if (main.firstChild?.dataset?.view !== name || main.children.length < 2) {
    const box = h("div", { "data-view": name }, h("div.intro", {}, h("h1", {}, words[name].title), h("p.lead", {}, words[name].lead)));
    put(main, box, alarm, job, bar, views[name].el);
  }
  showJob(page.state.job);
  if (name !== "data" && name !== "fit" && page.state.has_design) await page.design();
  frame();
  await views[name].update(page.state);
  lock(page.state.busy);
  document.body.dataset.view = name;
  document.body.dataset.revision = page.state.revision;
}

addEventListener("hashchange", async () => {
  page.failed = null;
  await show();
  scrollTo(0, 0);
});

let fetching = false;
listen(
  async (told) => {
    put(gone);
    document.body.dataset.gone = "";
    showJob(told.job);
    lock(told.busy);
    const known = told.revision === page.state.revision || told.revision === page.own;
    if ((known && told.busy === page.state.busy) || fetching) return;
    fetching = true;
    try {
      await page.refresh();
    } finally {
      fetching = false;
    }
  },
  () => {
    if (document.body.dataset.gone === "yes") return;
    document.body.dataset.gone = "yes";
    put(gone, h("div.bar.red", { "data-failure": "gone" }, h("strong", {}, words.page.gone)));
    main.prepend(gone);
  },
);
document.body.prepend(h("noscript", {}, words.page.script_needed));
await show();
document.body.dataset.ready = "yes";

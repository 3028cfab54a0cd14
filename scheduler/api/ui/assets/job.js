// One job, as it goes on: progress, the rules so far, and what can be done with it.

import { get, path } from "./api.js";
import { controls } from "./controls.js";
import { el, fill, say } from "./dom.js";
import { follow } from "./events.js";
import { scoreHistory } from "./history.js";
import { progressBar } from "./jobs.js";
import { watchLoad } from "./load.js";
import { funnel, legend, ruleList, rulesTitle } from "./rules.js";
import { labelOf } from "./settings.js";
import { STATES, ago, count, duration, hasEnded, percent, plural, score } from "./text.js";

const SAY_EVERY = 5000;

export async function showJob(root, signal, id) {
  const view = layout(root);
  let job;
  try {
    job = await get(path("jobs", id), { signal });
  } catch (problem) {
    if (!signal.aborted) fill(root, el("h1", { tabIndex: -1 }, "No such job"), el("p", {}, problem.message), el("a", { href: "#/" }, "To the jobs"));
    return;
  }
  if (signal.aborted) return;
  const history = scoreHistory(job, signal);
  const rules = ruleList();
  // The answer may be older than the event that tells what came of it: only what was asked for is taken from it.
  const acts = controls(id, ({ wanted }) => take({ wanted }));
  let reading = false;
  let again = false;
  fill(view.chart, history.element);
  fill(view.rules, rules.element);
  fill(view.acts, acts.element);
  view.settings.append(settingsOf(job));

  /** News of the job: all of it, or what changed. */
  function take(news) {
    job = { ...job, ...news, heard: Date.now() };
    if (hasEnded(job.state)) say(view.load, "");
    history.take(job);
    acts.show(job);
    show(view, job, history.rate());
    announce(job);
  }

  /** Read the rules; if they change meanwhile, once more. */
  async function readRules() {
    if (reading) return void (again = true);
    reading = true;
    try {
      const document = await get(`${path("jobs", id, "rules")}?format=json`, { signal });
      rules.show(document);
      say(view.rulesTitle, rulesTitle(document));
      say(view.legend, legend(document));
      fill(view.funnel, funnel(document.funnel));
      view.results.hidden = false;
      acts.hasRules();
      if (job.rules === null) take({ rules: document.rules.length });
    } catch (problem) {
      if (!signal.aborted && problem.status !== 409) say(view.line, problem.message);
    }
    reading = false;
    if (again) (again = false), readRules();
  }

  function hear({ kind, data }) {
    if (kind === "state" || kind === "progress") take({ wanted: wantedBy(job, data), ...data });
    if (kind === "state" && data.funnel) readRules();
    if (kind === "rules") readRules();
  }

  let lost = false;
  function connected(open) {
    say(view.line, open ? (lost ? "Connected again." : "") : "Connection lost; trying again…");
    view.line.classList.toggle("lost", !open);
    lost = !open;
  }

  take(job);
  const ticking = setInterval(() => show(view, job, history.rate()), 1000);
  const load = watchLoad(view.load, () => job, signal);
  signal.addEventListener("abort", () => (clearInterval(ticking), clearInterval(load)));
  try {
    await follow(path("jobs", id, "events"), hear, connected, signal);
    if (signal.aborted) return;
    const last = await get(path("jobs", id), { signal });
    take(last);
    if (last.funnel) readRules();
    history.complete();
  } catch (problem) {
    if (!signal.aborted) say(view.line, problem.message);
  }
}

function layout(root) {
  const view = {
    title: el("h1", { tabIndex: -1 }), state: el("span", { class: "state large" }), when: el("span", { class: "soft" }),
    acts: el("div", { class: "acts" }), bar: progressBar("Progress of the job"), told: el("p", { class: "told-progress" }),
    line: el("p", { class: "line", role: "status" }), reason: el("p", { class: "reason" }), tiles: el("dl", { class: "tiles" }), load: el("p", { class: "hint load" }),
    chart: el("div"), funnel: el("div"), rules: el("div"), rulesTitle: el("h2"), legend: el("p", { class: "hint" }), settings: el("details", { class: "why" }, el("summary", {}, "Settings")),
  };
  view.results = el("section", { hidden: true, class: "results" }, el("div", { class: "found" }, view.rulesTitle, view.legend, view.rules),
    el("div", { class: "sieves" }, el("h2", {}, "From leaves to rules"), el("p", { class: "hint" }, "Lengths are logarithmic"), view.funnel));
  root.append(
    el("p", { class: "crumb" }, el("a", { href: "#/" }, "All jobs")),
    el("div", { class: "heading" }, el("div", {}, view.title, el("p", { class: "status" }, view.state, view.when)), view.acts),
    view.reason, view.bar.element, view.told, view.line,
    el("div", { class: "live" }, view.tiles, el("figure", {}, view.chart, el("figcaption", {}, "F1 of trees on the validation rows, and the best so far"))),
    view.load, view.results, view.settings,
  );
  return view;
}

function show(view, job, rate) {
  say(view.title, job.name);
  document.title = `${job.name} · maabo`;
  say(view.state, STATES[job.state]);
  view.state.dataset.state = job.state;
  const target = job.table?.target ? `${job.table.target} · ` : "";
  say(view.when, `${target}${ago(job.created)}${job.started ? ` · ${ranFor(job)}` : ""}`);
  view.bar.show(job);
  say(view.told, progressText(job, rate));
  say(view.reason, job.reason ?? (asks(job) || ""));
  view.reason.classList.toggle("error", job.state === "failed");
  const tiles = { Trees: count(job.trees), "Trees a second": rate === null ? "–" : count(Math.round(rate)), "Best F1": score(job.best_score), Rules: job.rules === null ? "–" : count(job.rules) };
  if (!view.tiles.children.length) fill(view.tiles, ...Object.keys(tiles).map((name) => el("div", { "data-fact": name }, el("dt", {}, name), el("dd"))));
  for (const tile of view.tiles.children) say(tile.lastElementChild, tiles[tile.dataset.fact]);
}

/** Events do not tell what was asked for, but a job that rests or goes on again was asked to, by whomever. */
function wantedBy(job, { state }) {
  if (state === "paused") return "pause";
  return job.state === "paused" ? "run" : job.wanted;
}

const asks = (job) => !hasEnded(job.state) && { pause: job.state !== "paused" && "Asked to pause.", cancel: "Asked to stop." }[job.wanted];

/** Events bring the seconds now and then; between them, the clock does. */
function ranFor(job) {
  const moves = ["running", "mining"].includes(job.state);
  const seconds = job.seconds + (moves ? (Date.now() - job.heard) / 1000 : 0);
  return `${moves ? "running" : "ran"} for ${duration(seconds)}`;
}

function progressText(job, rate) {
  if (job.state === "queued") return "Waits until a scheduler takes it.";
  if (job.pairs) return `Screening: ${percent((job.pairs_screened ?? 0) / job.pairs)} of ${plural(job.pairs, "pair")} of features`;
  if (hasEnded(job.state)) return job.planned && job.trees < job.planned ? `${count(job.trees)} of ${plural(job.planned, "tree")}` : "";
  const left = job.state === "running" && rate && job.planned ? ` · about ${duration((job.planned - job.trees) / rate)} left` : "";
  return `${count(job.trees)} of ${job.planned ? count(job.planned) : "…"} trees${left}`;
}

let saidAt = 0;

/** For those who listen: seldom, but always when the state changes. */
function announce(job) {
  const place = document.getElementById("said");
  const now = Date.now();
  if (place.dataset.state === job.state && now - saidAt < SAY_EVERY) return;
  saidAt = now;
  place.dataset.state = job.state;
  const rules = job.rules === null ? "" : `, ${plural(job.rules, "rule")}`;
  say(place, `${STATES[job.state]}: ${job.progress === null ? "" : `${percent(job.progress)}, `}${plural(job.trees, "tree")}${rules}`);
}

function settingsOf(job) {
  const shown = (value) => (value === null ? "–" : typeof value === "boolean" ? (value ? "yes" : "no") : Array.isArray(value) ? value.join(", ") || "none" : String(value));
  const all = Object.entries({ ...job.table, ...job.settings });
  return el("dl", { class: "pairs wide" }, ...all.flatMap(([name, value]) => [el("dt", {}, labelOf(name)), el("dd", {}, shown(value))]));
}

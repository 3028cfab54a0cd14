// The page of one job: its progress, its rules and its actions.

import { get, path } from "./api.js";
import { watchLoad } from "./cluster-load.js";
import { el, setChildren, setText } from "./dom.js";
import { followEvents } from "./event-stream.js";
import { STATES, ago, count, duration, hasEnded, percent, plural, score } from "./format.js";
import { jobActions } from "./job-actions.js";
import { showFindings } from "./job-findings.js";
import { progressBar } from "./jobs-page.js";
import { funnel, legend, reasons, ruleList, rulesTitle } from "./rule-list.js";
import { scoreHistory } from "./score-history.js";
import { labelOf } from "./settings.js";

const ANNOUNCE_INTERVAL = 5000;

export async function showJob(root, signal, id) {
  const view = createLayout(root);
  let job;
  try {
    job = await get(path("jobs", id), { signal });
  } catch (problem) {
    if (!signal.aborted) setChildren(root, el("h1", { tabIndex: -1 }, "No such job"), el("p", {}, problem.message), el("a", { href: "#/" }, "Back to the jobs"));
    return;
  }
  if (signal.aborted) return;
  const history = scoreHistory(job, signal);
  const rules = ruleList();
  // The response may be older than the event that it causes, so only the command is taken from it.
  const actions = jobActions(id, ({ wanted }) => update({ wanted }));
  let loading = false;
  let stale = false;
  setChildren(view.chart, history.element);
  setChildren(view.rules, rules.element);
  setChildren(view.actions, actions.element);
  view.settings.append(settingsList(job));

  /** @param {any} changes  all or some of the job's fields */
  function update(changes) {
    job = { ...job, ...changes, updated: Date.now() };
    if (hasEnded(job.state)) setText(view.load, "");
    history.update(job);
    actions.show(job);
    show(view, job, history.rate());
    announce(job);
  }

  /** Load the rules; if they change in the meantime, load them once more. */
  async function loadRules() {
    if (loading) return void (stale = true);
    loading = true;
    try {
      const document = await get(`${path("jobs", id, "rules")}?format=json`, { signal });
      if (document.partial) showPreliminary(document);
      else await showFindings(view.findings, id, signal);
      view.results.hidden = !document.partial;
      view.live.hidden = !document.partial; // the report has the course of the search
      actions.showDownloads();
      if (job.rules === null) update({ rules: document.rules.length });
    } catch (problem) {
      if (!signal.aborted && problem.status !== 409) setText(view.connection, problem.message);
    }
    loading = false;
    if (stale) (stale = false), loadRules();
  }

  function showPreliminary(document) {
    rules.show(document);
    setText(view.rulesTitle, rulesTitle(document));
    setText(view.legend, legend(document));
    setChildren(view.reasons, ...reasons(document));
    setChildren(view.funnel, funnel(document.funnel));
  }

  function receive({ kind, data }) {
    if (kind === "state" || kind === "progress") update({ wanted: currentCommand(job, data), ...data });
    if (kind === "state" && data.funnel) loadRules();
    if (kind === "rules") loadRules();
  }

  let lost = false;
  function connected(open) {
    setText(view.connection, open ? (lost ? "Connected again." : "") : "Connection lost; trying again…");
    view.connection.classList.toggle("lost", !open);
    lost = !open;
  }

  update(job);
  const clock = setInterval(() => show(view, job, history.rate()), 1000);
  const load = watchLoad(view.load, () => job, signal);
  signal.addEventListener("abort", () => (clearInterval(clock), clearInterval(load)));
  try {
    await followEvents(path("jobs", id, "events"), receive, connected, signal);
    if (signal.aborted) return;
    const last = await get(path("jobs", id), { signal });
    update(last);
    if (last.funnel) loadRules();
    history.load();
  } catch (problem) {
    if (!signal.aborted) setText(view.connection, problem.message);
  }
}

function createLayout(root) {
  const view = {
    title: el("h1", { tabIndex: -1 }), state: el("span", { class: "state large" }), when: el("span", { class: "muted" }),
    actions: el("div", { class: "actions" }), bar: progressBar("Progress of the job"), progress: el("p", { class: "progress-text" }),
    connection: el("p", { class: "connection", role: "status" }), reason: el("p", { class: "reason" }), tiles: el("dl", { class: "tiles" }), load: el("p", { class: "hint load" }),
    findings: el("div", { class: "findings" }), chart: el("div"), funnel: el("div"), rules: el("div"), reasons: el("div", { class: "reasons" }), rulesTitle: el("h2"), legend: el("p", { class: "hint" }), settings: el("details", { class: "collapsible" }, el("summary", {}, "Settings")),
  };
  view.results = el("section", { hidden: true, class: "results" }, el("div", { class: "rule-section" }, view.rulesTitle, view.legend, view.rules, view.reasons),
    el("div", { class: "funnel-section" }, el("h2", {}, "From leaves to rules"), el("p", { class: "hint" }, "Logarithmic scale"), view.funnel));
  view.live = el("div", { class: "live" }, view.tiles, el("figure", {}, view.chart, el("figcaption", {}, "F1 of trees on the validation rows, and the best so far")));
  root.append(
    el("p", { class: "breadcrumb" }, el("a", { href: "#/" }, "All jobs")),
    el("div", { class: "heading" }, el("div", {}, view.title, el("p", { class: "status" }, view.state, view.when)), view.actions),
    view.reason, view.bar.element, view.progress, view.connection,
    view.live, view.load, view.findings, view.results, view.settings,
  );
  return view;
}

function show(view, job, rate) {
  setText(view.title, job.name);
  document.title = `${job.name} · maabo`;
  setText(view.state, STATES[job.state]);
  view.state.dataset.state = job.state;
  const target = job.table?.target ? `${job.table.target} · ` : "";
  setText(view.when, `${target}${ago(job.created)}${job.started ? ` · ${runTime(job)}` : ""}`);
  view.bar.show(job);
  setText(view.progress, progressText(job, rate));
  setText(view.reason, job.reason ?? (commandText(job) || ""));
  view.reason.classList.toggle("error", job.state === "failed");
  const tiles = { Trees: count(job.trees), "Trees per second": rate === null ? "–" : count(Math.round(rate)), "Best F1": score(job.best_score), Rules: job.rules === null ? "–" : count(job.rules) };
  if (!view.tiles.children.length) setChildren(view.tiles, ...Object.keys(tiles).map((name) => el("div", { "data-fact": name }, el("dt", {}, name), el("dd"))));
  for (const tile of view.tiles.children) setText(tile.lastElementChild, tiles[tile.dataset.fact]);
}

/** Events do not contain the command, but a change to or from `paused` implies one, from any client. */
function currentCommand(job, { state }) {
  if (state === "paused") return "pause";
  return job.state === "paused" ? "run" : job.wanted;
}

const commandText = (job) => !hasEnded(job.state) && { pause: job.state !== "paused" && "Pausing…", cancel: "Cancelling…" }[job.wanted];

/** Add the time since the last event to the seconds that it reported. */
function runTime(job) {
  const isRunning = ["running", "mining"].includes(job.state);
  const seconds = job.seconds + (isRunning ? (Date.now() - job.updated) / 1000 : 0);
  return `${isRunning ? "running" : "ran"} for ${duration(seconds)}`;
}

function progressText(job, rate) {
  if (job.state === "queued") return "Waiting for a scheduler.";
  if (job.pairs) return `Screening: ${percent((job.pairs_screened ?? 0) / job.pairs)} of ${plural(job.pairs, "pair")} of features`;
  if (job.shuffles) return `Certifying: ${count(job.shuffles_done ?? 0)} of ${count(job.shuffles)} searches on shuffled labels`;
  if (hasEnded(job.state)) return job.planned && job.trees < job.planned ? `${count(job.trees)} of ${plural(job.planned, "tree")}` : "";
  const left = job.state === "running" && rate && job.planned ? ` · about ${duration((job.planned - job.trees) / rate)} left` : "";
  return `${count(job.trees)} of ${job.planned ? count(job.planned) : "…"} trees${left}`;
}

let announcedAt = 0;

/** Announce progress to screen readers: rarely, but always when the state changes. */
function announce(job) {
  const element = document.getElementById("announcements");
  const now = Date.now();
  if (element.dataset.state === job.state && now - announcedAt < ANNOUNCE_INTERVAL) return;
  announcedAt = now;
  element.dataset.state = job.state;
  const rules = job.rules === null ? "" : `, ${plural(job.rules, "rule")}`;
  setText(element, `${STATES[job.state]}: ${job.progress === null ? "" : `${percent(job.progress)}, `}${plural(job.trees, "tree")}${rules}`);
}

function settingsList(job) {
  const format = (value) => (value === null ? "–" : typeof value === "boolean" ? (value ? "yes" : "no") : Array.isArray(value) ? value.join(", ") || "none" : String(value));
  const settings = Object.entries({ ...job.table, ...job.settings });
  return el("dl", { class: "pairs wide" }, ...settings.flatMap(([name, value]) => [el("dt", {}, labelOf(name)), el("dd", {}, format(value))]));
}

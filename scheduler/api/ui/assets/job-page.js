// The page of one job: its progress, its rules and its actions.

import { get, path } from "./api.js";
import { loadText, watchLoad } from "./cluster-load.js";
import { el, setChildren, setText } from "./dom.js";
import { followEvents } from "./event-stream.js";
import { followAddress } from "./findings-address.js";
import { STATES, ago, count, duration, hasEnded, percent, plural, roughDuration, score, stageText } from "./format.js";
import { jobActions } from "./job-actions.js";
import { showFindings } from "./job-findings.js";
import { jobLabels } from "./job-labels.js";
import { explainStatus, statusLine } from "./job-status.js";
import { progressBar } from "./jobs-page.js";
import { viewOf } from "./permalinks.js";
import { funnel, legend, reasons, ruleList, rulesTitle } from "./rule-list.js";
import { scoreHistory } from "./score-history.js";
import { settingsList } from "./settings.js";

const ANNOUNCE_INTERVAL = 5000;
/** @param {{job: string} & import("./permalinks.js").View} options */
export async function showJob(root, signal, { job: id, ...options }) {
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
  const actions = jobActions(id, ({ wanted }) => update({ wanted }), signal);
  const labels = jobLabels(id, view.title, update);
  let load = null;
  let loading = false;
  let reported = false; // true if the final findings are shown
  let stale = false;
  setChildren(view.chart, history.element);
  setChildren(view.rules, rules.element);
  setChildren(view.actions, actions.element);
  setChildren(view.labels, labels.element);
  view.settings.append(settingsList(job));

  /** @param {any} changes  all or some of the job's fields */
  function update(changes) {
    job = { ...job, ...changes, updated: Date.now() };
    history.update(job);
    actions.show(job);
    labels.show(job);
    refresh();
    announce(job);
  }

  function refresh() {
    const status = explainStatus(job, load, history.quiet());
    const goesOn = !status || status.kind === "info";
    show(view, job, goesOn ? history.rate() : null);
    setText(view.state, status?.label ?? STATES[job.state]);
    view.state.dataset.state = status?.kind === "stuck" ? "stuck" : job.state;
    view.status.show(status);
    setText(view.load, hasEnded(job.state) ? "" : loadText(load));
  }

  /** Show the rules so far or, of a job that is done, its report; if they change in the meantime, once more. */
  async function loadRules() {
    if (reported) return;
    if (loading) return void (stale = true);
    loading = true;
    const isDone = job.state === "done";
    try {
      if (isDone) followAddress(view.findings, id, viewOf(options), await showFindings(view.findings, id, signal), signal);
      else showPreliminary(await get(`${path("jobs", id, "rules")}?format=json`, { signal }));
      reported = isDone;
      view.results.hidden = isDone; // the report has all of this
      view.reported = isDone;
      actions.showDownloads();
      refresh();
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
    view.funnelSection.hidden = false;
    if (job.rules === null) update({ rules: document.rules.length });
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
  const clock = setInterval(refresh, 1000);
  const watch = watchLoad((next) => ((load = next), refresh()), () => job, signal);
  signal.addEventListener("abort", () => (clearInterval(clock), clearInterval(watch)));
  try {
    await followEvents(path("jobs", id, "events"), receive, connected, signal);
    if (signal.aborted) return;
    const last = await get(path("jobs", id), { signal });
    update(last);
    if (last.funnel) loadRules();
    if (last.state !== "done") history.load();
  } catch (problem) {
    if (!signal.aborted) setText(view.connection, problem.message);
  }
}

function createLayout(root) {
  const view = {
    title: el("h1", { tabIndex: -1 }), state: el("span", { class: "state large" }), when: el("span", { class: "muted" }),
    actions: el("div", { class: "actions" }), bar: progressBar("Progress of the job"), progress: el("p", { class: "progress-text" }),
    connection: el("p", { class: "connection", role: "status" }), labels: el("div"), findings: el("div", { class: "findings" }),
    status: statusLine(), reason: el("p", { class: "reason" }), tiles: el("dl", { class: "tiles" }), load: el("p", { class: "hint load" }),
    chart: el("div"), funnel: el("div"), rules: el("div"), reasons: el("div", { class: "reasons" }), rulesTitle: el("h2"), legend: el("p", { class: "hint" }), settings: el("details", { class: "collapsible" }, el("summary", {}, "Settings")),
  };
  view.results = el("section", { hidden: true, class: "results" }, view.rulesTitle, view.rules, view.reasons);
  view.funnelSection = el("div", { class: "funnel-section", hidden: true }, el("h3", {}, "From leaves to findings"), el("p", { class: "hint" }, "Logarithmic scale"), view.funnel, view.legend);
  // Everything about the method, for those who want to know.
  view.search = el("details", { class: "collapsible search", hidden: true }, el("summary", {}, "How the search is going"),
    el("div", { class: "live" }, view.tiles, el("figure", {}, view.chart, el("figcaption", {}, "F1 of trees on the validation rows, and the best so far"))), view.funnelSection, view.load);
  root.append(
    el("p", { class: "breadcrumb" }, el("a", { href: "#/" }, "All jobs")),
    el("div", { class: "heading" }, el("div", {}, view.title, el("p", { class: "status" }, view.state, view.when), view.labels), view.actions),
    view.reason, view.bar.element, view.progress, view.status.element, view.connection,
    view.findings, view.results, view.search, view.settings,
  );
  return view;
}

function show(view, job, rate) {
  document.title = `${job.title ?? job.name} · maabo`;
  const target = job.table?.target ? `${job.table.target} · ` : "";
  setText(view.when, `${target}${ago(job.created)}${job.started ? ` · ${runTime(job)}` : ""}`);
  view.bar.show(job);
  const isEmpty = job.state === "failed" && !job.trees;
  view.bar.element.hidden = job.state === "done" || isEmpty; // a full or an empty bar says nothing
  view.search.hidden = view.reported || !job.trees;
  view.settings.hidden = Boolean(view.reported);
  setText(view.search.firstElementChild, hasEnded(job.state) ? "How the search went" : "How the search is going");
  setText(view.progress, progressText(job, rate));
  setText(view.reason, job.reason ?? "");
  view.reason.classList.toggle("error", job.state === "failed");
  const tiles = { Trees: count(job.trees), "Trees per second": rate === null ? "–" : count(Math.round(rate)), "Best F1": score(job.best_score), Findings: job.rules === null ? "–" : count(job.rules) };
  if (!view.tiles.children.length) setChildren(view.tiles, ...Object.keys(tiles).map((name) => el("div", { "data-fact": name }, el("dt", {}, name), el("dd"))));
  for (const tile of view.tiles.children) setText(tile.lastElementChild, tiles[tile.dataset.fact]);
}

/** Events do not contain the command, but a change to or from `paused` implies one, from any client. */
function currentCommand(job, { state }) {
  if (state === "paused") return "pause";
  return job.state === "paused" ? "run" : job.wanted;
}

/** Add the time since the last event to the seconds that it reported. */
function runTime(job) {
  const isRunning = ["running", "mining"].includes(job.state);
  const seconds = job.seconds + (isRunning ? (Date.now() - job.updated) / 1000 : 0);
  return `${isRunning ? "running" : "ran"} for ${duration(seconds)}`;
}

function progressText(job, rate) {
  if (job.state === "queued") return "";
  const stage = stageText(job);
  if (stage) return stage;
  const tried = `${count(job.trees)} of ${job.planned ? count(job.planned) : "…"} combinations of columns tried`;
  if (hasEnded(job.state)) return job.planned && job.trees < job.planned ? tried : "";
  return rate && job.eta_seconds ? `${tried} · ${roughDuration(job.eta_seconds)} left` : tried;
}

let announcedAt = 0;

/** Announce progress to screen readers: rarely, but always when the state changes. */
function announce(job) {
  const element = document.getElementById("announcements");
  const now = Date.now();
  if (element.dataset.state === job.state && now - announcedAt < ANNOUNCE_INTERVAL) return;
  announcedAt = now;
  element.dataset.state = job.state;
  const parts = [job.progress === null ? "" : percent(job.progress), job.rules === null ? "" : plural(job.rules, "finding")].filter(Boolean);
  setText(element, parts.length ? `${STATES[job.state]}: ${parts.join(", ")}` : STATES[job.state]);
}

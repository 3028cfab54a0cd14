// The list of jobs, refreshed periodically.

import { get, path } from "./api.js";
import { el, setChildren, setText, updateChildren } from "./dom.js";
import { STATES, ago, hasEnded, percent, plural, stageText } from "./format.js";
import { explainStatus, withCode } from "./job-status.js";

const INTERVAL = 2500;
const PAGE_SIZE = 50;
const MIN_SEARCHED = 8; // fewer jobs can be seen at once

/** @param {{table?: string}} options  only jobs on this table */
export function showJobs(root, signal, { table } = {}) {
  const list = el("ul", { class: "jobs" });
  const notice = el("p", { class: "notice", role: "status" });
  const more = el("button", { type: "button", hidden: true }, "Show older jobs");
  const search = el("input", { type: "search", class: "finder", placeholder: "Find a job", "aria-label": "Find a job by name, note or ID" });
  const state = el("select", { "aria-label": "State" }, el("option", { value: "" }, "All states"), ...Object.entries(STATES).map(([value, text]) => el("option", { value }, text)));
  const filters = el("div", { class: "job-filters", hidden: true }, search, state);
  const rows = new Map();
  let pages = 1;
  let jobs = null;

  const newJob = el("a", { class: "button main", href: table ? `#/new?table=${table}` : "#/new" }, "New job");
  root.append(
    el("div", { class: "heading" }, el("h1", { tabIndex: -1 }, "Jobs"), newJob),
    table ? el("p", { class: "muted" }, "Only jobs on one table. ", el("a", { href: "#/" }, "Show all jobs")) : "",
    notice, filters, list, more,
  );
  more.addEventListener("click", () => ((pages += 1), refresh()));
  filters.addEventListener("input", () => show());

  function show() {
    const words = search.value.toLowerCase().split(/\s+/);
    const matches = (job) => words.every((word) => `${job.title ?? ""} ${job.name} ${job.note ?? ""} ${job.id}`.toLowerCase().includes(word)) && (!state.value || job.state === state.value);
    filters.hidden = jobs.length < MIN_SEARCHED;
    newJob.hidden = !jobs.length; // an empty list has a button of its own
    updateList(list, rows, jobs.filter(matches), jobs.length);
  }

  async function refresh() {
    try {
      const loaded = await loadJobs(pages, table, signal);
      if (signal.aborted) return;
      more.hidden = !loaded.next;
      jobs = loaded.jobs;
      show();
      showNotice(notice, await warning(jobs, signal));
    } catch (problem) {
      if (!signal.aborted) showNotice(notice, `${problem.message} Trying again…`);
    }
  }

  const timer = setInterval(() => document.hidden || refresh(), INTERVAL);
  signal.addEventListener("abort", () => clearInterval(timer));
  refresh();
}

/** Show a text with commands only if it differs, so that screen readers do not repeat it. */
function showNotice(notice, text) {
  if (notice.dataset.text === text) return;
  notice.dataset.text = text;
  setChildren(notice, ...withCode(text));
}

/** Say why no job can go on, if that is so. */
async function warning(jobs, signal) {
  if (jobs.every((job) => hasEnded(job.state) || job.state === "paused")) return "";
  const load = await get(path("load"), { signal }).catch(() => null);
  const status = load && explainStatus({ state: "running" }, { ...load, busyShare: null }, 0);
  return status?.kind === "stuck" ? `${status.text} ${status.advice}` : "";
}

/** Load this many pages of jobs, newest first. */
async function loadJobs(pages, table, signal) {
  const jobs = [];
  let next = null;
  for (let page = 0; page < pages && (page === 0 || next); page += 1) {
    const query = new URLSearchParams({ limit: PAGE_SIZE, ...(table ? { dataset: table } : {}), ...(next ? { cursor: next } : {}) });
    const answer = await get(`${path("jobs")}?${query}`, { signal });
    jobs.push(...answer.items);
    next = answer.next;
  }
  return { jobs, next };
}

function updateList(list, rows, jobs, total) {
  if (!total) return rows.clear(), setChildren(list, emptyList());
  if (!jobs.length) return setChildren(list, el("li", { class: "none" }, "No job matches."));
  updateChildren(list, jobs.map((job) => {
    if (!rows.has(job.id)) rows.set(job.id, jobRow(job.id));
    const row = rows.get(job.id);
    row.show(job);
    return row.element;
  }));
}

function emptyList() {
  return el(
    "li",
    { class: "empty" },
    el("h2", {}, "No jobs yet"),
    el("p", {}, "Drop a table anywhere on this page, and say which column to explain. The first findings appear within seconds."),
    el("a", { class: "button main", href: "#/new" }, "Choose a table"),
  );
}

function jobRow(id) {
  const name = el("span", { class: "name" });
  const detail = el("span", { class: "detail" });
  const state = el("span", { class: "state" });
  const bar = progressBar("Progress");
  const facts = el("span", { class: "facts" });
  const tenant = el("span", { class: "tenant" });
  const age = el("time");
  const element = el("li", {}, el("a", { href: `#/jobs/${id}` }, el("span", { class: "names" }, name, detail), state, bar.element, facts, el("span", { class: "age" }, tenant, age)));
  const show = (job) => {
    setText(name, job.title ?? job.name);
    setText(detail, [job.title && job.name, job.note].filter(Boolean).join(" · "));
    setText(state, STATES[job.state]);
    state.dataset.state = job.state;
    bar.show(job);
    setText(facts, factsText(job));
    facts.title = job.state === "failed" ? job.reason ?? "" : "";
    bar.element.hidden = hasEnded(job.state); // the state says as much, and the facts take its place
    setText(tenant, job.tenant === "default" ? "" : job.tenant);
    age.dateTime = new Date(job.created * 1000).toISOString();
    setText(age, ago(job.created));
  };
  return { element, show };
}

function factsText(job) {
  if (job.state === "queued") return "Waiting for its turn";
  if (job.state === "failed") return job.reason ?? "";
  const findings = job.rules === null ? "" : job.rules ? plural(job.rules, "finding") : "No findings";
  if (hasEnded(job.state)) return findings;
  return stageText(job) || [percent(job.progress ?? 0), findings && `${findings} so far`].filter(Boolean).join(" · ");
}

/** A progress bar of a job. */
export function progressBar(label) {
  const inner = el("span", { class: "done" });
  const element = el("span", { class: "progress", role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 }, inner);
  const show = (job) => {
    const share = job.rows ? (job.rows_read ?? 0) / job.rows : job.pairs ? (job.pairs_screened ?? 0) / job.pairs : job.shuffles ? (job.shuffles_done ?? 0) / job.shuffles : job.progress ?? 0;
    element.dataset.state = job.state;
    element.setAttribute("aria-valuenow", String(Math.round(100 * share)));
    inner.style.width = `${100 * share}%`;
  };
  return { element, show };
}

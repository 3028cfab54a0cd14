// The list of jobs, refreshed periodically.

import { get, path } from "./api.js";
import { el, setChildren, setText, updateChildren } from "./dom.js";
import { STATES, ago, count, hasEnded, percent, plural, score } from "./format.js";

const INTERVAL = 2500;
const PAGE_SIZE = 50;

export function showJobs(root, signal) {
  const list = el("ul", { class: "jobs" });
  const notice = el("p", { class: "notice", role: "status" });
  const more = el("button", { type: "button", hidden: true }, "Show older jobs");
  const rows = new Map();
  let pages = 1;

  const newJob = el("a", { class: "button main", href: "#/new" }, "New job");
  root.append(
    el("div", { class: "heading" }, el("h1", { tabIndex: -1 }, "Jobs"), newJob),
    notice,
    list,
    more,
  );
  more.addEventListener("click", () => ((pages += 1), refresh()));

  async function refresh() {
    try {
      const { jobs, next } = await loadJobs(pages, signal);
      if (signal.aborted) return;
      setText(notice, "");
      more.hidden = !next;
      newJob.hidden = !jobs.length; // an empty list has a button of its own
      updateList(list, rows, jobs);
    } catch (problem) {
      if (!signal.aborted) setText(notice, `${problem.message} Trying again…`);
    }
  }

  const timer = setInterval(() => document.hidden || refresh(), INTERVAL);
  signal.addEventListener("abort", () => clearInterval(timer));
  refresh();
}

/** Load this many pages of jobs, newest first. */
async function loadJobs(pages, signal) {
  const jobs = [];
  let next = null;
  for (let page = 0; page < pages && (page === 0 || next); page += 1) {
    const answer = await get(`${path("jobs")}?limit=${PAGE_SIZE}${next ? `&cursor=${encodeURIComponent(next)}` : ""}`, { signal });
    jobs.push(...answer.items);
    next = answer.next;
  }
  return { jobs, next };
}

function updateList(list, rows, jobs) {
  if (!jobs.length) return rows.clear(), setChildren(list, emptyList());
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
    el("p", {}, "Upload a table and choose its target column; the first rules appear within seconds."),
    el("a", { class: "button main", href: "#/new" }, "Mine a table"),
  );
}

function jobRow(id) {
  const name = el("span", { class: "name" });
  const state = el("span", { class: "state" });
  const bar = progressBar("Progress");
  const facts = el("span", { class: "facts" });
  const tenant = el("span", { class: "tenant" });
  const age = el("time");
  const element = el("li", {}, el("a", { href: `#/jobs/${id}` }, name, state, bar.element, facts, el("span", { class: "age" }, tenant, age)));
  const show = (job) => {
    setText(name, job.name);
    setText(state, STATES[job.state]);
    state.dataset.state = job.state;
    bar.show(job);
    setText(facts, factsText(job));
    setText(tenant, job.tenant);
    age.dateTime = new Date(job.created * 1000).toISOString();
    setText(age, ago(job.created));
  };
  return { element, show };
}

function factsText(job) {
  const trees = job.planned && !hasEnded(job.state) ? `${count(job.trees)} of ${plural(job.planned, "tree")}` : plural(job.trees, "tree");
  if (job.state === "queued") return "waiting for a scheduler";
  if (job.pairs) return `${percent((job.pairs_screened ?? 0) / job.pairs)} of ${plural(job.pairs, "pair")} screened`;
  if (job.shuffles) return `${count(job.shuffles_done ?? 0)} of ${count(job.shuffles)} shuffled searches`;
  const rules = job.rules === null ? null : plural(job.rules, "rule");
  return [trees, job.best_score === null ? null : `F1\u00a0${score(job.best_score)}`, rules?.replace(" ", "\u00a0")].filter(Boolean).join(" · ");
}

/** A progress bar of a job. */
export function progressBar(label) {
  const inner = el("span", { class: "done" });
  const element = el("span", { class: "progress", role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 }, inner);
  const show = (job) => {
    const share = job.pairs ? (job.pairs_screened ?? 0) / job.pairs : job.shuffles ? (job.shuffles_done ?? 0) / job.shuffles : job.progress ?? 0;
    element.dataset.state = job.state;
    element.setAttribute("aria-valuenow", String(Math.round(100 * share)));
    inner.style.width = `${100 * share}%`;
  };
  return { element, show };
}

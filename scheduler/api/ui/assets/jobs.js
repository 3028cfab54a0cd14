// The list of jobs, which keeps itself up to date.

import { get, path } from "./api.js";
import { el, fill, say } from "./dom.js";
import { STATES, ago, count, hasEnded, percent, plural, score } from "./text.js";

const EVERY = 2500;
const PAGE = 50;

export function showJobs(root, signal) {
  const list = el("ul", { class: "jobs" });
  const notice = el("p", { class: "notice", role: "status" });
  const more = el("button", { type: "button", hidden: true }, "Show older jobs");
  const rows = new Map();
  let pages = 1;

  const fresh = el("a", { class: "button main", href: "#/new" }, "New job");
  root.append(
    el("div", { class: "heading" }, el("h1", { tabIndex: -1 }, "Jobs"), fresh),
    notice,
    list,
    more,
  );
  more.addEventListener("click", () => ((pages += 1), refresh()));

  async function refresh() {
    try {
      const { jobs, next } = await read(pages, signal);
      if (signal.aborted) return;
      say(notice, "");
      more.hidden = !next;
      fresh.hidden = !jobs.length; // an empty list has one of its own
      arrange(list, rows, jobs);
    } catch (problem) {
      if (!signal.aborted) say(notice, `${problem.message} Trying again…`);
    }
  }

  const timer = setInterval(() => document.hidden || refresh(), EVERY);
  signal.addEventListener("abort", () => clearInterval(timer));
  refresh();
}

/** So many pages of jobs, the newest first. */
async function read(pages, signal) {
  const jobs = [];
  let next = null;
  for (let page = 0; page < pages && (page === 0 || next); page += 1) {
    const found = await get(`${path("jobs")}?limit=${PAGE}${next ? `&cursor=${encodeURIComponent(next)}` : ""}`, { signal });
    jobs.push(...found.items);
    next = found.next;
  }
  return { jobs, next };
}

function arrange(list, rows, jobs) {
  if (!jobs.length) return rows.clear(), fill(list, empty());
  const wanted = jobs.map((job) => {
    if (!rows.has(job.id)) rows.set(job.id, row(job.id));
    const known = rows.get(job.id);
    known.show(job);
    return known.element;
  });
  const same = wanted.length === list.children.length && wanted.every((element, place) => list.children[place] === element);
  if (!same) fill(list, ...wanted);
}

function empty() {
  return el(
    "li",
    { class: "empty" },
    el("h2", {}, "No job yet"),
    el("p", {}, "Give a table, name the column to explain, and the first rules are here in seconds."),
    el("a", { class: "button main", href: "#/new" }, "Mine a table"),
  );
}

function row(id) {
  const name = el("span", { class: "name" });
  const state = el("span", { class: "state" });
  const bar = progressBar("Progress");
  const facts = el("span", { class: "facts" });
  const tenant = el("span", { class: "tenant" });
  const age = el("time");
  const element = el("li", {}, el("a", { href: `#/jobs/${id}` }, name, state, bar.element, facts, el("span", { class: "age" }, tenant, age)));
  const show = (job) => {
    say(name, job.name);
    say(state, STATES[job.state]);
    state.dataset.state = job.state;
    bar.show(job);
    say(facts, factsOf(job));
    say(tenant, job.tenant);
    age.dateTime = new Date(job.created * 1000).toISOString();
    say(age, ago(job.created));
  };
  return { element, show };
}

function factsOf(job) {
  const trees = job.planned && !hasEnded(job.state) ? `${count(job.trees)} of ${plural(job.planned, "tree")}` : plural(job.trees, "tree");
  if (job.state === "queued") return "waits for a scheduler";
  if (job.pairs) return `${percent((job.pairs_screened ?? 0) / job.pairs)} of ${plural(job.pairs, "pair")} screened`;
  const rules = job.rules === null ? null : plural(job.rules, "rule");
  return [trees, job.best_score === null ? null : `F1\u00a0${score(job.best_score)}`, rules?.replace(" ", "\u00a0")].filter(Boolean).join(" · ");
}

/** A bar that shows how far a job is. */
export function progressBar(label) {
  const inner = el("span", { class: "done" });
  const element = el("span", { class: "progress", role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 }, inner);
  const show = (job) => {
    const share = job.pairs ? (job.pairs_screened ?? 0) / job.pairs : job.progress ?? 0;
    element.dataset.state = job.state;
    element.setAttribute("aria-valuenow", String(Math.round(100 * share)));
    inner.style.width = `${100 * share}%`;
  };
  return { element, show };
}

// What a job is waiting for, in words that say what to do. Its state alone does not tell a slow job from a stuck one.

import { el, setChildren } from "./dom.js";
import { count, duration, hasEnded, plural } from "./format.js";

/** The line that says what a job is waiting for, and what to do. */
export function statusLine() {
  const element = el("p", { class: "job-status", role: "status", hidden: true });
  /** @param {Status|null} status */
  const show = (status) => {
    element.hidden = !status;
    if (!status) return;
    element.dataset.kind = status.kind;
    const text = [status.text, status.advice].filter(Boolean).join(" ");
    if (element.dataset.text === text) return;
    element.dataset.text = text;
    setChildren(element, el("strong", {}, ...withCode(status.text)), " ", ...withCode(status.advice));
  };
  return { element, show };
}

/** Commands are between backticks, as in the terminal. */
export const withCode = (text) => text.split("`").map((part, index) => (index % 2 ? el("code", {}, part) : part));

const QUIET_SECONDS = 20; // without progress for this long, the page says why
const IDLE_SHARE = 0.1; // of the worker processes; below it, they do nothing
const LOW_SHARE = 0.5;
const MIN_PROCESSES = 4; // with fewer, it does not matter if some have nothing to do

/**
 * @typedef {{kind: "info"|"wait"|"stuck", label?: string, text: string, advice: string}} Status  `label` replaces the state
 * @param {any} job
 * @param {any} load  the load of the cluster, with `busyShare` (null if unknown); null if it is unknown
 * @param {number} quiet  seconds without progress
 * @returns {Status|null} null if there is nothing to say
 */
export function explainStatus(job, load, quiet) {
  if (hasEnded(job.state)) return null;
  if (job.wanted === "cancel") return { kind: "info", label: "Cancelling", text: "Cancelling.", advice: "" };
  if (job.state === "paused") return { kind: "wait", text: "Paused. Nothing happens until you resume the job.", advice: "Press Resume to continue. The results so far are kept." };
  if (job.wanted === "pause") return { kind: "info", label: "Pausing", text: "Pausing when the tasks in progress are done.", advice: "" };
  if (job.obstacle) return explainObstacle(job.obstacle);
  if (!load) return null;
  if (load.outage) return stuck("Waiting for Redis", load.outage, "Ask the operator to start Redis, or to check its log. The job continues by itself.");
  if (load.schedulers === 0) return stuck("No scheduler", "No scheduler is running, so nothing can begin.", "Start one: `python -m scheduler`.");
  if (!load.processes) return stuck("No workers", "No worker is running, so nothing is computed.", "Start workers: `celery -A workers.app worker`. The job continues by itself.");
  if (job.state === "queued") return explainQueue(load, quiet);
  return quiet >= QUIET_SECONDS ? explainQuiet(load, quiet) : explainSpeed(job, load);
}

// The obstacles that a scheduler reports, and whether somebody has to do something about them.
const OBSTACLES = { queue: ["wait", "Waiting for its turn"], busy: ["wait", "Waiting for workers"], slow: ["wait", "Taking long"], workers: ["stuck", "No workers"], redis: ["stuck", "Waiting for Redis"], broker: ["stuck", "Waiting for the broker"], store: ["stuck", "Waiting for the store"] };

/** A scheduler knows better than this page what a job waits for, if it is recent enough to say so. */
function explainObstacle({ kind, text, remedy }) {
  const [severity, label] = OBSTACLES[kind] ?? ["stuck", "Stuck"];
  return { kind: severity, label, text: `${text.charAt(0).toUpperCase()}${text.slice(1)}.`, advice: remedy ?? "" };
}

const stuck = (label, text, advice) => ({ kind: "stuck", label, text, advice });

function explainQueue(load, quiet) {
  const running = load.running ?? 0;
  if (running) return { kind: "wait", label: "Waiting for its turn", text: `Waiting for its turn: ${plural(running, "other job is", "other jobs are")} running.`, advice: "It starts by itself. Jobs of high priority start first; more workers make all of them faster." };
  if (quiet < QUIET_SECONDS) return { kind: "info", text: "Waiting for a scheduler.", advice: "" };
  return { kind: "wait", text: `Waiting for a scheduler for ${duration(quiet)}.`, advice: "If this lasts, the number of running jobs is limited for you, or the scheduler cannot read the table. The log of the scheduler has the reason." };
}

function explainQuiet(load, quiet) {
  const since = `No progress for ${duration(quiet)}`;
  const idle = load.busyShare * load.processes < Math.max(IDLE_SHARE * load.processes, 0.05);
  if (load.busyShare === null) return { kind: "wait", label: "No progress", text: `${since}.`, advice: "The table may take long, or the workers may be busy with other jobs. If this lasts, ask the operator to look at the logs of the workers." };
  if (!idle) return { kind: "wait", label: "Taking long", text: `${since}: the workers are busy, and this table takes long.`, advice: "Nothing is wrong. More workers help, as do fewer columns or a smaller maximum depth." };
  if (load.waiting) return stuck("Stuck", `${since}: ${plural(load.waiting, "task")} ${load.waiting === 1 ? "waits" : "wait"}, and no worker takes ${load.waiting === 1 ? "it" : "them"}.`, "Check the logs of the workers and restart them. Tasks are sent again by themselves.");
  if (load.tasks) return stuck("Stuck", `${since}: the workers have taken ${plural(load.tasks, "task")} and do not answer.`, "Tasks that are overdue are sent again by themselves. If this lasts, restart the workers.");
  return stuck("Stuck", `${since}, and no task is in progress.`, "Check the log of the scheduler.");
}

/** Workers that have nothing to do because too few batches are under way. */
function explainSpeed(job, load) {
  const isLow = load.busyShare !== null && load.busyShare < LOW_SHARE && load.processes >= MIN_PROCESSES && !load.waiting;
  if (!isLow || job.state !== "running" || job.rows || job.pairs || job.shuffles) return null;
  return { kind: "info", text: `Only ${count(Math.round(load.busyShare * load.processes))} of ${count(load.processes)} worker processes have something to do.`, advice: "A larger number of batches in flight (Advanced) makes a search like this one faster." };
}

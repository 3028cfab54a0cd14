// The current load of the cluster: how many workers there are, and whether they work.

import { get, path } from "./api.js";
import { count, hasEnded, plural } from "./format.js";

const INTERVAL = 3000;
const FIRST_INTERVAL = 1500; // two measurements are needed before busy processes are known
const WINDOW = 12000; // over which busy processes are averaged

/** Call `show` with the load of all jobs until this job has ended, with null then; return the interval timer. */
export function watchLoad(show, job, signal) {
  const measurements = [];
  const measure = async () => {
    if (document.hidden || hasEnded(job().state)) return (measurements.length = 0), show(null);
    const load = await get(path("load"), { signal }).catch((problem) => (problem.status === 503 ? { outage: problem.message } : null));
    if (signal.aborted || hasEnded(job().state)) return;
    if (!load || load.outage) return (measurements.length = 0), show(load);
    const running = job().state === "queued" ? await countRunning(signal) : null;
    measurements.push({ now: performance.now(), ...load });
    while (measurements.length > 2 && measurements.at(-1).now - measurements[0].now > WINDOW) measurements.shift();
    show({ ...load, running, busyShare: busyShare(measurements) });
  };
  measure();
  setTimeout(() => signal.aborted || measure(), FIRST_INTERVAL);
  return setInterval(measure, INTERVAL);
}

const countRunning = (signal) => get(`${path("jobs")}?state=running&limit=200`, { signal }).then((page) => page.items.length, () => 0);

/** Tasks start and end many times per second, so busy processes are computed from the time spent on tasks. */
function busyShare(measurements) {
  const [first, last] = [measurements[0], measurements.at(-1)];
  if (measurements.length < 2 || !last.processes || typeof last.work_seconds !== "number") return null;
  const spent = Math.max(0, (1000 * (last.work_seconds - first.work_seconds)) / Math.max(1, last.now - first.now)) / last.processes;
  return Math.min(1, spent > 0 ? spent : last.busy / last.processes); // the time of a long task is known when it ends
}

export function loadText(load) {
  if (!load || load.outage) return "";
  if (typeof load.tasks !== "number") return load.processes ? `Cluster: ${plural(load.processes, "worker process", "worker processes")}` : "Cluster: no workers";
  const tasks = load.waiting === load.tasks ? `${plural(load.tasks, "task")} waiting` : `${plural(load.tasks, "task")} in progress${load.waiting ? `, ${count(load.waiting)} of them waiting` : ""}`;
  if (!load.processes) return `Cluster: no workers; ${tasks}`;
  const processes = plural(load.processes, "worker process", "worker processes");
  if (load.busyShare === null) return `Cluster: ${processes}, ${tasks}`;
  const busy = load.busyShare * load.processes;
  return `Cluster: ${busy < 10 ? busy.toFixed(1) : count(Math.round(busy))} of ${processes} busy, ${tasks}`;
}

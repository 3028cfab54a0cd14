// A line with the current load of the cluster.

import { get, path } from "./api.js";
import { setText } from "./dom.js";
import { count, hasEnded, plural } from "./format.js";

const INTERVAL = 3000;
const FIRST_INTERVAL = 1500; // two measurements are needed before busy processes can be shown
const WINDOW = 12000; // over which busy processes are averaged

/** Show the tasks of all jobs until this job has ended; return the interval timer. */
export function watchLoad(element, job, signal) {
  const measurements = [];
  const measure = async () => {
    if (document.hidden || hasEnded(job().state)) return (measurements.length = 0), setText(element, "");
    const load = await get(path("load"), { signal }).catch(() => null);
    if (!load || hasEnded(job().state)) return;
    measurements.push({ now: performance.now(), ...load });
    while (measurements.length > 2 && measurements.at(-1).now - measurements[0].now > WINDOW) measurements.shift();
    setText(element, loadText(measurements));
  };
  measure();
  setTimeout(() => signal.aborted || measure(), FIRST_INTERVAL);
  return setInterval(measure, INTERVAL);
}

/** Tasks start and end many times per second, so busy processes are computed from the time spent on tasks. */
function loadText(measurements) {
  const [first, last] = [measurements[0], measurements.at(-1)];
  if (last.tasks === null) return `Cluster: ${last.processes ? plural(last.processes, "worker process", "worker processes") : "no workers"}`;
  const tasks = `${plural(last.tasks, "task")} in progress${last.waiting ? `, ${count(last.waiting)} of them waiting` : ""}`;
  if (!last.processes) return `Cluster: no workers; ${tasks}`;
  const processes = plural(last.processes, "worker process", "worker processes");
  if (measurements.length < 2) return `Cluster: ${processes}, ${tasks}`;
  const busy = Math.max(0, (1000 * (last.work_seconds - first.work_seconds)) / Math.max(1, last.now - first.now));
  return `Cluster: ${busy < 10 ? busy.toFixed(1) : count(Math.round(busy))} of ${processes} busy, ${tasks}`;
}

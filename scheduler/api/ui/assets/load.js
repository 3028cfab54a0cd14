// How busy the cluster is, in a line that keeps itself up to date.

import { get, path } from "./api.js";
import { say } from "./dom.js";
import { count, hasEnded, plural } from "./text.js";

const EVERY = 3000;
const SOON = 1500; // the second look, since it takes two
const WINDOW = 12000; // over which busy workers are counted

/** What the workers have to do, all jobs together. */
export function watchLoad(place, job, signal) {
  const looks = [];
  const look = async () => {
    if (document.hidden || hasEnded(job().state)) return (looks.length = 0), say(place, "");
    const found = await get(path("load"), { signal }).catch(() => null);
    if (!found || hasEnded(job().state)) return;
    looks.push({ now: performance.now(), ...found });
    while (looks.length > 2 && looks.at(-1).now - looks[0].now > WINDOW) looks.shift();
    say(place, loadText(looks));
  };
  look();
  setTimeout(() => signal.aborted || look(), SOON);
  return setInterval(look, EVERY);
}

/** Tasks come and go many times a second: how many processes are busy is told by the time that they spent on them. */
function loadText(looks) {
  const [first, last] = [looks[0], looks.at(-1)];
  const under = `${plural(last.tasks, "task")} under way${last.waiting ? `, ${count(last.waiting)} of them waiting` : ""}`;
  if (!last.processes) return `Cluster: no worker is there; ${under}`;
  const all = plural(last.processes, "worker process", "worker processes");
  if (looks.length < 2) return `Cluster: ${all}, ${under}`;
  const busy = Math.max(0, (1000 * (last.work_seconds - first.work_seconds)) / Math.max(1, last.now - first.now));
  const shown = busy < 10 ? busy.toFixed(1) : count(Math.round(busy));
  return `Cluster: ${shown} of ${all} busy, ${under}`;
}

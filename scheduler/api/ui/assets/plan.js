// What the job would be: the size of its search and about how long it takes, as the settings change.

import { path, post } from "./api.js";
import { el, fill, say } from "./dom.js";
import { withoutDashes } from "./settings.js";
import { count, duration, percent, plural } from "./text.js";

const CALM = 350;

/**
 * @param {() => any} request  the job as it stands in the form
 * @param {(problem: any) => void} refuse  shows a problem where it belongs; null takes all away
 */
export function planPanel(request, refuse, signal) {
  const size = el("p", { class: "figure" }, "–");
  const what = el("p", { class: "soft" });
  const facts = el("dl", { class: "pairs" });
  const notes = el("ul", { class: "notes" });
  const why = el("details", { class: "why", hidden: true }, el("summary", {}, "How it will search"), el("dl", { class: "pairs" }));
  const error = el("p", { class: "error", role: "alert" });
  const element = el("div", { class: "plan", "aria-live": "polite" }, el("h2", {}, "Size of the search"), size, what, facts, notes, error);
  let timer = 0;
  let asking = new AbortController();

  async function ask() {
    asking.abort();
    asking = new AbortController();
    const mine = asking;
    element.classList.add("waits"); // until there is a plan for what the form says now
    try {
      const plan = await post(path("plans"), request(), { signal: mine.signal });
      if (mine.signal.aborted || signal.aborted) return;
      element.classList.remove("waits");
      show(plan);
      refuse(null);
      say(error, "");
    } catch (problem) {
      if (mine.signal.aborted || signal.aborted) return;
      refuse(problem);
      say(error, problem.status ? "This cannot be mined yet: something has to be mended first." : problem.message);
    }
  }

  function show(plan) {
    const sizes = plan.subset_sizes;
    const many = sizes.length > 1 ? `${sizes[0]} to ${sizes.at(-1)}` : sizes[0];
    const share = plan.trees / Number(plan.space);
    say(size, plan.space_text);
    say(what, `subsets of ${many} of the ${plural(plan.features, "feature")}`);
    fill(
      facts,
      ...row("Trees", `${count(plan.trees)}${share < 1 ? `, ${share < 0.001 ? "below 0.1 %" : percent(share)} of them` : ", all of them"}`),
      ...row("Time", timeOf(plan)),
      ...row("Rows", `${count(plan.rows)} in ${count(plan.classes)} classes`),
      ...(plan.screened ? row("First", "pairs of features are screened") : []),
    );
    fill(notes, ...plan.notes.map((note) => el("li", {}, withoutDashes(note))));
    why.hidden = false;
    fill(why.lastElementChild, ...plan.explained.flatMap(explained));
  }

  const later = () => (clearTimeout(timer), (timer = setTimeout(ask, CALM)));
  signal.addEventListener("abort", () => (clearTimeout(timer), asking.abort()));
  return { element, why, later };
}

/** Below that, starting and ending is most of it. */
const FEW_SECONDS = 10;

function timeOf(plan) {
  const seconds = plan.core_seconds + plan.round_trip_seconds;
  return seconds < FEW_SECONDS ? "a few seconds" : `about ${duration(seconds)} on one core`;
}

const row = (name, value) => [el("dt", {}, name), el("dd", {}, value)];

function explained(line) {
  const [name, ...rest] = line.split(": ");
  return row(name.charAt(0).toUpperCase() + name.slice(1), withoutDashes(rest.join(": ")));
}

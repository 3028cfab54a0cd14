// A preview of the job, updated whenever the settings change: the size of its search and its estimated duration.

import { path, post } from "./api.js";
import { el, setChildren, setText } from "./dom.js";
import { replaceOptions } from "./settings.js";
import { count, duration, percent, plural } from "./format.js";

const DELAY = 350; // after the last change
const SHORT_SECONDS = 10; // below this, starting and ending the job takes most of the time

/**
 * @param {() => any} request  returns the job as the form describes it
 * @param {(problem: any) => void} showProblem  shows a problem at its field; null removes all
 */
export function planPanel(request, showProblem, signal) {
  const size = el("p", { class: "figure" }, "–");
  const subsets = el("p", { class: "muted" });
  const facts = el("dl", { class: "pairs" });
  const notes = el("ul", { class: "notes" });
  const choices = el("details", { class: "collapsible", hidden: true }, el("summary", {}, "Choices for this search"), el("dl", { class: "pairs" }));
  const error = el("p", { class: "error", role: "alert" });
  const element = el("div", { class: "plan", "aria-live": "polite" }, el("h2", {}, "Size of the search"), size, subsets, facts, notes, error);
  let timer = 0;
  let pending = new AbortController();

  async function refresh() {
    pending.abort();
    pending = new AbortController();
    const current = pending;
    element.classList.add("loading"); // until there is a plan for the current form
    try {
      const plan = await post(path("plans"), request(), { signal: current.signal });
      if (current.signal.aborted || signal.aborted) return;
      element.classList.remove("loading");
      show(plan);
      showProblem(null);
      setText(error, "");
    } catch (problem) {
      if (current.signal.aborted || signal.aborted) return;
      showProblem(problem);
      setText(error, problem.status ? "Fix the highlighted field to continue." : problem.message);
    }
  }

  function show(plan) {
    const sizes = plan.subset_sizes;
    const range = sizes.length > 1 ? `${sizes[0]} to ${sizes.at(-1)}` : sizes[0];
    const share = plan.trees / Number(plan.space);
    setText(size, plan.space_text);
    setText(subsets, `subsets of ${range} of the ${plural(plan.features, "feature")}`);
    setChildren(
      facts,
      ...row("Trees", `${count(plan.trees)}${share < 1 ? `, ${share < 0.001 ? "below 0.1 %" : percent(share)} of them` : ", all of them"}`),
      ...row("Time", timeText(plan)),
      ...row("Rows", `${count(plan.rows)} in ${count(plan.classes)} classes`),
      ...(plan.screened ? row("First", "pairs of features are screened") : []),
    );
    setChildren(notes, ...plan.notes.map((note) => el("li", {}, replaceOptions(note))));
    choices.hidden = false;
    setChildren(choices.lastElementChild, ...plan.explained.flatMap(choiceRow));
  }

  const refreshSoon = () => (clearTimeout(timer), (timer = setTimeout(refresh, DELAY)));
  signal.addEventListener("abort", () => (clearTimeout(timer), pending.abort()));
  return { element, choices, refreshSoon };
}

function timeText(plan) {
  const seconds = plan.core_seconds + plan.round_trip_seconds;
  return seconds < SHORT_SECONDS ? "a few seconds" : `about ${duration(seconds)} on one core`;
}

const row = (name, value) => [el("dt", {}, name), el("dd", {}, value)];

function choiceRow(line) {
  const [name, ...rest] = line.split(": ");
  return row(name.charAt(0).toUpperCase() + name.slice(1), replaceOptions(rest.join(": ")));
}

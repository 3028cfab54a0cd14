// What a job would do, asked from the server whenever the form changes: how long it takes, and the size of its search.

import { path, post } from "./api.js";
import { el, setChildren, setText } from "./dom.js";
import { count, percent, plural, roughDuration } from "./format.js";
import { replaceOptions } from "./settings.js";

const DELAY = 350; // after the last change
// Notes on what the preview of the table shows already.
const SHOWN_ELSEWHERE = /^(Left out, as|Cells are missing|Likely a leak|Left out \d+ constant|Left out \d+ row|Column '.*' holds dates|--trees )/;

/**
 * @param {() => any} request  returns the job as the form describes it; null if it is not complete
 * @param {string[]} known  notes that are shown already
 * @param {{planned: (plan: any) => boolean, failed: (problem: any) => void}} events  `planned` returns true if it has changed the form
 */
export function planPanel(request, known, events, signal) {
  const time = el("p", { class: "estimate", "aria-live": "polite" });
  const pendingText = el("p", { class: "estimating" }, "Checking the table and estimating the time…");
  const notes = el("ul", { class: "notes" });
  const size = el("p", { class: "figure" }, "–");
  const subsets = el("p", { class: "muted" });
  const facts = el("dl", { class: "pairs" });
  const choices = el("dl", { class: "pairs" });
  const details = el("div", { class: "plan" }, el("h3", {}, "Size of the search"), size, subsets, facts, el("h3", {}, "Choices for this search"), choices);
  const element = el("div", { class: "plan-summary" }, time, pendingText, notes);
  let timer = 0;
  let pending = new AbortController();

  async function refresh() {
    pending.abort();
    pending = new AbortController();
    const current = pending;
    const job = request();
    if (!job) return setText(time, ""), setChildren(notes);
    element.classList.add("loading"); // until there is a plan for the current form
    try {
      const plan = await post(path("plans"), job, { signal: current.signal });
      if (current.signal.aborted || signal.aborted) return;
      element.classList.remove("loading");
      if (events.planned(plan)) return refresh();
      show(plan);
    } catch (problem) {
      if (current.signal.aborted || signal.aborted) return;
      element.classList.remove("loading");
      setText(time, "");
      events.failed(problem);
    }
  }

  function show(plan) {
    const sizes = plan.subset_sizes;
    const range = sizes.length > 1 ? `${sizes[0]} to ${sizes.at(-1)}` : sizes[0];
    const share = plan.trees / Number(plan.space);
    setText(time, timeText(plan));
    setText(size, plan.space_text);
    setText(subsets, `subsets of ${range} of the ${plural(plan.features, "feature")}`);
    setChildren(
      facts,
      ...row("Trees", `${count(plan.trees)}${share < 1 ? `, ${share < 0.001 ? "below 0.1 %" : percent(share)} of them` : ", all of them"}`),
      ...row("Rows", `${count(plan.rows)} in ${count(plan.classes)} classes`),
      ...(plan.screened ? row("First", "pairs of features are screened") : []),
    );
    setChildren(notes, ...plan.notes.filter((note) => !known.includes(note) && !SHOWN_ELSEWHERE.test(note)).map((note) => el("li", {}, replaceOptions(note))));
    setChildren(choices, ...plan.explained.flatMap(choiceRow));
  }

  const refreshSoon = () => (clearTimeout(timer), (timer = setTimeout(refresh, DELAY)));
  signal.addEventListener("abort", () => (clearTimeout(timer), pending.abort()));
  return { element, details, refreshSoon };
}

function timeText(plan) {
  if (plan.processes === 0) return "No worker is running at the moment: the job will wait for one.";
  return `Takes ${roughDuration(plan.seconds)}.`;
}

const row = (name, value) => [el("dt", {}, name), el("dd", {}, value)];

function choiceRow(line) {
  const [name, ...rest] = line.split(": ");
  return row(name.charAt(0).toUpperCase() + name.slice(1), replaceOptions(rest.join(": ")));
}

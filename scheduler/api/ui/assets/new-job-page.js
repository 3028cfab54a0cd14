// The page that creates a job: a table, its preview, three choices, and all settings under Advanced.

import { get, path, post } from "./api.js";
import { plainChoices } from "./choices.js";
import { columnChoice } from "./column-choice.js";
import { el, setChildren, setText } from "./dom.js";
import { planPanel } from "./plan-panel.js";
import { settingsForm } from "./settings.js";
import { tablePicker } from "./table-picker.js";
import { tablePreview } from "./table-preview.js";

/** @param {{table?: string, from?: string}} options  a table, or a job to run again with changes */
export async function showNewJob(root, signal, options) {
  const content = el("div", { class: "new" });
  const title = el("h1", { tabIndex: -1 }, "New job");
  const lead = el("p", { class: "lead" }, "Find out what goes together with an outcome in your table: short rules, each checked against chance.");
  root.append(title, lead);
  const earlier = options?.from ? await get(path("jobs", options.from), { signal }).catch(() => null) : null;
  if (signal.aborted) return;
  if (earlier) setText(lead, `The settings of ${earlier.title ?? earlier.name} are filled in. Change what you like; the earlier job stays as it is.`);
  else if (options?.from) setText(lead, "The job to run again does not exist any more. Choose a table.");
  const steps = stepList();
  root.append(tablePicker(choose, signal, options?.table ?? earlier?.dataset ?? undefined), steps, content);

  function choose(dataset) {
    const form = jobForm(dataset, dataset.id === earlier?.dataset ? earlier : null, signal);
    setText(title, dataset.name);
    lead.hidden = !earlier;
    steps.hidden = true;
    setChildren(content, ...form.sections);
    form.start();
  }
}

/** What happens after a table is chosen. */
function stepList() {
  const step = (title, text) => el("li", {}, el("strong", {}, title), el("span", { class: "muted" }, text));
  return el("ol", { class: "how" },
    step("Look at your table", "Columns are recognised as numbers, text or dates. IDs and other misleading columns are left out."),
    step("Say what to explain", "Churn, survival, defects: one column. Everything else has sensible defaults."),
    step("Read the findings", "A few short rules, each with how often it holds and whether it held up on rows the search never saw."));
}

/** The form for one table. @param {any} earlier  the job whose settings are filled in, or null */
function jobForm(dataset, earlier, signal) {
  const settings = settingsForm(() => changed());
  const choice = columnChoice(dataset, earlier?.table);
  const preview = tablePreview(dataset, choice, () => changed());
  const choices = plainChoices(dataset, choice, settings, { targetChanged: () => (preview.show(), changed()), changed: () => changed() });
  const problems = el("div", { class: "problems", role: "alert" });
  const plan = planPanel(() => (choice.target() ? request() : null), dataset.notes, { planned, failed: showProblem }, signal);
  if (earlier) settings.fill({ ...earlier.table, ...earlier.settings });
  else choices.setDefaults();

  function request() {
    const values = settings.value();
    return { dataset: dataset.id, table: { ...values.table, ...choice.value() }, settings: values.settings };
  }

  function changed() {
    choices.show();
    plan.refreshSoon();
  }

  /** Leave out columns that nearly repeat the target. They are found by preparing the table. */
  function planned({ leaks }) {
    showProblem(null);
    const isNew = choice.addLeaks(leaks);
    if (isNew) preview.show();
    return isNew;
  }

  /** Show each problem beside the button, with a way to its field, and at the field. */
  function showProblem(problem) {
    const lines = settings.showProblem(problem);
    choices.showTargetError(lines.filter(({ field, message }) => !field && /\btarget\b/i.test(message)).map(({ message }) => message).join(" "));
    setChildren(problems, ...lines.map(({ field, message }) => el("p", { class: "error" },
      field ? `${field.label}: ${message.charAt(0).toLowerCase()}${message.slice(1)} ` : `${message} `,
      field && el("button", { type: "button", class: "plain", onclick: () => settings.reveal(field) }, "Show the field"))),
    problem?.remedy && lines.some(({ field }) => !field) && el("p", { class: "error" }, problem.remedy));
  }

  function requireTarget() {
    setChildren(problems, el("p", { class: "error" }, "Choose what you want to explain."));
    choices.showTargetError("Choose a column.");
    choices.focusTarget();
  }

  const button = startButton(() => (choice.target() ? request() : requireTarget()), showProblem, signal);
  settings.element.append(el("fieldset", {}, el("legend", {}, "This job"), button.options), plan.details);
  const sections = [
    el("section", { class: "table-section", "aria-label": "Preview of the table" }, preview.element),
    el("aside", { class: "side", "aria-label": "What to find" }, choices.element, el("div", { class: "start" }, button.element, problems, plan.element)),
    settings.element,
  ];
  const start = () => (preview.show(), choices.show(), plan.refreshSoon());
  return { sections, start };
}

/** The button that submits the job. Its idempotency key makes sure that repeated requests create one job only. */
function startButton(request, showProblem, signal) {
  const element = el("button", { type: "button", class: "main wide" }, "Start");
  const fresh = el("input", { type: "checkbox", id: "fresh" });
  const priority = el("select", { id: "priority" }, ...["low", "normal", "high"].map((each) => el("option", { selected: each === "normal" }, each)));
  let sent = { body: "", key: "" };
  element.addEventListener("click", async () => {
    const described = request();
    if (!described) return;
    const job = { ...described, priority: priority.value, fresh: fresh.checked };
    const body = JSON.stringify(job);
    if (body !== sent.body) sent = { body, key: randomKey() };
    element.disabled = true;
    try {
      const { id } = await post(path("jobs"), job, { headers: { "Idempotency-Key": sent.key }, signal });
      location.hash = `#/jobs/${id}`;
    } catch (problem) {
      if (signal.aborted) return;
      showProblem(problem);
      element.disabled = false;
    }
  });
  const options = el("div", { class: "fields" },
    el("div", { class: "field" }, el("label", { htmlFor: "priority" }, "Priority"), priority, el("p", { class: "hint" }, "Jobs of higher priority get a larger share of the workers.")),
    el("div", { class: "field checkbox" }, fresh, el("label", { htmlFor: "fresh" }, "Run again"), el("p", { class: "hint" }, "Run the job even if an identical one has run before.")));
  return { element, options };
}

/** `crypto.randomUUID` is available only on pages with HTTPS. */
function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// The page that creates a job: table, columns, settings and a preview.

import { path, post } from "./api.js";
import { columnPicker, isNumeric } from "./column-picker.js";
import { el, setChildren, setText } from "./dom.js";
import { planPanel } from "./plan-panel.js";
import { settingsForm } from "./settings.js";
import { tablePicker } from "./table-picker.js";

export function showNewJob(root, signal, table) {
  const columnsSection = el("section", { class: "step", hidden: true });
  const settingsSection = el("section", { class: "step", hidden: true });
  const side = el("aside", { class: "side", hidden: true, "aria-label": "Preview of the job" });
  const steps = el(
    "div",
    { class: "steps" },
    el("section", { class: "step" }, el("h2", {}, "Table"), tablePicker(choose, signal, table)),
    columnsSection,
    settingsSection,
  );
  root.append(el("h1", { tabIndex: -1 }, "New job"), el("div", { class: "new" }, steps, side));

  async function choose(dataset) {
    try {
      await showForm(dataset);
    } catch (problem) {
      if (!signal.aborted) setChildren(settingsSection, el("p", { class: "error", role: "alert" }, problem.message)).hidden = false;
    }
  }

  async function showForm(dataset) {
    const settings = await settingsForm(() => plan.refreshSoon());
    const columns = columnPicker(dataset, (target) => ((settings.classes.hidden = !isNumeric(target)), plan.refreshSoon()));
    const tableError = el("p", { class: "error", role: "alert" });
    const request = () => {
      const values = settings.value();
      return { dataset: dataset.id, table: { ...columns.value(), ...values.table }, settings: values.settings };
    };
    const showProblem = (problem) => setText(tableError, settings.showProblem(problem));
    const plan = planPanel(request, showProblem, signal);
    settings.classes.hidden = !isNumeric(columns.target());
    setChildren(columnsSection, el("h2", {}, "Columns"), columns.element, settings.classes, tableError);
    setChildren(settingsSection, el("h2", {}, "Settings"), settings.element);
    setChildren(side, plan.element, startForm(request, showProblem, signal), plan.choices);
    for (const section of [columnsSection, settingsSection, side]) section.hidden = false;
    plan.refreshSoon();
  }
}

/** The button that submits the job. Its idempotency key makes sure that repeated requests create one job only. */
function startForm(request, showProblem, signal) {
  const error = el("p", { class: "error", role: "alert" });
  const button = el("button", { type: "button", class: "main wide" }, "Start mining");
  const fresh = el("input", { type: "checkbox", id: "fresh" });
  const priority = el("select", { id: "priority" }, ...["low", "normal", "high"].map((each) => el("option", { selected: each === "normal" }, each)));
  let sent = { body: "", key: "" };
  button.addEventListener("click", async () => {
    const job = { ...request(), priority: priority.value, fresh: fresh.checked };
    const body = JSON.stringify(job);
    if (body !== sent.body) sent = { body, key: randomKey() };
    button.disabled = true;
    setText(error, "");
    try {
      const { id } = await post(path("jobs"), job, { headers: { "Idempotency-Key": sent.key }, signal });
      location.hash = `#/jobs/${id}`;
    } catch (problem) {
      if (signal.aborted) return;
      showProblem(problem);
      setText(error, problem.status === 422 ? "Fix the highlighted field to continue." : [problem.message, problem.remedy].filter(Boolean).join(" "));
      document.querySelector("[aria-invalid]")?.focus();
      button.disabled = false;
    }
  });
  return el(
    "div",
    { class: "start" },
    button,
    error,
    el("div", { class: "small-fields" },
      el("label", { htmlFor: "priority" }, "Priority"), priority,
      el("label", { class: "inline" }, fresh, "Run again even if an identical job exists")),
  );
}

/** `crypto.randomUUID` is available only on pages with HTTPS. */
function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

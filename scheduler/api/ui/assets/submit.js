// A new job: its table, its columns, its settings; and what it will be.

import { path, post } from "./api.js";
import { columnPicker, isQuantity } from "./columns.js";
import { el, fill, say } from "./dom.js";
import { planPanel } from "./plan.js";
import { settingsForm } from "./settings.js";
import { tablePicker } from "./upload.js";

export function showSubmit(root, signal, wanted) {
  const columnsPlace = el("section", { class: "step", hidden: true });
  const settingsPlace = el("section", { class: "step", hidden: true });
  const side = el("aside", { class: "side", hidden: true, "aria-label": "What it will be" });
  const steps = el(
    "div",
    { class: "steps" },
    el("section", { class: "step" }, el("h2", {}, "Table"), tablePicker(choose, signal, wanted)),
    columnsPlace,
    settingsPlace,
  );
  root.append(el("h1", { tabIndex: -1 }, "New job"), el("div", { class: "new" }, steps, side));

  async function choose(dataset) {
    try {
      await assemble(dataset);
    } catch (problem) {
      if (!signal.aborted) fill(settingsPlace, el("p", { class: "error", role: "alert" }, problem.message)).hidden = false;
    }
  }

  async function assemble(dataset) {
    const settings = await settingsForm(() => plan.later());
    const columns = columnPicker(dataset, (target) => ((settings.cut.hidden = !isQuantity(target)), plan.later()));
    const tableError = el("p", { class: "error", role: "alert" });
    const request = () => {
      const given = settings.value();
      return { dataset: dataset.id, table: { ...columns.value(), ...given.table }, settings: given.settings };
    };
    const refuse = (problem) => say(tableError, settings.refuse(problem));
    const plan = planPanel(request, refuse, signal);
    settings.cut.hidden = !isQuantity(columns.target());
    fill(columnsPlace, el("h2", {}, "Columns"), columns.element, settings.cut, tableError);
    fill(settingsPlace, el("h2", {}, "Settings"), settings.element);
    fill(side, plan.element, starter(request, refuse, signal), plan.why);
    for (const place of [columnsPlace, settingsPlace, side]) place.hidden = false;
    plan.later();
  }
}

/** The button that queues the job. The key makes it one job, however often it has to be sent. */
function starter(request, refuse, signal) {
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
    say(error, "");
    try {
      const { id } = await post(path("jobs"), job, { headers: { "Idempotency-Key": sent.key }, signal });
      location.hash = `#/jobs/${id}`;
    } catch (problem) {
      if (signal.aborted) return;
      refuse(problem);
      say(error, problem.status === 422 ? "It was refused: something has to be mended first." : [problem.message, problem.remedy].filter(Boolean).join(" "));
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
      el("label", { class: "inline" }, fresh, "Mine anew, even if the same was mined before")),
  );
}

/** `crypto.randomUUID` is there on secure pages only. */
function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

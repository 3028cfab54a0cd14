// The name of a job and a note about it, which can be changed.

import { call, path } from "./api.js";
import { el, setChildren, setText } from "./dom.js";

const MAX_TITLE = 200;
const MAX_NOTE = 5000;

/** @param {HTMLElement} title  the heading of the page @param {(job: any) => void} changed */
export function jobLabels(id, title, changed) {
  const note = el("p", { class: "note" });
  const error = el("p", { class: "error", role: "alert" });
  const edit = el("button", { type: "button", class: "plain" }, "Rename or add a note");
  const name = el("input", { type: "text", id: "job-title", maxLength: MAX_TITLE });
  const text = el("textarea", { id: "job-note", maxLength: MAX_NOTE, rows: 3 });
  const form = el("form", { class: "labels", hidden: true },
    el("label", { htmlFor: "job-title" }, "Name"), name, el("label", { htmlFor: "job-note" }, "Note"), text,
    el("div", { class: "buttons" }, el("button", { class: "main" }, "Save"), el("button", { type: "button", onclick: () => toggle(false) }, "Discard")), error);
  let job = null;

  function toggle(isOpen) {
    form.hidden = !isOpen;
    edit.hidden = isOpen;
    Object.assign(name, { value: job.title ?? job.name });
    text.value = job.note ?? "";
    setText(error, "");
    (isOpen ? name : edit).focus();
  }

  function show(next) {
    job = next;
    setText(title, job.title ?? job.name);
    setText(note, job.note ?? "");
    setText(edit, job.title || job.note ? "Edit name and note" : "Rename or add a note");
  }

  edit.addEventListener("click", () => toggle(true));
  form.addEventListener("keydown", (event) => event.key === "Escape" && toggle(false));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = name.value.trim();
    const labels = { title: given && given !== job.name ? given : null, note: text.value.trim() || null };
    try {
      await call("PATCH", path("jobs", id), labels);
      changed(labels);
      toggle(false);
    } catch (problem) {
      setText(error, problem.message);
    }
  });
  const element = el("div", { class: "job-labels" });
  setChildren(element, note, edit, form);
  return { element, show };
}

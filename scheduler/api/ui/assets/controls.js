// What can be done with a job: pause, resume, cancel; its report, its rules as files; forget it.

import { call, path, post } from "./api.js";
import { el, fill, say, twice } from "./dom.js";
import { FORMATS, download, openReport } from "./files.js";
import { hasEnded } from "./text.js";

/** @param {(job: any) => void} changed */
export function controls(id, changed) {
  const error = el("p", { class: "error", role: "alert" });
  const act = (work) => async (button) => {
    const pressed = button.currentTarget ?? button;
    pressed.disabled = true;
    say(error, "");
    try {
      await work();
    } catch (problem) {
      say(error, problem.message);
    }
    pressed.disabled = false;
  };
  const ask = (wish) => act(async () => changed(await post(path("jobs", id, wish))));
  let name = "table";
  const pause = el("button", { type: "button", onclick: ask("pause") }, "Pause");
  const resume = el("button", { type: "button", onclick: ask("resume") }, "Resume");
  const cancel = twice("Cancel", "Really cancel?", ask("cancel"));
  const forget = twice("Delete", "Really delete?", act(async () => (await call("DELETE", path("jobs", id)), (location.hash = "#/"))), { class: "plain" });
  const report = el("button", { type: "button", class: "main", onclick: act(() => openReport(id)) }, "Report");
  const files = el("div", { class: "files", role: "group", "aria-label": "Save the rules" }, el("span", { class: "soft" }, "Rules as"),
    ...Object.entries(FORMATS).map(([format, label]) => el("button", { type: "button", class: "plain", onclick: act(() => download(id, name, format)) }, label)));
  const buttons = el("div", { class: "buttons" });
  let found = false;
  let shown = "";

  function show(job) {
    name = job.name;
    const ended = hasEnded(job.state);
    const rests = job.state === "paused" || job.wanted === "pause";
    const wanted = [found && report, !ended && (rests ? resume : pause), !ended && cancel, ended && forget].filter(Boolean);
    const now = wanted.map((button) => button.textContent).join() + found;
    if (now === shown) return;
    shown = now;
    const focused = buttons.contains(document.activeElement);
    fill(buttons, ...wanted);
    if (focused && !buttons.contains(document.activeElement)) wanted[0]?.focus();
    files.hidden = !found;
    latest = job;
  }
  let latest = null;
  const hasRules = () => {
    if (found) return;
    found = true;
    files.hidden = false;
    if (latest) show(latest);
  };
  files.hidden = true;
  return { element: el("div", {}, buttons, files, error), show, hasRules };
}

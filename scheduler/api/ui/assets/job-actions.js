// The buttons of a job: pause, resume, cancel, report, download the rules, delete.

import { call, path, post, send } from "./api.js";
import { confirmButton, el, setChildren, setText } from "./dom.js";
import { hasEnded } from "./format.js";

const FORMATS = { csv: ["CSV", "csv"], json: ["JSON", "json"], sql: ["SQL", "sql"], markdown: ["Markdown", "md"] };

/** @param {(job: any) => void} changed */
export function jobActions(id, changed) {
  const error = el("p", { class: "error", role: "alert" });
  const run = (action) => async (eventOrButton) => {
    const button = eventOrButton.currentTarget ?? eventOrButton;
    button.disabled = true;
    setText(error, "");
    try {
      await action();
    } catch (problem) {
      setText(error, problem.message);
    }
    button.disabled = false;
  };
  const command = (name) => run(async () => changed(await post(path("jobs", id, name))));
  let job = null;
  let hasRules = false;
  let visible = "";
  const pause = el("button", { type: "button", onclick: command("pause") }, "Pause");
  const resume = el("button", { type: "button", onclick: command("resume") }, "Resume");
  const cancel = confirmButton("Cancel", "Really cancel?", command("cancel"));
  const remove = confirmButton("Delete", "Really delete?", run(async () => (await call("DELETE", path("jobs", id)), (location.hash = "#/"))), { class: "plain" });
  const report = el("button", { type: "button", class: "main", onclick: run(() => openReport(id)) }, "Report");
  const downloads = el("div", { class: "files", role: "group", "aria-label": "Download the rules", hidden: true }, el("span", { class: "muted" }, "Download rules:"),
    ...Object.entries(FORMATS).map(([format, [label]]) => el("button", { type: "button", class: "plain", onclick: run(() => downloadRules(id, job.name, format)) }, label)));
  const buttons = el("div", { class: "buttons" });

  function show(next) {
    job = next;
    const ended = hasEnded(job.state);
    const isPaused = job.state === "paused" || job.wanted === "pause";
    const wanted = [hasRules && report, !ended && (isPaused ? resume : pause), !ended && cancel, ended && remove].filter(Boolean);
    const labels = wanted.map((button) => button.textContent).join();
    if (labels === visible) return;
    visible = labels;
    const focused = buttons.contains(document.activeElement);
    setChildren(buttons, ...wanted);
    if (focused && !buttons.contains(document.activeElement)) wanted[0]?.focus();
  }

  function showDownloads() {
    if (hasRules) return;
    hasRules = true;
    downloads.hidden = false;
    if (job) show(job);
  }

  return { element: el("div", {}, buttons, downloads, error), show, showDownloads };
}

/** Open the report in a new tab, which is opened before the request, because browsers allow it only on a click. */
async function openReport(job) {
  const tab = open("", "_blank");
  try {
    const response = await send(path("jobs", job, "report"));
    const url = URL.createObjectURL(new Blob([await response.blob()], { type: "text/html;charset=utf-8" }));
    if (tab) tab.location.replace(url);
    else location.assign(url);
  } catch (problem) {
    tab?.close();
    throw problem;
  }
}

async function downloadRules(job, name, format) {
  const response = await send(`${path("jobs", job, "rules")}?format=${format}`);
  const url = URL.createObjectURL(await response.blob());
  el("a", { href: url, download: `${fileName(name)}-rules.${FORMATS[format][1]}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function fileName(name) {
  return name.replace(/\.\w+$/, "").replace(/[^\w-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "table";
}

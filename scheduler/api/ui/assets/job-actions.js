// The buttons of a job: pause, resume, cancel, save and share the report, run again, compare, download, delete.

import { call, path, post, send } from "./api.js";
import { confirmButton, copyText, el, setChildren, setText } from "./dom.js";
import { hasEnded } from "./format.js";
import { absoluteLink, jobAddress } from "./permalinks.js";
import { token } from "./session.js";

const FORMATS = { csv: ["CSV", "csv"], json: ["JSON", "json"], sql: ["SQL", "sql"], markdown: ["Markdown", "md"] };

/** @param {(job: any) => void} changed */
export function jobActions(id, changed, signal) {
  const error = el("p", { class: "error", role: "alert" });
  const status = el("p", { class: "hint", role: "status" });
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
  const button = (label, action, properties = {}) => el("button", { type: "button", onclick: run(action), ...properties }, label);
  let job = null;
  let hasRules = false;
  let visible = "";
  const pause = el("button", { type: "button", onclick: command("pause") }, "Pause");
  const resume = el("button", { type: "button", class: "main", onclick: command("resume") }, "Resume");
  const cancel = confirmButton("Cancel", "Really cancel?", command("cancel"));
  const remove = confirmButton("Delete this job", "Really delete?", run(async () => (await call("DELETE", path("jobs", id)), (location.hash = "#/"))), { class: "plain" });
  const save = button("Save report", () => saveReport(id, job), { class: "main" });
  const view = button("Open report in a new tab", () => openReport(id), { class: "plain" });
  const share = button("Share", () => shareLink(id, status));
  const again = el("a", { class: "button", href: `#/new?from=${id}` }, "Run again", el("span", { class: "long" }, " with changes"));
  const compare = el("a", { class: "menu-link", href: `#/compare?one=${id}` }, "Compare with another job");
  const downloads = el("div", { class: "files", role: "group", "aria-label": "Download the rules" }, el("span", { class: "muted" }, "Rules as"),
    ...Object.entries(FORMATS).map(([format, [label]]) => button(label, () => downloadRules(id, job, format), { class: "plain" })));
  const menu = el("div", { class: "menu-items" });
  const more = el("details", { class: "menu" }, el("summary", { class: "button" }, "More"), menu);
  const buttons = el("div", { class: "buttons" });
  const close = (event) => more.open && (event.key === "Escape" || !more.contains(event.target)) && (more.open = false);
  for (const kind of ["click", "keydown"]) addEventListener(kind, close, { signal });

  function show(next) {
    job = next;
    const ended = hasEnded(job.state);
    const isPaused = job.state === "paused" || job.wanted === "pause";
    const results = hasRules ? [save, share] : [];
    const items = [!ended && results, hasRules && view, job.state === "done" && compare, hasRules && downloads, ended && remove].flat().filter(Boolean);
    const wanted = [ended && results, !ended && (isPaused ? resume : pause), !ended && cancel, ended && job.dataset && again, items.length && more].flat().filter(Boolean);
    for (const each of results) each.className = ended ? (each === save ? "main" : "") : "plain";
    const labels = [...wanted, ...items].map((each) => each.textContent).join();
    if (labels === visible) return;
    visible = labels;
    const focused = buttons.contains(document.activeElement) && document.activeElement !== more.firstElementChild;
    setChildren(menu, ...items);
    setChildren(buttons, ...wanted);
    if (focused && !buttons.contains(document.activeElement)) wanted[0]?.focus();
  }

  function showDownloads() {
    if (hasRules) return;
    hasRules = true;
    if (job) show(job);
  }

  return { element: el("div", {}, buttons, status, error), show, showDownloads };
}

const loadReport = async (job) => new Blob([await (await send(path("jobs", job, "report"))).blob()], { type: "text/html;charset=utf-8" });

/** Open the report in a new tab, which is opened before the request, because browsers allow it only on a click. */
async function openReport(job) {
  const tab = open("", "_blank");
  try {
    const url = URL.createObjectURL(await loadReport(job));
    if (tab) tab.location.replace(url);
    else location.assign(url);
  } catch (problem) {
    tab?.close();
    throw problem;
  }
}

async function saveReport(id, job) {
  saveFile(await loadReport(id), `${fileName(job)}-report.html`);
}

async function downloadRules(id, job, format) {
  const response = await send(`${path("jobs", id, "rules")}?format=${format}`);
  saveFile(await response.blob(), `${fileName(job)}-rules.${FORMATS[format][1]}`);
}

function saveFile(content, name) {
  const url = URL.createObjectURL(content);
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** Copy a link to what is shown now, with the opened finding and the filter. */
async function shareLink(id, status) {
  const address = location.hash.startsWith("#job=") ? location.hash : jobAddress(id);
  await copyText(absoluteLink(address));
  setText(status, token() ? "Link copied. It opens for everyone who has a token of this tenant." : "Link copied. It opens on this machine; for others, save the report and send the file.");
  setTimeout(() => setText(status, ""), 8000);
}

function fileName(job) {
  return (job.title ?? job.name).replace(/\.\w+$/, "").replace(/[^\w-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "table";
}

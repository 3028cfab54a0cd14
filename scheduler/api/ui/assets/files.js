// What a job leaves: its report, its rules as files, a rule in the clipboard. Fetched with the token, so kept in memory.

import { path, send } from "./api.js";

export const FORMATS = { csv: "CSV", json: "JSON", sql: "SQL", markdown: "Markdown" };
const ENDINGS = { csv: "csv", json: "json", sql: "sql", markdown: "md" };

/** Save the rules of a job as a file. */
export async function download(job, name, format) {
  const response = await send(`${path("jobs", job, "rules")}?format=${format}`);
  save(await response.blob(), `${plain(name)}-rules.${ENDINGS[format]}`);
}

/** Show the report in a tab of its own; it is opened at once, as browsers allow that only to a click. */
export async function openReport(job) {
  const tab = open("", "_blank");
  try {
    const response = await send(path("jobs", job, "report"));
    const address = URL.createObjectURL(new Blob([await response.blob()], { type: "text/html;charset=utf-8" }));
    if (tab) tab.location.replace(address);
    else location.assign(address);
  } catch (problem) {
    tab?.close();
    throw problem;
  }
}

/** Put text into the clipboard; also on pages that are not secure. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function plain(name) {
  return name.replace(/\.\w+$/, "").replace(/[^\w-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "table";
}

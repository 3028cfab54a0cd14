// Keeps the opened finding and the filter of a job's findings in the address, so that they can be linked to.

import { copyText, el, setText } from "./dom.js";
import { absoluteLink, jobAddress, keepView } from "./permalinks.js";

// The fields of the form `filters` of a report, by their keys in the address.
const FIELDS = { filter: "text", class: "class", column: "feature", sort: "sort" };

/**
 * @param {HTMLElement} container  holds the findings of a finished job, as `showFindings` draws them
 * @param {string} job
 * @param {import("./permalinks.js").View} view  what the address asks for
 * @param {(id: string) => boolean} open  opens a finding
 */
export function followAddress(container, job, view, open, signal) {
  const form = container.querySelector("#filters");
  const fields = Object.entries(FIELDS).map(([key, id]) => [key, form?.querySelector(`#${id}`)]).filter(([, field]) => field);
  for (const tools of container.querySelectorAll(".finding .finding-tools")) tools.append(linkButton(job, tools.closest(".finding").id));
  for (const [key, field] of fields) {
    if (!view[key]) continue;
    field.value = view[key];
    for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, { bubbles: true }));
  }
  if (view.finding && !open(view.finding)) delete view.finding;

  const keep = () => {
    for (const [key, field] of fields) view[key] = field.selectedIndex === 0 ? "" : field.value.trim();
    keepView(job, view);
  };
  form?.addEventListener("input", keep, { signal });
  form?.addEventListener("reset", () => setTimeout(keep), { signal });
  container.addEventListener("evidence", (event) => {
    const id = event.target.id;
    if (event.detail.open) view.finding = id;
    else if (view.finding === id) delete view.finding;
    keepView(job, view);
  }, { signal });
}

/** A button that copies the link to a finding. */
function linkButton(job, id) {
  const button = el("button", { type: "button", class: "small copy-link", "aria-label": `Copy a link to ${id}` }, "Link");
  button.addEventListener("click", async () => {
    await copyText(absoluteLink(jobAddress(job, { finding: id }))).then(() => setText(button, "Link copied"), () => setText(button, "Copy failed"));
    setTimeout(() => setText(button, "Link"), 2000);
  });
  return button;
}

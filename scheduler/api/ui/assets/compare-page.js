// The findings of two jobs: new, gone, moved to other thresholds, with other figures, and the same.

import { get, path } from "./api.js";
import { el, setChildren, setText } from "./dom.js";
import { ago, classText, conditionTexts, count, percent, plural } from "./format.js";
import { jobAddress } from "./permalinks.js";
import { labelOf } from "./settings.js";

const MAX_JOBS = 200;

/** @param {{one?: string, other?: string}} options */
export async function showComparison(root, signal, { one, other }) {
  const selects = { one: el("select", { id: "compare-one" }), other: el("select", { id: "compare-other" }) };
  const result = el("div", { class: "comparison", "aria-live": "polite" });
  root.append(
    el("h1", { tabIndex: -1 }, "Compare two jobs"),
    el("div", { class: "compare-form" },
      el("div", { class: "field" }, el("label", { htmlFor: "compare-one" }, "Before"), selects.one),
      el("div", { class: "field" }, el("label", { htmlFor: "compare-other" }, "After"), selects.other)),
    result,
  );
  try {
    const { items } = await get(`${path("jobs")}?state=done&limit=${MAX_JOBS}`, { signal });
    await addMissing(items, [one, other], signal);
    fill(selects, items, one, other);
  } catch (problem) {
    if (!signal.aborted) setChildren(result, el("p", { class: "error", role: "alert" }, problem.message));
    return;
  }
  const compare = async () => {
    const [first, second] = [selects.one.value, selects.other.value];
    history.replaceState(history.state, "", `#/compare?one=${first}&other=${second}`);
    if (!first || !second) return setChildren(result, el("p", { class: "muted" }, "Choose two finished jobs."));
    if (first === second) return setChildren(result, el("p", { class: "muted" }, "These are the same job. Choose another one."));
    try {
      const [diff, ...jobs] = await Promise.all([get(path("jobs", first, "diff", second), { signal }), ...[first, second].map((id) => get(path("jobs", id), { signal }))]);
      setChildren(result, ...comparison(diff, jobs));
    } catch (problem) {
      if (!signal.aborted) setChildren(result, el("p", { class: "error", role: "alert" }, [problem.message, problem.remedy].filter(Boolean).join(" ")));
    }
  };
  for (const select of Object.values(selects)) select.addEventListener("change", compare);
  await compare();
}

/** Add jobs that the address names and that are too old for the list. */
async function addMissing(items, ids, signal) {
  for (const id of ids) {
    if (!/^[0-9a-f]{32}$/.test(id ?? "") || items.some((job) => job.id === id)) continue;
    const job = await get(path("jobs", id), { signal }).catch(() => null);
    if (job) items.push(job);
  }
}

/** Fill both lists. Without a second job, the newest one on the same table is chosen. */
function fill(selects, jobs, one, other) {
  const first = jobs.find((job) => job.id === one);
  const candidates = jobs.filter((job) => job.id !== one);
  const second = candidates.find((job) => job.id === other) ?? candidates.find((job) => job.dataset && job.dataset === first?.dataset) ?? null;
  for (const [select, chosen] of [[selects.one, first], [selects.other, second]]) {
    const options = jobs.map((job) => el("option", { value: job.id, selected: job === chosen }, `${job.title ?? job.name}, ${ago(job.created)} (${job.id.slice(0, 8)})`));
    setChildren(select, el("option", { value: "" }, "Choose a job"), ...options);
  }
}

function comparison(diff, [one, other]) {
  const dataset = { classes: [], target: diff.other.target };
  const parts = [
    ["new", "New", "Only in the later job.", diff.only_in_other.map((rule) => single(rule, other, dataset))],
    ["gone", "Gone", "Only in the earlier job.", diff.only_in_one.map((rule) => single(rule, one, dataset))],
    ["moved", "Moved", "The same columns and directions, with other thresholds.", diff.moved.map((pair) => double(pair, one, other, dataset))],
    ["changed", "Different figures", "The same conditions, counted on other rows.", diff.changed.filter((pair) => figures(pair.one) !== figures(pair.other)).map((pair) => double(pair, one, other, dataset))],
  ];
  return [
    el("p", { class: "headline" }, headline(diff)),
    diff.one.fingerprint !== diff.other.fingerprint && el("p", { class: "notice" }, "The jobs used different data: other rows, other columns, or another target."),
    settingChanges(one, other),
    ...parts.filter(([, , , items]) => items.length).map(([kind, title, text, items]) => el("section", { class: "difference", "data-kind": kind },
      el("h2", {}, `${title} (${count(items.length)})`), el("p", { class: "hint" }, text), el("ul", {}, ...items))),
  ];
}

function headline(diff) {
  if (diff.equal) return `Both jobs have the same ${plural(diff.one.rules, "finding")}.`;
  const figures = [[diff.same + diff.changed.length, "the same"], [diff.moved.length, "moved"], [diff.only_in_other.length, "new"], [diff.only_in_one.length, "gone"]];
  return `${figures.map(([number, word]) => `${number ? count(number) : "none"} ${word}`).join(", ")}.`.replace(/^./, (letter) => letter.toUpperCase());
}

function settingChanges(one, other) {
  const before = { ...one.table, ...one.settings };
  const after = { ...other.table, ...other.settings };
  const text = (value) => (value === null || value === undefined || value.length === 0 ? "default" : Array.isArray(value) ? value.join(", ") : String(value));
  const names = Object.keys(after).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  if (!names.length) return null;
  return el("section", { class: "difference", "data-kind": "settings" }, el("h2", {}, "Settings that differ"),
    el("dl", { class: "pairs" }, ...names.flatMap((name) => [el("dt", {}, labelOf(name)), el("dd", {}, `${text(before[name])} → ${text(after[name])}`)])));
}

const sentence = (rule, dataset) => `${conditionTexts(rule.conditions).join(" and ") || "always"} → ${classText(rule.class, { ...dataset, classes: [rule.class] })}`;

function figures(rule) {
  const [name, split] = [["unseen rows", rule.holdout], ["validation rows", rule.validation], ["training rows", rule.train]].find(([, each]) => each && each.precision !== null) ?? [];
  return split ? `${percent(split.precision)} of ${plural(split.n, name.replace(/s$/, ""), name)}` : "";
}

function single(rule, job, dataset) {
  return el("li", {}, el("a", { href: jobAddress(job.id, { finding: rule.id }) }, sentence(rule, dataset)), el("span", { class: "muted" }, figures(rule)),
    rule.similar && el("span", { class: "muted" }, `Similar: ${rule.similar.text}`));
}

function double(pair, one, other, dataset) {
  const row = (label, rule, job) => el("div", { class: "side-by-side" }, el("span", { class: "muted" }, label), el("a", { href: jobAddress(job.id, { finding: rule.id }) }, sentence(rule, dataset)), el("span", { class: "muted" }, figures(rule)));
  return el("li", {}, row("Before", pair.one, one), row("After", pair.other, other));
}

// The settings of a job: fields from the server's own description of them, the few that matter first.

import { get, path } from "./api.js";
import { el } from "./dom.js";
import { field } from "./fields.js";

const LABELS = {
  preset: "Method", trees: "Trees", subset_size: "Features per tree", max_depth: "Deepest tree", min_samples: "Rows a rule needs",
  holdout: "Held-out share", seed: "Seed", b: "Damping (b)", h: "Mismatch (h)", alpha: "High-scoring share", initial: "Random start",
  gini: "Impurity", na_values: "Missing texts", max_levels: "Texts per column", impute: "Missing numbers become",
  target_above: "Two classes: above", target_quantiles: "Classes of equal size", test_size: "Validation share",
  min_samples_leaf: "Rows in each leaf", top_features: "Most used features", in_flight: "Batches under way",
};
const MAIN = ["preset", "trees", "subset_size", "max_depth", "min_samples", "holdout", "seed"];
const TARGET = ["target_above", "target_quantiles"];
const CHOSEN_BY_CLICK = ["target", "include", "exclude"];
const GROUPS = {
  Rules: ["gini", "similarity", "similarity_by", "literals", "significance", "probes"],
  Search: ["strategy", "initial", "alpha", "h", "b", "top_features", "candidates", "seeded", "neighbours", "completions"],
  "Trees and rows": ["min_samples_leaf", "class_weight", "test_size", "stratify", "split_seed"],
  Table: ["impute", "missing_indicator", "max_levels", "na_values"],
  Running: ["batch", "in_flight", "patience", "time_limit"],
};

let known = null;

/** The server's description of settings; it is asked for once. */
async function schemas() {
  known ??= get(path("openapi.json")).then((document) => document.components.schemas);
  return known.catch((error) => ((known = null), Promise.reject(error)));
}

export const labelOf = (name) => LABELS[name] ?? (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll("_", " ");

/** Texts are written for the command line; a page has names for its options instead. */
export const withoutDashes = (text) =>
  text.replace(/--([a-z][a-z-]*)/g, (_, option) => `“${labelOf(option.replaceAll("-", "_"))}”`).replace(" (repeat the option or separate by commas)", "");

/** @param {() => void} changed */
export async function settingsForm(changed) {
  const found = await schemas();
  const fields = new Map();
  for (const [part, model] of [["settings", "MiningSettings"], ["table", "TableSettings"]]) {
    for (const [name, schema] of Object.entries(found[model].properties)) {
      if (CHOSEN_BY_CLICK.includes(name)) continue;
      const words = { label: labelOf(name), help: withoutDashes(schema.description ?? "") };
      fields.set(name, { part, ...field(name, schema, words) });
    }
  }
  const elements = (names) => names.filter((name) => fields.has(name)).map((name) => fields.get(name).element);
  const placed = new Set([...MAIN, ...TARGET, ...Object.values(GROUPS).flat()]);
  const others = [...fields.keys()].filter((name) => !placed.has(name));
  const more = el(
    "details",
    { class: "more" },
    el("summary", {}, "More settings"),
    ...[...Object.entries(GROUPS), ["Other", others]]
      .filter(([, names]) => names.some((name) => fields.has(name)))
      .map(([title, names]) => el("fieldset", {}, el("legend", {}, title), el("div", { class: "fields" }, ...elements(names)))),
  );
  const cut = el("div", { class: "fields cut", hidden: true }, el("p", { class: "hint whole" }, "The column holds a quantity: say how it becomes classes."), ...elements(TARGET));
  const element = el("div", { class: "settings" }, el("div", { class: "fields" }, ...elements(MAIN)), more);
  for (const place of [element, cut]) place.addEventListener("input", changed);
  return { element, cut, value: () => read(fields), refuse: (problem) => refuse(fields, more, problem) };
}

function read(fields) {
  const value = { settings: {}, table: {} };
  for (const [name, each] of fields) if (!each.isDefault()) value[each.part][name] = each.read();
  return value;
}

/** Show what is wrong at the fields it is about; gives what is about none of them. */
function refuse(fields, more, problem) {
  for (const each of fields.values()) each.refuse("");
  if (!problem) return "";
  let rest = "";
  for (const line of problem.message.split("\n")) {
    const about = fieldOf(fields, line, problem);
    const said = sentence(withoutDashes(line.replace(/^[\w.]+: /, "")));
    if (!about) rest = `${rest} ${said}`.trim();
    else about.refuse(said);
    if (about && more.contains(about.element)) more.open = true;
  }
  return rest;
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** By the path that the line or the problem names, or the first option that is spoken of. */
function fieldOf(fields, line, problem) {
  const place = /^([\w]+(?:\.[\w-]+)+): /.exec(line)?.[1] ?? problem.field ?? "";
  const option = /--([a-z][a-z-]*)/.exec(line)?.[1].replaceAll("-", "_");
  const name = [...place.split("."), option].find((part) => fields.has(part));
  return name ? fields.get(name) : null;
}

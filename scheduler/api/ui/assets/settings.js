// The settings of a job: fields from the schema of the API, the most important ones first.

import { get, path } from "./api.js";
import { el } from "./dom.js";
import { formField } from "./form-fields.js";

const LABELS = {
  preset: "Method", trees: "Trees", subset_size: "Features per tree", max_depth: "Maximum depth", min_samples: "Minimum rows per rule",
  holdout: "Holdout share", seed: "Seed", b: "Damping (b)", h: "Mismatch (h)", alpha: "High-scoring share", initial: "Initial random subsets",
  gini: "Maximum impurity", na_values: "Texts that mean missing", max_levels: "Texts per column", impute: "Replace missing numbers by",
  target_above: "Two classes: threshold", target_quantiles: "Classes of equal size", test_size: "Validation share",
  min_precision: "Minimum precision", min_lift: "Minimum lift", always: "Columns in every subset", one_of: "One of these columns", for_class: "Only these classes", max_rules: "Maximum number of rules",
  all: "Every certified rule", certify: "Shuffled searches", max_p: "Greatest adjusted p", min_samples_leaf: "Minimum rows per leaf", top_features: "Top features", in_flight: "Batches in flight",
  group: "Column of groups of rows", time: "Column of times", weight: "Column of weights", holdout_by: "Hold out by",
};
const MAIN = ["preset", "trees", "subset_size", "max_depth", "min_samples", "holdout", "seed"];
const TARGET = ["target_above", "target_quantiles"];
const SET_BY_COLUMN_PICKER = ["target", "include", "exclude"];
const GROUPS = {
  Rules: ["max_rules", "all", "for_class", "min_precision", "min_lift", "prefer", "certify", "max_p", "gini", "similarity", "similarity_by", "literals", "significance", "probes"],
  Search: ["strategy", "always", "one_of", "initial", "alpha", "h", "b", "top_features", "candidates", "seeded", "neighbours", "completions"],
  "Trees and rows": ["min_samples_leaf", "class_weight", "test_size", "holdout_by", "stratify", "split_seed"],
  Table: ["group", "time", "weight", "impute", "missing_indicator", "max_levels", "na_values"],
  Running: ["batch", "in_flight", "patience", "time_limit"],
};

let schemas = null;

/** Load the schemas of the API once. */
async function loadSchemas() {
  schemas ??= get(path("openapi.json")).then((document) => document.components.schemas);
  return schemas.catch((error) => ((schemas = null), Promise.reject(error)));
}

export const labelOf = (name) => LABELS[name] ?? (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll("_", " ");

/** Replace the names of command-line options in texts of the server by the labels of their fields. */
export const replaceOptions = (text) =>
  text.replace(/--([a-z][a-z-]*)/g, (_, option) => `“${labelOf(option.replaceAll("-", "_"))}”`).replace(" (repeat the option or separate by commas)", "").replace("; repeat it for other groups", "; separate groups by semicolons");

/** @param {() => void} changed */
export async function settingsForm(changed) {
  const models = await loadSchemas();
  const fields = new Map();
  for (const [part, model] of [["settings", "MiningSettings"], ["table", "TableSettings"]]) {
    for (const [name, schema] of Object.entries(models[model].properties)) {
      if (SET_BY_COLUMN_PICKER.includes(name)) continue;
      const texts = { label: labelOf(name), help: replaceOptions(schema.description ?? "") };
      fields.set(name, { part, ...formField(name, schema, texts) });
    }
  }
  const elements = (names) => names.filter((name) => fields.has(name)).map((name) => fields.get(name).element);
  const grouped = new Set([...MAIN, ...TARGET, ...Object.values(GROUPS).flat()]);
  const others = [...fields.keys()].filter((name) => !grouped.has(name));
  const more = el(
    "details",
    { class: "more" },
    el("summary", {}, "More settings"),
    ...[...Object.entries(GROUPS), ["Other", others]]
      .filter(([, names]) => names.some((name) => fields.has(name)))
      .map(([title, names]) => el("fieldset", {}, el("legend", {}, title), el("div", { class: "fields" }, ...elements(names)))),
  );
  const classes = el("div", { class: "fields class-settings", hidden: true }, el("p", { class: "hint full-width" }, "This column is numeric: choose how to divide it into classes."), ...elements(TARGET));
  const element = el("div", { class: "settings" }, el("div", { class: "fields" }, ...elements(MAIN)), more);
  for (const container of [element, classes]) container.addEventListener("input", changed);
  return { element, classes, value: () => readValues(fields), showProblem: (problem) => showProblem(fields, more, problem) };
}

function readValues(fields) {
  const value = { settings: {}, table: {} };
  for (const [name, field] of fields) if (!field.isDefault()) value[field.part][name] = field.read();
  return value;
}

/** Show the lines of a problem at the fields they are about; return those that are about no field. */
function showProblem(fields, more, problem) {
  for (const field of fields.values()) field.showError("");
  if (!problem) return "";
  let rest = "";
  for (const line of problem.message.split("\n")) {
    const field = fieldOf(fields, line, problem);
    const message = capitalize(replaceOptions(line.replace(/^[\w.]+: /, "")));
    if (!field) rest = `${rest} ${message}`.trim();
    else field.showError(message);
    if (field && more.contains(field.element)) more.open = true;
  }
  return rest;
}

const capitalize = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Find the field by the path in the line or in the problem, or by the first option that the line mentions. */
function fieldOf(fields, line, problem) {
  const location = /^([\w]+(?:\.[\w-]+)+): /.exec(line)?.[1] ?? problem.field ?? "";
  const option = /--([a-z][a-z-]*)/.exec(line)?.[1].replaceAll("-", "_");
  const name = [...location.split("."), option].find((part) => fields.has(part));
  return name ? fields.get(name) : null;
}

// All settings of a job, under Advanced: fields from the schemas of the API, the most important ones first.

import { el } from "./dom.js";
import { formField } from "./form-fields.js";
import { SCHEMAS } from "./schemas.js";

const LABELS = {
  preset: "Method", trees: "Trees", subset_size: "Features per tree", max_depth: "Maximum depth", min_samples: "Minimum rows per rule",
  target: "Target", exclude: "Columns left out", include: "Only these columns", holdout: "Holdout share", seed: "Seed", b: "Damping (b)", h: "Mismatch (h)", alpha: "High-scoring share", initial: "Initial random subsets",
  gini: "Maximum impurity", na_values: "Values that mean missing", max_levels: "Values per text column", impute: "Replace missing numbers with",
  target_above: "Two classes: threshold", target_quantiles: "Classes of equal size", test_size: "Validation share",
  min_precision: "Minimum precision", min_lift: "Minimum lift", always: "Columns in every subset", one_of: "One of these columns", for_class: "Only these classes", max_rules: "Maximum number of rules",
  all: "Every certified rule", certify: "Shuffled searches", max_p: "Largest adjusted p", min_samples_leaf: "Minimum rows per leaf", top_features: "Top features", in_flight: "Batches in flight",
  group: "Column that groups rows", time: "Column with the time", weight: "Column with weights", holdout_by: "Hold out by",
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

export const labelOf = (name) => LABELS[name] ?? (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll("_", " ");

/** Replace command-line options in texts of the server by the labels of their fields: `--max-p 0.3` by `“Largest adjusted p” = 0.3`. */
export const replaceOptions = (text) =>
  text.replace(/--([a-z][a-z-]*)( N\b| (?=\d|(?:auto|off|pairs|paper|triples)\b))?/g, (_, option, value) => `“${labelOf(option.replaceAll("-", "_"))}”${value === " " ? " = " : ""}`).replace(" (repeat the option or separate by commas)", "").replace("; repeat it for other groups", "; separate groups by semicolons");

/** @param {() => void} changed */
export function settingsForm(changed) {
  const fields = new Map();
  for (const [part, model] of [["settings", "MiningSettings"], ["table", "TableSettings"]]) {
    for (const [name, schema] of Object.entries(SCHEMAS[model])) {
      if (SET_BY_COLUMN_PICKER.includes(name)) continue;
      const texts = { label: labelOf(name), help: replaceOptions(schema.description ?? "") };
      fields.set(name, { part, ...formField(name, schema, texts) });
    }
  }
  const elements = (names) => names.filter((name) => fields.has(name)).map((name) => fields.get(name).element);
  const grouped = new Set([...MAIN, ...TARGET, ...Object.values(GROUPS).flat()]);
  const others = [...fields.keys()].filter((name) => !grouped.has(name));
  const classes = el("div", { class: "fields class-settings", hidden: true }, ...elements(TARGET));
  const element = el(
    "details",
    { class: "advanced", id: "advanced" },
    el("summary", {}, "Advanced"),
    el("p", { class: "hint" }, "All settings of the method. The defaults suit most tables."),
    el("div", { class: "fields" }, ...elements(MAIN)),
    classes,
    ...[...Object.entries(GROUPS), ["Other", others]]
      .filter(([, names]) => names.some((name) => fields.has(name)))
      .map(([title, names]) => el("fieldset", {}, el("legend", {}, title), el("div", { class: "fields" }, ...elements(names)))),
  );
  element.addEventListener("input", changed);
  return {
    element,
    value: () => readValues(fields),
    get: (name) => fields.get(name)?.read() ?? null,
    set: (name, value) => fields.get(name)?.write(value),
    fill: (values) => Object.entries(values ?? {}).forEach(([name, value]) => fields.get(name)?.write(value)),
    showDivision: (isShown) => (classes.hidden = !isShown),
    showProblem: (problem) => showProblem(fields, problem),
    reveal: (field) => ((element.open = true), field.control.focus()),
  };
}

function readValues(fields) {
  const value = { settings: {}, table: {} };
  for (const [name, field] of fields) if (!field.isDefault()) value[field.part][name] = field.read();
  return value;
}

/** Show the lines of a problem at the fields they are about; return all of them, each with its field if it has one. */
function showProblem(fields, problem) {
  for (const field of fields.values()) field.showError("");
  if (!problem) return [];
  return problem.message.split("\n").map((line) => {
    const field = fieldOf(fields, line, problem);
    const message = capitalize(replaceOptions(line.replace(/^[\w.]+: /, "")));
    field?.showError(message);
    return { field, message };
  });
}

const capitalize = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Find the field by the path in the line or in the problem, or by the first option that the line mentions. */
function fieldOf(fields, line, problem) {
  const location = /^([\w]+(?:\.[\w-]+)+): /.exec(line)?.[1] ?? problem.field ?? "";
  const option = /--([a-z][a-z-]*)/.exec(line)?.[1].replaceAll("-", "_");
  const name = [...location.split("."), option].find((part) => fields.has(part));
  return name ? fields.get(name) : null;
}

/** All settings of a job, to read. */
export function settingsList(job) {
  const format = (value) => (value === null ? "–" : typeof value === "boolean" ? (value ? "yes" : "no") : Array.isArray(value) ? value.join(", ") || "none" : String(value));
  const settings = Object.entries({ ...job.table, ...job.settings });
  return el("dl", { class: "pairs wide" }, ...settings.flatMap(([name, value]) => [el("dt", {}, labelOf(name)), el("dd", {}, format(value))]));
}

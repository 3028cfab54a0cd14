// Which column is explained, and which columns are used for it. Columns that would only mislead are left out at first.

const MAX_CLASSES = 20;

/** Why columns are left out unless users want them, in words that follow the name of the column. */
export const REASONS = {
  leak: "nearly repeats what you want to explain and is probably known only afterwards; left out.",
  identifier: "identifies rows; left out.",
  empty: "has no values; left out.",
  constant: "has the same value in every row; left out.",
  unsupported: "holds neither numbers, texts nor dates; left out.",
};

/** True if a target has to be divided into classes. */
export const isQuantity = (column) => column?.kind === "number" && column.distinct > MAX_CLASSES;

/** @param {any} dataset @param {any} [table]  table settings of an earlier job */
export function columnChoice(dataset, table) {
  const columns = dataset.features;
  const byName = new Map(columns.map((column) => [column.name, column]));
  const forced = new Set(); // used although they would be left out
  const unwanted = new Set(table?.exclude ?? []);
  const leaks = new Set();
  let target = byName.has(table?.target) ? table.target : dataset.target;
  if (table?.include?.length) {
    for (const { name, use } of columns) {
      if (!table.include.includes(name)) unwanted.add(name);
      else if (use !== "feature" && use !== "date") forced.add(name);
    }
  }

  /** Return why a column is left out; null if it is used. */
  function reason(column) {
    if (column.name === target || forced.has(column.name)) return null;
    if (column.use && column.use !== "feature" && column.use !== "date") return column.use;
    if (leaks.has(column.name)) return "leak";
    return unwanted.has(column.name) ? "user" : null;
  }

  function setTarget(name) {
    target = byName.has(name) ? name : null;
    leaks.clear(); // they depend on the target
  }

  function setUsed(name, isUsed) {
    unwanted.delete(name);
    forced.delete(name);
    const automatic = reason(byName.get(name));
    if (isUsed && automatic) forced.add(name);
    if (!isUsed && !automatic) unwanted.add(name);
  }

  /** Leave out columns that nearly repeat the target; return true if there are new ones. */
  function addLeaks(names) {
    const added = names.filter((name) => !leaks.has(name) && !forced.has(name));
    for (const name of added) leaks.add(name);
    return added.length > 0;
  }

  /** Return the table settings. Identifiers are only used if all used columns are named. */
  function value() {
    const used = columns.filter((column) => column.name !== target && !reason(column)).map((column) => column.name);
    if (used.some((name) => byName.get(name).use === "identifier")) return { target, include: used };
    const exclude = columns.filter((column) => ["leak", "user"].includes(reason(column))).map((column) => column.name);
    return { target, exclude };
  }

  return { columns, target: () => byName.get(target) ?? null, reason, setTarget, setUsed, addLeaks, value };
}

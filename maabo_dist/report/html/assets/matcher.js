/* Whether conditions hold in a row, exactly as the program decides it: a missing cell satisfies no comparison unless the
   condition says so, numbers are compared as they are, and levels by their text. A cell is a number, a text, a date as
   2024-12-31T23:00, or null where it is missing. */

const DAY = 86400000;

export function conditionHolds({ op, value, or_missing: orMissing, part }, cell) {
  const number = part ? datePart(part, cell) : cell;
  const missing = number === null || number === undefined || Number.isNaN(number);
  if (op === "is missing") return missing;
  if (op === "is not missing") return !missing;
  if (missing) return Boolean(orMissing);
  switch (op) {
    case "<=": return Number(number) <= value;
    case ">": return Number(number) > value;
    case ">=": return Number(number) >= value;
    case "=": return levelText(number) === value;
    case "!=": return levelText(number) !== value;
    case "in": return value.includes(levelText(number));
    default: return !value.includes(levelText(number)); // not in
  }
}

/** The indexes of the conditions that do not hold; `cells` maps columns to cells. */
export const failingConditions = (conditions, cells) =>
  conditions.flatMap((condition, index) => (conditionHolds(condition, cells.get(condition.feature) ?? null) ? [] : [index]));

const levelText = (cell) => (typeof cell === "boolean" ? String(cell) : String(cell));

/** A number that is taken from a date; null where the cell is no date. Times have no zone here: they are in UTC. */
function datePart({ part, first }, cell) {
  const time = typeof cell === "string" ? Date.parse(/T/.test(cell) ? `${cell}Z` : `${cell}T00:00Z`) : NaN;
  if (Number.isNaN(time)) return null;
  const date = new Date(time);
  if (part === "year") return date.getUTCFullYear();
  if (part === "month") return date.getUTCMonth() + 1;
  if (part === "weekday") return date.getUTCDay() || 7;
  if (part === "hour") return date.getUTCHours();
  return Math.floor(time / DAY) - Date.parse(`${first}T00:00Z`) / DAY;
}

/* The data of the page, and what follows from it. */

export const root = document.documentElement;
export const COLOURS = 8;
export const PART_NAMES = { train: "training", validation: "validation", holdout: "held out" };

export let data = null;
export let figures = null;
export let later = "validation";
export let goToRule = null;
let matrices = null;

/** Set the data that everything is drawn from: the JSON of a report; `go` leads to the rule of an id. */
export function setData(value, go) {
  goToRule = go;
  data = value;
  figures = value.figures;
  later = value.parts.holdout ? "holdout" : "validation";
  matrices = null;
}

export const decodeBytes = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
export const similarityMatrices = () => (matrices ||= { logic: decodeBytes(figures.similarity.logic), rows: decodeBytes(figures.similarity.rows) });

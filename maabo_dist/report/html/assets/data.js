/* The data of the page: JSON in #data. */

export const data = JSON.parse(document.getElementById("data").textContent);
export const figures = data.figures;
export const root = document.documentElement;
export const COLOURS = 8;
export const PART_NAMES = { train: "training", validation: "validation", holdout: "held out" };
export const later = data.parts.holdout ? "holdout" : "validation";

export const decodeBytes = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));

let matrices = null;
export const similarityMatrices = () => (matrices ||= { logic: decodeBytes(figures.similarity.logic), rows: decodeBytes(figures.similarity.rows) });

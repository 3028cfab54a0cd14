/* Making elements and texts. Text from data enters the page as text nodes only, never as HTML. */
import { COLOURS } from "./data.js";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(2)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}
export const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
export const drawing = (width, height, label, ...children) =>
  svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...children);

export const count = (value) => value.toLocaleString("en-US");
export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
export const twoDecimals = (value) => (value === null || value === undefined ? "–" : value.toFixed(2));
export const shortNumber = (value) => String(Number(value.toPrecision(5)));
export const sum = (values) => values.reduce((total, value) => total + value, 0);
export const truncate = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
const ruler = document.createElement("canvas").getContext("2d");
export function textWidth(text, strong) {
  ruler.font = `${strong ? "600 " : ""}11px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}
/** As much of a text as there is room for in a picture. */
export function fitText(text, room, strong = false) {
  if (textWidth(text, strong) <= room) return text;
  let [low, high] = [0, Math.min(text.length, 200)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(`${text.slice(0, middle)}…`, strong) <= room) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}
export const classMark = (place, own, classes) => (classes <= COLOURS ? `c${place}` : place === own ? "c0" : "rest");
export const cssColour = (name) => getComputedStyle(document.getElementById("briefing")).getPropertyValue(name).trim();

export const makeSection = (title, ...content) => el("section", {}, el("h3", {}, title), ...content);

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { class: "quiet", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

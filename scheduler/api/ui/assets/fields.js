// Fields of a form, made from a JSON schema: what is given, its limits and its meaning stand there once.

import { el, say } from "./dom.js";

/** The alternatives of a property, null aside. */
const kinds = (schema) => (schema.anyOf ?? [schema]).filter((kind) => kind.type !== "null");
const find = (schema, key) => kinds(schema).find((kind) => kind[key] !== undefined)?.[key];

/**
 * @typedef {{name: string, element: HTMLElement, read: () => any, isDefault: () => boolean, refuse: (why: string) => void}} Field
 * @param {string} name
 * @param {any} given  its schema
 * @param {{label: string, help: string}} words
 * @returns {Field}
 */
export function field(name, given, words) {
  const schema = { ...given, default: given.default ?? null }; // a null that is the default is not written out
  const id = `set-${name}`;
  const error = el("p", { class: "error", id: `${id}-error` });
  const described = { id, name, "aria-describedby": `${id}-help ${id}-error` };
  const control = controlFor(schema, described);
  const label = el("label", { htmlFor: id }, words.label);
  const help = el("p", { class: "hint", id: `${id}-help` }, [words.help, limits(schema)].filter(Boolean).join(" "));
  const isBox = control.element.type === "checkbox";
  const element = el("div", { class: isBox ? "field box" : "field" }, ...(isBox ? [control.element, label] : [label, control.element]), help, error);
  const refuse = (why) => {
    say(error, why);
    if (why) control.element.setAttribute("aria-invalid", "true");
    else control.element.removeAttribute("aria-invalid");
  };
  const isDefault = () => JSON.stringify(control.read()) === JSON.stringify(schema.default);
  return { name, element, refuse, isDefault, read: control.read };
}

function controlFor(schema, described) {
  if (kinds(schema)[0].type === "boolean") return checkbox(schema, described);
  if (kinds(schema)[0].type === "array") return list(described);
  if (find(schema, "enum") && kinds(schema).length === 1) return select(schema, described);
  return text(schema, described);
}

function checkbox(schema, described) {
  const element = el("input", { ...described, type: "checkbox", checked: schema.default });
  return { element, read: () => element.checked };
}

function select(schema, described) {
  const open = schema.default === null;
  const options = [...(open ? ["by itself"] : []), ...find(schema, "enum")];
  const element = el("select", described, ...options.map((option) => el("option", { selected: option === schema.default }, option)));
  return { element, read: () => (open && element.selectedIndex === 0 ? null : element.value) };
}

function list(described) {
  const element = el("input", { ...described, type: "text", placeholder: "none", autocomplete: "off" });
  return { element, read: () => element.value.split(",").map((part) => part.trim()).filter(Boolean) };
}

function text(schema, described) {
  const value = schema.default === null ? "" : String(schema.default);
  const element = el("input", {
    ...described, type: "text", value, autocomplete: "off", spellcheck: false, inputMode: kinds(schema).length > 1 ? "text" : "decimal",
    placeholder: schema.default === null ? "by itself" : String(schema.default),
  });
  return { element, read: () => typed(element.value.trim(), schema) };
}

/** A number where it is one; whatever else it is, the server says what it thinks of it. */
function typed(given, schema) {
  if (given === "") return schema.default;
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(given) ? Number(given) : given;
}

function limits(schema) {
  const low = find(schema, "minimum") ?? find(schema, "exclusiveMinimum");
  const high = find(schema, "maximum") ?? find(schema, "exclusiveMaximum");
  if (low === undefined || high === undefined || high > 1e6) return "";
  return `(${low}\u00a0to\u00a0${high.toLocaleString("en")})`;
}

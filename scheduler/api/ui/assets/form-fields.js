// Form fields created from a JSON schema, which defines their defaults and limits.

import { el, setText } from "./dom.js";

/** The alternatives of a property, except null. */
const alternatives = (schema) => (schema.anyOf ?? [schema]).filter((each) => each.type !== "null");
const find = (schema, key) => alternatives(schema).find((each) => each[key] !== undefined)?.[key];

/**
 * @typedef {{name: string, element: HTMLElement, read: () => any, write: (value: any) => void, isDefault: () => boolean, showError: (message: string) => void}} Field
 * @param {string} name
 * @param {any} property  its schema
 * @param {{label: string, help: string}} texts
 * @returns {Field}
 */
export function formField(name, property, texts) {
  const schema = { ...property, default: property.default ?? null }; // schemas omit a default of null
  const id = `set-${name}`;
  const error = el("p", { class: "error", id: `${id}-error` });
  const attributes = { id, name, "aria-describedby": `${id}-help ${id}-error` };
  const control = createControl(schema, attributes);
  const label = el("label", { htmlFor: id }, texts.label);
  const help = el("p", { class: "hint", id: `${id}-help` }, [texts.help, limitsText(schema)].filter(Boolean).join(" "));
  const isCheckbox = control.element.type === "checkbox";
  const element = el("div", { class: isCheckbox ? "field checkbox" : "field" }, ...(isCheckbox ? [control.element, label] : [label, control.element]), help, error);
  const showError = (message) => {
    setText(error, message);
    if (message) control.element.setAttribute("aria-invalid", "true");
    else control.element.removeAttribute("aria-invalid");
  };
  const isDefault = () => JSON.stringify(control.read()) === JSON.stringify(schema.default);
  return { name, label: texts.label, element, control: control.element, showError, isDefault, read: control.read, write: (value) => control.write(value ?? schema.default) };
}

function createControl(schema, attributes) {
  if (alternatives(schema)[0].type === "boolean") return createCheckbox(schema, attributes);
  if (alternatives(schema)[0].items?.type === "array") return createGroups(attributes);
  if (alternatives(schema)[0].type === "array") return createList(attributes);
  if (find(schema, "enum") && alternatives(schema).length === 1) return createSelect(schema, attributes);
  return createText(schema, attributes);
}

function createCheckbox(schema, attributes) {
  const element = el("input", { ...attributes, type: "checkbox", checked: schema.default });
  return { element, read: () => element.checked, write: (value) => (element.checked = Boolean(value)) };
}

function createSelect(schema, attributes) {
  const hasDefault = schema.default === null;
  const options = [...(hasDefault ? ["default"] : []), ...find(schema, "enum")];
  const element = el("select", attributes, ...options.map((option) => el("option", { selected: option === schema.default }, option)));
  return { element, read: () => (hasDefault && element.selectedIndex === 0 ? null : element.value), write: (value) => (element.value = value ?? "default") };
}

const split = (text, separator) => text.split(separator).map((part) => part.trim()).filter(Boolean);

function createList(attributes) {
  const element = el("input", { ...attributes, type: "text", placeholder: "none", autocomplete: "off" });
  return { element, read: () => split(element.value, ","), write: (value) => (element.value = (value ?? []).join(", ")) };
}

/** Lists of names, separated by semicolons. */
function createGroups(attributes) {
  const { element } = createList(attributes);
  const write = (value) => (element.value = (value ?? []).map((group) => group.join(", ")).join("; "));
  return { element, read: () => split(element.value, ";").map((group) => split(group, ",")), write };
}

function createText(schema, attributes) {
  const value = schema.default === null ? "" : String(schema.default);
  const element = el("input", {
    ...attributes, type: "text", value, autocomplete: "off", spellcheck: false, inputMode: alternatives(schema).length > 1 ? "text" : "decimal",
    placeholder: schema.default === null ? "default" : String(schema.default),
  });
  return { element, read: () => parseValue(element.value.trim(), schema), write: (value) => (element.value = value === null || value === undefined ? "" : String(value)) };
}

/** Return a number if it is one; the server validates everything else. */
function parseValue(text, schema) {
  if (text === "") return schema.default;
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text) ? Number(text) : text;
}

function limitsText(schema) {
  const low = find(schema, "minimum") ?? find(schema, "exclusiveMinimum");
  const high = find(schema, "maximum") ?? find(schema, "exclusiveMaximum");
  if (low === undefined || high === undefined || high > 1e6) return "";
  return `(${low}\u00a0to\u00a0${high.toLocaleString("en")})`;
}

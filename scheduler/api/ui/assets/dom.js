// Functions that create and change elements. Data is always inserted as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an element. A property that is a function is a listener (`onclick`), `class` and `aria-…` are attributes, the
 * rest are properties where the element has them; null, undefined and false children are left out.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Node|string|number|null|undefined|false)} children
 * @returns {any}
 */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) setProperty(element, name, value);
  element.append(...presentNodes(children));
  return element;
}

/** Create an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...presentNodes(children));
  return element;
}

/** Replace the children of an element. */
export function setChildren(element, ...children) {
  element.replaceChildren(...presentNodes(children));
  return element;
}

/** Replace the children of a list only if they differ, so that focus and animations are kept. */
export function updateChildren(list, children) {
  const same = children.length === list.children.length && children.every((child, index) => list.children[index] === child);
  if (!same) setChildren(list, ...children);
}

/** Set the text of an element only if it differs, so that selections and screen readers are not disturbed. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Create a button that asks for confirmation before it does something that cannot be undone. */
export function confirmButton(label, question, action, properties = {}) {
  let timer = 0;
  const button = el("button", { type: "button", ...properties }, label);
  const reset = () => ((timer = 0), (button.textContent = label), button.classList.remove("confirming"));
  button.addEventListener("click", () => {
    if (timer) return clearTimeout(timer), reset(), action(button);
    timer = setTimeout(reset, 5000);
    button.textContent = question;
    button.classList.add("confirming");
  });
  return button;
}

/** Copy text to the clipboard, also on pages without HTTPS. */
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = el("textarea", { value: text });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

function setProperty(element, name, value) {
  if (value === null || value === undefined) return;
  if (typeof value === "function") element.addEventListener(name.slice(2), value);
  else if (name in element && !name.startsWith("aria-") && name !== "list") element[name] = value;
  else element.setAttribute(name, String(value));
}

function presentNodes(children) {
  return children.flat().filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

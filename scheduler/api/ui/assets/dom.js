// Elements from values. Whatever comes from data goes in as text: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. A property that is a function is a listener (`onclick`), `class` and `aria-…` are attributes, the rest
 * are properties where the element has them; null, undefined and false children are left out.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Node|string|number|null|undefined|false)} children
 * @returns {any}
 */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) set(element, name, value);
  element.append(...present(children));
  return element;
}

/** The same for pictures. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...present(children));
  return element;
}

/** Give an element other children. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

/** Set text only where it is another, so that selections and screen readers are left in peace. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A button that asks once more before it does what cannot be undone. */
export function twice(label, sure, act, properties = {}) {
  let asked = 0;
  const button = el("button", { type: "button", ...properties }, label);
  const calm = () => ((asked = 0), (button.textContent = label), button.classList.remove("sure"));
  button.addEventListener("click", () => {
    if (asked) return clearTimeout(asked), calm(), act(button);
    asked = setTimeout(calm, 5000);
    button.textContent = sure;
    button.classList.add("sure");
  });
  return button;
}

function set(element, name, value) {
  if (value === null || value === undefined) return;
  if (typeof value === "function") element.addEventListener(name.slice(2), value);
  else if (name in element && !name.startsWith("aria-") && name !== "list") element[name] = value;
  else element.setAttribute(name, String(value));
}

function present(children) {
  return children.flat().filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

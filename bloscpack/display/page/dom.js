// Elements. Text from files is only ever set as text, never as HTML.

export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "list" && key !== "form") element[key] = value;
    else if (value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// A notebook has several widgets, each with its own copy of this module.
const IDS = `control-${Math.random().toString(36).slice(2)}`;
let lastId = 0;

// A control with its label before it.
export function labelled(text, control) {
  control.id ||= `${IDS}-${++lastId}`;
  return el("span", { className: "control" }, el("label", { htmlFor: control.id }, text), control);
}

export function select(options, onchange, value) {
  const element = el("select", { onchange: () => onchange(element.value) });
  for (const [key, text] of options) element.append(el("option", { value: key }, text));
  if (value !== undefined) element.value = value;
  return element;
}

export function button(text, onclick, attributes = {}) {
  return el("button", { type: "button", onclick, ...attributes }, text);
}

export function section(title, ...children) {
  return el("section", { ariaLabel: title }, el("h3", {}, title), ...children);
}

// A table of names and values; of the class "row", they stand side by side.
export function facts(rows, className = "") {
  const body = el("tbody");
  for (const [name, value] of rows) {
    if (value === undefined || value === null || value === "") continue;
    body.append(el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, showValue(value))));
  }
  return el("table", { className: `facts ${className}` }, body);
}

// Any JSON value, as text or as a tree that opens.
function showValue(value, depth = 0) {
  if (value instanceof Node) return value;
  if (value === null || typeof value !== "object") return String(value);
  const entries = Array.isArray(value) ? value.map((each, at) => [at, each]) : Object.entries(value);
  if (!entries.length) return Array.isArray(value) ? "[]" : "{}";
  const isFlat = entries.every(([, each]) => each === null || typeof each !== "object");
  if (Array.isArray(value) && isFlat && entries.length <= 16) return value.join(", ");
  const list = el("dl");
  for (const [name, each] of entries) {
    list.append(el("dt", {}, String(name)), el("dd", {}, showValue(each, depth + 1)));
  }
  if (entries.length <= (depth === 0 ? 30 : 3)) return list;
  return el("details", {}, el("summary", {}, `${entries.length} entries`), list);
}

export function size(nbytes) {
  if (nbytes === null || nbytes === undefined) return "";
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  let value = nbytes;
  while (value >= 1024 && at < units.length - 1) [value, at] = [value / 1024, at + 1];
  return at ? `${Number(value.toPrecision(4))} ${units[at]}` : `${nbytes} bytes`;
}

export function number(value) {
  if (typeof value !== "number") return value === null || value === undefined ? "" : String(value);
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  if (Math.abs(value) >= 1e15) return value.toExponential(6).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(7)));
}

export function problem(error) {
  return el("p", { className: "problem", role: "alert" }, error.message ?? String(error));
}

// Runs one request at a time for a part of the page: a new one aborts the one before.
export class Latest {
  #controller = null;

  async run(work, onError) {
    this.stop();
    const controller = (this.#controller = new AbortController());
    try {
      return await work(controller.signal);
    } catch (error) {
      if (controller.signal.aborted || error.name === "AbortError") return undefined;
      onError(error);
      return undefined;
    }
  }

  stop() {
    this.#controller?.abort();
    this.#controller = null;
  }
}

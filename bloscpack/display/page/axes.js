// Controls of the axes of an array: which run down and across, and the place along each other one.

import { el, labelled, select } from "./dom.js";

// Returns options for the axes of a shape.
export function axisOptions(shape) {
  return shape.map((length, axis) => [String(axis), `axis ${axis} (${length})`]);
}

// Returns the controls of a view that has `shape`, `rows`, `cols` and `index`, and changes it. They call
// `turned()` after a change of rows or columns, which need other controls, and `moved()` after one of the index.
export function axisControls(view, turned, moved) {
  const { shape } = view;
  if (shape.length < 2) return shape.map((length, axis) => axisPicker(view, axis, moved));
  const swap = (name, other) => (value) => {
    if (view[other] === Number(value)) view[other] = view[name];
    view[name] = Number(value);
    turned();
  };
  const others = [...shape.keys()].filter((axis) => axis !== view.rows && axis !== view.cols);
  return [labelled("Down", select(axisOptions(shape), swap("rows", "cols"), String(view.rows))),
    labelled("Across", select(axisOptions(shape), swap("cols", "rows"), String(view.cols))),
    ...others.map((axis) => axisPicker(view, axis, moved))];
}

function axisPicker(view, axis, moved) {
  const attributes = { min: 0, max: view.shape[axis] - 1, step: 1 };
  const box = el("input", { type: "number", ...attributes, onchange: () => pick(box.value) });
  const slider = el("input", { type: "range", ...attributes, ariaLabel: `Slice along axis ${axis}`, oninput: () => pick(slider.value) });
  box.value = slider.value = view.index[axis];
  const pick = (text) => {
    const value = Math.min(attributes.max, Math.max(0, Math.trunc(Number(text) || 0)));
    view.index[axis] = value;
    box.value = slider.value = value;
    moved();
  };
  return el("span", { className: "control" }, labelled(`Axis ${axis}`, box), slider);
}

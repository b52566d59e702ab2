// Numbers of an array, or of one field of its records: bloscpack/view/slices.py in JavaScript.

import { bigOf, isBig, numbersOf } from "../format/dtype.js";
import { need, viewOf } from "../format/errors.js";
import { limits } from "./numbers.js";

const PARTS = ["real", "imag", "abs", "angle"];
const NONE = new Uint8Array(0);

export function hasNumbers(dtype) {
  return numbersOf(NONE, dtype) !== null;
}

// Names of the fields with numbers, and of those in records, by their path.
export function fieldNames(dtype, prefix = "") {
  const found = [];
  for (const field of dtype.fields ?? []) {
    if (field.name.includes("/")) continue;
    if (hasNumbers(field.dtype)) found.push(prefix + field.name);
    else if (field.dtype.fields && !field.shape.length) found.push(...fieldNames(field.dtype, `${prefix}${field.name}/`));
  }
  return found;
}

export class Values {
  constructor(array, field = "", part = "real") {
    Object.assign(this, { array, part, dtype: array.dtype, offset: 0, inner: [] });
    need(PARTS.includes(part), "format", `part must be ${PARTS.join(", ")}, not ${part}`);
    for (const name of field ? field.split("/") : []) {
      const found = this.inner.length ? null : this.dtype.fields?.find((each) => each.name === name);
      need(found, "format", `no field ${name.slice(0, 80)}; there are: ${fieldNames(array.dtype).join(", ").slice(0, 400)}`);
      this.offset += found.offset;
      this.dtype = found.dtype;
      this.inner = found.shape;
    }
    this.shape = [...array.shape, ...this.inner];
    need(hasNumbers(this.dtype), "unsupported", `items of ${this.dtype.text} are not numbers`);
  }

  costOf(selection) {
    return this.array.costOf(selection.slice(0, this.array.shape.length));
  }

  // Returns the numbers of a selection with an entry for each axis of `shape`.
  async read(selection) {
    const ndim = this.array.shape.length;
    return this.of(await this.array.read(selection.slice(0, ndim)), selection.slice(ndim));
  }

  // Of whole items; `isRounded` says whether a number of 64 bits was changed.
  of(bytes, inner = this.inner.map((length) => [0, length, 1])) {
    const own = this.pick(bytes, inner), data = numbersOf(own, this.dtype, this.part);
    const isRounded = isBig(this.dtype) && data.some((value, at) =>
      Math.abs(value) > Number.MAX_SAFE_INTEGER && BigInt(value) !== bigOf(own, this.dtype, 8 * at));
    return { data, isRounded, bytes: own };
  }

  // The bytes of the field, item by item.
  pick(bytes, inner) {
    const { itemsize } = this.dtype, step = this.array.dtype.itemsize;
    if (step === itemsize) return bytes;
    let places = [this.offset];
    for (const [axis, [start, stop, by]] of inner.entries()) {
      const stride = this.inner.slice(axis + 1).reduce((product, each) => product * each, itemsize), found = [];
      for (const place of places) for (let at = start; at < stop; at += by) found.push(place + at * stride);
      places = found;
    }
    const out = new Uint8Array((bytes.length / step) * places.length * itemsize);
    let to = 0;
    for (let item = 0; item < bytes.length; item += step) {
      for (const place of places) for (let b = 0; b < itemsize; b++) out[to++] = bytes[item + place + b];
    }
    return out;
  }
}

// Returns the smallest and the largest finite extreme of a chunk; null without statistics. Those of numbers of 64 bits
// are text.
export async function knownRange({ array: { file }, dtype }) {
  const bytes = isBig(dtype) ? null : await file.readStatistics();
  if (!bytes) return null;
  const view = viewOf(bytes), get = { b: "getBigUint64", u: "getBigUint64", i: "getBigInt64" }[dtype.kind] ?? "getFloat64";
  return limits(Array.from({ length: bytes.length / 16 }, (_, k) => Number(view[get](32 * (k >> 1) + 8 * (k & 1), true))));
}

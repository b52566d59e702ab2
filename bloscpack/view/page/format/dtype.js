// dtypes of arrays: item size, and how items are read as numbers. Text is a Python literal.

import { need } from "./errors.js";

const MAX_TEXT = 65536, MAX_DEPTH = 32;

// Returns the value of a Python literal of strings, numbers, lists and tuples.
function literal(text) {
  let at = 0;
  const skip = () => { while (/\s/.test(text[at] ?? "")) at++; };
  const value = (depth) => {
    need(depth < 20, "format", "dtype is nested too deeply");
    skip();
    const start = text[at];
    if (start === "'" || start === '"') {
      let out = "";
      for (at++; text[at] !== start; at++) {
        need(at < text.length, "format", "dtype is cut");
        if (text[at] === "\\") at++;
        out += text[at];
      }
      at++;
      return out;
    }
    if (start === "[" || start === "(") {
      const close = start === "[" ? "]" : ")", out = [];
      for (at++, skip(); text[at] !== close; skip()) {
        out.push(value(depth + 1));
        skip();
        need(text[at] === "," || text[at] === close, "format", "dtype is not a literal");
        if (text[at] === ",") at++;
      }
      at++;
      return out;
    }
    const number = /^\d+/.exec(text.slice(at, at + 16));
    need(number, "format", "dtype is not a literal");
    at += number[0].length;
    return Number(number[0]);
  };
  const found = value(0);
  skip();
  need(at === text.length, "format", "dtype is not a literal");
  return found;
}

const SCALAR = new RegExp("^([<>|=]?)(?:[?]|b1|[iu][1248]|f(?:2|4|8|12|16)|c(?:8|16|24|32)|[SUVa][0-9]{0,10}" +
  "|[mM]8(?:\\[([1-9][0-9]{0,8})?(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\\])?)$");

function plain(text) {
  need(!/^[<>|=]?O/.test(text), "object-dtype", "the dtype names Python objects");
  const found = SCALAR.exec(text), bare = text.replace(/^[<>|=]/, "");
  need(found, "format", `dtype ${text.slice(0, 40)}`);
  const kind = { "?": "b", a: "S" }[bare[0]] ?? bare[0], count = bare === "?" ? 1 : parseInt(bare.slice(1), 10) || 0;
  const itemsize = count * (kind === "U" ? 4 : 1);
  return { text, kind, order: found[1] || "<", itemsize: bounded(itemsize), unit: found[3], multiple: Number(found[2] ?? 1) };
}

function bounded(itemsize) {
  need(itemsize < 2 ** 31, "format", "the items are too large");
  return itemsize;
}

const product = (lengths) => lengths.reduce((found, each) => found * each, 1);

// A type and the shape of a field: `fields` are {name, offset, dtype, shape}.
function structured(fields, itemsize) {
  const names = new Set(fields.map((each) => each.name));
  need(names.size === fields.length, "format", "two fields of the dtype have the same name");
  for (const { offset, dtype, shape } of fields) {
    need(offset + dtype.itemsize * product(shape) <= itemsize, "format", "a field ends behind the item");
  }
  return { text: `|V${itemsize}`, kind: "V", order: "|", itemsize: bounded(itemsize), fields };
}

function shapeOf(value) {
  const lengths = [value].flat();
  need(lengths.every((each) => Number.isSafeInteger(each) && each >= 0), "format", "the shape of a field");
  bounded(product(lengths));
  return lengths;
}

function fromValue(value, depth = 0) {
  need(depth < MAX_DEPTH, "format", "dtype is nested too deeply");
  if (!Array.isArray(value)) return plain(String(value));
  if (value.length === 1 && value[0]?.[0] === "" && value[0].length === 2) return fromValue(value[0][1], depth + 1);
  const fields = [];
  let offset = 0;
  for (const [position, entry] of value.entries()) {
    need(Array.isArray(entry) && (entry.length === 2 || entry.length === 3), "format", "a field of the dtype");
    const name = Array.isArray(entry[0]) ? entry[0][1] : entry[0], dtype = fromValue(entry[1], depth + 1);
    const shape = entry.length === 3 ? shapeOf(entry[2]) : [];
    need(typeof name === "string", "format", "the name of a field");
    // Unnamed raw bytes are padding.
    if (name || dtype.kind !== "V" || dtype.fields) fields.push({ name: name || `f${position}`, offset, dtype, shape });
    offset = bounded(offset + dtype.itemsize * product(shape));
  }
  return structured(fields, offset);
}

// Returns {dtype, shape} of an entry of logical_dtype.
function fromLogical(value, depth = 0) {
  need(depth < MAX_DEPTH, "format", "logical_dtype is nested too deeply");
  if (typeof value === "string") {
    if (SCALAR.test(value) || /^[<>|=]?O/.test(value)) return { dtype: plain(value), shape: [] };
    // Of the types of ml_dtypes, this one is read as numbers; others have one byte.
    const isBfloat = value === "bfloat16";
    return { dtype: { text: value, kind: isBfloat ? value : "V", order: "<", itemsize: isBfloat ? 2 : 1 }, shape: [] };
  }
  need(value !== null && typeof value === "object", "format", "logical_dtype");
  if (value.base !== undefined) {
    const { dtype, shape } = fromLogical(value.base, depth + 1);
    return { dtype, shape: [...shapeOf(value.shape), ...shape] };
  }
  const { names, formats, offsets, itemsize } = value;
  need([names, formats, offsets].every((each) => Array.isArray(each) && each.length === names.length), "format", "fields of logical_dtype");
  need([itemsize, ...offsets].every((each) => Number.isSafeInteger(each) && each >= 0) && names.every((each) => typeof each === "string"),
    "format", "offsets or names of logical_dtype");
  const fields = names.map((name, k) => ({ name, offset: offsets[k], ...fromLogical(formats[k], depth + 1) }));
  return { dtype: structured(fields, itemsize), shape: [] };
}

export function parseDtype(value, logical) {
  if (typeof value === "string") need(value.length <= MAX_TEXT, "format", "dtype is too long");
  if (typeof value === "string" && /^\s*['"[(]/.test(value)) value = literal(value);
  const raw = fromValue(value);
  if (logical === undefined || logical === null) return raw;
  const { dtype, shape } = fromLogical(logical);
  need(dtype.itemsize === raw.itemsize && !shape.length, "format", "logical_dtype has another size");
  return dtype;
}

const NAT = -(2n ** 63n);

// Returns the items as an array of numbers; integers of 64 bits are rounded, dates are numbers of their
// unit, and of complex numbers there is a part: real, imag, abs or angle. Null for other dtypes.
export function numbersOf(bytes, dtype, part = "real") {
  const { kind, itemsize } = dtype, little = dtype.order !== ">";
  if (kind === "c") return partOf(bytes, dtype, part);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const half = (at) => {
    const u = view.getUint16(at, little), e = (u >> 10) & 31, m = u & 1023, sign = u >> 15 ? -1 : 1;
    return sign * (e === 31 ? (m ? NaN : Infinity) : e ? 2 ** (e - 25) * (1024 + m) : m * 2 ** -24);
  };
  const date = (at) => {
    const big = view.getBigInt64(at, little);
    return big === NAT ? NaN : Number(big);
  };
  const table = {
    b1: [Uint8Array, (at) => view.getUint8(at)], u1: [Uint8Array, (at) => view.getUint8(at)],
    i1: [Int8Array, (at) => view.getInt8(at)], u2: [Uint16Array, (at) => view.getUint16(at, little)],
    i2: [Int16Array, (at) => view.getInt16(at, little)], u4: [Uint32Array, (at) => view.getUint32(at, little)],
    i4: [Int32Array, (at) => view.getInt32(at, little)], u8: [Float64Array, (at) => Number(view.getBigUint64(at, little))],
    i8: [Float64Array, (at) => Number(view.getBigInt64(at, little))], M8: [Float64Array, date], m8: [Float64Array, date],
    f2: [Float32Array, half], f4: [Float32Array, (at) => view.getFloat32(at, little)],
    f8: [Float64Array, (at) => view.getFloat64(at, little)],
    bfloat162: [Float32Array, (at) => bfloat(view.getUint16(at, little))],
  };
  if (!table[kind + itemsize]) return null;
  const [Type, get] = table[kind + itemsize], out = new Type(bytes.length / itemsize);
  for (let i = 0; i < out.length; i++) out[i] = get(i * itemsize);
  return out;
}

const wide = new Uint32Array(1), narrow = new Float32Array(wide.buffer);

function bfloat(bits) {
  wide[0] = bits << 16;
  return narrow[0];
}

function partOf(bytes, dtype, part) {
  const both = numbersOf(bytes, { kind: "f", order: dtype.order, itemsize: dtype.itemsize / 2 });
  if (!both) return null;
  const out = new both.constructor(both.length / 2);
  const get = { real: (re) => re, imag: (re, im) => im, abs: Math.hypot, angle: (re, im) => Math.atan2(im, re) }[part];
  for (let i = 0; i < out.length; i++) out[i] = get(both[2 * i], both[2 * i + 1]);
  return out;
}

// Returns an integer or a date of 64 bits as a BigInt; null is NaT.
export function bigOf(bytes, dtype, at = 0) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), little = dtype.order !== ">";
  const big = dtype.kind === "u" ? view.getBigUint64(at, little) : view.getBigInt64(at, little);
  return big === NAT && dtype.kind !== "i" ? null : big;
}

export function isBig(dtype) {
  return "iuMm".includes(dtype.kind) && dtype.itemsize === 8;
}

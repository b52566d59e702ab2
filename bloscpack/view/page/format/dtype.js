// dtypes of arrays: item size, and how items are read as numbers. Text is a Python literal.

import { need } from "./errors.js";

const SIZES = { bfloat16: 2 };

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

function plain(text) {
  const found = /^([<>|=])([biufcMmSUV])(\d+)(\[[^\]]*\])?$/.exec(text);
  need(!/^[<>|=]?O/.test(text), "object-dtype", "the dtype names Python objects");
  need(found, "format", `dtype ${text.slice(0, 40)}`);
  const itemsize = Number(found[3]) * (found[2] === "U" ? 4 : 1);
  need(itemsize < 2 ** 31, "format", "the items are too large");
  return { text, kind: found[2], order: found[1], itemsize };
}

function structured(fields) {
  if (fields.length === 1 && fields[0][0] === "") return fromValue(fields[0][1]);
  let itemsize = 0;
  for (const field of fields) {
    need(Array.isArray(field) && field.length >= 2, "format", "a field of the dtype");
    const count = [].concat(field[2] ?? []).reduce((product, each) => product * each, 1);
    itemsize += fromValue(field[1]).itemsize * count;
  }
  need(Number.isSafeInteger(itemsize), "format", "the items are too large");
  return { text: `|V${itemsize}`, kind: "V", order: "|", itemsize };
}

function fromValue(value) {
  return Array.isArray(value) ? structured(value) : plain(String(value));
}

export function parseDtype(value, logical) {
  if (typeof value === "string" && /^\s*['"[(]/.test(value)) value = literal(value);
  const raw = fromValue(value);
  if (typeof logical === "string") {
    if (/^[<>|=]/.test(logical)) {
      const found = plain(logical);
      need(found.itemsize === raw.itemsize, "format", "logical_dtype has another size");
      return found;
    }
    return { text: logical, kind: logical === "bfloat16" ? "bfloat16" : "V", order: "<", itemsize: SIZES[logical] ?? raw.itemsize };
  }
  return raw;
}

// Returns the items as an array of numbers; 64-bit integers are rounded. Null for other dtypes.
export function numbersOf(bytes, dtype) {
  const { kind, itemsize } = dtype, n = bytes.length / itemsize, little = dtype.order !== ">";
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (kind === "bfloat16") {
    const wide = new Uint32Array(n);
    for (let i = 0; i < n; i++) wide[i] = view.getUint16(2 * i, true) << 16;
    return new Float32Array(wide.buffer);
  }
  const key = kind + itemsize;
  const half = (at) => {
    const u = view.getUint16(at, little), e = (u >> 10) & 31, m = u & 1023, sign = u >> 15 ? -1 : 1;
    return sign * (e === 31 ? (m ? NaN : Infinity) : e ? 2 ** (e - 25) * (1024 + m) : m * 2 ** -24);
  };
  const table = {
    b1: [Uint8Array, (at) => view.getUint8(at)], u1: [Uint8Array, (at) => view.getUint8(at)],
    i1: [Int8Array, (at) => view.getInt8(at)], u2: [Uint16Array, (at) => view.getUint16(at, little)],
    i2: [Int16Array, (at) => view.getInt16(at, little)], u4: [Uint32Array, (at) => view.getUint32(at, little)],
    i4: [Int32Array, (at) => view.getInt32(at, little)], u8: [Float64Array, (at) => Number(view.getBigUint64(at, little))],
    i8: [Float64Array, (at) => Number(view.getBigInt64(at, little))], f2: [Float32Array, half],
    f4: [Float32Array, (at) => view.getFloat32(at, little)], f8: [Float64Array, (at) => view.getFloat64(at, little)],
  };
  if (!table[key]) return null;
  const [Type, get] = table[key], out = new Type(n);
  for (let i = 0; i < n; i++) out[i] = get(i * itemsize);
  return out;
}


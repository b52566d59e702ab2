// Items as text. Integers are exact, and dates are as numpy writes them.

import { bigOf, isBig, numbersOf } from "../format/dtype.js";

const MAX_TEXT = 100;
const UNITS = { Y: "years", M: "months", W: "weeks", D: "days", h: "hours", m: "minutes", s: "seconds", ms: "milliseconds",
  us: "microseconds", ns: "nanoseconds", ps: "picoseconds", fs: "femtoseconds", as: "attoseconds" };
const DIGITS = { s: 0, ms: 3, us: 6, ns: 9, ps: 12, fs: 15, as: 18 };

export function textOf(bytes, dtype) {
  const text = itemText(bytes, dtype);
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
}

// Of the text behind MAX_TEXT characters, some is left out.
function itemText(bytes, dtype) {
  const { kind, fields, order } = dtype;
  if (fields) {
    const parts = listOf(fields.length, (k) => fieldText(bytes.subarray(fields[k].offset), fields[k]));
    return `(${parts.join(", ")}${fields.length === 1 ? "," : ""})`;
  }
  if (isBig(dtype)) return bigText(bigOf(bytes, dtype), dtype);
  if (kind === "c" && numbersOf(bytes, dtype)) {
    const half = { kind: "f", order, itemsize: dtype.itemsize / 2 };
    const [re, im] = [0, half.itemsize].map((at) => itemText(bytes.subarray(at, at + half.itemsize), half));
    return `${re}${im.startsWith("-") ? "" : "+"}${im}j`;
  }
  const numbers = numbersOf(bytes, dtype);
  if (numbers) return kind === "b" ? (numbers[0] ? "True" : "False") : shortest(numbers[0], dtype.itemsize);
  if (kind === "S") return new TextDecoder("latin1").decode(bytes).replace(/\0+$/, "");
  if (kind === "U") {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const codes = listOf(bytes.length / 4, (k) => view.getUint32(4 * k, order !== ">"));
    return codes.map((code) => (code && code < 0x110000 ? String.fromCodePoint(code) : "")).join("");
  }
  return Array.from(bytes.subarray(0, MAX_TEXT), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

function fieldText(bytes, { dtype, shape }) {
  if (!shape.length) return itemText(bytes.subarray(0, dtype.itemsize), dtype);
  const [length, ...inner] = shape, step = inner.reduce((product, each) => product * each, dtype.itemsize);
  return `[${listOf(length, (k) => fieldText(bytes.subarray(k * step), { dtype, shape: inner })).join(", ")}]`;
}

function listOf(count, get) {
  return Array.from({ length: Math.min(count, MAX_TEXT + 1) }, (_, k) => get(k));
}

// The fewest digits that give this float32; halves are shown with five.
function shortest(value, itemsize) {
  if (itemsize === 8 || !Number.isFinite(value)) return String(value);
  if (itemsize === 2) return String(Number(value.toPrecision(5)));
  for (let digits = 6; digits < 9; digits++) {
    const found = Number(value.toPrecision(digits));
    if (Math.fround(found) === value) return String(found);
  }
  return String(Number(value.toPrecision(9)));
}

// Text of an integer or a date of 64 bits.
export function bigText(big, { kind, unit, multiple }) {
  if (big === null) return "NaT";
  if (kind === "i" || kind === "u") return String(big);
  const count = big * BigInt(multiple);
  if (kind === "m") return `${count} ${UNITS[unit] ?? "generic time units"}`;
  return unit ? dateText(count, unit) : String(count);
}

const floorDiv = (a, b) => a / b - (a % b < 0n ? 1n : 0n);
const padded = (big, width) => (big < 0n ? "-" : "") + String(big < 0n ? -big : big).padStart(width, "0");

function dateText(count, unit) {
  if (unit === "Y") return padded(1970n + count, 4);
  if (unit === "M") return monthText(floorDiv(count, 12n) + 1970n, ((count % 12n) + 12n) % 12n + 1n);
  if (unit === "W" || unit === "D") return dayText(unit === "W" ? 7n * count : count);
  const perDay = { h: 24n, m: 1440n }[unit] ?? 86400n * 10n ** BigInt(DIGITS[unit]);
  const days = floorDiv(count, perDay), rest = count - days * perDay, date = dayText(days);
  if (unit === "h") return `${date}T${padded(rest, 2)}`;
  if (unit === "m") return `${date}T${padded(rest / 60n, 2)}:${padded(rest % 60n, 2)}`;
  const scale = 10n ** BigInt(DIGITS[unit]), seconds = rest / scale;
  const time = [seconds / 3600n, (seconds / 60n) % 60n, seconds % 60n].map((each) => padded(each, 2)).join(":");
  return `${date}T${time}${scale > 1n ? `.${padded(rest % scale, DIGITS[unit])}` : ""}`;
}

function monthText(year, month) {
  return `${padded(year, 4)}-${padded(month, 2)}`;
}

// Of days since 1970: the proleptic Gregorian calendar, in cycles of 400 years from 1 March of year 0.
function dayText(days) {
  const shifted = days + 719468n, cycle = floorDiv(shifted, 146097n), day = shifted - cycle * 146097n;
  const year = (day - day / 1460n + day / 36524n - day / 146096n) / 365n;
  const ofYear = day - (365n * year + year / 4n - year / 100n), shiftedMonth = (5n * ofYear + 2n) / 153n;
  const month = shiftedMonth < 10n ? shiftedMonth + 3n : shiftedMonth - 9n;
  const date = ofYear - (153n * shiftedMonth + 2n) / 5n + 1n;
  return `${monthText(year + 400n * cycle + (month <= 2n ? 1n : 0n), month)}-${padded(date, 2)}`;
}

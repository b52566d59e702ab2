// Views of arrays: the answers that bloscpack/view/arrays.py gives.

import { numbersOf } from "../format/dtype.js";
import { need, ReadError } from "../format/errors.js";
import { arrayOf, chunkNbytes } from "./files.js";
import { histogram, limits } from "./numbers.js";

const MAX_ITEMS = 1 << 20;
const MAX_CELLS = 20, MAX_NAMES = 1000;

function integer(query, name, standard, low, high) {
  const value = query[name] === undefined || query[name] === null || query[name] === "" ? standard : Number(query[name]);
  need(Number.isSafeInteger(value) && value >= low && value <= high, "format", `${name} must be ${low} to ${high}, not ${query[name]}`);
  return value;
}

function hasNumbers(dtype) {
  return numbersOf(new Uint8Array(0), dtype) !== null;
}

// Wraps a view so that it gets the array of a request: that of the file, or a member of an archive.
function ofArray(view) {
  return async (opened, query) => view(await arrayOf(opened, integer(query, "member", 0, 0, Number.MAX_SAFE_INTEGER)), query, opened);
}

async function describe(opened, query) {
  if (!opened.archive) return describeArray(opened);
  const { members, metadata } = opened.archive, names = members.map((each) => each.name);
  const found = { members: names.slice(0, MAX_NAMES), nmembers: names.length, archive_attrs: metadata?.attrs ?? {} };
  if (!names.length) return found;
  try {
    return { ...found, ...describeArray(await arrayOf(opened, Number(query.member ?? 0))) };
  } catch (error) {
    if (!(error instanceof ReadError)) throw error;
    return { ...found, error: error.message };
  }
}

function describeArray({ array, file, source }) {
  const chunks = array.chunks && (array.isFortran ? [...array.chunks].reverse() : array.chunks);
  return {
    shape: array.shape, dtype: array.dtype.text, order: array.isFortran ? "F" : "C", nbytes: array.nbytes,
    cbytes: source.size, nchunks: file.nchunks, chunks: chunks ?? null, numeric: hasNumbers(array.dtype),
    fields: [], complex: false, attrs: array.attrs,
  };
}

function placeOf(query, shape) {
  const parts = String(query.index ?? "").split(",").filter(Boolean);
  return shape.map((length, axis) => {
    const at = integer({ index: parts[axis] }, "index", 0, 0, length - 1);
    return [at, at + 1, 1];
  });
}

function windowOf(query, prefix, length) {
  const start = integer(query, `${prefix}_start`, 0, 0, length - 1);
  return [start, integer(query, `${prefix}_stop`, length, start + 1, length)];
}

function evenly([start, stop], count) {
  return [start, stop, Math.max(1, Math.ceil((stop - start) / Math.max(1, count)))];
}

const countOf = ([start, stop, step]) => Math.ceil((stop - start) / step);

// Reads numbers; `choose(counts)` returns the selection, for fewer items if the readers refuse more.
async function readSome(array, counts, choose) {
  for (;;) {
    const selection = choose(counts);
    const nitems = selection.reduce((product, each) => product * countOf(each), 1);
    const largest = counts.indexOf(Math.max(...counts));
    if (nitems <= MAX_ITEMS) {
      try {
        return { selection, data: await array.numbers(selection) };
      } catch (error) {
        if (!(error instanceof ReadError) || error.kind !== "unsupported" || counts[largest] <= 1) throw error;
      }
    }
    counts[largest] = Math.ceil(counts[largest] / 2);
  }
}

async function readPlane(array, query) {
  const ndim = array.shape.length;
  need(ndim > 1, "format", "a plane needs two axes");
  const rows = integer(query, "rows", ndim - 2, 0, ndim - 1), cols = integer(query, "cols", ndim - 1, 0, ndim - 1);
  need(rows !== cols, "format", "rows and cols must be different axes");
  const place = placeOf(query, array.shape);
  const windows = [windowOf(query, "row", array.shape[rows]), windowOf(query, "col", array.shape[cols])];
  const counts = [integer(query, "height", 512, 1, 1024), integer(query, "width", 512, 1, 1024)];
  const { selection, data } = await readSome(array, counts, (some) => {
    place[rows] = evenly(windows[0], some[0]);
    place[cols] = evenly(windows[1], some[1]);
    return place;
  });
  const shape = [countOf(selection[rows]), countOf(selection[cols])];
  const about = (axis) => ({ axis, start: selection[axis][0], step: selection[axis][2] });
  return { shape, data: rows > cols ? transposed(data, shape) : data, rows: about(rows), cols: about(cols) };
}

// Of columns, which come first in memory, to rows.
function transposed(data, [height, width]) {
  const out = new data.constructor(data.length);
  for (let row = 0; row < height; row++) for (let col = 0; col < width; col++) out[row * width + col] = data[col * height + row];
  return out;
}

async function plane({ array }, query) {
  const { shape, data, rows, cols } = await readPlane(array, query);
  const [low, high] = limits(data) ?? [null, null];
  return { rows, cols, low, high, lost: [], arrays: [{ shape, data }] };
}

async function line({ array }, query) {
  const ndim = array.shape.length;
  const axis = integer(query, "axis", ndim - 1, 0, ndim - 1), nbins = integer(query, "bins", 1000, 1, 4096);
  const place = placeOf(query, array.shape), window = windowOf(query, "line", array.shape[axis]);
  const { selection, data } = await readSome(array, [window[1] - window[0]], ([count]) => {
    place[axis] = evenly(window, count);
    return place;
  });
  const head = { axis, start: window[0], length: window[1] - window[0], step: selection[axis][2], lost: [] };
  if (data.length <= 2 * nbins) return { ...head, form: "values", arrays: [{ shape: [data.length], data }] };
  const low = new Float64Array(nbins).fill(NaN), high = new Float64Array(nbins).fill(NaN);
  data.forEach((value, at) => {
    const bin = Math.min(nbins - 1, Math.floor((at * nbins) / data.length));
    if (!Number.isFinite(value)) return;
    if (!(low[bin] <= value)) low[bin] = value;
    if (!(high[bin] >= value)) high[bin] = value;
  });
  return { ...head, form: "extremes", arrays: [low, high].map((each) => ({ shape: [nbins], data: each })) };
}

async function statistics({ array }, query) {
  if (query.scope === "plane" && array.shape.length > 1) {
    const { data, rows, cols } = await readPlane(array, query);
    return { ...histogram(data), exact: rows.step === 1 && cols.step === 1, lost: [] };
  }
  const { selection, data } = await readSome(array, [...array.shape],
    (counts) => array.shape.map((length, axis) => evenly([0, length], counts[axis])));
  return { ...histogram(data), exact: selection.every(([, , step]) => step === 1), lost: [] };
}

async function table({ array }, query) {
  const ndim = array.shape.length;
  if (!ndim) return { cells: [[text(await array.read([]), array.dtype)]], rows: null, cols: null };
  if (array.shape.includes(0)) return { cells: [], rows: 0, cols: 0 };
  const rows = integer(query, "rows", Math.max(0, ndim - 2), 0, ndim - 1), cols = integer(query, "cols", ndim - 1, 0, ndim - 1);
  const place = placeOf(query, array.shape), starts = {};
  for (const [axis, prefix] of [[rows, "row"], [cols, "col"]]) {
    starts[axis] = integer(query, `${prefix}_start`, 0, 0, array.shape[axis] - 1);
    place[axis] = [starts[axis], Math.min(starts[axis] + MAX_CELLS, array.shape[axis]), 1];
  }
  const bytes = await array.read(place), { itemsize } = array.dtype;
  const height = countOf(place[rows]), width = rows === cols ? 1 : countOf(place[cols]);
  const item = (row, col) => {
    const at = (rows > cols ? col * height + row : row * width + col) * itemsize;
    return text(bytes.subarray(at, at + itemsize), array.dtype);
  };
  const cells = Array.from({ length: height }, (_, row) => Array.from({ length: width }, (__, col) => item(row, col)));
  return { cells, rows: starts[rows], cols: starts[cols] };
}

// An item as text: a number, characters, or its bytes.
function text(bytes, dtype) {
  const numbers = numbersOf(bytes.slice(), dtype);
  if (numbers) return dtype.kind === "b" ? (numbers[0] ? "True" : "False") : String(numbers[0]);
  if (dtype.kind === "S") return new TextDecoder("latin1").decode(bytes).replace(/\0+$/, "");
  if (dtype.kind === "U") {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const codes = Array.from({ length: bytes.length / 4 }, (_, k) => view.getUint32(4 * k, dtype.order !== ">"));
    return codes.map((code) => (code && code < 0x110000 ? String.fromCodePoint(code) : "")).join("").slice(0, 100);
  }
  return Array.from(bytes.subarray(0, 50), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

function chunks(target, query, { archive, report }) {
  const { array, file, source } = target, member = archive?.members[query.member ?? 0].name;
  const start = integer(query, "start", 0, 0, Math.max(0, file.nchunks - 1));
  const stop = Math.min(file.nchunks, start + integer(query, "count", 512, 1, 2048));
  const offsets = [], stored = [], decoded = [], regions = [];
  for (let k = start; k < stop; k++) {
    offsets.push(file.starts[k]);
    stored.push((file.starts[k + 1] ?? file.end ?? source.size) - file.starts[k]);
    decoded.push(chunkNbytes(target, k));
    const box = array.chunks ? array.box(k).map(([at, length]) => [at, at + length]) : [];
    regions.push(...(array.isFortran ? box.reverse() : box).flat());
  }
  const damage = {};
  for (const each of report?.damage ?? []) if (each.member === member && each.index !== undefined) damage[each.index] = each.what;
  const ndim = array.chunks ? array.shape.length : 0;
  return {
    nchunks: file.nchunks, start, verified: Boolean(report), damage,
    arrays: [...[offsets, stored, decoded].map((data) => ({ shape: [data.length], data })),
      { shape: ndim ? [stop - start, ndim, 2] : [0], data: regions }],
  };
}

export const VIEWS = { array: describe, ...Object.fromEntries(
  Object.entries({ plane, line, statistics, table, chunks }).map(([name, view]) => [name, ofArray(view)])) };

// Views of arrays: the answers that bloscpack/view/arrays.py gives.

import { bigOf, isBig } from "../format/dtype.js";
import { need, ReadError } from "../format/errors.js";
import { arrayOf } from "./files.js";
import { histogram, limits } from "./numbers.js";
import * as clips from "./clips.js";
import { countOf as pictureCount, storeOf } from "./pictures.js";
import { bigText, textOf } from "./text.js";
import { fieldNames, hasNumbers, knownRange, Values } from "./values.js";

const MAX_ITEMS = 1 << 20, MAX_SIDE = 512;
const MAX_CELLS = 20, MAX_NAMES = 1000;
// Most bytes of a remote file that a view fetches without being asked to.
const MAX_UNASKED = 16 << 20;
// A sample of an array: stored and decoded bytes, and places in the file.
const SAMPLE_NBYTES = 4 << 20, SAMPLE_DECODED = 32 << 20, SAMPLE_PLACES = 8;

class TooCostly extends Error {
  constructor(cost) {
    super(`${cost.nbytes} bytes of the file are needed`);
    this.cost = cost;
  }
}

function checkCost({ nbytes, nrequests }, { file }, query) {
  if (file.source.url && nbytes > Math.max(MAX_UNASKED, Number(query.allow ?? 0))) throw new TooCostly({ nbytes, nrequests });
}

function integer(query, name, standard, low, high) {
  const value = query[name] === undefined || query[name] === null || query[name] === "" ? standard : Number(query[name]);
  need(Number.isSafeInteger(value) && value >= low && value <= high, "format", `${name} must be ${low} to ${high}, not ${query[name]}`);
  return value;
}

// Wraps a view so that it gets the array of a request: that of the file, or a member of an archive.
// The answer {needs: {nbytes, nrequests}} asks for the same query with `allow`, a number of bytes.
function ofArray(view) {
  return async (opened, query) => {
    try {
      return await view(await arrayOf(opened, integer(query, "member", 0, 0, Number.MAX_SAFE_INTEGER)), query, opened);
    } catch (error) {
      if (error instanceof TooCostly) return { needs: error.cost };
      throw error;
    }
  };
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
    shape: array.shape, dtype: nameOf(array.dtype), order: array.isFortran ? "F" : "C", nbytes: array.nbytes,
    cbytes: source.size, nchunks: file.nchunks, chunks: chunks ?? null, numeric: hasNumbers(array.dtype),
    fields: fieldNames(array.dtype).slice(0, MAX_NAMES), complex: array.dtype.kind === "c", pictures: pictureCount(array), attrs: array.attrs,
  };
}

function nameOf({ text, fields }) {
  return fields ? fields.map(({ name, dtype, shape }) => `${name}: ${dtype.text}${shape.map((each) => `[${each}]`).join("")}`).join(", ").slice(0, 400) : text;
}

function valuesOf(array, query) {
  return new Values(array, query.field ?? "", query.part || "real");
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
async function readSome(values, counts, choose, query) {
  for (;;) {
    const selection = choose(counts);
    const nitems = selection.reduce((product, each) => product * countOf(each), 1);
    const largest = counts.indexOf(Math.max(...counts));
    if (nitems <= MAX_ITEMS) {
      try {
        checkCost(values.costOf(selection), values.array, query);
        return { selection, ...await values.read(selection) };
      } catch (error) {
        if (!(error instanceof ReadError) || error.kind !== "unsupported" || counts[largest] <= 1) throw error;
      }
    }
    counts[largest] = Math.ceil(counts[largest] / 2);
  }
}

async function readPlane(array, query) {
  const values = valuesOf(array, query), { shape: lengths } = values, ndim = lengths.length;
  need(ndim > 1, "format", "a plane needs two axes");
  const rows = integer(query, "rows", ndim - 2, 0, ndim - 1), cols = integer(query, "cols", ndim - 1, 0, ndim - 1);
  need(rows !== cols, "format", "rows and cols must be different axes");
  const place = placeOf(query, lengths);
  const windows = [windowOf(query, "row", lengths[rows]), windowOf(query, "col", lengths[cols])];
  const { selection, ...found } = await readSome(values, [MAX_SIDE, MAX_SIDE], (some) => {
    place[rows] = evenly(windows[0], some[0]);
    place[cols] = evenly(windows[1], some[1]);
    return place;
  }, query);
  const shape = [countOf(selection[rows]), countOf(selection[cols])];
  const about = (axis) => ({ axis, start: selection[axis][0], step: selection[axis][2] });
  const data = rows > cols ? transposed(found.data, shape) : found.data;
  return { ...found, shape, data, dtype: values.dtype, rows: about(rows), cols: about(cols) };
}

// Of columns, which come first in memory, to rows.
function transposed(data, [height, width]) {
  const out = new data.constructor(data.length);
  for (let row = 0; row < height; row++) for (let col = 0; col < width; col++) out[row * width + col] = data[col * height + row];
  return out;
}

async function plane({ array }, query) {
  const { shape, data, rows, cols, isRounded } = await readPlane(array, query);
  const [low, high] = limits(data) ?? [null, null];
  return { rows, cols, low, high, rounded: isRounded, lost: [], arrays: [{ shape, data }] };
}

async function line({ array }, query) {
  const values = valuesOf(array, query), { shape } = values, ndim = shape.length;
  need(ndim, "format", "a line needs an axis");
  const axis = integer(query, "axis", ndim - 1, 0, ndim - 1), nbins = integer(query, "bins", 1000, 1, 4096);
  const place = placeOf(query, shape), length = shape[axis];
  const { selection, data, isRounded } = await readSome(values, [length], ([count]) => {
    place[axis] = evenly([0, length], count);
    return place;
  }, query);
  const head = { axis, start: 0, length, step: selection[axis][2], rounded: isRounded, lost: [] };
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
  const values = valuesOf(array, query), { shape } = values;
  if (query.scope === "plane" && shape.length > 1) {
    const found = await readPlane(array, query);
    return summary(found, found.dtype, found.rows.step === 1 && found.cols.step === 1);
  }
  if (query.sample) return sample(values);
  const found = await readSome(values, [...shape], (counts) => shape.map((length, axis) => evenly([0, length], counts[axis])), query);
  const isAll = found.selection.every(([, , step]) => step === 1);
  return summary(found, values.dtype, isAll, isAll ? null : await knownRange(values));
}

// Statistics of some chunks, evenly spaced.
async function sample(values) {
  const { array } = values, { file, dtype: { itemsize } } = array, { nchunks } = file;
  const most = Math.min(SAMPLE_NBYTES / (file.source.size / nchunks), SAMPLE_DECODED / (array.nbytes / nchunks), nchunks);
  const nplaces = Math.max(1, Math.min(SAMPLE_PLACES, Math.floor(most))), together = Math.max(1, Math.floor(most / nplaces));
  const numbers = Array.from({ length: nplaces * together }, (_, k) =>
    Math.floor((Math.floor(k / together) * (nchunks - together)) / Math.max(1, nplaces - 1)) + (k % together));
  const chosen = [...new Set(numbers)], chunks = await file.chunks(chosen, (number) => array.chunkNbytes(number));
  const step = itemsize * Math.max(1, Math.ceil([...chunks.values()].reduce((sum, each) => sum + each.length, 0) / itemsize / MAX_ITEMS));
  const parts = [...chunks].map(([number, bytes]) => {
    // An item may begin in the chunk before.
    const first = array.chunks ? 0 : (itemsize - ((number * file.header.chunkSize) % itemsize)) % itemsize;
    const count = Math.max(0, Math.floor((bytes.length - first - itemsize) / step) + 1), own = new Uint8Array(count * itemsize);
    for (let k = 0; k < count; k++) own.set(bytes.subarray(first + k * step, first + k * step + itemsize), k * itemsize);
    return own;
  });
  const own = new Uint8Array(await new Blob(parts).arrayBuffer());
  return { ...summary(values.of(own), values.dtype, false, await knownRange(values)), sampled: `${chosen.length} of ${nchunks} chunks` };
}

// Statistics; the extremes of numbers of 64 bits are text.
function summary({ data, bytes, isRounded }, dtype, exact, extremes = null) {
  const found = { ...histogram(data, extremes), exact, rounded: isRounded, lost: [] };
  if (!isBig(dtype) || !found.finite) return found;
  let min = null, max = null;
  for (let at = 0; at < bytes.length; at += 8) {
    const big = bigOf(bytes, dtype, at);
    if (big === null) continue;
    if (min === null || big < min) min = big;
    if (max === null || big > max) max = big;
  }
  return { ...found, min: bigText(min, dtype), max: bigText(max, dtype) };
}

async function table({ array }, query) {
  const ndim = array.shape.length;
  if (!ndim) return { cells: [[textOf(await array.read([]), array.dtype)]], rows: null, cols: null };
  if (array.shape.includes(0)) return { cells: [], rows: 0, cols: 0 };
  const rows = integer(query, "rows", Math.max(0, ndim - 2), 0, ndim - 1), cols = integer(query, "cols", ndim - 1, 0, ndim - 1);
  const place = placeOf(query, array.shape), starts = {};
  for (const [axis, prefix] of [[rows, "row"], [cols, "col"]]) {
    starts[axis] = integer(query, `${prefix}_start`, 0, 0, array.shape[axis] - 1);
    place[axis] = [starts[axis], Math.min(starts[axis] + MAX_CELLS, array.shape[axis]), 1];
  }
  checkCost(array.costOf(place), array, query);
  const bytes = await array.read(place), { itemsize } = array.dtype;
  const height = countOf(place[rows]), width = rows === cols ? 1 : countOf(place[cols]);
  const item = (row, col) => {
    const at = (rows > cols ? col * height + row : row * width + col) * itemsize;
    return textOf(bytes.subarray(at, at + itemsize), array.dtype);
  };
  const cells = Array.from({ length: height }, (_, row) => Array.from({ length: width }, (__, col) => item(row, col)));
  return { cells, rows: starts[rows], cols: starts[cols] };
}

function chunks({ array, file, source }, query, { archive, report }) {
  const member = archive?.members[query.member ?? 0].name;
  const start = integer(query, "start", 0, 0, Math.max(0, file.nchunks - 1));
  const stop = Math.min(file.nchunks, start + integer(query, "count", 512, 1, 2048));
  const offsets = [], stored = [], decoded = [], regions = [];
  for (let k = start; k < stop; k++) {
    offsets.push(file.starts[k]);
    stored.push((file.starts[k + 1] ?? file.end ?? source.size) - file.starts[k]);
    decoded.push(array.chunkNbytes(k));
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

// An array of pictures as a clip, whose number is that of the member.
async function picturesOf(opened, number) {
  const { array } = await arrayOf(opened, number);
  return { store: storeOf(array, opened.archive?.members[number].name ?? "array") };
}

async function clip(opened, query) {
  const ordinal = Number(query.clip ?? 0);
  return { ...clips.VIEWS.clip(await picturesOf(opened, ordinal), { clip: 0 }), ordinal };
}

export async function* frames(opened, query) {
  yield* clips.frames(await picturesOf(opened, Number(query.clip ?? 0)), { ...query, clip: 0 });
}

export const VIEWS = { clip, array: describe, ...Object.fromEntries(
  Object.entries({ plane, line, statistics, table, chunks }).map(([name, view]) => [name, ofArray(view)])) };

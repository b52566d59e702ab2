// Arrays in one file: shape, dtype, and selections as bytes in C order.

import { need } from "./errors.js";
import { GRID } from "./header.js";
import { parseDtype } from "./dtype.js";

const MAX_SELECTION = 2 ** 28;

export class BlpArray {
  // Null if the file has no array.
  static of(file) {
    const meta = file.metadata;
    if (meta?.container !== "numpy") return null;
    const array = new BlpArray();
    array.file = file;
    array.dtype = parseDtype(meta.dtype, meta.logical_dtype);
    array.shape = meta.shape;
    array.isFortran = (meta.order ?? "C") === "F";
    array.attrs = meta.attrs ?? {};
    const lengths = (list, least) => Array.isArray(list) && list.length <= 64 &&
      list.every((each) => Number.isSafeInteger(each) && each >= least);
    need(lengths(array.shape, 0) && ["C", "F"].includes(meta.order ?? "C"), "format", "shape or order");
    array.nbytes = array.shape.reduce((product, each) => product * each, array.dtype.itemsize);
    need(Number.isSafeInteger(array.nbytes), "format", "the shape is too large");
    array.stored = array.isFortran ? [...array.shape].reverse() : array.shape;
    if (file.header.features & GRID) {
      need(lengths(meta.chunks, 1) && meta.chunks.length === array.shape.length && meta.chunks.length, "format", "chunks");
      array.chunks = array.isFortran ? [...meta.chunks].reverse() : meta.chunks;
      array.counts = array.stored.map((length, axis) => Math.ceil(length / array.chunks[axis]));
      const count = array.counts.reduce((product, each) => product * each, 1) || 1;
      need(count === file.nchunks && file.header.chunkSize === -1, "format", `the grid has ${count} chunks, the file ${file.nchunks}`);
      need(array.gridNbytes(count - 1) === file.header.lastChunk, "format", "last_chunk is not that of the grid");
    } else need(array.nbytes === file.nbytes, "format", `the shape needs ${array.nbytes} bytes, the chunks have ${file.nbytes}`);
    return array;
  }

  // Returns start and length along each stored axis of a chunk of the grid.
  box(number) {
    const box = [];
    for (let axis = this.counts.length - 1; axis >= 0; axis--) {
      const count = this.counts[axis] || 1, at = (number % count) * this.chunks[axis];
      number = Math.floor(number / count);
      box.unshift([at, Math.min(this.chunks[axis], this.stored[axis] - at)]);
    }
    return box;
  }

  gridNbytes(number) {
    return this.box(number).reduce((product, [, length]) => product * length, this.dtype.itemsize);
  }

  chunkNbytes(number) {
    const { header, nchunks } = this.file;
    return this.chunks ? this.gridNbytes(number) : number === nchunks - 1 ? header.lastChunk : header.chunkSize;
  }

  // Returns the bytes of a selection: [start, stop, step] for each axis, step at least 1.
  async read(selection = this.shape.map((length) => [0, length, 1])) {
    const plan = this.plan(selection);
    if (!plan.numbers.length) return new Uint8Array(0);
    const chunks = await this.file.chunks(plan.numbers, (number) => this.chunkNbytes(number));
    return this.chunks ? this.gatherGrid(plan, chunks) : this.gather(plan, chunks);
  }

  // Returns how many bytes `read` fetches, in how many requests.
  costOf(selection) {
    return this.file.costOf(this.plan(selection).numbers, (number) => this.chunkNbytes(number));
  }

  // Returns which chunks a selection needs, and where its items go.
  plan(selection) {
    need(selection.length === this.shape.length, "format", "the selection has another number of axes");
    selection.forEach(([start, stop, step], axis) => need(0 <= start && start <= stop && stop <= this.shape[axis] && step >= 1,
      "format", `the selection ends behind axis ${axis}`));
    const chosen = this.isFortran ? [...selection].reverse() : selection;
    const shape = chosen.map(([start, stop, step]) => Math.ceil((stop - start) / step));
    const count = shape.reduce((product, each) => product * each, 1);
    need(count * this.dtype.itemsize <= MAX_SELECTION, "unsupported", `the selection has more than ${MAX_SELECTION} bytes`);
    const steps = Array(shape.length);
    // Where an item of the selection goes: in C order of the array's own axes.
    const order = shape.map((_, axis) => axis);
    if (this.isFortran) order.reverse();
    let step = 1;
    for (const axis of order.reverse()) {
      steps[axis] = step;
      step *= shape[axis];
    }
    const plan = { chosen, shape, steps, count };
    if (!count || !this.dtype.itemsize) return { ...plan, numbers: [] };
    return { ...plan, numbers: this.chunks ? this.gridNumbers(plan) : this.linearNumbers(plan) };
  }

  // Yields where each line along the last stored axis begins, and the place of its first item.
  *lines({ chosen, shape, steps }) {
    const { dtype: { itemsize }, stored } = this, inner = chosen.at(-1) ?? [0, 1, 1];
    const strides = stored.map((_, axis) => stored.slice(axis + 1).reduce((product, each) => product * each, itemsize));
    for (const place of places(shape.slice(0, -1))) {
      const base = place.reduce((sum, each, axis) => sum + (chosen[axis][0] + each * chosen[axis][2]) * strides[axis], inner[0] * itemsize);
      yield [base, place.reduce((sum, each, axis) => sum + each * steps[axis], 0)];
    }
  }

  linearNumbers(plan) {
    const { dtype: { itemsize }, file } = this, size = file.header.chunkSize;
    const needed = new Set(), n = plan.shape.at(-1) ?? 1, step = plan.chosen.at(-1)?.[2] ?? 1;
    for (const [base] of this.lines(plan)) {
      const last = base + (n - 1) * step * itemsize + itemsize - 1;
      for (let k = Math.floor(base / size); k <= Math.floor(last / size); k++) needed.add(Math.min(k, file.nchunks - 1));
    }
    return [...needed].sort((a, b) => a - b);
  }

  gather(plan, chunks) {
    const { dtype: { itemsize }, file } = this, size = file.header.chunkSize, out = new Uint8Array(plan.count * itemsize);
    const n = plan.shape.at(-1) ?? 1, step = plan.chosen.at(-1)?.[2] ?? 1, to = plan.steps.at(-1) ?? 1;
    for (const [base, first] of this.lines(plan)) {
      for (let i = 0; i < n; i++) {
        let at = base + i * step * itemsize, target = (first + i * to) * itemsize, left = itemsize;
        while (left) {
          const k = Math.floor(at / size), from = at - k * size, chunk = chunks.get(k), some = Math.min(left, chunk.length - from);
          for (let b = 0; b < some; b++) out[target + b] = chunk[from + b];
          at += some;
          target += some;
          left -= some;
        }
      }
    }
    return out;
  }

  gridNumbers({ chosen, shape }) {
    const spans = chosen.map(([start, , step], axis) => {
      const used = new Set();
      for (let i = 0; i < shape[axis]; i++) used.add(Math.floor((start + i * step) / this.chunks[axis]));
      return [...used];
    });
    const numbers = [];
    for (const place of places(spans.map((each) => each.length))) {
      numbers.push(place.reduce((sum, each, axis) => sum * this.counts[axis] + spans[axis][each], 0));
    }
    return numbers;
  }

  gatherGrid({ chosen, steps, count, numbers }, chunks) {
    const { itemsize } = this.dtype, out = new Uint8Array(count * itemsize);
    for (const number of numbers) {
      const box = this.box(number), chunk = chunks.get(number);
      const picks = box.map(([at, length], axis) => {
        const [start, stop, step] = chosen[axis], found = [];
        const first = Math.max(0, Math.ceil((at - start) / step));
        for (let i = first, x = start + first * step; x < Math.min(stop, at + length); i++, x += step) found.push([x - at, i]);
        return found;
      });
      for (const place of places(picks.map((each) => each.length))) {
        let from = 0, to = 0;
        place.forEach((each, axis) => {
          from = from * box[axis][1] + picks[axis][each][0];
          to += picks[axis][each][1] * steps[axis];
        });
        for (let b = 0; b < itemsize; b++) out[to * itemsize + b] = chunk[from * itemsize + b];
      }
    }
    return out;
  }
}

// Yields the indices of an array of this shape in C order; the list is reused.
function* places(shape) {
  if (shape.includes(0)) return;
  const place = shape.map(() => 0);
  for (;;) {
    yield place;
    let axis = shape.length - 1;
    while (axis >= 0 && ++place[axis] === shape[axis]) place[axis--] = 0;
    if (axis < 0) return;
  }
}
